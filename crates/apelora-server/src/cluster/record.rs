//! Fence records: `GET /apelora/v1/fence/records` and one of them.

use apelora_fencing::name::RecordId;
use apelora_maintenance::json::iso;
use apelora_store::{EvidenceRow, FenceRecord as Row, RecordQuery};
use uuid::Uuid;

use super::detail::{Evidence, FenceRecord, FenceRecords};
use super::view::{Reason, secs};
use crate::app::store_error;
use crate::authorise::{self, authorise};
use crate::baremetal::{Call, PAGE_MAX};
use crate::endpoints;
use crate::error::ApiError;
use crate::reply::Success;

/// The record as it is shown; `evidence` is `None` in lists.
pub(super) fn shown(row: Row, evidence: Option<Vec<EvidenceRow>>) -> FenceRecord {
    let (epoch, holder) = row.made_by;
    FenceRecord {
        seq: row.seq,
        id: row.id.0.to_string(),
        member: row.member.to_string(),
        incarnation: row.incarnation.0,
        hardware_uuid: row.hardware_uuid,
        status: row.status.as_str(),
        reason: row.reason.as_deref().map(Reason::of),
        sent: row.sent,
        provider: row.provider,
        target: row.target,
        mapping_sha256: row.mapping_sha256,
        offline_for_secs: secs(row.offline_for),
        members_total: row.members_total,
        members_offline: row.members_offline,
        lease_remaining_secs: secs(row.lease_remaining),
        responder: row.responder.to_string(),
        second: row.second.map(|member| member.to_string()),
        last_online_at: row.last_online_at.map(iso),
        last_power_off_at: row.last_power_off_at.map(iso),
        epoch: epoch.0,
        holder: holder.0.to_string(),
        adopted_epoch: row.adopted_by.map(|(epoch, _)| epoch.0),
        intent_at: iso(row.intent_at),
        permit_at: row.permit_at.map(iso),
        adopted_at: row.adopted_at.map(iso),
        first_off_at: row.first_off_at.map(iso),
        final_at: row.final_at.map(iso),
        off_readings: row.readings.0,
        other_readings: row.readings.1,
        evidence: evidence.map(|rows| rows.into_iter().map(seen).collect()),
    }
}

fn seen(row: EvidenceRow) -> Evidence {
    Evidence {
        at: iso(row.at),
        offset_secs: secs(row.offset),
        kind: row.kind,
        reason: Reason::known(&row.outcome),
        outcome: row.outcome,
        detail: row.detail,
    }
}

/// GET /apelora/v1/fence/records.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_GET, None)?;
    let args = call.request.query();
    args.only(&["member", "open", "marker", "limit"])?;
    let member = args.text("member")?.map(super::member_name).transpose()?;
    let query = RecordQuery {
        member,
        open: args.bool("open")?.unwrap_or(false),
        before: args.seq("marker")?,
        limit: args.limit(PAGE_MAX)?,
    };
    let rows = call.app.store().fence_records(&query).await.map_err(store_error)?;
    let more = rows.len() == query.limit as usize;
    let next =
        rows.last().filter(|_| more).map(|last| args.next(call.base, endpoints::FENCE_RECORDS, last.seq));
    super::json(&FenceRecords { records: rows.into_iter().map(|row| shown(row, None)).collect(), next })
}

/// GET /apelora/v1/fence/records/{record}.
pub(super) async fn show(call: &Call<'_>, id: &str) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_GET, None)?;
    call.request.query().only(&[])?;
    let missing = || ApiError::not_found(format!("Fence record {id} could not be found."));
    let known = Uuid::parse_str(id).map_err(|_| missing())?;
    let found = call.app.store().fence_record(RecordId(known)).await.map_err(store_error)?;
    let (row, evidence) = found.ok_or_else(missing)?;
    super::json(&shown(row, Some(evidence)))
}

//! The members: the list, one of them whole, and the world as it was last judged.

use apelora_fencing::name::MemberName;
use apelora_fencing::status::MemberStatus;
use apelora_maintenance::json::iso;
use apelora_store::{
    NodeColumn, NodeKey, ProofQuery, RecordQuery, StoredInstance, StoredProof as ProofRow, StoredRecovery,
    Voided,
};
use serde_json::Value;

use super::detail::{Explanation, Guard, Instance, MemberDetail, Recovery, StoredProof};
use super::look::Look;
use super::view::{
    BmcMap, Check, InstanceCounts, Judged, MapEntry, Member, Members, OpenFenceRecord, Proof, secs,
};
use super::{member_name, no_member, record};
use crate::app::{App, store_error};
use crate::authorise::{self, authorise};
use crate::baremetal::Call;
use crate::error::ApiError;
use crate::reply::Success;

/// How many records and proofs are shown with a member; the rest is in lists of their own.
const LATEST: u32 = 5;

/// GET /apelora/v1/members.
pub(super) async fn list(call: &Call<'_>) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_GET, None)?;
    call.request.query().only(&[])?;
    let look = call.app.look().await?;
    super::json(&Members {
        leader: look.leader(),
        map: look.report().map(|report| BmcMap::from(&report.map)),
        members: look.names().iter().map(|name| member(&look, name)).collect(),
    })
}

/// GET /apelora/v1/members/{member}.
pub(super) async fn show(call: &Call<'_>, name: &str) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_GET, None)?;
    call.request.query().only(&[])?;
    let (look, name) = find(call.app, name).await?;
    super::json(&detail(call.app, &look, &name).await?)
}

/// GET /apelora/v1/members/{member}/explain.
pub(super) async fn explain(call: &Call<'_>, name: &str) -> Result<Success, ApiError> {
    authorise(call.cx.caller, authorise::MEMBER_GET, None)?;
    call.request.query().only(&[])?;
    let (look, name) = find(call.app, name).await?;
    super::json(&Explanation {
        leader: look.leader(),
        member: name.to_string(),
        judged: judged(&look, &name),
        guards: guards(&look, &name),
        world: look.world().cloned(),
    })
}

/// What is known, and the name, if anything is known of a member of this name.
pub(super) async fn find(app: &App, name: &str) -> Result<(Look, MemberName), ApiError> {
    let name = member_name(name)?;
    let look = app.look().await?;
    if look.names().contains(&name) { Ok((look, name)) } else { Err(no_member(&name)) }
}

fn member(look: &Look, name: &MemberName) -> Member {
    let (stored, verdict) = (look.stored(name), look.judged(name));
    let row = stored.map(|stored| stored.row.clone()).unwrap_or_default();
    let now = |text: Option<&str>| text.filter(|_| look.is_current()).map(str::to_owned);
    Member {
        name: name.to_string(),
        status: now(look.status_word(name)),
        action: now(verdict.map(|verdict| verdict.action.as_str())),
        last_judged: judged(look, name),
        incarnation: row.incarnation.0,
        online: row.online,
        last_online_secs: row.last_online.map(secs),
        fenced: row.is_fenced(),
        proof: row.proof.as_ref().map(|proof| Proof {
            kind: proof.kind.as_str().to_owned(),
            incarnation: proof.incarnation.0,
            age_secs: secs(proof.age),
            stands: row.is_fenced(),
            recovery_started: proof.recovery_started,
        }),
        in_progress: look.open(name).map(|open| OpenFenceRecord {
            id: open.id.0.to_string(),
            status: open.status.as_str().to_owned(),
        }),
        provider: look.mapped(name).map(|entry| entry.provider.clone()),
        check: check(look, verdict),
        distrusted: row.distrusted,
        held: row.held,
        instances: counts(verdict),
    }
}

fn check(look: &Look, verdict: Option<&MemberStatus>) -> Option<Check> {
    Some(Check::of(verdict?.check.as_ref()?, look.report_age()?))
}

fn counts(verdict: Option<&MemberStatus>) -> InstanceCounts {
    let mut counts = InstanceCounts::default();
    for instance in verdict.iter().flat_map(|verdict| &verdict.instances) {
        match instance.plan.as_str() {
            "restart" => counts.restart += 1,
            "move" => counts.moved += 1,
            _ => counts.stay += 1,
        }
    }
    counts
}

fn judged(look: &Look, name: &MemberName) -> Option<Judged> {
    let verdict = look.judged(name)?;
    let mut reasons: Vec<String> = Vec::new();
    for reason in verdict.guards.iter().filter_map(|guard| guard.reason.as_ref()) {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    Some(Judged {
        age_secs: secs(look.pass_age()?),
        status: look.status_word(name).map(str::to_owned),
        action: verdict.action.clone(),
        sentence: verdict.sentence.clone(),
        reasons,
    })
}

fn guards(look: &Look, name: &MemberName) -> Vec<Guard> {
    look.judged(name).iter().flat_map(|verdict| verdict.guards.iter().map(Guard::from)).collect()
}

async fn detail(app: &App, look: &Look, name: &MemberName) -> Result<MemberDetail, ApiError> {
    let store = app.store();
    let node =
        store.node(&NodeKey::Name(name.to_string()), &[NodeColumn::Uuid]).await.map_err(store_error)?;
    let query = ProofQuery { member: Some(name.clone()), limit: LATEST, ..ProofQuery::default() };
    let proofs = store.proofs(&query).await.map_err(store_error)?;
    let query = RecordQuery { member: Some(name.clone()), limit: LATEST, ..RecordQuery::default() };
    let mut records = Vec::new();
    for row in store.fence_records(&query).await.map_err(store_error)? {
        // Read again with its evidence; a record is never deleted.
        if let Some((row, evidence)) = store.fence_record(row.id).await.map_err(store_error)? {
            records.push(record::shown(row, Some(evidence)));
        }
    }
    let recoveries = store.recoveries(Some(name)).await.map_err(store_error)?;
    let inventory = store.inventory().await.map_err(store_error)?;
    Ok(MemberDetail {
        leader: look.leader(),
        member: member(look, name),
        node_uuid: node.map(|row| row.facts().uuid),
        mapped: look.mapped(name).map(MapEntry::from),
        guards: guards(look, name),
        proofs: proofs.iter().map(proof).collect(),
        records,
        instances: instances(look, name, &recoveries, &inventory),
    })
}

fn proof(row: &ProofRow) -> StoredProof {
    StoredProof {
        id: row.id.to_string(),
        kind: row.kind.as_str().to_owned(),
        incarnation: row.incarnation.0,
        at: iso(row.at),
        age_secs: secs(row.age),
        record: row.record.map(|record| record.0.to_string()),
        evidence: serde_json::from_str::<Value>(&row.evidence).ok(),
        recovery_started: row.recovery_started,
        voided: row.voided.map(|why| match why {
            Voided::Withdrawn => "withdrawn",
            Voided::Replaced => "replaced",
        }),
    }
}

/// What the leader plans for the member's instances, then restarts that it does not tell of any more, then instances of which
/// only the stored inventory knows.
fn instances(
    look: &Look,
    name: &MemberName,
    recoveries: &[StoredRecovery],
    inventory: &[StoredInstance],
) -> Vec<Instance> {
    let planned = look.judged(name).map(|verdict| verdict.instances.as_slice()).unwrap_or_default();
    let mut shown: Vec<Instance> = planned
        .iter()
        .map(|known| Instance {
            project: known.project.clone(),
            name: known.name.clone(),
            plan: Some(known.plan.clone()),
            target: known.target.as_ref().map(ToString::to_string),
            sentence: known.sentence.clone(),
            recovery: None,
        })
        .collect();
    // Oldest first, so that the latest of several lives stays.
    for stored in recoveries {
        let row = &stored.row;
        let recovery = Recovery {
            incarnation: row.incarnation.0,
            step: row.step.as_str().to_owned(),
            attempts: row.attempts,
            target: row.target.as_ref().map(ToString::to_string),
            detail: row.detail.clone(),
        };
        match shown.iter_mut().find(|known| known.project == row.project && known.name == row.instance) {
            Some(known) => known.recovery = Some(recovery),
            None => shown.push(Instance {
                project: row.project.clone(),
                name: row.instance.clone(),
                plan: None,
                target: recovery.target.clone(),
                sentence: row.detail.clone(),
                recovery: Some(recovery),
            }),
        }
    }
    for stored in inventory.iter().filter(|stored| stored.instance.member == *name) {
        let instance = &stored.instance;
        if !shown.iter().any(|known| known.project == instance.project && known.name == instance.name) {
            shown.push(Instance {
                project: instance.project.clone(),
                name: instance.name.clone(),
                plan: None,
                target: None,
                sentence: "It ran here when the member was last healthy; nothing is planned for it."
                    .to_owned(),
                recovery: None,
            });
        }
    }
    shown
}

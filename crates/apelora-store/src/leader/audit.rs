//! The leader's rows of the audit trail: whole, in the transaction of what they tell.

use apelora_fencing::ReasonCode;
use apelora_fencing::identity::Matched;
use apelora_fencing::name::{Epoch, HolderId, MemberName};
use apelora_fencing::proof::{Ground, PowerOffProof};
use apelora_fencing::record::ProofKind;
use apelora_fencing::write::{AuditAction, AuditRow, Final, Numbers, Outcome, ProofGround, Refusal};
use apelora_maintenance::json::iso;
use serde_json::{Value, json};
use time::PrimitiveDateTime;
use uuid::Uuid;

use super::evidence::{self, Item};
use super::member::lease_json;
use super::proof::kind_sentence;
use super::record::Record;
use super::tx::number;
use crate::engine::DbTime;
use crate::table::audit::Row;

/// Who the worker is in the trail.
pub(super) const WORKER: &str = "system:worker";

/// The instances of a member that are named in an audit row, at most.
const INSTANCES_MAX: usize = 500;

/// The leader as it stands in its rows.
#[derive(Debug, Clone)]
pub(super) struct Author {
    pub(super) epoch: Epoch,
    pub(super) holder: HolderId,
    pub(super) host: String,
}

/// What a row tells beside what the machine's own row says.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    pub(super) summary: String,
    pub(super) evidence: Value,
    pub(super) hardware_uuid: Option<String>,
    /// The node's uuid and name.
    pub(super) node: (Option<String>, Option<String>),
    /// For rows that have no outcome of their own.
    pub(super) outcome: Option<&'static str>,
}

impl Author {
    /// The row in the table.
    pub(super) fn row(&self, uuid: Uuid, at: PrimitiveDateTime, told: &AuditRow, about: About) -> Row {
        self.plain(uuid, at, told.action.as_str(), &told.member, told.outcome, told.reason, about)
    }

    /// A row of an action that the machine does not know.
    #[expect(clippy::too_many_arguments, reason = "the columns of a table")]
    pub(super) fn plain(
        &self,
        uuid: Uuid,
        at: PrimitiveDateTime,
        action: &'static str,
        member: &MemberName,
        outcome: Option<Outcome>,
        reason: Option<ReasonCode>,
        about: About,
    ) -> Row {
        let mut evidence = about.evidence;
        if let Value::Object(evidence) = &mut evidence {
            evidence.insert("epoch".to_owned(), self.epoch.0.into());
            evidence.insert("holder".to_owned(), self.holder.0.to_string().into());
            evidence.insert("host".to_owned(), self.host.as_str().into());
        }
        Row {
            uuid,
            at,
            user: WORKER.to_owned(),
            project: String::new(),
            scope: "system",
            epoch: Some(number(self.epoch.0)),
            action,
            outcome: outcome.map(Outcome::as_str).or(about.outcome).unwrap_or("success"),
            reason_code: reason.map(ReasonCode::as_str),
            node_uuid: about.node.0,
            node_name: about.node.1,
            member: Some(member.as_str().to_owned()),
            hardware_uuid: about.hardware_uuid,
            summary: about.summary,
            evidence: evidence.to_string(),
        }
    }
}

/// A time as evidence shows it.
pub(super) fn utc(at: Option<DbTime>) -> Value {
    at.map_or(Value::Null, |at| iso(at.utc()).into())
}

fn seconds(d: std::time::Duration) -> Value {
    json!(d.as_millis() as f64 / 1_000.0)
}

fn guards(numbers: &Numbers) -> Value {
    json!({
        "offline_s": seconds(numbers.offline_for),
        "members_total": numbers.members_total,
        "members_offline": numbers.members_offline,
        "lease_remaining_s": seconds(numbers.lease_remaining),
    })
}

/// A refusal before any record.
pub(super) fn of_refusal(refusal: &Refusal) -> About {
    let reasons: Vec<Value> = refusal
        .reasons
        .iter()
        .map(|r| json!({ "reason": r.as_str(), "sentence": r.sentence(), "remedy": r.remedy() }))
        .collect();
    let sentence = refusal.reasons.first().map_or("", |reason| reason.sentence());
    About {
        summary: format!("{} is not switched off. {sentence}", refusal.member),
        evidence: json!({ "reasons": reasons, "guards": guards(&refusal.numbers), "sent": false }),
        ..About::default()
    }
}

/// Where the offsets of a final's evidence count from, by the database's clock. The machine counts from its decision,
/// before the intent (or the adoption) was committed: as much earlier as nothing is seen after its end at `now`.
pub(super) fn evidence_base(record: &Record, last: &Final, now: DbTime) -> DbTime {
    let base = record.times.adopted.unwrap_or(record.times.intent);
    let took = last.evidence.iter().map(|seen| seen.offset).max().unwrap_or_default();
    base.min(now.before(took))
}

/// When the two Off readings of a final that is closed at `now` were made, by the database's clock.
pub(super) fn off_times(record: &Record, last: &Final, now: DbTime) -> Option<(DbTime, DbTime)> {
    let (first, second) = evidence::off_readings(last.proof.as_ref()?, &last.evidence)?;
    let base = evidence_base(record, last, now);
    Some((base.after(first), base.after(second)))
}

/// The end of a record: everything that tests/data/fencing/README.md section 7 asks for.
pub(super) fn of_final(
    record: &Record,
    last: &Final,
    told: &AuditRow,
    now: DbTime,
    instances: &[String],
) -> About {
    let r = &record.told;
    let sentence = told.reason.map_or("", ReasonCode::sentence);
    let summary = match told.outcome {
        Some(Outcome::Success) => format!("{} is proven off by its BMC. {sentence}", r.member),
        Some(Outcome::Failed) => format!("The power-off of {} failed. {sentence}", r.member),
        _ => format!("{} was not switched off. {sentence}", r.member),
    };
    let off = off_times(record, last, now);
    let (off_readings, other_readings) = evidence::count(&last.evidence);
    let seen: Vec<Value> = last
        .evidence
        .iter()
        .map(Item::of)
        .map(|i| {
            json!({
                "offset_s": seconds(i.offset), "kind": i.kind, "outcome": i.outcome, "detail": i.detail,
            })
        })
        .collect();
    About {
        summary,
        hardware_uuid: r.hardware_uuid.clone(),
        evidence: json!({
            "record": r.id.0.to_string(),
            "member": r.member.as_str(),
            "incarnation": r.incarnation.0,
            "hardware_uuid": r.hardware_uuid,
            "provider": r.provider,
            "target": r.target,
            "mapping_sha256": r.mapping_sha256,
            "made_by": by(r.made_by),
            "adopted_by": r.adopted_by.map(by),
            "sent": last.sent,
            "already_off": last.proof.is_some() && !last.sent,
            "guards": {
                "offline_s": seconds(r.offline_for),
                "members_total": r.members_total,
                "members_offline": r.members_offline,
                "lease_remaining_s": seconds(r.lease_remaining),
                "last_power_off_at": utc(record.times.last_power_off),
                "last_online_at": utc(record.times.last_online),
                "responder": r.responder.as_str(),
                "second": r.second.as_ref().map(MemberName::as_str),
            },
            "times": {
                "intent_at": utc(Some(record.times.intent)),
                "adopted_at": utc(record.times.adopted),
                "permit_at": utc(record.times.permit),
                "send_at": if last.sent { utc(record.times.send) } else { Value::Null },
                "first_off_at": utc(off.map(|(first, _)| first)),
                "second_off_at": utc(off.map(|(_, second)| second)),
                "final_at": utc(Some(now)),
            },
            "readings": { "off": off_readings, "other": other_readings },
            "seen": seen,
            "instances": instances.iter().take(INSTANCES_MAX).collect::<Vec<_>>(),
            "instances_total": instances.len(),
        }),
        ..About::default()
    }
}

fn by((epoch, holder): (Epoch, HolderId)) -> Value {
    json!({ "epoch": epoch.0, "holder": holder.0.to_string() })
}

/// What a proof by a BMC says of itself.
pub(super) fn of_power_off(proof: &PowerOffProof) -> Value {
    let (first, second) = proof.readings();
    json!({
        "ground": match proof.ground() {
            Ground::Sent(_) => "sent",
            Ground::Unsent => "unsent",
            Ground::Watched => "watched",
        },
        "readings_apart_s": seconds(second.since(first)),
        "matched": match proof.matched() {
            Matched::Uuid(uuid, order) => json!({ "uuid": uuid.to_string(), "byte_order": order }),
            Matched::LabName(name) => json!({ "lab_name": name }),
        },
    })
}

/// What a proof without a record stands on, and the hardware, if it names one.
pub(super) fn of_ground(ground: &ProofGround) -> (Value, Option<String>) {
    match ground {
        ProofGround::Watched(proof) => {
            let uuid = match proof.matched() {
                Matched::Uuid(uuid, _) => Some(uuid.to_string()),
                Matched::LabName(_) => None,
            };
            (of_power_off(proof), uuid)
        }
        ProofGround::LeaseDead(proof) => {
            let lockspaces: Vec<Value> = proof
                .evidence()
                .iter()
                .map(|e| {
                    let mut lease = lease_json(&e.lease);
                    lease["timestamp"] = e.timestamp.into();
                    lease["unchanged_s"] = e.unchanged_s.into();
                    lease
                })
                .collect();
            (json!({ "lockspaces": lockspaces }), None)
        }
    }
}

/// The sentence of a proof.
pub(super) fn fenced_summary(member: &MemberName, kind: ProofKind) -> String {
    format!("{member} is fenced: {}. Its instances may be restarted elsewhere.", kind_sentence(kind))
}

/// The sentence of the other rows of the machine.
pub(super) fn plain_summary(told: &AuditRow) -> String {
    let member = &told.member;
    match (told.action, told.reason) {
        (AuditAction::Returned, _) => {
            format!("{member} is Online again; the proof that it was off has ended.")
        }
        (AuditAction::ProofWithdrawn, _) => {
            format!("{member} reads On although it was proven off.")
        }
        (AuditAction::BmcChecked, Some(reason)) => {
            format!("The BMC of {member} was checked. {}", reason.sentence())
        }
        (AuditAction::BmcChecked, None) => format!("The BMC of {member} was checked."),
        (AuditAction::BmcDistrusted, _) => {
            format!("The BMC map's entry of {member} is distrusted. {}", ReasonCode::Distrusted.sentence())
        }
        (action, _) => format!("{} of {member}", action.as_str()),
    }
}

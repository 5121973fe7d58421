//! What the cluster API shows of one member, field by field: guards, proofs, fence records, instances.

// The derived code qualifies what needs no qualification.
#![allow(unused_qualifications)]

use apelora_fencing::status::GuardStatus;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::view::{Judged, Leader, MapEntry, Member, Reason};

/// A member, whole.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemberDetail {
    /// Who leads, and how old what follows is.
    pub(super) leader: Leader,
    /// The member, as in the list.
    pub(super) member: Member,
    /// The uuid of the node of this name.
    pub(super) node_uuid: Option<String>,
    /// Its entry of the BMC map.
    pub(super) mapped: Option<MapEntry>,
    /// Every guard of the latest verdict, in the order in which they are judged.
    pub(super) guards: Vec<Guard>,
    /// Its proofs, newest first, also those that ended.
    pub(super) proofs: Vec<StoredProof>,
    /// Its latest fence records with their evidence, newest first.
    pub(super) records: Vec<FenceRecord>,
    /// What would become, or became, of its instances.
    pub(super) instances: Vec<Instance>,
}

/// A proof that a member is, or was, off.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoredProof {
    /// Its id.
    #[schema(format = "uuid")]
    pub(super) id: String,
    /// power-off, lease-dead or person.
    pub(super) kind: String,
    /// The life that it ended.
    pub(super) incarnation: u64,
    /// When it was stored, in UTC.
    #[schema(format = "date-time")]
    pub(super) at: String,
    /// How long ago that is.
    pub(super) age_secs: f64,
    /// The fence record that led to it.
    pub(super) record: Option<String>,
    /// What was seen, or who said so.
    #[schema(value_type = Object)]
    pub(super) evidence: Option<Value>,
    /// Whether a restart builds on it.
    pub(super) recovery_started: bool,
    /// Why it does not count any more: withdrawn (its BMC read On afterwards) or replaced (by a later proof).
    pub(super) voided: Option<&'static str>,
}

/// What a guard found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Guard {
    /// Its word.
    guard: String,
    /// Whether it lets a power-off pass.
    holds: bool,
    /// The reason code of its refusal.
    reason: Option<String>,
    /// What it found, with its numbers.
    sentence: String,
    /// What to do about a refusal.
    remedy: Option<String>,
}

impl From<&GuardStatus> for Guard {
    fn from(guard: &GuardStatus) -> Self {
        Self {
            guard: guard.guard.clone(),
            holds: guard.reason.is_none(),
            reason: guard.reason.clone(),
            sentence: guard.sentence.clone(),
            remedy: guard.remedy.clone(),
        }
    }
}

/// A page of fence records, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FenceRecords {
    /// The records, without their evidence.
    pub(super) records: Vec<FenceRecord>,
    /// The next page, where more may follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// The record of one power-off, from the intent to its end.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FenceRecord {
    /// Its place in the order of all; grows.
    pub(super) seq: i64,
    /// Its id.
    #[schema(format = "uuid")]
    pub(super) id: String,
    /// Whom it is about.
    pub(super) member: String,
    /// Which life of the member.
    pub(super) incarnation: u64,
    /// The mapped hardware; null in the lab.
    pub(super) hardware_uuid: Option<String>,
    /// intent, sent, fenced, failed, refused or superseded.
    pub(super) status: &'static str,
    /// Why it ended so.
    pub(super) reason: Option<Reason>,
    /// Whether a power-off was or may have been sent; null while that is open.
    pub(super) sent: Option<bool>,
    /// Through what.
    pub(super) provider: String,
    /// Where the BMC is.
    pub(super) target: String,
    /// The digest of the BMC map that it was made from.
    pub(super) mapping_sha256: String,
    /// How long the member had been Offline.
    pub(super) offline_for_secs: f64,
    /// Members that were listed.
    pub(super) members_total: u32,
    /// Members that counted as Offline.
    pub(super) members_offline: u32,
    /// Lease time that was left.
    pub(super) lease_remaining_secs: f64,
    /// The member that answered.
    pub(super) responder: String,
    /// The member that confirmed it.
    pub(super) second: Option<String>,
    /// When the member had last been stored as Online again.
    pub(super) last_online_at: Option<String>,
    /// The power-off before this one.
    pub(super) last_power_off_at: Option<String>,
    /// The epoch of the worker that made it.
    pub(super) epoch: u64,
    /// That worker's holder id.
    pub(super) holder: String,
    /// The epoch of the worker that took it over.
    pub(super) adopted_epoch: Option<u64>,
    /// When the intent was committed.
    pub(super) intent_at: String,
    /// When the permit was committed: from then on a power-off may have been sent.
    pub(super) permit_at: Option<String>,
    /// When it was taken over.
    pub(super) adopted_at: Option<String>,
    /// When the first Off reading of its proof was made.
    pub(super) first_off_at: Option<String>,
    /// When it ended.
    pub(super) final_at: Option<String>,
    /// How many readings said Off.
    pub(super) off_readings: u32,
    /// How many said something else.
    pub(super) other_readings: u32,
    /// What was seen and done, in order; null in lists.
    pub(super) evidence: Option<Vec<Evidence>>,
}

/// One thing that was seen or done in the course of a record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Evidence {
    /// When, in UTC.
    pub(super) at: String,
    /// Since the intent, or since it was taken over.
    pub(super) offset_secs: f64,
    /// incus, identity, power or send.
    pub(super) kind: String,
    /// What it came to: a power word, an answer, a reason code.
    pub(super) outcome: String,
    /// The sentence and remedy of an outcome that is a reason code.
    pub(super) reason: Option<Reason>,
    /// Bounded detail; never a secret.
    pub(super) detail: String,
}

/// An instance of a member.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Instance {
    /// Its project.
    pub(super) project: String,
    /// Its name.
    pub(super) name: String,
    /// What is planned: restart, move or stay; null when only its restart is known.
    pub(super) plan: Option<String>,
    /// Where to.
    pub(super) target: Option<String>,
    /// Why it stays, or how far its restart is.
    pub(super) sentence: String,
    /// How far its restart is; null before it began.
    pub(super) recovery: Option<Recovery>,
}

/// How far a restart is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recovery {
    /// Of which life of the member.
    pub(super) incarnation: u64,
    /// planned, moving, moved, starting, done, stays or gave_up.
    pub(super) step: String,
    /// How often the step was tried.
    pub(super) attempts: u32,
    /// Where to.
    pub(super) target: Option<String>,
    /// What happened, in words.
    pub(super) detail: String,
}

/// The world as it was last judged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// Who leads, and how old what follows is.
    pub(super) leader: Leader,
    /// The member.
    pub(super) member: String,
    /// The verdict on it.
    pub(super) judged: Option<Judged>,
    /// Every guard, in the order in which they are judged.
    pub(super) guards: Vec<Guard>,
    /// What was judged, complete and of all members: `apelora fence replay` judges it again.
    #[schema(value_type = Object)]
    pub(super) world: Option<Value>,
}

//! What a leader tells the control plane, as one document: the latest pass, every verdict, the map, the settings.
//!
//! It is for people and programs to read; nothing is decided on it. Fields may be added; a reader ignores those that it
//! does not know. Ages are as of the moment when the document was written.

use serde::{Deserialize, Serialize};

use crate::decide::{Decision, Verdict};
use crate::guard::Finding;
use crate::name::{MemberName, RecordId};
use crate::world::World;

/// The document. `W` is how the judged world is read: a reader that only hands it on takes it as plain JSON, so that a world
/// of a newer leader does not keep it from reading the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status<W = World> {
    /// The name of the worker's service (`APELORA_HOST`).
    pub worker: String,
    /// Whether it stops before every permit.
    pub dry_run: bool,
    /// The latest pass; absent until the first one of this leadership ended.
    pub pass: Option<PassStatus<W>>,
    /// The power-off in progress.
    pub in_progress: Option<InProgress>,
    /// The BMC map.
    pub map: MapStatus,
    /// Every member of the latest pass, by name.
    pub members: Vec<MemberStatus>,
    /// The settings in force. A secret stands there by its name only.
    pub settings: Vec<SettingStatus>,
}

/// The latest pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassStatus<W = World> {
    /// How long ago it was judged.
    pub age_ms: u64,
    /// Which member answered; absent when the member list could not be read.
    pub responder: Option<MemberName>,
    /// Which other member confirmed or contradicted it.
    pub second: Option<MemberName>,
    /// Why the member list could not be read.
    pub problem: Option<String>,
    /// What was judged, complete: `apelora fence replay` judges it again.
    pub world: W,
}

/// The power-off in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InProgress {
    /// Of whom.
    pub member: MemberName,
    /// Under which record.
    pub record: RecordId,
}

/// Whether there is a usable map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapCondition {
    /// None is configured: nothing is ever switched off.
    None,
    /// In force.
    Valid,
    /// Refused as a whole: nothing is switched off until it is corrected.
    Invalid,
}

/// The BMC map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapStatus {
    /// Whether it is usable.
    pub condition: MapCondition,
    /// SHA-256 of the file, in hex.
    pub sha256: Option<String>,
    /// Why it is refused, with the remedy.
    pub problem: Option<String>,
    /// What is odd about it although it is valid, such as a member that the cluster does not list.
    pub warnings: Vec<String>,
    /// Its entries.
    pub members: Vec<MappedStatus>,
}

/// One entry of the map, without the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedStatus {
    /// Whose.
    pub member: MemberName,
    /// Through what.
    pub provider: String,
    /// Where.
    pub target: String,
    /// The hardware; absent in the lab.
    pub uuid: Option<String>,
    /// The names of its secrets.
    pub secrets: Vec<String>,
}

/// What was decided about a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Whom.
    pub member: MemberName,
    /// `intent`, `watch` or `refuse`.
    pub action: String,
    /// The verdict as one sentence.
    pub sentence: String,
    /// Every guard, in the order in which they are judged.
    pub guards: Vec<GuardStatus>,
    /// The latest reading of its BMC by the idle drill.
    pub check: Option<CheckStatus>,
    /// What would become, or becomes, of the instances that it ran.
    pub instances: Vec<InstanceStatus>,
}

/// What a guard found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardStatus {
    /// Its word.
    pub guard: String,
    /// The reason code of its refusal; absent when it holds.
    pub reason: Option<String>,
    /// What it found, with its numbers.
    pub sentence: String,
    /// What to do about a refusal.
    pub remedy: Option<String>,
}

/// A reading of the idle drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckStatus {
    /// How long ago.
    pub age_ms: u64,
    /// The reason code of what would stop a power-off; absent when all is well.
    pub reason: Option<String>,
    /// What was read, or what is wrong.
    pub detail: String,
}

/// What is planned for an instance, or how far its restart is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// `restart`, `move` or `stay`.
    pub plan: String,
    /// Where to; absent when it stays.
    pub target: Option<MemberName>,
    /// Why it stays, or how far its restart is.
    pub sentence: String,
}

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingStatus {
    /// Its name in the environment.
    pub name: String,
    /// Its value as text; a secret's is never here.
    pub value: String,
    /// `default`, `file`, `environment` or `flag`.
    pub source: String,
}

impl MemberStatus {
    /// Everything that was decided, without what the drill and the recovery know.
    pub fn of(decision: &Decision) -> Vec<Self> {
        decision.verdicts.iter().map(Self::of_verdict).collect()
    }

    fn of_verdict(verdict: &Verdict) -> Self {
        Self {
            member: verdict.member.clone(),
            action: verdict.action.as_str().to_owned(),
            sentence: verdict.sentence(),
            guards: verdict.findings.iter().map(GuardStatus::of).collect(),
            check: None,
            instances: Vec::new(),
        }
    }
}

impl GuardStatus {
    fn of(finding: &Finding) -> Self {
        Self {
            guard: finding.guard.as_str().to_owned(),
            reason: finding.refusal.map(|reason| reason.as_str().to_owned()),
            sentence: finding.to_string(),
            remedy: finding.refusal.map(|reason| reason.remedy().to_owned()),
        }
    }
}

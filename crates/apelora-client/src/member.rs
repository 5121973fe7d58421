//! What the cluster API tells of members, and the settings. Fields that this client does not use are in the JSON beside.

use serde::Deserialize;
use serde_json::Value;

/// Something that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown<T> {
    /// What this client knows of it.
    pub known: T,
    /// All of it.
    pub json: Value,
}

/// Who leads, and how old its report is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Leader {
    /// `leading` or `none`.
    pub state: String,
    /// Counts the leaderships.
    pub epoch: Option<u64>,
    /// The worker that reported last.
    pub worker: Option<String>,
    /// Whether the report still says how things are.
    pub current: bool,
    /// How long ago its latest pass was judged.
    pub pass_age_secs: Option<f64>,
    /// All of this as one sentence.
    pub sentence: String,
}

/// Whether there is a usable BMC map.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BmcMap {
    /// `none`, `valid` or `invalid`.
    pub condition: String,
    /// Why it is refused, with the remedy.
    pub problem: Option<String>,
    /// What is odd about it.
    pub warnings: Vec<String>,
}

/// The members.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Members {
    /// Who leads.
    pub leader: Leader,
    /// The BMC map; `None` before the first report.
    pub map: Option<BmcMap>,
    /// By name.
    pub members: Vec<Member>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What the cluster says of it now; `None` when that is not known now.
    pub status: Option<String>,
    /// `intent`, `watch` or `refuse`; `None` when that is not known now.
    pub action: Option<String>,
    /// The latest verdict, however old.
    pub last_judged: Option<Judged>,
    /// Which life it is in.
    pub incarnation: u64,
    /// Whether it was Online when a leader last looked.
    pub online: bool,
    /// How long ago it was stored as Online again.
    pub last_online_secs: Option<f64>,
    /// Whether a proof stands.
    pub fenced: bool,
    /// Its latest proof.
    pub proof: Option<Proof>,
    /// Its power-off in progress.
    pub in_progress: Option<InProgress>,
    /// Through what it would be switched off.
    pub provider: Option<String>,
    /// The latest reading of its BMC in idle time.
    pub check: Option<Check>,
    /// Whether its mapping is distrusted.
    pub distrusted: bool,
    /// Whether an entry locks its power.
    pub held: bool,
    /// What would become of its instances.
    pub instances: InstanceCounts,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Judged {
    /// How long ago.
    pub age_secs: f64,
    /// What the cluster said.
    pub status: Option<String>,
    /// `intent`, `watch` or `refuse`.
    pub action: String,
    /// The verdict as one sentence.
    pub sentence: String,
    /// Reason codes.
    pub reasons: Vec<String>,
}

/// A proof.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Proof {
    /// `power-off`, `lease-dead` or `person`.
    pub kind: String,
    /// How long ago it was stored.
    pub age_secs: f64,
    /// Whether it counts for the present life.
    pub stands: bool,
}

/// A power-off in progress.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct InProgress {
    /// The record.
    pub id: String,
    /// `intent` or `sent`.
    pub status: String,
}

/// A reason code with its sentence and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Reason {
    /// The stable word.
    pub code: String,
    /// What it means.
    pub sentence: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// A reading of a BMC in idle time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Check {
    /// How long ago.
    pub age_secs: f64,
    /// Whether the right server answered.
    pub good: bool,
    /// What would stop a power-off.
    pub reason: Option<Reason>,
    /// What was read, or what is wrong.
    pub detail: String,
}

/// What would become of a member's instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct InstanceCounts {
    /// Start elsewhere.
    pub restart: u64,
    /// Move and stay stopped.
    #[serde(rename = "move")]
    pub moved: u64,
    /// Stay.
    pub stay: u64,
}

/// A member, whole.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct MemberDetail {
    /// Who leads.
    pub leader: Leader,
    /// As in the list.
    pub member: Member,
    /// The uuid of the node of its name.
    pub node_uuid: Option<String>,
    /// Its entry of the BMC map.
    pub mapped: Option<MapEntry>,
    /// Every guard.
    pub guards: Vec<Guard>,
    /// Its proofs, newest first.
    pub proofs: Vec<StoredProof>,
    /// Its latest fence records, newest first.
    pub records: Vec<FenceRecord>,
    /// Its instances.
    pub instances: Vec<Instance>,
}

/// An entry of the BMC map.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MapEntry {
    /// Whose.
    pub member: String,
    /// Through what.
    pub provider: String,
    /// Where.
    pub target: String,
    /// The hardware.
    pub uuid: Option<String>,
    /// The names of its secrets.
    pub secrets: Vec<String>,
}

/// What a guard found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Guard {
    /// Its word.
    pub guard: String,
    /// Whether it lets a power-off pass.
    pub holds: bool,
    /// The reason code of its refusal.
    pub reason: Option<String>,
    /// What it found, with its numbers.
    pub sentence: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// A proof, also one that ended.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StoredProof {
    /// `power-off`, `lease-dead` or `person`.
    pub kind: String,
    /// Which life it ended.
    pub incarnation: u64,
    /// When.
    pub at: String,
    /// The record that led to it.
    pub record: Option<String>,
    /// What was seen, or who said so.
    pub evidence: Option<Value>,
    /// `withdrawn` or `replaced`.
    pub voided: Option<String>,
}

/// The record of one power-off.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FenceRecord {
    /// Its place in the order of all.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// Whom it is about.
    pub member: String,
    /// `intent`, `sent`, `fenced`, `failed`, `refused` or `superseded`.
    pub status: String,
    /// Why it ended so.
    pub reason: Option<Reason>,
    /// Whether a power-off was or may have been sent.
    pub sent: Option<bool>,
    /// Through what.
    pub provider: String,
    /// Where.
    pub target: String,
    /// When the intent was committed.
    pub intent_at: String,
    /// When it ended.
    pub final_at: Option<String>,
    /// What was seen and done; `None` in lists.
    pub evidence: Option<Vec<Evidence>>,
}

/// One thing that was seen or done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Evidence {
    /// Since the intent, or since it was taken over.
    pub offset_secs: f64,
    /// `incus`, `identity`, `power` or `send`.
    pub kind: String,
    /// What it came to.
    pub outcome: String,
    /// Bounded detail.
    pub detail: String,
}

/// An instance of a member.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Instance {
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// `restart`, `move` or `stay`.
    pub plan: Option<String>,
    /// Where to.
    pub target: Option<String>,
    /// Why it stays, or how far its restart is.
    pub sentence: String,
    /// How far its restart is.
    pub recovery: Option<Recovery>,
}

/// How far a restart is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Recovery {
    /// The stable word.
    pub step: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Where to.
    pub target: Option<String>,
    /// What happened.
    pub detail: String,
}

/// The world as it was last judged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Explanation {
    /// Who leads.
    pub leader: Leader,
    /// The member.
    pub member: String,
    /// The verdict on it.
    pub judged: Option<Judged>,
    /// Every guard.
    pub guards: Vec<Guard>,
    /// What was judged, complete; can be judged again.
    pub world: Option<Value>,
}

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Settings {
    /// Who leads.
    pub leader: Leader,
    /// Those of the worker that reported last.
    pub worker: Vec<Setting>,
    /// Those of the server that answered.
    pub server: Vec<Setting>,
    /// The BMC map; `None` before the first report.
    pub map: Option<BmcMap>,
    /// Its entries.
    pub map_entries: Vec<MapEntry>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Setting {
    /// Its name in the environment.
    pub name: String,
    /// Its value; a secret's is never here.
    pub value: String,
    /// `default`, `file`, `environment` or `flag`.
    pub source: String,
}

/// A word that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ConfirmedOff {
    /// What somebody should know.
    pub warnings: Vec<String>,
}

/// An entry that is trusted again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Trusted {
    /// Whether it was distrusted before.
    pub was_distrusted: bool,
}

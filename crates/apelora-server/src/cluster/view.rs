//! What the cluster API shows of members and settings, field by field; the document at `/openapi.json` is made from the same types.

// The derived code qualifies what needs no qualification.
#![allow(unused_qualifications)]

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::status::{CheckStatus, MapCondition, MapStatus, MappedStatus, SettingStatus};
use serde::Serialize;
use utoipa::ToSchema;

/// A time in seconds, to the tenth.
pub(super) fn secs(of: Duration) -> f64 {
    (of.as_secs_f64() * 10.0).round() / 10.0
}

/// Who leads, and how old its report is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Leader {
    /// `leading`, or `none` while no worker holds the lease.
    pub(super) state: &'static str,
    /// Which start of a worker holds the lease.
    #[schema(format = "uuid")]
    pub(super) holder: Option<String>,
    /// Counts the leaderships.
    pub(super) epoch: Option<u64>,
    /// When the lease ends unless it is renewed.
    pub(super) lease_expires_in_secs: Option<f64>,
    /// The name of the worker that reported last.
    pub(super) worker: Option<String>,
    /// Whether that worker stops before every power-off.
    pub(super) dry_run: Option<bool>,
    /// How long ago the report was written.
    pub(super) status_age_secs: Option<f64>,
    /// In which epoch it was written.
    pub(super) status_epoch: Option<u64>,
    /// How long ago the latest pass was judged.
    pub(super) pass_age_secs: Option<f64>,
    /// Whether the report still says how things are: its latest pass is at most 30 s old. `status` and `action` of members
    /// are null otherwise.
    pub(super) current: bool,
    /// The member that answered the latest pass.
    pub(super) responder: Option<String>,
    /// The member that confirmed or contradicted it.
    pub(super) second: Option<String>,
    /// Why the member list could not be read.
    pub(super) problem: Option<String>,
    /// All of this as one sentence.
    pub(super) sentence: String,
}

/// A stable reason code with its sentence and its remedy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reason {
    /// The stable word.
    code: String,
    /// What it means; null for a code that this server does not know.
    sentence: Option<&'static str>,
    /// What to do about it.
    remedy: Option<&'static str>,
}

impl Reason {
    /// The reason of this code, if it is one that this server knows.
    pub(super) fn known(code: &str) -> Option<Self> {
        Some(Self::of(code)).filter(|reason| reason.sentence.is_some())
    }

    /// The reason of this code.
    pub(super) fn of(code: &str) -> Self {
        let known = code.parse::<ReasonCode>().ok();
        Self {
            code: code.to_owned(),
            sentence: known.map(ReasonCode::sentence),
            remedy: known.map(ReasonCode::remedy),
        }
    }
}

/// Whether there is a usable BMC map.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BmcMap {
    /// `none`: nothing is ever switched off. `valid`. `invalid`: nothing is switched off until it is corrected.
    #[schema(value_type = String)]
    condition: MapCondition,
    /// SHA-256 of the file, in hex.
    sha256: Option<String>,
    /// Why it is refused, with the remedy.
    problem: Option<String>,
    /// What is odd about it although it is valid.
    warnings: Vec<String>,
}

impl From<&MapStatus> for BmcMap {
    fn from(map: &MapStatus) -> Self {
        Self {
            condition: map.condition,
            sha256: map.sha256.clone(),
            problem: map.problem.clone(),
            warnings: map.warnings.clone(),
        }
    }
}

/// An entry of the BMC map, without its user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MapEntry {
    /// Whose.
    member: String,
    /// Through what: redfish, ipmi or lima.
    provider: String,
    /// Where.
    target: String,
    /// The hardware; null in the lab.
    uuid: Option<String>,
    /// The names of its secrets.
    secrets: Vec<String>,
}

impl From<&MappedStatus> for MapEntry {
    fn from(entry: &MappedStatus) -> Self {
        Self {
            member: entry.member.to_string(),
            provider: entry.provider.clone(),
            target: entry.target.clone(),
            uuid: entry.uuid.clone(),
            secrets: entry.secrets.clone(),
        }
    }
}

/// The cluster's members.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Members {
    /// Who leads, and how old what follows is.
    pub(super) leader: Leader,
    /// The BMC map of the leader; null before the first report.
    pub(super) map: Option<BmcMap>,
    /// The members, by name.
    pub(super) members: Vec<Member>,
}

/// A member of the cluster.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Member {
    /// Its name in the cluster.
    pub(super) name: String,
    /// What the cluster says of it now; null when that is not known now, or when the cluster does not list it.
    pub(super) status: Option<String>,
    /// What is to be done about it now: intent, watch or refuse; null when that is not known now.
    pub(super) action: Option<String>,
    /// The latest verdict, however old.
    pub(super) last_judged: Option<Judged>,
    /// Counts its lives: how often it was seen Online after having been away; 0 when it was never seen Online.
    pub(super) incarnation: u64,
    /// Whether it was Online when a leader last looked.
    pub(super) online: bool,
    /// How long ago it was stored as Online again.
    pub(super) last_online_secs: Option<f64>,
    /// Whether a proof stands, so that its instances may start elsewhere.
    pub(super) fenced: bool,
    /// Its latest proof.
    pub(super) proof: Option<Proof>,
    /// The power-off of this member that is in progress.
    pub(super) in_progress: Option<OpenFenceRecord>,
    /// Through what it would be switched off; null when the BMC map does not name it.
    pub(super) provider: Option<String>,
    /// The latest reading of its BMC in idle time.
    pub(super) check: Option<Check>,
    /// Whether its entry of the BMC map is distrusted until a person clears it.
    pub(super) distrusted: bool,
    /// Whether a maintenance entry that locks power stands on its node.
    pub(super) held: bool,
    /// What would become of its instances.
    pub(super) instances: InstanceCounts,
}

/// A verdict.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Judged {
    /// How long ago.
    pub(super) age_secs: f64,
    /// What the cluster said of the member.
    pub(super) status: Option<String>,
    /// intent, watch or refuse.
    pub(super) action: String,
    /// The verdict as one sentence.
    pub(super) sentence: String,
    /// Why it is not to be switched off: reason codes, each once.
    pub(super) reasons: Vec<String>,
}

/// What makes a member count as fenced.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Proof {
    /// power-off, lease-dead or person.
    pub(super) kind: String,
    /// The life that it ended.
    pub(super) incarnation: u64,
    /// How long ago it was stored.
    pub(super) age_secs: f64,
    /// Whether it is of the member's present life, and the member was not seen Online since.
    pub(super) stands: bool,
    /// Whether a restart builds on it already.
    pub(super) recovery_started: bool,
}

/// A power-off in progress.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenFenceRecord {
    /// The record.
    #[schema(format = "uuid")]
    pub(super) id: String,
    /// intent (nothing was sent) or sent (something was or may have been sent).
    pub(super) status: String,
}

/// A reading in idle time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Check {
    /// How long ago.
    age_secs: f64,
    /// Whether the right server answered.
    good: bool,
    /// What would stop a power-off.
    reason: Option<Reason>,
    /// What was read, or what is wrong.
    detail: String,
}

impl Check {
    /// A check of a report that is so old.
    pub(super) fn of(check: &CheckStatus, report_age: Duration) -> Self {
        Self {
            age_secs: secs(report_age.saturating_add(Duration::from_millis(check.age_ms))),
            good: check.reason.is_none(),
            reason: check.reason.as_deref().map(Reason::of),
            detail: check.detail.clone(),
        }
    }
}

/// How many of a member's instances restart, move and stay.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct InstanceCounts {
    /// Start elsewhere.
    pub(super) restart: usize,
    /// Move elsewhere and stay stopped.
    #[serde(rename = "move")]
    pub(super) moved: usize,
    /// Stay.
    pub(super) stay: usize,
}

/// A person's word that a member is off.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(crate) struct ConfirmOff {
    /// The member's name, typed once more in full.
    member: String,
    /// The life of the member that was shown to the person.
    incarnation: u64,
    /// How the person knows; 1 to 4,096 characters.
    reason: String,
}

/// A person's word that was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConfirmedOff {
    /// The member.
    pub(super) member: String,
    /// The life that is over.
    pub(super) incarnation: u64,
    /// The proof that stands now: person.
    pub(super) proof: &'static str,
    /// What somebody should know, such as a member without a node of its name.
    pub(super) warnings: Vec<String>,
}

/// Why an entry of the BMC map is trusted again.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(crate) struct TrustAgain {
    /// What was put right; 1 to 4,096 characters.
    reason: String,
}

/// An entry of the BMC map that is trusted again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Trusted {
    /// The member.
    pub(super) member: String,
    /// Whether it was distrusted before.
    pub(super) was_distrusted: bool,
}

/// The settings in force.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Settings {
    /// Who leads, and how old its report is.
    pub(super) leader: Leader,
    /// The settings of the worker that reported last.
    pub(super) worker: Vec<Setting>,
    /// The settings of the server that answers.
    pub(super) server: Vec<Setting>,
    /// The BMC map of the leader; null before its first report.
    pub(super) map: Option<BmcMap>,
    /// Its entries, by member.
    pub(super) map_entries: Vec<MapEntry>,
}

/// One setting.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Setting {
    /// Its name in the environment.
    name: String,
    /// Its value; a secret's is never here.
    value: String,
    /// Where it came from: default, file, environment or flag.
    source: String,
}

impl From<&SettingStatus> for Setting {
    fn from(setting: &SettingStatus) -> Self {
        let SettingStatus { name, value, source } = setting.clone();
        Self { name, value, source }
    }
}

//! Everything a decision is made from, as plain data: ages and flags, no clock. Stored with each decision, so that it can
//! be made again (`apelora fence replay`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::MemberName;
use crate::reason::ReasonCode;
use crate::record::ProofKind;
use crate::view::{Healing, Status};

/// One pass, as the guards see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// The configured grace (`APELORA_BMC_FENCE_AFTER_SECS`).
    #[serde(rename = "fence_after_ms", with = "ms")]
    pub fence_after: Duration,
    /// The cluster's answer.
    pub view: ViewFacts,
    /// The leader lease of this worker.
    pub lease: LeaseFacts,
    /// Whether the BMC map is valid as a whole. Having no map is valid and maps nobody.
    pub mapping_valid: bool,
    /// The member with an open record.
    pub open: Option<MemberName>,
    /// How long ago the database was restored or lost commits, if it is known to have been.
    #[serde(rename = "history_gap_ms", with = "ms::option")]
    pub history_gap: Option<Duration>,
    /// Whether the failure-domain rule is on.
    pub failure_domain_rule: bool,
    /// Whether a single endpoint is attested as enough.
    pub single_view: bool,
    /// Every member that is listed, mapped or stored, by name.
    pub members: Vec<MemberFacts>,
}

/// The cluster's answer, as far as it concerns all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewFacts {
    /// Whether there is an answer that can be used.
    pub readable: bool,
    /// Whether the member that answered lists itself Online.
    pub responder_online: bool,
    /// Whether the database leader is listed Online.
    pub leader_online: bool,
    /// The cluster's own healing.
    pub healing: Healing,
}

/// The leader lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseFacts {
    /// Whether this worker holds it.
    pub held: bool,
    /// The time to its local deadline.
    #[serde(rename = "remaining_ms", with = "ms")]
    pub remaining: Duration,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberFacts {
    /// Its name.
    pub name: MemberName,
    /// Its status; absent when the cluster does not list it.
    pub status: Option<Status>,
    /// Its failure domain, if the cluster names one.
    pub failure_domain: Option<String>,
    /// The length of the unbroken series of Offline, absent when there is none.
    #[serde(rename = "offline_for_ms", with = "ms::option")]
    pub offline_for: Option<Duration>,
    /// Whether a second member gives it the same status.
    pub second_view_agrees: bool,
    /// Whether the map names it.
    pub mapped: bool,
    /// Whether it uses the lab provider while that is not allowed.
    pub lab_refused: bool,
    /// Whether this worker runs on it.
    pub own_host: bool,
    /// Whether this installation has ever seen it Online.
    pub ever_online: bool,
    /// The proof that stands for its present incarnation.
    pub proof: Option<ProofKind>,
    /// Whether an entry that locks power stands on its node.
    pub held: bool,
    /// Whether its mapping is distrusted.
    pub distrusted: bool,
    /// How long ago a power-off was, or may have been, sent to it (to its name or its hardware).
    #[serde(rename = "last_send_ms", with = "ms::option")]
    pub last_send: Option<Duration>,
    /// Whether it was stored as Online again later than that.
    pub online_since_send: bool,
    /// Whether it was stored as Online again later than [`World::history_gap`].
    pub online_since_gap: bool,
    /// Its BMC refused or did not answer, and is left alone for a while.
    pub bmc_pause: Option<BmcPause>,
}

/// Why and for how long a BMC is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BmcPause {
    /// What it did.
    pub reason: ReasonCode,
    /// The time left.
    #[serde(rename = "left_ms", with = "ms")]
    pub left: Duration,
}

impl MemberFacts {
    /// A member of which nothing is known but its name and status: no guard that depends on more holds.
    pub fn new(name: MemberName, status: Option<Status>) -> Self {
        Self {
            name,
            status,
            failure_domain: None,
            offline_for: None,
            second_view_agrees: false,
            mapped: false,
            lab_refused: false,
            own_host: false,
            ever_online: false,
            proof: None,
            held: false,
            distrusted: false,
            last_send: None,
            online_since_send: false,
            online_since_gap: false,
            bmc_pause: None,
        }
    }
}

/// Durations as whole milliseconds.
mod ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    fn number(d: &Duration) -> u64 {
        u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(number(d))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        u64::deserialize(d).map(Duration::from_millis)
    }

    pub(super) mod option {
        use super::{Deserialize, Deserializer, Duration, Serializer, number};

        #[allow(clippy::ref_option, reason = "serde calls it so")]
        pub(in crate::world) fn serialize<S: Serializer>(
            d: &Option<Duration>,
            s: S,
        ) -> Result<S::Ok, S::Error> {
            match d {
                Some(d) => s.serialize_some(&number(d)),
                None => s.serialize_none(),
            }
        }

        pub(in crate::world) fn deserialize<'de, D: Deserializer<'de>>(
            d: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(d)?.map(Duration::from_millis))
        }
    }
}

//! What the database holds about fencing, as the machine reads it: ages instead of times.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::SystemUuid;
use crate::lease::LeaseSeen;
use crate::map::MapSha;
use crate::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};

/// Where a fence record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordStatus {
    /// Open: a power-off is being prepared; nothing was sent.
    Intent,
    /// Open: the permit is committed; from here on a power-off was, or may have been, sent.
    Sent,
    /// Final: the member is proven off.
    Fenced,
    /// Final: something was or may have been sent, and the member is not proven off.
    Failed,
    /// Final: nothing was sent.
    Refused,
    /// Final: a person's word came first; nothing was sent.
    Superseded,
}

impl RecordStatus {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Intent, Self::Sent, Self::Fenced, Self::Failed, Self::Refused, Self::Superseded];

    /// The stable word, as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Sent => "sent",
            Self::Fenced => "fenced",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Superseded => "superseded",
        }
    }

    /// Whether the record takes the one open slot.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Intent | Self::Sent)
    }
}

/// An open fence record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenRecord {
    /// Its id.
    pub id: RecordId,
    /// Whom it is about.
    pub member: MemberName,
    /// The hardware that was mapped for the member.
    pub uuid: Option<SystemUuid>,
    /// Which life of the member.
    pub incarnation: Incarnation,
    /// `Intent` or `Sent`.
    pub status: RecordStatus,
    /// The map snapshot it was made from.
    pub map: MapSha,
    /// The epoch that last wrote it: its maker's or its adopter's.
    pub epoch: Epoch,
    /// The holder that last wrote it.
    pub holder: HolderId,
}

/// What makes a member count as fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProofKind {
    /// Its storage leases are dead.
    LeaseDead,
    /// A person says so.
    Person,
    /// Its BMC reads Off.
    PowerOff,
}

impl ProofKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LeaseDead, Self::Person, Self::PowerOff];

    /// The stable word, as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeaseDead => "lease-dead",
            Self::Person => "person",
            Self::PowerOff => "power-off",
        }
    }
}

/// A stored proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProofRow {
    /// Its kind.
    pub kind: ProofKind,
    /// The life of the member that it ended.
    pub incarnation: Incarnation,
    /// How long ago it was stored.
    pub age: Duration,
    /// Whether a restart already builds on it.
    pub recovery_started: bool,
}

/// What is stored about one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemberRow {
    /// Its present life; 0 when it was never seen Online.
    pub incarnation: Incarnation,
    /// Whether it was Online when a leader last looked.
    pub online: bool,
    /// How long ago it was stored as Online again.
    pub last_online: Option<Duration>,
    /// Its latest proof that was not withdrawn, of whatever incarnation.
    pub proof: Option<ProofRow>,
    /// Whether an entry that locks power stands on its node.
    pub held: bool,
    /// Whether its mapping is distrusted.
    pub distrusted: bool,
    /// Its storage leases as they were while it was Online.
    pub leases: Vec<LeaseSeen>,
}

impl MemberRow {
    /// The proof that stands: of this very incarnation, and the member was not seen Online since (PROOF-INCARNATION).
    pub fn standing_proof(&self) -> Option<&ProofRow> {
        self.proof.as_ref().filter(|p| p.incarnation == self.incarnation && !self.online)
    }

    /// Whether the member counts as fenced.
    pub fn is_fenced(&self) -> bool {
        self.standing_proof().is_some()
    }
}

/// A power-off that was, or may have been, sent lately.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendRow {
    /// To whom.
    pub member: MemberName,
    /// To which hardware; a renamed member is found by it.
    pub uuid: Option<SystemUuid>,
    /// How long ago.
    pub age: Duration,
    /// Whether its record is still open. Such a send is the power-off in progress, not an earlier one.
    pub open: bool,
}

/// Everything that a pass reads from the database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Persisted {
    /// The members that were ever observed.
    pub members: BTreeMap<MemberName, MemberRow>,
    /// The open record, if there is one.
    pub open: Option<OpenRecord>,
    /// The sends of at least the last `Limits::loop_guard`.
    pub sends: Vec<SendRow>,
    /// How long ago the database was restored or lost commits, if it is known to have been.
    pub history_gap: Option<Duration>,
}

//! What is stored about fencing, as rows for pages, commands and the worker. Ages are by the database's clock as of the
//! moment of the reading; times are UTC by the same clock.

use std::fmt;
use std::time::Duration;

use apelora_fencing::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};
use apelora_fencing::record::{MemberRow, ProofKind, RecordStatus};
use apelora_fencing::recovery::RecoveryRow;
use apelora_fencing::restart::Instance;
use apelora_fencing::write::{AuditRow, CommitError, Committed};
use time::PrimitiveDateTime;
use uuid::Uuid;

/// The leader lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseState {
    /// Who holds or held it; `None` before the first leader.
    pub holder: Option<HolderId>,
    /// The service name of that holder.
    pub host: String,
    /// Grows with every acquisition; 0 before the first leader.
    pub epoch: Epoch,
    /// How long it still lasts; `None` when it has expired.
    pub expires_in: Option<Duration>,
}

/// What the leader last published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusRow {
    /// How long ago.
    pub age: Duration,
    /// Who published it.
    pub holder: HolderId,
    /// Under which epoch.
    pub epoch: Epoch,
    /// The document, as it was given to [`crate::Leader::publish`].
    pub text: String,
}

/// What came of a write of the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The answer.
    pub result: Result<Committed, CommitError>,
    /// The audit rows of the machine that were written, in their order; for counters. Rows of an earlier write whose
    /// commit was not answered come first, once it is known that it was kept.
    pub audit: Vec<AuditRow>,
    /// What somebody should be told in the log.
    pub warnings: Vec<Warning>,
}

/// Something that did not stand in the way, but that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// There is no node of the member's name, so no `fault` entry was made.
    NoNode(MemberName),
    /// The `fault` entry of the member's node could not be written yet; the leader goes on trying.
    NodeBusy {
        /// The member.
        member: MemberName,
        /// Who holds the node's `reservation`; `None` when its row was locked for too long.
        reserved_by: Option<String>,
    },
    /// The `fault` entry of the member's node cannot be written at all.
    NoEntry {
        /// The member.
        member: MemberName,
        /// Why not.
        why: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode(member) => write!(
                f,
                "no node is named {member}, so its failure is shown on no node: give the node of this server the \
                 member's name"
            ),
            Self::NodeBusy { member, reserved_by: Some(by) } => write!(
                f,
                "the fault entry of node {member} waits: the node is reserved by {by}. It is written as soon as the \
                 reservation ends"
            ),
            Self::NodeBusy { member, reserved_by: None } => write!(
                f,
                "the fault entry of node {member} waits: another transaction holds the node. It is tried again"
            ),
            Self::NoEntry { member, why } => {
                write!(f, "the fault entry of node {member} cannot be written: {why}")
            }
        }
    }
}

/// What is stored about a member, for pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    /// Its name.
    pub member: MemberName,
    /// What decisions are made on.
    pub row: MemberRow,
    /// The proof in that row, with everything about it.
    pub proof: Option<StoredProof>,
    /// The latest result of the drill that differed from the one before.
    pub check: Option<StoredCheck>,
}

/// A proof that a member is, or was, off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProof {
    /// Its place in the order of all; grows.
    pub seq: i64,
    /// Its id.
    pub id: Uuid,
    /// Whom it proves off.
    pub member: MemberName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// Its kind.
    pub kind: ProofKind,
    /// The record that led to it.
    pub record: Option<RecordId>,
    /// The text of a JSON object: what was seen, or who said so.
    pub evidence: String,
    /// When it was stored.
    pub at: PrimitiveDateTime,
    /// How long ago that is.
    pub age: Duration,
    /// Whether a restart builds on it.
    pub recovery_started: bool,
    /// Why it does not count any more.
    pub voided: Option<Voided>,
}

/// Why a proof does not count any more. One of a life that has ended is not void; it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voided {
    /// The BMC read On afterwards, before any restart.
    Withdrawn,
    /// A later proof took its place.
    Replaced,
}

/// The latest drill of a member's BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheck {
    /// `good`, `bad` or `contradiction`.
    pub found: String,
    /// The reason code with `bad`.
    pub reason: Option<String>,
    /// How long ago it was stored.
    pub age: Duration,
}

/// Which fence records; conditions that are given all hold. Newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordQuery {
    /// Only this member's.
    pub member: Option<MemberName>,
    /// Only the open one.
    pub open: bool,
    /// Only those before the one of this sequence number.
    pub before: Option<i64>,
    /// At most this many.
    pub limit: u32,
}

/// Which proofs; conditions that are given all hold. Newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProofQuery {
    /// Only this member's.
    pub member: Option<MemberName>,
    /// Only those before the one of this sequence number.
    pub before: Option<i64>,
    /// At most this many.
    pub limit: u32,
}

/// A fence record, whole. Source: tests/data/fencing/README.md section 7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceRecord {
    /// Its place in the order of all; grows.
    pub seq: i64,
    /// Its id.
    pub id: RecordId,
    /// Whom it is about.
    pub member: MemberName,
    /// The mapped hardware; `None` in the lab.
    pub hardware_uuid: Option<String>,
    /// Which life of the member.
    pub incarnation: Incarnation,
    /// Where it stands.
    pub status: RecordStatus,
    /// Why it ended so.
    pub reason: Option<String>,
    /// Whether a power-off was or may have been sent; known when it is final.
    pub sent: Option<bool>,
    /// The provider's word.
    pub provider: String,
    /// Where the BMC is, without the user.
    pub target: String,
    /// The digest of the map it was made from.
    pub mapping_sha256: String,
    /// How long the member had been Offline.
    pub offline_for: Duration,
    /// Members that were listed.
    pub members_total: u32,
    /// Members that counted as Offline.
    pub members_offline: u32,
    /// Lease time that was left.
    pub lease_remaining: Duration,
    /// Who answered the first view.
    pub responder: MemberName,
    /// Who answered the second view.
    pub second: Option<MemberName>,
    /// When the member had last been stored as Online again, at the intent.
    pub last_online_at: Option<PrimitiveDateTime>,
    /// The power-off before this one, if any was sent to the member or its hardware.
    pub last_power_off_at: Option<PrimitiveDateTime>,
    /// Who made it.
    pub made_by: (Epoch, HolderId),
    /// Who took it over last.
    pub adopted_by: Option<(Epoch, HolderId)>,
    /// When the intent was committed.
    pub intent_at: PrimitiveDateTime,
    /// When the permit was committed.
    pub permit_at: Option<PrimitiveDateTime>,
    /// When it was last taken over.
    pub adopted_at: Option<PrimitiveDateTime>,
    /// When the first of the two Off readings of its proof was made.
    pub first_off_at: Option<PrimitiveDateTime>,
    /// When it ended.
    pub final_at: Option<PrimitiveDateTime>,
    /// How many readings said Off, and how many something else.
    pub readings: (u32, u32),
}

/// One thing that was seen in the course of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRow {
    /// When, as the intent (or the adoption) plus the offset.
    pub at: PrimitiveDateTime,
    /// Since the intent or the adoption, on the worker's boot-time clock.
    pub offset: Duration,
    /// `incus`, `identity`, `power` or `send`.
    pub kind: String,
    /// What it came to: a power word, an answer, a reason code.
    pub outcome: String,
    /// Bounded and scrubbed detail.
    pub detail: String,
}

/// The stored state of the restart of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecovery {
    /// The state.
    pub row: RecoveryRow,
    /// When it was first stored.
    pub created_at: PrimitiveDateTime,
    /// How long ago it was last written.
    pub age: Duration,
}

/// An instance as it was when its member was last healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInstance {
    /// The instance.
    pub instance: Instance,
    /// How long ago it was seen so.
    pub age: Duration,
}

//! Every write of a leader, as data.
//!
//! A write is one transaction. It starts by touching the leader lease and is rolled back unless this holder and epoch
//! still hold it and it has not expired by the database's clock (tests/data/fencing/lease.md section 2). What each write
//! checks and does is said at the variant; [`crate::memory::MemoryStore`] does exactly that, and a store on SQL does
//! the same in one transaction.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::identity::SystemUuid;
use crate::lease::{LeaseDeadProof, LeaseSeen};
use crate::map::{MapSha, Provider};
use crate::name::{Incarnation, MemberName, RecordId};
use crate::proof::{PermitRequest, PowerOffProof, PowerWord, SendAnswer};
use crate::reason::ReasonCode;
use crate::record::{ProofKind, RecordStatus};

/// One transaction of the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Members whose stored state differs from what was seen.
    ///
    /// `Online` for a member that is not stored as Online: its incarnation grows by one, so that its proofs end, and the
    /// time is stored; a proof that ended is audited as `cluster.member.returned`. `Away`: stored as not Online.
    Observed(Vec<Observation>),
    /// Refusals to be audited as `cluster.member.power_off`, outcome `refused`.
    Refused(Vec<Refusal>),
    /// The intent: the open record that names everything, and the audit's first half.
    ///
    /// Refused unless there is no open record, the incarnation is the stored one and not 0, the member is not stored as
    /// Online, has no standing proof, is not held and not distrusted, and the loop guard holds by the database's clock
    /// for its name and for its hardware.
    Intent(Intent),
    /// The permit: status `Intent` → `Sent`, the time of the send is stored. In the invariants this is the send.
    ///
    /// Refused unless the record is this epoch's, the map in force is the record's, the incarnation is still the stored
    /// one, the member is not stored as Online, has no standing proof, and is neither held nor distrusted.
    Permit(PermitRequest),
    /// Takes an open record of an earlier epoch over, to be read to its end.
    Adopt(RecordId),
    /// Closes the record with its evidence and its one audit row. A proof is stored only if the incarnation is still the
    /// record's and the member is not stored as Online; a proof that stands already (a person's) is kept.
    Final(Final),
    /// Reads a record's status after a commit whose answer was lost. Touches the lease first like every write, so that it
    /// waits behind the transaction it asks about.
    ReadBack(RecordId),
    /// A proof without a record: a dead lease, or a watched member that reads Off. Same conditions as in `Final`, and no
    /// proof stands.
    Proof(NewProof),
    /// A power-off proof contradicted by a later reading of On. Audited; the proof is void unless recovery started.
    Withdraw(Withdrawal),
    /// Results of the idle drill that differ from the ones before.
    Checked(Vec<Check>),
    /// A restart is about to build on the proof. Refused unless it still stands.
    RecoveryStarted {
        /// The fenced member.
        member: MemberName,
        /// The life that the proof ended.
        incarnation: Incarnation,
    },
}

impl Write {
    /// The record that the write is about, if it is about one.
    pub const fn record(&self) -> Option<RecordId> {
        match self {
            Self::Intent(Intent { record, .. }) | Self::Final(Final { record, .. }) => Some(*record),
            Self::Permit(request) => Some(request.record()),
            Self::Adopt(record) | Self::ReadBack(record) => Some(*record),
            _ => None,
        }
    }
}

/// What was seen of one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The member.
    pub member: MemberName,
    /// Its state.
    pub seen: Seen,
}

/// The two states that are stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// Online, with its storage leases if they could be read; an empty list leaves the stored ones.
    Online(Vec<LeaseSeen>),
    /// Anything else that was read: not Online.
    Away,
}

/// A refusal that is worth an audit row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The member.
    pub member: MemberName,
    /// Why, complete.
    pub reasons: BTreeSet<ReasonCode>,
    /// The numbers of the guards.
    pub numbers: Numbers,
}

/// The guards' numbers as they stand in records and audit rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// Length of the series of Offline.
    pub offline_for: Duration,
    /// Members that are listed.
    pub members_total: usize,
    /// Members that count as Offline.
    pub members_offline: usize,
    /// Lease time left.
    pub lease_remaining: Duration,
}

/// Everything that an intent names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    /// The new record.
    pub record: RecordId,
    /// Whom to switch off.
    pub member: MemberName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The mapped hardware; `None` in the lab.
    pub uuid: Option<SystemUuid>,
    /// Through what.
    pub provider: Provider,
    /// Where, without the user.
    pub target: String,
    /// From which snapshot of the map.
    pub map: MapSha,
    /// The guards' numbers.
    pub numbers: Numbers,
    /// Who answered the first and the second view.
    pub witnesses: (MemberName, Option<MemberName>),
}

/// How a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Proven off.
    Success,
    /// Something was or may have been sent, and nothing is proven.
    Failed,
    /// Nothing was sent.
    Refused,
}

impl Outcome {
    /// The word in audit rows and in `apelora_bmc_power_offs_total{outcome}`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// The end of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Final {
    /// Which record.
    pub record: RecordId,
    /// How it ends. The store makes it `Failed`/`Refused` with `back_online` when the incarnation moved on.
    pub outcome: Outcome,
    /// Why.
    pub reason: ReasonCode,
    /// Whether a power-off was or may have been sent.
    pub sent: bool,
    /// The proof, with outcome `Success` only.
    pub proof: Option<PowerOffProof>,
    /// What was seen, in order.
    pub evidence: Vec<Evidence>,
}

/// One thing that was seen or done in the course of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// Since the intent (or the adoption), on the boot-time clock.
    pub offset: Duration,
    /// What.
    pub what: Saw,
    /// Bounded and scrubbed detail from the adapter.
    pub detail: String,
}

/// The kinds of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Saw {
    /// The conversation was opened.
    Opened,
    /// The mapped server's power.
    Power(PowerWord),
    /// A reading or an opening failed, or another server answered.
    Trouble(ReasonCode),
    /// A power-off request and what was said to it.
    Sent(SendAnswer),
}

/// A proof without a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewProof {
    /// Whom it proves off.
    pub member: MemberName,
    /// Which life.
    pub incarnation: Incarnation,
    /// What was seen.
    pub ground: ProofGround,
}

/// What a proof without a record stands on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProofGround {
    /// Dead leases.
    LeaseDead(LeaseDeadProof),
    /// Two Off readings of a watched member.
    Watched(PowerOffProof),
}

impl ProofGround {
    /// The kind of proof that it makes.
    pub const fn kind(&self) -> ProofKind {
        match self {
            Self::LeaseDead(_) => ProofKind::LeaseDead,
            Self::Watched(_) => ProofKind::PowerOff,
        }
    }
}

/// A proof contradicted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Withdrawal {
    /// Whose.
    pub member: MemberName,
    /// Of which life.
    pub incarnation: Incarnation,
    /// What its BMC read.
    pub power: PowerWord,
}

/// The result of one drill reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// The member.
    pub member: MemberName,
    /// What was found.
    pub found: Found,
}

/// What a drill can find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// The right server answered.
    Good,
    /// Something that would stop a power-off.
    Bad(ReasonCode),
    /// The BMC says Off, again and again, while the cluster sees the member Online: the mapping is distrusted until a person
    /// clears it.
    Contradiction,
}

/// The answer to a commit that was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Committed {
    /// Written.
    Done,
    /// A record was closed, or a proof was asked for; whether one was stored.
    Proof(bool),
    /// The status that the record has: answer to `ReadBack`, and to `Adopt` the status it had.
    Record(Option<RecordStatus>),
}

/// A commit that was not made, or of which that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitError {
    /// Another epoch holds the lease, or it expired: the role is over.
    Deposed,
    /// A condition of the write does not hold. Nothing was written.
    Refused(ReasonCode),
    /// The answer was lost: it may or may not have been made.
    Unknown,
    /// The database did not take it. Nothing was written.
    Unavailable,
}

/// A row for the audit trail, made in the transaction that it tells of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AuditRow {
    /// What happened.
    pub action: AuditAction,
    /// To whom.
    pub member: MemberName,
    /// The record, if there is one.
    pub record: Option<RecordId>,
    /// How it ended, for `cluster.member.power_off`.
    pub outcome: Option<Outcome>,
    /// Why.
    pub reason: Option<ReasonCode>,
    /// Whether a power-off was or may have been sent.
    pub sent: bool,
}

/// The actions of the audit trail that the machine causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuditAction {
    /// `cluster.member.power_off`.
    PowerOff,
    /// `cluster.member.fenced`.
    Fenced,
    /// `cluster.member.confirmed_off`.
    ConfirmedOff,
    /// `cluster.member.returned`.
    Returned,
    /// `cluster.member.proof_withdrawn`.
    ProofWithdrawn,
    /// `cluster.bmc.checked`.
    BmcChecked,
    /// `cluster.bmc.distrusted`.
    BmcDistrusted,
}

impl AuditAction {
    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PowerOff => "cluster.member.power_off",
            Self::Fenced => "cluster.member.fenced",
            Self::ConfirmedOff => "cluster.member.confirmed_off",
            Self::Returned => "cluster.member.returned",
            Self::ProofWithdrawn => "cluster.member.proof_withdrawn",
            Self::BmcChecked => "cluster.bmc.checked",
            Self::BmcDistrusted => "cluster.bmc.distrusted",
        }
    }
}

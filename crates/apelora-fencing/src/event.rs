//! What the machine is told, and what it wants done.

use std::sync::Arc;

use crate::lease::LeaseReading;
use crate::map::{MapEntry, MapSha, MapState};
use crate::name::{MemberName, RecordId, Ticket};
use crate::proof::{Reading, Reported, SendReport};
use crate::reason::ReasonCode;
use crate::record::Persisted;
use crate::time::BootTime;
use crate::view::{ClusterView, Healing, SecondView, ViewError};
use crate::write::{CommitError, Committed, Write};

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The answer to [`Effect::Look`].
    Pass(Box<Pass>),
    /// The end of an effect that carries a ticket. Answers to tickets that are not awaited (any more) are ignored.
    Done(Ticket, Outcome),
    /// The lease was renewed; its local deadline is now this, already short of the expiry by the margin.
    Renewed(BootTime),
    /// The lease is lost.
    Lost,
    /// The time of the last [`Effect::Wake`] has come.
    Woke,
}

/// Everything that one pass reads, in this order: the cluster, the leases, the database, the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The ticket of the [`Effect::Look`].
    pub ticket: Ticket,
    /// The member list.
    pub view: Result<ClusterView, ViewError>,
    /// The member list of another member.
    pub second: SecondView,
    /// The cluster's own healing.
    pub healing: Healing,
    /// The lockspaces that could be read.
    pub leases: Vec<LeaseReading>,
    /// The database's rows, unless they could not be read.
    pub stored: Option<Persisted>,
    /// The BMC map.
    pub map: MapState,
    /// An id for the record that this pass may lead to.
    pub fresh_id: RecordId,
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of [`Effect::Commit`] and [`Effect::Permit`].
    Committed(Result<Committed, CommitError>),
    /// Of [`Effect::Open`].
    Opened(Result<(), BmcError>),
    /// Of [`Effect::Read`].
    Read(ReadDone),
    /// Of [`Effect::SendOff`].
    Sent(SendReport),
}

/// One attempt to read identity and power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// When it began.
    pub began: BootTime,
    /// When it ended.
    pub ended: BootTime,
    /// What the adapter saw.
    pub result: Result<Reported, BmcError>,
}

/// Why a BMC could not be opened or read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BmcError {
    /// The reason code.
    pub reason: ReasonCode,
    /// Whether the same may succeed a second later (refused connection, 503): worth another try within the permit.
    pub transient: bool,
    /// Bounded and scrubbed.
    pub detail: String,
}

/// Where a conversation leads, from one snapshot of the map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The member.
    pub member: MemberName,
    /// Its entry.
    pub entry: Arc<MapEntry>,
    /// The snapshot.
    pub map: MapSha,
}

/// Something that the shell has to do. Effects of one call are carried out in order; those with a ticket answer with
/// [`Event::Done`], all others do not answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a pass now and answer with [`Event::Pass`] within `Limits::pass_deadline`. A newer look replaces an older.
    Look(Ticket),
    /// Make this write.
    Commit(Ticket, Write),
    /// Make the permit's write and keep the permit that comes of it beside the conversation.
    Permit(Ticket, crate::proof::PermitRequest),
    /// Open a conversation by this time. The ticket names it in `Read`, `SendOff` and `Close`.
    Open(Ticket, Target, BootTime),
    /// Read identity and power on the conversation by this time. Answers with the conversation's ticket.
    Read(Ticket, BootTime),
    /// Ask for the power-off on the conversation by this time, under the permit, right after this reading.
    SendOff(Ticket, Reading, BootTime),
    /// End the conversation; answers to it are not awaited any more.
    Close(Ticket),
    /// Renew the lease now, beside the usual renewals: what is left of it would cut a permit short. Answered by
    /// [`Event::Renewed`] if it succeeds.
    Renew,
    /// Send [`Event::Woke`] at this time. A newer wake replaces an older.
    Wake(BootTime),
    /// The role is over: stop everything, let go of the lease.
    StepDown(Why),
}

/// Why the role is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// The local deadline of the lease has passed.
    LeaseExpired,
    /// A write found another epoch in force, or the shell lost the lease.
    Deposed,
    /// The cluster reports the worker's own host as Offline: do not campaign again until it is Online.
    OwnHostOffline,
}

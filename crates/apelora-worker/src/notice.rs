//! What a person wants to follow: one sentence for each thing that happens, logged in one place.

mod sentence;

use std::time::Duration;

use apelora_fencing::event::Why;
use apelora_fencing::map::Provider;
use apelora_fencing::proof::{PowerWord, SendAnswer};
use apelora_fencing::record::ProofKind;
use apelora_fencing::view::Status;
use apelora_fencing::write::Outcome;
use apelora_fencing::{Epoch, MemberName, ReasonCode, RecordId};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

/// Something that happened. `Display` is one sentence for somebody who was just woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// This worker leads now.
    Elected {
        /// Its fencing token.
        epoch: Epoch,
        /// The member that it runs on, if it runs on one.
        own_host: Option<MemberName>,
    },
    /// This worker leads no more.
    SteppedDown {
        /// Why.
        why: SteppedDown,
    },
    /// The cluster gives a member another status than before; Offline is [`Self::Grace`].
    Seen {
        /// Whom.
        member: MemberName,
        /// Its status now; absent when it is not listed any more.
        status: Option<Status>,
    },
    /// The cluster reports a member as Offline, and the time until it may be switched off runs.
    Grace {
        /// Whom.
        member: MemberName,
        /// How long it must be Offline without interruption.
        needed: Duration,
    },
    /// A member that is Offline long enough is not switched off.
    Refused {
        /// Whom.
        member: MemberName,
        /// Why, complete.
        reasons: Vec<ReasonCode>,
        /// The first reason with its numbers.
        sentence: String,
    },
    /// The intent to switch a member off is in the database.
    Intent {
        /// Whom.
        member: MemberName,
        /// Under which record.
        record: RecordId,
    },
    /// A record of an earlier leader is read to its end.
    Adopted {
        /// Whose.
        member: MemberName,
        /// Which record.
        record: RecordId,
    },
    /// The permit to send is in the database.
    Permitted {
        /// Whom it is about.
        member: MemberName,
    },
    /// The power-off was requested, or was not.
    Sent {
        /// Of whom.
        member: MemberName,
        /// What the BMC said.
        answer: SendAnswer,
    },
    /// A BMC was read in the course of a power-off.
    PowerRead {
        /// Whose.
        member: MemberName,
        /// What it said.
        power: PowerWord,
    },
    /// A BMC could not be reached or read.
    BmcTrouble {
        /// Whose.
        member: MemberName,
        /// Through what.
        provider: Provider,
        /// Why.
        reason: ReasonCode,
        /// Bounded and scrubbed.
        detail: String,
    },
    /// A member is proven off: its instances may start elsewhere.
    Fenced {
        /// Whom.
        member: MemberName,
        /// By what, where this worker knows it.
        kind: Option<ProofKind>,
    },
    /// A record has ended.
    Ended {
        /// Whose.
        member: MemberName,
        /// How.
        outcome: Outcome,
        /// Why.
        reason: ReasonCode,
    },
    /// A member that was proven off is back.
    Returned {
        /// Whom.
        member: MemberName,
    },
    /// A proof was contradicted by its BMC.
    Withdrawn {
        /// Whose.
        member: MemberName,
    },
    /// The BMC map is refused as a whole.
    MapInvalid {
        /// What is wrong, naming member and key.
        problem: String,
    },
    /// The BMC map is in force.
    MapValid {
        /// How many members it names.
        members: usize,
    },
    /// A member's mapping is not believed any more.
    Distrusted {
        /// Whose.
        member: MemberName,
    },
    /// The cluster's answer cannot be used.
    ClusterUnreadable {
        /// Why.
        problem: String,
    },
    /// The cluster answers again.
    ClusterReadable {
        /// How many members it lists.
        members: usize,
    },
    /// The database cannot be read: nothing is decided.
    StoreUnreadable {
        /// Why.
        problem: String,
    },
    /// The database answers again.
    StoreReadable,
    /// What runs where cannot be read any more: what is stored of it grows old.
    InstancesUnreadable {
        /// Why.
        problem: String,
    },
    /// What runs where can be read again.
    InstancesReadable,
    /// The worker turned out to run on another member than it knew, and starts its leadership again.
    OwnHost {
        /// Which.
        member: MemberName,
    },
    /// An instance was moved to another member.
    Moved {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// Where it is now.
        to: MemberName,
    },
    /// An instance runs again.
    Started {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// Where.
        on: MemberName,
    },
    /// An instance could not be moved or started.
    StartRefused {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// Why, and what to do.
        problem: String,
    },
    /// Restarts have begun and may not go on for long now.
    RecoveryWaits {
        /// The member that is proven off.
        member: MemberName,
        /// How many instances wait.
        instances: usize,
        /// For what, as a clause.
        why: String,
    },
    /// An instance of a member that is proven off is not restarted elsewhere.
    Stays {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// The member that ran it.
        member: MemberName,
        /// Why, as a sentence.
        sentence: String,
    },
    /// The restart of an instance ended without success.
    GaveUp {
        /// Its project.
        project: String,
        /// Its name.
        instance: String,
        /// The member that ran it.
        member: MemberName,
        /// Why.
        why: String,
        /// Whether it may run on a server that is back, so that starting it elsewhere would damage its data.
        doubtful: bool,
    },
    /// Everything that a member ran is taken care of.
    Recovered {
        /// The member.
        member: MemberName,
        /// How many instances run elsewhere.
        restarted: usize,
        /// How many were moved and not started, as they are configured.
        moved: usize,
        /// How many stay where they are.
        stayed: usize,
        /// How many were given up.
        gave_up: usize,
    },
    /// A member is back that was not restarted since what it ran was started elsewhere.
    MayRunTwice {
        /// The member.
        member: MemberName,
        /// What was started or moved elsewhere, as `project/name`.
        instances: Vec<String>,
        /// How that was found.
        because: String,
    },
}

/// Why a worker leads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteppedDown {
    /// The machine says so.
    Machine(Why),
    /// The worker was told to stop.
    Stopped,
    /// The worker learnt on which member it runs.
    OwnHostLearnt,
    /// A task failed in a way that must not happen.
    Fault,
}

impl SteppedDown {
    /// Whether the lease may still be held, so that it is let go.
    pub(crate) const fn may_resign(self) -> bool {
        !matches!(self, Self::Machine(Why::Deposed))
    }
}

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Notice {
    /// The stable word of its kind, for those who filter logs.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Elected { .. } => "elected",
            Self::SteppedDown { .. } => "stepped_down",
            Self::Seen { .. } => "seen",
            Self::Grace { .. } => "grace",
            Self::Refused { .. } => "refused",
            Self::Intent { .. } => "intent",
            Self::Adopted { .. } => "adopted",
            Self::Permitted { .. } => "permitted",
            Self::Sent { .. } => "sent",
            Self::PowerRead { .. } => "power_read",
            Self::BmcTrouble { .. } => "bmc_trouble",
            Self::Fenced { .. } => "fenced",
            Self::Ended { .. } => "ended",
            Self::Returned { .. } => "returned",
            Self::Withdrawn { .. } => "withdrawn",
            Self::MapInvalid { .. } => "map_invalid",
            Self::MapValid { .. } => "map_valid",
            Self::Distrusted { .. } => "distrusted",
            Self::ClusterUnreadable { .. } => "cluster_unreadable",
            Self::ClusterReadable { .. } => "cluster_readable",
            Self::StoreUnreadable { .. } => "store_unreadable",
            Self::StoreReadable => "store_readable",
            Self::InstancesUnreadable { .. } => "instances_unreadable",
            Self::InstancesReadable => "instances_readable",
            Self::OwnHost { .. } => "own_host",
            Self::Moved { .. } => "moved",
            Self::Started { .. } => "started",
            Self::StartRefused { .. } => "start_refused",
            Self::RecoveryWaits { .. } => "recovery_waits",
            Self::Stays { .. } => "stays",
            Self::GaveUp { .. } => "gave_up",
            Self::Recovered { .. } => "recovered",
            Self::MayRunTwice { .. } => "may_run_twice",
        }
    }

    /// The sentence as it is logged. Incus takes control characters in the names of projects: they make no lines of their own.
    fn line(&self) -> String {
        let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        self.to_string().chars().map(plain).collect()
    }

    fn level(&self) -> Level {
        match self {
            Self::Elected { .. }
            | Self::Adopted { .. }
            | Self::Permitted { .. }
            | Self::PowerRead { .. }
            | Self::Returned { .. }
            | Self::MapValid { .. }
            | Self::ClusterReadable { .. }
            | Self::StoreReadable
            | Self::InstancesReadable
            | Self::OwnHost { .. }
            | Self::Moved { .. }
            | Self::Started { .. }
            | Self::Recovered { gave_up: 0, .. } => Level::Info,
            Self::SteppedDown { why: SteppedDown::Stopped | SteppedDown::OwnHostLearnt } => Level::Info,
            Self::Seen { status, .. } => {
                if status.as_ref().is_some_and(Status::is_alive) {
                    Level::Info
                } else {
                    Level::Warn
                }
            }
            Self::SteppedDown { .. }
            | Self::Grace { .. }
            | Self::Refused { .. }
            | Self::Intent { .. }
            | Self::Sent { .. }
            | Self::BmcTrouble { .. }
            | Self::Fenced { .. }
            | Self::ClusterUnreadable { .. }
            | Self::StoreUnreadable { .. }
            | Self::InstancesUnreadable { .. }
            | Self::StartRefused { .. }
            | Self::RecoveryWaits { .. }
            | Self::Stays { .. }
            | Self::Recovered { .. }
            | Self::GaveUp { doubtful: false, .. } => Level::Warn,
            Self::Ended { outcome: Outcome::Success, .. } => Level::Info,
            Self::Ended { outcome: Outcome::Refused, .. } => Level::Warn,
            Self::Ended { outcome: Outcome::Failed, .. }
            | Self::Withdrawn { .. }
            | Self::MapInvalid { .. }
            | Self::Distrusted { .. }
            | Self::GaveUp { .. }
            | Self::MayRunTwice { .. } => Level::Error,
        }
    }
}

/// Where notices go: the log, and a listener if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    listener: Option<mpsc::UnboundedSender<Notice>>,
}

impl Notices {
    pub(crate) const fn new(listener: Option<mpsc::UnboundedSender<Notice>>) -> Self {
        Self { listener }
    }

    /// Says it.
    pub(crate) fn tell(&self, notice: Notice) {
        let kind = notice.word();
        match notice.level() {
            Level::Info => info!(kind, "{}", notice.line()),
            Level::Warn => warn!(kind, "{}", notice.line()),
            Level::Error => error!(kind, "{}", notice.line()),
        }
        if let Some(listener) = &self.listener {
            // Whoever listened may have gone.
            let _ = listener.send(notice);
        }
    }
}

#[cfg(test)]
mod tests;

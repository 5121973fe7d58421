//! A machine and the cluster member on it.

use std::sync::Arc;

use crate::incus::clock::At;
use crate::power::Switch;

/// The state of a machine's operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Os {
    /// No power.
    Off,
    /// On its way up.
    Booting {
        /// When it is up.
        ready: At,
    },
    /// Running.
    Up,
    /// Standing still: nothing answers, nothing is lost.
    Frozen,
    /// Dead, with power on.
    Crashed,
}

/// What a member does for the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Votes; the leader is one of them.
    Voter,
    /// Follows, ready to vote.
    StandBy,
    /// Neither.
    Spare,
}

/// What is wrong with a member's API. One thing at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiFault {
    /// Connections are taken and nothing is answered.
    Silent,
    /// Each answer waits this long.
    Slow(std::time::Duration),
    /// Each answer is this status with a body that is no JSON.
    Garbage(u16),
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) switch: Arc<Switch>,
    pub(super) os: Os,
    /// Since when it has had no power.
    pub(super) off_since: Option<At>,
    /// Whether the member's daemon runs while the operating system does.
    pub(super) daemon: bool,
    /// Since when it has been off the cluster's network.
    pub(super) cut_since: Option<At>,
    /// Whether its API can be reached from outside.
    pub(super) reachable: bool,
    /// How far its wall clock is ahead, in nanoseconds.
    pub(super) skew: i64,
    /// How often it has booted.
    pub(super) boots: u32,
    /// When its member starts the instances that are to run.
    pub(super) starts_instances: Option<At>,
    pub(super) role: Role,
    /// The `heartbeat` of its row in the database, by the clock of the leader that wrote it.
    pub(super) heartbeat: At,
    /// Whether the others have heard from its daemon since that began to run: they learn of it with a round of heartbeats.
    pub(super) heard: bool,
    /// Whether it tells nothing of its instances, as when one of them hangs.
    pub(super) mute: bool,
    /// Whether it was removed from the cluster.
    pub(super) removed: bool,
    /// The word for a status that is set and not found by heartbeats.
    pub(super) status: Option<String>,
    pub(super) fault: Option<ApiFault>,
    /// Requests read.
    pub(super) requests: u64,
    /// Where its API listens.
    pub(super) address: String,
}

impl Machine {
    /// Whether its daemon runs.
    pub(super) fn serves(&self) -> bool {
        self.os == Os::Up && self.daemon
    }

    /// Whether the other members can talk to its daemon.
    pub(super) fn connected(&self) -> bool {
        self.serves() && self.cut_since.is_none()
    }

    /// Whether the other members know that they can talk to its daemon: a while after it has begun to run.
    pub(super) fn known(&self) -> bool {
        self.connected() && self.heard
    }

    /// What its wall clock shows.
    pub(super) fn clock(&self, now: At) -> At {
        now.saturating_add(self.skew)
    }
}

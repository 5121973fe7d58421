//! Two real supervisors over a written-down environment: servers, BMCs, the cluster's view, the database, a person.
//!
//! Time is a tick that may come at any moment; limits are scaled to a few ticks with the same relations as in production.
//! The ten minutes of the loop guard do not pass by ticks but by an action of their own, at any moment.

use std::hash::Hash;
use std::time::Duration;

use apelora_fencing::map::MapState;
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::proof::{PermitRequest, SendReport};
use apelora_fencing::write::Write;
use apelora_fencing::{BootTime, Epoch, HolderId, Limits, MemberName, Supervisor, Ticket};
use uuid::Uuid;

pub(super) const TICK: Duration = Duration::from_secs(1);
pub(super) const WORKERS: usize = 2;

pub(super) fn ticks(n: u32) -> Duration {
    TICK * n
}

/// The production limits in ticks.
pub(crate) fn limits() -> Limits {
    let never = ticks(1_000);
    Limits {
        pass_interval: ticks(1),
        pass_deadline: ticks(2),
        fence_after: ticks(2),
        fence_after_min: ticks(2),
        lease_ttl: ticks(4),
        lease_renewal: ticks(1),
        lease_statement: Duration::ZERO,
        lease_margin: ticks(1),
        permit_valid: ticks(1),
        send_deadline: ticks(1),
        open_deadline: ticks(1),
        read_deadline: ticks(1),
        posts_per_permit: 2,
        readback_fast: ticks(1),
        readback_fast_for: Duration::ZERO,
        readback_slow: ticks(1),
        readback_deadline: ticks(3),
        off_gap_sent: ticks(1),
        off_gap_unsent: ticks(1),
        off_gap_watched: ticks(2),
        pause_refused: ticks(1),
        pause_credential: ticks(1),
        loop_guard: ticks(40),
        drill_pause: never,
        drill_round: never,
        watch_every: ticks(2),
        watch_at_most: 8,
        distrust_after: ticks(2),
        recheck_after: never,
        audit_again: never,
    }
}

/// How much may happen on one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) failures: u8,
    pub(crate) returns: u8,
    pub(crate) false_offline: u8,
    pub(crate) crashes: u8,
    pub(crate) hangs: u8,
    pub(crate) lost_answers: u8,
    pub(crate) lies: u8,
    pub(crate) read_errors: u8,
    pub(crate) persons: u8,
    pub(crate) edits: u8,
    pub(crate) locks: u8,
    pub(crate) loops: u8,
    pub(crate) epochs: u8,
    /// Sends that the BMC ignores or carries out late.
    pub(crate) bad_sends: u8,
}

/// One exploration.
pub(crate) struct Exploration {
    pub(crate) members: usize,
    /// Only the first so many may fail.
    pub(crate) mortal: usize,
    pub(crate) budget: Budget,
    pub(crate) own_hosts: bool,
    /// Whether a stall between the check of the permit and the first byte is allowed: the limit that no machine removes.
    pub(crate) stalls: bool,
    /// Whether members may be exchanged for each other.
    pub(crate) symmetric: bool,
    pub(crate) names: Vec<MemberName>,
    pub(crate) maps: [MapState; 2],
    pub(crate) limits: Limits,
}

impl Exploration {
    pub(crate) fn new(members: usize, mortal: usize, budget: Budget) -> Self {
        let names: Vec<_> =
            ["a", "b", "c", "d", "e"][..members].iter().map(|n| MemberName::from(*n)).collect();
        let maps = [0, 1].map(|edit| crate::data::lab_map(&names, edit));
        let limits = limits();
        assert_eq!(limits.broken(), None, "the scaled limits keep the relations");
        Self {
            members,
            mortal,
            budget,
            own_hosts: false,
            stalls: false,
            symmetric: mortal == members,
            names,
            maps,
            limits,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) powered: bool,
    /// Beats: powered, not hung, not cut off.
    pub(super) alive: bool,
    /// What the cluster shows.
    pub(super) online: bool,
    /// A power-off that was accepted and not yet carried out.
    pub(super) off_later: bool,
    /// The life that is stored as Online is over.
    pub(super) over: bool,
    /// Permitted within ten minutes, not seen Online since, and not known to be unsent.
    pub(super) sent_lately: bool,
}

/// What a worker's shell is doing.
#[derive(Clone, Debug)]
pub(super) enum Doing {
    Look(Ticket, BootTime),
    Commit(Ticket, Write),
    Open(Ticket, usize),
    Read(Ticket, usize),
    Send(Ticket, usize),
    /// The permit was checked, the first byte has not left.
    Stalled(Ticket, usize),
    /// Sent while the loop hangs: the report waits.
    Report(Ticket, usize, SendReport),
}

#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) doing: Doing,
    /// A tick has passed since it was begun: it ends before the next one.
    pub(super) late: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) supervisor: Option<Supervisor>,
    pub(super) epoch: Epoch,
    pub(super) hung: bool,
    pub(super) doing: Vec<Task>,
    /// Open conversations.
    pub(super) talks: Vec<(Ticket, usize)>,
    pub(super) permit: Option<PermitRequest>,
    pub(super) wake: Option<BootTime>,
    /// The last answered look: when, who was Offline, and which map it read.
    pub(super) looked: Option<(BootTime, u8, usize)>,
    /// The members whose present life it saw Online.
    pub(super) met: u8,
    pub(super) barred: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(super) now: BootTime,
    pub(super) servers: Vec<Server>,
    pub(super) store: MemoryStore,
    pub(super) workers: [Worker; WORKERS],
    pub(super) budget: Budget,
    pub(super) map: usize,
    pub(super) ids: u128,
    pub(super) reached: u64,
    pub(super) broken: Option<String>,
}

/// Everything that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Tick,
    LoopPasses,
    Hang(usize),
    PowerLoss(usize),
    Return(usize),
    FalseOffline(usize),
    ViewCatchesUp(usize),
    LateOff(usize),
    Person(usize),
    Edit,
    Lock(usize),
    Campaign(usize),
    Crash(usize),
    Freeze(usize),
    Thaw(usize),
    Look(usize),
    Commit(usize, Fate),
    CommitThenCrash(usize),
    Open(usize, usize, bool),
    Read(usize, usize, Telling),
    Send(usize, Taking),
    SendThenCrash(usize),
    Stall(usize),
    Unstall(usize),
    Recover(usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Made,
    MadeAnswerLost,
    NotMadeAnswerLost,
    Unavailable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    Truth,
    Error,
    LieOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    Acts,
    ActsUnanswered,
    Ignores,
    ActsLate,
    Fails,
}

/// What must be reached on some way, by bit.
pub(crate) const SOMETIMES: [&str; 12] = [
    "fenced by power-off",
    "fenced although already off",
    "fenced by watching",
    "adopted",
    "superseded by a person",
    "failed",
    "back online before the send",
    "recovered",
    "map changed under an intent",
    "deposed write refused",
    "locked under an intent",
    "permit expired",
];

pub(super) fn bit(what: &str) -> u64 {
    1 << SOMETIMES.iter().position(|s| *s == what).expect("a name of the list")
}

impl State {
    pub(super) fn must(&mut self, invariant: &str, holds: bool) {
        if !holds && self.broken.is_none() {
            self.broken = Some(invariant.into());
        }
    }

    pub(super) fn db(&self) -> Duration {
        self.now.since_boot()
    }
}

pub(super) fn holder(w: usize) -> HolderId {
    HolderId(Uuid::from_u128(w as u128 + 1))
}

pub(super) fn power_off(s: &mut State, m: usize) {
    s.servers[m] = Server { powered: false, alive: false, off_later: false, over: true, ..s.servers[m] };
    life_ends(s, m);
}

pub(super) fn life_ends(s: &mut State, m: usize) {
    s.servers[m].over = true;
    s.workers.iter_mut().for_each(|w| w.met &= !(1 << m));
}

impl Task {
    pub(super) fn may_last(&self) -> bool {
        !self.late || matches!(self.doing, Doing::Stalled(..))
    }
}

impl Worker {
    pub(super) fn begin(&mut self, doing: Doing) {
        self.doing.push(Task { doing, late: false });
    }

    pub(super) fn down(epoch: Epoch) -> Self {
        Self {
            supervisor: None,
            epoch,
            hung: false,
            doing: Vec::new(),
            talks: Vec::new(),
            permit: None,
            wake: None,
            looked: None,
            met: 0,
            barred: false,
        }
    }
}

//! Two real supervisors over a written-down environment: servers, BMCs, the cluster's view, the database, a person.
//!
//! Time is a tick that may come at any moment; limits are scaled to a few ticks with the same relations as in production.
//! The ten minutes of the loop guard do not pass by ticks but by an action of their own, at any moment.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::canon::{Canon, Parts};
use apelora_fencing::event::{BmcError, Effect, Event, Outcome, Pass, ReadDone};
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::map::{BmcMap, MapState};
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::proof::{PermitRequest, PowerWord, Reported, SendAnswer, SendReport};
use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status};
use apelora_fencing::write::{AuditAction, CommitError, Committed, Seen, Write};
use apelora_fencing::{
    BootTime, Epoch, HolderId, Incarnation, Limits, MemberName, ReasonCode, RecordId, Supervisor, Ticket,
};
use uuid::Uuid;

use super::bfs::Model;

const TICK: Duration = Duration::from_secs(1);
const WORKERS: usize = 2;

fn ticks(n: u32) -> Duration {
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
        let map = |edit: usize| {
            let entries: Vec<_> = names
                .iter()
                .map(|n| format!("\"{n}\": {{\"provider\": \"lima\", \"address\": \"apelora-{n}\"}}"))
                .collect();
            let json = format!("{{\"members\": {{{}}}}}{}", entries.join(","), " ".repeat(edit));
            MapState::Valid(Arc::new(BmcMap::parse(json.as_bytes(), &[]).unwrap()))
        };
        let maps = [map(0), map(1)];
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
struct Server {
    powered: bool,
    /// Beats: powered, not hung, not cut off.
    alive: bool,
    /// What the cluster shows.
    online: bool,
    /// A power-off that was accepted and not yet carried out.
    off_later: bool,
    /// The life that is stored as Online is over.
    over: bool,
    /// Permitted within ten minutes, not seen Online since, and not known to be unsent.
    sent_lately: bool,
}

/// What a worker's shell is doing.
#[derive(Clone, Debug)]
enum Doing {
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
struct Task {
    doing: Doing,
    /// A tick has passed since it was begun: it ends before the next one.
    late: bool,
}

#[derive(Clone, Debug)]
struct Worker {
    supervisor: Option<Supervisor>,
    epoch: Epoch,
    hung: bool,
    doing: Vec<Task>,
    /// Open conversations.
    talks: Vec<(Ticket, usize)>,
    permit: Option<PermitRequest>,
    wake: Option<BootTime>,
    /// The last answered look: when, who was Offline, and which map it read.
    looked: Option<(BootTime, u8, usize)>,
    /// The members whose present life it saw Online.
    met: u8,
    barred: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    now: BootTime,
    servers: Vec<Server>,
    store: MemoryStore,
    workers: [Worker; WORKERS],
    budget: Budget,
    map: usize,
    ids: u128,
    reached: u64,
    broken: Option<String>,
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

fn bit(what: &str) -> u64 {
    1 << SOMETIMES.iter().position(|s| *s == what).expect("a name of the list")
}

impl State {
    fn must(&mut self, invariant: &str, holds: bool) {
        if !holds && self.broken.is_none() {
            self.broken = Some(invariant.into());
        }
    }

    fn db(&self) -> Duration {
        self.now.since_boot()
    }
}

impl Exploration {
    fn index(&self, name: &MemberName) -> usize {
        self.names.iter().position(|n| n == name).expect("a member of the model")
    }

    fn tell(&self, s: &mut State, w: usize, event: Event) {
        let Some(supervisor) = &mut s.workers[w].supervisor else { return };
        let effects = supervisor.on(s.now, event);
        for effect in effects {
            self.carry_out(s, w, effect);
        }
        self.at_once(s, w);
    }

    fn carry_out(&self, s: &mut State, w: usize, effect: Effect) {
        let now = s.now;
        let worker = &mut s.workers[w];
        match effect {
            Effect::Look(ticket) => {
                worker.doing.retain(|t| !matches!(t.doing, Doing::Look(..)));
                worker.begin(Doing::Look(ticket, now));
            }
            Effect::Commit(ticket, write) => worker.begin(Doing::Commit(ticket, write)),
            Effect::Permit(ticket, request) => worker.begin(Doing::Commit(ticket, Write::Permit(request))),
            Effect::Open(ticket, target, _) => {
                let m = self.index(&target.member);
                worker.talks.push((ticket, m));
                worker.begin(Doing::Open(ticket, m));
            }
            Effect::Read(ticket, _) => {
                let m = worker.talks.iter().find(|(t, _)| *t == ticket).expect("an open conversation").1;
                worker.begin(Doing::Read(ticket, m));
            }
            Effect::SendOff(ticket, reading, _) => {
                assert_eq!(reading.conversation(), ticket);
                let m = worker.talks.iter().find(|(t, _)| *t == ticket).expect("an open conversation").1;
                worker.begin(Doing::Send(ticket, m));
            }
            Effect::Close(ticket) => {
                worker.talks.retain(|(t, _)| *t != ticket);
                worker.doing.retain(|task| !matches!(task.doing,
                    Doing::Open(t, _) | Doing::Read(t, _) | Doing::Send(t, _) | Doing::Stalled(t, _) | Doing::Report(t, ..)
                        if t == ticket));
            }
            Effect::Renew => {
                let epoch = worker.epoch;
                if s.store.renew(now.since_boot(), epoch, holder(w)).is_ok() {
                    let deadline = now + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin);
                    if let Some(supervisor) = &mut s.workers[w].supervisor {
                        // Nothing but the deadline changes by it at this moment.
                        let more = supervisor.on(now, Event::Renewed(deadline));
                        more.into_iter().for_each(|e| self.carry_out(s, w, e));
                    }
                }
            }
            Effect::Wake(at) => worker.wake = Some(at),
            Effect::StepDown(why) => {
                worker.supervisor = None;
                worker.doing.clear();
                worker.talks.clear();
                worker.permit = None;
                worker.wake = None;
                worker.barred = why == apelora_fencing::event::Why::OwnHostOffline;
            }
        }
    }

    /// What happens without a choice: looks while nothing is in progress, and writes that change nothing but the audit.
    fn at_once(&self, s: &mut State, w: usize) {
        let idle = s.workers[w].supervisor.as_ref().is_some_and(|v| v.in_progress().is_none());
        let quick = |d: &Doing| match d {
            Doing::Commit(_, Write::Refused(_) | Write::Checked(_)) => true,
            // Interesting only when it can go wrong.
            Doing::Commit(_, Write::Observed(_) | Write::Proof(_)) => s.budget.lost_answers == 0,
            _ => false,
        };
        if s.workers[w].doing.iter().any(|t| quick(&t.doing)) {
            self.commit(s, w, Fate::Made);
        } else if idle && s.workers[w].doing.iter().any(|t| matches!(t.doing, Doing::Look(..))) {
            self.look(s, w);
        }
    }

    fn take(s: &mut State, w: usize, which: impl Fn(&Doing) -> bool) -> Option<Doing> {
        let i = s.workers[w].doing.iter().position(|t| which(&t.doing))?;
        Some(s.workers[w].doing.remove(i).doing)
    }

    fn look(&self, s: &mut State, w: usize) {
        let Some(Doing::Look(ticket, asked)) = Self::take(s, w, |d| matches!(d, Doing::Look(..))) else {
            return;
        };
        let online: Vec<_> = (0..self.members).filter(|m| s.servers[*m].online).collect();
        let list = |by: usize| {
            let listed = (0..self.members).map(|m| Listed {
                name: self.names[m].clone(),
                status: if s.servers[m].online { Status::Online } else { Status::Offline },
                failure_domain: None,
            });
            ClusterView::new(asked, self.names[by].clone(), None, listed.collect()).unwrap()
        };
        let view = online.last().map(|by| list(*by)).ok_or(apelora_fencing::view::ViewError::Empty);
        let second = if online.len() > 1 { SecondView::Seen(list(online[0])) } else { SecondView::Missing };
        s.ids += 1;
        let pass = Pass {
            ticket,
            view,
            second,
            healing: Healing::Off,
            leases: Vec::new(),
            stored: Some(s.store.read(s.db())),
            map: self.maps[s.map].clone(),
            fresh_id: RecordId(Uuid::from_u128(s.ids)),
        };
        let mut offline = 0;
        for m in 0..self.members {
            let server = &mut s.servers[m];
            if server.online {
                // The life that is seen: the present one, unless its power is gone already.
                if server.powered {
                    s.workers[w].met |= 1 << m;
                    server.over &= !s.store.members[&self.names[m]].online;
                }
            } else {
                offline |= 1 << m;
            }
        }
        s.workers[w].looked = Some((asked, offline, s.map));
        self.tell(s, w, Event::Pass(Box::new(pass)));
    }

    fn commit(&self, s: &mut State, w: usize, fate: Fate) {
        let Some(Doing::Commit(ticket, write)) = Self::take(s, w, |d| matches!(d, Doing::Commit(..))) else {
            return;
        };
        let made = matches!(fate, Fate::Made | Fate::MadeAnswerLost).then(|| self.make(s, w, &write));
        let result = match (fate, made) {
            (Fate::Made, Some(answer)) => answer,
            (Fate::Unavailable, _) => Err(CommitError::Unavailable),
            _ => Err(CommitError::Unknown),
        };
        if let (Write::Permit(request), Ok(_)) = (&write, &result) {
            s.workers[w].permit = Some(request.clone());
        }
        self.tell(s, w, Event::Done(ticket, Outcome::Committed(result)));
    }

    /// Makes a write, and checks what it did.
    fn make(&self, s: &mut State, w: usize, write: &Write) -> Result<Committed, CommitError> {
        let db = s.db();
        let open_before = s.store.records.iter().filter(|r| r.status.is_open()).count();
        let (answer, rows) = s.store.commit(db, (s.workers[w].epoch, holder(w)), write);
        if answer == Err(CommitError::Deposed) {
            s.reached |= bit("deposed write refused");
        }
        if let (Write::Permit(_), Err(CommitError::Refused(reason))) = (write, &answer) {
            s.reached |= match reason {
                ReasonCode::MappingChanged => bit("map changed under an intent"),
                ReasonCode::Held => bit("locked under an intent"),
                _ => 0,
            };
        }
        if answer.is_err() {
            s.must("a refused write writes nothing", rows.is_empty());
            return answer;
        }
        let record_of = |s: &State, id: RecordId| s.store.records.iter().find(|r| r.id == id).cloned();
        match write {
            Write::Observed(seen) => {
                for o in seen.iter().filter(|o| o.seen != Seen::Away) {
                    let m = self.index(&o.member);
                    s.servers[m].sent_lately = false;
                    s.servers[m].over &= s.workers[w].met & (1 << m) == 0;
                }
            }
            Write::Intent(intent) => {
                s.must("SEND-SINGLE", open_before == 0);
                let row = &s.store.members[&intent.member];
                let fenced = row.proof.is_some_and(|p| p.incarnation == row.incarnation);
                s.must("no intent for a fenced member", !fenced);
            }
            Write::Permit(request) => {
                let record = record_of(s, request.record()).expect("a permitted record");
                let m = self.index(&record.member);
                let row = s.store.members[&record.member].clone();
                let fenced = row.proof.is_some_and(|p| p.incarnation == row.incarnation);
                s.must("PROOF-PERSON-WINS", !fenced);
                s.must("no send to a held member", !row.held);
                s.must("SEND-LOOP", !s.servers[m].sent_lately);
                s.servers[m].sent_lately = true;
            }
            Write::Adopt(_) => s.reached |= bit("adopted"),
            Write::Final(last) => {
                let record = record_of(s, last.record).expect("a final record");
                let m = self.index(&record.member);
                let finals = rows.iter().filter(|r| r.action == AuditAction::PowerOff).count();
                s.must("AUDIT-EACH", finals == 1);
                if !last.sent {
                    s.servers[m].sent_lately = false;
                }
                s.reached |= match (record.status, last.reason) {
                    (RecordStatus::Fenced, ReasonCode::AlreadyOff) => bit("fenced although already off"),
                    (RecordStatus::Fenced, _) => bit("fenced by power-off"),
                    (RecordStatus::Superseded, _) => bit("superseded by a person"),
                    (RecordStatus::Failed, _) => bit("failed"),
                    (_, ReasonCode::BackOnline) => bit("back online before the send"),
                    (_, ReasonCode::PermitExpired) => bit("permit expired"),
                    _ => 0,
                };
            }
            Write::Proof(_) if answer == Ok(Committed::Proof(true)) => s.reached |= bit("fenced by watching"),
            Write::RecoveryStarted { member, .. } => {
                s.reached |= bit("recovered");
                let m = self.index(member);
                let over = s.servers[m].over && s.workers[w].met & (1 << m) == 0;
                s.must("PROOF-INCARNATION: a restart although the old life runs", over);
            }
            _ => {}
        }
        for row in rows.iter().filter(|r| r.action == AuditAction::Fenced) {
            let stored = s.store.members[&row.member].proof.expect("a proof was stored");
            if stored.kind == ProofKind::PowerOff {
                let over = s.servers[self.index(&row.member)].over;
                s.must("PROOF-READBACK: fenced although the old life runs", over);
            }
        }
        let open = s.store.records.iter().filter(|r| r.status.is_open()).count();
        s.must("SEND-SINGLE", open <= 1);
        answer
    }

    /// The first byte of a power-off leaves now.
    fn sends(&self, s: &mut State, w: usize, m: usize) {
        let worker = &s.workers[w];
        let (asked, offline, map) = worker.looked.expect("a send after a look");
        let fresh = s.now.since(asked) <= self.limits.permit_valid;
        let minority = 2 * offline.count_ones() < self.members as u32;
        let was_offline = offline & (1 << m) != 0;
        let lease = s.store.lease;
        let covered = lease.epoch == worker.epoch && lease.expires_at >= s.db() + self.limits.send_deadline;
        let record = s.store.records.iter().find(|r| r.status.is_open()).cloned();
        let mapped = record.as_ref().is_some_and(|r| self.maps[map].sha() == Some(r.map));
        let own = record.is_some_and(|r| {
            r.status == RecordStatus::Sent && self.index(&r.member) == m && r.epoch == worker.epoch
        });
        s.must("SEND-GUARDED: Offline in a fresh answer", fresh && was_offline);
        s.must("SEND-GUARDED: fewer than half Offline", minority);
        s.must("LEASE-COVERS-SEND", covered);
        s.must("SEND-INTENT-FIRST", own);
        s.must("SEND-MAPPED", mapped);
        let host = self.own_hosts.then_some(w);
        s.must("SEND-NOT-SELF", host != Some(m));
    }

    fn send(&self, s: &mut State, w: usize, taking: Taking) {
        let Some(Doing::Send(ticket, m) | Doing::Stalled(ticket, m)) =
            Self::take(s, w, |d| matches!(d, Doing::Send(..) | Doing::Stalled(..)))
        else {
            return;
        };
        self.byte_leaves(s, w, m, taking);
        let answer = match taking {
            Taking::ActsUnanswered => SendAnswer::Unanswered,
            Taking::Fails => SendAnswer::NotSent(ReasonCode::PermitExpired),
            Taking::Acts | Taking::Ignores | Taking::ActsLate => SendAnswer::Accepted,
        };
        let report = SendReport { began: s.now, ended: s.now, answer };
        if s.workers[w].hung {
            s.workers[w].begin(Doing::Report(ticket, m, report));
        } else {
            self.tell(s, w, Event::Done(ticket, Outcome::Sent(report)));
        }
    }

    fn byte_leaves(&self, s: &mut State, w: usize, m: usize, taking: Taking) {
        if taking == Taking::Fails {
            return;
        }
        self.sends(s, w, m);
        match taking {
            Taking::Acts | Taking::ActsUnanswered => power_off(s, m),
            Taking::ActsLate => s.servers[m].off_later = true,
            Taking::Ignores | Taking::Fails => {}
        }
    }

    fn allows(s: &State, w: usize) -> bool {
        s.workers[w].permit.as_ref().is_some_and(|p| s.now < p.until())
    }

    fn crash(s: &mut State, w: usize) {
        let epoch = s.workers[w].epoch;
        s.workers[w] = Worker::down(epoch);
    }

    fn tick(&self, s: &mut State) {
        s.now = s.now + TICK;
        s.workers.iter_mut().flat_map(|w| &mut w.doing).for_each(|t| t.late = true);
        for w in 0..WORKERS {
            if s.workers[w].hung || s.workers[w].supervisor.is_none() {
                continue;
            }
            if s.store.renew(s.db(), s.workers[w].epoch, holder(w)).is_ok() {
                let deadline = s.now + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin);
                self.tell(s, w, Event::Renewed(deadline));
            } else {
                self.tell(s, w, Event::Lost);
            }
            if s.workers[w].wake.is_some_and(|at| at <= s.now) {
                self.tell(s, w, Event::Woke);
            }
        }
        // The ten minutes pass by their own action: keep what was sent and seen as old as it is.
        let now = s.db();
        for record in &mut s.store.records {
            let online = s.store.members.get(&record.member).and_then(|m| m.last_online_at);
            if let Some(at) = record.send_at {
                let since = online.is_some_and(|online| online > at);
                record.send_at = Some(if since { now.saturating_sub(TICK) } else { now });
            }
        }
        for (name, member) in &mut s.store.members {
            let sent = s.store.records.iter().filter(|r| r.member == *name).filter_map(|r| r.send_at).max();
            let since = sent.is_some_and(|at| member.last_online_at.is_some_and(|online| online > at));
            member.last_online_at = member.last_online_at.map(|_| if since { now } else { Duration::ZERO });
        }
    }
}

fn holder(w: usize) -> HolderId {
    HolderId(Uuid::from_u128(w as u128 + 1))
}

fn power_off(s: &mut State, m: usize) {
    s.servers[m] = Server { powered: false, alive: false, off_later: false, over: true, ..s.servers[m] };
    life_ends(s, m);
}

fn life_ends(s: &mut State, m: usize) {
    s.servers[m].over = true;
    s.workers.iter_mut().for_each(|w| w.met &= !(1 << m));
}

impl Task {
    fn may_last(&self) -> bool {
        !self.late || matches!(self.doing, Doing::Stalled(..))
    }
}

impl Worker {
    fn begin(&mut self, doing: Doing) {
        self.doing.push(Task { doing, late: false });
    }

    fn down(epoch: Epoch) -> Self {
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

impl Model for Exploration {
    type State = State;
    type Action = Act;

    fn start(&self) -> State {
        let up = Server {
            powered: true,
            alive: true,
            online: true,
            off_later: false,
            over: false,
            sent_lately: false,
        };
        let mut store = MemoryStore::new(&self.limits);
        for name in &self.names {
            let member = store.members.entry(name.clone()).or_default();
            member.incarnation = Incarnation(1);
            member.online = true;
            member.last_online_at = Some(Duration::ZERO);
        }
        State {
            now: BootTime::new(ticks(100)),
            servers: vec![up; self.members],
            store,
            workers: [Worker::down(Epoch(0)), Worker::down(Epoch(0))],
            budget: self.budget,
            map: 0,
            ids: 1_000,
            reached: 0,
            broken: None,
        }
    }

    fn actions(&self, s: &State, into: &mut Vec<Act>) {
        let b = &s.budget;
        // Every operation ends by its deadline, which is one tick; only a frozen worker takes longer.
        if s.workers.iter().all(|w| w.hung || w.doing.iter().all(Task::may_last)) {
            into.push(Act::Tick);
        }
        if b.loops > 0 && s.servers.iter().any(|v| v.sent_lately) {
            into.push(Act::LoopPasses);
        }
        if b.edits > 0 {
            into.push(Act::Edit);
        }
        for (m, server) in s.servers.iter().enumerate() {
            if server.online != server.alive {
                into.push(Act::ViewCatchesUp(m));
            }
            if server.off_later {
                into.push(Act::LateOff(m));
            }
            if m >= self.mortal {
                continue;
            }
            if b.failures > 0 && server.alive {
                into.extend([Act::Hang(m), Act::PowerLoss(m)]);
            }
            if b.returns > 0 && !server.alive {
                into.push(Act::Return(m));
            }
            if b.false_offline > 0 && server.alive && server.online {
                into.push(Act::FalseOffline(m));
            }
            if b.persons > 0
                && !server.powered
                && s.store.members.get(&self.names[m]).is_some_and(|r| !r.online)
            {
                into.push(Act::Person(m));
            }
            if b.locks > 0 && !s.store.members[&self.names[m]].held {
                into.push(Act::Lock(m));
            }
        }
        for (w, worker) in s.workers.iter().enumerate() {
            let Some(supervisor) = &worker.supervisor else {
                let free = s.store.lease.holder.is_none() || s.store.lease.expires_at < s.db();
                if free && s.store.lease.epoch.0 < u64::from(b.epochs) && !worker.barred {
                    into.push(Act::Campaign(w));
                }
                continue;
            };
            if b.crashes > 0 {
                into.push(Act::Crash(w));
            }
            if worker.hung {
                into.push(Act::Thaw(w));
            } else if b.hangs > 0 {
                into.push(Act::Freeze(w));
            }
            for task in &worker.doing {
                self.actions_of(s, w, &task.doing, into);
            }
            if worker.hung {
                continue;
            }
            for (m, name) in self.names.iter().enumerate() {
                let row = &s.store.members[name];
                if row.proof.is_some_and(|p| !p.recovery_started) && supervisor.may_recover(s.now, name) {
                    into.push(Act::Recover(w, m));
                }
            }
        }
    }

    fn apply(&self, s: &mut State, act: Act) {
        match act {
            Act::Tick => self.tick(s),
            Act::LoopPasses => {
                s.budget.loops -= 1;
                s.servers.iter_mut().for_each(|v| v.sent_lately = false);
                s.store.records.iter_mut().filter(|r| !r.status.is_open()).for_each(|r| r.send_at = None);
            }
            Act::Hang(m) => {
                s.budget.failures -= 1;
                s.servers[m].alive = false;
            }
            Act::PowerLoss(m) => {
                s.budget.failures -= 1;
                power_off(s, m);
            }
            Act::Return(m) => {
                s.budget.returns -= 1;
                // A new boot: what ran before is gone. A power-off on its way may still come.
                s.servers[m] = Server { powered: true, alive: true, ..s.servers[m] };
                life_ends(s, m);
            }
            Act::FalseOffline(m) => {
                s.budget.false_offline -= 1;
                s.servers[m].online = false;
            }
            Act::ViewCatchesUp(m) => s.servers[m].online = s.servers[m].alive,
            Act::LateOff(m) => power_off(s, m),
            Act::Person(m) => {
                s.budget.persons -= 1;
                let shown = s.store.members[&self.names[m]].incarnation;
                let now = s.db();
                s.store.confirm_off(now, &self.names[m], shown).expect("a member that is not Online");
            }
            Act::Edit => {
                s.budget.edits -= 1;
                s.map = 1 - s.map;
            }
            Act::Lock(m) => {
                s.budget.locks -= 1;
                s.store.set_held(&self.names[m], true);
            }
            Act::Campaign(w) => {
                let now = s.db();
                let epoch = s.store.campaign(now, holder(w)).expect("an expired lease");
                let deadline = s.now + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin);
                let me = Leadership { epoch, holder: holder(w), deadline };
                let own_host = self.own_hosts.then(|| self.names[w].clone());
                let settings = Settings { own_host, allow_lab: true, ..Settings::default() };
                s.workers[w] = Worker::down(epoch);
                s.workers[w].supervisor = Some(Supervisor::elected(s.now, me, self.limits.clone(), settings));
                self.tell(s, w, Event::Woke);
            }
            Act::Crash(w) => {
                s.budget.crashes -= 1;
                Self::crash(s, w);
            }
            Act::Freeze(w) => {
                s.budget.hangs -= 1;
                s.workers[w].hung = true;
            }
            Act::Thaw(w) => self.thaw(s, w),
            Act::Look(w) => self.look(s, w),
            Act::Commit(w, fate) => {
                if fate != Fate::Made {
                    s.budget.lost_answers -= 1;
                }
                self.commit(s, w, fate);
            }
            Act::CommitThenCrash(w) => {
                s.budget.crashes -= 1;
                if let Some(Doing::Commit(_, write)) = Self::take(s, w, |d| matches!(d, Doing::Commit(..))) {
                    let _ = self.make(s, w, &write);
                }
                Self::crash(s, w);
            }
            Act::Open(w, m, opens) => self.open(s, w, m, opens),
            Act::Read(w, m, telling) => self.read(s, w, m, telling),
            Act::Send(w, taking) => {
                if matches!(taking, Taking::Ignores | Taking::ActsLate | Taking::ActsUnanswered) {
                    s.budget.bad_sends -= 1;
                }
                self.send(s, w, taking);
            }
            Act::SendThenCrash(w) => {
                s.budget.crashes -= 1;
                if let Some(Doing::Send(_, m)) = Self::take(s, w, |d| matches!(d, Doing::Send(..))) {
                    self.byte_leaves(s, w, m, Taking::Acts);
                }
                Self::crash(s, w);
            }
            Act::Stall(w) => {
                if let Some(Doing::Send(t, m)) = Self::take(s, w, |d| matches!(d, Doing::Send(..))) {
                    s.workers[w].begin(Doing::Stalled(t, m));
                }
            }
            Act::Unstall(w) => self.send(s, w, Taking::Acts),
            Act::Recover(w, m) => {
                let member = self.names[m].clone();
                let incarnation = s.store.members[&member].incarnation;
                let _ = self.make(s, w, &Write::RecoveryStarted { member, incarnation });
            }
        }
        self.forget(s);
    }

    fn fingerprint(&self, s: &State) -> u64 {
        self.canonical(s)
    }

    fn broken(&self, s: &State) -> Option<String> {
        s.broken.clone()
    }

    fn reached(&self, s: &State) -> u64 {
        s.reached
    }
}

impl Exploration {
    fn actions_of(&self, s: &State, w: usize, doing: &Doing, into: &mut Vec<Act>) {
        let (b, hung) = (&s.budget, s.workers[w].hung);
        match doing {
            Doing::Send(..) => {
                if !Self::allows(s, w) {
                    return into.push(Act::Send(w, Taking::Fails));
                }
                into.push(Act::Send(w, Taking::Acts));
                if b.bad_sends > 0 {
                    into.extend(
                        [Taking::Ignores, Taking::ActsLate, Taking::ActsUnanswered].map(|t| Act::Send(w, t)),
                    );
                }
                if b.crashes > 0 {
                    into.push(Act::SendThenCrash(w));
                }
                if self.stalls {
                    into.push(Act::Stall(w));
                }
            }
            Doing::Stalled(..) => into.push(Act::Unstall(w)),
            _ if hung => {}
            Doing::Look(..) => into.push(Act::Look(w)),
            Doing::Commit(_, write) => {
                into.push(Act::Commit(w, Fate::Made));
                if b.lost_answers > 0 {
                    let fates = [Fate::MadeAnswerLost, Fate::NotMadeAnswerLost, Fate::Unavailable];
                    into.extend(fates.map(|fate| Act::Commit(w, fate)));
                }
                if b.crashes > 0 && write.record().is_some() {
                    into.push(Act::CommitThenCrash(w));
                }
            }
            Doing::Open(_, m) => {
                into.push(Act::Open(w, *m, true));
                if b.read_errors > 0 {
                    into.push(Act::Open(w, *m, false));
                }
            }
            Doing::Read(_, m) => {
                into.push(Act::Read(w, *m, Telling::Truth));
                if b.read_errors > 0 {
                    into.push(Act::Read(w, *m, Telling::Error));
                }
                if b.lies > 0 && s.servers[*m].powered {
                    into.push(Act::Read(w, *m, Telling::LieOff));
                }
            }
            Doing::Report(..) => {}
        }
    }

    fn open(&self, s: &mut State, w: usize, m: usize, opens: bool) {
        let which = |d: &Doing| matches!(d, Doing::Open(_, of) if *of == m);
        let Some(Doing::Open(ticket, _)) = Self::take(s, w, which) else { return };
        if !opens {
            s.budget.read_errors -= 1;
            s.workers[w].talks.retain(|(t, _)| *t != ticket);
        }
        let result = if opens { Ok(()) } else { Err(unreachable_bmc()) };
        self.tell(s, w, Event::Done(ticket, Outcome::Opened(result)));
    }

    fn read(&self, s: &mut State, w: usize, m: usize, telling: Telling) {
        let which = |d: &Doing| matches!(d, Doing::Read(_, of) if *of == m);
        let Some(Doing::Read(ticket, _)) = Self::take(s, w, which) else { return };
        let power = match telling {
            Telling::Truth if s.servers[m].powered => PowerWord::On,
            _ => PowerWord::Off,
        };
        match telling {
            Telling::Truth => {}
            Telling::Error => s.budget.read_errors -= 1,
            Telling::LieOff => s.budget.lies -= 1,
        }
        let identity = RawIdentity::LabName(format!("apelora-{}", self.names[m]));
        let result = match telling {
            Telling::Error => Err(unreachable_bmc()),
            _ => Ok(Reported { identity, power, detail: String::new() }),
        };
        let done = ReadDone { began: s.now, ended: s.now, result };
        self.tell(s, w, Event::Done(ticket, Outcome::Read(done)));
    }

    /// The loop goes on: what waited for it reaches it now.
    fn thaw(&self, s: &mut State, w: usize) {
        s.workers[w].hung = false;
        while let Some(Doing::Report(ticket, _, report)) =
            Self::take(s, w, |d| matches!(d, Doing::Report(..)))
        {
            self.tell(s, w, Event::Done(ticket, Outcome::Sent(report)));
        }
        self.tell(s, w, Event::Woke);
    }

    /// Drops final records that nothing can ask about any more.
    fn forget(&self, s: &mut State) {
        let keep = s.store.records.len().saturating_sub(3);
        let mut i = 0;
        s.store.records.retain(|r| {
            i += 1;
            i > keep || r.status.is_open() || r.send_at.is_some()
        });
    }

    /// A fingerprint that is the same for states that differ by the names of members, and by which of the two workers is which.
    fn canonical(&self, s: &State) -> u64 {
        let holder_is_second = s.store.lease.holder == Some(holder(1));
        let order: [usize; WORKERS] =
            if self.symmetric && !self.own_hosts && holder_is_second { [1, 0] } else { [0, 1] };
        let mut parts = Parts {
            whole: DefaultHasher::new(),
            members: self.names.iter().map(|n| (n.clone(), DefaultHasher::new())).collect(),
            records: s.store.records.iter().map(|r| r.id).collect(),
        };
        parts.whole((s.budget, s.map, s.broken.is_some()));
        let lease = s.store.lease;
        parts.whole((lease.epoch, lease.expires_at.saturating_sub(s.db()), lease.expires_at < s.db()));
        for (name, server) in self.names.iter().zip(&s.servers) {
            let row = &s.store.members[name];
            let proof = row.proof.map(|p| (p.kind, p.incarnation, p.recovery_started));
            parts.of(name, (server, row.incarnation, row.online, proof, row.held, row.distrusted));
        }
        for (i, record) in s.store.records.iter().rev().enumerate() {
            let owner = order.iter().position(|w| holder(*w) == record.holder);
            let since = s.store.members[&record.member]
                .last_online_at
                .zip(record.send_at)
                .is_some_and(|(o, s)| o > s);
            let sent = record.send_at.map(|_| since);
            parts.of(&record.member, (i, record.status, record.incarnation, record.epoch, owner, sent));
            parts.whole((record.map.as_bytes(), record.status));
        }
        for w in order {
            let worker = &s.workers[w];
            parts.whole((worker.epoch, worker.hung, worker.barred, worker.supervisor.is_some()));
            parts.whole(lease.holder == Some(holder(w)));
            let until = worker.permit.as_ref().map(|p| p.until().since(s.now));
            parts.whole(until);
            if let Some((asked, offline, map)) = worker.looked {
                parts.whole(map);
                parts.whole(s.now.since(asked).min(ticks(2)));
                for (m, name) in self.names.iter().enumerate() {
                    parts.of(name, offline & (1 << m) != 0);
                }
            }
            for (m, name) in self.names.iter().enumerate() {
                parts.of(name, ("met", worker.met & (1 << m) != 0));
            }
            for Task { doing, late } in &worker.doing {
                let kind = (std::mem::discriminant(doing), late);
                match doing {
                    Doing::Look(_, asked) => parts.whole((kind, s.now.since(*asked).min(ticks(2)))),
                    Doing::Commit(..) => parts.whole(kind),
                    Doing::Open(_, m) | Doing::Read(_, m) | Doing::Send(_, m) | Doing::Stalled(_, m) => {
                        parts.of(&self.names[*m], kind);
                    }
                    Doing::Report(_, m, report) => parts.of(&self.names[*m], (kind, report.answer)),
                }
            }
            if let Some(supervisor) = &worker.supervisor {
                supervisor.canon(s.now, &mut parts);
            }
            for name in &self.names {
                parts.of(name, "next worker");
            }
        }
        let mut members: Vec<u64> = parts.members.iter().map(|(_, h)| h.finish()).collect();
        if self.symmetric && !self.own_hosts {
            members.sort_unstable();
        }
        members.hash(&mut parts.whole);
        parts.whole.finish()
    }
}

fn unreachable_bmc() -> BmcError {
    BmcError { reason: ReasonCode::BmcUnreachable, transient: true, detail: String::new() }
}

//! One supervisor at a bench: no latency but what a test asks for, every call written down.

use std::collections::VecDeque;
use std::time::Duration;

use apelora_fencing::event::{BmcError, Effect, Event, Outcome, Pass, ReadDone, Why};
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::lease::LeaseReading;
use apelora_fencing::map::MapState;
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::name::{Epoch, HolderId};
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer, SendReport};
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status, ViewError};
use apelora_fencing::write::{AuditAction, AuditRow, CommitError, Committed, Write};
use apelora_fencing::{BootTime, Incarnation, Limits, MemberName, ReasonCode, RecordId, Supervisor, Ticket};
use uuid::Uuid;

/// What was asked of the outside, with its time in milliseconds since the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) at: u64,
    pub(crate) what: &'static str,
    pub(crate) member: String,
}

/// How the BMC of a test answers the n-th reading of a member.
pub(crate) type Answers = Box<dyn FnMut(&Rig, &str, usize) -> (u64, Result<Reported, BmcError>)>;

/// What a test does to the database before a commit of a kind.
pub(crate) type Before = Box<dyn FnMut(&mut MemoryStore, &'static str)>;

pub(crate) struct Rig {
    pub(crate) supervisor: Supervisor,
    pub(crate) store: MemoryStore,
    pub(crate) limits: Limits,
    pub(crate) names: Vec<MemberName>,
    pub(crate) status: Vec<Status>,
    pub(crate) map: MapState,
    pub(crate) database_leader: Option<MemberName>,
    pub(crate) view: Result<(), ViewError>,
    pub(crate) second: bool,
    pub(crate) now: u64,
    pub(crate) calls: Vec<Call>,
    pub(crate) audit: Vec<(u64, AuditRow)>,
    pub(crate) answers: Option<Answers>,
    pub(crate) send: SendAnswer,
    /// What the lease daemon says at a time.
    pub(crate) leases: fn(u64) -> Vec<LeaseReading>,
    /// What becomes of the next commits of these kinds.
    pub(crate) fates: VecDeque<(&'static str, CommitError, bool)>,
    pub(crate) database: bool,
    pub(crate) renews: bool,
    pub(crate) renewal_every: u64,
    pub(crate) open_takes: u64,
    /// How long a request to switch off waits for its answer.
    pub(crate) send_takes: u64,
    /// How long a pass takes; it reads the database at its begin.
    pub(crate) look_takes: u64,
    /// By how much the cluster's answer is older than the question.
    pub(crate) asked_before: u64,
    /// The map after the next intent.
    pub(crate) map_after_intent: Option<MapState>,
    /// Called before each commit with its kind: where a test changes the world in between.
    pub(crate) before: Option<Before>,
    todo: VecDeque<(u64, Todo)>,
    wake: Option<u64>,
    me: (Epoch, HolderId),
    talks: Vec<(Ticket, MemberName)>,
    reads: usize,
    ids: u128,
    permit: Option<BootTime>,
    pub(crate) stepped_down: Option<Why>,
}

enum Todo {
    Effect(Effect),
    Answer(Event),
}

const START: u64 = 1_000_000;

pub(crate) fn power(member: &str, power: PowerWord) -> Result<Reported, BmcError> {
    Ok(Reported { identity: RawIdentity::LabName(format!("apelora-{member}")), power, detail: String::new() })
}

pub(crate) fn trouble(reason: ReasonCode, transient: bool) -> Result<Reported, BmcError> {
    Err(BmcError { reason, transient, detail: String::new() })
}

fn kind(write: &Write) -> &'static str {
    match write {
        Write::Observed(_) => "observed",
        Write::Refused(_) => "refused",
        Write::Intent(_) => "intent",
        Write::Permit(_) => "permit",
        Write::Adopt(_) => "adopt",
        Write::Final(_) => "final",
        Write::ReadBack(_) => "read back",
        Write::Proof(_) => "proof",
        Write::Withdraw(_) => "withdraw",
        Write::Checked(_) => "checked",
        Write::RecoveryStarted { .. } => "recovery",
    }
}

impl Rig {
    pub(crate) fn new(members: usize) -> Self {
        Self::with(members, Settings { allow_lab: true, ..Settings::default() })
    }

    pub(crate) fn with(members: usize, settings: Settings) -> Self {
        // The idle drill would be in the way; tests of it switch it on.
        let never = Duration::from_secs(1 << 30);
        let limits = Limits { drill_pause: never, drill_round: never, ..Limits::PRODUCTION };
        let names: Vec<_> = (0..members).map(|i| MemberName::from(format!("m{i:03}").as_str())).collect();
        let mut store = MemoryStore::new(&limits);
        for name in &names {
            let member = store.members.entry(name.clone()).or_default();
            member.incarnation = Incarnation(1);
            member.online = true;
            member.last_online_at = Some(Duration::ZERO);
        }
        let mut rig = Self {
            supervisor: Supervisor::elected(
                BootTime::default(),
                Leadership { epoch: Epoch(0), holder: HolderId(Uuid::nil()), deadline: BootTime::default() },
                limits.clone(),
                Settings::default(),
            ),
            store,
            limits,
            map: crate::data::lab_map(&names, 0),
            status: vec![Status::Online; members],
            database_leader: names.last().cloned(),
            names,
            view: Ok(()),
            second: true,
            now: 0,
            calls: Vec::new(),
            audit: Vec::new(),
            answers: None,
            send: SendAnswer::Accepted,
            leases: |_| Vec::new(),
            fates: VecDeque::new(),
            database: true,
            renews: true,
            renewal_every: 10_000,
            open_takes: 0,
            send_takes: 0,
            look_takes: 0,
            asked_before: 0,
            before: None,
            map_after_intent: None,
            todo: VecDeque::new(),
            wake: None,
            me: (Epoch(0), HolderId(Uuid::from_u128(1))),
            talks: Vec::new(),
            reads: 0,
            ids: 10,
            permit: None,
            stepped_down: None,
        };
        rig.elect(settings);
        rig
    }

    /// A rig with other limits.
    pub(crate) fn limited(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self.elect(Settings { allow_lab: true, ..Settings::default() });
        self
    }

    /// A rig in which the drill runs as in production.
    pub(crate) fn drilling(members: usize) -> Self {
        Self::new(members).limited(|l| *l = Limits::PRODUCTION)
    }

    /// A new leadership, of another process.
    pub(crate) fn elect(&mut self, settings: Settings) {
        self.store.lease.expires_at = Duration::ZERO;
        let holder = HolderId(Uuid::from_u128(self.me.1.0.as_u128() + 1));
        let epoch = self.store.campaign(self.db(), holder).unwrap();
        self.me = (epoch, holder);
        self.todo.clear();
        self.talks.clear();
        self.wake = None;
        self.stepped_down = None;
        let me = Leadership { epoch, holder, deadline: self.deadline() };
        self.supervisor = Supervisor::elected(self.boot(), me, self.limits.clone(), settings);
        self.tell(Event::Woke);
    }

    fn deadline(&self) -> BootTime {
        self.boot() + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin)
    }

    pub(crate) fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_millis(START + self.now))
    }

    pub(crate) fn db(&self) -> Duration {
        Duration::from_millis(START * 3 + self.now)
    }

    pub(crate) fn set(&mut self, member: usize, status: &str) {
        self.status[member] = Status::from_word(status);
    }

    /// All calls of one kind, as times.
    pub(crate) fn times(&self, what: &str) -> Vec<u64> {
        self.calls.iter().filter(|c| c.what == what).map(|c| c.at).collect()
    }

    /// The audited ends of records: outcome, reason, whether something was sent.
    pub(crate) fn ends(&self) -> Vec<(&'static str, ReasonCode, bool)> {
        let finals = self
            .audit
            .iter()
            .map(|(_, r)| r)
            .filter(|r| r.action == AuditAction::PowerOff && r.record.is_some());
        finals.map(|r| (r.outcome.unwrap().as_str(), r.reason.unwrap(), r.sent)).collect()
    }

    pub(crate) fn is_fenced(&self, member: usize) -> bool {
        let row = &self.store.members[&self.names[member]];
        row.proof.is_some_and(|p| p.incarnation == row.incarnation && !row.online)
    }

    fn tell(&mut self, event: Event) {
        let boot = self.boot();
        for effect in self.supervisor.on(boot, event) {
            self.todo.push_back((self.now, Todo::Effect(effect)));
        }
    }

    fn answer(&mut self, after: u64, event: Event) {
        self.todo.push_back((self.now + after, Todo::Answer(event)));
    }

    /// Lets everything happen until `end` milliseconds after the election.
    pub(crate) fn run(&mut self, end: u64) {
        let mut renewal = self.now;
        for steps in 0.. {
            assert!(steps < 300_000, "the machine turns in a circle at {} ms", self.now);
            let next = self
                .todo
                .iter()
                .enumerate()
                .min_by_key(|(i, (at, _))| (*at, *i))
                .map(|(i, (at, _))| (i, *at));
            let wake = self.wake.unwrap_or(u64::MAX);
            let at = next.map_or(u64::MAX, |(_, at)| at).min(wake).min(if self.renews {
                renewal
            } else {
                u64::MAX
            });
            if at >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(at);
            if self.renews && at == renewal && next.is_none_or(|(_, t)| t > at) {
                renewal = self.now + self.renewal_every;
                self.renew();
            } else if let Some((i, t)) = next
                && t == at
            {
                let (_, todo) = self.todo.remove(i).unwrap();
                match todo {
                    Todo::Effect(effect) => self.carry_out(effect),
                    Todo::Answer(event) => self.tell(event),
                }
            } else {
                self.wake = None;
                self.tell(Event::Woke);
            }
        }
    }

    fn renew(&mut self) {
        if self.database && self.store.renew(self.db(), self.me.0, self.me.1).is_ok() {
            let deadline = self.deadline();
            self.tell(Event::Renewed(deadline));
        }
    }

    fn call(&mut self, what: &'static str, member: &str) {
        self.calls.push(Call { at: self.now, what, member: member.to_owned() });
    }

    fn member_of(&self, ticket: Ticket) -> String {
        self.talks
            .iter()
            .find(|(t, _)| *t == ticket)
            .map(|(_, m)| m.to_string())
            .expect("an open conversation")
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Look(ticket) => {
                self.call("look", "");
                self.look(ticket);
            }
            Effect::Commit(ticket, write) => self.commit(ticket, &write),
            Effect::Permit(ticket, request) => self.commit(ticket, &Write::Permit(request)),
            Effect::Open(ticket, target, _) => {
                self.call("open", target.member.as_str());
                self.talks.push((ticket, target.member));
                self.answer(self.open_takes, Event::Done(ticket, Outcome::Opened(Ok(()))));
            }
            Effect::Read(ticket, _) => {
                let member = self.member_of(ticket);
                self.call("read", &member);
                let mut answers = self.answers.take().expect("a BMC");
                let (took, result) = answers(self, &member, self.reads);
                self.answers = Some(answers);
                self.reads += 1;
                let ended = self.boot() + Duration::from_millis(took);
                let done = ReadDone { began: self.boot(), ended, result };
                self.answer(took, Event::Done(ticket, Outcome::Read(done)));
            }
            Effect::SendOff(ticket, reading, _) => {
                assert_eq!(reading.conversation(), ticket);
                let member = self.member_of(ticket);
                self.call("send", &member);
                assert!(
                    self.permit.is_some_and(|until| self.boot() < until),
                    "a send without a valid permit"
                );
                let began = self.boot();
                let ended = began + Duration::from_millis(self.send_takes);
                let report = SendReport { began, ended, answer: self.send };
                self.answer(self.send_takes, Event::Done(ticket, Outcome::Sent(report)));
            }
            Effect::Close(ticket) => self.talks.retain(|(t, _)| *t != ticket),
            Effect::Renew => {
                self.call("renew", "");
                self.renew();
            }
            Effect::Wake(at) => self.wake = Some(at.since_boot().as_millis() as u64 - START),
            Effect::StepDown(why) => {
                self.call("step down", "");
                self.stepped_down = Some(why);
            }
        }
    }

    fn lease_readings(&self) -> Vec<LeaseReading> {
        let mut readings = (self.leases)(self.now);
        readings.iter_mut().for_each(|r| r.read_at = self.boot());
        readings
    }

    fn look(&mut self, ticket: Ticket) {
        self.ids += 1;
        let list = |by: &MemberName| {
            let listed = self.names.iter().zip(&self.status).map(|(n, s)| Listed {
                name: n.clone(),
                status: s.clone(),
                failure_domain: None,
            });
            let asked = self.boot().earlier(Duration::from_millis(self.asked_before));
            ClusterView::new(asked, by.clone(), self.database_leader.clone(), listed.collect()).unwrap()
        };
        let mut online =
            self.names.iter().zip(&self.status).rev().filter(|(_, s)| **s == Status::Online).map(|(n, _)| n);
        let first = online.next().unwrap_or(&self.names[0]);
        let second = online.next().filter(|_| self.second);
        let pass = Pass {
            ticket,
            view: self.view.clone().map(|()| list(first)),
            second: second.map_or(SecondView::Missing, |by| SecondView::Seen(list(by))),
            healing: Healing::Off,
            leases: self.lease_readings(),
            stored: self.database.then(|| self.store.read(self.db())),
            map: self.map.clone(),
            fresh_id: RecordId(Uuid::from_u128(self.ids)),
        };
        self.answer(self.look_takes, Event::Pass(Box::new(pass)));
    }

    fn commit(&mut self, ticket: Ticket, write: &Write) {
        let kind = kind(write);
        self.call(kind, "");
        if let Some(before) = &mut self.before {
            before(&mut self.store, kind);
        }
        let fate =
            self.fates.front().is_some_and(|(of, ..)| *of == kind).then(|| self.fates.pop_front().unwrap());
        let made = fate.as_ref().map_or(self.database, |(_, _, made)| *made);
        let mut answer: Result<Committed, CommitError> = Err(CommitError::Unavailable);
        if made {
            let (result, rows) = self.store.commit(self.db(), self.me, write);
            answer = result;
            self.audit.extend(rows.into_iter().map(|r| (self.now, r)));
        }
        if let Some((_, error, _)) = fate {
            answer = Err(error);
        }
        if kind == "intent"
            && let Some(map) = self.map_after_intent.take()
        {
            self.map = map;
        }
        if let (Write::Permit(request), Ok(_)) = (write, &answer) {
            self.permit = Some(request.until());
        }
        self.answer(0, Event::Done(ticket, Outcome::Committed(answer)));
    }
}

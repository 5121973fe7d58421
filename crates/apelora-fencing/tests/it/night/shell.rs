//! Two workers of a night: their shells carry effects out with latencies, outages and lost answers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use apelora_fencing::event::{Effect, Event, Outcome, Pass, ReadDone, Why};
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::proof::{SendAnswer, SendPermit, SendReport};
use apelora_fencing::record::RecordStatus;
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::write::{CommitError, Write};
use apelora_fencing::{
    BootTime, Epoch, HolderId, Limits, MemberName, ReasonCode, RecordId, Supervisor, Ticket,
};
use uuid::Uuid;

use super::ghosts::Ghosts;
use super::rng::Rng;
use super::site::{Site, ms};

/// Something that happens at its time.
#[derive(Debug)]
pub(crate) enum Act {
    /// An answer reaches a worker, unless it was restarted since.
    Answer(usize, u64, Answer),
    /// A worker looks after its lease.
    Lease(usize),
    /// A worker's wake-up call, with its number.
    Wake(usize, u64, u64),
    /// A fault, a return, an edit: by its number in the script.
    Script(usize),
}

/// Answers that are put together when they arrive.
#[derive(Debug)]
pub(crate) enum Answer {
    Pass(Ticket, BootTime),
    Commit(Ticket, Write),
    Opened(Ticket),
    Read(Ticket, BootTime),
    Sent(Ticket, SendReport),
    Renew,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) holder: HolderId,
    /// Its boot clock runs ahead of the night's by this.
    boot_offset: u64,
    pub(crate) host: Option<MemberName>,
    pub(crate) supervisor: Option<Supervisor>,
    epoch: Epoch,
    /// Counts elections, so that answers to an earlier one are lost with it.
    term: u64,
    wakes: u64,
    /// Down or suspended until then.
    pub(crate) away_until: u64,
    talks: BTreeMap<Ticket, MemberName>,
    permit: Option<SendPermit>,
    barred: bool,
}

pub(crate) struct Night {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) site: Site,
    pub(crate) store: MemoryStore,
    pub(crate) limits: Limits,
    pub(crate) workers: Vec<Worker>,
    pub(crate) ghosts: Ghosts,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    acts: Vec<Option<Act>>,
    /// The database does not answer until then.
    pub(crate) db_away_until: u64,
    /// The database's clock is ahead by this.
    pub(crate) db_offset: u64,
    ids: u128,
    pub(crate) passes: u64,
    pub(crate) story: Option<Vec<String>>,
    /// Nothing is slow or lost but what the script says.
    pub(crate) calm: bool,
}

impl Night {
    pub(crate) fn new(mut rng: Rng, site: Site, own_hosts: bool, calm: bool, tell: bool) -> Self {
        let limits = Limits::PRODUCTION;
        let workers = (0..2).map(|i| Worker {
            holder: HolderId(Uuid::from_u128(i as u128 + 1)),
            boot_offset: rng.range(0..1_000_000),
            host: own_hosts.then(|| site.servers[i].name.clone()),
            supervisor: None,
            epoch: Epoch(0),
            term: 0,
            wakes: 0,
            away_until: 0,
            talks: BTreeMap::new(),
            permit: None,
            barred: false,
        });
        let workers = workers.collect();
        let mut night = Self {
            now: 0,
            store: MemoryStore::new(&limits),
            ghosts: Ghosts::default(),
            limits,
            workers,
            queue: BinaryHeap::new(),
            acts: Vec::new(),
            db_away_until: 0,
            db_offset: 0,
            ids: 100,
            passes: 0,
            story: tell.then(Vec::new),
            calm,
            rng,
            site,
        };
        night.at(10, Act::Lease(0));
        night.at(20, Act::Lease(1));
        night
    }

    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>9.3} s  {}", self.now as f64 / 1000.0, what()));
        }
    }

    pub(crate) fn at(&mut self, time: u64, act: Act) {
        let time = time.max(self.now);
        self.acts.push(Some(act));
        self.queue.push(Reverse((time, self.acts.len() as u64, self.acts.len() - 1)));
    }

    /// The next act that is due before `end`.
    pub(crate) fn step(&mut self, end: u64) -> Option<Act> {
        let Reverse((time, _, index)) = *self.queue.peek()?;
        if time >= end {
            return None;
        }
        self.queue.pop();
        self.now = time;
        self.site.settle(time);
        self.acts[index].take()
    }

    fn clocks(&self) -> (u64, u64) {
        (self.now, self.now + self.db_offset)
    }

    /// True once in `n` times, never in a calm night.
    fn seldom(&mut self, n: u64) -> bool {
        !self.calm && self.rng.once_in(n)
    }

    fn boot(&self, w: usize) -> BootTime {
        BootTime::new(ms(self.now + self.workers[w].boot_offset))
    }

    pub(crate) fn db_now(&self) -> std::time::Duration {
        ms(self.now + self.db_offset)
    }

    fn db_is_up(&self) -> bool {
        self.now >= self.db_away_until
    }

    /// An act of a worker that is away is put off until it is back.
    pub(crate) fn put_off(&mut self, w: usize, act: Act) -> Option<Act> {
        let until = self.workers[w].away_until;
        if self.now < until {
            self.at(until, act);
            return None;
        }
        Some(act)
    }

    pub(crate) fn kill(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        worker.supervisor = None;
        worker.talks.clear();
        worker.permit = None;
        worker.term += 1;
        // A new process is a new holder.
        worker.holder = HolderId(Uuid::from_u128(worker.holder.0.as_u128() + 2));
    }

    pub(crate) fn lease(&mut self, w: usize) {
        let before = self.boot(w);
        let holder = self.workers[w].holder;
        let deadline = self.deadline(before);
        let mut pause = 3_000;
        if self.workers[w].supervisor.is_some() {
            if self.db_is_up() {
                self.renew(w);
                pause = 10_000;
            }
        } else if self.db_is_up()
            && !self.is_barred(w)
            && let Some(epoch) = self.store.campaign(self.db_now(), holder)
        {
            self.tell(|| format!("worker {w} leads, epoch {}", epoch.0));
            let me = Leadership { epoch, holder, deadline };
            let settings =
                Settings { own_host: self.workers[w].host.clone(), allow_lab: true, ..Settings::default() };
            let worker = &mut self.workers[w];
            worker.epoch = epoch;
            worker.term += 1;
            worker.talks.clear();
            worker.supervisor = Some(Supervisor::elected(before, me, self.limits.clone(), settings));
            self.tell_worker(w, Event::Woke);
            pause = 10_000;
        }
        self.at(self.now + pause, Act::Lease(w));
    }

    fn deadline(&self, before: BootTime) -> BootTime {
        before + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin)
    }

    fn renew(&mut self, w: usize) {
        if !self.db_is_up() {
            return;
        }
        let deadline = self.deadline(self.boot(w));
        match self.store.renew(self.db_now(), self.workers[w].epoch, self.workers[w].holder) {
            Ok(()) => self.tell_worker(w, Event::Renewed(deadline)),
            Err(_) => self.tell_worker(w, Event::Lost),
        }
    }

    /// A worker whose own host is Offline does not campaign until it is Online.
    fn is_barred(&mut self, w: usize) -> bool {
        let host = self.workers[w].host.clone();
        let now = self.now;
        let online =
            host.is_none_or(|h| self.site.server(&h).status(now) == apelora_fencing::view::Status::Online);
        self.workers[w].barred &= !online;
        self.workers[w].barred
    }

    pub(crate) fn tell_worker(&mut self, w: usize, event: Event) {
        let now = self.boot(w);
        let Some(supervisor) = &mut self.workers[w].supervisor else { return };
        for effect in supervisor.on(now, event) {
            self.carry_out(w, effect);
        }
        self.recover(w);
    }

    fn answer(&mut self, w: usize, after: u64, answer: Answer) {
        let term = self.workers[w].term;
        self.at(self.now + after, Act::Answer(w, term, answer));
    }

    fn carry_out(&mut self, w: usize, effect: Effect) {
        let boot = self.boot(w);
        match effect {
            Effect::Look(ticket) => {
                let after =
                    if self.seldom(40) { self.rng.range(2_000..9_000) } else { self.rng.range(20..800) };
                self.answer(w, after, Answer::Pass(ticket, boot));
            }
            Effect::Commit(ticket, write) => {
                let after = if self.db_is_up() { self.rng.range(5..200) } else { 3_000 };
                self.answer(w, after, Answer::Commit(ticket, write));
            }
            Effect::Permit(ticket, request) => {
                let after = if self.db_is_up() { self.rng.range(5..200) } else { 3_000 };
                self.answer(w, after, Answer::Commit(ticket, Write::Permit(request)));
            }
            Effect::Open(ticket, target, _) => {
                self.workers[w].talks.insert(ticket, target.member);
                let after =
                    if self.seldom(20) { self.rng.range(2_000..6_000) } else { self.rng.range(50..1_000) };
                self.answer(w, after, Answer::Opened(ticket));
            }
            Effect::Read(ticket, _) => {
                let after =
                    if self.seldom(30) { self.rng.range(1_000..6_000) } else { self.rng.range(20..600) };
                self.answer(w, after, Answer::Read(ticket, boot));
            }
            Effect::SendOff(ticket, reading, _) => {
                assert_eq!(
                    reading.conversation(),
                    ticket,
                    "a send follows a reading of its own conversation"
                );
                let member = self.workers[w].talks[&ticket].clone();
                let allowed = self.workers[w].permit.as_ref().is_some_and(|p| p.allows(boot));
                let now = self.now;
                let answer = if allowed {
                    self.ghosts.sends(now, &member, &self.site, &self.store);
                    self.site.server(&member).send_off(now)
                } else {
                    SendAnswer::NotSent(ReasonCode::PermitExpired)
                };
                self.tell(|| format!("worker {w} sends off to {member}: {answer:?}"));
                let after = if answer == SendAnswer::Unanswered { 8_000 } else { self.rng.range(20..1_500) };
                let report = SendReport { began: boot, ended: boot + ms(after), answer };
                self.answer(w, after, Answer::Sent(ticket, report));
            }
            Effect::Close(ticket) => {
                self.workers[w].talks.remove(&ticket);
            }
            Effect::Renew => {
                let after = self.rng.range(5..200);
                self.answer(w, after, Answer::Renew);
            }
            Effect::Wake(at) => {
                let worker = &mut self.workers[w];
                worker.wakes += 1;
                let (term, number) = (worker.term, worker.wakes);
                self.at(self.now + at.since(boot).as_millis() as u64, Act::Wake(w, term, number));
            }
            Effect::StepDown(why) => {
                self.tell(|| format!("worker {w} steps down: {why:?}"));
                self.workers[w].supervisor = None;
                self.workers[w].permit = None;
                self.workers[w].barred = why == Why::OwnHostOffline;
                self.ghosts.count("stepped down");
            }
        }
    }

    pub(crate) fn woken(&mut self, w: usize, term: u64, number: u64) {
        if self.workers[w].term == term && self.workers[w].wakes == number {
            self.tell_worker(w, Event::Woke);
        }
    }

    pub(crate) fn arrives(&mut self, w: usize, term: u64, answer: Answer) {
        if self.workers[w].term != term || self.workers[w].supervisor.is_none() {
            return;
        }
        let boot = self.boot(w);
        match answer {
            Answer::Pass(ticket, asked) => {
                self.passes += 1;
                let (view, second, healing) = self.site.views(asked, self.now, &mut self.rng);
                self.ids += 1;
                let pass = Pass {
                    ticket,
                    view,
                    second,
                    healing,
                    leases: Vec::new(),
                    stored: self.db_is_up().then(|| self.store.read(self.db_now())),
                    map: self.site.map.clone(),
                    fresh_id: RecordId(Uuid::from_u128(self.ids)),
                };
                self.ghosts.looked(w, self.now, &pass, boot.since(asked), &self.site);
                self.tell_worker(w, Event::Pass(Box::new(pass)));
            }
            Answer::Commit(ticket, write) => self.commit(w, ticket, &write),
            Answer::Opened(ticket) => {
                if let Some(member) = self.workers[w].talks.get(&ticket).cloned() {
                    let result = self.site.server(&member).open(self.now);
                    self.tell_worker(w, Event::Done(ticket, Outcome::Opened(result)));
                }
            }
            Answer::Read(ticket, began) => {
                if let Some(member) = self.workers[w].talks.get(&ticket).cloned() {
                    let now = self.now;
                    let mut rng = self.rng.clone();
                    let result = self.site.server(&member).read(now, &mut rng);
                    self.rng = rng;
                    let done = ReadDone { began, ended: boot, result };
                    self.tell_worker(w, Event::Done(ticket, Outcome::Read(done)));
                }
            }
            Answer::Renew => self.renew(w),
            Answer::Sent(ticket, report) => self.tell_worker(w, Event::Done(ticket, Outcome::Sent(report))),
        }
    }

    fn commit(&mut self, w: usize, ticket: Ticket, write: &Write) {
        let (epoch, holder) = (self.workers[w].epoch, self.workers[w].holder);
        let lost = self.seldom(60);
        let made = self.db_is_up() && !(lost && self.rng.once_in(2));
        let mut result = Err(if lost { CommitError::Unknown } else { CommitError::Unavailable });
        if made {
            let (answer, rows) = self.store.commit(self.db_now(), (epoch, holder), write);
            self.ghosts.committed(self.clocks(), write, &answer, &rows, &self.site, &self.store);
            for row in &rows {
                self.tell(|| format!("audit: {row:?}"));
            }
            if answer.is_err() || matches!(write, Write::Intent(_) | Write::Permit(_) | Write::Adopt(_)) {
                self.tell(|| format!("worker {w} {write:?}: {answer:?}"));
            }
            result = if lost { Err(CommitError::Unknown) } else { answer };
        }
        if let (Write::Permit(request), Ok(_)) = (write, &result) {
            #[expect(clippy::disallowed_methods, reason = "this is the leader of the simulation")]
            let permit = request.clone().committed();
            self.workers[w].permit = Some(permit);
        }
        if matches!(write, Write::Final(_)) {
            self.workers[w].permit = None;
        }
        self.tell_worker(w, Event::Done(ticket, Outcome::Committed(result)));
    }

    /// A recovery begins where the machine says that it may.
    fn recover(&mut self, w: usize) {
        let now = self.boot(w);
        let Some(supervisor) = &self.workers[w].supervisor else { return };
        let waiting = self.store.members.iter().filter(|(_, m)| m.proof.is_some_and(|p| !p.recovery_started));
        let Some((member, incarnation)) = waiting
            .map(|(name, m)| (name.clone(), m.incarnation))
            .find(|(name, _)| supervisor.may_recover(now, name))
        else {
            return;
        };
        if self.db_is_up() && !self.rng.once_in(4) {
            let write = Write::RecoveryStarted { member, incarnation };
            let me = (self.workers[w].epoch, self.workers[w].holder);
            let (answer, rows) = self.store.commit(self.db_now(), me, &write);
            self.ghosts.committed(self.clocks(), &write, &answer, &rows, &self.site, &self.store);
            self.tell(|| format!("worker {w} {write:?}: {answer:?}"));
        }
    }

    /// Open records at the end of a night, with a leader in office.
    pub(crate) fn open_records(&self) -> usize {
        let led = self.workers.iter().any(|w| w.supervisor.is_some());
        self.store
            .records
            .iter()
            .filter(|r| led && matches!(r.status, RecordStatus::Intent | RecordStatus::Sent))
            .count()
    }
}

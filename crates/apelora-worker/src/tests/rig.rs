//! The product's own machine, driven over the providers by a shell as small as it can be.
//!
//! A cluster of three, of which `s1` goes Offline. The boot clock is virtual: it stands while a BMC is talked to and jumps
//! to the next wake-up otherwise, so that a failure of minutes is over in milliseconds. Nothing else is simulated: guards,
//! intent, permit, readings, proof and final are the machine's, and what the BMC says comes over a socket.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_fencing::event::{Outcome, Pass, ReadDone};
use apelora_fencing::map::{BmcMap, MapState};
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::name::HolderId;
use apelora_fencing::proof::{SendPermit, SendReport};
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status};
use apelora_fencing::world::BmcPause;
use apelora_fencing::write::Final;
use apelora_fencing::{
    BootTime, Clock, Effect, Event, Limits, MemberName, RecordId, Supervisor, Ticket, Write,
};
use tokio::time::Instant;
use uuid::Uuid;

use crate::Providers;
use crate::provider::Conversation;

const VICTIM: &str = "s1";

/// All Online at first, so that the victim is known; then Offline, and mapped only when the grace is over, so that nothing
/// but the power-off talks to the BMC.
const ONLINE_PASSES: u32 = 3;
const SPARE_PASSES: u32 = 3;

/// A boot clock that goes where it is told to.
#[derive(Default)]
pub(super) struct VirtualClock(AtomicU64);

impl VirtualClock {
    pub(super) fn set(&self, to: BootTime) {
        self.0.store(u64::try_from(to.since_boot().as_nanos()).unwrap(), Ordering::SeqCst);
    }

    pub(super) fn advance(&self, by: Duration) {
        self.set(self.boot() + by);
    }
}

impl Clock for VirtualClock {
    fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_nanos(self.0.load(Ordering::SeqCst)))
    }
}

/// How a failure ended.
pub(super) struct Ended {
    pub(super) last: Final,
    pub(super) sends: Vec<SendReport>,
    /// How the member's BMC is left alone afterwards.
    pub(super) pause: Option<BmcPause>,
}

/// What a test may answer to while a failure runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// A power-off was asked for.
    Sent,
    /// An opening or a reading failed.
    Trouble,
}

struct Rig<'a> {
    /// None: conversations open by themselves, and nobody is talked to.
    providers: Option<&'a Providers>,
    clock: Arc<VirtualClock>,
    machine: Supervisor,
    limits: Limits,
    store: MemoryStore,
    me: Leadership,
    map: Arc<BmcMap>,
    talks: BTreeMap<Ticket, Conversation>,
    permit: Option<SendPermit>,
    wake: BootTime,
    passes: u32,
    events: VecDeque<Event>,
    sends: Vec<SendReport>,
    last: Option<Final>,
    told: Box<dyn FnMut(Happened) + 'a>,
    /// How long a jump of the clock lasts once something was sent: none for a BMC that acts at once.
    pace: Duration,
}

/// Runs a failure of `s1` to the end of its record and one pass further.
pub(super) async fn fence(providers: &Providers, map: &Arc<BmcMap>) -> Ended {
    fence_while(providers, map, |_| ()).await
}

/// The same, and tells what happens on the way.
pub(super) async fn fence_while<'a>(
    providers: &'a Providers,
    map: &Arc<BmcMap>,
    told: impl FnMut(Happened) + 'a,
) -> Ended {
    Rig { told: Box::new(told), ..Rig::new(Some(providers), map, Arc::default()) }.run().await
}

/// The same with a BMC that lives in real time: each jump of the clock after the send lasts so long.
pub(super) async fn fence_at_pace(providers: &Providers, map: &Arc<BmcMap>, pace: Duration) -> Ended {
    Rig { pace, ..Rig::new(Some(providers), map, Arc::default()) }.run().await
}

/// A permit for `s1` from this map, made as every permit is made: asked for by the machine, and committed.
pub(super) async fn permit(map: &Arc<BmcMap>, clock: &Arc<VirtualClock>) -> SendPermit {
    let mut rig = Rig::new(None, map, Arc::clone(clock));
    loop {
        rig.step().await;
        if let Some(permit) = rig.permit.take() {
            assert!(permit.allows(clock.boot()));
            return permit;
        }
    }
}

impl<'a> Rig<'a> {
    fn new(providers: Option<&'a Providers>, map: &Arc<BmcMap>, clock: Arc<VirtualClock>) -> Self {
        let limits = Limits::PRODUCTION;
        let mut store = MemoryStore::new(&limits);
        let holder = HolderId(Uuid::from_u128(1));
        let epoch = store.campaign(clock.boot().since_boot(), holder).unwrap();
        let me = Leadership { epoch, holder, deadline: clock.boot() + limits.lease_ttl };
        let settings = Settings { allow_lab: true, ..Settings::default() };
        Self {
            providers,
            machine: Supervisor::elected(clock.boot(), me, limits.clone(), settings),
            wake: clock.boot(),
            clock,
            limits,
            store,
            me,
            map: Arc::clone(map),
            talks: BTreeMap::new(),
            permit: None,
            passes: 0,
            events: VecDeque::new(),
            sends: Vec::new(),
            last: None,
            told: Box::new(|_| ()),
            pace: Duration::ZERO,
        }
    }

    async fn run(mut self) -> Ended {
        while self.last.is_none() {
            self.step().await;
        }
        let ended_in = self.passes;
        while self.passes < ended_in + 2 || !self.events.is_empty() {
            self.step().await;
        }
        let members = &self.machine.world().unwrap().members;
        let pause = members.iter().find(|m| m.name == MemberName::from(VICTIM)).unwrap().bmc_pause;
        Ended { last: self.last.unwrap(), sends: self.sends, pause }
    }

    fn at(&self, time: BootTime) -> Instant {
        Instant::now() + time.since(self.clock.boot())
    }

    async fn step(&mut self) {
        assert!(self.passes < 100, "nothing came of it: {:?}", self.machine.decision());
        let event = match self.events.pop_front() {
            Some(event) => event,
            None => {
                if !self.sends.is_empty() {
                    tokio::time::sleep(self.pace).await;
                }
                self.clock.set(self.wake.max(self.clock.boot()));
                Event::Woke
            }
        };
        let now = self.clock.boot();
        self.store.renew(now.since_boot(), self.me.epoch, self.me.holder).unwrap();
        let deadline = now + (self.limits.lease_ttl - self.limits.lease_margin);
        let mut effects = self.machine.on(now, Event::Renewed(deadline));
        effects.extend(self.machine.on(now, event));
        for effect in effects {
            self.carry_out(effect).await;
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Look(ticket) => {
                let pass = self.pass(ticket);
                self.events.push_back(Event::Pass(Box::new(pass)));
            }
            Effect::Commit(ticket, write) => self.commit(ticket, &write),
            Effect::Permit(ticket, request) => {
                self.commit(ticket, &Write::Permit(request.clone()));
                #[expect(clippy::disallowed_methods, reason = "this is the leader of these tests")]
                let permit = request.committed();
                self.permit = Some(permit);
            }
            Effect::Open(ticket, target, by) => {
                let by = self.at(by);
                let opened = match self.providers {
                    None => Ok(()),
                    Some(providers) => providers.open(ticket, &target, by).await.map(|conversation| {
                        self.talks.insert(ticket, conversation);
                    }),
                };
                if opened.is_err() {
                    (self.told)(Happened::Trouble);
                }
                self.done(ticket, Outcome::Opened(opened));
            }
            Effect::Read(ticket, by) => {
                let by = self.at(by);
                // A conversation that nobody holds is one of a rig that stops at the permit.
                let Some(talk) = self.talks.get_mut(&ticket) else { return };
                let began = self.clock.boot();
                let result = talk.read(by).await;
                if result.is_err() {
                    (self.told)(Happened::Trouble);
                }
                self.clock.advance(Duration::from_millis(1));
                let ended = self.clock.boot();
                self.done(ticket, Outcome::Read(ReadDone { began, ended, result }));
            }
            Effect::SendOff(ticket, fresh, by) => {
                let by = self.at(by);
                let (permit, clock) = (self.permit.as_ref().unwrap(), &*self.clock);
                let report = self.talks.get_mut(&ticket).unwrap().force_off(permit, &fresh, clock, by).await;
                self.sends.push(report);
                (self.told)(Happened::Sent);
                self.done(ticket, Outcome::Sent(report));
            }
            Effect::Close(ticket) => {
                if let Some(talk) = self.talks.remove(&ticket) {
                    talk.close().await;
                }
            }
            Effect::Renew => {}
            Effect::Wake(at) => self.wake = at,
            Effect::StepDown(why) => panic!("{why:?}"),
        }
    }

    fn done(&mut self, ticket: Ticket, outcome: Outcome) {
        self.events.push_back(Event::Done(ticket, outcome));
    }

    fn commit(&mut self, ticket: Ticket, write: &Write) {
        let now = self.clock.boot().since_boot();
        let (answer, _) = self.store.commit(now, (self.me.epoch, self.me.holder), write);
        if let (Write::Final(last), Ok(_)) = (write, &answer) {
            self.last = Some(last.clone());
        }
        self.done(ticket, Outcome::Committed(answer));
    }

    fn pass(&mut self, ticket: Ticket) -> Pass {
        self.passes += 1;
        let now = self.clock.boot();
        let victim = if self.passes <= ONLINE_PASSES { "Online" } else { "Offline" };
        let view = |responder: &str| {
            let members = [(VICTIM, victim), ("s2", "Online"), ("s3", "Online")];
            let listed = members.map(|(name, word)| Listed {
                name: name.into(),
                status: Status::from_word(word),
                failure_domain: None,
            });
            ClusterView::new(now, responder.into(), Some("s2".into()), listed.into()).unwrap()
        };
        let grace = self.limits.fence_after.as_secs_f64() / self.limits.pass_interval.as_secs_f64();
        let mapped_from = ONLINE_PASSES + grace.ceil() as u32 + SPARE_PASSES;
        let map = MapState::Valid(Arc::clone(&self.map));
        Pass {
            ticket,
            view: Ok(view("s2")),
            second: SecondView::Seen(view("s3")),
            healing: Healing::Off,
            leases: Vec::new(),
            stored: Some(self.store.read(now.since_boot())),
            map: if self.passes < mapped_from { MapState::Absent } else { map },
            fresh_id: RecordId(Uuid::from_u128(1000 + u128::from(self.passes))),
        }
    }
}

//! The product's own protocol machine, driven over the client: a worker's shell as small as it can be.
//!
//! A cluster of three, of which one goes Offline; the store is in memory, the clock is tokio's, and nothing else is
//! simulated: guards, intent, permit, readings, proofs and the final record are the machine's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::{BmcError, Outcome, Pass, ReadDone, Target as Mapped};
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::map::{Access, BmcMap, MapState};
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::name::HolderId;
use apelora_fencing::proof::{self, SendAnswer, SendPermit};
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status};
use apelora_fencing::write::Final;
use apelora_fencing::{
    BootTime, Effect, Event, Limits, MemberName, ReasonCode, RecordId, Supervisor, Ticket, Write,
};
use apelora_redfish::{
    Conversation, Dial, Endpoint, RedfishError, Reported, ReportedUuid, ResetAnswer, SendReport,
    SystemChoice, SystemPath, Target,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

const VICTIM: &str = "s1";

/// The cluster's life in passes: all Online at first, so that the victim is known; then Offline, and mapped only when the
/// grace is over for so many passes, so that nothing but the switch-off talks to the BMC.
const ONLINE_PASSES: u32 = 3;
const SPARE_PASSES: u32 = 3;

/// How it ended.
pub(crate) enum Ended {
    /// A record was closed.
    Record(Final),
    /// No record was ever made; what the guards said.
    NoRecord(Vec<ReasonCode>),
}

/// A conversation, once it is open, and its latest reading; shared with the task that uses it.
type Talk = Arc<Mutex<Option<(Conversation, Option<Reported>)>>>;

struct Shell {
    machine: Supervisor,
    limits: Limits,
    store: MemoryStore,
    me: Leadership,
    zero: Instant,
    map: MapState,
    dial: Arc<dyn Dial>,
    password: SecretString,
    talks: HashMap<Ticket, Talk>,
    permit: Option<Arc<SendPermit>>,
    wake: Option<BootTime>,
    passes: u32,
    events: mpsc::UnboundedSender<Event>,
    last: Option<Final>,
}

/// Runs the machine until the victim's record is closed. `entry` is the victim's in the BMC map.
pub(crate) async fn fence(entry: &Value, dial: Arc<dyn Dial>, password: &str, limits: Limits) -> Ended {
    let zero = Instant::now();
    let mut store = MemoryStore::new(&limits);
    let holder = HolderId(Uuid::from_u128(1));
    let epoch = store.campaign(Duration::ZERO, holder).unwrap();
    let deadline = BootTime::default() + limits.lease_ttl;
    let me = Leadership { epoch, holder, deadline };
    let settings = Settings {
        own_host: None,
        single_view: false,
        failure_domain_rule: false,
        allow_lab: false,
        dry_run: false,
        leases: apelora_fencing::lease::LeaseConfig::default(),
    };
    let (events, mut incoming) = mpsc::unbounded_channel();
    let map = json!({ "members": { VICTIM: entry } }).to_string();
    let parsed = BmcMap::parse(map.as_bytes(), &[]);
    let mut shell = Shell {
        machine: Supervisor::elected(BootTime::default(), me, limits.clone(), settings),
        limits,
        store,
        me,
        zero,
        map: parsed.map_or(MapState::Invalid, |map| MapState::Valid(Arc::new(map))),
        dial,
        password: password.into(),
        talks: HashMap::new(),
        permit: None,
        wake: None,
        passes: 0,
        events,
        last: None,
    };
    let mut next = Some(Event::Woke);
    loop {
        if let Some(event) = next.take() {
            shell.take(event);
        }
        if let Some(last) = shell.last {
            return Ended::Record(last);
        }
        // A decision that has not led to a record after a few passes never will.
        if shell.passes > shell.mapped_from() + SPARE_PASSES && shell.machine.in_progress().is_none() {
            return Ended::NoRecord(shell.said());
        }
        let wake = shell.zero + shell.wake.unwrap().since_boot();
        next = Some(tokio::select! {
            event = incoming.recv() => event.unwrap(),
            () = sleep_until(wake) => Event::Woke,
        });
    }
}

impl Shell {
    fn now(&self) -> BootTime {
        BootTime::new(self.zero.elapsed())
    }

    fn at(&self, time: BootTime) -> Instant {
        self.zero + time.since_boot()
    }

    fn mapped_from(&self) -> u32 {
        let grace = self.limits.fence_after.as_secs_f64() / self.limits.pass_interval.as_secs_f64();
        ONLINE_PASSES + grace.ceil() as u32 + SPARE_PASSES
    }

    /// What the guards hold against the victim.
    fn said(&self) -> Vec<ReasonCode> {
        let verdicts = self.machine.decision().map(|decision| &decision.verdicts);
        let mine = verdicts.into_iter().flatten().find(|verdict| verdict.member == MemberName::from(VICTIM));
        mine.map(|verdict| verdict.reasons().into_iter().collect()).unwrap_or_default()
    }

    /// Renews the lease; returns its local deadline.
    fn renew(&mut self) -> BootTime {
        let now = self.now();
        self.store.renew(now.since_boot(), self.me.epoch, self.me.holder).unwrap();
        now + (self.limits.lease_ttl - self.limits.lease_margin)
    }

    /// One event, with a lease that is renewed as often as can be.
    fn take(&mut self, event: Event) {
        let deadline = self.renew();
        let now = self.now();
        let mut effects = self.machine.on(now, Event::Renewed(deadline));
        effects.extend(self.machine.on(now, event));
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Look(ticket) => {
                let pass = self.pass(ticket);
                self.tell(Event::Pass(Box::new(pass)));
            }
            Effect::Commit(ticket, write) => self.commit(ticket, &write),
            Effect::Permit(ticket, request) => {
                self.commit(ticket, &Write::Permit(request.clone()));
                #[expect(clippy::disallowed_methods, reason = "this is the leader of the test")]
                let permit = request.committed();
                self.permit = Some(Arc::new(permit));
            }
            Effect::Open(ticket, target, by) => self.open(ticket, &target, by),
            Effect::Read(ticket, by) => self.read(ticket, by),
            Effect::SendOff(ticket, _, by) => self.send_off(ticket, by),
            Effect::Close(ticket) => drop(self.talks.remove(&ticket)),
            Effect::Renew => {
                let deadline = self.renew();
                self.tell(Event::Renewed(deadline));
            }
            Effect::Wake(at) => self.wake = Some(at),
            Effect::StepDown(why) => panic!("{why:?}"),
        }
    }

    fn tell(&self, event: Event) {
        self.events.send(event).unwrap();
    }

    fn commit(&mut self, ticket: Ticket, write: &Write) {
        let now = self.now().since_boot();
        let (answer, _) = self.store.commit(now, (self.me.epoch, self.me.holder), write);
        if let (Write::Final(last), Ok(_)) = (write, &answer) {
            self.last = Some(last.clone());
        }
        self.tell(Event::Done(ticket, Outcome::Committed(answer)));
    }

    fn pass(&mut self, ticket: Ticket) -> Pass {
        self.passes += 1;
        let victim = if self.passes <= ONLINE_PASSES { "Online" } else { "Offline" };
        let view = |responder: &str| {
            let members = [(VICTIM, victim), ("s2", "Online"), ("s3", "Online")];
            let listed = members.map(|(name, word)| Listed {
                name: name.into(),
                status: Status::from_word(word),
                failure_domain: None,
            });
            ClusterView::new(self.now(), responder.into(), Some("s2".into()), listed.into()).unwrap()
        };
        Pass {
            ticket,
            view: Ok(view("s2")),
            second: SecondView::Seen(view("s3")),
            healing: Healing::Off,
            leases: Vec::new(),
            stored: Some(self.store.read(self.now().since_boot())),
            map: if self.passes < self.mapped_from() { MapState::Absent } else { self.map.clone() },
            fresh_id: RecordId(Uuid::from_u128(1000 + u128::from(self.passes))),
        }
    }

    fn open(&mut self, ticket: Ticket, target: &Mapped, by: BootTime) {
        let (target, by) = (redfish(target), self.at(by));
        let (dial, password, events) = (Arc::clone(&self.dial), self.password.clone(), self.events.clone());
        let talk = Talk::default();
        self.talks.insert(ticket, Arc::clone(&talk));
        tokio::spawn(async move {
            let opened = Conversation::open_through(dial, &target, &password, by).await;
            let result = match opened {
                Ok(conversation) => {
                    *talk.lock().await = Some((conversation, None));
                    Ok(())
                }
                Err(why) => Err(bmc_error(&why)),
            };
            drop(events.send(Event::Done(ticket, Outcome::Opened(result))));
        });
    }

    fn read(&self, ticket: Ticket, by: BootTime) {
        let (talk, by, zero, events) =
            (Arc::clone(&self.talks[&ticket]), self.at(by), self.zero, self.events.clone());
        tokio::spawn(async move {
            let mut talk = talk.lock().await;
            let (conversation, latest) = talk.as_mut().unwrap();
            let began = BootTime::new(zero.elapsed());
            let read = conversation.read(by).await;
            let ended = BootTime::new(zero.elapsed());
            let result = read.as_ref().map(report).map_err(bmc_error);
            *latest = read.ok();
            drop(events.send(Event::Done(ticket, Outcome::Read(ReadDone { began, ended, result }))));
        });
    }

    fn send_off(&self, ticket: Ticket, by: BootTime) {
        let (talk, by, zero, events) =
            (Arc::clone(&self.talks[&ticket]), self.at(by), self.zero, self.events.clone());
        let permit = Arc::clone(self.permit.as_ref().unwrap());
        tokio::spawn(async move {
            let mut talk = talk.lock().await;
            let (conversation, latest) = talk.as_mut().unwrap();
            let mut began = BootTime::new(zero.elapsed());
            let mut may_start = || {
                began = BootTime::new(zero.elapsed());
                permit.allows(began)
            };
            let sent = conversation.force_off(latest.as_ref().unwrap(), &mut may_start, by).await;
            let ended = BootTime::new(zero.elapsed());
            let report = proof::SendReport { began, ended, answer: answer(&sent) };
            assert_eq!(report.may_have_been_sent(), sent.may_have_been_sent());
            drop(events.send(Event::Done(ticket, Outcome::Sent(report))));
        });
    }
}

fn redfish(mapped: &Mapped) -> Target {
    let Access::Redfish { address, system, user, ca_file, .. } = &mapped.entry.access else {
        panic!("{mapped:?}")
    };
    Target {
        endpoint: Endpoint::https(&address.to_string()).unwrap(),
        ca_file: ca_file.as_ref().map(Into::into),
        user: user.clone(),
        system: match system {
            Some(path) => SystemChoice::Path(SystemPath::parse(path).unwrap()),
            None => {
                SystemChoice::Carrying(mapped.entry.identity.uuid().unwrap().to_string().parse().unwrap())
            }
        },
    }
}

fn reason(word: &str) -> ReasonCode {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no reason of the fencing core"))
}

fn bmc_error(why: &RedfishError) -> BmcError {
    BmcError { reason: reason(why.reason()), transient: why.is_passing(), detail: why.to_string() }
}

fn report(reported: &Reported) -> proof::Reported {
    let identity = match &reported.uuid {
        ReportedUuid::Missing => RawIdentity::Missing,
        ReportedUuid::Malformed => RawIdentity::Text("malformed".to_owned()),
        ReportedUuid::Text(text) => RawIdentity::Text(text.clone()),
    };
    let power = proof::PowerWord::from_redfish(reported.power.word());
    proof::Reported { identity, power, detail: String::new() }
}

fn answer(sent: &SendReport) -> SendAnswer {
    match sent {
        SendReport::NotSent(why) => SendAnswer::NotSent(reason(why.reason())),
        SendReport::MaybeSent(ResetAnswer::Accepted { .. }) => SendAnswer::Accepted,
        SendReport::MaybeSent(ResetAnswer::Rejected { .. }) => SendAnswer::Declined,
        SendReport::MaybeSent(answer @ (ResetAnswer::Denied { .. } | ResetAnswer::Redirected { .. })) => {
            SendAnswer::Rejected(reason(answer.reason().unwrap()))
        }
        SendReport::MaybeSent(ResetAnswer::None(_)) => SendAnswer::Unanswered,
    }
}

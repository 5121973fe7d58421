//! The driver: when to send, how long to wait, when to start afresh. What is believed is decided by the machines in
//! `handshake` and `session`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::attempt::{Outcome, attempt};
use crate::credentials::Credentials;
use crate::error::{IpmiError, Noticed};
use crate::frame::{MAX_DATAGRAM, Reject};
use crate::lan::{Reply, Request};
use crate::link::{Entropy, Link, Network, draw};
use crate::report::{
    Completion, IdentitySeen, NotSent, Power, Reported, SendReport, SystemGuid, Traffic, Unanswered,
};
use crate::session::Session;
use crate::setup::{Refusal, SetupMessage};
use crate::suite::{CipherSuite, Suites};

/// A BMC and how to talk to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address and UDP port, usually 623. Answers from any other address or port are dropped.
    pub address: SocketAddr,
    /// The operator account.
    pub credentials: Credentials,
    /// The suites that the map allows.
    pub suites: Suites,
}

/// How long to wait and how often to try. All of it lies within the deadline of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Longest wait for the answer to one datagram.
    pub step: Duration,
    /// How often a question is asked in a session before it counts as unanswered.
    pub tries: u32,
    /// How many handshakes are begun before the BMC counts as silent.
    pub handshakes: u32,
    /// How long a contradicting answer is waited for after a refusal that nothing authenticates.
    pub linger: Duration,
}

impl Timers {
    /// One second per step (BMCs are slow embedded machines), three tries, three handshakes, 50 ms for contradictions.
    pub const DEFAULT: Self =
        Self { step: Duration::from_secs(1), tries: 3, handshakes: 3, linger: Duration::from_millis(50) };
}

impl Default for Timers {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Pauses before a busy BMC is asked again; the last one repeats.
const BUSY_PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1)];

/// Pauses before a BMC without a free session slot is tried again; the last one repeats.
const NO_SLOT_PAUSES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

fn pause(pauses: &[Duration; 3], nth: usize) -> Duration {
    let [.., last] = *pauses;
    pauses.get(nth).copied().unwrap_or(last)
}

/// What has been sent, received and noticed; shared by all attempts of one conversation.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) traffic: Traffic,
    pub(crate) noticed: Noticed,
}

impl Log {
    pub(crate) fn dropped(&mut self, reject: Reject) {
        tracing::debug!(%reject, "datagram dropped");
        self.traffic.dropped = self.traffic.dropped.saturating_add(1);
        self.noticed.dropped = Some(reject);
    }

    pub(crate) fn failed(&mut self, error: &io::Error) {
        tracing::debug!(kind = ?error.kind(), "socket error");
        self.noticed.socket = Some(error.kind());
    }

    /// Sends a datagram that may be lost without harm. An error that belongs to an earlier datagram (an ICMP message is
    /// forgeable and no answer) is reported by the kernel instead of sending, so there is a second try.
    pub(crate) async fn send(&mut self, link: &impl Link, datagram: &[u8], by: Instant) {
        for _ in 0..2 {
            match timeout_at(by, link.send(datagram)).await {
                Ok(Ok(())) => {
                    self.traffic.sent = self.traffic.sent.saturating_add(1);
                    return;
                }
                Ok(Err(error)) => self.failed(&error),
                Err(_late) => return,
            }
        }
    }

    /// Waits for a datagram until `until`. Neither junk nor a socket error moves that time.
    pub(crate) async fn receive<'b>(
        &mut self,
        link: &impl Link,
        buffer: &'b mut [u8; MAX_DATAGRAM + 1],
        until: Instant,
    ) -> Option<&'b [u8]> {
        const AFTER_ERROR: Duration = Duration::from_millis(10);
        let len = loop {
            if Instant::now() >= until {
                return None;
            }
            match timeout_at(until, link.receive(buffer)).await {
                Err(_late) => return None,
                Ok(Ok(received)) => {
                    self.traffic.received = self.traffic.received.saturating_add(1);
                    match received {
                        Some(len) => break len,
                        None => self.dropped(Reject::Sender),
                    }
                }
                Ok(Err(error)) => {
                    self.failed(&error);
                    sleep_until(until.min(Instant::now() + AFTER_ERROR)).await;
                }
            }
        };
        buffer.get(..len)
    }
}

/// An open session on its socket.
pub(crate) struct Dialogue<L: Link, E: Entropy> {
    link: L,
    session: Session,
    entropy: E,
    timers: Timers,
    log: Log,
    /// The identity that the caller accepted in this session.
    identity: Option<SystemGuid>,
    /// The last read saw On, and no power-off was sent since.
    fresh_on: bool,
    /// The next read is the first after a power-off.
    after_power_off: bool,
    /// The BMC said that a power-off was above this session's level.
    level_lost: bool,
    closed: bool,
}

impl<L: Link, E: Entropy> Dialogue<L, E> {
    pub(crate) async fn open<N: Network<Link = L>>(
        network: &N,
        mut entropy: E,
        target: &Target,
        timers: Timers,
        by: Instant,
    ) -> Result<Self, IpmiError> {
        let mut log = Log::default();
        let (session, link) = establish(network, &mut entropy, target, timers, &mut log, by).await?;
        let mut dialogue = Self {
            link,
            session,
            entropy,
            timers,
            log,
            identity: None,
            fresh_on: false,
            after_power_off: false,
            level_lost: false,
            closed: false,
        };
        match dialogue.become_operator(by).await {
            Ok(()) => Ok(dialogue),
            Err(error) => {
                dialogue.close(by).await;
                Err(error)
            }
        }
    }

    async fn become_operator(&mut self, by: Instant) -> Result<(), IpmiError> {
        match self.exchange(Request::SetOperator, by).await? {
            Reply::Operator => Ok(()),
            Reply::Failed(completion) => Err(IpmiError::OperatorRefused(completion)),
            _ => Err(IpmiError::OtherLevel),
        }
    }

    pub(crate) const fn suite(&self) -> CipherSuite {
        self.session.suite()
    }

    pub(crate) const fn traffic(&self) -> Traffic {
        self.log.traffic
    }

    pub(crate) async fn read(
        &mut self,
        is_mapped: impl Fn(SystemGuid) -> bool + Send,
        by: Instant,
    ) -> Result<Reported, IpmiError> {
        self.fresh_on = false;
        if self.level_lost {
            // A RAKP 3 that arrives once more, late, puts some BMCs' sessions back to user level. The same level is
            // asked for again, never a higher one.
            self.become_operator(by).await?;
            self.level_lost = false;
        }
        let known = if std::mem::take(&mut self.after_power_off) { self.identity } else { None };
        let (guid, identity_seen) = match known {
            Some(guid) => (guid, IdentitySeen::BeforeThePowerOff),
            None => (self.ask_guid(by).await?, IdentitySeen::InThisRead),
        };
        let same = self.identity.is_none_or(|accepted| accepted == guid);
        if !same || !is_mapped(guid) {
            self.identity = None;
            return Err(IpmiError::OtherSystem { guid });
        }
        self.identity = Some(guid);
        let request = Request::GetChassisStatus;
        let chassis = match self.exchange(request, by).await? {
            Reply::Status(status) => status,
            other => return Err(unusable(request, other)),
        };
        let power = chassis.power();
        self.fresh_on = power == Power::On;
        Ok(Reported { guid, identity_seen, power, chassis, suite: self.suite() })
    }

    async fn ask_guid(&mut self, by: Instant) -> Result<SystemGuid, IpmiError> {
        let request = Request::GetSystemGuid;
        match self.exchange(request, by).await? {
            Reply::Guid(guid) => Ok(guid),
            Reply::Failed(completion @ Completion(0xc1 | 0xc2)) => Err(IpmiError::NoSystemGuid(completion)),
            other => Err(unusable(request, other)),
        }
    }

    pub(crate) async fn force_off(&mut self, not_after: Instant, by: Instant) -> SendReport {
        if !std::mem::take(&mut self.fresh_on) {
            return SendReport::NotSent(NotSent::NoFreshOn);
        }
        let Ok(iv) = draw(&mut self.entropy) else { return SendReport::NotSent(NotSent::NoEntropy) };
        let Ok(packet) = self.session.ask(Request::PowerDown, iv) else {
            return SendReport::NotSent(NotSent::SessionSpent);
        };
        if Instant::now() > not_after {
            return SendReport::NotSent(NotSent::TooLate);
        }
        // From here on a caller that drops this future has to assume that the datagram left.
        match timeout_at(not_after, self.link.send(&packet)).await {
            Err(_late) => return SendReport::NotSent(NotSent::TooLate),
            Ok(Err(error)) => {
                self.log.failed(&error);
                return refused_send(error.kind());
            }
            Ok(Ok(())) => self.log.traffic.sent = self.log.traffic.sent.saturating_add(1),
        }
        self.after_power_off = true;
        match self.await_reply(by.min(Instant::now() + self.timers.step)).await {
            None => SendReport::MaybeSent(Unanswered::Silence),
            Some(Reply::PowerDownAccepted) => SendReport::Answered(Completion::SUCCESS),
            Some(Reply::Failed(completion)) => {
                self.level_lost = completion == Completion::INSUFFICIENT_PRIVILEGE;
                SendReport::Answered(completion)
            }
            Some(_) => SendReport::MaybeSent(Unanswered::Unusable),
        }
    }

    /// Closes the session; true when the BMC confirmed it.
    pub(crate) async fn close(&mut self, by: Instant) -> bool {
        let reply = self.ask(self.session.close(), by).await;
        self.closed = true;
        matches!(reply, Ok(Reply::Closed))
    }

    /// Asks until the BMC is no longer busy. Never used for a power-off.
    async fn exchange(&mut self, request: Request, by: Instant) -> Result<Reply, IpmiError> {
        for nth in 0.. {
            let reply = self.ask(request, by).await?;
            let Reply::Failed(completion) = reply else { return Ok(reply) };
            let again = Instant::now() + pause(&BUSY_PAUSES, nth);
            if !completion.is_transient() || again >= by {
                return Ok(reply);
            }
            sleep_until(again).await;
        }
        Err(IpmiError::SessionSpent)
    }

    /// Asks, and repeats an unanswered question. Never used for a power-off.
    async fn ask(&mut self, request: Request, by: Instant) -> Result<Reply, IpmiError> {
        self.log.noticed = Noticed::default();
        let iv = draw(&mut self.entropy).map_err(|_none| IpmiError::NoEntropy)?;
        let mut packet = self.session.ask(request, iv).map_err(|_spent| IpmiError::SessionSpent)?;
        for attempt in 1..=self.timers.tries {
            self.log.send(&self.link, &packet, by).await;
            if let Some(reply) = self.await_reply(by.min(Instant::now() + self.timers.step)).await {
                return Ok(reply);
            }
            if Instant::now() >= by {
                return Err(IpmiError::Deadline { awaited: request.name(), noticed: self.log.noticed });
            }
            if attempt < self.timers.tries {
                let iv = draw(&mut self.entropy).map_err(|_none| IpmiError::NoEntropy)?;
                match self.session.repeat(iv) {
                    Ok(Some(repeated)) => packet = repeated,
                    Ok(None) | Err(_) => return Err(IpmiError::SessionSpent),
                }
            }
        }
        let (awaited, noticed) = (request.name(), self.log.noticed);
        Err(IpmiError::Silent { awaited, tries: self.timers.tries, noticed })
    }

    async fn await_reply(&mut self, until: Instant) -> Option<Reply> {
        let mut buffer = [0; MAX_DATAGRAM + 1];
        while let Some(datagram) = self.log.receive(&self.link, &mut buffer, until).await {
            match self.session.receive(datagram) {
                Ok(reply) => return Some(reply),
                Err(reject) => self.log.dropped(reject),
            }
        }
        None
    }
}

impl<L: Link, E: Entropy> Drop for Dialogue<L, E> {
    /// A conversation that is dropped without [`Dialogue::close`] (a cancelled task, a panic) still says good-bye once,
    /// so that a recording of it cannot be replayed later.
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let close = self.session.close();
        if let Some(packet) = draw(&mut self.entropy).ok().and_then(|iv| self.session.ask(close, iv).ok())
            && let Err(error) = self.link.send_now(&packet)
        {
            tracing::debug!(kind = ?error.kind(), "the session could not be closed");
        }
    }
}

/// Handshakes until one succeeds, is refused for good, or time is over.
async fn establish<N: Network>(
    network: &N,
    entropy: &mut impl Entropy,
    target: &Target,
    timers: Timers,
    log: &mut Log,
    by: Instant,
) -> Result<(Session, N::Link), IpmiError> {
    // The suite survives a restart: silence never leads to another one.
    let mut suite = target.suites.first();
    let mut handshakes = 0;
    let mut without_slot = 0;
    let mut excused = false;
    loop {
        let outcome = attempt(network, entropy, target, suite, timers, log, by).await?;
        let refusal = match outcome {
            Outcome::Established(session, link) => return Ok((*session, link)),
            Outcome::Conflict => return Err(IpmiError::ConflictingAnswers),
            Outcome::Silent(awaited) => {
                handshakes += 1;
                if handshakes >= timers.handshakes {
                    let (awaited, noticed) = (awaited.name(), log.noticed);
                    return Err(IpmiError::Silent { awaited, tries: handshakes, noticed });
                }
                continue;
            }
            Outcome::Refused { refusal, repeated } => {
                if repeated && refusal.explained_by_repetition() && !excused {
                    excused = true;
                    continue;
                }
                refusal
            }
        };
        if refusal.allows_fall_back(suite)
            && let Some(next) = target.suites.after_refusal_of(suite)
        {
            tracing::debug!(%suite, %next, "the BMC refused the suite");
            suite = next;
            continue;
        }
        if let Refusal::Status(SetupMessage::OpenSession, status) = refusal
            && status.out_of_sessions()
        {
            let again = Instant::now() + pause(&NO_SLOT_PAUSES, without_slot);
            if again < by {
                without_slot += 1;
                sleep_until(again).await;
                continue;
            }
        }
        return Err(refused(refusal, suite, target.credentials.has_bmc_key()));
    }
}

/// The final error for a refusal.
fn refused(refusal: Refusal, suite: CipherSuite, bmc_key: bool) -> IpmiError {
    let malformed = |message, what| IpmiError::Malformed { message, what };
    match refusal {
        Refusal::Status(SetupMessage::OpenSession, status) if status.refuses_the_suite() => {
            IpmiError::SuiteRefused { suite, status }
        }
        Refusal::Status(SetupMessage::OpenSession, status) if status.out_of_sessions() => {
            IpmiError::NoFreeSession
        }
        Refusal::Status(message, status) => IpmiError::Setup { message, status },
        Refusal::CounterOffer => IpmiError::OnlySuite3,
        Refusal::Algorithms(answered) => IpmiError::OtherSuite { suite, answered },
        Refusal::Blocks => malformed(SetupMessage::OpenSession, "algorithm blocks"),
        Refusal::SessionIdZero => malformed(SetupMessage::OpenSession, "session id 0"),
        Refusal::Length(message) => malformed(message, "length of the code"),
        Refusal::Privilege(level) => IpmiError::LevelOffered(level),
        Refusal::Password => IpmiError::Password,
        Refusal::BmcKey => IpmiError::BmcKey { configured: bmc_key },
    }
}

fn unusable(request: Request, reply: Reply) -> IpmiError {
    let request = request.name();
    match reply {
        Reply::Failed(completion) => IpmiError::Failed { request, completion },
        Reply::WrongLength(len) => IpmiError::WrongLength { request, len },
        // Replies are decoded by the request that they answer, so no other one can come.
        _ => IpmiError::WrongLength { request, len: 0 },
    }
}

/// Only errors that the kernel reports instead of sending prove that nothing left.
fn refused_send(kind: io::ErrorKind) -> SendReport {
    match kind {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::AddrNotAvailable => SendReport::NotSent(NotSent::Socket(kind)),
        _ => SendReport::MaybeSent(Unanswered::Socket(kind)),
    }
}

//! The driver of an open session: when to send, how long to wait, when to ask again. What is believed is decided by the
//! machine in `session`.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::{IpmiError, Noticed};
use crate::frame::MAX_DATAGRAM;
use crate::lan::{Reply, Request};
use crate::link::{Entropy, Link, Log, Network, draw};
use crate::opening::establish;
use crate::report::{
    Completion, IdentitySeen, NotSent, Power, Reported, SendReport, SystemGuid, Traffic, Unanswered,
};
use crate::session::Session;
use crate::suite::CipherSuite;
use crate::target::{Target, Timers, pause};

/// Pauses before a busy BMC is asked again; the last one repeats.
const BUSY_PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1)];

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
            // asked for again, never a higher one. Where that is refused, reading still needs no more than user level.
            match self.become_operator(by).await {
                Ok(()) => self.level_lost = false,
                Err(IpmiError::OperatorRefused(_)) => {}
                Err(error) => return Err(error),
            }
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
        let mut sent = timeout_at(not_after, self.link.send(&packet)).await;
        if matches!(&sent, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused) {
            // That is an ICMP message about an earlier datagram, which the kernel reports instead of sending this one.
            sent = timeout_at(not_after, self.link.send(&packet)).await;
        }
        match sent {
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

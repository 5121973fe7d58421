//! The BMC: its account, its power, its sessions, and what is wrong with it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::commands;
use super::crypto::{Keys, hmac};
use super::packet::{self, Packet, Request, SECURED};
use super::setup::{self, Opened};
use crate::power::Switch;

/// Sessions at once, as many as small BMCs have.
const SLOTS: usize = 4;
/// An idle session is forgotten after this long (IPMI 2.0, section 6.12.15).
const IDLE: Duration = Duration::from_secs(60);
/// A handshake that is not finished is forgotten after this long.
const UNFINISHED: Duration = Duration::from_secs(3);
/// How far ahead of the last accepted packet a sequence number may be.
const WINDOW: u32 = 16;

/// A cipher suite that a simulated BMC can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// RAKP-HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128.
    Three,
    /// RAKP-HMAC-SHA256, HMAC-SHA256-128, AES-CBC-128.
    Seventeen,
}

impl Suite {
    pub(super) const fn numbers(self) -> [u8; 3] {
        match self {
            Self::Three => [1, 1, 1],
            Self::Seventeen => [3, 4, 1],
        }
    }

    pub(super) const fn short_code(self) -> usize {
        match self {
            Self::Three => 12,
            Self::Seventeen => 16,
        }
    }
}

/// Power of a simulated server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// Running.
    On,
    /// Off.
    Off,
}

/// Privilege level of an account or a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// May read.
    User = 2,
    /// May switch the power.
    Operator = 3,
    /// May do everything.
    Administrator = 4,
}

impl Level {
    pub(super) const fn from_number(number: u8) -> Option<Self> {
        match number {
            2 => Some(Self::User),
            3 => Some(Self::Operator),
            4 => Some(Self::Administrator),
            _ => None,
        }
    }
}

/// How a BMC writes the 16 bytes of its system GUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// As printed.
    Rfc4122,
    /// The first three fields swapped, as SMBIOS has them.
    Smbios,
    /// All reversed, as the IPMI specification has them.
    Ipmi,
}

impl ByteOrder {
    fn write(self, uuid: [u8; 16]) -> [u8; 16] {
        let mut bytes = uuid;
        match self {
            Self::Rfc4122 => {}
            Self::Smbios => {
                for field in [0..4, 4..6, 6..8] {
                    bytes[field].reverse();
                }
            }
            Self::Ipmi => bytes.reverse(),
        }
        bytes
    }
}

/// The account of a simulated BMC.
#[derive(Clone)]
pub struct Account {
    /// Name, at most 16 bytes.
    pub name: String,
    /// Password, at most 20 bytes.
    pub password: String,
    /// The highest level that it may use.
    pub level: Level,
}

/// What is wrong with a BMC. One thing at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Each answer waits this long.
    Slow(Duration),
    /// Nothing is answered.
    Silent,
    /// The first of so many datagrams is lost on its way in, again and again.
    Lossy(u32),
    /// Every suite is refused with this status.
    RefusesSuites(u8),
    /// Every proposal is answered with suite 0: no authentication, no integrity, no encryption.
    OffersSuiteZero,
    /// All session slots stay taken.
    NoSlot,
    /// Answers in a session are neither authenticated nor encrypted.
    Unprotected,
    /// So many requests in sessions are answered with "busy".
    Busy(u32),
    /// The power reads this, whatever it is.
    Lying(Power),
    /// The power reads off, with the power control fault bit.
    ControlFault,
    /// A power-off is answered with this completion code and not carried out.
    Rejects(u8),
    /// A power-off is accepted and not carried out.
    Ignores,
    /// A power-off is carried out and not answered.
    Hangs,
    /// The system GUID is another one (as printed).
    Impostor([u8; 16]),
    /// There is no system GUID.
    NoGuid,
}

#[derive(Debug)]
struct Session {
    console: [u8; 4],
    id: [u8; 4],
    from: SocketAddr,
    suite: Suite,
    opened: Opened,
    established: Option<Established>,
    used: Instant,
}

#[derive(Debug)]
struct Established {
    keys: Keys,
    level: Level,
    limit: Level,
    seen: u32,
    sent: u32,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) switch: Arc<Switch>,
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
    pub(super) power_offs: u32,
    pub(super) asked: u32,
    /// Whether it has no power itself.
    dark: bool,
    sessions: Vec<Session>,
    received: u32,
    drawn: u64,
}

/// A simulated BMC. Its time is the caller's.
pub struct Bmc {
    account: Account,
    bmc_key: Option<Vec<u8>>,
    uuid: [u8; 16],
    order: ByteOrder,
    suites: Vec<Suite>,
    seed: [u8; 32],
    state: Mutex<State>,
}

impl Bmc {
    /// A BMC of a running server with this UUID (as printed), suites 17 and 3, SMBIOS byte order and no BMC key. All its
    /// ids and random numbers come from `seed`: give another one to each.
    #[must_use]
    pub fn new(uuid: [u8; 16], account: Account, seed: [u8; 32]) -> Self {
        let state = State {
            switch: Arc::new(Switch::new(true)),
            delay: Duration::ZERO,
            fault: None,
            power_offs: 0,
            asked: 0,
            dark: false,
            sessions: Vec::new(),
            received: 0,
            drawn: 0,
        };
        Self {
            account,
            bmc_key: None,
            uuid,
            order: ByteOrder::Smbios,
            suites: vec![Suite::Seventeen, Suite::Three],
            seed,
            state: Mutex::new(state),
        }
    }

    /// With these suites only.
    #[must_use]
    pub fn with_suites(self, suites: &[Suite]) -> Self {
        Self { suites: suites.to_vec(), ..self }
    }

    /// With this byte order of the system GUID.
    #[must_use]
    pub fn with_byte_order(self, order: ByteOrder) -> Self {
        Self { order, ..self }
    }

    /// With a BMC key (Kg) of at most 20 bytes.
    #[must_use]
    pub fn with_bmc_key(self, key: &[u8]) -> Self {
        Self { bmc_key: Some(key.to_vec()), ..self }
    }

    /// With the server living on this power.
    #[must_use]
    pub fn wired_to(self, switch: Arc<Switch>) -> Self {
        self.lock().switch = switch;
        self
    }

    /// How long a switch-off takes.
    pub fn set_delay(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    /// Breaks it, or repairs it.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.lock().fault = fault;
    }

    /// Takes its own power away, or gives it back: without it nothing is answered, whatever else is wrong.
    pub fn set_dark(&self, dark: bool) {
        self.lock().dark = dark;
    }

    /// Switches the server from outside.
    pub fn set_power(&self, power: Power) {
        let state = self.lock();
        match power {
            Power::On => state.switch.on(Instant::now()),
            Power::Off => state.switch.off(Instant::now(), Duration::ZERO),
        }
    }

    /// The power as it is, whatever the BMC says.
    pub fn power(&self, now: Instant) -> Power {
        self.lock().power(now)
    }

    /// Power-offs that were carried out or begun.
    pub fn power_offs(&self) -> u32 {
        self.lock().power_offs
    }

    /// Power-offs that were asked for, whether they were carried out or not.
    pub fn power_offs_asked(&self) -> u32 {
        self.lock().asked
    }

    /// Datagrams that have reached it, lost ones included.
    pub fn received(&self) -> u32 {
        self.lock().received
    }

    /// Sessions that are established and not closed.
    pub fn sessions(&self) -> usize {
        self.lock().sessions.iter().filter(|session| session.established.is_some()).count()
    }

    /// How long each answer waits.
    pub(super) fn pause(&self) -> Duration {
        match self.lock().fault {
            Some(Fault::Slow(pause)) => pause,
            _ => Duration::ZERO,
        }
    }

    /// What it answers to a datagram, if anything.
    pub fn answer(&self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.lock();
        state.received = state.received.wrapping_add(1);
        if state.dark {
            return None;
        }
        match state.fault {
            Some(Fault::Silent) => return None,
            Some(Fault::Lossy(of)) if state.received % of.max(1) == 1 % of.max(1) => return None,
            _ => {}
        }
        state.sessions.retain(|session| {
            let limit = if session.established.is_some() { IDLE } else { UNFINISHED };
            now.duration_since(session.used) < limit
        });
        if let Some(answer) = packet::channel_capabilities(datagram) {
            return Some(answer);
        }
        let packet = Packet::parse(datagram, 0)?;
        match packet.kind {
            setup::OPEN_REQUEST => self.open(&mut state, now, from, packet.payload),
            setup::RAKP1 => self.rakp1(&mut state, now, packet.payload),
            setup::RAKP3 => self.rakp3(&mut state, now, packet.payload),
            SECURED => self.in_session(&mut state, now, from, datagram),
            _ => None,
        }
    }

    fn open(&self, state: &mut State, now: Instant, from: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
        let request = setup::OpenRequest::parse(payload)?;
        match state.fault {
            Some(Fault::RefusesSuites(status)) => return Some(request.refusal(status)),
            Some(Fault::OffersSuiteZero) => return Some(request.acceptance([1, 2, 3, 4], [0, 0, 0])),
            _ => {}
        }
        let Some(suite) = self.suites.iter().copied().find(|suite| suite.numbers() == request.numbers) else {
            return Some(request.refusal(setup::NO_MATCHING_SUITE));
        };
        if state.fault == Some(Fault::NoSlot) || state.sessions.len() >= SLOTS {
            return Some(request.refusal(setup::NO_SLOT));
        }
        let mut id = self.draw::<4>(state);
        // Never 0, which is no session.
        id[3] |= 0x80;
        state.sessions.push(Session {
            console: request.console,
            id,
            from,
            suite,
            opened: Opened::default(),
            established: None,
            used: now,
        });
        Some(request.acceptance(id, suite.numbers()))
    }

    fn rakp1(&self, state: &mut State, now: Instant, payload: &[u8]) -> Option<Vec<u8>> {
        let random = self.draw::<16>(state);
        let request = setup::Rakp1::parse(payload)?;
        let Some(session) = state.sessions.iter_mut().find(|session| session.id == request.session) else {
            return Some(request.refusal([0; 4], setup::INVALID_SESSION));
        };
        session.used = now;
        let console = session.console;
        if request.name != self.account.name.as_bytes() {
            return Some(request.refusal(console, setup::UNKNOWN_NAME));
        }
        // The role's low bits ask for a level; bit 4 says that the name alone finds the account.
        if request.role & 0x0f > self.account.level as u8 {
            return Some(request.refusal(console, setup::ROLE_NOT_ALLOWED));
        }
        session.opened = Opened {
            console_random: request.random,
            bmc_random: random,
            guid: self.order.write(self.uuid),
            role: request.role,
            name: request.name.to_vec(),
        };
        let covered = session.opened.rakp2_covers(console, session.id);
        let code = hmac(session.suite, self.account.password.as_bytes(), &covered);
        Some(request.acceptance(console, &session.opened, &code))
    }

    fn rakp3(&self, state: &mut State, now: Instant, payload: &[u8]) -> Option<Vec<u8>> {
        let request = setup::Rakp3::parse(payload)?;
        let session = state.sessions.iter_mut().find(|session| session.id == request.session)?;
        if request.status != 0 || session.established.is_some() {
            return None;
        }
        session.used = now;
        let (suite, password) = (session.suite, self.account.password.as_bytes());
        if hmac(suite, password, &session.opened.rakp3_covers(session.console)) != request.code {
            return Some(request.refusal(session.console, setup::INVALID_CHECK_VALUE));
        }
        let key = self.bmc_key.as_deref().unwrap_or(password);
        let sik = hmac(suite, key, &session.opened.sik_covers());
        let limit = Level::from_number(session.opened.role & 0x0f).unwrap_or(Level::User);
        session.established = Some(Established {
            keys: Keys::from_sik(suite, &sik),
            level: Level::User,
            limit: limit.min(self.account.level),
            seen: 0,
            sent: 0,
        });
        let value = super::crypto::short_hmac(suite, &sik, &session.opened.rakp4_covers(session.id));
        Some(request.acceptance(session.console, &value))
    }

    fn in_session(
        &self,
        state: &mut State,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<Vec<u8>> {
        let id = Packet::parse(datagram, 0)?.session;
        let iv = self.draw::<16>(state);
        let guid = self.order.write(match state.fault {
            Some(Fault::Impostor(uuid)) => uuid,
            _ => self.uuid,
        });
        let index = state.sessions.iter().position(|session| session.id == id && session.from == from)?;
        let session = state.sessions.get_mut(index)?;
        session.used = now;
        let console = session.console;
        let established = session.established.as_mut()?;
        let packet = Packet::parse(datagram, established.keys.suite.short_code())?;
        let message = packet.open(&established.keys)?;
        let ahead = packet.sequence.checked_sub(established.seen)?;
        if !(1..=WINDOW).contains(&ahead) {
            return None;
        }
        established.seen = packet.sequence;
        let request = Request::parse(&message)?;
        let (mut level, limit) = (established.level, established.limit);
        let reply = commands::carry_out(state, now, guid, (&mut level, limit), &request);
        let session = state.sessions.get_mut(index)?;
        let established = session.established.as_mut()?;
        established.level = level;
        established.sent += 1;
        let (completion, data) = reply.answer?;
        let answer = request.answer(completion, &data);
        let sealed = if state.fault == Some(Fault::Unprotected) {
            packet::plain(packet::PLAIN, console, established.sent, &answer)
        } else {
            packet::secured(&established.keys, console, established.sent, iv, &answer)
        };
        if reply.closes {
            state.sessions.remove(index);
        }
        Some(sealed)
    }

    /// The next bytes that nobody without the seed can foresee.
    fn draw<const N: usize>(&self, state: &mut State) -> [u8; N] {
        state.drawn += 1;
        let drawn = hmac(Suite::Seventeen, &self.seed, &state.drawn.to_be_bytes());
        std::array::from_fn(|at| drawn.get(at).copied().unwrap_or(0))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn power(&self, now: Instant) -> Power {
        if self.switch.is_on(now) { Power::On } else { Power::Off }
    }
}

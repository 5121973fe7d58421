//! A small honest BMC for tests of the machines and of the driver. Its codes and packets are those of the code under
//! test, which the recorded vectors check; what it is there for is order, loss and time.

use crate::credentials::Credentials;
use crate::frame;
use crate::keys::{Exchange, HashValue, SessionKeys, hmac};
use crate::lan::Request;
use crate::session::Session;
use crate::suite::CipherSuite;

pub(super) const USER: &str = "op";
pub(super) const GUID: [u8; 16] = *b"0123456789abcdef";

pub(super) fn credentials() -> Credentials {
    Credentials::from_bytes(USER.as_bytes(), b"a password", None)
}

struct Open {
    suite: CipherSuite,
    sidm: [u8; 4],
    sidc: [u8; 4],
    rm: [u8; 16],
    rc: [u8; 16],
    role: u8,
    session: Option<Session>,
    seen: u32,
}

/// The BMC. Its ids and random numbers count up.
pub(super) struct Bmc {
    pub(super) suites: Vec<CipherSuite>,
    pub(super) power_on: bool,
    /// What it answers to Get System GUID.
    pub(super) guid: [u8; 16],
    pub(super) power_offs: u32,
    /// So many Open Session Requests are answered with "no session slot".
    pub(super) without_slot: u32,
    /// So many requests in a session are answered with "busy".
    pub(super) busy: u32,
    /// Power-offs are above the session's level until operator is asked for again.
    pub(super) demoted: bool,
    /// Operator is refused.
    pub(super) refuses_operator: bool,
    /// Commands that arrived in sessions.
    pub(super) requests: Vec<u8>,
    opened: Vec<Open>,
    drawn: u8,
}

impl Bmc {
    pub(super) fn new(suites: &[CipherSuite]) -> Self {
        Self {
            suites: suites.to_vec(),
            power_on: true,
            guid: GUID,
            power_offs: 0,
            without_slot: 0,
            busy: 0,
            demoted: false,
            refuses_operator: false,
            requests: Vec::new(),
            opened: Vec::new(),
            drawn: 0,
        }
    }

    /// The ids of all sessions that this BMC established.
    pub(super) fn established(&self) -> Vec<[u8; 4]> {
        self.opened.iter().filter(|open| open.session.is_some()).map(|open| open.sidc).collect()
    }

    /// Whether one of its sessions has the suite and the keys of `client`.
    pub(super) fn speaks(&self, suite: CipherSuite, client: &Session) -> bool {
        let mut client = client.clone();
        let question = client.ask(Request::GetChassisStatus, [0; 16]).unwrap();
        let sessions = self.opened.iter().filter_map(|open| open.session.as_ref());
        sessions.into_iter().any(|own| own.suite() == suite && own.unseal_after(0, &question).is_ok())
    }

    pub(super) fn answer(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let framed = frame::parse(datagram).ok()?;
        let payload = framed.rest;
        match framed.payload_type {
            0x10 => self.open(payload),
            0x12 => self.rakp1(payload),
            0x14 => self.rakp3(payload),
            0xc0 => self.in_session(framed.session_id, datagram),
            _ => None,
        }
    }

    fn open(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let [tag, sidm] = [payload.get(0..1)?, payload.get(4..8)?];
        if self.without_slot > 0 {
            self.without_slot -= 1;
            return Some(setup(0x11, &[tag, &[0x01]]));
        }
        let numbers = [payload.get(12)?, payload.get(20)?, payload.get(28)?];
        let offered = self.suites.iter().find(|suite| {
            let algorithms = suite.algorithms();
            numbers == [&algorithms.authentication, &algorithms.integrity, &algorithms.confidentiality]
        });
        let Some(suite) = offered.copied() else { return Some(setup(0x11, &[tag, &[0x11]])) };
        self.drawn += 1;
        let sidc = [self.drawn, 0, 0, 0xb0];
        self.opened.push(Open {
            suite,
            sidm: sidm.try_into().ok()?,
            sidc,
            rm: [0; 16],
            rc: [0; 16],
            role: 0,
            session: None,
            seen: 0,
        });
        Some(setup(0x11, &[tag, &[0, 3, 0], sidm, &sidc, payload.get(8..)?]))
    }

    fn find(&mut self, sidc: &[u8]) -> Option<&mut Open> {
        self.opened.iter_mut().find(|open| open.sidc == sidc)
    }

    fn rakp1(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        self.drawn += 1;
        let rc = [self.drawn; 16];
        let tag = payload.get(0..1)?;
        let open = self.find(payload.get(4..8)?)?;
        open.rm = payload.get(8..24)?.try_into().ok()?;
        (open.rc, open.role) = (rc, *payload.get(24)?);
        let credentials = credentials();
        let (name, key) = ([u8::try_from(USER.len()).ok()?], credentials.password());
        let covered: [&[u8]; 8] =
            [&open.sidm, &open.sidc, &open.rm, &open.rc, &GUID, &[open.role], &name, USER.as_bytes()];
        let code = hmac(open.suite, key, &covered);
        Some(setup(0x13, &[tag, &[0, 0, 0], &open.sidm, &open.rc, &GUID, code.as_bytes()]))
    }

    fn rakp3(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let tag = payload.get(0..1)?;
        let open = self.find(payload.get(4..8)?)?;
        let credentials = credentials();
        let exchange = Exchange {
            suite: open.suite,
            credentials: &credentials,
            sidm: open.sidm,
            sidc: open.sidc,
            rm: open.rm,
            rc: open.rc,
            guid: GUID,
            role: open.role,
        };
        if exchange.rakp3().as_bytes() != payload.get(8..)? {
            return Some(setup(0x15, &[tag, &[0x0f, 0, 0], &open.sidm]));
        }
        let sik = exchange.sik();
        open.session =
            Some(Session::new(open.suite, SessionKeys::derive(open.suite, &sik), open.sidc, open.sidm));
        let value: HashValue = hmac(open.suite, sik.as_bytes(), &[&open.rm, &open.sidc, &GUID]);
        let shown = value.as_bytes().get(..open.suite.code_len())?;
        Some(setup(0x15, &[tag, &[0, 0, 0], &open.sidm, shown]))
    }

    fn in_session(&mut self, sidc: [u8; 4], datagram: &[u8]) -> Option<Vec<u8>> {
        let open = self.opened.iter_mut().find(|open| open.sidc == sidc)?;
        let session = open.session.as_mut()?;
        let (seen, message) = session.unseal_after(open.seen, datagram).ok()?;
        open.seen = seen;
        let (&[_, function, _, _, number, command], data) = message.split_first_chunk::<6>()?;
        self.requests.push(command);
        let mut body = vec![0x20, number, command];
        if self.busy > 0 && command != 0x3c {
            self.busy -= 1;
            body.push(0xc0);
        } else if command == 0x3b && self.refuses_operator {
            body.push(0x81);
        } else if command == 0x02 && self.demoted {
            body.push(0xd4);
        } else {
            body.push(0);
            match command {
                0x3b => {
                    self.demoted = false;
                    body.push(*data.first()?);
                }
                0x37 => body.extend(self.guid),
                0x01 => body.extend([u8::from(self.power_on), 0, 0]),
                0x02 => {
                    self.power_on = false;
                    self.power_offs += 1;
                }
                _ => {}
            }
        }
        let header = [0x81, function + 4];
        body.push(negative_sum(&body));
        let answer = [&header[..], &[negative_sum(&header)], &body].concat();
        self.drawn = self.drawn.wrapping_add(1);
        Some(session.seal_any(&answer, [self.drawn; 16]))
    }
}

pub(super) fn negative_sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

/// A setup message with this payload type.
pub(super) fn setup(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    frame::build(kind, [0; 4], 0, &parts.concat())
}

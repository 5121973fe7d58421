//! `contract_ipmi_captures`: exchanges recorded between other clients and other BMCs decode and verify.

use std::path::PathBuf;

use serde::Deserialize;

use super::data::{Hex, folder, read};
use crate::credentials::Credentials;
use crate::frame::{self, Setup};
use crate::keys::{Exchange, SessionKeys};
use crate::lan::{Reply, Request};
use crate::report::Completion;
use crate::session::Session;
use crate::setup::{self, Refusal, SetupMessage, SetupStatus};
use crate::suite::CipherSuite;

#[derive(Deserialize)]
struct Capture {
    name: String,
    username: String,
    /// What the client used.
    password: String,
    /// What the BMC has.
    correct_password: String,
    kg: Option<String>,
    packets: Vec<Packet>,
    session: Option<Keys>,
}

#[derive(Deserialize)]
struct Packet {
    dir: Direction,
    hex: Hex,
    format: String,
    #[serde(default)]
    name: String,
    tag: Option<u8>,
    status: Option<u8>,
    proposed: Option<[u8; 3]>,
    session_seq: Option<u32>,
    lan_message: Option<Hex>,
    rq_seq: Option<u8>,
    completion: Option<Hex>,
    iv: Option<Hex>,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Direction {
    C2b,
    B2c,
}

#[derive(Deserialize)]
struct Keys {
    sik: Option<Hex>,
    k1: Option<Hex>,
    k2: Option<Hex>,
}

/// What was learnt from the packets so far.
struct Replay<'a> {
    capture: &'a Capture,
    credentials: Credentials,
    suite: CipherSuite,
    sidm: [u8; 4],
    sidc: [u8; 4],
    rm: [u8; 16],
    role: u8,
    rakp2: Option<([u8; 16], [u8; 16])>,
    keys: Option<SessionKeys>,
    /// The last request in the session that is one of ours, and its number.
    asked: Option<(Request, u8)>,
    refused: Vec<Refusal>,
    replies: Vec<Reply>,
    verified: usize,
}

#[test]
fn contract_ipmi_captures_decode_and_verify() {
    let (mut captures, mut verified) = (0, 0);
    for path in capture_files() {
        let capture: Capture = read(&path);
        let mut replay = Replay::new(&capture);
        for packet in &capture.packets {
            replay.take(packet);
        }
        replay.check_the_end();
        captures += 1;
        verified += replay.verified;
    }
    println!("{captures} captures, {verified} packets verified");
    assert!(captures > 0 && verified > 0, "no captures were found");
}

fn capture_files() -> Vec<PathBuf> {
    let folder = folder().join("captures");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

impl<'a> Replay<'a> {
    fn new(capture: &'a Capture) -> Self {
        let key = capture.kg.as_ref().map(String::as_bytes);
        Self {
            credentials: Credentials::from_bytes(
                capture.username.as_bytes(),
                capture.password.as_bytes(),
                key,
            ),
            capture,
            suite: CipherSuite::Seventeen,
            sidm: [0; 4],
            sidc: [0; 4],
            rm: [0; 16],
            role: 0,
            rakp2: None,
            keys: None,
            asked: None,
            refused: Vec::new(),
            replies: Vec::new(),
            verified: 0,
        }
    }

    fn take(&mut self, packet: &Packet) {
        let at = format!("{}: {}", self.capture.name, packet.name);
        let datagram = packet.hex.0.as_slice();
        if packet.format != "rmcp+" {
            assert!(frame::parse(datagram).is_err(), "{at}: IPMI 1.5 framing is not RMCP+");
            return;
        }
        let framed = frame::parse(datagram).unwrap();
        let kind = framed.payload_type;
        if kind == 0xc0 {
            return self.in_session(packet, &at);
        }
        let payload = frame::parse_setup(&framed).unwrap();
        let is = |setup: Setup| kind == setup as u8;
        let tag = packet.tag.unwrap_or(0);
        if is(Setup::OpenRequest) {
            self.open_request(packet, payload, &at);
        } else if is(Setup::OpenResponse) {
            match setup::open_response(payload, tag, self.sidm, self.suite).unwrap() {
                Ok(sidc) => self.sidc = sidc,
                Err(refusal) => self.refused(packet, SetupMessage::OpenSession, refusal, &at),
            }
        } else if is(Setup::Rakp1) {
            self.rm = payload[8..24].try_into().unwrap();
            self.role = payload[24];
            let own = setup::rakp1(tag, self.sidc, self.rm, self.role, self.capture.username.as_bytes());
            assert_eq!(own, datagram, "{at}");
        } else if is(Setup::Rakp2) {
            self.rakp2(packet, payload, tag, &at);
        } else if is(Setup::Rakp3) {
            let (rc, guid) = self.rakp2.unwrap();
            let own = setup::rakp3(tag, self.sidc, self.exchange(rc, guid).rakp3().as_bytes());
            assert_eq!(own, datagram, "{at}");
        } else if is(Setup::Rakp4) {
            self.rakp4(payload, tag, &at);
        } else {
            assert_eq!(kind, 0, "{at}: unknown payload type");
            return;
        }
        self.verified += 1;
    }

    fn open_request(&mut self, packet: &Packet, payload: &[u8], at: &str) {
        self.suite = match packet.proposed {
            Some([1, 1, 1]) => CipherSuite::Three,
            Some([3, 4, 1]) => CipherSuite::Seventeen,
            other => panic!("{at}: proposes {other:?}"),
        };
        self.sidm = payload[4..8].try_into().unwrap();
        let own = setup::open_request(packet.tag.unwrap(), self.sidm, self.suite);
        // Some clients ask for "the highest level" (0) where this one asks for operator.
        let mut theirs = packet.hex.0.clone();
        theirs[17] = setup::OPERATOR;
        assert_eq!(own, theirs, "{at}");
    }

    fn refused(&mut self, packet: &Packet, message: SetupMessage, refusal: Refusal, at: &str) {
        let status = SetupStatus(packet.status.unwrap());
        assert_eq!(refusal, Refusal::Status(message, status), "{at}");
        self.refused.push(refusal);
    }

    fn exchange(&self, rc: [u8; 16], guid: [u8; 16]) -> Exchange<'_> {
        let Self { suite, sidm, sidc, rm, role, ref credentials, .. } = *self;
        Exchange { suite, credentials, sidm, sidc, rm, rc, guid, role }
    }

    fn rakp2(&mut self, packet: &Packet, payload: &[u8], tag: u8, at: &str) {
        let answer = match setup::rakp2(payload, tag, self.sidm).unwrap() {
            Ok(answer) => answer,
            Err(refusal) => return self.refused(packet, SetupMessage::Rakp2, refusal, at),
        };
        let right_password = self.capture.password == self.capture.correct_password;
        assert_eq!(self.exchange(answer.rc, answer.guid).rakp2_is(answer.code), right_password, "{at}");
        if !right_password {
            let user = self.capture.username.as_bytes();
            self.credentials = Credentials::from_bytes(user, self.capture.correct_password.as_bytes(), None);
            assert!(self.exchange(answer.rc, answer.guid).rakp2_is(answer.code), "{at}");
            self.refused.push(Refusal::Password);
        }
        self.rakp2 = Some((answer.rc, answer.guid));
    }

    fn rakp4(&mut self, payload: &[u8], tag: u8, at: &str) {
        let code = setup::rakp4(payload, tag, self.sidm).unwrap().unwrap();
        let (rc, guid) = self.rakp2.unwrap();
        let exchange = self.exchange(rc, guid);
        let sik = exchange.sik();
        assert!(exchange.rakp4_is(&sik, code), "{at}");
        let keys = SessionKeys::derive(self.suite, &sik);
        let recorded = self.capture.session.as_ref().unwrap();
        assert_eq!(Some(sik.as_bytes()), recorded.sik.as_ref().map(|hex| &hex.0[..]), "{at}");
        assert_eq!(Some(keys.k1()), recorded.k1.as_ref().map(|hex| &hex.0[..]), "{at}");
        assert!(recorded.k2.as_ref().unwrap().0.starts_with(keys.aes()), "{at}");
        if self.capture.kg.is_some() {
            let (user, password) = (self.capture.username.as_bytes(), self.capture.password.as_bytes());
            let without = Credentials::from_bytes(user, password, None);
            let exchange = Exchange { credentials: &without, ..self.exchange(rc, guid) };
            assert!(!exchange.rakp4_is(&exchange.sik(), code), "{at}: verified without the BMC key");
        }
        self.keys = Some(keys);
    }

    fn in_session(&mut self, packet: &Packet, at: &str) {
        let (own, other) = match packet.dir {
            Direction::B2c => (self.sidm, self.sidc),
            Direction::C2b => (self.sidc, self.sidm),
        };
        let keys = self.keys.clone().unwrap();
        let session = Session::new(self.suite, keys, own, other);
        let seen = packet.session_seq.unwrap() - 1;
        let (_, message) = session.unseal_after(seen, &packet.hex.0).unwrap();
        assert_eq!(message[..], packet.lan_message.as_ref().unwrap().0[..], "{at}");
        self.verified += 1;
        let rq_seq = packet.rq_seq.unwrap();
        if packet.dir == Direction::C2b {
            let requests = [
                Request::SetOperator,
                Request::GetSystemGuid,
                Request::GetChassisStatus,
                Request::PowerDown,
                Request::CloseSession { sidc: self.sidc },
            ];
            let ours = requests.into_iter().find(|request| request.encode(rq_seq) == *message);
            self.asked = ours.map(|request| (request, rq_seq));
            if let Some(request) = ours {
                let iv = packet.iv.as_ref().unwrap().array();
                let mut client = Session::new(self.suite, self.keys.clone().unwrap(), other, own);
                let sealed = client.seal_as(request, rq_seq, seen, iv);
                assert_eq!(sealed, packet.hex.0, "{at}: sealed otherwise");
            }
        } else if let Some((request, asked)) = self.asked {
            let reply = request.decode(asked, &message).unwrap();
            let done = packet.completion.as_ref().is_none_or(|completion| completion.0 == [0]);
            assert_eq!(matches!(reply, Reply::Failed(_)), !done, "{at}");
            self.replies.push(reply);
        } else {
            let wrong = Request::GetChassisStatus.decode(rq_seq, &message);
            assert!(wrong.is_err(), "{at}: the answer to another request was taken");
        }
    }

    /// What each capture is there to show.
    fn check_the_end(&self) {
        let name = self.capture.name.as_str();
        let status = |message, code| Refusal::Status(message, SetupStatus(code));
        let refused = match name {
            "ipmitool-s17-refused-openipmi" | "pyghmi-17then3-openipmi-off" => {
                Some(status(SetupMessage::OpenSession, 0x04))
            }
            "ipmitool-userlevel-pyghmi17" => Some(status(SetupMessage::Rakp2, 0x0a)),
            "ipmitool-wrongpw-openipmi" => Some(Refusal::Password),
            _ => None,
        };
        assert_eq!(self.refused, Vec::from_iter(refused), "{name}");
        if let Some(refusal) = refused {
            let leads_to_3 = matches!(refusal, Refusal::Status(SetupMessage::OpenSession, _));
            assert_eq!(refusal.allows_fall_back(CipherSuite::Seventeen), leads_to_3, "{name}");
        }
        let saw = |wanted: fn(&Reply) -> bool| self.replies.iter().any(wanted);
        if name.ends_with("-off") {
            assert!(saw(|reply| *reply == Reply::PowerDownAccepted), "{name}");
        }
        if name.ends_with("-status") {
            assert!(saw(|reply| matches!(reply, Reply::Status(_))), "{name}");
        }
        if name.ends_with("-guid") {
            assert!(saw(|reply| matches!(reply, Reply::Guid(_))), "{name}");
        }
        assert!(!saw(|reply| *reply == Reply::Failed(Completion::SUCCESS)), "{name}");
    }
}

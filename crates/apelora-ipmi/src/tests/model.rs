//! No path from unauthenticated input to evidence: every order of events up to a bound, over the machines themselves.
//!
//! The attacker owns the network: it sees every datagram, withholds, repeats and reorders them for ever, and adds its
//! own, but has no key. The BMC is honest. What is checked is what the product relies on: a session exists only if the
//! BMC established the same one, and a power reading is what the BMC said in answer to *this* question.

use std::collections::HashSet;

use super::bmc::{Bmc, GUID, credentials, setup};
use crate::frame;
use crate::handshake::{Handshake, Nonces, Step};
use crate::lan::{Reply, Request};
use crate::report::Power;
use crate::session::Session;
use crate::suite::CipherSuite;

const NONCES: Nonces = Nonces { tag: 9, sidm: [1, 2, 3, 4], rm: [5; 16] };
const QUESTIONS: u8 = 3;
const ANSWERS: usize = 4;
const SWITCHES: u8 = 2;

/// An answer of the BMC to a chassis status question, and the truth about it.
#[derive(Clone)]
struct Answer {
    packet: Vec<u8>,
    to_question: u8,
    on: bool,
}

/// A client that asks for the chassis status, a BMC that answers, a server that somebody switches, a network that is the
/// attacker's.
#[derive(Clone)]
struct World {
    client: Session,
    bmc: Session,
    questions: u8,
    answered: bool,
    question: Vec<u8>,
    on: bool,
    switches: u8,
    answers: Vec<Answer>,
}

impl World {
    fn key(&self) -> String {
        let answers: Vec<(u8, bool)> =
            self.answers.iter().map(|answer| (answer.to_question, answer.on)).collect();
        let Self { questions, answered, on, switches, .. } = self;
        format!("{} {questions} {answered} {on} {switches} {answers:?}", self.client.fingerprint())
    }

    fn next(&self, forged: &[Vec<u8>], readings: &mut u32) -> Vec<Self> {
        let mut next = Vec::new();
        if self.questions < QUESTIONS {
            let mut world = self.clone();
            world.questions += 1;
            world.answered = false;
            world.question = world.client.ask(Request::GetChassisStatus, [world.questions; 16]).unwrap();
            next.push(world);
        }
        if self.switches < SWITCHES {
            next.push(Self { on: !self.on, switches: self.switches + 1, ..self.clone() });
        }
        // The BMC answers the latest question, and every copy of it that it is given.
        if self.questions > 0 && self.answers.len() < ANSWERS {
            let mut world = self.clone();
            let (_, message) = world.bmc.unseal_after(u32::from(self.questions) - 1, &self.question).unwrap();
            let mut body = vec![0x20, message[4], 0x01, 0x00, u8::from(self.on), 0, 0];
            body.push(super::bmc::negative_sum(&body));
            let packet = world.bmc.seal_any(&[&[0x81, 0x04, 0x7b], &body[..]].concat(), [0xb0; 16]);
            world.answers.push(Answer { packet, to_question: self.questions, on: self.on });
            next.push(world);
        }
        for answer in &self.answers {
            let mut world = self.clone();
            if let Ok(reply) = world.client.receive(&answer.packet) {
                let Reply::Status(status) = reply else { panic!("{reply:?}") };
                *readings += 1;
                assert!(!self.answered, "one question was answered twice");
                assert_eq!(
                    answer.to_question, self.questions,
                    "the answer to an earlier question was believed"
                );
                assert_eq!(status.power() == Power::On, answer.on);
                world.answered = true;
                next.push(world);
            } else {
                assert_eq!(world.key(), self.key(), "a dropped datagram changed something");
            }
        }
        for packet in forged {
            let mut world = self.clone();
            assert!(world.client.receive(packet).is_err(), "a forgery was believed: {packet:02x?}");
            assert_eq!(world.key(), self.key(), "a forgery changed something");
        }
        next
    }
}

/// What can be made without a key: the question reflected, plaintext answers, answers of another session, and every
/// header of a genuine packet around other bytes.
fn forgeries(client: &Session, other_keys: &Session) -> Vec<Vec<u8>> {
    let mut reflected = client.clone();
    let question = reflected.ask(Request::GetChassisStatus, [1; 16]).unwrap();
    let mut forged = vec![question.clone()];
    let mut redirected = question;
    redirected[6..10].copy_from_slice(&NONCES.sidm);
    forged.push(redirected);
    for (number, power) in (0..8).flat_map(|number| [(number, 0), (number, 1)]) {
        let mut body = vec![0x20, number << 2, 0x01, 0x00, power, 0, 0];
        body.push(super::bmc::negative_sum(&body));
        let message = [&[0x81, 0x04, 0x7b], &body[..]].concat();
        for kind in [0x00, 0x40, 0x80, 0xc0] {
            forged.push(frame::build(kind, NONCES.sidm, u32::from(number), &message));
        }
        let mut other = other_keys.clone();
        forged.push(other.seal_any(&message, [3; 16]));
    }
    forged
}

#[test]
fn a_power_reading_is_the_bmc_s_answer_to_this_very_question() {
    for suite in [CipherSuite::Three, CipherSuite::Seventeen] {
        let client = establish(suite, NONCES);
        let other = establish(suite, Nonces { rm: [6; 16], ..NONCES });
        let forged = forgeries(&client, &other.mirrored());
        let start = World {
            bmc: client.mirrored(),
            client,
            questions: 0,
            answered: false,
            question: Vec::new(),
            on: true,
            switches: 0,
            answers: Vec::new(),
        };
        let (mut seen, mut open, mut readings) = (HashSet::new(), vec![start], 0);
        while let Some(world) = open.pop() {
            if seen.insert(world.key()) {
                open.extend(world.next(&forged, &mut readings));
            }
        }
        println!("{suite}: {} states, {readings} readings, {} forgeries each", seen.len(), forged.len());
        assert!(seen.len() > 1000 && readings > 100, "the model does nothing");
    }
}

/// A session with the honest BMC, nobody interfering.
fn establish(suite: CipherSuite, nonces: Nonces) -> Session {
    let mut bmc = Bmc::new(&[suite]);
    let (mut handshake, mut packet) = Handshake::start(suite, nonces, credentials());
    for _ in 0..3 {
        match handshake.receive(&bmc.answer(&packet).unwrap()) {
            Step::Send(next) => packet = next,
            Step::Established(session) => return *session,
            _ => panic!("refused"),
        }
    }
    panic!("not established")
}

/// A client in a handshake, an honest BMC of both suites, and an attacker who may deliver anything that either of them
/// ever said, to either of them, altered in every field that it could profit from.
#[test]
fn a_session_exists_only_if_the_bmc_established_the_same_one() {
    for suite in [CipherSuite::Three, CipherSuite::Seventeen] {
        let (handshake, first) = Handshake::start(suite, NONCES, credentials());
        let (mut seen, mut established) = (HashSet::new(), 0);
        let mut open = vec![(handshake, vec![first], Vec::<Vec<u8>>::new())];
        while let Some((client, to_bmc, deliveries)) = open.pop() {
            let key = format!("{} {to_bmc:?} {deliveries:?}", client.fingerprint());
            if !seen.insert(key) {
                continue;
            }
            // The BMC's state is a function of what was delivered to it.
            let mut bmc = Bmc::new(&[CipherSuite::Three, CipherSuite::Seventeen]);
            let answers: Vec<Vec<u8>> = deliveries.iter().filter_map(|packet| bmc.answer(packet)).collect();
            if deliveries.len() < 4 {
                for packet in &to_bmc {
                    for altered in alterations(packet) {
                        let more = [&deliveries[..], &[altered]].concat();
                        open.push((client.clone(), to_bmc.clone(), more));
                    }
                }
            }
            for answer in answers.iter().flat_map(|answer| alterations(answer)).chain(forged_setup()) {
                let mut moved = client.clone();
                match moved.receive(&answer) {
                    Step::Send(next) => {
                        let sent = [&to_bmc[..], &[next]].concat();
                        open.push((moved, sent, deliveries.clone()));
                    }
                    Step::Established(session) => {
                        established += 1;
                        let ours = session.close();
                        let same = |sidc: &[u8; 4]| ours == Request::CloseSession { sidc: *sidc };
                        assert!(bmc.established().iter().any(same), "{:?}", client.fingerprint());
                        assert!(bmc.speaks(suite, &session), "the keys differ");
                    }
                    Step::Refused(_) | Step::Ignored(_) => {
                        assert_eq!(moved.fingerprint(), client.fingerprint());
                    }
                }
            }
        }
        println!("{suite}: {} states, {established} sessions", seen.len());
        assert!(seen.len() > 100 && established > 0, "the model does nothing");
    }
}

/// The packet itself, and with the other suite's algorithms, another session id, another random number, role, GUID or
/// status: without keys, what an attacker could want changed.
fn alterations(packet: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![packet.to_vec()];
    let mut with = |offset: usize, bytes: &[u8]| {
        let mut altered = packet.to_vec();
        if let Some(field) = altered.get_mut(offset..offset + bytes.len()) {
            field.copy_from_slice(bytes);
            all.push(altered);
        }
    };
    match packet.get(5) {
        Some(0x10 | 0x11) => {
            let blocks = if packet[5] == 0x10 { 24 } else { 28 };
            for [authentication, integrity] in [[1, 1], [3, 4]] {
                let mut altered = packet.to_vec();
                if altered.len() > blocks + 20 {
                    altered[blocks + 4] = authentication;
                    altered[blocks + 12] = integrity;
                    all.push(altered);
                }
            }
            if packet[5] == 0x11 {
                let mut altered = packet.to_vec();
                if altered.len() > 28 {
                    altered[24..28].copy_from_slice(&[0xee; 4]);
                    all.push(altered);
                }
            }
        }
        Some(0x12) => {
            // The BMC's id, so that a client that was given another one still reaches it.
            for sidc in 1..3 {
                with(20, &[sidc, 0, 0, 0xb0]);
            }
            with(24, &[0xaa; 16]);
            with(40, &[0x14]);
        }
        Some(0x13) => {
            with(24, &[0xaa; 16]);
            with(40, &[0xbb; 16]);
        }
        Some(0x14) => {
            for sidc in 1..3 {
                with(20, &[sidc, 0, 0, 0xb0]);
            }
        }
        _ => {}
    }
    all
}

/// Setup answers of an attacker who is its own BMC but does not know the password.
fn forged_setup() -> Vec<Vec<u8>> {
    let ours = [&NONCES.sidm[..]];
    let [sidm] = ours;
    let mut forged = Vec::new();
    for (hash, short) in [(20, 12), (32, 16)] {
        forged.push(setup(0x13, &[&[NONCES.tag + 1, 0, 0, 0], sidm, &[0; 16], &GUID, &vec![0; hash]]));
        forged.push(setup(0x15, &[&[NONCES.tag + 2, 0, 0, 0], sidm, &vec![0; short]]));
    }
    for numbers in [[1, 1, 1], [3, 4, 1], [0, 0, 0], [1, 1, 0], [3, 4, 0], [3, 0, 1]] {
        let blocks: Vec<u8> =
            (0..).zip(numbers).flat_map(|(kind, number)| [kind, 0, 0, 8, number, 0, 0, 0]).collect();
        forged.push(setup(0x11, &[&[NONCES.tag, 0, 3, 0], sidm, &[0xee; 4], &blocks]));
    }
    forged
}

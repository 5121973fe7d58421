//! Properties over any bytes, over altered good packets, and over the whole recorded corpus in every state.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::bmc::negative_sum;
use super::data::{Recorded, Vectors, vectors};
use crate::frame::{MAX_DATAGRAM, Reject};
use crate::handshake::{Handshake, Step};
use crate::keys::BLOCK;
use crate::lan::{Reply, Request};
use crate::session::Session;

/// The machines in every state that a recorded session goes through, each with the recorded answer it waits for.
struct States {
    handshakes: Vec<(Handshake, Vec<u8>)>,
    sessions: Vec<(Session, Vec<u8>)>,
}

fn states(recorded: &Recorded) -> States {
    let packets = &recorded.packets;
    let handshakes = [&packets.open_response, &packets.rakp2, &packets.rakp4]
        .iter()
        .enumerate()
        .map(|(answers, packet)| (recorded.handshake(answers), packet.0.clone()))
        .collect();
    let sessions = recorded
        .exchanges
        .iter()
        .enumerate()
        .map(|(index, exchange)| {
            let mut session = recorded.session_after(index);
            session.ask(recorded.request(exchange), exchange.request.iv.array()).unwrap();
            (session, exchange.response.packet.0.clone())
        })
        .collect();
    States { handshakes, sessions }
}

/// One session of each suite.
fn plain_sessions(vectors: &'static Vectors) -> impl Iterator<Item = &'static Recorded> {
    vectors.sessions.iter().filter(|session| session.name.ends_with("-plain"))
}

/// Feeds `bytes` to every state. Only its own good answer may move one.
fn feed_to_all(states: &States, bytes: &[u8]) {
    for (handshake, good) in &states.handshakes {
        let mut machine = handshake.clone();
        match machine.receive(bytes) {
            Step::Send(packet) => {
                assert!(packet.len() < 100 && same_but_unauthenticated(bytes, good), "{bytes:02x?}");
            }
            Step::Established(_) => assert!(same_but_unauthenticated(bytes, good), "{bytes:02x?}"),
            Step::Refused(_) | Step::Ignored(_) => {
                assert_eq!(machine.fingerprint(), handshake.fingerprint());
            }
        }
    }
    for (session, good) in &states.sessions {
        let mut machine = session.clone();
        if machine.receive(bytes).is_ok() {
            assert!(without_rmcp_filler(bytes) == without_rmcp_filler(good), "{bytes:02x?}");
        } else {
            assert_eq!(machine.fingerprint(), session.fingerprint());
        }
    }
}

/// The packet without the RMCP bytes that nothing covers and nothing reads.
fn without_rmcp_filler(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for filler in bytes.iter_mut().skip(1).take(2) {
        *filler = 0;
    }
    bytes
}

/// Whether two setup answers differ only in what no code covers: the RMCP filler, reserved bytes, and in an Open Session
/// Response the privilege level and the BMC's session id, which RAKP 2 covers afterwards.
fn same_but_unauthenticated(bytes: &[u8], good: &[u8]) -> bool {
    let open = good.get(5) == Some(&0x11);
    let masked = |packet: &[u8]| {
        let mut packet = without_rmcp_filler(packet);
        for (offset, byte) in packet.iter_mut().enumerate() {
            let reserved_in_blocks = open && offset >= 28 && matches!((offset - 28) % 8, 1 | 2 | 5 | 6 | 7);
            let free = matches!(offset, 18 | 19) || open && (24..28).contains(&offset) || reserved_in_blocks;
            if free {
                *byte = 0;
            }
        }
        packet
    };
    bytes.len() == good.len() && masked(bytes) == masked(good)
}

#[test]
fn every_recorded_packet_in_every_state_moves_only_the_state_that_waits_for_it() {
    let vectors = vectors();
    let states: Vec<States> = plain_sessions(vectors).map(states).collect();
    let mut corpus: Vec<&[u8]> =
        vectors.negatives.iter().map(|negative| negative.packet.0.as_slice()).collect();
    for session in &vectors.sessions {
        let packets = &session.packets;
        for packet in [&packets.open_request, &packets.open_response, &packets.rakp1, &packets.rakp2] {
            corpus.push(&packet.0);
        }
        corpus.extend([packets.rakp3.0.as_slice(), &packets.rakp4.0]);
        for exchange in &session.exchanges {
            corpus.extend([exchange.request.packet.0.as_slice(), &exchange.response.packet.0]);
        }
    }
    let mut fed = 0;
    for states in &states {
        for bytes in &corpus {
            for (session, good) in &states.sessions {
                let mut machine = session.clone();
                // The recorded refusals of the BMC itself are answers too, to the request that they were recorded for.
                if let Ok(reply) = machine.receive(bytes) {
                    let refused =
                        matches!(reply, Reply::Failed(_) | Reply::WrongLength(_) | Reply::OtherLevel);
                    let foreign = matches!(reply, Reply::Guid(_));
                    assert!(refused || foreign || *bytes == good.as_slice(), "{bytes:02x?}");
                } else {
                    assert_eq!(machine.fingerprint(), session.fingerprint());
                }
                fed += 1;
            }
            for (handshake, good) in &states.handshakes {
                let mut machine = handshake.clone();
                if matches!(machine.receive(bytes), Step::Send(_) | Step::Established(_)) {
                    assert!(same_but_unauthenticated(bytes, good), "{bytes:02x?}");
                }
                fed += 1;
            }
        }
    }
    println!("{} packets, {fed} times fed", corpus.len());
    assert!(fed > 1000, "the corpus was not found");
}

#[test]
fn a_datagram_over_the_limit_is_dropped_unread() {
    let vectors = vectors();
    for recorded in plain_sessions(vectors) {
        for (mut session, good) in states(recorded).sessions {
            let long = [&good[..], &vec![0; MAX_DATAGRAM]].concat();
            assert_eq!(session.receive(&long), Err(Reject::TooLong));
        }
    }
}

#[test]
fn a_length_that_lies_is_refused_in_every_state() {
    for recorded in plain_sessions(vectors()) {
        let states = states(recorded);
        let handshakes = states.handshakes.iter().map(|(_, good)| good);
        for good in handshakes.chain(states.sessions.iter().map(|(_, good)| good)) {
            let honest = u16::from_le_bytes([good[14], good[15]]);
            for length in (0..200).filter(|length| *length != honest) {
                let mut bytes = good.clone();
                bytes[14..16].copy_from_slice(&length.to_le_bytes());
                feed_to_all(&states, &bytes);
            }
        }
    }
}

/// Sealed by the other end of the plain session, with the right keys.
fn sealed_by_the_bmc(recorded: &Recorded, plain: &[u8]) -> (Session, Vec<u8>) {
    let mut client = recorded.session();
    client.ask(Request::GetChassisStatus, [7; BLOCK]).unwrap();
    let packet = mirror(recorded).seal_blocks(plain, [9; BLOCK]);
    (client, packet)
}

/// The BMC's end of a recorded session.
fn mirror(recorded: &Recorded) -> Session {
    recorded.session().mirrored()
}

#[test]
fn a_whole_block_of_padding_is_accepted() {
    let vectors = vectors();
    for recorded in plain_sessions(vectors) {
        // A status answer of eleven bytes: four pad bytes and their number fill the block.
        let mut message = vec![0x81, 0x04, 0x7b, 0x20, 1 << 2, 0x01, 0x00, 0x21, 0x00, 0x00];
        message.push(negative_sum(&message[3..]));
        for (pad, accepted) in [(4, true), (20, false), (36, false)] {
            let mut plain = message.clone();
            plain.extend((1..).take(pad));
            plain.push(u8::try_from(pad).unwrap());
            let (mut client, packet) = sealed_by_the_bmc(recorded, &plain);
            assert_eq!(client.receive(&packet).is_ok(), accepted, "{pad}");
        }
        // Fifteen bytes fill it with the number alone, but some BMCs add a whole block.
        let sixteen: Vec<u8> = (1..=15).chain(1..=16).chain([16]).collect();
        let (client, packet) = sealed_by_the_bmc(recorded, &sixteen);
        let (_, opened) = client.unseal_after(0, &packet).unwrap();
        assert_eq!(opened[..], (1..=15).collect::<Vec<u8>>()[..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_move_nothing(bytes in vec(any::<u8>(), 0..1200)) {
        let vectors = vectors();
        for recorded in plain_sessions(vectors) {
            feed_to_all(&states(recorded), &bytes);
        }
    }

    #[test]
    fn any_payload_behind_a_good_header_moves_nothing(
        kind in prop_oneof![Just(0xc0), Just(0x11), Just(0x13), Just(0x15), any::<u8>()],
        length in prop_oneof![Just(None), any::<u16>().prop_map(Some)],
        payload in vec(any::<u8>(), 0..200),
    ) {
        let vectors = vectors();
        for recorded in plain_sessions(vectors) {
            let id = if kind == 0xc0 { recorded.sidm.array() } else { [0; 4] };
            let sequence = u32::from(kind == 0xc0);
            let mut bytes = crate::frame::build(kind, id, sequence, &payload);
            if let Some(length) = length {
                bytes[14..16].copy_from_slice(&length.to_le_bytes());
            }
            feed_to_all(&states(recorded), &bytes);
        }
    }

    #[test]
    fn an_altered_good_answer_moves_nothing(
        which in any::<Index>(),
        edits in vec((any::<Index>(), any::<u8>()), 0..4),
        cut in prop_oneof![3 => Just(None), 1 => any::<Index>().prop_map(Some)],
        tail in vec(any::<u8>(), 0..3),
    ) {
        let vectors = vectors();
        for recorded in plain_sessions(vectors) {
            let states = states(recorded);
            let goods: Vec<&Vec<u8>> =
                states.handshakes.iter().map(|(_, good)| good).chain(states.sessions.iter().map(|(_, good)| good)).collect();
            let mut bytes = (*which.get(&goods)).clone();
            for (at, value) in &edits {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes.extend(&tail);
            feed_to_all(&states, &bytes);
        }
    }

    /// Even a BMC that seals nonsense with the right keys gets nothing but a refusal or its own answer.
    #[test]
    fn any_plaintext_under_a_good_code_is_read_or_refused(blocks in vec(any::<[u8; BLOCK]>(), 1..60)) {
        let vectors = vectors();
        for recorded in plain_sessions(vectors) {
            let (mut client, packet) = sealed_by_the_bmc(recorded, &blocks.concat());
            prop_assert!(client.receive(&packet).is_err());
        }
    }

    /// Every completion code and every amount of data: a status is one only with success and three or four bytes.
    #[test]
    fn any_answer_under_a_good_code_is_what_it_says(completion in any::<u8>(), data in vec(any::<u8>(), 0..24)) {
        let vectors = vectors();
        for recorded in plain_sessions(vectors) {
            let mut message = vec![0x81, 0x04, 0x7b, 0x20, 1 << 2, 0x01, completion];
            message.extend(&data);
            message.push(negative_sum(&message[3..]));
            let mut client = recorded.session();
            client.ask(Request::GetChassisStatus, [7; BLOCK]).unwrap();
            let packet = mirror(recorded).seal_any(&message, [9; BLOCK]);
            let reply = client.receive(&packet).unwrap();
            match (completion, data.len()) {
                (0, 3 | 4) => prop_assert!(matches!(reply, Reply::Status(_))),
                (0, len) => prop_assert_eq!(reply, Reply::WrongLength(len)),
                (code, _) => prop_assert_eq!(reply, Reply::Failed(crate::report::Completion(code))),
            }
        }
    }
}

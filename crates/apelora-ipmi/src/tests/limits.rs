//! Where a session ends by itself, how far its numbers may run ahead, and what a good code does not excuse.

use super::data::{Recorded, vectors};
use crate::frame::Reject;
use crate::keys::BLOCK;
use crate::lan::Request;
use crate::session::Spent;

const IV: [u8; BLOCK] = [1; BLOCK];

fn recorded() -> &'static Recorded {
    &vectors().sessions[0]
}

#[test]
fn sixteen_unanswered_questions_spend_a_session_but_it_can_be_closed() {
    let mut session = recorded().session();
    for _ in 0..16 {
        session.ask(Request::GetChassisStatus, IV).unwrap();
    }
    assert_eq!(session.ask(Request::GetChassisStatus, IV), Err(Spent));
    assert_eq!(session.ask(Request::PowerDown, IV), Err(Spent));
    assert!(session.ask(session.close(), IV).is_ok());
}

#[test]
fn a_session_ends_long_before_its_sequence_numbers_do() {
    let mut session = recorded().session();
    session.ask(Request::GetChassisStatus, IV).unwrap();
    let repeats = (1..70_000).take_while(|_| session.repeat(IV).is_ok()).count();
    assert_eq!(repeats, (1 << 16) - 1);
    assert_eq!(session.ask(session.close(), IV), Err(Spent));
}

#[test]
fn a_power_off_is_not_repeated() {
    let mut session = recorded().session();
    assert_eq!(session.repeat(IV), Ok(None));
    session.ask(Request::PowerDown, IV).unwrap();
    assert_eq!(session.repeat(IV), Ok(None));
}

#[test]
fn the_window_is_sixteen_ahead_and_none_behind() {
    let recorded = recorded();
    for (lost, accepted) in [(0, true), (15, true), (16, false), (40, false)] {
        let mut client = recorded.session();
        let mut bmc = client.mirrored();
        client.ask(Request::GetChassisStatus, IV).unwrap();
        // Answers that never arrive use up the BMC's numbers.
        let answer = [0x81, 0x04, 0x7b, 0x20, 0x04, 0x01, 0x00, 0x01, 0x00, 0x00, 0xda];
        let packets: Vec<Vec<u8>> = (0..=lost).map(|_| bmc.seal_any(&answer, IV)).collect();
        let received = client.receive(packets.last().unwrap());
        assert_eq!(received.is_ok(), accepted, "{lost}: {received:?}");
        if accepted {
            client.ask(Request::GetChassisStatus, IV).unwrap();
            for packet in &packets {
                assert_eq!(client.receive(packet), Err(Reject::Sequence));
            }
        } else {
            assert_eq!(received, Err(Reject::Sequence));
        }
    }
}

#[test]
fn a_good_code_excuses_nothing_else() {
    for recorded in &vectors().sessions[..2] {
        let mut client = recorded.session();
        let mut bmc = client.mirrored();
        client.ask(Request::GetChassisStatus, IV).unwrap();
        let answer = [0x81, 0x04, 0x7b, 0x20, 0x04, 0x01, 0x00, 0x01, 0x00, 0x00, 0xda];
        let packet = bmc.seal_any(&answer, IV);
        let end = packet.len() - recorded.suite().code_len();
        let rejected = |offset: usize, value: u8| {
            let mut client = client.clone();
            client.receive(&bmc.resigned(&packet, |packet| packet[offset] = value)).unwrap_err()
        };
        for kind in [0x00, 0x40, 0x80, 0xc1, 0xc2, 0xd0, 0xe0] {
            assert_eq!(rejected(5, kind), Reject::NotSecured, "{kind:02x}");
        }
        assert_eq!(rejected(6, !recorded.sidm.0[0]), Reject::SessionId);
        assert_eq!(rejected(10, 0), Reject::Sequence);
        assert_eq!(rejected(13, 1), Reject::Sequence);
        assert_eq!(rejected(14, 31), Reject::Lengths);
        assert_eq!(rejected(14, 16), Reject::Lengths);
        assert_eq!(rejected(end - 1, 6), Reject::Trailer);
        assert_eq!(rejected(end - 2, 1), Reject::Trailer);
        assert_eq!(rejected(end - 3, 0xfe), Reject::Trailer);
        let mut client = client.clone();
        assert!(client.receive(&bmc.resigned(&packet, |_| {})).is_ok());
    }
}

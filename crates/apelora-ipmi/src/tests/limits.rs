//! Where a session ends by itself, and how far its numbers may run ahead.

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

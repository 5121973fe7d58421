//! `contract_ipmi_vectors`: known answers computed separately, and packets that must be refused.

use super::data::{Negative, Recorded, vectors};
use crate::handshake::Step;
use crate::keys::{Exchange, SessionKeys};
use crate::lan::Reply;
use crate::report::{Power, SystemGuid};
use crate::suite::CipherSuite;

#[test]
fn contract_ipmi_vectors_sessions_are_byte_for_byte() {
    let vectors = vectors();
    let (mut sessions, mut packets) = (0, 0);
    for recorded in &vectors.sessions {
        codes_and_keys(recorded);
        packets += handshake(recorded) + exchanges(recorded);
        sessions += 1;
    }
    println!("{sessions} sessions, {packets} packets");
    assert!(sessions > 0 && packets > 0, "no recorded session was found");
}

fn codes_and_keys(recorded: &Recorded) {
    let credentials = recorded.credentials();
    let exchange = Exchange {
        suite: recorded.suite(),
        credentials: &credentials,
        sidm: recorded.sidm.array(),
        sidc: recorded.sidc.array(),
        rm: recorded.rm.array(),
        rc: recorded.rc.array(),
        guid: recorded.rakp_guid.array(),
        role: recorded.role,
    };
    let name = &recorded.name;
    assert!(exchange.rakp2_is(&recorded.rakp2_code.0), "{name}");
    assert_eq!(exchange.rakp3().as_bytes(), recorded.rakp3_code.0, "{name}");
    let sik = exchange.sik();
    assert_eq!(sik.as_bytes(), recorded.sik.0, "{name}");
    assert!(exchange.rakp4_is(&sik, &recorded.rakp4_icv.0), "{name}");
    // A part of the right code is not the right code.
    let (rakp2, rakp4) = (&recorded.rakp2_code.0, &recorded.rakp4_icv.0);
    for shorter in 0..rakp2.len() {
        assert!(!exchange.rakp2_is(&rakp2[..shorter]), "{name}: {shorter}");
    }
    for shorter in 0..rakp4.len() {
        assert!(!exchange.rakp4_is(&sik, &rakp4[..shorter]), "{name}: {shorter}");
    }
    let keys = SessionKeys::derive(recorded.suite(), &sik);
    assert_eq!(keys.k1(), recorded.k1.0, "{name}");
    assert_eq!(keys.aes(), recorded.aes_key.0, "{name}");
    assert!(recorded.k2.0.starts_with(keys.aes()), "{name}");
}

fn handshake(recorded: &Recorded) -> usize {
    let packets = &recorded.packets;
    let (mut handshake, open_request) = recorded.opening();
    assert_eq!(open_request, packets.open_request.0, "{}", recorded.name);
    for (answer, next) in [(&packets.open_response, &packets.rakp1), (&packets.rakp2, &packets.rakp3)] {
        match handshake.receive(&answer.0) {
            Step::Send(sent) => assert_eq!(sent, next.0, "{}", recorded.name),
            _ => panic!("{}: an answer was not accepted", recorded.name),
        }
    }
    assert!(matches!(handshake.receive(&packets.rakp4.0), Step::Established(_)), "{}", recorded.name);
    6
}

fn exchanges(recorded: &Recorded) -> usize {
    let mut session = recorded.session();
    for exchange in &recorded.exchanges {
        let at = format!("{} {}", recorded.name, exchange.name);
        let request = recorded.request(exchange);
        assert_eq!(request.encode(exchange.rq_seq), exchange.request.lan_message.0, "{at}");
        let packet = session.ask(request, exchange.request.iv.array()).unwrap();
        assert_eq!(packet, exchange.request.packet.0, "{at}");
        let before = exchange.response.seq - 1;
        assert!(session.fingerprint().contains(&format!(" {} {before} ", exchange.request.seq)), "{at}");
        let reply = session.receive(&exchange.response.packet.0).unwrap();
        match (exchange.name.as_str(), reply) {
            ("set_session_privilege", Reply::Operator)
            | ("chassis_control_power_down", Reply::PowerDownAccepted)
            | ("close_session", Reply::Closed) => {}
            ("get_system_guid", Reply::Guid(SystemGuid(bytes))) => {
                assert_eq!(bytes[..], exchange.response.lan_message.0[7..23], "{at}");
            }
            ("get_chassis_status_on", Reply::Status(status)) => assert_eq!(status.power(), Power::On, "{at}"),
            ("get_chassis_status_off", Reply::Status(status)) => {
                assert_eq!(status.power(), Power::Off, "{at}");
            }
            (_, reply) => panic!("{at}: {reply:?}"),
        }
    }
    2 * recorded.exchanges.len()
}

/// What became of a packet that must be refused.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// Not taken as an answer, and nothing at all changed.
    Dropped,
    /// An unauthenticated refusal; the machine is where it was. True when it may lead from 17 to 3.
    Hint { falls_back: bool },
    /// The BMC itself, authenticated, answered something that is not what was asked for.
    Answered(Reply),
}

#[test]
fn contract_ipmi_vectors_negatives_are_refused() {
    let vectors = vectors();
    let (mut dropped, mut hints, mut answered, mut falling_back) = (0, 0, 0, 0);
    for negative in &vectors.negatives {
        let recorded = vectors.sessions.iter().find(|session| session.name == negative.session).unwrap();
        let at = format!("{} {:?} {:?}", negative.session, negative.stage, negative.name);
        let refused = match negative.stage.as_str() {
            "answer to open_request" => in_handshake(recorded, negative, 0, &at),
            "answer to rakp1" => in_handshake(recorded, negative, 1, &at),
            "answer to rakp3" => in_handshake(recorded, negative, 2, &at),
            _ => in_session(recorded, negative, &at),
        };
        match refused {
            Refused::Dropped => dropped += 1,
            Refused::Hint { falls_back } => {
                hints += 1;
                falling_back += usize::from(falls_back);
                assert_eq!(falls_back, may_fall_back(recorded, negative), "{at}");
            }
            Refused::Answered(reply) => {
                answered += 1;
                let evidence = matches!(reply, Reply::Status(_) | Reply::Operator | Reply::PowerDownAccepted);
                // A foreign GUID is reported as it is: whose it is, is judged by the caller.
                let foreign = matches!(reply, Reply::Guid(guid) if !is_mapped(recorded, guid));
                assert!(foreign || !evidence && !matches!(reply, Reply::Guid(_)), "{at}: {reply:?}");
            }
        }
    }
    let all = dropped + hints + answered;
    println!(
        "{all} packets refused: {dropped} dropped, {hints} hints ({falling_back} may lead to suite 3), {answered} answered"
    );
    assert_eq!(all, vectors.negatives.len());
    assert!(dropped > 0 && hints > 0 && answered > 0, "no packets to refuse were found");
}

/// Only these statuses and the exact counter-offer of suite 3, and only where 17 was proposed.
fn may_fall_back(recorded: &Recorded, negative: &Negative) -> bool {
    let refuses_suite = ["04", "05", "06", "07", "10", "11"]
        .iter()
        .any(|status| negative.name.starts_with(&format!("open: status {status}")));
    recorded.suite() == CipherSuite::Seventeen
        && negative.stage == "answer to open_request"
        && (refuses_suite || negative.name == "open: other suite")
}

fn is_mapped(recorded: &Recorded, guid: SystemGuid) -> bool {
    let asked = recorded.exchanges.iter().find(|exchange| exchange.name == "get_system_guid").unwrap();
    guid.0[..] == asked.response.lan_message.0[7..23]
}

fn in_handshake(recorded: &Recorded, negative: &Negative, answers: usize, at: &str) -> Refused {
    let mut handshake = recorded.handshake(answers);
    let before = handshake.fingerprint();
    let step = handshake.receive(&negative.packet.0);
    assert_eq!(handshake.fingerprint(), before, "{at}: the machine moved");
    match step {
        Step::Ignored(_) => Refused::Dropped,
        Step::Refused(refusal) => Refused::Hint { falls_back: refusal.allows_fall_back(recorded.suite()) },
        Step::Send(_) | Step::Established(_) => panic!("{at}: accepted"),
    }
}

fn in_session(recorded: &Recorded, negative: &Negative, at: &str) -> Refused {
    let name = negative.stage.split(' ').nth(2).unwrap();
    let index = recorded.exchanges.iter().position(|exchange| exchange.name == name).unwrap();
    let exchange = &recorded.exchanges[index];
    let mut session = recorded.session_after(index);
    session.ask(recorded.request(exchange), exchange.request.iv.array()).unwrap();
    let before = session.fingerprint();
    match session.receive(&negative.packet.0) {
        Ok(reply) => Refused::Answered(reply),
        Err(_) => {
            assert_eq!(session.fingerprint(), before, "{at}: the machine moved");
            // The right answer is still taken afterwards.
            assert!(session.receive(&exchange.response.packet.0).is_ok(), "{at}");
            Refused::Dropped
        }
    }
}

#[test]
fn contract_ipmi_vectors_guids_are_reported_as_they_were_sent() {
    let vectors = vectors();
    let mut cases = 0;
    for order in &vectors.guid_orders {
        for bytes in [&order.rfc, &order.smbios, &order.reversed] {
            let sent: [u8; 16] = bytes.array();
            assert_eq!(SystemGuid(sent).to_string(), format!("{bytes:?}"));
            cases += 1;
        }
    }
    println!("{cases} encodings");
    assert!(cases > 0, "no encodings were found");
}

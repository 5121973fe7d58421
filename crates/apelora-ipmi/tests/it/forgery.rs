//! Attackers on the path or beside it, without the password.

use std::process::Command;

use apelora_ipmi::{CipherSuite, Conversation, IpmiError, Power, Suites, Target};

use crate::peers::{Bmc, HASTY, Kind, OPERATOR, is_mapped, soon};
use crate::relay::{Delivery, Direction, Passing, Relay, once};

/// The whole forgery: an unauthenticated, unencrypted answer to Get Chassis Status that says off. It takes no key, only
/// the client's session id, which anybody on the path reads in the Open Session Request.
fn forged_off(session_id: [u8; 4], sequence: u32, request_number: u8) -> Vec<u8> {
    let mut message = vec![0x81, 0x04, 0x7b, 0x20, request_number << 2, 0x01, 0x00, 0x20, 0x00, 0x00];
    message.push(message[3..].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg());
    let mut packet = b"\x06\x00\xff\x07\x06\x00".to_vec();
    packet.extend(session_id);
    packet.extend(sequence.to_le_bytes());
    packet.extend(u16::try_from(message.len()).unwrap().to_le_bytes());
    packet.extend(message);
    packet
}

/// The session id in the latest Open Session Request.
fn session_id(earlier: &[(Direction, Vec<u8>)]) -> [u8; 4] {
    let opens = |(direction, bytes): &&(Direction, Vec<u8>)| {
        *direction == Direction::ToBmc && bytes.get(5) == Some(&0x10)
    };
    let request = &earlier.iter().rev().find(opens).unwrap().1;
    request[20..24].try_into().unwrap()
}

/// Which answer the forgery meets: the one to the chassis status.
#[derive(Clone, Copy, Debug)]
enum Where {
    InPlaceOfTheAnswer,
    AheadOfTheAnswer,
}

/// ipmitool 1.8.19 asks two questions outside a session, opens it in three, and asks four more before the status.
const ANSWER_TO_IPMITOOL: usize = 10;
/// This client opens a session in three questions, takes the operator level, asks for the GUID and then for the status.
const ANSWER_TO_US: usize = 6;

fn forge(
    at: usize,
    place: Where,
    sequence: u32,
    request_number: u8,
) -> impl FnMut(&Passing<'_>) -> Vec<Delivery> + Send {
    once(Direction::ToClient, at, move |passing| {
        let forged = forged_off(session_id(passing.earlier), sequence, request_number);
        match place {
            Where::InPlaceOfTheAnswer => vec![Delivery::of(&forged)],
            Where::AheadOfTheAnswer => vec![Delivery::of(&forged), Delivery::of(passing.bytes)],
        }
    })
}

async fn ipmitool_status(relay: &Relay, suite: &str) -> String {
    let (host, port) = (relay.address().ip().to_string(), relay.address().port().to_string());
    let mut command = Command::new("ipmitool");
    command.args(["-I", "lanplus", "-H", &host, "-p", &port, "-C", suite, "-L", "OPERATOR"]);
    command.args(["-U", OPERATOR.0, "-P", OPERATOR.1, "chassis", "power", "status"]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The bar to beat: one forged datagram makes ipmitool (and so fence agents built on it) report a running server as
/// off. The same datagram in the same places does not move this client.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn the_one_datagram_off_fools_ipmitool_and_not_this_client() {
    let bmc = Bmc::start(Kind::Suite17).await;
    for suite in ["17", "3"] {
        for place in [Where::InPlaceOfTheAnswer, Where::AheadOfTheAnswer] {
            let relay = Relay::start(bmc.address(), forge(ANSWER_TO_IPMITOOL, place, 6, 6)).await;
            let said = ipmitool_status(&relay, suite).await;
            assert_eq!(said.trim(), "Chassis Power is off", "suite {suite}, {place:?}");
            assert!(bmc.is_on());

            let relay = Relay::start(bmc.address(), forge(ANSWER_TO_US, place, 3, 3)).await;
            let suites = Suites::from_ids(&[suite.parse().unwrap()]).unwrap();
            let target = Target { address: relay.address(), suites, ..bmc.target() };
            let mut conversation = Conversation::open(&target, HASTY, soon()).await.unwrap();
            let reading = conversation.read(is_mapped, soon()).await.unwrap();
            assert_eq!(reading.power, Power::On, "suite {suite}, {place:?}");
            assert_eq!(conversation.traffic().dropped, 1, "the forgery did not arrive");
            assert!(conversation.close(soon()).await.confirmed);
        }
    }
}

/// Nor does it when every answer of the BMC is withheld and only forgeries arrive, whatever numbers they carry.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn forgeries_alone_are_silence() {
    let bmc = Bmc::start(Kind::Suite17).await;
    let only_forgeries = |passing: &Passing<'_>| {
        if passing.direction == Direction::ToBmc || passing.bytes[5] != 0xc0 || passing.number < ANSWER_TO_US
        {
            return vec![Delivery::of(passing.bytes)];
        }
        let id = session_id(passing.earlier);
        (0..40).map(|number| Delivery::of(&forged_off(id, u32::from(number), number))).collect()
    };
    let relay = Relay::start(bmc.address(), only_forgeries).await;
    let target = Target { address: relay.address(), ..bmc.target() };
    let mut conversation = Conversation::open(&target, HASTY, soon()).await.unwrap();
    let error = conversation.read(is_mapped, soon()).await.unwrap_err();
    assert!(error.to_string().contains("not both authenticated and encrypted"), "{error}");
    drop(conversation);
    assert_eq!(bmc.power_offs(), 0);
}

/// Answers from another port of the BMC's host are not answers, genuine or not.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn answers_from_another_port_are_dropped() {
    let bmc = Bmc::start(Kind::Suite17).await;
    let elsewhere =
        |passing: &Passing<'_>| vec![Delivery { from_elsewhere: true, ..Delivery::of(passing.bytes) }];
    let relay = Relay::start(bmc.address(), elsewhere).await;
    let target = Target { address: relay.address(), ..bmc.target() };
    let error = Conversation::open(&target, HASTY, soon()).await.unwrap_err();
    assert!(error.to_string().contains("no usable Open Session Response in 3 tries"), "{error}");
    assert_eq!(relay.count(Direction::ToClient), 3);
}

/// An Open Session Response of this status and these algorithms to the request that just passed.
fn open_response(request: &[u8], status: u8, algorithms: [u8; 3]) -> Vec<u8> {
    let mut payload = vec![request[16], status, 3, 0];
    payload.extend(&request[20..24]);
    if status == 0 {
        payload.extend([1, 2, 3, 4]);
        for (kind, number) in (0..).zip(algorithms) {
            payload.extend([kind, 0, 0, 8, number, 0, 0, 0]);
        }
    }
    setup(0x11, &payload)
}

fn setup(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x06, 0x00, 0xff, 0x07, 0x06, kind];
    packet.extend([0; 8]);
    packet.extend(u16::try_from(payload.len()).unwrap().to_le_bytes());
    packet.extend(payload);
    packet
}

/// The first request that the client sent.
fn request(passing: &Passing<'_>) -> Vec<u8> {
    let sent = passing.earlier.iter().rev().find(|(direction, _)| *direction == Direction::ToBmc);
    sent.unwrap().1.clone()
}

/// A forged refusal of suite 17 ahead of the BMC's acceptance contradicts it, and nothing goes on.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_forged_refusal_that_the_bmc_contradicts_is_a_conflict() {
    let bmc = Bmc::start(Kind::Suite17).await;
    for (status, algorithms) in [(0x04, [0; 3]), (0x11, [0; 3]), (0, [1, 1, 1])] {
        let ahead = once(Direction::ToClient, 1, move |passing| {
            let forged = open_response(&request(passing), status, algorithms);
            vec![Delivery::of(&forged), Delivery::of(passing.bytes)]
        });
        let relay = Relay::start(bmc.address(), ahead).await;
        let target = Target { address: relay.address(), ..bmc.target() };
        let error = Conversation::open(&target, HASTY, soon()).await.unwrap_err();
        assert_eq!(error, IpmiError::ConflictingAnswers, "status {status:02x}");
    }
}

/// A forged refusal in place of the acceptance costs the stronger suite and no more; a pin takes even that away.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_forged_refusal_alone_reaches_suite_3_and_a_pin_refuses_it() {
    let bmc = Bmc::start(Kind::Suite17).await;
    let forged = || {
        once(Direction::ToClient, 1, |passing| {
            vec![Delivery::of(&open_response(&request(passing), 0x11, [0; 3]))]
        })
    };
    let relay = Relay::start(bmc.address(), forged()).await;
    let target = Target { address: relay.address(), ..bmc.target() };
    let conversation = Conversation::open(&target, HASTY, soon()).await.unwrap();
    assert_eq!(conversation.suite(), CipherSuite::Three);
    conversation.close(soon()).await;

    let relay = Relay::start(bmc.address(), forged()).await;
    // What the caller does for a member that once spoke 17.
    let suites = target.suites.after_speaking(CipherSuite::Seventeen);
    let target = Target { address: relay.address(), suites, ..target };
    let error = Conversation::open(&target, HASTY, soon()).await.unwrap_err();
    assert!(matches!(error, IpmiError::SuiteRefused { suite: CipherSuite::Seventeen, .. }), "{error}");
}

/// Other forged setup messages ahead of the BMC's own do not stop the handshake: nothing authenticates them.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn forged_errors_ahead_of_good_answers_do_not_stop_the_handshake() {
    let bmc = Bmc::start(Kind::Suite17).await;
    for (number, kind, forged) in [
        // Open Session: illegal parameter; suite 0; RAKP 2: unknown user; a wrong code; RAKP 4: wrong check value.
        (1, 0x11, vec![0x12]),
        (2, 0x13, vec![0x0d]),
        (2, 0x13, [&[0][..], &[0; 66]].concat()),
        (3, 0x15, vec![0x0f]),
        (3, 0x15, [&[0][..], &[0; 22]].concat()),
    ] {
        let ahead = once(Direction::ToClient, number, move |passing| {
            let mut payload = vec![request(passing)[16]];
            payload.extend(&forged);
            if payload.len() > 8 {
                payload[4..8].copy_from_slice(&session_id(passing.earlier));
            }
            vec![Delivery::of(&setup(kind, &payload)), Delivery::of(passing.bytes)]
        });
        let relay = Relay::start(bmc.address(), ahead).await;
        let target = Target { address: relay.address(), ..bmc.target() };
        let conversation = Conversation::open(&target, HASTY, soon()).await.unwrap();
        assert_eq!(relay.count(Direction::ToClient), 4, "one handshake was enough");
        conversation.close(soon()).await;
    }
    let suite_0 = once(Direction::ToClient, 1, |passing| {
        vec![Delivery::of(&open_response(&request(passing), 0, [0; 3]))]
    });
    let relay = Relay::start(bmc.address(), suite_0).await;
    let target = Target { address: relay.address(), ..bmc.target() };
    let error = Conversation::open(&target, HASTY, soon()).await.unwrap_err().to_string();
    assert!(error.contains("cipher suite 0 (no authentication, no integrity, no encryption)"), "{error}");
}

/// Genuine answers of an earlier session, or of earlier requests of this one, are no answers to later requests.
#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn recorded_answers_are_no_answers() {
    let bmc = Bmc::start(Kind::Suite17).await;
    bmc.switch_off();
    // The answer "off", recorded while the server was off, comes ahead of every later answer.
    let mut recorded: Vec<Vec<u8>> = Vec::new();
    let replay = move |passing: &Passing<'_>| {
        let mut deliveries = vec![Delivery::of(passing.bytes)];
        if passing.direction == Direction::ToClient && passing.bytes[5] == 0xc0 {
            for old in recorded.iter().rev().take(20) {
                deliveries.insert(0, Delivery::of(old));
            }
            recorded.push(passing.bytes.to_vec());
        }
        deliveries
    };
    let relay = Relay::start(bmc.address(), replay).await;
    let target = Target { address: relay.address(), ..bmc.target() };
    for on in [false, true, true] {
        if on {
            bmc.switch_on();
        }
        let mut conversation = Conversation::open(&target, HASTY, soon()).await.unwrap();
        for _ in 0..3 {
            let power = conversation.read(is_mapped, soon()).await.unwrap().power;
            assert_eq!(power == Power::On, on);
        }
        assert!(conversation.traffic().dropped > 0);
        conversation.close(soon()).await;
    }
}

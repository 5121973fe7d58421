//! The driver on an in-memory network in virtual time: what is sent, when, how often, and when it gives up.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::bmc::{GUID, setup};
use super::net::{BOTH, Fate, Net, by, mapped, open, open_drawing_after, open_with, refused, target};
use crate::credentials::Credentials;
use crate::error::IpmiError;
use crate::report::{Completion, IdentitySeen, NotSent, Power, SendReport, SystemGuid, Traffic, Unanswered};
use crate::setup::{SetupMessage, SetupStatus};
use crate::suite::{CipherSuite, Suites};
use crate::target::Target;

const OPEN: u8 = 0x10;
const RAKP1: u8 = 0x12;
const RAKP3: u8 = 0x14;
const SECURED: u8 = 0xc0;

#[tokio::test(start_paused = true)]
async fn eighteen_datagrams_to_the_first_off_with_close() {
    for suites in [Suites::Only17, Suites::Only3] {
        let net = Net::new(BOTH, []);
        let mut dialogue = open_with(&net, &target(suites), Duration::from_secs(20)).await.unwrap();
        assert_eq!(dialogue.read(mapped, by()).await.unwrap().power, Power::On);
        assert_eq!(dialogue.force_off(by(), by()).await, SendReport::Answered(Completion::SUCCESS));
        let first = dialogue.read(mapped, by()).await.unwrap();
        assert_eq!((first.power, first.identity_seen), (Power::Off, IdentitySeen::BeforeThePowerOff));
        assert!(dialogue.close(by()).await);
        assert_eq!(dialogue.traffic(), Traffic { sent: 9, received: 9, dropped: 0 });
        assert_eq!(net.kinds(), [&[OPEN, RAKP1, RAKP3][..], &[SECURED; 6]].concat());
        assert_eq!(net.world().bmc.requests, [0x3b, 0x37, 0x01, 0x02, 0x01, 0x3c]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_reading_after_a_power_off_asks_for_the_identity_again() {
    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    dialogue.read(mapped, by()).await.unwrap();
    assert_eq!(dialogue.force_off(by(), by()).await, SendReport::Answered(Completion::SUCCESS));
    dialogue.read(mapped, by()).await.unwrap();
    let second = dialogue.read(mapped, by()).await.unwrap();
    assert_eq!((second.power, second.identity_seen), (Power::Off, IdentitySeen::InThisRead));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_unless_the_last_reading_saw_on() {
    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    let nothing = SendReport::NotSent(NotSent::NoFreshOn);
    assert_eq!(dialogue.force_off(by(), by()).await, nothing);
    dialogue.read(mapped, by()).await.unwrap();
    net.world().bmc.power_on = false;
    assert_eq!(dialogue.read(mapped, by()).await.unwrap().power, Power::Off);
    assert_eq!(dialogue.force_off(by(), by()).await, nothing);
    // A reading of On that was followed by one that failed is not fresh.
    net.world().bmc.power_on = true;
    dialogue.read(mapped, by()).await.unwrap();
    net.fates([Fate::Lost, Fate::Lost, Fate::Lost]);
    dialogue.read(mapped, by()).await.unwrap_err();
    assert_eq!(dialogue.force_off(by(), by()).await, nothing);
    // Nor is one of which it is too late to make use.
    dialogue.read(mapped, by()).await.unwrap();
    let past = Instant::now() - Duration::from_millis(1);
    assert_eq!(dialogue.force_off(past, by()).await, SendReport::NotSent(NotSent::TooLate));
    assert_eq!(dialogue.force_off(by(), by()).await, nothing);
    assert!(!net.world().bmc.requests.contains(&0x02));
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_changes_within_a_session_is_refused_whatever_the_caller_says() {
    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    dialogue.read(|_| true, by()).await.unwrap();
    net.world().bmc.guid = [3; 16];
    let error = dialogue.read(|_| true, by()).await.unwrap_err();
    assert_eq!(error, IpmiError::OtherSystem { guid: SystemGuid([3; 16]) });
}

#[tokio::test(start_paused = true)]
async fn a_silent_bmc_gets_three_handshakes_of_one_second_each_all_new() {
    let net = Net::silent();
    let started = Instant::now();
    let error = refused(&net).await;
    assert!(matches!(error, IpmiError::Silent { awaited: "Open Session Response", tries: 3, .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    assert_eq!(net.kinds(), [OPEN; 3]);
    let ids = net.session_ids();
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    let world = net.world();
    assert_eq!(world.links, 3, "each on a new socket");
    let tags: Vec<u8> = world.sent.iter().map(|(_, packet)| packet[16]).collect();
    assert!(tags[0] != tags[1] && tags[1] != tags[2]);
    // Silence never changes the proposal.
    assert!(world.sent.iter().all(|(_, packet)| packet[28] == 3 && packet[36] == 4));
}

#[tokio::test(start_paused = true)]
async fn our_session_id_is_never_zero() {
    let net = Net::new(BOTH, []);
    // Tag and random number take the last two values, so that the first session id drawn is 0.
    open_drawing_after(&net, 253).await.unwrap();
    assert_eq!(net.session_ids(), [[1; 4]]);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_absolute() {
    let net = Net::silent();
    let started = Instant::now();
    let limit = Duration::from_millis(2500);
    let error = open_with(&net, &target(Suites::Prefer17), limit).await.err().unwrap();
    assert!(matches!(error, IpmiError::Deadline { awaited: "Open Session Response", .. }), "{error}");
    assert_eq!(started.elapsed(), limit);

    // In a session too, and whatever the BMC says about being busy.
    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    net.world().bmc.busy = u32::MAX;
    let started = Instant::now();
    let error = dialogue.read(mapped, started + limit).await.unwrap_err();
    assert!(matches!(error, IpmiError::Failed { completion: Completion(0xc0), .. }), "{error}");
    assert!(started.elapsed() <= limit);
}

#[tokio::test(start_paused = true)]
async fn a_drip_of_junk_extends_no_timer() {
    let junk =
        |kind: u8| (1..60).map(move |step| (Duration::from_millis(step * 90), setup(kind, &[&[0; 8]])));
    let net = Net::silent();
    net.world().default = Fate::Only(junk(0x11).collect());
    let started = Instant::now();
    let error = refused(&net).await;
    assert!(error.to_string().contains("it carries another message tag"), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));

    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    net.world().default = Fate::Only(junk(0xc0).collect());
    let started = Instant::now();
    let error = dialogue.read(mapped, by()).await.unwrap_err();
    assert!(matches!(error, IpmiError::Silent { awaited: "Get System GUID", tries: 3, .. }), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_lost_setup_message_starts_afresh_with_the_same_suite() {
    for lost in 0..3 {
        for fate in [Fate::Lost, Fate::Unanswered] {
            let fates = std::iter::repeat_n(Fate::Pass, lost).chain([fate.clone()]);
            let net = Net::new(BOTH, fates);
            let started = Instant::now();
            let dialogue = open(&net).await.unwrap();
            assert_eq!(dialogue.suite(), CipherSuite::Seventeen);
            assert_eq!(started.elapsed().as_secs(), 1, "{lost} {fate:?}");
            let first: Vec<u8> = [OPEN, RAKP1, RAKP3][..=lost].to_vec();
            assert_eq!(net.kinds(), [&first[..], &[OPEN, RAKP1, RAKP3, SECURED]].concat());
            let ids = net.session_ids();
            assert_ne!(ids[0], ids[1]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_setup_message_costs_one_fresh_handshake_at_most() {
    for repeated in 0..3 {
        let fates = std::iter::repeat_n(Fate::Pass, repeated).chain([Fate::Twice]);
        let net = Net::new(BOTH, fates);
        assert_eq!(open(&net).await.unwrap().suite(), CipherSuite::Seventeen, "{repeated}");
        assert!(net.session_ids().len() <= 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_one_handshake_without_rakp_3() {
    let net = Net::new(BOTH, []);
    let wrong =
        Target { credentials: Credentials::from_bytes(b"op", b"another", None), ..target(Suites::Prefer17) };
    let error = open_with(&net, &wrong, Duration::from_secs(20)).await.err().unwrap();
    assert_eq!(error, IpmiError::Password);
    // A BMC that does not know the password is given nothing to guess it against.
    assert_eq!(net.kinds(), [OPEN, RAKP1]);
}

#[tokio::test(start_paused = true)]
async fn suite_3_follows_a_refusal_of_17_after_a_wait_for_contradictions() {
    let net = Net::new(&[CipherSuite::Three], []);
    let started = Instant::now();
    let dialogue = open(&net).await.unwrap();
    assert_eq!(dialogue.suite(), CipherSuite::Three);
    assert!((50..70).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_eq!(net.kinds(), [OPEN, OPEN, RAKP1, RAKP3, SECURED]);
    let ids = net.session_ids();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(net.world().links, 2);

    let net = Net::new(&[CipherSuite::Three], []);
    let error = open_with(&net, &target(Suites::Only17), Duration::from_secs(20)).await.err().unwrap();
    let status = SetupStatus(0x11);
    assert_eq!(error, IpmiError::SuiteRefused { suite: CipherSuite::Seventeen, status });
    assert_eq!(net.kinds(), [OPEN]);
}

fn suite_3_blocks() -> Vec<u8> {
    (0..3).flat_map(|kind| [kind, 0, 0, 8, 1, 0, 0, 0]).collect()
}

#[tokio::test(start_paused = true)]
async fn mixed_refusals_are_a_conflict() {
    // The counter's first two values are the tag and the random number, the third the session id.
    let refusal = |status: u8| (Duration::ZERO, setup(0x11, &[&[1, status]]));
    for forged in [vec![refusal(0x04)], vec![refusal(0x04), refusal(0x12)], vec![refusal(0x05)]] {
        let net = Net::new(&[CipherSuite::Three], [Fate::After(forged)]);
        assert_eq!(refused(&net).await, IpmiError::ConflictingAnswers);
        assert_eq!(net.kinds(), [OPEN]);
    }
    // So is a refusal that an acceptance follows, of what was proposed or of suite 3.
    let counter_offer = setup(0x11, &[&[1, 0, 3, 0], &[3; 4], &[9; 4], &suite_3_blocks()]);
    for forged in [refusal(0x11), (Duration::ZERO, counter_offer)] {
        let net = Net::new(BOTH, [Fate::After(vec![forged])]);
        assert_eq!(refused(&net).await, IpmiError::ConflictingAnswers);
        assert_eq!(net.kinds(), [OPEN]);
    }
    // The same refusal twice is no contradiction.
    let net = Net::new(&[CipherSuite::Three], [Fate::After(vec![refusal(0x11)])]);
    assert_eq!(open(&net).await.unwrap().suite(), CipherSuite::Three);
    // A refusal of something else first is final: what follows cannot lead to suite 3.
    let net = Net::new(&[CipherSuite::Three], [Fate::After(vec![refusal(0x12)])]);
    let expected = IpmiError::Setup { message: SetupMessage::OpenSession, status: SetupStatus(0x12) };
    assert_eq!(refused(&net).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_full_bmc_is_tried_after_one_two_and_four_seconds() {
    let net = Net::new(BOTH, []);
    net.world().bmc.without_slot = 3;
    let started = Instant::now();
    open(&net).await.unwrap();
    // Each refusal is believed after the second of its step.
    assert_eq!(started.elapsed().as_secs(), 3 + 1 + 2 + 4);
    assert_eq!(net.session_ids().len(), 4);

    net.world().bmc.without_slot = u32::MAX;
    let started = Instant::now();
    assert_eq!(refused(&net).await, IpmiError::NoFreeSession);
    assert!(started.elapsed() <= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_busy_bmc_is_asked_again_with_growing_pauses() {
    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    net.world().bmc.busy = 4;
    let started = Instant::now();
    assert_eq!(dialogue.read(mapped, by()).await.unwrap().power, Power::On);
    assert_eq!(started.elapsed().as_millis() / 10, 270);
}

#[tokio::test(start_paused = true)]
async fn a_lost_question_in_a_session_is_repeated_under_new_numbers() {
    for fate in [Fate::Lost, Fate::Unanswered] {
        let net = Net::new(BOTH, []);
        let mut dialogue = open(&net).await.unwrap();
        let before = net.world().sent.len();
        net.fates([fate.clone(), fate]);
        let started = Instant::now();
        assert_eq!(dialogue.read(mapped, by()).await.unwrap().power, Power::On);
        assert_eq!(started.elapsed().as_secs(), 2);
        let world = net.world();
        let sent: Vec<&[u8]> = world.sent[before..].iter().map(|(_, packet)| packet.as_slice()).collect();
        let sequences: Vec<u8> = sent.iter().map(|packet| packet[10]).collect();
        assert_eq!(sequences, [2, 3, 4, 5]);
        assert_ne!(sent[0][16..32], sent[1][16..32], "an initialisation vector was used twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_power_off_leaves_once_whatever_becomes_of_it() {
    for (fate, arrived) in [(Fate::Lost, 0), (Fate::Unanswered, 1)] {
        let net = Net::new(BOTH, []);
        let mut dialogue = open(&net).await.unwrap();
        dialogue.read(mapped, by()).await.unwrap();
        let before = net.world().sent.len();
        net.fates([fate]);
        let started = Instant::now();
        let report = dialogue.force_off(by(), by()).await;
        assert_eq!(report, SendReport::MaybeSent(Unanswered::Silence));
        assert_eq!(started.elapsed(), Duration::from_secs(1));
        assert_eq!(net.world().sent.len(), before + 1);
        assert_eq!(net.world().bmc.power_offs, arrived);
        let read = dialogue.read(mapped, by()).await.unwrap();
        assert_eq!(read.power == Power::On, arrived == 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_power_off_that_was_not_sent_says_so() {
    for (kind, certain) in [
        (io::ErrorKind::NetworkUnreachable, true),
        (io::ErrorKind::HostUnreachable, true),
        (io::ErrorKind::PermissionDenied, true),
        (io::ErrorKind::Interrupted, false),
        (io::ErrorKind::Other, false),
    ] {
        let net = Net::new(BOTH, []);
        let mut dialogue = open(&net).await.unwrap();
        dialogue.read(mapped, by()).await.unwrap();
        net.fates([Fate::Error(kind)]);
        let expected = if certain {
            SendReport::NotSent(NotSent::Socket(kind))
        } else {
            SendReport::MaybeSent(Unanswered::Socket(kind))
        };
        assert_eq!(dialogue.force_off(by(), by()).await, expected);
        // The next reading asks for the identity again, and only then there may be another one.
        assert_eq!(dialogue.force_off(by(), by()).await, SendReport::NotSent(NotSent::NoFreshOn));
        let read = dialogue.read(mapped, by()).await.unwrap();
        assert_eq!((read.power, read.identity_seen), (Power::On, IdentitySeen::InThisRead));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_level_is_asked_for_again_and_reading_does_not_depend_on_it() {
    for refused in [false, true] {
        let net = Net::new(BOTH, []);
        let mut dialogue = open(&net).await.unwrap();
        dialogue.read(mapped, by()).await.unwrap();
        net.world().bmc.demoted = true;
        net.world().bmc.refuses_operator = refused;
        net.world().bmc.requests.clear();
        assert_eq!(dialogue.force_off(by(), by()).await, SendReport::Answered(Completion(0xd4)));
        assert_eq!(dialogue.read(mapped, by()).await.unwrap().power, Power::On);
        let expected = if refused { Completion(0xd4) } else { Completion::SUCCESS };
        assert_eq!(dialogue.force_off(by(), by()).await, SendReport::Answered(expected));
        assert_eq!(net.world().bmc.requests, [0x02, 0x3b, 0x01, 0x02]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_icmp_message_about_an_earlier_datagram_does_not_stop_a_power_off() {
    let refused = Fate::Error(io::ErrorKind::ConnectionRefused);
    for (errors, expected) in [
        (1, SendReport::Answered(Completion::SUCCESS)),
        (2, SendReport::NotSent(NotSent::Socket(io::ErrorKind::ConnectionRefused))),
    ] {
        let net = Net::new(BOTH, []);
        let mut dialogue = open(&net).await.unwrap();
        dialogue.read(mapped, by()).await.unwrap();
        net.fates(vec![refused.clone(); errors]);
        assert_eq!(dialogue.force_off(by(), by()).await, expected);
        assert_eq!(net.world().bmc.power_offs, u32::from(errors == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_forged_error_waits_a_whole_step_for_the_bmc_s_own_answer() {
    // An unknown user, said ahead of a BMC that takes most of a second for its RAKP 2.
    let forged = (Duration::from_millis(1), setup(0x13, &[&[2, 0x0d]]));
    let slow = Fate::Late(Duration::from_millis(900), vec![forged.clone()]);
    let net = Net::new(BOTH, [Fate::Pass, slow]);
    open(&net).await.unwrap();
    assert_eq!(net.session_ids().len(), 1);

    let net = Net::new(BOTH, [Fate::Pass, Fate::Only(vec![forged])]);
    let started = Instant::now();
    let expected = IpmiError::Setup { message: SetupMessage::Rakp2, status: SetupStatus(0x0d) };
    assert_eq!(refused(&net).await, expected);
    assert_eq!(started.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_random_bytes_nothing_is_sent() {
    let net = Net::new(BOTH, []);
    net.world().entropy_left = 0;
    assert_eq!(refused(&net).await, IpmiError::NoEntropy);
    assert!(net.kinds().is_empty());

    net.world().entropy_left = usize::MAX;
    let mut dialogue = open(&net).await.unwrap();
    dialogue.read(mapped, by()).await.unwrap();
    net.world().entropy_left = 0;
    assert_eq!(dialogue.force_off(by(), by()).await, SendReport::NotSent(NotSent::NoEntropy));
    assert_eq!(net.world().bmc.power_offs, 0);
}

#[tokio::test(start_paused = true)]
async fn the_identity_is_judged_in_every_reading() {
    let net = Net::new(BOTH, []);
    let mut dialogue = open(&net).await.unwrap();
    dialogue.read(mapped, by()).await.unwrap();
    let error = dialogue.read(|_| false, by()).await.unwrap_err();
    assert_eq!(error, IpmiError::OtherSystem { guid: SystemGuid(GUID) });
    // What was On before is not On of the accepted system.
    assert_eq!(dialogue.force_off(by(), by()).await, SendReport::NotSent(NotSent::NoFreshOn));
    assert!(!net.world().bmc.requests.contains(&0x02));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_dialogue_says_good_bye_and_a_closed_one_only_once() {
    let net = Net::new(BOTH, []);
    drop(open(&net).await.unwrap());
    assert_eq!(net.world().bmc.requests, [0x3b, 0x3c]);

    let mut dialogue = open(&net).await.unwrap();
    assert!(dialogue.close(by()).await);
    drop(dialogue);
    assert_eq!(net.world().bmc.requests, [0x3b, 0x3c, 0x3b, 0x3c]);
}

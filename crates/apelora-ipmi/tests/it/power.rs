//! Reading and switching off: honest BMCs, and BMCs that are slow, busy or do not do what they say.

use std::time::Duration;

use apelora_ipmi::{
    CipherSuite, Completion, Conversation, Credentials, IdentitySeen, IpmiError, NotSent, Power, SendReport,
    Suites, Target, Timers,
};

use crate::peers::{ALL, Bmc, Kind, OPERATOR, REVERSED, RFC, SMBIOS, fence, is_mapped, soon, target};

async fn open(bmc: &Bmc) -> Conversation {
    Conversation::open(&bmc.target(), Timers::DEFAULT, soon()).await.unwrap()
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn nine_round_trips_switch_a_server_off() {
    for (kind, suites) in [(Kind::Suite17, Suites::Prefer17), (Kind::IpmiSim, Suites::Only3)] {
        let bmc = Bmc::start(kind).await;
        let target = Target { suites, ..bmc.target() };
        let mut conversation = Conversation::open(&target, Timers::DEFAULT, soon()).await.unwrap();
        let before = conversation.read(is_mapped, soon()).await.unwrap();
        assert_eq!((before.power, before.identity_seen), (Power::On, IdentitySeen::InThisRead));
        let sent = conversation.force_off(soon(), soon()).await;
        assert_eq!(sent, SendReport::Answered(Completion::SUCCESS));
        let after = conversation.read(is_mapped, soon()).await.unwrap();
        assert_eq!((after.power, after.identity_seen), (Power::Off, IdentitySeen::BeforeThePowerOff));
        let closed = conversation.close(soon()).await;
        assert!(closed.confirmed);
        assert!(!bmc.is_on());
        assert_eq!(bmc.power_offs(), 1);
        let traffic = closed.traffic;
        assert_eq!((traffic.sent, traffic.received, traffic.dropped), (9, 9, 0), "{kind:?}");
        if kind == Kind::Suite17 {
            assert_eq!(bmc.requests(), ["06 3b", "06 37", "00 01", "00 02", "00 01", "06 3c"]);
        }
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn every_bmc_is_fenced_with_the_best_suite_that_it_has() {
    for kind in ALL {
        let bmc = Bmc::start(kind).await;
        let fenced = fence(&bmc.target(), Timers::DEFAULT, 1, |_| ()).await;
        let best = if kind == Kind::Suite17 { CipherSuite::Seventeen } else { CipherSuite::Three };
        assert!(fenced.is_off() && !bmc.is_on(), "{kind:?}: {fenced:?}");
        assert_eq!(fenced.sends, [SendReport::Answered(Completion::SUCCESS)]);
        assert!(fenced.readings.iter().all(|reading| reading.suite == best), "{kind:?}");
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn the_guid_is_reported_as_sent_and_judged_by_the_caller() {
    for (order, bytes) in [("smbios", SMBIOS), ("rfc", RFC), ("reversed", REVERSED)] {
        let bmc = Bmc::start_with(Kind::Suite17, &["--guidorder", order]).await;
        let mut conversation = open(&bmc).await;
        let reading = conversation.read(is_mapped, soon()).await.unwrap();
        assert_eq!(reading.guid.0, bytes, "{order}");
        conversation.close(soon()).await;
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn another_system_s_power_is_neither_read_nor_switched() {
    let bmc = Bmc::start(Kind::Suite17).await;
    let mut conversation = open(&bmc).await;
    let error = conversation.read(|_guid| false, soon()).await.unwrap_err();
    assert!(matches!(error, IpmiError::OtherSystem { guid } if guid.0 == SMBIOS), "{error}");
    let sent = conversation.force_off(soon(), soon()).await;
    assert_eq!(sent, SendReport::NotSent(NotSent::NoFreshOn));
    assert!(conversation.close(soon()).await.confirmed);
    assert_eq!(bmc.requests(), ["06 3b", "06 37", "06 3c"]);
    assert!(bmc.is_on());
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_bmc_without_a_usable_guid_is_refused_before_the_power_is_read() {
    for (fault, expected) in [
        ("guid_zero", "which is not the mapped one"),
        ("guid_ff", "which is not the mapped one"),
        ("guid_short", "has 8 bytes of data"),
        ("guid_cc=c1", "reports no system GUID (completion C1"),
        ("guid_cc=d4", "Get System GUID: completion D4, insufficient privilege"),
    ] {
        let bmc = Bmc::faulty(fault).await;
        let mut conversation = open(&bmc).await;
        let error = conversation.read(is_mapped, soon()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{fault}: {error}");
        conversation.close(soon()).await;
        assert_eq!(bmc.requests(), ["06 3b", "06 37", "06 3c"], "{fault}");
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn nothing_is_sent_to_a_server_that_is_already_off() {
    let bmc = Bmc::start(Kind::Suite17).await;
    bmc.switch_off();
    let mut conversation = open(&bmc).await;
    assert_eq!(conversation.read(is_mapped, soon()).await.unwrap().power, Power::Off);
    let sent = conversation.force_off(soon(), soon()).await;
    assert_eq!(sent, SendReport::NotSent(NotSent::NoFreshOn));
    let again = conversation.read(is_mapped, soon()).await.unwrap();
    assert_eq!((again.power, again.identity_seen), (Power::Off, IdentitySeen::InThisRead));
    conversation.close(soon()).await;
    assert_eq!(bmc.power_offs(), 0);
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_bmc_that_ignores_the_power_off_never_reads_off() {
    let bmc = Bmc::faulty("off_ignored").await;
    let fenced = fence(&bmc.target(), Timers::DEFAULT, 1, |_| ()).await;
    assert_eq!(fenced.sends, [SendReport::Answered(Completion::SUCCESS); 2]);
    assert!(fenced.readings.iter().all(|reading| reading.power == Power::On));
    assert_eq!((fenced.readings.len(), bmc.power_offs()), (10, 2));
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn each_reading_of_on_allows_one_power_off() {
    let bmc = Bmc::faulty("off_ignored").await;
    let mut conversation = open(&bmc).await;
    let none = SendReport::NotSent(NotSent::NoFreshOn);
    assert_eq!(conversation.force_off(soon(), soon()).await, none);
    conversation.read(is_mapped, soon()).await.unwrap();
    assert_eq!(conversation.force_off(soon(), soon()).await, SendReport::Answered(Completion::SUCCESS));
    assert_eq!(conversation.force_off(soon(), soon()).await, none);
    conversation.read(is_mapped, soon()).await.unwrap();
    let past = tokio::time::Instant::now() - Duration::from_millis(1);
    assert_eq!(conversation.force_off(past, soon()).await, SendReport::NotSent(NotSent::TooLate));
    assert_eq!(conversation.force_off(soon(), soon()).await, none);
    conversation.close(soon()).await;
    assert_eq!(bmc.power_offs(), 1);
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_failed_power_off_is_reported_with_its_code_and_read_back() {
    for code in [0xc0, 0xc3, 0xd4, 0xd5, 0xff] {
        let bmc = Bmc::faulty(&format!("control_cc={code:02x}")).await;
        let mut conversation = open(&bmc).await;
        conversation.read(is_mapped, soon()).await.unwrap();
        let sent = conversation.force_off(soon(), soon()).await;
        assert_eq!(sent, SendReport::Answered(Completion(code)));
        assert_eq!(conversation.read(is_mapped, soon()).await.unwrap().power, Power::On);
        conversation.close(soon()).await;
        // Not asked twice, although some of these codes mean "busy".
        assert_eq!(bmc.requests().iter().filter(|request| *request == "00 02").count(), 1);
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_busy_bmc_is_asked_again_for_its_status() {
    let bmc = Bmc::faulty("busy=2").await;
    let mut conversation = open(&bmc).await;
    assert_eq!(conversation.read(is_mapped, soon()).await.unwrap().power, Power::On);
    conversation.close(soon()).await;
    assert_eq!(bmc.requests(), ["06 3b", "06 37", "00 01", "00 01", "00 01", "06 3c"]);
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_bmc_that_switches_late_reads_on_until_it_did() {
    let bmc = Bmc::faulty("off_delay=0.5").await;
    let mut conversation = open(&bmc).await;
    conversation.read(is_mapped, soon()).await.unwrap();
    assert_eq!(conversation.force_off(soon(), soon()).await, SendReport::Answered(Completion::SUCCESS));
    let mut readings = Vec::new();
    while readings.last() != Some(&Power::Off) && readings.len() < 1000 {
        let power = conversation.read(is_mapped, soon()).await.unwrap().power;
        // The BMC writes the state down before it answers.
        assert_eq!(power == Power::On, bmc.is_on());
        readings.push(power);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    conversation.close(soon()).await;
    assert_eq!((readings.first(), readings.last()), (Some(&Power::On), Some(&Power::Off)));
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_bmc_key_is_used_where_one_is_set() {
    let bmc = Bmc::start_with(Kind::Suite17, &["--kg", "lab-kg-20-bytes-long"]).await;
    let with_key = |key: &str| Target {
        credentials: Credentials::new(
            OPERATOR.0,
            &OPERATOR.1.to_owned().into(),
            Some(&key.to_owned().into()),
        )
        .unwrap(),
        ..bmc.target()
    };
    for key in ["lab-kg-20-bytes-long", "0x6c61622d6b672d32302d62797465732d6c6f6e67"] {
        let conversation = Conversation::open(&with_key(key), Timers::DEFAULT, soon()).await.unwrap();
        assert!(conversation.close(soon()).await.confirmed);
    }
    let wrong = Conversation::open(&with_key("another-key"), Timers::DEFAULT, soon()).await.unwrap_err();
    assert_eq!(wrong, IpmiError::BmcKey { configured: true });
    let without = Conversation::open(&bmc.target(), Timers::DEFAULT, soon()).await.unwrap_err();
    assert_eq!(without, IpmiError::BmcKey { configured: false });
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_dropped_conversation_still_closes_its_session() {
    let bmc = Bmc::start(Kind::Suite17).await;
    drop(open(&bmc).await);
    // The next session's requests come after the good-bye of the first.
    let conversation = open(&bmc).await;
    assert!(conversation.close(soon()).await.confirmed);
    assert_eq!(bmc.requests(), ["06 3b", "06 3c", "06 3b", "06 3c"]);
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_wrong_port_is_silence() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let timers = Timers { step: Duration::from_millis(20), ..Timers::DEFAULT };
    let target = target(nobody, OPERATOR, Suites::Prefer17);
    let error = Conversation::open(&target, timers, soon()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no usable Open Session Response in 3 tries"), "{text}");
    assert!(text.contains("connection refused") && text.contains("UDP port 623"), "{text}");
}

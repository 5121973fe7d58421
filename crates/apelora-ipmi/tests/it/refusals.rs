//! Accounts, suites and answers that are refused, each by name and without a power-off.

use std::time::Duration;

use apelora_ipmi::{
    CipherSuite, Completion, Conversation, IpmiError, SetupMessage, SetupStatus, Suites, Target, Timers,
};

use crate::peers::{ALL, Bmc, HASTY, Kind, OPERATOR, USER, soon, target};

async fn refusal(target: &Target) -> IpmiError {
    let timers = Timers { step: Duration::from_millis(150), ..Timers::DEFAULT };
    let error = Conversation::open(target, timers, soon()).await.unwrap_err();
    let text = format!("{error} {error:?}");
    for secret in [OPERATOR.1, USER.1, "not-the-password"] {
        assert!(!text.contains(secret), "{text}");
    }
    error
}

fn status(message: SetupMessage, status: u8) -> IpmiError {
    IpmiError::Setup { message, status: SetupStatus(status) }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_wrong_password_is_final() {
    for kind in ALL {
        let bmc = Bmc::start(kind).await;
        let wrong = target(bmc.address(), (OPERATOR.0, "not-the-password"), Suites::Prefer17);
        let error = refusal(&wrong).await;
        assert_eq!(error, IpmiError::Password, "{kind:?}");
        assert!(error.concerns_credentials());
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn an_unknown_user_is_refused_or_met_with_silence() {
    for (kind, expected) in [
        (Kind::IpmiSim, Some(status(SetupMessage::Rakp2, 0x0d))),
        (Kind::Suite17, Some(status(SetupMessage::Rakp2, 0x0d))),
        (Kind::Shipped, None),
    ] {
        let bmc = Bmc::start(kind).await;
        let error = refusal(&target(bmc.address(), ("nobody", OPERATOR.1), Suites::Prefer17)).await;
        match expected {
            Some(expected) => assert_eq!(error, expected, "{kind:?}"),
            None => assert!(error.to_string().contains("unknown user name"), "{error}"),
        }
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn an_account_below_operator_is_refused() {
    let bmc = Bmc::start(Kind::Suite17).await;
    let error = refusal(&target(bmc.address(), USER, Suites::Prefer17)).await;
    assert_eq!(error, status(SetupMessage::Rakp2, 0x0a));
    assert!(error.concerns_credentials());

    let bmc = Bmc::faulty("priv_deny").await;
    assert_eq!(refusal(&bmc.target()).await, IpmiError::OperatorRefused(Completion(0x81)));
    // The session that was opened is closed again.
    assert_eq!(bmc.requests(), ["06 3b", "06 3c"]);
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn no_suite_in_common_is_refused_by_name() {
    let refused = |suite, status| IpmiError::SuiteRefused { suite, status: SetupStatus(status) };
    let only_3 = Bmc::start_with(Kind::Suite17, &["--suites", "3"]).await;
    let only_17 = Bmc::start_with(Kind::Suite17, &["--suites", "17"]).await;
    let sim = Bmc::start(Kind::IpmiSim).await;
    let shipped = Bmc::start(Kind::Shipped).await;
    let pinned = |bmc: &Bmc, suites| Target { suites, ..bmc.target() };
    assert_eq!(refusal(&pinned(&only_3, Suites::Only17)).await, refused(CipherSuite::Seventeen, 0x11));
    assert_eq!(refusal(&pinned(&only_17, Suites::Only3)).await, refused(CipherSuite::Three, 0x11));
    assert_eq!(refusal(&pinned(&sim, Suites::Only17)).await, refused(CipherSuite::Seventeen, 0x04));
    assert_eq!(refusal(&pinned(&shipped, Suites::Only17)).await, IpmiError::OnlySuite3);
    let neither = Bmc::faulty("open_status=11").await;
    assert_eq!(refusal(&neither.target()).await, refused(CipherSuite::Three, 0x11));
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn only_a_refusal_of_the_suite_leads_to_suite_3() {
    for code in [0x04, 0x05, 0x06, 0x07, 0x10, 0x11] {
        let bmc = Bmc::faulty(&format!("open_status={code:02x}")).await;
        // This BMC refuses 3 as well; that it is the one refused shows that it was tried.
        let expected = IpmiError::SuiteRefused { suite: CipherSuite::Three, status: SetupStatus(code) };
        assert_eq!(refusal(&bmc.target()).await, expected, "{code:02x}");
    }
    for code in [0x02, 0x03, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x12, 0x13, 0xff] {
        let bmc = Bmc::faulty(&format!("open_status={code:02x}")).await;
        assert_eq!(refusal(&bmc.target()).await, status(SetupMessage::OpenSession, code), "{code:02x}");
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_counter_offer_is_not_continued_but_tried_afresh() {
    let bmc = Bmc::faulty("open_suite3").await;
    let conversation = Conversation::open(&bmc.target(), Timers::DEFAULT, soon()).await.unwrap();
    assert_eq!(conversation.suite(), CipherSuite::Three);
    let closed = conversation.close(soon()).await;
    // One more round trip than without it.
    assert_eq!((closed.traffic.sent, closed.traffic.received), (6, 6));
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_bmc_without_a_free_session_is_tried_until_the_deadline() {
    let bmc = Bmc::faulty("open_status=01").await;
    let by = tokio::time::Instant::now() + Duration::from_millis(1500);
    let error = Conversation::open(&bmc.target(), HASTY, by).await.unwrap_err();
    assert_eq!(error, IpmiError::NoFreeSession);
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn dishonest_setup_answers_are_refused_by_name() {
    for (fault, expected) in [
        ("open_none_conf", "answered cipher suite 16 (RAKP-HMAC-SHA256, HMAC-SHA256-128, no encryption)"),
        ("open_none_integ", "no known cipher suite (RAKP-HMAC-SHA256, no integrity, AES-CBC-128)"),
        ("open_zero_sid", "malformed (session id 0)"),
        ("open_priv=2", "offers privilege level 2"),
        ("rakp2_bad", "wrong password"),
        ("rakp4_bad", "check kg_secret"),
        ("rakp4_silent", "no usable RAKP 4 in 3 tries"),
        ("plain_answers", "not both authenticated and encrypted"),
        ("noconf_answers", "not both authenticated and encrypted"),
    ] {
        let bmc = Bmc::faulty(fault).await;
        let error = refusal(&bmc.target()).await;
        assert!(error.to_string().contains(expected), "{fault}: {error}");
        assert_eq!(bmc.power_offs(), 0);
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn repeated_sequence_numbers_are_no_answers() {
    let bmc = Bmc::faulty("old_seq").await;
    let mut conversation = Conversation::open(&bmc.target(), HASTY, soon()).await.unwrap();
    let error = conversation.read(|_guid| true, soon()).await.unwrap_err();
    assert!(error.to_string().contains("sequence number was used"), "{error}");
    conversation.close(soon()).await;
}

//! Whole failures: from Offline to the record's end, over each provider.

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::proof::{PowerWord, SendAnswer};
use apelora_fencing::write::{Outcome, Saw};
use apelora_lab::{ipmi, redfish};
use serde_json::Value;
use tokio::time::Instant;

use super::bmcs::{
    OTHER_UUID, PASSWORD, SECRET, Site, account, ipmi, ipmi_like, map_of, providers, providers_with, with,
    without,
};
use super::rig::{Ended, Happened, fence, fence_while};

async fn fenced(entry: &Value) -> Ended {
    fence(&providers(), &map_of([("s1", entry.clone())])).await
}

fn said(ended: &Ended) -> (Outcome, ReasonCode, bool) {
    (ended.last.outcome, ended.last.reason, ended.last.sent)
}

#[tokio::test]
async fn a_server_is_switched_off_and_read_back_over_redfish() {
    let site = Site::new();
    let bmc = site.redfish().await;
    bmc.bmc().set_delay(Duration::from_millis(20));
    let ended = fenced(&bmc.entry).await;
    assert_eq!(said(&ended), (Outcome::Success, ReasonCode::PoweredOff, true));
    assert_eq!((bmc.bmc().resets(), bmc.bmc().power(0)), (1, Some(redfish::Power::Off)));
    assert_eq!(ended.sends.len(), 1);
    assert!(ended.last.proof.is_some() && ended.pause.is_none());
    let seen: Vec<_> = ended.last.evidence.iter().map(|e| e.what).collect();
    assert_eq!(seen[..3], [Saw::Opened, Saw::Power(PowerWord::On), Saw::Sent(SendAnswer::Accepted)]);
    assert_eq!(seen.last(), Some(&Saw::Power(PowerWord::Off)));
    let detail = &ended.last.evidence.last().unwrap().detail;
    assert!(detail.contains("PowerState Off, certificate sha256 "), "{detail}");
    // One conversation for the whole record.
    assert_eq!(seen.iter().filter(|what| **what == Saw::Opened).count(), 1);
}

#[tokio::test]
async fn a_server_is_switched_off_and_read_back_over_ipmi() {
    for (suites, order, spoken) in [
        (&[ipmi::Suite::Seventeen, ipmi::Suite::Three][..], ipmi::ByteOrder::Smbios, "cipher suite 17"),
        (&[ipmi::Suite::Three], ipmi::ByteOrder::Ipmi, "cipher suite 3"),
    ] {
        let bmc = ipmi::Bmc::new(super::bmcs::UUID_BYTES, account(), [7; 32]);
        let bmc = ipmi_like(bmc.with_suites(suites).with_byte_order(order)).await;
        bmc.bmc.set_delay(Duration::from_millis(20));
        let ended = fenced(&bmc.entry).await;
        assert_eq!(said(&ended), (Outcome::Success, ReasonCode::PoweredOff, true));
        assert_eq!((bmc.bmc.power_offs(), bmc.bmc.power(Instant::now())), (1, ipmi::Power::Off));
        assert_eq!(bmc.bmc.sessions(), 0, "the session was not closed");
        assert!(ended.last.evidence.last().unwrap().detail.starts_with(spoken));
    }
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_that_is_off() {
    let site = Site::new();
    let over_redfish = site.redfish().await;
    over_redfish.bmc().set_power(0, redfish::Power::Off);
    let over_ipmi = ipmi().await;
    over_ipmi.bmc.set_power(ipmi::Power::Off);
    for entry in [&over_redfish.entry, &over_ipmi.entry] {
        let ended = fenced(entry).await;
        assert_eq!(said(&ended), (Outcome::Success, ReasonCode::AlreadyOff, false));
        assert!(ended.sends.is_empty() && ended.last.proof.is_some());
    }
    assert_eq!((over_redfish.bmc().resets(), over_ipmi.bmc.power_offs()), (0, 0));
}

#[tokio::test]
async fn another_server_is_left_alone() {
    let site = Site::new();
    let over_redfish = site.redfish().await;
    let over_ipmi = ipmi().await;
    // By the path, by a search for the UUID, and over IPMI.
    let by_path = with(&over_redfish.entry, "uuid", OTHER_UUID);
    for entry in [without(&by_path, "system"), by_path, with(&over_ipmi.entry, "uuid", OTHER_UUID)] {
        let ended = fenced(&entry).await;
        assert_eq!(said(&ended), (Outcome::Refused, ReasonCode::UuidMismatch, false), "{entry}");
        assert!(ended.sends.is_empty());
    }
    assert_eq!((over_redfish.bmc().resets(), over_ipmi.bmc.power_offs()), (0, 0));
}

#[tokio::test]
async fn a_system_is_found_by_its_uuid() {
    let site = Site::new();
    let bmc = site.redfish().await;
    let ended = fenced(&without(&bmc.entry, "system")).await;
    assert_eq!(said(&ended), (Outcome::Success, ReasonCode::PoweredOff, true));
}

#[tokio::test]
async fn a_server_that_turns_into_another_is_an_alarm() {
    let site = Site::new();
    let providers = providers();
    let bmc = site.redfish().await;
    bmc.bmc().set_fault(Some(redfish::Fault::Ignores));
    let map = map_of([("s1", bmc.entry.clone())]);
    let ended = fence_while(&providers, &map, |happened| {
        assert_eq!(happened, Happened::Sent);
        bmc.bmc().set_fault(Some(redfish::Fault::Impostor(OTHER_UUID.to_owned())));
    });
    assert_eq!(said(&ended.await), (Outcome::Failed, ReasonCode::UuidChanged, true));

    let bmc = ipmi().await;
    bmc.bmc.set_fault(Some(ipmi::Fault::Ignores));
    let map = map_of([("s1", bmc.entry.clone())]);
    let ended = fence_while(&providers, &map, |happened| {
        assert_eq!(happened, Happened::Sent);
        bmc.bmc.set_fault(Some(ipmi::Fault::Impostor(*b"0123456789abcdef")));
    });
    assert_eq!(said(&ended.await), (Outcome::Failed, ReasonCode::UuidChanged, true));
}

#[tokio::test]
async fn a_wrong_password_pauses_longest() {
    let site = Site::new();
    let over_redfish = site.redfish().await;
    let over_ipmi = ipmi().await;
    let user = ipmi::Account { level: ipmi::Level::User, ..account() };
    let low = ipmi_like(ipmi::Bmc::new(super::bmcs::UUID_BYTES, user, [8; 32])).await;
    for (entry, password, reason) in [
        (&over_redfish.entry, "not-the-password", ReasonCode::Credential),
        (&over_ipmi.entry, "not-the-password", ReasonCode::IpmiAuth),
        (&low.entry, PASSWORD, ReasonCode::IpmiPrivilege),
    ] {
        let map = map_of([("s1", entry.clone())]);
        let ended = fence(&providers_with(&[(SECRET, password)]), &map).await;
        assert_eq!(said(&ended), (Outcome::Refused, reason, false));
        let pause = ended.pause.unwrap();
        assert_eq!(pause.reason, reason);
        assert!(pause.left > Duration::from_secs(30), "{pause:?}");
    }
    // One attempt each, so that no account is locked: for Redfish the system, for the path is known.
    assert_eq!(over_redfish.server.stats().requests(), 1);
}

#[tokio::test]
async fn a_missing_secret_is_known_before_the_bmc_is_asked() {
    let site = Site::new();
    let over_redfish = site.redfish().await;
    let over_ipmi = ipmi().await;
    for (secrets, said_of_it) in [
        (&[][..], "APELORA_BMC_SECRET_S1, which the BMC map names, is not set"),
        (&[(SECRET, "")], "is empty"),
        (&[(SECRET, "line\nfeed-0123456789ab")], ""),
    ] {
        for entry in [&over_redfish.entry, &over_ipmi.entry] {
            let ended = fence(&providers_with(secrets), &map_of([("s1", entry.clone())])).await;
            assert_eq!(said(&ended), (Outcome::Refused, ReasonCode::SecretMissing, false), "{secrets:?}");
            let detail = &ended.last.evidence[0].detail;
            assert!(detail.contains(said_of_it) && !detail.contains("feed"), "{detail}");
        }
    }
    assert_eq!((over_redfish.server.stats().connections(), over_ipmi.bmc.sessions()), (0, 0));
}

#[tokio::test]
async fn a_bmc_that_is_not_there_says_nothing_about_its_server() {
    let site = Site::new();
    let (over_redfish, over_ipmi) = (site.redfish().await, ipmi().await);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = deaf.local_addr().unwrap().to_string();
    for (entry, remedy) in [
        (with(&over_redfish.entry, "address", closed), "check address, port, routes"),
        (with(&over_ipmi.entry, "address", silent), "UDP port 623"),
    ] {
        let providers = providers().hurried(Duration::from_millis(20));
        let ended = fence(&providers, &map_of([("s1", entry.clone())])).await;
        assert_eq!(said(&ended), (Outcome::Refused, ReasonCode::BmcUnreachable, false), "{entry}");
        assert_eq!(ended.pause.unwrap().reason, ReasonCode::BmcUnreachable);
        assert!(ended.last.evidence[0].detail.contains(remedy), "{:?}", ended.last.evidence);
    }
}

#[tokio::test]
async fn a_bmc_that_restarts_is_read_again_when_it_is_back() {
    let site = Site::new();
    let bmc = site.redfish().await;
    // Gone with the power-off, and back after three attempts to read it.
    bmc.bmc().set_fault(Some(redfish::Fault::Restarts(Duration::from_secs(3600))));
    let mut troubles = 0;
    let providers = providers();
    let map = map_of([("s1", bmc.entry.clone())]);
    let ended = fence_while(&providers, &map, |happened| {
        troubles += u32::from(happened == Happened::Trouble);
        if troubles == 3 {
            bmc.bmc().set_fault(None);
        }
    });
    let ended = ended.await;
    assert_eq!(said(&ended), (Outcome::Success, ReasonCode::PoweredOff, true));
    let seen = ended.last.evidence.iter().filter(|e| matches!(e.what, Saw::Trouble(_))).count();
    assert_eq!((seen, bmc.bmc().resets()), (3, 1));
}

#[tokio::test]
async fn an_answer_is_no_evidence() {
    let site = Site::new();
    let bmc = site.redfish().await;
    for (fault, expected) in [
        (redfish::Fault::Ignores, (Outcome::Failed, ReasonCode::NeverOff, true)),
        (redfish::Fault::Rejects(409), (Outcome::Failed, ReasonCode::ResetRejected, true)),
        (redfish::Fault::Rejects(403), (Outcome::Failed, ReasonCode::Credential, true)),
        (redfish::Fault::Hangs, (Outcome::Success, ReasonCode::PoweredOff, true)),
        (redfish::Fault::Tasks, (Outcome::Success, ReasonCode::PoweredOff, true)),
        (
            redfish::Fault::Target("/redfish/v1/x".to_owned()),
            (Outcome::Refused, ReasonCode::TargetForeign, false),
        ),
    ] {
        bmc.bmc().set_power(0, redfish::Power::On);
        bmc.bmc().set_fault(Some(fault.clone()));
        let ended = fenced(&bmc.entry).await;
        assert_eq!(said(&ended), expected, "{fault:?}");
        assert_eq!(ended.last.proof.is_some(), expected.0 == Outcome::Success, "{fault:?}");
    }
    for (fault, expected) in [
        (ipmi::Fault::Ignores, (Outcome::Failed, ReasonCode::NeverOff, true)),
        (ipmi::Fault::Rejects(0xd5), (Outcome::Failed, ReasonCode::ResetRejected, true)),
        (ipmi::Fault::Rejects(0xd4), (Outcome::Failed, ReasonCode::IpmiPrivilege, true)),
        (ipmi::Fault::ControlFault, (Outcome::Refused, ReasonCode::PowerStateUnknown, false)),
        (ipmi::Fault::NoGuid, (Outcome::Refused, ReasonCode::UuidMissing, false)),
        (ipmi::Fault::OffersSuiteZero, (Outcome::Refused, ReasonCode::CipherSuite, false)),
    ] {
        let bmc = ipmi().await;
        bmc.bmc.set_fault(Some(fault.clone()));
        let ended = fenced(&bmc.entry).await;
        assert_eq!(said(&ended), expected, "{fault:?}");
        assert_eq!(ended.last.proof, None, "{fault:?}");
    }
}

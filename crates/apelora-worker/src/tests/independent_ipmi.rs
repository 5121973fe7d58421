//! Against BMCs that somebody else has written, which each test starts: pyghmi's as shipped and with suite 17, and
//! OpenIPMI's `ipmi_sim`. What they need is installed by `scripts/suites/ipmi`.

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::write::Outcome;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::bmcs::{OTHER_UUID, SECRET, map_of, providers_with, with};
use super::rig::fence_at_pace;
use crate::Providers;
use crate::check::{CheckRow, check};

#[path = "../../../apelora-ipmi/tests/it/peers.rs"]
#[expect(clippy::disallowed_methods, reason = "it has a client of its own for the IPMI client's tests")]
#[allow(dead_code, reason = "shared with the tests of the IPMI client, which use all of it")]
mod peers;

use peers::{ALL, Bmc, Kind, OPERATOR, USER, UUID};

fn entry(bmc: &Bmc) -> Value {
    json!({"provider": "ipmi", "address": bmc.address().to_string(), "user": OPERATOR.0, "secret": SECRET,
        "uuid": UUID})
}

fn providers() -> Providers {
    providers_with(&[
        (SECRET, OPERATOR.1),
        ("APELORA_BMC_SECRET_USER", USER.1),
        ("APELORA_BMC_SECRET_WRONG", "not-the-password"),
    ])
}

async fn checked(entry: Value) -> CheckRow {
    let map = map_of([("s1", entry)]);
    let now = OffsetDateTime::UNIX_EPOCH;
    check(&providers(), &map, &[], Duration::from_secs(20), now).await.unwrap().remove(0)
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_server_is_checked_and_fenced_through_the_provider() {
    for (kind, suite) in ALL.into_iter().zip([3, 3, 17]) {
        let bmc = Bmc::start(kind).await;
        let row = checked(entry(&bmc)).await;
        assert!(row.is_good(), "{kind:?}: {row:?}");
        assert_eq!((row.suite, row.privilege.as_deref()), (Some(suite), Some("operator")), "{kind:?}");
        assert_eq!(row.power.as_deref(), Some("On"));
        assert!(row.byte_order.is_some());
        println!("{kind:?}: {}", serde_json::to_string(&row).unwrap());
        assert_eq!(bmc.power_offs(), 0, "{kind:?}: the check switches nothing");

        let map = map_of([("s1", entry(&bmc))]);
        let ended = fence_at_pace(&providers(), &map, Duration::from_millis(20)).await;
        let last = &ended.last;
        assert_eq!((last.outcome, last.reason), (Outcome::Success, ReasonCode::PoweredOff), "{kind:?}");
        assert_eq!((bmc.power_offs(), bmc.is_on()), (1, false), "{kind:?}");
    }
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn common_mistakes_are_told_apart_by_the_check() {
    let bmc = Bmc::start(Kind::Suite17).await;
    let good = entry(&bmc);
    let user = with(&with(&good, "user", USER.0), "secret", "APELORA_BMC_SECRET_USER");
    for (entry, reason) in [
        (with(&good, "uuid", OTHER_UUID), ReasonCode::UuidMismatch),
        (with(&good, "secret", "APELORA_BMC_SECRET_WRONG"), ReasonCode::IpmiAuth),
        (with(&good, "secret", "APELORA_BMC_SECRET_NONE"), ReasonCode::SecretMissing),
        (with(&good, "user", "nobody"), ReasonCode::IpmiAuth),
        (user, ReasonCode::IpmiPrivilege),
    ] {
        let row = checked(entry).await;
        assert_eq!(row.failure.as_ref().map(|failure| failure.reason), Some(reason), "{row:?}");
    }
    assert_eq!(bmc.power_offs(), 0);
    let old = Bmc::start(Kind::IpmiSim).await;
    let row = checked(with(&entry(&old), "cipher_suites", vec![17])).await;
    assert_eq!(row.failure.map(|failure| failure.reason), Some(ReasonCode::CipherSuite));
}

#[tokio::test]
#[ignore = "needs ipmi_sim and pyghmi: scripts/test ipmi"]
async fn a_power_off_that_is_ignored_proves_nothing() {
    let bmc = Bmc::faulty("off_ignored").await;
    let map = map_of([("s1", entry(&bmc))]);
    let ended = fence_at_pace(&providers(), &map, Duration::ZERO).await;
    assert_eq!((ended.last.outcome, ended.last.reason), (Outcome::Failed, ReasonCode::NeverOff));
    assert!(ended.last.proof.is_none() && bmc.is_on());
}

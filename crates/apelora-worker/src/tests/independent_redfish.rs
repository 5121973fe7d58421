//! Against BMCs that somebody else has written: the sushy-tools emulator, started by `scripts/suites/redfish`.

use std::path::Path;
use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::proof::PowerWord;
use apelora_fencing::write::{Outcome, Saw};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::bmcs::{SECRET, map_of, providers_with, with, without};
use super::rig::fence_at_pace;
use crate::Providers;
use crate::check::check;

/// What the suite has started.
struct Lab(Value);

impl Lab {
    fn started() -> Self {
        #[expect(clippy::disallowed_methods, reason = "where the suite tells what it has started")]
        let map = std::env::var_os("APELORA_REDFISH_MAP").expect("run scripts/suites/redfish");
        Self(serde_json::from_slice(&std::fs::read(map).unwrap()).unwrap())
    }

    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap()
    }

    /// The entry for a system behind a BMC.
    fn entry(&self, bmc: &str, system: usize) -> Value {
        let bmc = &self.0["bmcs"][bmc];
        let uuid = bmc["systems"][system].as_str().unwrap();
        json!({"provider": "redfish", "address": bmc["address"], "user": self.0["user"], "secret": SECRET,
            "system": format!("/redfish/v1/Systems/{uuid}"), "ca_file": self.0["ca"], "uuid": uuid})
    }

    fn providers(&self) -> Providers {
        let wrong = format!("not-{}", self.text("password"));
        providers_with(&[(SECRET, self.text("password")), ("APELORA_BMC_SECRET_WRONG", &wrong)])
    }
}

/// One good BMC and one of each common mistake: what the table of `apelora bmc check` says.
#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn good_and_bad_bmcs_are_told_apart_by_the_check() {
    let lab = Lab::started();
    let bad = |name: &str| lab.entry(&format!("bad-{name}"), 0);
    let neighbour = lab.0["bmcs"]["5"]["systems"][1].clone();
    let pem = |name: &str| Path::new(lab.text("pki")).join(name).display().to_string();
    let cases = [
        ("good", lab.entry("2", 0), None),
        ("two-systems", without(&lab.entry("5", 0), "system"), None),
        ("own-certificate", with(&bad("selfsigned"), "ca_file", pem("selfsigned.pem")), None),
        ("neighbour", with(&lab.entry("5", 0), "uuid", neighbour), Some(ReasonCode::UuidMismatch)),
        (
            "password",
            with(&bad("unknownca"), "secret", "APELORA_BMC_SECRET_NONE"),
            Some(ReasonCode::SecretMissing),
        ),
        ("expired", bad("expired"), Some(ReasonCode::TlsExpired)),
        ("not-yet", bad("notyet"), Some(ReasonCode::TlsNotYetValid)),
        ("other-host", bad("wronghost"), Some(ReasonCode::TlsName)),
        ("common-name", bad("cnonly"), Some(ReasonCode::TlsName)),
        ("address-as-name", bad("ipasdns"), Some(ReasonCode::TlsName)),
        ("factory", with(&bad("vendorself"), "ca_file", pem("vendorself.pem")), Some(ReasonCode::TlsIssuer)),
    ];
    let providers = lab.providers();
    let now = OffsetDateTime::UNIX_EPOCH;
    for (name, entry, reason) in &cases {
        let map = map_of([(*name, entry.clone())]);
        let rows = check(&providers, &map, &[], Duration::from_secs(20), now).await.unwrap();
        println!("{}", serde_json::to_string(&rows[0]).unwrap());
        assert_eq!(rows[0].failure.as_ref().map(|failure| failure.reason), *reason, "{rows:?}");
        assert!(reason.is_some() || rows[0].certificate.as_ref().is_some_and(|c| c.not_after.is_some()));
    }
    let wrong = with(&lab.entry("2", 0), "secret", "APELORA_BMC_SECRET_WRONG");
    let rows =
        check(&providers, &map_of([("wrong", wrong)]), &[], Duration::from_secs(20), now).await.unwrap();
    assert_eq!(rows[0].failure.as_ref().unwrap().reason, ReasonCode::Credential, "{rows:?}");
}

/// The whole way: the product's machine, the worker's provider, and a BMC that takes its time to switch off.
#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_server_is_fenced_through_the_provider() {
    let lab = Lab::started();
    let entry = lab.entry("7", 0);
    let pace = Duration::from_millis(100);
    let ended = fence_at_pace(&lab.providers(), &map_of([("s1", entry)]), pace).await;
    let last = &ended.last;
    assert_eq!((last.outcome, last.reason, last.sent), (Outcome::Success, ReasonCode::PoweredOff, true));
    let seen: Vec<_> = last.evidence.iter().map(|e| e.what).collect();
    assert_eq!(seen[..2], [Saw::Opened, Saw::Power(PowerWord::On)]);
    assert_eq!(seen.last(), Some(&Saw::Power(PowerWord::Off)));
    assert!(last.proof.is_some());
}

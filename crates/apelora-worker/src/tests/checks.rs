//! The read-only check: what a table of good and bad BMCs says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::identity::ByteOrder;
use apelora_fencing::map::SecretName;
use apelora_lab::redfish::{Bmc, CertificatePlan, Life, Personality};
use apelora_lab::{ipmi, redfish};
use secrecy::SecretString;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::datetime;

use super::bmcs::{
    OTHER_UUID, PASSWORD, SECRET, Site, USER, UUID, account, ipmi, ipmi_like, map_of, providers,
    providers_with, target, with, without,
};
use crate::check::{AT_ONCE, CheckRow, check, check_one};
use crate::secret::{SecretError, SecretSource};
use crate::{ProviderSettings, Providers};

const NOW: OffsetDateTime = datetime!(2026-11-30 9:00 UTC);
const EACH: Duration = Duration::from_secs(20);

async fn row(entry: &Value) -> CheckRow {
    let by = tokio::time::Instant::now() + EACH;
    let row = check_one(&providers(), &target(entry), by, NOW).await;
    let json = serde_json::to_string(&row).unwrap();
    assert_eq!(serde_json::from_str::<CheckRow>(&json).unwrap(), row);
    assert!(!json.contains(PASSWORD) && !json.contains("\"user\""), "{json}");
    row
}

fn failed(row: &CheckRow, reason: ReasonCode, with: &str) {
    let failure = row.failure.as_ref().unwrap();
    assert_eq!(failure.reason, reason, "{row:?}");
    assert!(failure.detail.contains(with), "{failure:?}");
    assert_eq!((&*failure.sentence, &*failure.remedy), (reason.sentence(), reason.remedy()));
    assert!(!row.is_good());
}

#[tokio::test]
async fn a_good_redfish_bmc() {
    let site = Site::new();
    let bmc = site.redfish().await;
    let row = row(&bmc.entry).await;
    assert!(row.is_good() && row.advice.is_empty(), "{row:?}");
    assert_eq!((row.provider.as_str(), row.vendor.as_deref()), ("redfish", Some("Dell")));
    assert_eq!(row.system.as_deref(), Some("/redfish/v1/Systems/System.Embedded.1"));
    assert!(row.reported.as_ref().unwrap().eq_ignore_ascii_case(UUID));
    assert_eq!((row.byte_order, row.power.as_deref()), (Some(ByteOrder::Rfc4122), Some("On")));
    let certificate = row.certificate.unwrap();
    assert_eq!(certificate.sha256.len(), 64);
    assert_eq!(certificate.not_after.as_deref(), Some("2120-01-01T00:00:00+00:00"));
    assert_eq!(certificate.days_left, Some(33_998));
    assert!(row.round_trip_ms.is_some() && row.suite.is_none());
    assert_eq!((bmc.bmc().resets(), bmc.server.stats().requests()), (0, 1));
}

#[tokio::test]
async fn a_good_ipmi_bmc() {
    for (suites, order, matched) in [
        (&[ipmi::Suite::Seventeen][..], ipmi::ByteOrder::Smbios, ByteOrder::Smbios),
        (&[ipmi::Suite::Three], ipmi::ByteOrder::Ipmi, ByteOrder::Reversed),
        (&[ipmi::Suite::Seventeen], ipmi::ByteOrder::Rfc4122, ByteOrder::Rfc4122),
    ] {
        let bmc = ipmi::Bmc::new(super::bmcs::UUID_BYTES, account(), [7; 32]);
        let bmc = ipmi_like(bmc.with_suites(suites).with_byte_order(order)).await;
        let row = row(&bmc.entry).await;
        assert!(row.is_good(), "{row:?}");
        assert_eq!((row.byte_order, row.privilege.as_deref()), (Some(matched), Some("operator")));
        let (suite, advice) =
            if suites == [ipmi::Suite::Three] { (3, "refused cipher suite 17") } else { (17, "pin") };
        assert_eq!(row.suite, Some(suite));
        assert!(row.advice[0].contains(advice), "{:?}", row.advice);
        assert_eq!((bmc.bmc.power_offs(), bmc.bmc.sessions()), (0, 0));
        let pinned = super::checks::row(&with(&bmc.entry, "cipher_suites", vec![suite])).await;
        assert!(pinned.is_good() && pinned.advice.is_empty(), "{pinned:?}");
    }
}

#[tokio::test]
async fn what_would_stop_a_power_off_is_found_without_one() {
    let site = Site::new();
    let bmc = site.redfish().await;
    let uuid_not_here = with(&bmc.entry, "uuid", OTHER_UUID);
    let swapped = with(&bmc.entry, "uuid", "6e0f1c5d-7a3b-024c-9a41-0c4de99a1b27");
    failed(&row(&uuid_not_here).await, ReasonCode::UuidMismatch, UUID);
    failed(
        &row(&without(&uuid_not_here, "system")).await,
        ReasonCode::UuidMismatch,
        "none of the BMC's systems",
    );
    failed(&row(&swapped).await, ReasonCode::UuidMismatch, &format!("configure {UUID}"));
    failed(&row(&with(&bmc.entry, "system", "/redfish/v1/Systems/7")).await, ReasonCode::HttpStatus, "404");
    failed(&row(&with(&bmc.entry, "ca_file", "/nowhere/ca.pem")).await, ReasonCode::Tls, "/nowhere/ca.pem");
    let nobody = row(&with(&bmc.entry, "user", "nobody")).await;
    failed(&nobody, ReasonCode::Credential, "Operator role");
    let by_uuid = row(&without(&bmc.entry, "system")).await;
    assert!(by_uuid.is_good() && by_uuid.advice[0].contains("\"/redfish/v1/Systems/System.Embedded.1\""));
    for (fault, reason, said) in [
        (redfish::Fault::Target("/redfish/v1/other".to_owned()), ReasonCode::TargetForeign, "never used"),
        (redfish::Fault::Redirect("https://192.0.2.1/".to_owned()), ReasonCode::Redirect, "never followed"),
        (redfish::Fault::HeaderBomb, ReasonCode::BodyTooLarge, "larger than"),
    ] {
        bmc.bmc().set_fault(Some(fault));
        failed(&row(&bmc.entry).await, reason, said);
    }
    assert_eq!(bmc.bmc().resets(), 0);

    for (fault, reason, said) in [
        (ipmi::Fault::ControlFault, ReasonCode::PowerFault, "power control fault"),
        (ipmi::Fault::Impostor(*b"0123456789abcdef"), ReasonCode::UuidMismatch, "the map says"),
        (ipmi::Fault::NoGuid, ReasonCode::UuidMissing, "no system GUID"),
        (ipmi::Fault::RefusesSuites(0x11), ReasonCode::CipherSuite, "refuses cipher suite 3"),
        (ipmi::Fault::OffersSuiteZero, ReasonCode::CipherSuite, "answered cipher suite 0"),
    ] {
        let bmc = ipmi().await;
        bmc.bmc.set_fault(Some(fault));
        let row = row(&bmc.entry).await;
        failed(&row, reason, said);
        assert!(row.power.is_none() || reason == ReasonCode::PowerFault, "a stranger's power is not read");
        assert_eq!(bmc.bmc.power_offs(), 0);
    }
}

#[tokio::test]
async fn certificates_are_judged_and_their_end_is_told() {
    let site = Site::new();
    let good = CertificatePlan::for_address([127, 0, 0, 1].into());
    let bmc = || Bmc::new(Personality::named("dell-idrac9-r750").unwrap(), USER, PASSWORD);
    for (plan, reason) in [
        (CertificatePlan { life: Life::Expired, ..good.clone() }, ReasonCode::TlsExpired),
        (CertificatePlan { life: Life::NotYet, ..good.clone() }, ReasonCode::TlsNotYetValid),
        (CertificatePlan::for_address([192, 0, 2, 1].into()), ReasonCode::TlsName),
        (CertificatePlan { is_authority: true, ..good.clone() }, ReasonCode::TlsIssuer),
    ] {
        let served = site.serve(bmc(), "/redfish/v1/Systems/1", &plan).await;
        failed(&row(&served.entry).await, reason, "certificate");
        assert_eq!(served.server.stats().requests(), 0, "no credential left");
    }
    let stranger = Site::of("Another authority").redfish().await;
    let entry = with(&stranger.entry, "ca_file", site.redfish().await.entry["ca_file"].clone());
    failed(&row(&entry).await, ReasonCode::TlsIssuer, "trusted authority");

    let served = site.redfish().await;
    let by = tokio::time::Instant::now() + EACH;
    let near = check_one(&providers(), &target(&served.entry), by, datetime!(2119-12-20 0:00 UTC)).await;
    assert!(near.is_good() && near.advice[0].contains("ends in 12 days"), "{near:?}");
}

#[tokio::test]
async fn members_are_checked_by_name_or_all_of_them() {
    let mut bmcs = Vec::new();
    for n in 0..12 {
        let mut uuid = super::bmcs::UUID_BYTES;
        uuid[15] = n;
        let bmc = ipmi_like(ipmi::Bmc::new(uuid, account(), [n; 32])).await;
        let entry = with(&bmc.entry, "uuid", uuid::Uuid::from_bytes(uuid).to_string());
        bmcs.push((format!("s{n:02}"), entry, bmc));
    }
    let map = map_of(bmcs.iter().map(|(name, entry, _)| (name.as_str(), entry.clone())));
    let rows = check(&providers(), &map, &[], EACH, NOW).await.unwrap();
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(CheckRow::is_good) && rows.is_sorted_by_key(|row| row.member.clone()));
    let one = check(&providers(), &map, &["s03".into()], EACH, NOW).await.unwrap();
    assert_eq!(one.iter().map(|row| row.member.as_str()).collect::<Vec<_>>(), ["s03"]);
    let missing = check(&providers(), &map, &["s03".into(), "s99".into()], EACH, NOW).await.unwrap_err();
    assert!(missing.to_string().contains("does not name s99"), "{missing}");
    assert!(bmcs.iter().all(|(_, _, bmc)| bmc.bmc.power_offs() == 0));
}

/// Counts how often a secret was asked for: once for each BMC that is being opened.
#[derive(Default)]
struct Counting(AtomicUsize);

impl SecretSource for Counting {
    fn reveal(&self, _name: &SecretName) -> Result<SecretString, SecretError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(PASSWORD.into())
    }
}

#[tokio::test]
async fn eight_are_checked_at_once_and_each_within_its_time() {
    let site = Site::new();
    let slow = site.redfish().await;
    slow.bmc().set_fault(Some(redfish::Fault::Slow(Duration::from_secs(600))));
    let entries: Vec<_> = (0..12)
        .map(|n| {
            let uuid = uuid::Uuid::from_u128(0x5d1c_0f6e_3b7a_4c02_9a41_0000_0000_0000 + n).to_string();
            let entry = with(&slow.entry, "system", format!("/redfish/v1/Systems/{n}"));
            (format!("s{n:02}"), with(&entry, "uuid", uuid))
        })
        .collect();
    let map = map_of(entries.iter().map(|(name, entry)| (name.as_str(), entry.clone())));
    let counting = Arc::new(Counting::default());
    let providers = Providers::new(ProviderSettings::default(), counting.clone());
    let all = check(&providers, &map, &[], Duration::from_secs(600), NOW);
    let enough = async {
        while slow.server.stats().requests() < AT_ONCE as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // A ninth would be there by now: nothing but its own start holds it up.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        rows = all => panic!("{rows:?}"),
        () = enough => {}
    }
    assert_eq!(counting.0.load(Ordering::SeqCst), AT_ONCE);

    let rows = check(&providers, &map, &["s01".into()], Duration::from_millis(200), NOW).await.unwrap();
    failed(&rows[0], ReasonCode::Deadline, "");
    assert_eq!(slow.bmc().resets(), 0);
}

/// Nine recorded BMCs, each in its own words.
#[tokio::test]
async fn contract_redfish_personalities_are_checked() {
    let site = Site::new();
    let plan = CertificatePlan::for_address([127, 0, 0, 1].into());
    let mut vendors = Vec::new();
    for name in Personality::names() {
        let bmc = Bmc::new(Personality::named(name).unwrap(), USER, PASSWORD);
        bmc.set_uuid(0, UUID);
        bmc.set_power(0, redfish::Power::On);
        let path = bmc.path(0).unwrap();
        let served = site.serve(bmc, &path, &plan).await;
        let row = row(&served.entry).await;
        assert!(row.is_good(), "{name}: {row:?}");
        assert_eq!(row.power.as_deref(), Some("On"), "{name}");
        assert_eq!(served.server.service().resets(), 0, "{name}");
        vendors.extend(row.vendor);
    }
    println!("{} recorded BMCs", Personality::names().count());
    // The Gigabyte board was sold by Cray, and says so.
    assert_eq!(
        vendors,
        ["Dell", "HPE", "Lenovo", "Supermicro", "Supermicro", "HPE Cray", "Cisco", "NVIDIA", "HPE Cray"]
    );
}

#[tokio::test]
async fn a_secret_that_is_missing_and_a_lab_that_is_not_allowed_are_told() {
    let bmc = ipmi().await;
    let by = tokio::time::Instant::now() + EACH;
    let none = check_one(&providers_with(&[]), &target(&bmc.entry), by, NOW).await;
    failed(&none, ReasonCode::SecretMissing, SECRET);
    let providers = providers_with(&[(SECRET, "123456789012345678901")]);
    let long = check_one(&providers, &target(&bmc.entry), by, NOW).await;
    failed(&long, ReasonCode::SecretMissing, "APELORA_BMC_SECRET_S1: the BMC password is 21 bytes long");
    let lab = row(&json!({"provider": "lima", "address": "apelora-s1"})).await;
    failed(&lab, ReasonCode::LabNotAllowed, "APELORA_BMC_ALLOW_LAB");
}

//! Real BMCs, as an operator names them: `APELORA_REAL_BMC_MAP` is a BMC map, the secrets that it names are in the
//! environment, and `APELORA_REAL_BMC_OFF` repeats the UUID of the one server that may be switched off.
//! `scripts/suites/real-bmc` runs what is here for each provider; the simulated BMCs are taken for real ones in every run,
//! so that a first evening with hardware is not the first time for these tests.

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::map::BmcMap;
use apelora_fencing::write::Outcome;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::bmcs::{PASSWORD, SECRET, Site, UUID, ipmi, map_of};
use super::rig::{Ended, fence_at_pace};
use crate::check::{CheckRow, check};
use crate::secret::EnvironmentSecrets;
use crate::{ProviderSettings, Providers};

/// How long one reading may take: as for `apelora bmc check`.
const EACH: Duration = Duration::from_secs(30);
/// The readings after a send are up to a second apart, for a minute, and so is real time.
const PACE: Duration = Duration::from_secs(1);

/// BMCs that are not ours to play with.
pub(super) struct Hardware {
    map: Value,
    secrets: EnvironmentSecrets,
    off: Option<String>,
    pace: Duration,
}

impl Hardware {
    /// What the environment names.
    #[expect(clippy::disallowed_methods, reason = "where an operator names the hardware and its secrets")]
    pub(super) fn given() -> Self {
        let map = std::env::var_os("APELORA_REAL_BMC_MAP").expect("set APELORA_REAL_BMC_MAP to a BMC map");
        let map = std::fs::read(&map).unwrap_or_else(|why| panic!("{}: {why}", map.display()));
        let off = std::env::var("APELORA_REAL_BMC_OFF").ok();
        Self { pace: PACE, ..Self::of(&map, EnvironmentSecrets::new(std::env::vars_os()), off) }
    }

    fn of(map: &[u8], secrets: EnvironmentSecrets, off: Option<String>) -> Self {
        BmcMap::parse(map, &[]).unwrap_or_else(|why| panic!("the map is refused: {why}"));
        Self { map: serde_json::from_slice(map).unwrap(), secrets, off, pace: Duration::ZERO }
    }

    /// The entries of one provider.
    fn entries(&self, provider: &str) -> Vec<(&str, &Value)> {
        let members = self.map["members"].as_object().unwrap();
        let entries: Vec<_> = members
            .iter()
            .filter(|(_, entry)| entry["provider"] == provider)
            .map(|(name, entry)| (name.as_str(), entry))
            .collect();
        assert!(!entries.is_empty(), "the map has no member with the provider {provider}");
        entries
    }

    fn providers(self) -> Providers {
        Providers::new(ProviderSettings::default(), std::sync::Arc::new(self.secrets))
    }

    /// Everything that a fencing does, up to and without the power-off; twice, because a BMC may be well the first time
    /// only. The last rows.
    pub(super) async fn read_all(self, provider: &str) -> Vec<CheckRow> {
        let entries = self.entries(provider);
        let map = map_of(entries.iter().map(|(name, entry)| (*name, (*entry).clone())));
        let providers = self.providers();
        let mut last = Vec::new();
        for _ in 0..2 {
            last = check(&providers, &map, &[], EACH, OffsetDateTime::UNIX_EPOCH).await.unwrap();
            for row in &last {
                println!("{}", serde_json::to_string(row).unwrap());
            }
            assert!(last.iter().all(CheckRow::is_good), "a power-off of one of them would be refused");
        }
        last
    }

    /// The whole way of a fencing, for the server whose UUID was repeated and for no other.
    pub(super) async fn switch_off(self, provider: &str) -> Ended {
        let off = self.off.as_deref().expect("APELORA_REAL_BMC_OFF must repeat the UUID of the server");
        let entries = self.entries(provider);
        let (name, entry) = *entries
            .iter()
            .find(|(_, entry)| entry["uuid"].as_str().is_some_and(|uuid| uuid.eq_ignore_ascii_case(off)))
            .unwrap_or_else(|| panic!("no member with the provider {provider} has the UUID {off}"));
        println!("{name} ({off}) is switched off");
        let map = map_of([("s1", entry.clone())]);
        let pace = self.pace;
        let ended = fence_at_pace(&self.providers(), &map, pace).await;
        for evidence in &ended.last.evidence {
            println!("{:>8} ms  {:?}  {}", evidence.offset.as_millis(), evidence.what, evidence.detail);
        }
        let last = &ended.last;
        let wanted = if last.sent { ReasonCode::PoweredOff } else { ReasonCode::AlreadyOff };
        assert_eq!((last.outcome, last.reason), (Outcome::Success, wanted));
        assert!(last.proof.is_some());
        ended
    }
}

/// A map of simulated BMCs, taken for real ones.
fn simulated(entries: &[(&str, &Value)], off: Option<&str>) -> Hardware {
    let members: serde_json::Map<_, _> =
        entries.iter().map(|(name, entry)| ((*name).to_owned(), (*entry).clone())).collect();
    let secrets = EnvironmentSecrets::new([(SECRET, PASSWORD)]);
    Hardware::of(json!({ "members": members }).to_string().as_bytes(), secrets, off.map(str::to_owned))
}

#[tokio::test]
async fn simulated_bmcs_pass_for_real_ones() {
    let site = Site::new();
    let (redfish, ipmi) = (site.redfish().await, ipmi().await);
    let one = || simulated(&[("rack1", &redfish.entry)], Some(&UUID.to_uppercase()));
    let other = || simulated(&[("rack2", &ipmi.entry)], Some(UUID));
    assert_eq!(one().read_all("redfish").await[0].power.as_deref(), Some("On"));
    assert_eq!(other().read_all("ipmi").await[0].power.as_deref(), Some("On"));
    assert_eq!((redfish.bmc().power_offs(), ipmi.bmc.power_offs()), (0, 0), "reading switches nothing");

    assert!(one().switch_off("redfish").await.last.sent);
    assert!(other().switch_off("ipmi").await.last.sent);
    assert_eq!((redfish.bmc().power_offs(), ipmi.bmc.power_offs()), (1, 1));
    assert!(!one().switch_off("redfish").await.last.sent, "it is off already");
    assert!(!other().switch_off("ipmi").await.last.sent);
    assert_eq!((redfish.bmc().power_offs(), ipmi.bmc.power_offs()), (1, 1));
}

#[tokio::test]
#[should_panic(expected = "has the UUID 61a39523-78f2-11e5-9862-e6402cfc3223")]
async fn a_server_whose_uuid_was_not_repeated_is_left_alone() {
    let site = Site::new();
    let redfish = site.redfish().await;
    let other = simulated(&[("rack1", &redfish.entry)], Some(super::bmcs::OTHER_UUID));
    other.switch_off("redfish").await;
}

#[tokio::test]
#[should_panic(expected = "a power-off of one of them would be refused")]
async fn hardware_that_cannot_be_used_fails_the_test() {
    let site = Site::new();
    let redfish = site.redfish().await;
    let wrong = super::bmcs::with(&redfish.entry, "uuid", super::bmcs::OTHER_UUID);
    simulated(&[("rack1", &wrong)], None).read_all("redfish").await;
}

//! Against BMCs that somebody else has written: the sushy-tools emulator, started by `scripts/suites/redfish`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use apelora_redfish::{
    Conversation, Endpoint, Network, PowerWord, RedfishError, ResetAnswer, SendReport, SystemChoice, Target,
};
use secrecy::SecretString;
use serde_json::Value;
use tokio::time::sleep;

use crate::caller::{Caller, Pace};
use crate::support::{json, path, soon, within};

/// Long enough for a switch-off of two seconds and its confirmation.
const PACE: Pace = Pace { deadline: Duration::from_secs(20), confirm_gap: Duration::from_secs(1) };

struct Lab(Value);

struct Emulated<'a> {
    lab: &'a Lab,
    name: &'a str,
}

impl Lab {
    fn started() -> Self {
        #[expect(clippy::disallowed_methods, reason = "where the suite tells what it has started")]
        let map = std::env::var_os("APELORA_REDFISH_MAP").expect("run scripts/suites/redfish");
        Self(json(Path::new(&map)))
    }

    fn bmc<'a>(&'a self, name: &'a str) -> Emulated<'a> {
        Emulated { lab: self, name }
    }

    fn password(&self) -> SecretString {
        self.0["password"].as_str().unwrap().into()
    }
}

impl Emulated<'_> {
    fn entry(&self) -> &Value {
        &self.lab.0["bmcs"][self.name]
    }

    fn uuid(&self, system: usize) -> &str {
        self.entry()["systems"][system].as_str().unwrap()
    }

    fn target(&self, system: SystemChoice) -> Target {
        Target {
            endpoint: Endpoint::https(self.entry()["address"].as_str().unwrap()).unwrap(),
            ca_file: Some(self.lab.0["ca"].as_str().unwrap().into()),
            user: self.lab.0["user"].as_str().unwrap().to_owned(),
            system,
        }
    }

    fn at(&self, system: usize) -> Target {
        self.target(path(&format!("/redfish/v1/Systems/{}", self.uuid(system))))
    }

    async fn power(&self, system: usize) -> PowerWord {
        let mut conversation =
            Conversation::open(&self.at(system), &self.lab.password(), soon()).await.unwrap();
        conversation.read(soon()).await.unwrap().power
    }

    async fn switch_off(&self, target: &Target, uuid: &str) -> (&'static str, String) {
        let caller =
            Caller { dial: Arc::new(Network), target, password: self.lab.password(), uuid, pace: &PACE };
        let ended = caller.switch_off().await;
        (ended.outcome, ended.reason)
    }
}

fn is(outcome: &'static str, reason: &str) -> (&'static str, String) {
    (outcome, reason.to_owned())
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_running_system_is_switched_off_and_off_is_proven() {
    let lab = Lab::started();
    let bmc = lab.bmc("1");
    assert_eq!(bmc.power(0).await, PowerWord::On);
    assert_eq!(bmc.switch_off(&bmc.at(0), bmc.uuid(0)).await, is("off", "powered_off"));
    assert_eq!(bmc.power(0).await, PowerWord::Off);
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_kept_connection_costs_one_handshake() {
    let lab = Lab::started();
    let bmc = lab.bmc("ka-1");
    let mut conversation = Conversation::open(&bmc.at(0), &lab.password(), soon()).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    let report = conversation.force_off(&reported, &mut || true, soon()).await;
    assert!(matches!(report, SendReport::MaybeSent(ResetAnswer::Accepted { status: 204 })), "{report:?}");
    let by = within(Duration::from_secs(20));
    while conversation.read(by).await.unwrap().power != PowerWord::Off {
        sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(conversation.traffic().connections, 1);
    conversation.close(soon()).await;
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_system_that_is_off_is_proven_off_without_a_send() {
    let lab = Lab::started();
    let bmc = lab.bmc("2");
    assert_eq!(bmc.switch_off(&bmc.at(0), bmc.uuid(0)).await, is("off", "already_off"));
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn the_wrong_server_is_refused() {
    let lab = Lab::started();
    let (mapped, other) = (lab.bmc("3"), lab.bmc("4"));
    // The neighbour's UUID is mapped to this BMC: by path, and by discovery.
    assert_eq!(mapped.switch_off(&mapped.at(0), other.uuid(0)).await, is("refused", "uuid_mismatch"));
    let carrying = mapped.target(SystemChoice::Carrying(other.uuid(0).parse().unwrap()));
    assert_eq!(mapped.switch_off(&carrying, other.uuid(0)).await, is("refused", "uuid_mismatch"));
    // The path of a system that this BMC does not have.
    assert_eq!(
        mapped.switch_off(&mapped.target(other.at(0).system), other.uuid(0)).await,
        is("refused", "http_status")
    );
    // The emulator redirects a system's name to its id: another path, so not followed.
    let by_name = mapped.target(path("/redfish/v1/Systems/bmc3-system1"));
    assert_eq!(mapped.switch_off(&by_name, mapped.uuid(0)).await, is("refused", "redirect"));
    assert_eq!((mapped.power(0).await, other.power(0).await), (PowerWord::On, PowerWord::On));
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_wrong_password_is_refused_once() {
    let lab = Lab::started();
    let bmc = lab.bmc("3");
    let mut conversation = Conversation::open(&bmc.at(0), &"wrong".into(), soon()).await.unwrap();
    let why = conversation.read(soon()).await.unwrap_err();
    assert!(matches!(why, RedfishError::Auth { status: 401, .. }) && !why.is_passing(), "{why}");
    assert_eq!(conversation.traffic().requests, 1);
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn of_two_systems_behind_one_bmc_the_right_one_goes_off() {
    let lab = Lab::started();
    let bmc = lab.bmc("5");
    let second = bmc.target(SystemChoice::Carrying(bmc.uuid(1).parse().unwrap()));
    assert_eq!(bmc.switch_off(&second, bmc.uuid(1)).await, is("off", "powered_off"));
    assert_eq!((bmc.power(0).await, bmc.power(1).await), (PowerWord::On, PowerWord::Off));
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_bmc_that_dies_mid_way_proves_nothing() {
    let lab = Lab::started();
    let bmc = lab.bmc("6");
    let mut conversation = Conversation::open(&bmc.at(0), &lab.password(), soon()).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    let report = conversation.force_off(&reported, &mut || true, soon()).await;
    assert!(report.may_have_been_sent());
    let pid = bmc.entry()["pid"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let why = conversation.read(soon()).await.unwrap_err();
    assert!(why.reason() == "unreachable" && why.is_passing(), "{why}");
    assert!(conversation.may_have_sent());
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn bad_certificates_are_refused() {
    let lab = Lab::started();
    let expected = [
        ("bad-expired", "tls_expired"),
        ("bad-notyet", "tls_not_yet_valid"),
        ("bad-wronghost", "tls_wrong_name"),
        ("bad-cnonly", "tls_no_alternative_name"),
        ("bad-ipasdns", "tls_address_as_dns_name"),
        ("bad-unknownca", "tls_unknown_issuer"),
        ("bad-selfsigned", "tls_unknown_issuer"),
        ("bad-vendorself", "tls_authority_as_server"),
    ];
    for (name, code) in expected {
        let bmc = lab.bmc(name);
        let mut target = bmc.at(0);
        if name == "bad-vendorself" {
            target.ca_file = Some(Path::new(lab.0["pki"].as_str().unwrap()).join("vendorself.pem"));
        }
        let why = Conversation::open(&target, &lab.password(), soon()).await.expect_err(name);
        assert_eq!(why.reason(), code, "{name}: {why}");
        println!("{name}: {why}");
    }
    let own = lab.bmc("bad-selfsigned");
    let ca_file = Some(Path::new(lab.0["pki"].as_str().unwrap()).join("selfsigned.pem"));
    let trusted = Target { ca_file, ..own.at(0) };
    assert!(Conversation::open(&trusted, &lab.password(), soon()).await.is_ok());
}

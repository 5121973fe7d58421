//! Against BMCs that somebody else has written: the sushy-tools emulator, started by `scripts/suites/redfish`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use apelora_fencing::Limits;
use apelora_fencing::write::Outcome;
use apelora_redfish::{
    Conversation, Dial, Dialing, Endpoint, Network, PowerWord, RedfishError, ResetAnswer, SendReport,
    SystemChoice, Target,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::machine::{Ended, fence};
use crate::support::{json as read_json, path, soon, within};

/// The machine's own figures wherever a BMC is concerned; the cluster around it lives faster, so that a test does not last
/// as long as a failure does.
fn limits() -> Limits {
    let millis = Duration::from_millis;
    Limits {
        pass_interval: millis(1000),
        fence_after: millis(1000),
        fence_after_min: millis(1000),
        lease_margin: millis(100),
        readback_deadline: Duration::from_secs(15),
        ..Limits::PRODUCTION
    }
}

struct Lab(Value);

struct Emulated<'a> {
    lab: &'a Lab,
    name: &'a str,
}

impl Lab {
    fn started() -> Self {
        #[expect(clippy::disallowed_methods, reason = "where the suite tells what it has started")]
        let map = std::env::var_os("APELORA_REDFISH_MAP").expect("run scripts/suites/redfish");
        Self(read_json(Path::new(&map)))
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

    /// The entry of the BMC map for its `system`th system, with or without the path.
    fn mapped(&self, system: usize, with_path: bool) -> Value {
        let mut entry = json!({"provider": "redfish", "address": self.entry()["address"], "user": self.lab.0["user"],
            "secret": "APELORA_BMC_SECRET_S1", "ca_file": self.lab.0["ca"], "uuid": self.uuid(system)});
        if with_path {
            entry["system"] = format!("/redfish/v1/Systems/{}", self.uuid(system)).into();
        }
        entry
    }
}

/// Lets the protocol machine switch off what the entry names.
async fn switch_off(lab: &Lab, entry: &Value, dial: Arc<dyn Dial>) -> (Outcome, &'static str) {
    match fence(entry, dial, lab.0["password"].as_str().unwrap(), limits()).await {
        Ended::Record(last) => {
            assert_eq!(last.proof.is_some(), last.outcome == Outcome::Success);
            (last.outcome, last.reason.as_str())
        }
        Ended::NoRecord(reasons) => panic!("{reasons:?}"),
    }
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_running_system_is_switched_off_and_off_is_proven() {
    let lab = Lab::started();
    let bmc = lab.bmc("1");
    assert_eq!(bmc.power(0).await, PowerWord::On);
    let ended = switch_off(&lab, &bmc.mapped(0, true), Arc::new(Network)).await;
    assert_eq!(ended, (Outcome::Success, "powered_off"));
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
    // 10 s apart, because nothing was sent.
    let ended = switch_off(&lab, &bmc.mapped(0, true), Arc::new(Network)).await;
    assert_eq!(ended, (Outcome::Success, "already_off"));
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn the_wrong_server_is_refused() {
    let lab = Lab::started();
    let (mapped, other) = (lab.bmc("3"), lab.bmc("4"));
    let refused = |reason| (Outcome::Refused, reason);
    // The neighbour's UUID is mapped to this BMC: by path, and by discovery.
    let mut entry = mapped.mapped(0, true);
    entry["uuid"] = other.uuid(0).into();
    assert_eq!(switch_off(&lab, &entry, Arc::new(Network)).await, refused("uuid_mismatch"));
    entry.as_object_mut().unwrap().remove("system");
    assert_eq!(switch_off(&lab, &entry, Arc::new(Network)).await, refused("uuid_mismatch"));
    // The path of a system that this BMC does not have.
    entry["system"] = format!("/redfish/v1/Systems/{}", other.uuid(0)).into();
    assert_eq!(switch_off(&lab, &entry, Arc::new(Network)).await, refused("http_status"));
    // The emulator redirects a system's name to its id: another path, so not followed.
    let mut by_name = mapped.mapped(0, true);
    by_name["system"] = "/redfish/v1/Systems/bmc3-system1".into();
    assert_eq!(switch_off(&lab, &by_name, Arc::new(Network)).await, refused("redirect"));
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
    let ended = switch_off(&lab, &bmc.mapped(1, false), Arc::new(Network)).await;
    assert_eq!(ended, (Outcome::Success, "powered_off"));
    assert_eq!((bmc.power(0).await, bmc.power(1).await), (PowerWord::On, PowerWord::Off));
}

/// Kills the BMC when it is dialled the third time. The emulator closes every connection: the first one is for the reading,
/// the second one for the reset, the third one would read back.
struct Killing {
    pid: String,
    dials: AtomicU32,
}

impl Dial for Killing {
    fn dial<'a>(&'a self, to: &'a Endpoint, by: Instant) -> Dialing<'a> {
        if self.dials.fetch_add(1, Ordering::Relaxed) == 2 {
            assert!(Command::new("kill").args(["-KILL", &self.pid]).status().unwrap().success());
        }
        Network.dial(to, by)
    }
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn a_bmc_that_dies_mid_way_proves_nothing() {
    let lab = Lab::started();
    let bmc = lab.bmc("6");
    let killing = Killing { pid: bmc.entry()["pid"].to_string(), dials: AtomicU32::new(0) };
    let ended = switch_off(&lab, &bmc.mapped(0, true), Arc::new(killing)).await;
    assert_eq!(ended, (Outcome::Failed, "readback_timeout"));
}

#[tokio::test]
#[ignore = "needs sushy-emulator: scripts/suites/redfish"]
async fn bad_certificates_are_refused() {
    let lab = Lab::started();
    let expected = [
        ("bad-expired", "expired on"),
        ("bad-notyet", "not valid before"),
        ("bad-wronghost", "is not for 127.0.0.1 but for"),
        ("bad-cnonly", "no subject alternative name"),
        ("bad-ipasdns", "as a DNS name, not as an IP address"),
        ("bad-unknownca", "not issued by a trusted authority"),
        ("bad-selfsigned", "not issued by a trusted authority"),
        ("bad-vendorself", "authority's certificate as its own"),
    ];
    for (name, defect) in expected {
        let bmc = lab.bmc(name);
        let mut target = bmc.at(0);
        if name == "bad-vendorself" {
            target.ca_file = Some(Path::new(lab.0["pki"].as_str().unwrap()).join("vendorself.pem"));
        }
        let why = Conversation::open(&target, &lab.password(), soon()).await.expect_err(name);
        assert!(why.to_string().contains(defect) && !why.is_passing(), "{name}: {why}");
        println!("{name}: {why}");
    }
    let own = lab.bmc("bad-selfsigned");
    let ca_file = Some(Path::new(lab.0["pki"].as_str().unwrap()).join("selfsigned.pem"));
    let trusted = Target { ca_file, ..own.at(0) };
    assert!(Conversation::open(&trusted, &lab.password(), soon()).await.is_ok());
}

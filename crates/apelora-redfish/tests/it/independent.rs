//! The simulated BMC seen by a client that somebody else has written: `fence_redfish` of Debian's fence-agents. It shows
//! that the simulation is a Redfish service, and what this client does better.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use apelora_lab::redfish::{
    Bmc, CertificatePlan, Fault, Listening, Personality, Power, Reply, Seen, Server, Service, TlsVersion,
    Whole,
};
use apelora_redfish::{Conversation, Endpoint};
use serde_json::json;

use crate::support::{PASSWORD, USER, authority, ca_file, path, soon, target};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn bmc(name: &str) -> Bmc {
    Bmc::new(Personality::named(name).unwrap(), USER, PASSWORD)
}

async fn listening<S: Service>(service: S) -> (Arc<Server<S>>, Listening) {
    let identity = authority().issue(&CertificatePlan::for_address(LOOPBACK)).unwrap();
    let server = Server::new(service, identity.server(TlsVersion::V12).unwrap());
    let listening = server.listen(SocketAddr::new(LOOPBACK, 0)).await.unwrap();
    (server, listening)
}

async fn fence_redfish(at: SocketAddr, system: String, action: &'static str, ca: PathBuf) -> Output {
    let run = move || {
        Command::new("fence_redfish")
            .args([
                "-a",
                &at.ip().to_string(),
                &format!("--ipport={}", at.port()),
                "-l",
                USER,
                "-p",
                PASSWORD,
            ])
            .args(["--ssl-secure", &format!("--systems-uri={system}"), "-o", action])
            .env("REQUESTS_CA_BUNDLE", ca)
            .output()
            .expect("fence_redfish, of Debian's package fence-agents")
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test]
#[ignore = "needs fence-agents: scripts/suites/redfish"]
async fn each_personality_is_a_redfish_service() {
    let ca = ca_file(authority().pem());
    for name in Personality::names() {
        let (server, listening) = listening(bmc(name)).await;
        let bmc = server.service();
        bmc.set_power(0, Power::On);
        let system = bmc.path(0).unwrap();
        let status = fence_redfish(listening.address(), system.clone(), "status", ca.clone()).await;
        assert!(String::from_utf8_lossy(&status.stdout).contains("Status: ON"), "{name}: {status:?}");
        let off = fence_redfish(listening.address(), system, "off", ca.clone()).await;
        assert!(off.status.success(), "{name}: {off:?}");
        assert_eq!(bmc.power(0), Some(Power::Off), "{name}");
    }
}

/// Whoever asks it anything, it says Off.
struct Liar;

impl Service for Liar {
    fn answer(&self, _request: &Seen) -> Reply {
        Reply::Whole(Whole::json(200, &json!({"PowerState": "Off"})))
    }
}

/// A redirect to another origin, which says Off: the other client reports the mapped server as off, and it runs.
#[tokio::test]
#[ignore = "needs fence-agents: scripts/suites/redfish"]
async fn a_redirect_elsewhere_fools_fence_redfish_and_not_this_client() {
    let ca = ca_file(authority().pem());
    let ((mapped, here), (liar, there)) = (listening(bmc("lenovo-xcc-sr670v2")).await, listening(Liar).await);
    let system = mapped.service().path(0).unwrap();
    mapped.service().set_fault(Some(Fault::Redirect(format!("https://{}{system}", there.address()))));

    let status = fence_redfish(here.address(), system.clone(), "status", ca).await;
    assert!(String::from_utf8_lossy(&status.stdout).contains("Status: OFF"), "{status:?}");
    assert_eq!(liar.stats().requests(), 1);

    let mut target = target(path(&system));
    target.endpoint = Endpoint::https(&here.address().to_string()).unwrap();
    let mut conversation = Conversation::open(&target, &PASSWORD.into(), soon()).await.unwrap();
    assert_eq!(conversation.read(soon()).await.unwrap_err().reason(), "redirect");
    assert_eq!(liar.stats().connections(), 1);
    assert_eq!(mapped.service().power(0), Some(Power::On));
}

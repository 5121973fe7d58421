//! Certificates that must not be believed: each is refused before a credential leaves.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apelora_lab::redfish::{
    After, Authority, Bmc, CertificatePlan, Identity, Life, Personality, Server, TlsVersion,
};
use apelora_redfish::{Conversation, Dial, Dialing, Endpoint, RedfishError, SendReport, Target};
use tokio::io::{AsyncWriteExt as _, duplex};
use tokio::time::Instant;

use crate::conversation::Closing;
use crate::support::{ADDRESS, PASSWORD, USER, Wire, authority, ca_file, path, server, soon, target};

/// Longest application data record of a refusing client: a TLS 1.3 alert (2 bytes), its type (1) and its tag (16). A
/// request with credentials is many times that.
const ALERT: usize = 19;

fn bmc() -> Bmc {
    Bmc::new(Personality::named("dell-idrac9-r750").unwrap(), USER, PASSWORD)
}

fn at_system() -> Target {
    target(path("/redfish/v1/Systems/System.Embedded.1"))
}

fn good() -> CertificatePlan {
    CertificatePlan::for_address(ADDRESS)
}

fn issued(plan: &CertificatePlan) -> Identity {
    authority().issue(plan).unwrap()
}

/// Tries to read a system from a BMC with this certificate, and to switch it off.
async fn attempt(
    identity: &Identity,
    target: &Target,
    version: TlsVersion,
) -> (Result<(), RedfishError>, Arc<Wire<Bmc>>) {
    let server = Server::new(bmc(), identity.server(version).unwrap());
    let wire = Wire::to(&server);
    let opened =
        Conversation::open_through(Arc::clone(&wire) as Arc<dyn Dial>, target, &PASSWORD.into(), soon())
            .await;
    let result = match opened {
        Ok(mut conversation) => conversation.read(soon()).await.map(|_| ()),
        Err(why) => Err(why),
    };
    assert_eq!(server.stats().requests(), u64::from(result.is_ok()));
    (result, wire)
}

#[tokio::test]
async fn bad_certificates_are_refused_before_credentials_leave() {
    let neighbour: IpAddr = "192.0.2.11".parse().unwrap();
    let plain = CertificatePlan { addresses: Vec::new(), ..good() };
    let other = Authority::new("Some other authority").unwrap();
    let factory = Identity::self_signed(&CertificatePlan { is_authority: true, ..good() }).unwrap();
    let trusting = |pem: &str| Target { ca_file: Some(ca_file(pem)), ..at_system() };
    let factory_trusted = trusting(factory.pem());

    let cases: Vec<(&str, Identity, Target, &str)> = vec![
        ("expired", issued(&CertificatePlan { life: Life::Expired, ..good() }), at_system(), "expired on"),
        (
            "not yet valid",
            issued(&CertificatePlan { life: Life::NotYet, ..good() }),
            at_system(),
            "not valid before",
        ),
        (
            "another host",
            issued(&CertificatePlan {
                addresses: vec!["192.0.2.99".parse().unwrap()],
                dns_names: vec!["bmc9.example.org".to_owned()],
                ..good()
            }),
            at_system(),
            "is not for 192.0.2.10 but for bmc9.example.org, 192.0.2.99",
        ),
        (
            "address as DNS name",
            issued(&CertificatePlan { dns_names: vec![ADDRESS.to_string()], ..plain.clone() }),
            at_system(),
            "as a DNS name, not as an IP address",
        ),
        (
            "common name only",
            issued(&CertificatePlan { common_name: ADDRESS.to_string(), ..plain }),
            at_system(),
            "no subject alternative name",
        ),
        (
            "unknown authority",
            other.issue(&good()).unwrap(),
            at_system(),
            "not issued by a trusted authority",
        ),
        (
            "self-signed",
            Identity::self_signed(&good()).unwrap(),
            at_system(),
            "not issued by a trusted authority",
        ),
        (
            "factory certificate, though trusted",
            factory,
            factory_trusted,
            "authority's certificate as its own",
        ),
        (
            "swapped with a neighbour's",
            issued(&CertificatePlan::for_address(neighbour)),
            at_system(),
            "is not for 192.0.2.10 but for 192.0.2.11",
        ),
        (
            "good, but only the system's roots are trusted",
            issued(&good()),
            Target { ca_file: None, ..at_system() },
            "not issued by a trusted authority",
        ),
    ];
    for (name, identity, target, defect) in &cases {
        for version in [TlsVersion::V12, TlsVersion::V13] {
            let (result, wire) = attempt(identity, target, version).await;
            let why = result.expect_err(name);
            assert!(why.to_string().contains(defect), "{name}, {version:?}: {why}");
            assert!(why.reason().starts_with("tls_") && !why.is_passing(), "{name}");
            let longest = wire.application_data().into_iter().max().unwrap_or(0);
            assert!(longest <= ALERT, "{name}, {version:?}: {longest} bytes left after the refusal");
        }
    }
    println!("{} bad certificates refused, each over TLS 1.2 and 1.3", cases.len());
}

#[tokio::test]
async fn good_certificates_are_believed() {
    let own = Identity::self_signed(&good()).unwrap();
    let trusted = Target { ca_file: Some(ca_file(own.pem())), ..at_system() };
    for version in [TlsVersion::V12, TlsVersion::V13] {
        for (identity, target) in [(&issued(&good()), &at_system()), (&own, &trusted)] {
            let (result, wire) = attempt(identity, target, version).await;
            result.unwrap();
            // The tap sees a request when there is one.
            assert!(wire.application_data().into_iter().max().unwrap() > 10 * ALERT);
        }
    }
}

#[tokio::test]
async fn a_name_is_checked_as_a_name() {
    let plan =
        CertificatePlan { addresses: Vec::new(), dns_names: vec!["bmc1.example.org".to_owned()], ..good() };
    for (address, fine) in [
        ("bmc1.example.org", true),
        ("BMC1.example.org:443", true),
        ("bmc2.example.org", false),
        ("192.0.2.10", false),
    ] {
        let target = Target { endpoint: Endpoint::https(address).unwrap(), ..at_system() };
        let (result, _) = attempt(&issued(&plan), &target, TlsVersion::V13).await;
        assert_eq!(result.is_ok(), fine, "{address}: {result:?}");
    }
}

#[tokio::test]
async fn refusals_name_the_remedy() {
    let expired = issued(&CertificatePlan { life: Life::Expired, ..good() });
    let (result, _) = attempt(&expired, &at_system(), TlsVersion::V13).await;
    let said = result.unwrap_err().to_string();
    assert!(said.contains("expired on 2021-01-01") && said.contains("install a new certificate"), "{said}");

    let elsewhere = issued(&CertificatePlan { addresses: vec!["192.0.2.99".parse().unwrap()], ..good() });
    let (result, _) = attempt(&elsewhere, &at_system(), TlsVersion::V13).await;
    let said = result.unwrap_err().to_string();
    assert!(said.contains("192.0.2.10") && said.contains("192.0.2.99") && said.contains("cabling"), "{said}");
}

#[tokio::test]
async fn a_ca_file_that_cannot_be_used_is_a_refusal_and_nobody_is_dialled() {
    let identity = issued(&good());
    for (name, file) in [
        ("missing", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("there-is-no-such-file.pem")),
        ("a folder", PathBuf::from(env!("CARGO_TARGET_TMPDIR"))),
        ("empty", ca_file("")),
        ("no certificate", ca_file("hello\n")),
        ("a broken certificate", ca_file("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")),
        ("a broken frame", ca_file("-----BEGIN CERTIFICATE-----\nAAAA\n")),
        ("too large", ca_file(&"x".repeat(2 << 20))),
    ] {
        let target = Target { ca_file: Some(file), ..at_system() };
        let (result, wire) = attempt(&identity, &target, TlsVersion::V13).await;
        let why = result.expect_err(name);
        assert!(why.to_string().contains("file of trusted certificates"), "{name}: {why}");
        assert_eq!(wire.dials(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_renewed_authority_needs_no_restart() {
    let renewed = Authority::new("Renewed authority").unwrap();
    let target = at_system();
    let (result, _) = attempt(&renewed.issue(&good()).unwrap(), &target, TlsVersion::V13).await;
    assert_eq!(result.unwrap_err().reason(), "tls_issuer");
    let both = format!("{}{}", authority().pem(), renewed.pem());
    std::fs::write(target.ca_file.as_ref().unwrap(), both).unwrap();
    let (result, _) = attempt(&renewed.issue(&good()).unwrap(), &target, TlsVersion::V13).await;
    result.unwrap();
}

/// A BMC that is replaced while a conversation goes on: the same address and authority, another certificate.
struct Swapped {
    first: Arc<dyn Dial>,
    second: Arc<dyn Dial>,
    now: AtomicBool,
}

impl Dial for Swapped {
    fn dial<'a>(&'a self, to: &'a Endpoint, by: Instant) -> Dialing<'a> {
        let dial = if self.now.load(Ordering::Relaxed) { &self.second } else { &self.first };
        dial.dial(to, by)
    }
}

#[tokio::test]
async fn a_peer_that_changes_during_a_conversation_is_sent_nothing() {
    let one = server(Closing(bmc(), After::Close), TlsVersion::V13);
    let two = server(bmc(), TlsVersion::V13);
    let (first, second) = (Wire::to(&one), Wire::to(&two));
    let now = AtomicBool::new(false);
    let swapped = Arc::new(Swapped { first, second: Arc::clone(&second) as Arc<dyn Dial>, now });
    let dial = Arc::clone(&swapped) as Arc<dyn Dial>;
    let mut conversation =
        Conversation::open_through(dial, &at_system(), &PASSWORD.into(), soon()).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    // Whoever answers at the address now is trusted as a BMC, but it is another one.
    swapped.now.store(true, Ordering::Relaxed);
    match conversation.force_off(&reported, &mut || true, soon()).await {
        SendReport::NotSent(why) => {
            assert!(why.to_string().contains("another certificate than before"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(conversation.read(soon()).await.unwrap_err().reason(), "tls_failed");
    assert!(!conversation.may_have_sent());
    assert_eq!((second.dials(), two.stats().requests(), two.service().resets()), (2, 0, 0));
    assert!(
        second.application_data().into_iter().all(|length| length < 10 * ALERT),
        "no request was written"
    );
}

/// A peer that answers a TLS greeting with something else.
struct Plain(&'static [u8]);

impl Dial for Plain {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            let (ours, mut theirs) = duplex(1024);
            let greeting = self.0;
            tokio::spawn(async move { theirs.write_all(greeting).await });
            Ok(apelora_redfish::Dialed { io: Box::new(ours), peer: None })
        })
    }
}

#[tokio::test]
async fn a_peer_without_usable_tls_is_told_apart() {
    for (greeting, code, said) in [
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".as_slice(),
            "tls_failed",
            "does not speak TLS",
        ),
        // A fatal handshake_failure alert (RFC 8446 section 6): nothing in common.
        (b"\x15\x03\x03\x00\x02\x02\x28".as_slice(), "tls_failed", "no common TLS protocol"),
        (b"".as_slice(), "bmc_unreachable", "connection broke"),
    ] {
        let opened =
            Conversation::open_through(Arc::new(Plain(greeting)), &at_system(), &PASSWORD.into(), soon())
                .await;
        let why = opened.unwrap_err();
        assert!(why.reason() == code && why.to_string().contains(said), "{why}");
    }
}

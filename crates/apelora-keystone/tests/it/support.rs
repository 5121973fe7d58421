//! What the tests share: recorded data, a simulated Keystone, and a wire that never touches a network.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use apelora_http::{Cause, Dial, Dialed, Dialing, Endpoint};
use apelora_keystone::{Config, Credentials, Identity, Limits, Question, Refusal, Token, Trust, Validator};
use apelora_lab::keystone::{Call, Keystone};
use apelora_lab::redfish::{Authority, CertificatePlan, Server, TlsVersion};
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::datetime;
use tokio::io::duplex;
use tokio::time::Instant;

/// Within the life of the recorded tokens.
pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-30 00:10 UTC);

pub(crate) const PASSWORD: &str = "S3cr3t-\"marker\"";

/// A file or folder of the recorded data: in the folder that `APELORA_TEST_DATA` names, or in the workspace.
pub(crate) fn data(name: &str) -> PathBuf {
    let named = env("APELORA_TEST_DATA").map(PathBuf::from);
    let above = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/data"));
    let root = named.or_else(|| above().find(|folder| folder.join("policy/keystone").is_dir()));
    root.expect("tests/data/policy, or a folder that APELORA_TEST_DATA names")
        .join("policy/keystone")
        .join(name)
}

#[expect(clippy::disallowed_methods, reason = "the one place where these tests read the environment")]
pub(crate) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The recorded answer to the validation of a persona's token.
pub(crate) fn body(persona: &str) -> Value {
    json(&data(&format!("token-{persona}.json")))["validate"]["response"]["body"].clone()
}

/// The authority that the tests trust.
pub(crate) fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Test authority").unwrap())
}

/// Writes a CA file of its own for the caller.
pub(crate) fn ca_file(pem: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ca-{}-{number}.pem", std::process::id()));
    fs::write(&path, pem).unwrap();
    path
}

pub(crate) fn server(address: IpAddr) -> Arc<Server<Keystone>> {
    let identity = authority().issue(&CertificatePlan::for_address(address)).unwrap();
    let account = Keystone::account("apelora", PASSWORD, "service", "Default");
    Server::new(Keystone::new(account), identity.server(TlsVersion::V13).unwrap())
}

pub(crate) fn config(url: &str) -> Config {
    Config {
        url: url.to_owned(),
        trust: Trust::OnlyFile(ca_file(authority().pem())),
        allow_plain_http: false,
        credentials: Credentials {
            username: "apelora".to_owned(),
            password: PASSWORD.into(),
            user_domain_name: "Default".to_owned(),
            project_name: "service".to_owned(),
            project_domain_name: "Default".to_owned(),
        },
        service_type: "baremetal".to_owned(),
        service_token_roles: vec!["service".to_owned()],
        limits: Limits::default(),
    }
}

/// Dials a server in this process. What a client and a server share is one in-memory pipe, so a paused clock moves only
/// when both of them wait.
struct Wire {
    server: Arc<Server<Keystone>>,
    refuse: Arc<AtomicU32>,
}

impl Dial for Wire {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            match self.refuse.load(Ordering::Relaxed) {
                0 => {}
                u32::MAX => std::future::pending().await,
                more => {
                    self.refuse.store(more - 1, Ordering::Relaxed);
                    let why = std::io::ErrorKind::ConnectionRefused.into();
                    return Err(Cause::Connect { to: "keystone".to_owned(), why });
                }
            }
            let (near, far) = duplex(64 * 1024);
            let server = Arc::clone(&self.server);
            tokio::spawn(async move { drop(server.serve(far).await) });
            Ok(Dialed { io: Box::new(near), peer: None })
        })
    }
}

/// A simulated Keystone and a validator that asks it.
#[derive(Clone)]
pub(crate) struct Lab {
    server: Arc<Server<Keystone>>,
    pub(crate) validator: Validator,
    refuse: Arc<AtomicU32>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Limits)) -> Self {
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 20));
        let server = server(address);
        let refuse = Arc::new(AtomicU32::new(0));
        let mut config = config(&format!("https://{address}:5000"));
        change(&mut config.limits);
        let wire = Wire { server: Arc::clone(&server), refuse: Arc::clone(&refuse) };
        let validator = Validator::through(Arc::new(wire), config).unwrap();
        Self { server, validator, refuse }
    }

    pub(crate) fn keystone(&self) -> &Keystone {
        self.server.service()
    }

    pub(crate) fn connections(&self) -> u64 {
        self.server.stats().connections()
    }

    /// Refuses so many connects; `u32::MAX` leaves all without an answer.
    pub(crate) fn refuse(&self, connects: u32) {
        self.refuse.store(connects, Ordering::Relaxed);
    }

    /// How often Keystone was asked for a token, and for a log-in.
    pub(crate) fn asked(&self) -> (usize, usize) {
        (self.keystone().count(Call::Validate), self.keystone().count(Call::LogIn))
    }

    pub(crate) async fn ask(&self, raw: &str) -> Result<Identity, Refusal> {
        self.ask_at(raw, NOW).await
    }

    pub(crate) async fn ask_at(&self, raw: &str, now: OffsetDateTime) -> Result<Identity, Refusal> {
        let token = token(raw);
        let question = Question { token: &token, service_token: None, method: "GET", path: "/v1/nodes" };
        self.validator.validate(&question, now, far()).await
    }

    pub(crate) async fn ask_with(&self, raw: &str, service: &str) -> Result<Identity, Refusal> {
        let (token, service) = (token(raw), token(service));
        let question =
            Question { token: &token, service_token: Some(&service), method: "GET", path: "/v1/nodes" };
        self.validator.validate(&question, NOW, far()).await
    }
}

pub(crate) fn token(raw: &str) -> Token {
    Token::read(raw.as_bytes()).unwrap()
}

/// A deadline that the validator's own always undercuts.
pub(crate) fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

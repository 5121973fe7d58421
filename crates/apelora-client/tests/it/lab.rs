//! Servers to talk to.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use apelora_client::{Auth, Client, ClientError, Config, Refusal, Retry, Trust};
use apelora_lab::redfish::{
    Authority, CertificatePlan, Listening, Reply, Seen, Server, Service, TlsVersion, Whole,
};
use apelora_server::{ServerConfig, Sources};
use apelora_store::{DatabaseUrl, Store, StoreConfig};
use serde_json::{Map, Value, json};
use time::macros::datetime;
use tokio::sync::oneshot;
use uuid::Uuid;

/// A control plane over SQLite, with the real listener. It stops with the test's runtime.
pub(crate) struct ControlPlane {
    pub(crate) url: String,
    pub(crate) folder: tempfile::TempDir,
    _stop: oneshot::Sender<()>,
}

impl ControlPlane {
    pub(crate) async fn start() -> Self {
        Self::configured(|_, _| {}).await
    }

    /// With a changed configuration; the folder is for files that it names.
    pub(crate) async fn configured(change: impl FnOnce(&mut ServerConfig, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite://{}", folder.path().join("a.db").display());
        let store = Store::connect(&StoreConfig::new(DatabaseUrl::parse(&database).unwrap())).await.unwrap();
        let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap(), "lab");
        change(&mut config, folder.path());
        let ticks = AtomicU64::new(0);
        let now = move || {
            let seconds = i64::try_from(ticks.fetch_add(1, Ordering::Relaxed)).unwrap();
            datetime!(2026-07-01 09:00:00) + time::Duration::seconds(seconds)
        };
        let server = apelora_server::Server::bind(config, store, Sources::new(now, new_id)).await.unwrap();
        let url = server.url();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { url, folder, _stop: stop }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_as(Auth::None)
    }

    pub(crate) fn client_as(&self, auth: Auth) -> Client {
        Client::new(Config { endpoint: Some(self.url.clone()), auth, ..config() }).unwrap()
    }
}

fn new_id() -> Uuid {
    #[expect(clippy::disallowed_methods, reason = "the one place where these tests make ids")]
    Uuid::new_v4()
}

/// Without pauses between two tries.
pub(crate) fn config() -> Config {
    Config {
        trust: Trust::OnlyFile(ca_file()),
        retry: Retry { pause: Duration::ZERO, ..Retry::default() },
        ..Config::default()
    }
}

/// A node of this name; its uuid.
pub(crate) async fn node(client: &Client, name: &str) -> String {
    let node = client.create_node(&fields(&json!({"driver": "fake-hardware", "name": name}))).await.unwrap();
    node.text("uuid").unwrap().to_owned()
}

pub(crate) fn fields(of: &Value) -> Map<String, Value> {
    of.as_object().unwrap().clone()
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> Refusal {
    match outcome {
        Err(ClientError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// A server that gives these answers one after the other, the last one for ever.
pub(crate) struct Script {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
}

impl Service for Script {
    fn answer(&self, request: &Seen) -> Reply {
        self.seen.lock().unwrap().push(request.clone());
        let mut replies = self.replies.lock().unwrap();
        if replies.len() > 1 { replies.pop_front().unwrap() } else { replies[0].clone() }
    }
}

pub(crate) struct Scripted {
    server: Arc<Server<Script>>,
    listening: Listening,
}

impl Scripted {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Script { replies: Mutex::new(replies.into_iter().collect()), seen: Mutex::default() };
        let server = https(script);
        let listening = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self { server, listening }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.listening.address())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(Config { endpoint: Some(self.url()), ..config() }).unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.server.service().seen.lock().unwrap().clone()
    }
}

/// A server whose certificate is good for 127.0.0.1.
pub(crate) fn https<S: Service>(service: S) -> Arc<Server<S>> {
    let plan = CertificatePlan::for_address("127.0.0.1".parse().unwrap());
    Server::new(service, authority().issue(&plan).unwrap().server(TlsVersion::V13).unwrap())
}

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Test authority").unwrap())
}

/// The file with the certificate that the tests trust.
pub(crate) fn ca_file() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ca-{}-{number}.pem", std::process::id()));
    std::fs::write(&path, authority().pem()).unwrap();
    path
}

/// A refusal in the shape of the Bare Metal API.
pub(crate) fn fault(status: u16, text: &str) -> Whole {
    let inner = json!({"faultcode": "Client", "faultstring": text, "debuginfo": null});
    Whole::json(status, &json!({"error_message": inner.to_string()}))
        .with_header("Openstack-Request-Id", "req-8d8d9a25")
}

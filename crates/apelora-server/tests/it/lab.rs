//! Servers under test, on every database that is there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use apelora_server::{Server, ServerConfig, Sources};
use apelora_store::{DatabaseUrl, Store, StoreConfig};
use serde_json::Value;
use sqlx::{Connection, MySqlConnection, PgConnection, SqliteConnection};
use time::macros::datetime;
use time::{Duration, PrimitiveDateTime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::client::{self, Answer};

/// The name of every server under test, which is that of the recordings.
pub(crate) const HOST: &str = "lab-conductor";

/// A server with a database of its own.
pub(crate) struct Lab {
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
    _folder: Option<tempfile::TempDir>,
}

/// The engines that are there, each with its name for messages.
pub(crate) async fn engines() -> Vec<(&'static str, Lab)> {
    let mut labs = Vec::new();
    for name in ["SQLite", "PostgreSQL", "MariaDB"] {
        labs.extend(on(name).await.map(|lab| (name, lab)));
    }
    labs
}

/// A server on the engine of this name, if that is there.
pub(crate) async fn on(engine: &str) -> Option<Lab> {
    let variable = match engine {
        "PostgreSQL" => "APELORA_TEST_POSTGRES_URL",
        "MariaDB" => "APELORA_TEST_MARIADB_URL",
        _ => return Some(Lab::sqlite().await),
    };
    match variable_of(variable) {
        Some(url) => Some(Lab::on_server(&url).await),
        None => None,
    }
}

/// The environment, read in this one place.
pub(crate) fn variable_of(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the one place where these tests read the environment")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A clock that moves on by a second with every look, and ids that nobody has had.
pub(crate) fn sources() -> Sources {
    let ticks = AtomicU64::new(0);
    let now = move || -> PrimitiveDateTime {
        let ticks = i64::try_from(ticks.fetch_add(1, Ordering::Relaxed)).unwrap();
        datetime!(2026-07-01 09:00:00) + Duration::seconds(ticks)
    };
    Sources::new(now, new_id)
}

/// An id that nobody has had.
pub(crate) fn new_id() -> Uuid {
    #[expect(clippy::disallowed_methods, reason = "the one place where these tests make ids")]
    Uuid::new_v4()
}

pub(crate) async fn sqlite_store(path: &Path) -> Store {
    let url = DatabaseUrl::parse(&format!("sqlite://{}", path.display())).unwrap();
    Store::connect(&StoreConfig::new(url)).await.unwrap()
}

impl Lab {
    /// On SQLite with the usual configuration.
    pub(crate) async fn sqlite() -> Self {
        Self::configured(|_| {}).await
    }

    /// On SQLite with a changed configuration.
    pub(crate) async fn configured(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = sqlite_store(&path).await;
        let mut lab = Self::start("127.0.0.1:0".parse().unwrap(), store, change).await;
        lab.url = format!("sqlite://{}", path.display());
        lab._folder = Some(folder);
        lab
    }

    /// In a fresh database of a server whose URL names one to start from.
    async fn on_server(admin: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("server_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        execute(admin, &format!("CREATE DATABASE {name}")).await;
        let (base, _) = admin.rsplit_once('/').expect("the URL of a test server ends with a database");
        let url = format!("{base}/{name}");
        let config = StoreConfig::new(DatabaseUrl::parse(&url).unwrap());
        Store::upgrade(&config).await.unwrap();
        let store = Store::connect(&config).await.unwrap();
        let mut lab = Self::start("127.0.0.1:0".parse().unwrap(), store, |_| {}).await;
        lab.url = url;
        lab
    }

    /// Changes the database past the server, as another service would.
    pub(crate) async fn sql(&self, statement: &str) {
        execute(&self.url, statement).await;
    }

    pub(crate) async fn start(
        listen: SocketAddr,
        store: Store,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        Self::start_with(listen, store, sources(), change).await
    }

    pub(crate) async fn start_with(
        listen: SocketAddr,
        store: Store,
        sources: Sources,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let mut config = ServerConfig::new(listen, HOST);
        change(&mut config);
        let server = Server::bind(config, store.clone(), sources).await.unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { address, store, url: String::new(), stop: Some(stop), serving, _folder: None }
    }

    /// Stops the server and waits until it has.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.serving.await.unwrap();
    }

    /// A request at a version, with a JSON body.
    pub(crate) async fn at(&self, version: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        let body = body.map(|b| b.to_string());
        let mut headers = vec![("X-OpenStack-Ironic-API-Version", version), ("Accept", "application/json")];
        if body.is_some() {
            headers.push(("Content-Type", "application/json"));
        }
        client::send(self.address, method, path, &headers, body.as_deref().map(str::as_bytes)).await
    }

    /// At the highest version.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.at("latest", method, path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.call("GET", path, None).await.expect(200).json()
    }

    /// Makes a node of this name; its uuid.
    pub(crate) async fn node(&self, name: &str) -> String {
        let body = serde_json::json!({"driver": "fake-hardware", "name": name});
        let node = self.call("POST", "/v1/nodes", Some(body)).await.expect(201).json();
        node["uuid"].as_str().unwrap().to_owned()
    }

    /// Asserts an entry; its uuid.
    pub(crate) async fn entry(&self, node: &str, entry_type: &str, reason: &str) -> String {
        let body = serde_json::json!({"type": entry_type, "reason": reason});
        let path = format!("/v1/nodes/{node}/maintenance");
        let entry = self.call("POST", &path, Some(body)).await.expect(201).json();
        entry["uuid"].as_str().unwrap().to_owned()
    }
}

/// Runs a statement past the server and its store, as another service would.
pub(crate) async fn execute(url: &str, statement: &str) {
    let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()));
    let done = if url.starts_with("sqlite") {
        let mut conn = SqliteConnection::connect(url).await.unwrap();
        let done = sql.execute(&mut conn).await.map(drop);
        conn.close().await.unwrap();
        done
    } else if url.starts_with("postgres") {
        let mut conn = PgConnection::connect(url).await.unwrap();
        let done = sql.execute(&mut conn).await.map(drop);
        conn.close().await.unwrap();
        done
    } else {
        let mut conn = MySqlConnection::connect(&url.replacen("mariadb:", "mysql:", 1)).await.unwrap();
        let done = sql.execute(&mut conn).await.map(drop);
        conn.close().await.unwrap();
        done
    };
    done.unwrap_or_else(|e| panic!("{statement}: {e}"));
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().find(|p| p.join("Cargo.lock").exists()).unwrap().to_owned()
}

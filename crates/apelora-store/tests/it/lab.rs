//! Databases for tests: each test has one of its own on every engine that is given.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use apelora_maintenance::{Authority, Denial, Entry, LockedNode, Operation, Scope, Stamp, plan};
use apelora_store::{
    Cell, ChangeError, Changed, DatabaseUrl, Engine, NodeChange, NodeColumn, NodeKey, NodePatch, Store,
    StoreConfig,
};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, Row, SqliteConnection};
use tempfile::TempDir;
use time::macros::datetime;
use time::{Duration, PrimitiveDateTime};
use uuid::Uuid;

/// A database of one test.
pub struct Lab {
    pub engine: Engine,
    pub config: StoreConfig,
    pub url: String,
    admin: Option<String>,
    name: String,
    _folder: TempDir,
}

/// The one place where the environment of the tests is read.
fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods)]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Runs a test on a fresh database of every engine; a database is dropped after its test has passed.
pub async fn on_every_engine<F: Future<Output = ()>>(test: impl Fn(Shared) -> F) {
    for engine in [Engine::Sqlite, Engine::Postgres, Engine::MariaDb] {
        on(engine, &test).await;
    }
}

/// Runs a test on a fresh database of this engine, if it is given.
pub async fn on<F: Future<Output = ()>>(engine: Engine, test: impl Fn(Shared) -> F) {
    let variable = match engine {
        Engine::Sqlite => "",
        Engine::Postgres => "APELORA_TEST_POSTGRES_URL",
        Engine::MariaDb => "APELORA_TEST_MARIADB_URL",
    };
    let admin = if variable.is_empty() { None } else { environment(variable) };
    if admin.is_none() && !variable.is_empty() {
        println!("{engine} was not given: {variable} is not set");
        return;
    }
    println!("on {engine}");
    let lab = std::sync::Arc::new(Lab::new(engine, admin).await);
    test(lab.clone()).await;
    lab.remove().await;
}

/// A test may hand its database to many tasks.
pub type Shared = std::sync::Arc<Lab>;

impl Lab {
    async fn new(engine: Engine, admin: Option<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("t_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let url = match &admin {
            None => format!("sqlite://{}", folder.path().join("test.db").display()),
            Some(admin) => {
                let (server, _) = admin.rsplit_once('/').unwrap();
                execute(engine, admin, &format!("CREATE DATABASE {name}")).await;
                format!("{server}/{name}")
            }
        };
        let config = StoreConfig::new(DatabaseUrl::parse(&url).unwrap());
        Self { engine, config, url, admin, name, _folder: folder }
    }

    /// Another empty database of the same engine; to be removed by hand.
    pub async fn sibling(&self) -> Self {
        Self::new(self.engine, self.admin.clone()).await
    }

    pub async fn remove(&self) {
        if let Some(admin) = &self.admin {
            let force = if self.engine == Engine::Postgres { " WITH (FORCE)" } else { "" };
            execute(self.engine, admin, &format!("DROP DATABASE {}{force}", self.name)).await;
        }
    }

    /// The store, with the schema made.
    pub async fn store(&self) -> Store {
        Store::upgrade(&self.config).await.unwrap();
        Store::connect(&self.config).await.unwrap()
    }

    /// Runs a statement past the store, as another service would.
    pub async fn sql(&self, statement: &str) -> u64 {
        execute(self.engine, &self.url, statement).await
    }

    /// The first column of every row, as text.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        texts(self.engine, &self.url, query).await
    }

    /// The one number that a query gives.
    pub async fn number(&self, query: &str) -> i64 {
        let as_text = match self.engine {
            Engine::MariaDb => format!("SELECT CAST(({query}) AS CHAR)"),
            _ => format!("SELECT CAST(({query}) AS TEXT)"),
        };
        self.texts(&as_text).await[0].parse().unwrap()
    }
}

async fn execute(engine: Engine, url: &str, statement: &str) -> u64 {
    let sql = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
    let done = match engine {
        Engine::Sqlite => {
            let mut conn = SqliteConnection::connect(&format!("{url}?mode=rwc")).await.unwrap();
            let done = sql.execute(&mut conn).await.map(|d| d.rows_affected());
            conn.close().await.unwrap();
            done
        }
        Engine::Postgres => {
            let mut conn = PgConnection::connect(url).await.unwrap();
            let done = sql.execute(&mut conn).await.map(|d| d.rows_affected());
            conn.close().await.unwrap();
            done
        }
        Engine::MariaDb => {
            let mut conn = MySqlConnection::connect(url).await.unwrap();
            let done = sql.execute(&mut conn).await.map(|d| d.rows_affected());
            conn.close().await.unwrap();
            done
        }
    };
    done.unwrap_or_else(|e| panic!("{statement}: {e}"))
}

async fn texts(engine: Engine, url: &str, query: &str) -> Vec<String> {
    macro_rules! texts {
        ($connection:ty) => {{
            let mut conn = <$connection>::connect(url).await.unwrap();
            let rows = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_all(&mut conn).await;
            let rows = rows.unwrap_or_else(|e| panic!("{query}: {e}"));
            let texts = rows
                .iter()
                .map(|row| {
                    let text: Option<String> = row.try_get_unchecked(0).unwrap();
                    text.unwrap_or_else(|| "NULL".to_owned())
                })
                .collect();
            conn.close().await.unwrap();
            texts
        }};
    }
    match engine {
        Engine::Sqlite => texts!(SqliteConnection),
        Engine::Postgres => texts!(PgConnection),
        Engine::MariaDb => texts!(MySqlConnection),
    }
}

/// A file of recorded data: `tests/data` of the workspace, or the folder that the environment names.
pub fn data(path: &str) -> PathBuf {
    let folder = environment("APELORA_TEST_DATA").map(PathBuf::from).unwrap_or_else(|| {
        let mut folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        while !folder.join("Cargo.lock").exists() {
            folder = folder.parent().expect("the workspace's root is above");
        }
        folder.join("tests/data")
    });
    folder.join(path)
}

/// The time of the tests' first change.
pub const START: PrimitiveDateTime = datetime!(2026-11-30 04:00:00);

/// An id that no other call gives.
pub fn id() -> Uuid {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{}-{number}", std::process::id()).as_bytes())
}

pub fn stamp() -> Stamp {
    stamp_at(START)
}

pub fn stamp_at(at: PrimitiveDateTime) -> Stamp {
    Stamp { change: id(), entry: id(), at, host: "lab".to_owned() }
}

pub fn stamp_after(secs: i64) -> Stamp {
    stamp_at(START + Duration::seconds(secs))
}

pub fn system() -> Authority {
    who(Scope::System, "operator", "")
}

pub fn who(scope: Scope, user: &str, project: &str) -> Authority {
    Authority { scope: Some(scope), user: user.to_owned(), project: project.to_owned() }
}

pub fn add(entry_type: &str, reason: Option<&str>) -> Operation {
    Operation::Add { entry_type: entry_type.to_owned(), reason: reason.map(str::to_owned), extra: None }
}

pub fn set(reason: &str) -> Operation {
    Operation::Set { reason: Some(reason.to_owned()) }
}

pub fn by_uuid(uuid: &str) -> NodeKey {
    NodeKey::Uuid(uuid.to_owned())
}

/// Makes a node with this name; its uuid.
pub async fn make_node(store: &Store, name: &str) -> String {
    make_node_with(store, name, NodePatch::new()).await
}

pub async fn make_node_with(store: &Store, name: &str, fields: NodePatch) -> String {
    let uuid = id().to_string();
    let mut fields = fields;
    fields.set(NodeColumn::Uuid, uuid.as_str());
    fields.set(NodeColumn::Name, Cell::opt_text((!name.is_empty()).then_some(name)));
    fields.set(NodeColumn::Driver, "fake-hardware");
    store.create_node(&stamp(), fields, None).await.unwrap();
    uuid
}

/// One operation on a node, for somebody whom policy allows everything.
pub async fn operate(
    store: &Store,
    uuid: &str,
    operation: &Operation,
    by: &Authority,
    stamp: &Stamp,
) -> Result<Changed, ChangeError<Denial>> {
    store
        .change_node(&by_uuid(uuid), stamp, |on| {
            plan(operation, &on.node, by, &mut |_| true, stamp).map(NodeChange::from)
        })
        .await
}

/// What the invariants say of one node as of one moment.
pub fn assert_whole(node: &LockedNode) {
    let LockedNode { node, entries } = node;
    assert_eq!(node.maintenance, !entries.is_empty(), "{node:?} {entries:?}");
    assert_eq!(node.maintenance_reason, apelora_maintenance::synthesise(entries), "{node:?}");
    let mut sorted = entries.clone();
    sorted.sort_by_key(|e: &Entry| e.asserted_at);
    assert_eq!(&sorted, entries);
}

//! The database of one course, on one of the three engines: of its own, with ways to hold it and to read all of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use apelora_store::{DatabaseUrl, Engine, Store, StoreConfig};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, Row as _};
use sqlx::{SqliteConnection, raw_sql};

/// The one place where the environment of these tests is read.
pub(crate) fn environment(name: &str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "tests are told so where databases are and how often they run"
    )]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A database.
pub(crate) struct Database {
    pub(crate) engine: Engine,
    url: String,
    admin: Option<String>,
    name: String,
}

/// Something in the database that is held until it is let go.
pub(crate) enum Held {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl Database {
    /// An empty one. That of SQLite is a file in this folder.
    pub(crate) async fn new(engine: Engine, folder: &Path) -> Self {
        let variable = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some("APELORA_TEST_POSTGRES_URL"),
            Engine::MariaDb => Some("APELORA_TEST_MARIADB_URL"),
        };
        let admin = variable.map(|variable| {
            environment(variable).unwrap_or_else(|| panic!("{variable} is not set: run scripts/test worker"))
        });
        Self::on(engine, folder, admin).await
    }

    /// An empty one on the server with this URL.
    pub(crate) async fn on(engine: Engine, folder: &Path, admin: Option<String>) -> Self {
        let name = format!("f_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let url = match &admin {
            None => format!("sqlite://{}", folder.join("apelora.db").display()),
            Some(admin) => {
                let create = format!("CREATE DATABASE {name}");
                match engine {
                    Engine::Postgres => {
                        execute(&mut PgConnection::connect(admin).await.unwrap(), &create).await;
                    }
                    _ => execute(&mut MySqlConnection::connect(admin).await.unwrap(), &create).await,
                }
                format!("{}/{name}", admin.rsplit_once('/').unwrap().0)
            }
        };
        Self { engine, url, admin, name }
    }

    /// Its URL, for a direct way to it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// `HOST:PORT` of its server, if there is one.
    pub(crate) fn server(&self) -> Option<&str> {
        self.admin.as_ref()?;
        let (_, rest) = self.url.split_once('@')?;
        rest.split('/').next()
    }

    /// Its URL by way of another address, unencrypted, so that what goes over it can be held up.
    pub(crate) fn url_by(&self, address: &str) -> String {
        let plain = if self.engine == Engine::Postgres { "sslmode=disable" } else { "ssl-mode=DISABLED" };
        let user = self.url.split_once('@').unwrap().0;
        format!("{user}@{address}/{}?{plain}", self.name)
    }

    /// A store with few connections, past everything that is held up.
    pub(crate) async fn store(&self) -> Store {
        let mut config = StoreConfig::new(DatabaseUrl::parse(&self.url).unwrap());
        config.connections = 2;
        Store::upgrade(&config).await.unwrap();
        Store::connect(&config).await.unwrap()
    }

    /// Takes the row of the open record, so that neither permit nor final can be written; on SQLite the write lock.
    pub(crate) async fn hold_record(&self) -> Held {
        let row = "SELECT id FROM apelora_fence_record WHERE open_slot = 1 FOR UPDATE";
        match self.engine {
            Engine::Sqlite => self.hold_writes().await,
            Engine::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await.unwrap();
                execute(&mut conn, "BEGIN").await;
                execute(&mut conn, row).await;
                Held::Postgres(conn)
            }
            Engine::MariaDb => {
                let mut conn = MySqlConnection::connect(&self.url).await.unwrap();
                execute(&mut conn, "START TRANSACTION").await;
                execute(&mut conn, row).await;
                Held::MariaDb(conn)
            }
        }
    }

    /// Takes the write lock of SQLite, as any other process may.
    pub(crate) async fn hold_writes(&self) -> Held {
        let mut conn = SqliteConnection::connect(&self.url).await.unwrap();
        execute(&mut conn, "PRAGMA busy_timeout = 5000").await;
        while let Err(busy) = (&mut conn).execute("BEGIN IMMEDIATE").await {
            assert!(busy.to_string().contains("locked"), "{busy}");
        }
        Held::Sqlite(conn)
    }

    /// Whether nobody holds the write lock of SQLite.
    pub(crate) async fn may_be_written(&self) -> bool {
        let mut conn = SqliteConnection::connect(&self.url).await.unwrap();
        execute(&mut conn, "PRAGMA busy_timeout = 0").await;
        let taken = (&mut conn).execute("BEGIN IMMEDIATE").await.is_ok();
        conn.close().await.unwrap();
        taken
    }

    /// The text of every column of every row of every table.
    pub(crate) async fn dump(&self) -> String {
        match self.engine {
            Engine::Sqlite => {
                let mut bytes = Vec::new();
                for suffix in ["", "-wal"] {
                    let file = PathBuf::from(format!("{}{suffix}", self.url.trim_start_matches("sqlite://")));
                    bytes.extend(std::fs::read(file).unwrap_or_default());
                }
                assert!(bytes.starts_with(b"SQLite format 3"), "no database");
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Engine::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await.unwrap();
                let tables =
                    "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'";
                let mut all = String::new();
                for table in sqlx::query(tables).fetch_all(&mut conn).await.unwrap() {
                    let table: String = table.get(0);
                    let rows = format!("SELECT t::text FROM {table} t");
                    for row in sqlx::query(AssertSqlSafe(rows)).fetch_all(&mut conn).await.unwrap() {
                        all += &format!("{table}: {}\n", row.get::<String, _>(0));
                    }
                }
                all
            }
            Engine::MariaDb => {
                let mut conn = MySqlConnection::connect(&self.url).await.unwrap();
                let columns = "SELECT table_name, GROUP_CONCAT('COALESCE(CAST(`', column_name, '` AS CHAR), ''NULL'')') \
                               FROM information_schema.columns WHERE table_schema = DATABASE() GROUP BY table_name";
                execute(&mut conn, "SET SESSION group_concat_max_len = 1000000").await;
                let mut all = String::new();
                for found in sqlx::query(columns).fetch_all(&mut conn).await.unwrap() {
                    let table: String = found.try_get_unchecked(0).unwrap();
                    let columns: String = found.try_get_unchecked(1).unwrap();
                    let rows = format!("SELECT CONCAT_WS(' | ', {columns}) FROM {table}");
                    for row in sqlx::query(AssertSqlSafe(rows)).fetch_all(&mut conn).await.unwrap() {
                        all += &format!("{table}: {}\n", row.try_get_unchecked::<String, _>(0).unwrap());
                    }
                }
                all
            }
        }
    }

    /// Removes it from its server.
    pub(crate) async fn drop(self) {
        let Some(admin) = &self.admin else { return };
        match self.engine {
            Engine::Postgres => {
                let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
                execute(&mut PgConnection::connect(admin).await.unwrap(), &drop).await;
            }
            _ => {
                let drop = format!("DROP DATABASE {}", self.name);
                execute(&mut MySqlConnection::connect(admin).await.unwrap(), &drop).await;
            }
        }
    }
}

impl Held {
    /// Lets it go, with nothing changed.
    pub(crate) async fn release(self) {
        match self {
            Self::Sqlite(mut conn) => {
                execute(&mut conn, "ROLLBACK").await;
                conn.close().await.unwrap();
            }
            // Either may be gone: what is idle for too long in a transaction is ended by the server.
            Self::Postgres(conn) => drop(conn.close().await),
            Self::MariaDb(conn) => drop(conn.close().await),
        }
    }
}

async fn execute<C>(conn: &mut C, statement: &str)
where
    for<'c> &'c mut C: sqlx::Executor<'c>,
{
    let done = raw_sql(AssertSqlSafe(statement.to_owned())).execute(conn).await;
    done.unwrap_or_else(|e| panic!("{statement}: {e}"));
}

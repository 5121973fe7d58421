//! Opening a database, and the settings that every connection has.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Database, Executor, MySqlPool, PgPool, SqlitePool};

use super::wire::Wire;
use super::{Class, Conn, Fault};
use crate::{Cause, ConnectError, Engine, StoreConfig};

/// How long a statement waits for a lock, on every engine. Below the client's own limit, so that the database answers.
const LOCK_WAIT_SECS: u64 = 5;
/// A transaction that is left alone for this long has lost its client: the server ends it and frees the node's lock.
const IDLE_IN_TRANSACTION_SECS: u64 = 10;
const SQLITE_READERS: u32 = 4;
/// Rows that the driver's thread may be ahead of the reader: a whole page.
const SQLITE_ROWS_AHEAD: usize = 1_000;

/// The connections to one database.
#[derive(Debug, Clone)]
pub(crate) enum Pools {
    /// One writer, handed out in the order of asking: SQLite's own waiting is unfair.
    Sqlite {
        writer: SqlitePool,
        readers: SqlitePool,
        file: OpenFile,
    },
    Postgres(PgPool),
    MariaDb(MySqlPool),
}

/// The file behind a SQLite database, as it was when it was opened.
///
/// SQLite goes on with a file that was removed or replaced under it: what is then acknowledged is nowhere to be found
/// after a restart.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl OpenFile {
    fn at(path: PathBuf) -> io::Result<Self> {
        let identity = Self::identity(&path)?;
        Ok(Self { path, identity })
    }

    fn identity(path: &Path) -> io::Result<(u64, u64)> {
        path.metadata().map(|found| (found.dev(), found.ino()))
    }

    /// Whether it is still the file that anybody else would open.
    fn check(&self) -> Result<(), Fault> {
        if Self::identity(&self.path).is_ok_and(|found| found == self.identity) {
            return Ok(());
        }
        let what = format!(
            "{} was removed, replaced or made unreachable while it was open: put it right and restart this process",
            self.path.display()
        );
        Err(Fault::new(Class::Unavailable, what))
    }
}

impl Pools {
    pub(crate) fn engine(&self) -> Engine {
        match self {
            Self::Sqlite { .. } => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
            Self::MariaDb(_) => Engine::MariaDb,
        }
    }

    /// A connection that only reads.
    pub(crate) async fn reader(&self, limit: Option<Duration>) -> Result<Conn, Fault> {
        let wire = match self {
            Self::Sqlite { readers, file, .. } => {
                file.check()?;
                Wire::Sqlite(readers.acquire().await?)
            }
            Self::Postgres(pool) => Wire::Postgres(pool.acquire().await?),
            Self::MariaDb(pool) => Wire::MariaDb(pool.acquire().await?),
        };
        Ok(Conn::new(wire, limit))
    }

    /// A connection that may write.
    pub(crate) async fn writer(&self, limit: Option<Duration>) -> Result<Conn, Fault> {
        match self {
            Self::Sqlite { writer, file, .. } => {
                let conn = writer.acquire().await?;
                // After the wait for the writer, which may be long.
                file.check()?;
                Ok(Conn::new(Wire::Sqlite(conn), limit))
            }
            Self::Postgres(_) | Self::MariaDb(_) => self.reader(limit).await,
        }
    }

    /// One connection of its own for the leader's renewals, which wait for nobody else's statements; made when it is
    /// first asked for, and again when it broke. Everything on it, its making and its waits for locks too, takes at most
    /// `limit`.
    ///
    /// On SQLite it is the one writer: what keeps that busy would keep another connection out just as long, and in its
    /// queue the renewal's turn comes for certain.
    pub(crate) fn lone(&self, limit: Duration) -> Self {
        let session = Session { statement: limit, lock: limit };
        match self {
            Self::Sqlite { .. } => self.clone(),
            Self::Postgres(pool) => {
                let own = lone::<sqlx::Postgres>(limit, session.postgres());
                Self::Postgres(own.connect_lazy_with((*pool.connect_options()).clone()))
            }
            Self::MariaDb(pool) => {
                let own = lone::<sqlx::MySql>(limit, session.mariadb());
                Self::MariaDb(own.connect_lazy_with((*pool.connect_options()).clone()))
            }
        }
    }

    /// Connections that are open, and those of them that are not in use.
    pub(crate) fn usage(&self) -> (u32, u32) {
        let (open, idle) = match self {
            Self::Sqlite { writer, readers, .. } => {
                (writer.size() + readers.size(), writer.num_idle() + readers.num_idle())
            }
            Self::Postgres(pool) => (pool.size(), pool.num_idle()),
            Self::MariaDb(pool) => (pool.size(), pool.num_idle()),
        };
        (open, u32::try_from(idle).unwrap_or(u32::MAX))
    }

    /// Closes every connection.
    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite { writer, readers, .. } => {
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
            Self::MariaDb(pool) => pool.close().await,
        }
    }
}

/// Opens the database for daily work.
pub(crate) async fn open(config: &StoreConfig) -> Result<Pools, ConnectError> {
    pools(config, config.statement_timeout).await
}

/// Opens the database for a change of its schema, where a statement may take long on adopted tables.
pub(crate) async fn open_for_upgrade(config: &StoreConfig) -> Result<Pools, ConnectError> {
    let config = StoreConfig { connections: 2, ..config.clone() };
    pools(&config, Duration::ZERO).await
}

async fn pools(config: &StoreConfig, statement: Duration) -> Result<Pools, ConnectError> {
    let url = config.url.expose();
    match config.url.engine() {
        Engine::Sqlite => sqlite(config).await,
        Engine::Postgres => {
            let options = PgConnectOptions::from_str(url)
                .map_err(|_| ConnectError::Url("it is not a valid postgresql:// URL".to_owned()))?
                .application_name("apelora")
                .disable_statement_logging();
            let session = Session::new(statement).postgres();
            try_once::<sqlx::Postgres>(config, &options, session.clone()).await?;
            let pool = shared::<sqlx::Postgres>(config, session);
            Ok(Pools::Postgres(pool.connect_lazy_with(options)))
        }
        Engine::MariaDb => {
            let options = MySqlConnectOptions::from_str(url)
                .map_err(|_| ConnectError::Url("it is not a valid mysql:// URL".to_owned()))?
                .disable_statement_logging();
            let session = Session::new(statement).mariadb();
            try_once::<sqlx::MySql>(config, &options, session.clone()).await?;
            let pool = shared::<sqlx::MySql>(config, session);
            Ok(Pools::MariaDb(pool.connect_lazy_with(options)))
        }
    }
}

/// The limits that the server itself keeps to.
#[derive(Debug, Clone, Copy)]
struct Session {
    /// One statement; zero for no limit.
    statement: Duration,
    /// One wait for a lock.
    lock: Duration,
}

impl Session {
    const fn new(statement: Duration) -> Self {
        Self { statement, lock: Duration::from_secs(LOCK_WAIT_SECS) }
    }

    fn postgres(self) -> String {
        format!(
            "SET lock_timeout = {}; SET statement_timeout = {}; \
             SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_SECS}s'; SET timezone = 'UTC'",
            self.lock.as_millis(),
            self.statement.as_millis(),
        )
    }

    /// READ COMMITTED, because a plain read at MariaDB's usual level sees the database as it was before the node's lock
    /// was granted. Strict, because a value that does not fit must be an error and not be cut. UTC, because the one
    /// function that tells the present time tells it in the session's zone.
    fn mariadb(self) -> String {
        format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', \
             innodb_lock_wait_timeout = {}, idle_transaction_timeout = {IDLE_IN_TRANSACTION_SECS}, \
             max_statement_time = {}",
            self.lock.as_secs().max(1),
            self.statement.as_secs_f64(),
        )
    }
}

fn with_session<DB>(options: PoolOptions<DB>, session: String) -> PoolOptions<DB>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    options.after_connect(move |conn, _| {
        let session = session.clone();
        Box::pin(async move { conn.execute(sqlx::raw_sql(AssertSqlSafe(session))).await.map(drop) })
    })
}

fn shared<DB>(config: &StoreConfig, session: String) -> PoolOptions<DB>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let options =
        PoolOptions::new().max_connections(config.connections).acquire_timeout(config.acquire_timeout);
    with_session(options, session)
}

fn lone<DB>(limit: Duration, session: String) -> PoolOptions<DB>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let options = PoolOptions::new()
        .max_connections(1)
        .acquire_timeout(limit)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None);
    with_session(options, session)
}

/// A pool that cannot connect only says that it waited in vain, so one connection is made by hand first.
async fn try_once<DB>(
    config: &StoreConfig,
    options: &<DB::Connection as Connection>::Options,
    session: String,
) -> Result<(), ConnectError>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let attempt = async {
        let mut conn = options.connect().await?;
        conn.execute(sqlx::raw_sql(AssertSqlSafe(session))).await?;
        conn.close().await
    };
    let hint = || {
        format!(
            "check that {} is running there and that user, password and database are right",
            config.url.engine()
        )
    };
    match tokio::time::timeout(config.acquire_timeout, attempt).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(unreachable(config, hint(), error)),
        Err(_) => Err(unreachable(config, hint(), format!("no answer within {:?}", config.acquire_timeout))),
    }
}

fn unreachable(
    config: &StoreConfig,
    hint: String,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ConnectError {
    ConnectError::Unreachable { database: config.url.to_string(), hint, cause: Cause::new(cause) }
}

async fn sqlite(config: &StoreConfig) -> Result<Pools, ConnectError> {
    let path = config.url.path();
    make_file(&path).map_err(|(hint, error)| unreachable(config, hint, error))?;
    let file = SqliteConnectOptions::new()
        .filename(&path)
        .busy_timeout(Duration::from_secs(LOCK_WAIT_SECS))
        .disable_statement_logging();
    let forever = |options: SqlitePoolOptions| {
        options
            .acquire_timeout(config.acquire_timeout)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
    };
    let writing = file
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        // An acknowledged change survives a power loss.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true);
    let hint = || "check that it is a SQLite database which this user may write".to_owned();
    // Two processes that open a new file at once may collide in the change to WAL, which does not wait.
    let mut tries = 0;
    loop {
        match writing.connect().await.map_err(Fault::from) {
            Ok(conn) => {
                conn.close().await.map_err(|error| unreachable(config, hint(), error))?;
                break;
            }
            Err(fault) if fault.class == Class::LockWait && tries < 50 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(fault) => {
                return Err(ConnectError::Unreachable {
                    database: config.url.to_string(),
                    hint: hint(),
                    cause: fault.into_cause(),
                });
            }
        }
    }
    let writer = forever(SqlitePoolOptions::new()).max_connections(1).connect_lazy_with(writing);
    let readers = forever(SqlitePoolOptions::new())
        .max_connections(SQLITE_READERS)
        .connect_lazy_with(file.pragma("query_only", "1").row_buffer_size(SQLITE_ROWS_AHEAD));
    let file = OpenFile::at(path).map_err(|error| unreachable(config, hint(), error))?;
    Ok(Pools::Sqlite { writer, readers, file })
}

/// Makes the file if it is not there, for its owner only; SQLite gives its companions the same mode.
fn make_file(path: &Path) -> Result<(), (String, io::Error)> {
    if path.is_dir() {
        let error = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(("it is a directory; name a file in it".to_owned(), error));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let hint = format!("the directory {} does not exist; make it first", folder.display());
        return Err((hint, io::Error::from(io::ErrorKind::NotFound)));
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            Err(("the file cannot be made; check the directory's owner and mode".to_owned(), error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Sql;
    use crate::{Cell, DatabaseUrl, Kind};

    async fn pragma(conn: &mut Conn, name: &str, kind: Kind) -> Cell {
        let sql = Sql::plain(format!("SELECT * FROM pragma_{name}"));
        conn.fetch(sql, &[kind]).await.unwrap().remove(0).remove(0)
    }

    #[tokio::test]
    async fn a_sqlite_writer_waits_for_the_disk_and_a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("a.db").display());
        let pools = open(&StoreConfig::new(DatabaseUrl::parse(&url).unwrap())).await.unwrap();
        let mut writer = pools.writer(None).await.unwrap();
        assert_eq!(pragma(&mut writer, "journal_mode", Kind::Text).await, Cell::from("wal"));
        assert_eq!(pragma(&mut writer, "synchronous", Kind::Int).await, Cell::Int(2));
        assert_eq!(pragma(&mut writer, "foreign_keys", Kind::Int).await, Cell::Int(1));
        let mut reader = pools.reader(None).await.unwrap();
        let refused = reader.execute(Sql::plain("CREATE TABLE t (a INTEGER)")).await.unwrap_err();
        assert!(refused.to_string().contains("readonly"), "{refused}");
    }
}

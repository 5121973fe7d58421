//! One connection, whatever the engine.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Executor, MySql, Postgres, Sqlite};

use super::{Class, Fault, Sql, bind};
use crate::{Cell, Engine, Kind};

pub(super) enum Wire {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
    MariaDb(PoolConnection<MySql>),
}

/// A connection out of a pool.
///
/// It goes back only when it is known to be at rest. One that is dropped in the middle of a transaction or of an
/// answer, because the caller went away or the server did not answer in time, is closed: the server then rolls back.
pub(crate) struct Conn {
    wire: Wire,
    /// How long a statement may take; `None` for changes of the schema.
    limit: Option<Duration>,
    at_rest: bool,
}

macro_rules! on_wire {
    ($wire:expr, $conn:ident => $body:expr) => {
        match $wire {
            Wire::Sqlite($conn) => $body,
            Wire::Postgres($conn) => $body,
            Wire::MariaDb($conn) => $body,
        }
    };
    ($wire:expr, $conn:ident, $driver:ident => $body:expr) => {
        match $wire {
            Wire::Sqlite($conn) => {
                use bind::sqlite as $driver;
                $body
            }
            Wire::Postgres($conn) => {
                use bind::postgres as $driver;
                $body
            }
            Wire::MariaDb($conn) => {
                use bind::mariadb as $driver;
                $body
            }
        }
    };
}

impl Conn {
    pub(super) fn new(wire: Wire, limit: Option<Duration>) -> Self {
        Self { wire, limit, at_rest: true }
    }

    pub(crate) fn engine(&self) -> Engine {
        match self.wire {
            Wire::Sqlite(_) => Engine::Sqlite,
            Wire::Postgres(_) => Engine::Postgres,
            Wire::MariaDb(_) => Engine::MariaDb,
        }
    }

    /// Runs a statement; the number of rows that it changed, or found to be as wanted already.
    pub(crate) async fn execute(&mut self, sql: Sql) -> Result<u64, Fault> {
        let before = self.leave_rest();
        let answer = within(self.limit, async {
            on_wire!(&mut self.wire, conn, driver => {
                let query = sqlx::query_with(AssertSqlSafe(sql.text), driver::arguments(sql.values)?);
                Ok((&mut **conn).execute(query).await?.rows_affected())
            })
        })
        .await;
        self.settle(before, answer)
    }

    /// Runs a statement that has no values without preparing it: beginnings and ends of transactions, settings, changes
    /// of the schema.
    pub(crate) async fn run(&mut self, text: &'static str) -> Result<(), Fault> {
        self.run_text(text.to_owned()).await
    }

    /// As [`Self::run`].
    pub(crate) async fn run_text(&mut self, text: String) -> Result<(), Fault> {
        let before = self.leave_rest();
        let answer = within(self.limit, async {
            on_wire!(&mut self.wire, conn => {
                (&mut **conn).execute(sqlx::raw_sql(AssertSqlSafe(text))).await?;
                Ok(())
            })
        })
        .await;
        self.settle(before, answer)
    }

    /// Runs a query; its columns are of these kinds.
    pub(crate) async fn fetch(&mut self, sql: Sql, kinds: &[Kind]) -> Result<Vec<Vec<Cell>>, Fault> {
        let before = self.leave_rest();
        let answer = within(self.limit, async {
            on_wire!(&mut self.wire, conn, driver => {
                let query = sqlx::query_with(AssertSqlSafe(sql.text), driver::arguments(sql.values)?);
                let rows = (&mut **conn).fetch_all(query).await?;
                rows.iter().map(|row| driver::cells(row, kinds)).collect::<Result<Vec<_>, Fault>>()
            })
        })
        .await;
        self.settle(before, answer)
    }

    /// Begins a transaction that will write. On SQLite it holds the file's write lock from here on.
    pub(crate) async fn begin(&mut self) -> Result<(), Fault> {
        match self.engine() {
            Engine::Sqlite => self.run("BEGIN IMMEDIATE").await?,
            Engine::Postgres => self.run("BEGIN ISOLATION LEVEL READ COMMITTED").await?,
            // The session's level is READ COMMITTED.
            Engine::MariaDb => self.run("START TRANSACTION").await?,
        }
        self.at_rest = false;
        Ok(())
    }

    /// Begins a transaction that reads the database as of one moment.
    pub(crate) async fn begin_snapshot(&mut self) -> Result<(), Fault> {
        match self.engine() {
            // The snapshot is the first read's.
            Engine::Sqlite => self.run("BEGIN").await?,
            Engine::Postgres => self.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?,
            Engine::MariaDb => {
                self.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
                self.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
            }
        }
        self.at_rest = false;
        Ok(())
    }

    /// Commits. After an error the connection is not used again.
    pub(crate) async fn commit(mut self) -> Result<(), Fault> {
        self.run("COMMIT").await?;
        self.at_rest = true;
        Ok(())
    }

    /// Gives the transaction up. A connection that cannot even do that is closed, which comes to the same.
    pub(crate) async fn rollback(mut self) {
        if self.run("ROLLBACK").await.is_ok() {
            self.at_rest = true;
        }
    }

    /// Gives the transaction up after an error; without a word to a server that no longer answers.
    pub(crate) async fn abandon(self, fault: &Fault) {
        if fault.class != Class::Connection {
            self.rollback().await;
        }
    }

    fn leave_rest(&mut self) -> bool {
        std::mem::replace(&mut self.at_rest, false)
    }

    /// After an answer of the database the connection is where it was; after none it is not to be used again.
    fn settle<T>(&mut self, before: bool, answer: Result<T, Fault>) -> Result<T, Fault> {
        let answered = !matches!(&answer, Err(f) if f.class == Class::Connection);
        self.at_rest = before && answered;
        answer
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if !self.at_rest {
            on_wire!(&mut self.wire, conn => conn.close_on_drop());
        }
    }
}

async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match limit {
        None => work.await,
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(Fault::new(Class::Connection, format!("no answer from the database within {limit:?}")))
        }),
    }
}

//! Errors of the drivers, classified by what a caller can do about them.

use std::fmt;

use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

use crate::{Cause, StoreError};

/// What can be done about a failed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Class {
    /// The transaction was given up in favour of another one: run it again.
    Deadlock,
    /// Likewise, because it could not be ordered with another one.
    Serialization,
    /// A lock was not granted in time: run it again.
    LockWait,
    /// A unique constraint; the words name it: on SQLite `table.column, …`, elsewhere the constraint.
    Unique(String),
    /// The statement took too long and was stopped.
    Timeout,
    /// A character that the column's character set does not have.
    Charset,
    /// The connection or the server is gone; what was not committed is not there.
    Connection,
    /// No connection was to be had, or the server takes no writes at the moment.
    Unavailable,
    /// Anything else: a fault of the program or of the database.
    Other,
}

/// A failed statement.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) class: Class,
    error: Box<dyn std::error::Error + Send + Sync>,
}

impl Fault {
    pub(crate) fn new(class: Class, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { class, error: error.into() }
    }

    /// Something in the database that cannot be read.
    pub(crate) fn corrupt(what: String) -> Self {
        Self::new(Class::Other, what)
    }

    /// What the driver said.
    pub(crate) fn cause(&self) -> &(dyn std::error::Error + Send + Sync) {
        &*self.error
    }

    pub(crate) fn into_cause(self) -> Cause {
        Cause::new(self.error)
    }

    /// Whether an answer to COMMIT says for certain that nothing of the transaction was kept.
    pub(crate) fn refuses_commit(&self) -> bool {
        matches!(self.class, Class::Deadlock | Class::Serialization | Class::LockWait | Class::Unavailable)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.class, self.error)
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self { class: classify(&error), error: error.into() }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault.class {
            Class::Other | Class::Charset | Class::Unique(_) => Self::Failed(fault.into_cause()),
            Class::Deadlock
            | Class::Serialization
            | Class::LockWait
            | Class::Timeout
            | Class::Connection
            | Class::Unavailable => Self::Unavailable(fault.into_cause()),
        }
    }
}

fn classify(error: &sqlx::Error) -> Class {
    match error {
        sqlx::Error::Database(error) => {
            if let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() {
                mariadb(error.number(), error.message())
            } else if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
                postgres(error.code(), error.constraint())
            } else if let Some(error) = error.try_downcast_ref::<SqliteError>() {
                use sqlx::error::DatabaseError;
                let code = error.code().and_then(|code| code.parse().ok()).unwrap_or_default();
                sqlite(code, error.message())
            } else {
                Class::Other
            }
        }
        // After a protocol error the connection cannot be understood any more.
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            Class::Connection
        }
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Class::Unavailable,
        _ => Class::Other,
    }
}

/// Source: MariaDB's list of error codes. Galera reports conflicts between its nodes as 1213, also from COMMIT.
fn mariadb(number: u16, message: &str) -> Class {
    match number {
        1213 => Class::Deadlock,
        1020 => Class::Serialization,
        1205 => Class::LockWait,
        1969 => Class::Timeout,
        1062 => Class::Unique(mariadb_key(message).to_owned()),
        1366 => Class::Charset,
        // Shutting down, killed, idle for too long in a transaction, aborted.
        1053 | 1077 | 1152 | 1184 | 1317 | 1927 | 4031 => Class::Connection,
        // Too many connections, Galera node not ready, read-only server, table full.
        1040 | 1203 | 1047 | 1290 | 1836 | 1114 | 1226 => Class::Unavailable,
        _ => Class::Other,
    }
}

/// `Duplicate entry 'VALUE' for key 'KEY'`; the value is the caller's and may look like anything.
fn mariadb_key(message: &str) -> &str {
    let key = message.rsplit_once(" for key '").map_or("", |(_, key)| key.trim_end_matches('\''));
    key.rsplit_once('.').map_or(key, |(_, key)| key)
}

/// Source: PostgreSQL, appendix A.
fn postgres(code: &str, constraint: Option<&str>) -> Class {
    match code {
        "40P01" => Class::Deadlock,
        "40001" => Class::Serialization,
        "55P03" => Class::LockWait,
        "57014" => Class::Timeout,
        "23505" => Class::Unique(constraint.unwrap_or_default().to_owned()),
        // A character that the database's own encoding does not have.
        "22P05" => Class::Charset,
        // Too many connections, disk full, a standby.
        "53300" | "53100" | "53200" | "25006" => Class::Unavailable,
        // Idle for too long in a transaction, shutting down or starting up, connection exceptions.
        "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Class::Connection,
        _ if code.starts_with("08") => Class::Connection,
        _ => Class::Other,
    }
}

/// Source: SQLite, *Result and Error Codes*; the low byte is the primary code.
fn sqlite(code: i32, message: &str) -> Class {
    match (code & 0xff, code) {
        (5 | 6, _) => Class::LockWait,
        (_, 2067 | 1555) => Class::Unique(
            message.rsplit_once("UNIQUE constraint failed: ").map_or("", |(_, columns)| columns).to_owned(),
        ),
        // Read-only, disk full, cannot open.
        (8 | 13 | 14, _) => Class::Unavailable,
        // The disk failed, perhaps in the middle of a commit.
        (10, _) => Class::Connection,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_mean_run_it_again() {
        assert_eq!(mariadb(1213, ""), Class::Deadlock);
        assert_eq!(mariadb(1205, ""), Class::LockWait);
        assert_eq!(mariadb(1020, ""), Class::Serialization);
        assert_eq!(postgres("40P01", None), Class::Deadlock);
        assert_eq!(postgres("40001", None), Class::Serialization);
        for busy in [5, 6, 261, 517, 773] {
            assert_eq!(sqlite(busy, ""), Class::LockWait, "{busy}");
        }
        assert_eq!(postgres("42601", None), Class::Other);
        assert_eq!(postgres("57P01", None), Class::Connection);
        assert_eq!(postgres("08006", None), Class::Connection);
    }

    #[test]
    fn a_disk_that_takes_no_writes_is_trouble_that_passes() {
        for refused in [8, 13, 14, 1032] {
            let fault = Fault::new(sqlite(refused, ""), "");
            assert_eq!(fault.class, Class::Unavailable, "{refused}");
            assert!(fault.refuses_commit(), "{refused}: nothing was kept");
        }
        // After a failed write or sync nobody knows: the change has to be looked for.
        for failed in [10, 778, 1034] {
            let fault = Fault::new(sqlite(failed, ""), "");
            assert_eq!(fault.class, Class::Connection, "{failed}");
            assert!(!fault.refuses_commit(), "{failed}");
        }
    }

    #[test]
    fn the_constraint_is_named_whatever_the_value_is() {
        let value = "Duplicate entry 'x' for key 'uniq_nodes0uuid'' for key 'uniq_nodes0name'";
        assert_eq!(mariadb(1062, value), Class::Unique("uniq_nodes0name".into()));
        assert_eq!(mariadb(1062, "Duplicate entry '' for key 'nodes.k'"), Class::Unique("k".into()));
        let columns = "UNIQUE constraint failed: nodes.name";
        assert_eq!(sqlite(2067, columns), Class::Unique("nodes.name".into()));
        assert_eq!(postgres("23505", Some("uniq_nodes0name")), Class::Unique("uniq_nodes0name".into()));
    }
}

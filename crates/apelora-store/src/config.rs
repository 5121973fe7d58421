//! Which database, and the limits of talking to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use crate::ConnectError;

/// The database engines that are served by one code path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One file on this host; the embedded form.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB, alone or as a Galera cluster.
    MariaDb,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

/// A database URL. It may hold a password: it prints without one.
#[derive(Clone)]
pub struct DatabaseUrl {
    engine: Engine,
    url: SecretString,
    shown: String,
}

impl DatabaseUrl {
    /// Reads `sqlite://relative/path`, `sqlite:///absolute/path`, `postgresql://`, `postgres://`, `mysql://` or
    /// `mariadb://`.
    ///
    /// # Errors
    /// [`ConnectError::Url`] with what is wrong; never the URL itself.
    pub fn parse(url: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| bad("it has no scheme; use sqlite://PATH, postgresql:// or mysql://"))?;
        let engine = match scheme {
            "sqlite" => Engine::Sqlite,
            "postgresql" | "postgres" => Engine::Postgres,
            "mysql" | "mariadb" => Engine::MariaDb,
            other => {
                return Err(bad(&format!("scheme '{other}' is not one of sqlite, postgresql and mysql")));
            }
        };
        if rest.is_empty() {
            return Err(bad("nothing follows the scheme"));
        }
        if engine == Engine::Sqlite && (rest.contains('?') || rest == ":memory:") {
            return Err(bad("after sqlite:// stands the path of a file, and nothing else"));
        }
        let shown = match engine {
            Engine::Sqlite => format!("sqlite://{rest}"),
            _ => {
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                let (user, host) = rest.rsplit_once('@').unwrap_or(("", rest));
                let user = user.split(':').next().unwrap_or_default();
                let at = if user.is_empty() { "" } else { "@" };
                format!("{scheme}://{user}{at}{host}")
            }
        };
        // One word per engine from here on; the driver knows no others.
        let url = match engine {
            Engine::Sqlite => rest.to_owned(),
            Engine::Postgres => format!("postgresql://{rest}"),
            Engine::MariaDb => format!("mysql://{rest}"),
        };
        Ok(Self { engine, url: url.into(), shown })
    }

    /// The engine that it names.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The whole URL for the driver, with the password.
    pub(crate) fn expose(&self) -> &str {
        self.url.expose_secret()
    }

    /// The file, if the database is one.
    pub fn file(&self) -> Option<PathBuf> {
        (self.engine == Engine::Sqlite).then(|| self.path())
    }

    /// The file of a SQLite database.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(self.url.expose_secret())
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({})", self.shown)
    }
}

fn bad(problem: &str) -> ConnectError {
    ConnectError::Url(problem.to_owned())
}

/// How to open the store.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The database.
    pub url: DatabaseUrl,
    /// Connections to PostgreSQL or MariaDB. SQLite has one writer and four readers instead.
    pub connections: u32,
    /// How long to wait for a connection before giving up.
    pub acquire_timeout: Duration,
    /// How long one statement may take, its wait for a lock included.
    pub statement_timeout: Duration,
    /// How long to keep asking whether a commit without an answer was made.
    pub commit_budget: Duration,
}

impl StoreConfig {
    /// The usual limits: 10 connections, 5 s to get one, 10 s for a statement, 15 s for an unanswered commit.
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            connections: 10,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            commit_budget: Duration::from_secs(15),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_printed() {
        let url =
            DatabaseUrl::parse("postgresql://me:s3cret@db.example:5432/apelora?password=s3cret").unwrap();
        assert_eq!(url.to_string(), "postgresql://me@db.example:5432/apelora");
        assert!(!format!("{url:?}").contains("s3cret"));
        let url = DatabaseUrl::parse("mariadb://me:s3@cret@db/x").unwrap();
        assert_eq!((url.engine(), url.to_string().as_str()), (Engine::MariaDb, "mariadb://me@db/x"));
    }

    #[test]
    fn paths_and_wrong_schemes() {
        assert_eq!(
            DatabaseUrl::parse("sqlite:///var/lib/a.db").unwrap().path(),
            PathBuf::from("/var/lib/a.db")
        );
        assert_eq!(DatabaseUrl::parse("sqlite://a.db").unwrap().path(), PathBuf::from("a.db"));
        for wrong in ["a.db", "oracle://x", "sqlite://", "", "sqlite://:memory:", "sqlite://a.db?mode=ro"] {
            assert!(matches!(DatabaseUrl::parse(wrong), Err(ConnectError::Url(_))), "{wrong}");
        }
    }
}

//! The configuration of the verbs that work on the database alone.

use super::table::{DATABASE_URL, HOST, LOG, LOG_FORMAT, Setting};
use super::{Configuration, OneLine, Resolved};
use apelora_store::DatabaseUrl;

/// What `apelora db` runs with.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseConfig {
    /// The database.
    pub(crate) database_url: DatabaseUrl,
    /// This service's name; `None` is the host's.
    pub(crate) host: Option<String>,
    /// How and what is logged.
    pub(crate) log: LogConfig,
}

/// How and what is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogConfig {
    /// A filter that has been checked.
    pub(crate) filter: String,
    /// The look of a line.
    pub(crate) format: LogFormat,
}

/// The look of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object on each line.
    Json,
}

impl Configuration for DatabaseConfig {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[&DATABASE_URL, &HOST, &LOG, &LOG_FORMAT];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        Ok(Self { database_url: database_url(values)?, host: host(values)?, log: log(values)? })
    }
}

pub(super) fn database_url(values: &Resolved) -> Result<DatabaseUrl, OneLine> {
    // The value itself stays out of the message: it may hold a password.
    DatabaseUrl::parse(values.text(&DATABASE_URL)?).map_err(|problem| {
        values.refuse(
            &DATABASE_URL,
            &problem.to_string(),
            "give sqlite://PATH, postgresql://USER:PASSWORD@HOST/NAME or mysql://USER:PASSWORD@HOST/NAME",
        )
    })
}

pub(super) fn host(values: &Resolved) -> Result<Option<String>, OneLine> {
    let Some(name) = values.optional(&HOST)? else { return Ok(None) };
    if name.chars().count() > 255 || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(values.refuse(
            &HOST,
            "longer than 255 characters, or with blanks in it",
            "give the name of this host",
        ));
    }
    Ok(Some(name.to_owned()))
}

pub(super) fn log(values: &Resolved) -> Result<LogConfig, OneLine> {
    let filter = values.text(&LOG)?;
    if let Err(problem) = tracing_subscriber::EnvFilter::builder().parse(filter) {
        return Err(values.refuse(
            &LOG,
            &format!("'{filter}' is not a log filter ({problem})"),
            "give error, warn, info, debug or trace, or PART=LEVEL with commas between",
        ));
    }
    let format = values.choice(&LOG_FORMAT, &[("text", LogFormat::Text), ("json", LogFormat::Json)])?;
    Ok(LogConfig { filter: filter.to_owned(), format })
}

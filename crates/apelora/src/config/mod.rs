//! Configuration: built-in defaults < a TOML file < the environment < flags, for one process at a time.
//!
//! The sources are parameters, so a test can choose them; the real environment is read in `main` only. Whatever is
//! wrong with a setting stops the start with one line that names it, where it came from and the remedy.

mod client;
mod database;
mod flags;
mod keystone;
mod policy;
mod resolve;
mod sample;
mod server;
mod table;
mod values;
mod worker;

use std::fmt;

pub(crate) use client::{ClientSettings, openstack};
pub(crate) use database::{DatabaseConfig, LogConfig, LogFormat};
pub(crate) use flags::Flags;
pub(crate) use policy::PolicyConfig;
pub(crate) use resolve::{Provenance, Resolved, Sources};
pub(crate) use sample::sample;
pub(crate) use server::{HistoryRetention, ServerConfig};
use table::Setting;
pub(crate) use table::{BMC_SECRET_PREFIX, DATABASE_URL_NAME};
pub(crate) use worker::{BmcCheckConfig, BmcSettings, IncusSettings, LeaseCheckConfig, WorkerConfig};

use crate::printable::printable;

/// The configuration of one process.
pub(crate) trait Configuration: Sized {
    /// The settings that this process reads, in the order of its help.
    fn settings() -> &'static [&'static Setting];

    /// Makes the typed configuration out of the values that won.
    ///
    /// # Errors
    /// The first value that is out of range or contradicts another.
    fn build(values: &Resolved) -> Result<Self, OneLine>;
}

/// Reads the configuration of one process from its sources.
///
/// # Errors
/// One line about the first setting that is unknown, out of range or contradictory.
pub(crate) fn load<C: Configuration>(sources: &Sources<C>) -> Result<(C, Provenance), OneLine> {
    let values = Resolved::from_sources(sources)?;
    let config = C::build(&values)?;
    Ok((config, values.into_provenance(C::settings())))
}

/// Why a process does not start: one line that names the setting, where it came from, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneLine(String);

impl OneLine {
    /// A message; line ends in what was read are shown escaped, so that it stays one line.
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self(printable(&text.to_string()).into_owned())
    }
}

impl fmt::Display for OneLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OneLine {}

#[cfg(test)]
mod tests;

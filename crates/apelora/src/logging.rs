//! The log of a process: lines on the standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat, Provenance};

/// Starts the log. To be called once for a process.
pub(crate) fn start(config: &LogConfig) {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&config.filter))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match config.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// Writes down what this process runs with and why: the settings that are not built in.
pub(crate) fn provenance(provenance: &Provenance) {
    for (setting, value, origin) in &provenance.chosen {
        tracing::info!(%setting, %value, %origin, "setting");
    }
}

/// Warns about BMC passwords in the environment of a process that must not have them.
pub(crate) fn secrets_of_another(provenance: &Provenance) {
    for secret in &provenance.bmc_secrets {
        tracing::warn!(
            %secret,
            "the environment holds a BMC password that this process must not have and does not read: remove it from \
             the environment of everything but `apelora worker`"
        );
    }
}

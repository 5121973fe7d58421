//! The settings of the verbs that ask a server, and what the `OS_*` variables add to them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use apelora_client::{Config, Trust, Variables, from_variables};

use super::table::{CA_FILE, ENDPOINT, PLAIN_HTTP, REQUEST_TIMEOUT_SECS, Setting};
use super::{Configuration, OneLine, Resolved};

/// What the verbs that ask a server run with, without who asks.
#[derive(Debug, Clone)]
pub(crate) struct ClientSettings {
    endpoint: Option<String>,
    ca_file: Option<PathBuf>,
    plain_http: bool,
    timeout: Duration,
}

impl Configuration for ClientSettings {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[&ENDPOINT, &CA_FILE, &PLAIN_HTTP, &REQUEST_TIMEOUT_SECS];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        Ok(Self {
            endpoint: values.optional(&ENDPOINT)?.map(str::to_owned),
            ca_file: values.optional(&CA_FILE)?.map(PathBuf::from),
            plain_http: values.flag(&PLAIN_HTTP)?,
            timeout: Duration::from_secs(values.number(&REQUEST_TIMEOUT_SECS, 1..=3600)?.into()),
        })
    }
}

impl ClientSettings {
    /// The client's configuration for a user who is known by the variables.
    pub(crate) fn with(self, variables: Variables) -> Config {
        let ca_file = self.ca_file.or(variables.ca_file);
        Config {
            endpoint: self.endpoint.or(variables.endpoint),
            auth: variables.auth,
            trust: ca_file.map_or(Trust::SystemRoots, Trust::OnlyFile),
            plain_http: self.plain_http,
            timeout: self.timeout,
            ..Config::default()
        }
    }
}

/// What the `OS_*` variables of the environment say.
///
/// # Errors
/// The variable that is missing, contradicts another, or is not text.
pub(crate) fn openstack(environment: &[(OsString, OsString)]) -> Result<Variables, OneLine> {
    let ours =
        || environment.iter().filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("OS_")));
    if let Some((name, _)) = ours().find(|(_, value)| value.to_str().is_none()) {
        return Err(OneLine::new(format_args!(
            "{} (environment): not valid UTF-8; set it to plain text or unset it",
            name.to_string_lossy()
        )));
    }
    let get = |wanted: &str| {
        let (_, value) = ours().find(|(name, _)| name == wanted)?;
        value.to_str().map(str::to_owned)
    };
    from_variables(&get).map_err(OneLine::new)
}

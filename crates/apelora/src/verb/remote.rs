//! What the verbs that ask a server have in common.

use std::ffi::OsString;

use apelora_client::{Client, ClientError};
use serde::Serialize;
use serde_json::Value;

use super::configure;
use crate::cli::Remote;
use crate::config::{ClientSettings, OneLine, openstack};
use crate::failure::Failure;
use crate::output::{Format, print};
use crate::printable::printable;

/// A client for a verb, and how to print what it gets.
pub(super) fn client(
    remote: Remote,
    environment: Vec<(OsString, OsString)>,
) -> Result<(Client, Format), Failure> {
    let variables = openstack(&environment)?;
    let (settings, _) = configure(remote.process, environment)?;
    Ok((of(settings, variables)?, remote.output.format))
}

/// A client with these settings for the user of these variables.
pub(super) fn of(settings: ClientSettings, variables: apelora_client::Variables) -> Result<Client, Failure> {
    Ok(Client::new(settings.with(variables))?)
}

/// Runs what waits for a server, on this thread.
pub(super) fn wait<T>(work: impl Future<Output = Result<T, ClientError>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(work)?)
}

/// Prints what was done, where nothing else is to be shown: a sentence, or an object.
pub(super) fn done(format: Format, sentence: &str, json: &Value) -> Result<(), Failure> {
    print(format, &printable(sentence), json)
}

/// As JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|why| Failure::because(&why))
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Setting(_) | ClientError::Input(_) => Self::Setting(OneLine::new(error)),
            // The server's words are another's.
            error => match Self::because(&error) {
                Self::Failed(text) => Self::Failed(printable(&text).into_owned()),
                other => other,
            },
        }
    }
}

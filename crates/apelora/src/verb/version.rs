//! `apelora version`.

use apelora_server::Microversion;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Format};

pub(super) fn print(format: Format) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let (min, max) = (Microversion::MIN, Microversion::MAX);
    output::print(
        format,
        &format!("apelora {version}\nBare Metal API {min} to {max}"),
        &json!({"version": version, "api_min_version": min.to_string(), "api_max_version": max.to_string()}),
    )
}

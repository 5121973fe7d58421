//! Who answers.

use serde::Deserialize;

use crate::Member;
use crate::envelope::wrong;
use crate::error::{Problem, Refusal};
use crate::strict::{Object, Picked, list};

/// The member that answers, by its own word. An answer proves a live daemon and nothing about the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name. The certificate does not prove it: all members share one.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it is part of a cluster.
    pub clustered: bool,
    /// The architectures it can run.
    pub architectures: Vec<String>,
    /// SHA-256 of the certificate that it shows, in lower-case hexadecimal digits.
    pub certificate_fingerprint: String,
    /// What is set about the cluster's own healing.
    pub healing: HealingSetting,
    /// `cluster.offline_threshold`, in seconds; none when it is the default (20) or not visible.
    pub offline_threshold: Option<u64>,
}

/// `cluster.healing_threshold`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealingSetting {
    /// Absent or 0.
    Off,
    /// Anything else, as it came: the cluster restarts instances by itself, without a proof.
    On(String),
    /// The configuration is not visible: a restricted client certificate.
    Hidden,
}

/// A member list and who gave it, asked for over one connection, so that both are one member's answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The member that answered.
    pub server: Server,
    /// The list.
    pub members: Vec<Member>,
}

#[derive(Deserialize)]
pub(crate) struct RawServer {
    auth: String,
    // Both are absent for a client that is not trusted.
    config: Option<Picked>,
    environment: Option<Object<Environment>>,
}

#[derive(Deserialize)]
struct Environment {
    server_name: String,
    server_version: String,
    server_clustered: bool,
    #[serde(deserialize_with = "list")]
    architectures: Vec<String>,
    certificate_fingerprint: String,
}

impl TryFrom<RawServer> for Server {
    type Error = Problem;

    fn try_from(raw: RawServer) -> Result<Self, Problem> {
        if raw.auth != "trusted" {
            let text = "the server answers to everybody, and this client is nobody to it".to_owned();
            return Err(Problem::Refused { kind: Refusal::Untrusted, code: 403, text });
        }
        let Some(Object(environment)) = raw.environment else {
            return Err(wrong("metadata.environment", "it is missing"));
        };
        if environment.server_name.is_empty() {
            return Err(wrong("metadata.environment.server_name", "it is empty"));
        }
        let mut config = raw.config.unwrap_or_default();
        let healing = match config.take("cluster.healing_threshold").as_deref() {
            _ if config.is_empty() => HealingSetting::Hidden,
            None | Some("" | "0") => HealingSetting::Off,
            Some(set) => HealingSetting::On(set.to_owned()),
        };
        let offline_threshold = match config.take("cluster.offline_threshold") {
            Some(text) if !text.is_empty() => Some(text.parse().map_err(|_| {
                wrong("metadata.config.cluster.offline_threshold", "it is no number of seconds")
            })?),
            _ => None,
        };
        Ok(Self {
            name: environment.server_name,
            version: environment.server_version,
            clustered: environment.server_clustered,
            architectures: environment.architectures,
            certificate_fingerprint: environment.certificate_fingerprint,
            healing,
            offline_threshold,
        })
    }
}

//! What a worker is told at its start.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::Limits;
use apelora_fencing::lease::LeaseConfig;
use apelora_fencing::limits::LimitError;
use apelora_fencing::status::SettingStatus;
use apelora_http::{ClientIdentity, Endpoint, Trust};

use crate::provider::ProviderSettings;

/// The configuration of one worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Where metrics and health are served (`APELORA_WORKER_LISTEN`).
    pub listen: SocketAddr,
    /// This service's name (`APELORA_HOST`). A member of this name is taken for the own host.
    pub host: String,
    /// This host's own name, where it differs from `host`.
    pub node_name: Option<String>,
    /// Every figure of the protocol, made by [`Limits::configured`].
    pub limits: Limits,
    /// The cluster.
    pub incus: IncusConfig,
    /// The BMC map's file (`APELORA_BMC_MAP`); without one nothing is ever switched off.
    pub bmc_map: Option<PathBuf>,
    /// What the fence providers are told.
    pub providers: ProviderSettings,
    /// `APELORA_FAILURE_DOMAIN_RULE`.
    pub failure_domain_rule: bool,
    /// `APELORA_SANLOCK_HOSTS`, as [`crate::leases::load_hosts`] reads it.
    pub leases: LeaseConfig,
    /// `--dry-run`: decide and audit, stop before the permit.
    pub dry_run: bool,
    /// The settings in force, for pages; secrets by their names only.
    pub effective: Vec<SettingStatus>,
    /// How often things are done that no safety depends on.
    pub pace: Pace,
}

/// How the cluster is reached, and what about it is attested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncusConfig {
    /// `APELORA_INCUS_URL`: `https://host:8443` or `unix:///path`, at least one.
    pub urls: Vec<String>,
    /// `APELORA_INCUS_CLIENT_CERT`, PEM.
    pub client_cert: Option<PathBuf>,
    /// `APELORA_INCUS_CLIENT_KEY`, PEM.
    pub client_key: Option<PathBuf>,
    /// `APELORA_INCUS_SERVER_CERT`: the cluster's certificate (or the present and the next one), PEM, read once. Without it
    /// the system's roots are trusted.
    pub server_cert: Option<PathBuf>,
    /// `APELORA_INCUS_SINGLE_VIEW`: one endpoint is attested as enough.
    pub single_view: bool,
    /// `APELORA_INCUS_HEALING_OFF`: the cluster's own healing is attested as off, where it cannot be read.
    pub healing_off: bool,
    /// `APELORA_INCUS_SHARED_POOLS`: pools attested as reached by every member, where their drivers cannot be read.
    pub shared_pools: Vec<String>,
}

impl Default for IncusConfig {
    fn default() -> Self {
        Self {
            urls: vec!["unix:///var/lib/incus/unix.socket".into()],
            client_cert: None,
            client_key: None,
            server_cert: None,
            single_view: false,
            healing_off: false,
            shared_pools: Vec::new(),
        }
    }
}

/// Paces of the worker that are no part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two attempts of a follower to lead.
    pub campaign: Duration,
    /// Up to this much is added to it by chance, so that followers do not come all at once.
    pub jitter: Duration,
    /// Between two readings of what runs where.
    pub inventory: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            campaign: Duration::from_secs(3),
            jitter: Duration::from_secs(1),
            inventory: Duration::from_secs(60),
        }
    }
}

/// A worker does not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A figure is out of range.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// A setting cannot be used.
    #[error("{setting}: {problem}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The address cannot be taken.
    #[error("APELORA_WORKER_LISTEN: {address} cannot be listened on ({cause}); set another address or port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        cause: io::Error,
    },
}

fn wrong(setting: &'static str, problem: impl Into<String>) -> WorkerError {
    WorkerError::Setting { setting, problem: problem.into() }
}

/// The connections to the cluster, checked.
pub(crate) struct Reach {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) trust: Trust,
    pub(crate) identity: Option<Arc<ClientIdentity>>,
}

impl WorkerConfig {
    /// The defaults for the service of this name.
    #[must_use]
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9642),
            host: host.into(),
            node_name: None,
            limits: Limits::PRODUCTION,
            incus: IncusConfig::default(),
            bmc_map: None,
            providers: ProviderSettings::default(),
            failure_domain_rule: false,
            leases: LeaseConfig::default(),
            dry_run: false,
            effective: Vec::new(),
            pace: Pace::default(),
        }
    }

    /// Checks everything that can be checked without the outside.
    ///
    /// # Errors
    /// The first setting that cannot be used, and the remedy.
    pub(crate) fn check(&self) -> Result<(), WorkerError> {
        let (fence_after, pass_interval) = (self.limits.fence_after, self.limits.pass_interval);
        let configured = Limits::configured(fence_after.as_secs(), pass_interval.as_secs())?;
        if configured != self.limits {
            // Only these two can be chosen; everything else of the protocol belongs together.
            let rule =
                self.limits.broken().unwrap_or("whole seconds, and every other figure as it is built in");
            return Err(LimitError::Relation { rule }.into());
        }
        if self.host.is_empty() || self.host.len() > 255 || self.host.chars().any(char::is_control) {
            return Err(wrong("APELORA_HOST", "give the service a name of 1 to 255 printable characters"));
        }
        for (name, pace) in [("campaign", self.pace.campaign), ("inventory", self.pace.inventory)] {
            if pace.is_zero() {
                return Err(wrong("the worker's pace", format!("`{name}` must be more than zero")));
            }
        }
        Ok(())
    }

    /// The names by which this host may be a member.
    pub(crate) fn names(&self) -> Vec<String> {
        std::iter::once(&self.host).chain(&self.node_name).filter(|name| !name.is_empty()).cloned().collect()
    }
}

impl IncusConfig {
    /// Reads addresses and certificates.
    ///
    /// # Errors
    /// The first setting that cannot be used, and the remedy.
    pub(crate) fn reach(&self) -> Result<Reach, WorkerError> {
        let endpoint = |url: &String| {
            apelora_incus::endpoint(url).map_err(|e| wrong("APELORA_INCUS_URL", e.to_string()))
        };
        let endpoints = self.urls.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            let problem = "name at least one endpoint, such as unix:///var/lib/incus/unix.socket";
            return Err(wrong("APELORA_INCUS_URL", problem));
        }
        let identity = match (&self.client_cert, &self.client_key) {
            (Some(cert), Some(key)) => {
                let read = ClientIdentity::from_files(cert, key);
                Some(Arc::new(read.map_err(|e| wrong("APELORA_INCUS_CLIENT_CERT", e.to_string()))?))
            }
            (None, None) => None,
            (Some(_), None) => {
                return Err(wrong("APELORA_INCUS_CLIENT_KEY", "name the certificate's key too"));
            }
            (None, Some(_)) => {
                return Err(wrong("APELORA_INCUS_CLIENT_CERT", "name the key's certificate too"));
            }
        };
        if identity.is_none() && endpoints.iter().any(|e| !matches!(e, Endpoint::Unix(_))) {
            let problem = "an https endpoint needs a client certificate and its key; trust it with `incus config trust add-certificate`";
            return Err(wrong("APELORA_INCUS_CLIENT_CERT", problem));
        }
        let trust = match &self.server_cert {
            None => Trust::SystemRoots,
            Some(path) => Trust::pinned_leaf_file(path)
                .map_err(|e| wrong("APELORA_INCUS_SERVER_CERT", e.to_string()))?,
        };
        Ok(Reach { endpoints, trust, identity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_below_twenty_does_not_start() {
        let mut config = WorkerConfig::new("w1");
        assert!(config.check().is_ok());
        config.limits.fence_after = Duration::from_secs(19);
        let refused = config.check().unwrap_err().to_string();
        assert!(refused.contains("APELORA_BMC_FENCE_AFTER_SECS") && refused.contains("20"), "{refused}");
    }

    #[test]
    fn no_other_figure_can_be_chosen() {
        let changes: [fn(&mut Limits); 4] = [
            |l| l.fence_after = Duration::from_millis(20_500),
            |l| l.loop_guard = Duration::from_secs(1),
            |l| l.fence_after_min = Duration::ZERO,
            |l| l.off_gap_sent = Duration::ZERO,
        ];
        for change in changes {
            let mut config = WorkerConfig::new("w1");
            change(&mut config.limits);
            assert!(matches!(config.check(), Err(WorkerError::Limits(_))));
        }
    }

    #[test]
    fn endpoints_and_certificates_belong_together() {
        let incus = IncusConfig::default();
        assert_eq!(incus.reach().unwrap().endpoints.len(), 1);
        let none = IncusConfig { urls: vec![], ..incus.clone() };
        let bare = IncusConfig { urls: vec!["https://10.0.0.1".into()], ..incus.clone() };
        let half = IncusConfig { client_cert: Some("c.pem".into()), ..incus.clone() };
        let word = IncusConfig { urls: vec!["incus1:8443".into()], ..incus };
        for (config, setting) in [
            (none, "APELORA_INCUS_URL"),
            (bare, "APELORA_INCUS_CLIENT_CERT"),
            (half, "APELORA_INCUS_CLIENT_KEY"),
            (word, "APELORA_INCUS_URL"),
        ] {
            let refused = config.reach().err().unwrap().to_string();
            assert!(refused.starts_with(setting), "{refused}");
        }
    }

    #[test]
    fn a_pipe_holds_no_certificate_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let config = IncusConfig { server_cert: Some(pipe.clone()), ..IncusConfig::default() };
        let refused = config.reach().err().unwrap().to_string();
        assert!(
            refused.contains("it is a pipe") && refused.contains("APELORA_INCUS_SERVER_CERT"),
            "{refused}"
        );
    }
}

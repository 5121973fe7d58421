//! What a server is started with.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::status::SettingStatus;
use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::Microversion;
use crate::policy::PolicyFiles;

/// How callers are recognised.
#[derive(Debug, Clone)]
pub enum AuthStrategy {
    /// Whoever reaches the address has system authority; loopback addresses only.
    NoAuth,
    /// User and password.
    HttpBasic {
        /// An htpasswd file with bcrypt hashes; read again when it changes.
        user_file: PathBuf,
    },
    /// Tokens of Keystone.
    Keystone(Box<KeystoneAuth>),
}

/// How Keystone is asked, and what clients are told about it.
#[derive(Debug, Clone)]
pub struct KeystoneAuth {
    /// How it is asked.
    pub validation: apelora_keystone::Config,
    /// The address of Keystone for clients without a token; `None` is the one that is asked.
    pub public_url: Option<String>,
}

/// Certificate and key for HTTPS; read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: the server's certificate, then those of its issuers.
    pub cert: PathBuf,
    /// PEM: the private key.
    pub key: PathBuf,
}

/// Bounds on what clients can take, and the pace of the server itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; more of them wait to be accepted.
    pub connections: usize,
    /// Requests of the API that are worked on at the same time.
    pub in_flight: usize,
    /// Requests that wait for their turn; more of them get a 503.
    pub queued: usize,
    /// How long a request waits for its turn before it gets a 503.
    pub queue_wait: Duration,
    /// How long a client may take for the head of a request, also between two requests of one connection.
    pub head_timeout: Duration,
    /// How long a client may take for a body.
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread.
    pub write_timeout: Duration,
    /// How long running requests may take to finish when the server stops.
    pub stop_timeout: Duration,
    /// How often the files of users, policy and certificates are looked at for changes.
    pub reload_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            in_flight: 64,
            queued: 256,
            queue_wait: Duration::from_secs(5),
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(30),
            reload_interval: Duration::from_secs(1),
        }
    }
}

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where to listen; port 0 is any free one.
    pub listen: SocketAddr,
    /// Who may use the API.
    pub auth: AuthStrategy,
    /// What callers who were recognised may do.
    pub policy: PolicyFiles,
    /// HTTPS instead of HTTP.
    pub tls: Option<TlsFiles>,
    /// This service's name: the `conductor` of its nodes and of its history records.
    pub host: String,
    /// The highest version to serve, lower than [`Microversion::MAX`] while older services share the database.
    pub max_microversion: Microversion,
    /// Bounds on what clients can take.
    pub limits: Limits,
    /// The settings in force, for whoever may see them; a secret's value is not among them.
    pub settings: Vec<SettingStatus>,
}

impl ServerConfig {
    /// The defaults, for a service of this name at this address.
    pub fn new(listen: SocketAddr, host: impl Into<String>) -> Self {
        Self {
            listen,
            auth: AuthStrategy::NoAuth,
            policy: PolicyFiles::default(),
            tls: None,
            host: host.into(),
            max_microversion: Microversion::MAX,
            limits: Limits::default(),
            settings: Vec::new(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        if matches!(self.auth, AuthStrategy::NoAuth) && !self.listen.ip().is_loopback() {
            return Err(StartError::OpenToEverybody(self.listen));
        }
        if !(1..=255).contains(&self.host.chars().count()) || self.host.chars().any(char::is_control) {
            return Err(StartError::Host);
        }
        Ok(())
    }
}

/// Why a server does not start, with the setting and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// noauth on an address that others reach.
    #[error(
        "listen: {0} is not a loopback address, and auth_strategy noauth lets everybody in; listen on 127.0.0.1 or ::1, or set auth_strategy to http_basic or keystone"
    )]
    OpenToEverybody(SocketAddr),
    /// The service's name cannot be stored.
    #[error("host: give a name of 1 to 255 printable characters")]
    Host,
    /// The address cannot be listened on.
    #[error(
        "listen: cannot listen on {address}: {cause}; choose another address or stop the service that has it"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// The users cannot be read.
    #[error("http_basic_user_file: {0}")]
    Users(String),
    /// Keystone cannot be asked with this configuration.
    #[error("keystone: {0}")]
    Keystone(#[from] apelora_keystone::ConfigError),
    /// The policy cannot be used.
    #[error("policy_file: {0}")]
    Policy(String),
    /// Certificate or key cannot be used.
    #[error("{0}")]
    Tls(String),
}

/// Where time and new ids come from: parameters, so that tests can choose them.
#[derive(Clone)]
pub struct Sources {
    now: Arc<dyn Fn() -> PrimitiveDateTime + Send + Sync>,
    new_id: Arc<dyn Fn() -> Uuid + Send + Sync>,
}

impl Sources {
    /// `now` answers the time in UTC, `new_id` a new id that nobody can guess.
    pub fn new(
        now: impl Fn() -> PrimitiveDateTime + Send + Sync + 'static,
        new_id: impl Fn() -> Uuid + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), new_id: Arc::new(new_id) }
    }

    /// The time in UTC.
    pub(crate) fn now(&self) -> PrimitiveDateTime {
        (self.now)()
    }

    /// A new id.
    pub(crate) fn new_id(&self) -> Uuid {
        (self.new_id)()
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sources")
    }
}

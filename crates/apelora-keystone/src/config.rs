//! What the validation of tokens is told, and why it may be refused.

use std::time::Duration;

use apelora_http::Trust;
use secrecy::{ExposeSecret as _, SecretString};

/// Everything that [`Validator::new`](crate::Validator::new) needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// Keystone's address: `https://host[:port][/prefix][/v3]`. A missing `/v3` is added.
    pub url: String,
    /// Which certificates are believed; not used for plain HTTP.
    pub trust: Trust,
    /// Whether an `http://` address of another host is accepted. Without it, only one of this host is.
    pub allow_plain_http: bool,
    /// The service's own account. It needs the role `service` in a project, or a reader role on the system.
    pub credentials: Credentials,
    /// This service's type in Keystone's catalog: what the access rules of application credentials name.
    pub service_type: String,
    /// A service token needs one of these roles.
    pub service_token_roles: Vec<String>,
    /// What it may cost.
    pub limits: Limits,
}

/// The service's own account in Keystone. The debug form shows no password.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The user's name.
    pub username: String,
    /// The user's password.
    pub password: SecretString,
    /// The name of the user's domain.
    pub user_domain_name: String,
    /// The name of the project that the service's token is for.
    pub project_name: String,
    /// The name of that project's domain.
    pub project_domain_name: String,
}

/// Times and sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest time for a decision, all requests, retries and waiting included.
    pub decision: Duration,
    /// The longest time for one connect.
    pub connect: Duration,
    /// How long a valid token is not asked for again; never beyond its expiry. It is the longest time for which a
    /// revoked token, or a removed role, still works. Zero asks each time.
    pub cache: Duration,
    /// How many valid tokens are remembered.
    pub cache_entries: usize,
    /// How long a token that Keystone does not know is not asked for again. Zero asks each time.
    pub refusal_cache: Duration,
    /// How many such tokens are remembered.
    pub refusal_cache_entries: usize,
    /// Requests to Keystone at one time.
    pub concurrent: usize,
    /// Tokens that are being asked for or wait for it; beyond, there is no decision.
    pub waiting: usize,
    /// The pause after Keystone has refused the service's own account, so that a wrong password does not lock it.
    pub login_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            decision: Duration::from_secs(5),
            connect: Duration::from_secs(2),
            cache: Duration::from_secs(300),
            cache_entries: 10_000,
            refusal_cache: Duration::from_secs(5),
            refusal_cache_entries: 1_000,
            concurrent: 32,
            waiting: 1_000,
            login_pause: Duration::from_secs(30),
        }
    }
}

/// Why a [`Config`] cannot be used. Names the field; no text repeats a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not the address of a Keystone.
    #[error("the Keystone URL `{url}` cannot be used: {why}; write https://host:5000/v3")]
    Url {
        /// The address, without a password that it may have held.
        url: String,
        /// Why not.
        why: String,
    },
    /// HTTP without TLS to another host.
    #[error(
        "the Keystone URL `{0}` sends the password and every token without TLS to another host: use https, or \
         accept plain HTTP explicitly"
    )]
    PlainHttp(String),
    /// A part of the account is missing.
    #[error("the service's own Keystone account has no {0}: set it")]
    Missing(&'static str),
    /// A limit that allows nothing.
    #[error("the limit {0} is zero: set it to 1 or more")]
    ZeroLimit(&'static str),
    /// The connect limit is longer than the whole decision may take.
    #[error("the limit connect is longer than the limit decision: make it shorter")]
    ConnectTooLong,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let own = &self.credentials;
        for (value, name) in [
            (own.username.as_str(), "user name"),
            (own.password.expose_secret(), "password"),
            (own.user_domain_name.as_str(), "user domain name"),
            (own.project_name.as_str(), "project name"),
            (own.project_domain_name.as_str(), "project domain name"),
            (self.service_type.as_str(), "service type"),
        ] {
            if value.is_empty() {
                return Err(ConfigError::Missing(name));
            }
        }
        if self.service_token_roles.is_empty() {
            return Err(ConfigError::Missing("role for service tokens"));
        }

        let limits = &self.limits;
        for (zero, name) in [
            (limits.decision.is_zero(), "decision"),
            (limits.connect.is_zero(), "connect"),
            (limits.cache_entries == 0, "cache_entries"),
            (limits.refusal_cache_entries == 0, "refusal_cache_entries"),
            (limits.concurrent == 0, "concurrent"),
            (limits.waiting == 0, "waiting"),
        ] {
            if zero {
                return Err(ConfigError::ZeroLimit(name));
            }
        }
        if limits.connect > limits.decision {
            return Err(ConfigError::ConnectTooLong);
        }
        Ok(())
    }
}

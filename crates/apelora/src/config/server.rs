//! The configuration of `apelora server`.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use apelora_server::{AuthStrategy, Microversion, PolicyFiles, TlsFiles};
use apelora_store::DatabaseUrl;

use super::database::{LogConfig, database_url, host, log};
use super::keystone::{ONLY_KEYSTONE, Usual, keystone};
use super::policy::policy;
use super::table::{
    AUDIT_MIN_DAYS, AUTH_STRATEGY, DATABASE_URL, ENFORCE_NEW_DEFAULTS, ENFORCE_SCOPE, HISTORY_CLEANUP_BATCH,
    HISTORY_CLEANUP_INTERVAL_SECS, HISTORY_MAX_ENTRIES, HISTORY_MIN_DAYS, HOST, HTTP_BASIC_USER_FILE,
    KEYSTONE_CA_FILE, KEYSTONE_CACHE_SECS, KEYSTONE_PASSWORD, KEYSTONE_PLAIN_HTTP,
    KEYSTONE_PROJECT_DOMAIN_NAME, KEYSTONE_PROJECT_NAME, KEYSTONE_PUBLIC_URL, KEYSTONE_URL,
    KEYSTONE_USER_DOMAIN_NAME, KEYSTONE_USERNAME, LISTEN, LOG, LOG_FORMAT, PIN_MAX_MICROVERSION, POLICY_FILE,
    SERVICE_PROJECT, SERVICE_ROLE_ELEVATED, Setting, TLS_CERT, TLS_KEY,
};
use super::{Configuration, OneLine, Resolved};

/// What the control plane runs with.
#[derive(Debug, Clone)]
pub(crate) struct ServerConfig {
    /// The database.
    pub(crate) database_url: DatabaseUrl,
    /// Where the API is served; loopback unless callers are authenticated.
    pub(crate) listen: SocketAddr,
    /// Who may use the API.
    pub(crate) auth: AuthStrategy,
    /// What callers who were recognised may do.
    pub(crate) policy: PolicyFiles,
    /// HTTPS instead of HTTP.
    pub(crate) tls: Option<TlsFiles>,
    /// This service's name; `None` is the host's.
    pub(crate) host: Option<String>,
    /// The highest version to serve while older services share the database.
    pub(crate) pin: Option<Microversion>,
    /// How much history stays.
    pub(crate) history: HistoryRetention,
    /// Days for which an audit row stays; `None` is for ever.
    pub(crate) audit_days: Option<u32>,
    /// How and what is logged.
    pub(crate) log: LogConfig,
}

/// How much node history stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryRetention {
    /// Records for each node; 0 stops the clean-up.
    pub(crate) max_entries: u32,
    /// Days for which a record is kept in any case.
    pub(crate) min_days: u32,
    /// Seconds between two clean-ups.
    pub(crate) interval_secs: u32,
    /// Records that are removed in one transaction; 0 stops the clean-up.
    pub(crate) batch: u32,
}

/// The highest version that services without entries know: a pin cannot be above it.
const HIGHEST_PIN: u16 = Microversion::TYPED_MAINTENANCE.minor() - 1;

impl Configuration for ServerConfig {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[
            &DATABASE_URL,
            &LISTEN,
            &AUTH_STRATEGY,
            &HTTP_BASIC_USER_FILE,
            &KEYSTONE_URL,
            &KEYSTONE_PUBLIC_URL,
            &KEYSTONE_USERNAME,
            &KEYSTONE_PASSWORD,
            &KEYSTONE_PROJECT_NAME,
            &KEYSTONE_USER_DOMAIN_NAME,
            &KEYSTONE_PROJECT_DOMAIN_NAME,
            &KEYSTONE_CA_FILE,
            &KEYSTONE_PLAIN_HTTP,
            &KEYSTONE_CACHE_SECS,
            &TLS_CERT,
            &TLS_KEY,
            &HOST,
            &PIN_MAX_MICROVERSION,
            &HISTORY_MAX_ENTRIES,
            &HISTORY_MIN_DAYS,
            &HISTORY_CLEANUP_INTERVAL_SECS,
            &HISTORY_CLEANUP_BATCH,
            &AUDIT_MIN_DAYS,
            &POLICY_FILE,
            &ENFORCE_NEW_DEFAULTS,
            &ENFORCE_SCOPE,
            &SERVICE_ROLE_ELEVATED,
            &SERVICE_PROJECT,
            &LOG,
            &LOG_FORMAT,
        ];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        let auth = auth(values)?;
        let listen = values.address(&LISTEN)?;
        if matches!(auth, AuthStrategy::NoAuth) && !listen.ip().is_loopback() {
            return Err(values.refuse(
                &LISTEN,
                &format!("{listen} is not a loopback address, and auth_strategy noauth lets everybody in"),
                "listen on 127.0.0.1 or ::1, or set auth_strategy to http_basic or keystone",
            ));
        }
        Ok(Self {
            database_url: database_url(values)?,
            listen,
            auth,
            policy: policy(values)?,
            tls: tls(values)?,
            host: host(values)?,
            pin: pin(values)?,
            history: HistoryRetention {
                max_entries: values.number(&HISTORY_MAX_ENTRIES, 0..=1_000_000)?,
                min_days: values.number(&HISTORY_MIN_DAYS, 0..=36_500)?,
                interval_secs: values.number(&HISTORY_CLEANUP_INTERVAL_SECS, 1..=31_536_000)?,
                batch: values.number(&HISTORY_CLEANUP_BATCH, 0..=1_000_000)?,
            },
            audit_days: Some(values.number(&AUDIT_MIN_DAYS, 0..=36_500)?).filter(|days| *days > 0),
            log: log(values)?,
        })
    }
}

/// The words of `auth_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    NoAuth,
    HttpBasic,
    Keystone,
}

fn auth(values: &Resolved) -> Result<AuthStrategy, OneLine> {
    let strategies =
        [("noauth", Strategy::NoAuth), ("http_basic", Strategy::HttpBasic), ("keystone", Strategy::Keystone)];
    let strategy = values.choice(&AUTH_STRATEGY, &strategies)?;
    let user_file = readable(values, &HTTP_BASIC_USER_FILE)?;
    let usual = Usual::read(values)?;
    if strategy != Strategy::HttpBasic && user_file.is_some() {
        return Err(values.refuse(
            &HTTP_BASIC_USER_FILE,
            "has an effect with auth_strategy http_basic only",
            "set auth_strategy to http_basic or leave the file out",
        ));
    }
    if strategy != Strategy::Keystone
        && let Some(setting) = ONLY_KEYSTONE.iter().find(|setting| values.get(setting).is_some())
    {
        return Err(values.refuse(
            setting,
            "has an effect with auth_strategy keystone only",
            "set auth_strategy to keystone or leave it out",
        ));
    }
    match (strategy, user_file) {
        (Strategy::NoAuth, _) => Ok(AuthStrategy::NoAuth),
        (Strategy::HttpBasic, Some(user_file)) => Ok(AuthStrategy::HttpBasic { user_file }),
        (Strategy::HttpBasic, None) => Err(values.refuse(
            &AUTH_STRATEGY,
            "http_basic needs its users",
            "set http_basic_user_file to an htpasswd file with bcrypt hashes",
        )),
        (Strategy::Keystone, _) => Ok(AuthStrategy::Keystone(Box::new(keystone(values, usual)?))),
    }
}

fn tls(values: &Resolved) -> Result<Option<TlsFiles>, OneLine> {
    match (readable(values, &TLS_CERT)?, readable(values, &TLS_KEY)?) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (Some(_), None) => Err(values.refuse(&TLS_CERT, "has no private key", "set tls_key too")),
        (None, Some(_)) => Err(values.refuse(&TLS_KEY, "has no certificate", "set tls_cert too")),
    }
}

/// The path of a file that can be opened, so that a wrong one is found before anything else begins.
pub(super) fn readable(values: &Resolved, setting: &Setting) -> Result<Option<PathBuf>, OneLine> {
    let Some(path) = values.optional(setting)?.map(PathBuf::from) else { return Ok(None) };
    // Opening a pipe would wait for its writer.
    let opened = fs::metadata(&path).and_then(|about| {
        let pipe = || io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe");
        if about.file_type().is_fifo() { Err(pipe()) } else { File::open(&path) }
    });
    match opened {
        Ok(_) => Ok(Some(path)),
        Err(e) => Err(values.refuse(
            setting,
            &format!("cannot read {}: {e}", path.display()),
            "give the path of a file that this user may read",
        )),
    }
}

fn pin(values: &Resolved) -> Result<Option<Microversion>, OneLine> {
    let Some(text) = values.optional(&PIN_MAX_MICROVERSION)? else { return Ok(None) };
    let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    match minor.filter(|minor| (1..=HIGHEST_PIN).contains(minor)) {
        Some(minor) => Ok(Some(Microversion::new(minor))),
        None => Err(values.refuse(
            &PIN_MAX_MICROVERSION,
            &format!("'{text}' is no version that older services know"),
            &format!("give 1.1 to 1.{HIGHEST_PIN}, or leave it out to serve everything"),
        )),
    }
}

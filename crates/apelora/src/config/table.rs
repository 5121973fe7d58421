//! Every setting of every process: one row each, from which file keys, environment names, flags and documents follow.

mod worker;

use std::fmt;

pub(crate) use worker::{
    BMC_ALLOW_LAB, BMC_FENCE_AFTER_SECS, BMC_MAP, FAILURE_DOMAIN_RULE, INCUS_CLIENT_CERT, INCUS_CLIENT_KEY,
    INCUS_HEALING_OFF, INCUS_SERVER_CERT, INCUS_SHARED_POOLS, INCUS_SINGLE_VIEW, INCUS_URL, LAB_SAN_VMS,
    PASS_INTERVAL_SECS, SANLOCK_HOSTS, WORKER_LISTEN,
};

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The key in the TOML file; the environment name and the flag follow from it.
    pub(crate) name: &'static str,
    /// What stands for the value in help and documents.
    pub(crate) placeholder: &'static str,
    /// The built-in value, as it would be written; `None` leaves the setting unset.
    pub(crate) default: Option<&'static str>,
    /// Whether its value is shown with the password left out.
    pub(crate) holds_password: bool,
    /// Whether its value is never shown at all.
    pub(crate) secret: bool,
    /// What it does, with units and range; one line for help and documents.
    pub(crate) doc: &'static str,
}

impl Setting {
    const fn new(
        name: &'static str,
        placeholder: &'static str,
        default: Option<&'static str>,
        doc: &'static str,
    ) -> Self {
        Self { name, placeholder, default, holds_password: false, secret: false, doc }
    }

    /// The variable of the environment that sets it.
    pub(crate) fn env(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.to_ascii_uppercase())
    }

    /// The flag that sets it, without the dashes.
    pub(crate) fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Every variable of the environment that begins like this is a setting, or an error.
pub(crate) const ENV_PREFIX: &str = "APELORA_";
/// The variable that names the TOML file; the one setting that the file itself cannot hold.
pub(crate) const CONFIG_FILE_ENV: &str = "APELORA_CONFIG";
/// BMC passwords. Only the worker may read them.
pub(crate) const BMC_SECRET_PREFIX: &str = "APELORA_BMC_SECRET_";

/// The key of the database in a file.
pub(crate) const DATABASE_URL_NAME: &str = "database_url";

pub(crate) static DATABASE_URL: Setting = Setting {
    holds_password: true,
    ..Setting::new(
        DATABASE_URL_NAME,
        "URL",
        Some("sqlite://apelora.db"),
        "The database: sqlite://PATH, postgresql://USER:PASSWORD@HOST/NAME or mysql://USER:PASSWORD@HOST/NAME",
    )
};
pub(crate) static LISTEN: Setting = Setting::new(
    "listen",
    "ADDRESS:PORT",
    Some("127.0.0.1:6385"),
    "Where the API is served; with auth_strategy noauth only a loopback address, and port 0 takes a free port",
);
pub(crate) static AUTH_STRATEGY: Setting = Setting::new(
    "auth_strategy",
    "STRATEGY",
    Some("noauth"),
    "Who may use the API: noauth (anybody who reaches the loopback address), http_basic or keystone",
);
pub(crate) static HTTP_BASIC_USER_FILE: Setting = Setting::new(
    "http_basic_user_file",
    "FILE",
    None,
    "The users of http_basic: an htpasswd file with bcrypt hashes, one USER:HASH on each line",
);
pub(crate) static KEYSTONE_URL: Setting = Setting::new(
    "keystone_url",
    "URL",
    None,
    "Where Keystone is asked about tokens: https://HOST:5000/v3; a missing /v3 is added",
);
pub(crate) static KEYSTONE_PUBLIC_URL: Setting = Setting::new(
    "keystone_public_url",
    "URL",
    None,
    "Keystone's address for clients, told with each 401 (default: keystone_url)",
);
pub(crate) static KEYSTONE_USERNAME: Setting = Setting::new(
    "keystone_username",
    "NAME",
    None,
    "This service's own user in Keystone, who needs the role `service` in keystone_project_name",
);
pub(crate) static KEYSTONE_PASSWORD: Setting = Setting {
    secret: true,
    ..Setting::new(
        "keystone_password",
        "PASSWORD",
        None,
        "The password of keystone_username; never shown. Put it into the file or the environment, not on the command line",
    )
};
pub(crate) static KEYSTONE_PROJECT_NAME: Setting =
    Setting::new("keystone_project_name", "NAME", Some("service"), "The project of this service's own token");
pub(crate) static KEYSTONE_USER_DOMAIN_NAME: Setting =
    Setting::new("keystone_user_domain_name", "NAME", Some("Default"), "The domain of keystone_username");
pub(crate) static KEYSTONE_PROJECT_DOMAIN_NAME: Setting = Setting::new(
    "keystone_project_domain_name",
    "NAME",
    Some("Default"),
    "The domain of keystone_project_name",
);
pub(crate) static KEYSTONE_CA_FILE: Setting = Setting::new(
    "keystone_ca_file",
    "FILE",
    None,
    "PEM with the only certificates to believe of Keystone (default: the system's)",
);
pub(crate) static KEYSTONE_PLAIN_HTTP: Setting = Setting::new(
    "keystone_plain_http",
    "0|1",
    Some("0"),
    "1 accepts an http keystone_url of another host: everybody on the way can read the password and every token",
);
pub(crate) static KEYSTONE_CACHE_SECS: Setting = Setting::new(
    "keystone_cache_secs",
    "SECONDS",
    Some("300"),
    "How long a valid token is not asked for again, and a revoked one still works (0 to 3600; 0 asks each time)",
);
pub(crate) static TLS_CERT: Setting = Setting::new(
    "tls_cert",
    "FILE",
    None,
    "Serve HTTPS: PEM with the server's certificate, then those of its issuers; read again when it changes",
);
pub(crate) static TLS_KEY: Setting =
    Setting::new("tls_key", "FILE", None, "The private key of tls_cert, as PEM; read again when it changes");
pub(crate) static HOST: Setting = Setting::new(
    "host",
    "NAME",
    None,
    "This service's name, as `conductor` of its nodes and history records; a worker never switches off the member of this name (default: the host's name; at most 255 characters)",
);
pub(crate) static PIN_MAX_MICROVERSION: Setting = Setting::new(
    "pin_max_microversion",
    "VERSION",
    None,
    "While older services share the database: the highest API version to serve, 1.1 to 1.115; the first start without it runs the backfill again",
);
pub(crate) static HISTORY_MAX_ENTRIES: Setting = Setting::new(
    "history_max_entries",
    "COUNT",
    Some("300"),
    "Records of history to keep for each node (0 to 1000000; 0 stops the clean-up)",
);
pub(crate) static HISTORY_MIN_DAYS: Setting = Setting::new(
    "history_min_days",
    "DAYS",
    Some("0"),
    "Days for which a history record is kept in any case (0 to 36500)",
);
pub(crate) static HISTORY_CLEANUP_INTERVAL_SECS: Setting = Setting::new(
    "history_cleanup_interval_secs",
    "SECONDS",
    Some("86400"),
    "Seconds between two clean-ups of the history (1 to 31536000)",
);
pub(crate) static HISTORY_CLEANUP_BATCH: Setting = Setting::new(
    "history_cleanup_batch",
    "COUNT",
    Some("1000"),
    "Records that the clean-up removes in one transaction (0 to 1000000; 0 stops the clean-up)",
);
pub(crate) static AUDIT_MIN_DAYS: Setting = Setting::new(
    "audit_min_days",
    "DAYS",
    Some("0"),
    "Days for which rows of the audit trail are kept, and ended restarts of instances that are not of their member's latest failure; older ones are removed once a day (0 to 36500; 0 keeps all for ever)",
);
pub(crate) static ENDPOINT: Setting = Setting::new(
    "endpoint",
    "URL",
    None,
    "The address of the API (default: OS_ENDPOINT; else the one in Keystone's catalogue; without Keystone http://127.0.0.1:6385)",
);
pub(crate) static CA_FILE: Setting = Setting::new(
    "ca_file",
    "FILE",
    None,
    "PEM with the only certificates to believe, of the API and of Keystone (default: OS_CACERT; else the system's)",
);
pub(crate) static PLAIN_HTTP: Setting = Setting::new(
    "plain_http",
    "0|1",
    Some("0"),
    "1 accepts http on other hosts than this one: everybody on the way can read passwords and tokens and change answers",
);
pub(crate) static REQUEST_TIMEOUT_SECS: Setting = Setting::new(
    "request_timeout_secs",
    "SECONDS",
    Some("60"),
    "Seconds that one request may take (1 to 3600)",
);
pub(crate) static POLICY_FILE: Setting = Setting::new(
    "policy_file",
    "FILE",
    None,
    "The policy: a YAML mapping from rule names to rules; the files of the folder `policy.d` beside it apply after it",
);
pub(crate) static ENFORCE_NEW_DEFAULTS: Setting = Setting::new(
    "enforce_new_defaults",
    "0|1",
    Some("1"),
    "0 lets everybody pass whom the older default rules let pass, and makes project administrators operators",
);
pub(crate) static ENFORCE_SCOPE: Setting = Setting::new(
    "enforce_scope",
    "0|1",
    Some("1"),
    "0 gives project administrators the authority of operators, as in older deployments",
);
pub(crate) static SERVICE_ROLE_ELEVATED: Setting = Setting::new(
    "service_role_elevated",
    "0|1",
    Some("0"),
    "1 makes callers with the role `service` in the project service_project equal to operators",
);
pub(crate) static SERVICE_PROJECT: Setting = Setting::new(
    "service_project",
    "NAME",
    Some("service"),
    "The name of the project of service_role_elevated",
);
pub(crate) static LOG: Setting = Setting::new(
    "log",
    "FILTER",
    Some("info"),
    "What is logged: error, warn, info, debug or trace, or per part as in `info,apelora_store=debug`",
);
pub(crate) static LOG_FORMAT: Setting = Setting::new(
    "log_format",
    "FORMAT",
    Some("text"),
    "How log lines look on the standard error: text, or json with one object on each line",
);

/// Every setting, in the order of the documents.
pub(crate) static SETTINGS: &[&Setting] = &[
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
    &WORKER_LISTEN,
    &INCUS_URL,
    &INCUS_CLIENT_CERT,
    &INCUS_CLIENT_KEY,
    &INCUS_SERVER_CERT,
    &INCUS_SINGLE_VIEW,
    &INCUS_HEALING_OFF,
    &INCUS_SHARED_POOLS,
    &BMC_MAP,
    &BMC_FENCE_AFTER_SECS,
    &BMC_ALLOW_LAB,
    &LAB_SAN_VMS,
    &SANLOCK_HOSTS,
    &FAILURE_DOMAIN_RULE,
    &PASS_INTERVAL_SECS,
    &ENDPOINT,
    &CA_FILE,
    &PLAIN_HTTP,
    &REQUEST_TIMEOUT_SECS,
    &LOG,
    &LOG_FORMAT,
];

/// The setting with this file key.
pub(crate) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().copied().find(|s| s.name == name)
}

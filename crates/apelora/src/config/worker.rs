//! The configuration of `apelora worker`, and of the checks that read the same files.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

use apelora_fencing::Limits;
use apelora_http::{ClientIdentity, Endpoint, Trust};
use apelora_store::DatabaseUrl;

use super::database::{LogConfig, database_url, host, log};
use super::server::readable;
use super::table::{
    BMC_ALLOW_LAB, BMC_FENCE_AFTER_SECS, BMC_MAP, DATABASE_URL, FAILURE_DOMAIN_RULE, HOST, INCUS_CLIENT_CERT,
    INCUS_CLIENT_KEY, INCUS_HEALING_OFF, INCUS_SERVER_CERT, INCUS_SHARED_POOLS, INCUS_SINGLE_VIEW, INCUS_URL,
    LAB_SAN_VMS, LOG, LOG_FORMAT, PASS_INTERVAL_SECS, SANLOCK_HOSTS, Setting, WORKER_LISTEN,
};
use super::{Configuration, OneLine, Resolved};

/// What the worker runs with.
#[derive(Debug, Clone)]
pub(crate) struct WorkerConfig {
    /// The database.
    pub(crate) database_url: DatabaseUrl,
    /// This service's name; `None` is the host's.
    pub(crate) host: Option<String>,
    /// Where metrics and health are served.
    pub(crate) listen: SocketAddr,
    /// The figures of the protocol.
    pub(crate) limits: Limits,
    /// The cluster.
    pub(crate) incus: IncusSettings,
    /// The BMCs.
    pub(crate) bmcs: BmcSettings,
    /// The file about storage leases.
    pub(crate) sanlock_hosts: Option<PathBuf>,
    /// Whether a failure domain that is Offline as a whole stops every send into it.
    pub(crate) failure_domain_rule: bool,
    /// How and what is logged.
    pub(crate) log: LogConfig,
}

/// How the cluster is reached, and what an operator attests about it.
#[derive(Debug, Clone)]
pub(crate) struct IncusSettings {
    /// At least one; no two lead to the same place.
    pub(crate) urls: Vec<String>,
    /// Who the worker is and whom it believes; present when an endpoint is HTTPS.
    pub(crate) tls: Option<IncusTls>,
    /// One endpoint must do.
    pub(crate) single_view: bool,
    /// The cluster's own healing is off.
    pub(crate) healing_off: bool,
    /// Pools that reach every member.
    pub(crate) shared_pools: Vec<String>,
}

/// Mutual TLS with the cluster. The files were readable, and what they must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IncusTls {
    /// PEM with the worker's certificate.
    pub(crate) client_cert: PathBuf,
    /// PEM with its private key.
    pub(crate) client_key: PathBuf,
    /// PEM with the only server certificates to believe; `None` believes the system's authorities.
    pub(crate) server_cert: Option<PathBuf>,
}

/// Which BMCs there are, and what the lab provider may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BmcSettings {
    /// The BMC map.
    pub(crate) map: Option<PathBuf>,
    /// Whether the provider `lima` may be used.
    pub(crate) allow_lab: bool,
    /// Virtual machines that it never stops.
    pub(crate) lab_san_vms: Vec<String>,
}

/// What stands for the system's authorities in `incus_server_cert`.
const SYSTEM: &str = "system";

impl Configuration for WorkerConfig {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[
            &DATABASE_URL,
            &HOST,
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
            &LOG,
            &LOG_FORMAT,
        ];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        Ok(Self {
            database_url: database_url(values)?,
            host: host(values)?,
            listen: values.address(&WORKER_LISTEN)?,
            limits: limits(values)?,
            incus: incus(values)?,
            bmcs: bmcs(values)?,
            sanlock_hosts: readable(values, &SANLOCK_HOSTS)?,
            failure_domain_rule: values.flag(&FAILURE_DOMAIN_RULE)?,
            log: log(values)?,
        })
    }
}

fn limits(values: &Resolved) -> Result<Limits, OneLine> {
    let least = u32::try_from(Limits::PRODUCTION.fence_after_min.as_secs()).unwrap_or(u32::MAX);
    let fence_after = values.number(&BMC_FENCE_AFTER_SECS, least..=3_600)?;
    let pass_interval = values.number(&PASS_INTERVAL_SECS, 1..=10)?;
    Limits::configured(fence_after.into(), pass_interval.into()).map_err(OneLine::new)
}

fn incus(values: &Resolved) -> Result<IncusSettings, OneLine> {
    let urls = values.list(&INCUS_URL)?;
    let https = reach_https(values, &urls)?;
    let single_view = values.flag(&INCUS_SINGLE_VIEW)?;
    if single_view && urls.len() > 1 {
        return Err(values.refuse(
            &INCUS_SINGLE_VIEW,
            "has an effect with a single endpoint in incus_url only: several confirm each other",
            "leave it out, or leave one endpoint",
        ));
    }
    Ok(IncusSettings {
        tls: if https { Some(tls(values)?) } else { no_tls(values)? },
        urls,
        single_view,
        healing_off: values.flag(&INCUS_HEALING_OFF)?,
        shared_pools: values.list(&INCUS_SHARED_POOLS)?,
    })
}

/// Checks the addresses, and says whether one of them is HTTPS.
fn reach_https(values: &Resolved, urls: &[String]) -> Result<bool, OneLine> {
    let mut found = Vec::new();
    for url in urls {
        let endpoint = apelora_worker::incus_endpoint(url).map_err(|why| {
            values.refuse(&INCUS_URL, &why.to_string(), "several endpoints stand with commas between")
        })?;
        if found.contains(&endpoint) {
            return Err(values.refuse(
                &INCUS_URL,
                &format!("{endpoint} is given twice, and a member cannot confirm itself"),
                "name each member once",
            ));
        }
        found.push(endpoint);
    }
    Ok(found.iter().any(|endpoint| matches!(endpoint, Endpoint::Https(_))))
}

/// An Incus at the other end of a network: both sides must be known.
fn tls(values: &Resolved) -> Result<IncusTls, OneLine> {
    let needed = |setting: &'static Setting, why: &str| match readable(values, setting)? {
        Some(path) => Ok(path),
        None => Err(values.refuse(
            &INCUS_URL,
            &format!("an https Incus needs {setting}: {why}"),
            &format!("set {setting} ({})", setting.env()),
        )),
    };
    if let (Some(_), None) = (values.get(&INCUS_CLIENT_CERT), values.get(&INCUS_CLIENT_KEY)) {
        return Err(values.refuse(&INCUS_CLIENT_CERT, "has no private key", "set incus_client_key too"));
    }
    if let (None, Some(_)) = (values.get(&INCUS_CLIENT_CERT), values.get(&INCUS_CLIENT_KEY)) {
        return Err(values.refuse(&INCUS_CLIENT_KEY, "has no certificate", "set incus_client_cert too"));
    }
    let stranger = "to strangers it shows nothing of the cluster";
    let client_cert = needed(&INCUS_CLIENT_CERT, stranger)?;
    let client_key = needed(&INCUS_CLIENT_KEY, stranger)?;
    let server_cert = match values.optional(&INCUS_SERVER_CERT)? {
        Some(SYSTEM) => None,
        _ => Some(needed(
            &INCUS_SERVER_CERT,
            "its cluster.crt, or the word `system` for the system's authorities",
        )?),
    };
    let about = |setting, why: &dyn Display| OneLine::new(format_args!("{}: {why}", values.label(setting)));
    ClientIdentity::from_files(&client_cert, &client_key).map_err(|why| about(&INCUS_CLIENT_CERT, &why))?;
    if let Some(path) = &server_cert {
        Trust::pinned_leaf_file(path).map_err(|why| about(&INCUS_SERVER_CERT, &why))?;
    }
    Ok(IncusTls { client_cert, client_key, server_cert })
}

fn no_tls(values: &Resolved) -> Result<Option<IncusTls>, OneLine> {
    for setting in [&INCUS_CLIENT_CERT, &INCUS_CLIENT_KEY, &INCUS_SERVER_CERT] {
        if values.optional(setting)?.is_some() {
            return Err(values.refuse(
                setting,
                "has an effect with an https endpoint in incus_url only",
                "give incus_url an https endpoint or leave it out",
            ));
        }
    }
    Ok(None)
}

fn bmcs(values: &Resolved) -> Result<BmcSettings, OneLine> {
    Ok(BmcSettings {
        map: readable(values, &BMC_MAP)?,
        allow_lab: values.flag(&BMC_ALLOW_LAB)?,
        lab_san_vms: values.list(&LAB_SAN_VMS)?,
    })
}

/// What `apelora bmc check` runs with.
#[derive(Debug, Clone)]
pub(crate) struct BmcCheckConfig {
    /// The BMCs; a map is there.
    pub(crate) bmcs: BmcSettings,
    /// How and what is logged.
    pub(crate) log: LogConfig,
}

impl Configuration for BmcCheckConfig {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[&BMC_MAP, &BMC_ALLOW_LAB, &LAB_SAN_VMS, &LOG, &LOG_FORMAT];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        values.text(&BMC_MAP)?;
        Ok(Self { bmcs: bmcs(values)?, log: log(values)? })
    }
}

/// What `apelora lease check` runs with.
#[derive(Debug, Clone)]
pub(crate) struct LeaseCheckConfig {
    /// The file about storage leases.
    pub(crate) sanlock_hosts: Option<PathBuf>,
    /// Where the worker stores which leases it saw alive; asked when it is named, and not made for this.
    pub(crate) database_url: Option<DatabaseUrl>,
    /// How and what is logged.
    pub(crate) log: LogConfig,
}

impl Configuration for LeaseCheckConfig {
    fn settings() -> &'static [&'static Setting] {
        static OURS: &[&Setting] = &[&SANLOCK_HOSTS, &DATABASE_URL, &LOG, &LOG_FORMAT];
        OURS
    }

    fn build(values: &Resolved) -> Result<Self, OneLine> {
        values.text(&SANLOCK_HOSTS)?;
        let database_url = database_url(values)?;
        Ok(Self {
            sanlock_hosts: readable(values, &SANLOCK_HOSTS)?,
            database_url: values.is_chosen(&DATABASE_URL).then_some(database_url),
            log: log(values)?,
        })
    }
}

#[cfg(test)]
mod tests;

//! `apelora worker`: the process that watches the cluster and switches servers off.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use apelora_fencing::lease::LeaseConfig;
use apelora_fencing::map::{MapState, SecretName};
use apelora_store::{Engine, Store, StoreConfig};
use apelora_worker::bmc_map::MapFile;
use apelora_worker::leases::load_hosts;
use apelora_worker::secret::{EnvironmentSecrets, SecretSource};
use apelora_worker::{
    IncusConfig, Notice, Parts, ProviderSettings, Worker as Process, WorkerConfig, WorkerError,
};
use tokio::sync::mpsc::UnboundedSender;

use super::{configure, server};
use crate::cli::Worker;
use crate::config::{BmcSettings, IncusSettings, OneLine, Provenance, WorkerConfig as Settings};
use crate::failure::Failure;
use crate::systemd::Systemd;
use crate::{filesystem, logging, real, signals};

pub(super) fn run(options: Worker, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let systemd = Systemd::of(&environment);
    let lab = provider_settings(&environment);
    let (settings, provenance) = configure::<Settings>(options.process, environment)?;
    let warning = filesystem::check(&settings.database_url)?;
    let leases = lease_hosts(settings.sanlock_hosts.as_deref())?;
    logging::start(&settings.log);
    logging::provenance(&provenance);
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    let providers = lab(&settings.bmcs);
    let runtime = tokio::runtime::Runtime::new()?;
    let served = runtime.block_on(async {
        let stop = signals::stop_requested()?;
        say_what_matters(&settings, &provenance).await;
        let store = connect(&settings).await?;
        let config = of(settings, providers, leases, options.dry_run, provenance);
        let worker = bind(config, store.clone(), secrets(), None).await?;
        tracing::info!("the worker's health and metrics are at {}", worker.url());
        systemd.ready();
        let mut asked = false;
        let told = async {
            stop.await;
            systemd.stopping();
            asked = true;
        };
        worker.serve(told).await;
        server::close(&store).await;
        if asked {
            Ok(())
        } else {
            Err(Failure::Failed("the worker ended by itself; the log has the cause".to_owned()))
        }
    });
    // A thread that reads a file of a file system that hangs cannot be ended, and must not keep the process.
    runtime.shutdown_background();
    served
}

async fn connect(settings: &Settings) -> Result<Store, Failure> {
    if settings.database_url.engine() == Engine::Sqlite {
        tracing::info!(
            "{} is a file: the server and the worker that use it run on one host, this one",
            settings.database_url
        );
    }
    Store::connect(&StoreConfig::new(settings.database_url.clone())).await.map_err(|e| Failure::because(&e))
}

/// What an operator should know before the first night.
async fn say_what_matters(settings: &Settings, provenance: &Provenance) {
    let BmcSettings { map, allow_lab, lab_san_vms } = &settings.bmcs;
    if map.is_none() {
        tracing::warn!("no BMC map (APELORA_BMC_MAP): nothing is ever switched off");
    }
    if *allow_lab {
        tracing::warn!(
            "APELORA_BMC_ALLOW_LAB is 1: the provider `lima` may stop virtual machines; never in production"
        );
    }
    let loaded = MapFile::new(map.clone(), lab_san_vms.clone()).load().await;
    let used: Vec<&SecretName> = match &loaded.state {
        MapState::Valid(map) => map.iter().flat_map(|(_, entry)| entry.access.secrets()).collect(),
        MapState::Absent => Vec::new(),
        // The passes tell what is wrong with it; until then nobody knows what it names.
        MapState::Invalid => return,
    };
    let is_used = |name: &String| used.iter().any(|secret| secret.as_str() == name);
    for secret in provenance.bmc_secrets.iter().filter(|name| !is_used(name)) {
        tracing::warn!(
            %secret,
            "the environment holds a BMC password that no BMC map names: correct the name, or remove it"
        );
    }
}

/// What the fence providers are told, with what the lab's command needs of the environment.
pub(super) fn provider_settings(
    environment: &[(OsString, OsString)],
) -> impl Fn(&BmcSettings) -> ProviderSettings + use<> {
    let get = |name: &str| environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    let (path, home) = (get("PATH"), get("HOME"));
    move |bmcs| ProviderSettings {
        allow_lab: bmcs.allow_lab,
        lab_san_vms: bmcs.lab_san_vms.clone(),
        path: path.clone(),
        home: home.clone(),
        ..ProviderSettings::default()
    }
}

/// The file about storage leases, if there is one.
pub(super) fn lease_hosts(file: Option<&Path>) -> Result<LeaseConfig, OneLine> {
    file.map_or_else(|| Ok(LeaseConfig::default()), |path| load_hosts(path).map_err(OneLine::new))
}

/// The passwords of BMCs in the environment of this process, read at the moment of use.
pub(super) fn secrets() -> Arc<EnvironmentSecrets> {
    Arc::new(EnvironmentSecrets::looked_up(real::bmc_secret))
}

/// What the worker is told, for these settings.
pub(super) fn of(
    settings: Settings,
    providers: ProviderSettings,
    leases: LeaseConfig,
    dry_run: bool,
    provenance: Provenance,
) -> WorkerConfig {
    let IncusSettings { urls, tls, single_view, healing_off, shared_pools } = settings.incus;
    let (client_cert, client_key, server_cert) = match tls {
        Some(tls) => (Some(tls.client_cert), Some(tls.client_key), tls.server_cert),
        None => (None, None, None),
    };
    WorkerConfig {
        listen: settings.listen,
        node_name: Some(real::host_name()),
        limits: settings.limits,
        incus: IncusConfig {
            urls,
            client_cert,
            client_key,
            server_cert,
            single_view,
            healing_off,
            shared_pools,
        },
        bmc_map: settings.bmcs.map,
        providers,
        failure_domain_rule: settings.failure_domain_rule,
        leases,
        dry_run,
        effective: provenance.effective,
        ..WorkerConfig::new(settings.host.unwrap_or_else(real::host_name))
    }
}

/// A worker that has its address, with the real clocks and ids.
pub(super) async fn bind(
    config: WorkerConfig,
    store: Store,
    secrets: Arc<dyn SecretSource>,
    notices: Option<UnboundedSender<Notice>>,
) -> Result<Process, Failure> {
    let parts = Parts {
        store,
        clock: Arc::new(real::BootClock),
        wall: Arc::new(real::since_1970),
        ids: Arc::new(real::new_id),
        secrets,
        notices,
    };
    apelora_worker::bind(config, parts).await.map_err(|error| match error {
        WorkerError::Listen { .. } => Failure::Failed(error.to_string()),
        setting => Failure::Setting(OneLine::new(setting)),
    })
}

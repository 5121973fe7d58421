//! `apelora server`: the control plane.

use std::time::Duration;

use apelora_fencing::status::SettingStatus;
use apelora_server::{Microversion, Server, ServerConfig as HttpConfig, Sources, StartError};
use apelora_store::{BackfillProgress, Store, StoreConfig};

use super::db::{BACKFILL_BATCH, Tenths};
use crate::config::{OneLine, Provenance, ServerConfig};
use crate::failure::Failure;
use crate::systemd::Systemd;
use crate::{filesystem, logging, real, signals, upkeep};

pub(super) fn run(config: ServerConfig, provenance: &Provenance, systemd: &Systemd) -> Result<(), Failure> {
    let warning = filesystem::check(&config.database_url)?;
    logging::start(&config.log);
    logging::provenance(provenance);
    logging::secrets_of_another(provenance);
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    tokio::runtime::Runtime::new()?.block_on(serve(config, provenance.effective.clone(), systemd))
}

async fn serve(config: ServerConfig, settings: Vec<SettingStatus>, systemd: &Systemd) -> Result<(), Failure> {
    let stop = signals::stop_requested()?;
    let host = config.host.unwrap_or_else(real::host_name);
    let http = HttpConfig {
        auth: config.auth,
        policy: config.policy,
        tls: config.tls,
        settings,
        max_microversion: config.pin.unwrap_or(Microversion::MAX),
        ..HttpConfig::new(config.listen, host.as_str())
    };
    let store =
        Store::connect(&StoreConfig::new(config.database_url)).await.map_err(|e| Failure::because(&e))?;
    let server = bind(http, store.clone()).await?;
    tokio::pin!(stop);
    // Clients that connect meanwhile wait: nobody is to see flags and entries that do not agree.
    let prepared = async {
        if store.note_pin(config.pin.is_some()).await.map_err(|e| Failure::because(&e))? {
            bring_together(&store, &host).await?;
        }
        Ok::<_, Failure>(())
    };
    // It may take long, and may be ended at any point: the next start does the rest.
    tokio::select! {
        done = prepared => done?,
        () = &mut stop => {
            close(&store).await;
            return Ok(());
        }
    }
    let tasks = upkeep::start(&store, config.history, config.audit_days, real::now);
    tracing::info!("the Bare Metal API is at {}", server.url());
    systemd.ready();
    let told = async {
        stop.await;
        systemd.stopping();
    };
    server.serve(told).await;
    drop(tasks);
    close(&store).await;
    Ok(())
}

/// How long a request or a task that is still at work may hold up the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Closes the database. A SQLite file is whole only then: until its last connection is closed, what was written last is
/// in the file beside it.
pub(super) async fn close(store: &Store) {
    if tokio::time::timeout(CLOSE_WAIT, store.close()).await.is_err() {
        tracing::warn!("the database could not be closed in time; nothing that was acknowledged is lost");
    }
}

/// The backfill, told in the log.
async fn bring_together(store: &Store, host: &str) -> Result<(), Failure> {
    let mut tenths = Tenths::default();
    let mut told = |progress: BackfillProgress| {
        if tenths.passed(progress) {
            tracing::info!(
                done = progress.done,
                total = progress.total,
                "bringing flags and entries together"
            );
        }
    };
    let report = store
        .backfill(BACKFILL_BATCH, &mut || real::stamp(host), &mut told)
        .await
        .map_err(|e| Failure::because(&e))?;
    tracing::info!(?report, "flags and entries brought together");
    Ok(())
}

/// A server that listens, with the real clock and ids.
pub(super) async fn bind(config: HttpConfig, store: Store) -> Result<Server, Failure> {
    Server::bind(config, store, Sources::new(real::now, real::new_id)).await.map_err(|error| match error {
        StartError::Listen { .. } => Failure::Failed(error.to_string()),
        setting => Failure::Setting(OneLine::new(setting)),
    })
}

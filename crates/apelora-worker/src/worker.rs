//! A worker: bound, then served until it is told to stop.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use apelora_fencing::Clock;
use apelora_store::{LeaderConfig, Store};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tracing::info;

use crate::bmc_map::MapFile;
use crate::config::{WorkerConfig, WorkerError};
use crate::health::{self, Health};
use crate::leases::LeaseSource;
use crate::metrics::Metrics;
use crate::notice::{Notice, Notices};
use crate::provider::Providers;
use crate::secret::SecretSource;
use crate::shell::{self, Bmcs, Cluster, Database, Endpoints, Ids, Maps, Outside, WallClock};

/// What a worker is given beside its configuration.
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The boot-time clock.
    pub clock: Arc<dyn Clock>,
    /// The wall clock, as Unix time: for figures only.
    pub wall: WallClock,
    /// New random ids.
    pub ids: Ids,
    /// Where the BMCs' secrets are.
    pub secrets: Arc<dyn SecretSource>,
    /// Somebody who follows what happens.
    pub notices: Option<mpsc::UnboundedSender<Notice>>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parts")
    }
}

/// A worker that has its address and does nothing yet.
#[derive(Debug)]
pub struct Worker {
    listener: TcpListener,
    address: SocketAddr,
    outside: Arc<Outside>,
}

/// Checks the configuration, reads what it names, and takes the address.
///
/// # Errors
/// The setting that stands in the way, and the remedy.
pub async fn bind(config: WorkerConfig, parts: Parts) -> Result<Worker, WorkerError> {
    config.check()?;
    let reach = config.incus.reach()?;
    let listen_error = |cause| WorkerError::Listen { address: config.listen, cause };
    let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let leader = LeaderConfig::new(config.limits.clone(), config.host.clone());
    let cluster = Endpoints::new(&config.incus, reach, config.names());
    let map = MapFile::new(config.bmc_map.clone(), config.providers.lab_san_vms.clone());
    let outside = Outside {
        clock: parts.clock,
        wall: parts.wall,
        ids: parts.ids,
        database: Database::Store(Box::new((parts.store, leader))),
        cluster: Cluster::Incus(cluster),
        bmcs: Bmcs::Real(Providers::new(config.providers.clone(), parts.secrets)),
        map: Maps::File(map),
        leases: if config.leases.lockspaces.is_empty() {
            LeaseSource::None
        } else {
            LeaseSource::Sanlock(apelora_sanlock::DEFAULT_SOCKET.into())
        },
        notices: Notices::new(parts.notices),
        metrics: Metrics::new(),
        health: Health::default(),
        config,
    };
    Ok(Worker { listener, address, outside: Arc::new(outside) })
}

impl Worker {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of its addresses, as in `http://127.0.0.1:9642`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Follows and leads until `stop` is done; then ends its conversations and lets the lease go.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, address, outside } = self;
        let config = &outside.config;
        info!(%address, host = config.host, dry_run = config.dry_run, "the worker runs");
        let (stopping, stopped) = watch::channel(false);
        let told = async {
            stop.await;
            stopping.send_replace(true);
        };
        // The pages stay until the life is over.
        let life = async {
            shell::live(Arc::clone(&outside), stopped.clone()).await;
        };
        let pages = health::serve(listener, Arc::clone(&outside));
        tokio::select! {
            ((), ()) = async { tokio::join!(life, told) } => {}
            () = pages => {}
        }
        info!(%address, "the worker stopped");
    }
}

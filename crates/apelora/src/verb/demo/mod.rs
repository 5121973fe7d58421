//! `apelora demo`.

mod introduction;
mod orders;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::lease::LeaseConfig;
use apelora_maintenance::Stamp;
use apelora_server::{Server, ServerConfig};
use apelora_store::{DatabaseUrl, Store, StoreConfig};
use apelora_worker::secret::EnvironmentSecrets;
use apelora_worker::{Pace, ProviderSettings, WorkerConfig};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use super::{server, worker};
use crate::cli::Demo;
use crate::config::{
    Flags, LogConfig, LogFormat, ServerConfig as ServerSettings, Sources, WorkerConfig as Settings, load,
};
use crate::demo::control::{Control, meeting_place};
use crate::demo::{DemoCluster, populate, story};
use crate::failure::Failure;
use crate::{logging, real, signals};

/// The Bare Metal API's usual port.
const USUAL_PORT: u16 = 6385;
/// The name of the demo's service.
const HOST: &str = "demo";
/// What the log tells beside the story, which has everything that the worker says.
const LOG: &str = "warn,apelora_worker::notice=off";
/// Nobody waits for a minute until a new instance is known.
const INVENTORY_EVERY: Duration = Duration::from_secs(10);

pub(super) fn run(options: Demo, environment: &[(OsString, OsString)]) -> Result<(), Failure> {
    if let Some(verb) = options.verb {
        return orders::run(verb, environment);
    }
    logging::start(&LogConfig { filter: LOG.to_owned(), format: LogFormat::Text });
    let folder = tempfile::Builder::new().prefix("apelora-demo-").tempdir()?;
    let place = meeting_place(environment, &std::env::temp_dir());
    let served = tokio::runtime::Runtime::new()?.block_on(serve(folder.path(), options.listen, &place));
    folder.close()?;
    served
}

async fn serve(folder: &Path, listen: Option<SocketAddr>, place: &Path) -> Result<(), Failure> {
    let stop = signals::stop_requested()?;
    let url = format!("sqlite://{}", folder.join("demo.db").display());
    let database = DatabaseUrl::parse(&url).map_err(|e| Failure::because(&e))?;
    let store = Store::connect(&StoreConfig::new(database)).await.map_err(|e| Failure::because(&e))?;
    populate(&store, &hours_ago).await.map_err(|e| Failure::because(&e))?;
    let server = bind(&store, &url, listen).await?;

    let (deeds, done) = unbounded_channel();
    let seed = u64::from_be_bytes(real::new_id().into_bytes()[..8].try_into().unwrap_or_default());
    let cluster = DemoCluster::start(&folder.join("cluster"), seed, real::since_1970(), deeds)
        .await
        .map_err(|e| Failure::because(&e))?;
    let (notices, said) = unbounded_channel();
    let secrets = Arc::new(EnvironmentSecrets::new(cluster.secrets().clone()));
    let worker = worker::bind(worker_config(&cluster, &url)?, store.clone(), secrets, Some(notices)).await?;

    let url = server.url();
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(USUAL_PORT);
    let control = Control::open(place, port).map_err(|e| Failure::because(&e))?;
    introduction::introduce(&url, port != USUAL_PORT)?;
    let trail = story::Trail::from_now(store.clone()).await;
    let story = tokio::spawn(story::tell(said, done, trail, real::now));

    let (stopping, stopped) = watch::channel(false);
    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // An error is the end of whoever would have said so.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let obeyed = cluster.clone();
    let obey = move |order| {
        let cluster = obeyed.clone();
        async move { cluster.obey(&order) }
    };
    let processes = async {
        tokio::join!(
            server.serve(until_stopped(stopped.clone())),
            worker.serve(until_stopped(stopped.clone()))
        )
    };
    let told = async {
        stop.await;
        stopping.send_replace(true);
    };
    tokio::select! {
        _ = async { tokio::join!(processes, told) } => {}
        () = control.serve(obey) => {}
    }
    // The worker's last words.
    let _ = tokio::time::timeout(Duration::from_secs(1), story).await;
    server::close(&store).await;
    Ok(())
}

/// A worker for the simulated cluster, configured as any other one.
fn worker_config(cluster: &DemoCluster, url: &str) -> Result<WorkerConfig, Failure> {
    let environment = cluster.environment().into_iter().chain(ours(url)).collect();
    let (settings, provenance) =
        load(&Sources::<Settings> { file: None, environment, flags: Flags::default() })?;
    let lab = ProviderSettings::default();
    let config = worker::of(settings, lab, LeaseConfig::default(), false, provenance);
    let pace = Pace { inventory: INVENTORY_EVERY, ..config.pace };
    // It runs on none of the cluster's servers, whatever this host is called.
    Ok(WorkerConfig { node_name: None, pace, ..config })
}

/// What both processes are told.
fn ours(url: &str) -> [(OsString, OsString); 2] {
    [("APELORA_DATABASE_URL".into(), url.into()), ("APELORA_HOST".into(), HOST.into())]
}

/// A stamp of that many hours ago.
fn hours_ago(hours: i64) -> Stamp {
    let stamp = real::stamp(HOST);
    Stamp { at: stamp.at - time::Duration::hours(hours), ..stamp }
}

/// At the address that was asked for; else at the usual port; else at a free one.
async fn bind(store: &Store, url: &str, listen: Option<SocketAddr>) -> Result<Server, Failure> {
    let at = async |address: SocketAddr| {
        let listen = [("APELORA_LISTEN".into(), address.to_string().into())];
        let environment = ours(url).into_iter().chain(listen).collect();
        let (_, provenance) =
            load(&Sources::<ServerSettings> { file: None, environment, flags: Flags::default() })?;
        let config = ServerConfig { settings: provenance.effective, ..ServerConfig::new(address, HOST) };
        server::bind(config, store.clone()).await
    };
    match listen {
        Some(address) => at(address).await,
        None => match at((Ipv4Addr::LOCALHOST, USUAL_PORT).into()).await {
            Ok(server) => Ok(server),
            Err(_) => at((Ipv4Addr::LOCALHOST, 0).into()).await,
        },
    }
}

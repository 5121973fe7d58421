//! `apelora demo`.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use apelora_maintenance::Stamp;
use apelora_server::{Server, ServerConfig};
use apelora_store::{DatabaseUrl, Store, StoreConfig};

use super::server;
use crate::cli::Demo;
use crate::config::{LogConfig, LogFormat};
use crate::demo::populate;
use crate::failure::Failure;
use crate::{logging, real, signals};

/// The Bare Metal API's usual port.
const USUAL_PORT: u16 = 6385;
/// The name of the demo's service.
const HOST: &str = "demo";

pub(super) fn run(options: &Demo) -> Result<(), Failure> {
    logging::start(&LogConfig { filter: "warn".to_owned(), format: LogFormat::Text });
    let folder = tempfile::Builder::new().prefix("apelora-demo-").tempdir()?;
    let database = folder.path().join("demo.db");
    let served = tokio::runtime::Runtime::new()?.block_on(async {
        let url = DatabaseUrl::parse(&format!("sqlite://{}", database.display()))
            .map_err(|e| Failure::because(&e))?;
        serve(url, options.listen).await
    });
    folder.close()?;
    served
}

async fn serve(url: DatabaseUrl, listen: Option<SocketAddr>) -> Result<(), Failure> {
    let stop = signals::stop_requested()?;
    let store = Store::connect(&StoreConfig::new(url)).await.map_err(|e| Failure::because(&e))?;
    populate(&store, &hours_ago).await.map_err(|e| Failure::because(&e))?;
    let server = bind(&store, listen).await?;
    introduce(&server.url())?;
    server.serve(stop).await;
    Ok(())
}

/// A stamp of that many hours ago.
fn hours_ago(hours: i64) -> Stamp {
    let stamp = real::stamp(HOST);
    Stamp { at: stamp.at - time::Duration::hours(hours), ..stamp }
}

/// At the address that was asked for; else at the usual port; else at a free one.
async fn bind(store: &Store, listen: Option<SocketAddr>) -> Result<Server, Failure> {
    let at = |address| server::bind(ServerConfig::new(address, HOST), store.clone());
    match listen {
        Some(address) => at(address).await,
        None => match at((Ipv4Addr::LOCALHOST, USUAL_PORT).into()).await {
            Ok(server) => Ok(server),
            Err(_) => at((Ipv4Addr::LOCALHOST, 0).into()).await,
        },
    }
}

fn introduce(url: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "The Bare Metal API is at {url}\n\
         \n\
         It knows twelve nodes of three projects; some of them are out of service, for several reasons at once.\n\
         Try, in another terminal:\n\
         \n\
         # which nodes are out of service, as every client sees it (pip install python-ironicclient)\n\
         baremetal --os-auth-type none --os-endpoint {url} node list --maintenance --fields name owner maintenance_reason\n\
         \n\
         # who holds one of them, and why: entries with type, scope and author\n\
         curl -s -H 'X-OpenStack-Ironic-API-Version: 1.116' {url}/v1/nodes/rack2-n2/maintenance\n\
         \n\
         # another reason beside the boolean that a script has set\n\
         curl -s -H 'X-OpenStack-Ironic-API-Version: 1.116' -H 'Content-Type: application/json' -d '{{\"type\": \"hardware_failure\", \"reason\": \"disk 3\"}}' {url}/v1/nodes/rack1-n1/maintenance\n\
         \n\
         Everything is in a temporary folder and goes with the demo. Ctrl-C ends it."
    )?;
    out.flush()?;
    Ok(())
}

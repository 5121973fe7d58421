//! A server: bound, then served until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apelora_store::Store;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, SERVER};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tracing::{error, info, warn};

use crate::admission::Admission;
use crate::api::Api;
use crate::app::App;
use crate::auth::Authenticator;
use crate::config::{ServerConfig, Sources, StartError};
use crate::metrics::{self, Metrics};
use crate::policy::Policy;
use crate::tls::Tls;
use crate::{listener, openapi, watched};

/// How long the questions of a load balancer may wait for the database.
const READY_WAIT: Duration = Duration::from_secs(2);

/// What stands in `Server`.
const NAME: HeaderValue = HeaderValue::from_static("apelora");

/// A server that has its address and takes no requests yet.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    listener: TcpListener,
    address: SocketAddr,
    api: Arc<Api>,
    tls: Option<Arc<Tls>>,
}

impl Server {
    /// Takes the address and reads what the configuration names. The time and new ids come from `sources`.
    ///
    /// # Errors
    /// The setting that stands in the way, and the remedy.
    pub async fn bind(config: ServerConfig, store: Store, sources: Sources) -> Result<Self, StartError> {
        config.check()?;
        let authenticator = Authenticator::new(&config.auth, &sources)?;
        let policy = Policy::load(config.policy.clone(), authenticator.is_one_trust_domain())
            .map_err(StartError::Policy)?;
        for warning in policy.warnings() {
            warn!(warning, "policy_file");
        }
        let tls = config.tls.as_ref().map(Tls::open).transpose().map_err(StartError::Tls)?.map(Arc::new);
        let listen_error = |cause| StartError::Listen { address: config.listen, cause };
        let listener = TcpListener::bind(config.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let api = Arc::new(Api {
            admission: Admission::new(&config.limits),
            metrics: Metrics::new(store.clone()),
            app: App::new(store, sources, config.host.clone(), config.settings.clone()),
            authenticator,
            policy,
            max: config.max_microversion,
            scheme: if tls.is_some() { "https" } else { "http" },
            local: address,
            body_timeout: config.limits.body_timeout,
            probe: Mutex::new(()),
        });
        Ok(Self { config, listener, address, api, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of its addresses, as in `http://127.0.0.1:6385`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.api.scheme, self.address)
    }

    /// Serves until `shutdown` is done; then takes nothing new and lets running requests finish within their bound.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { config, listener, address, api, tls } = self;
        info!(%address, host = config.host, max_microversion = %config.max_microversion, "serving");
        let router = router(Arc::clone(&api));
        let serving = listener::serve(listener, tls.clone(), router, &config.limits, shutdown);
        tokio::select! {
            () = serving => {}
            () = watched::watch(Arc::clone(&api), tls, config.limits.reload_interval) => {}
            () = watched::watch_policy(Arc::clone(&api), config.limits.reload_interval) => {}
            () = prepare(&api) => {}
        }
        // A request whose client went away may still be at work.
        if tokio::time::timeout(config.limits.stop_timeout, api.admission.quiet()).await.is_err() {
            error!("some requests did not finish in time");
        }
        info!(%address, "stopped");
    }
}

/// What can be done before the first request, beside the requests.
async fn prepare(api: &Api) {
    api.authenticator.prepare().await;
    std::future::pending::<()>().await;
}

/// The service's own pages beside the Bare Metal API, which reads its paths itself.
fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { (StatusCode::OK, "ok\n") }))
        .route("/readyz", get(ready))
        .route("/metrics", get(figures))
        .route("/openapi.json", get(|| async { json(openapi::document()) }))
        .fallback(bare_metal)
        .with_state(api)
        .layer(axum::middleware::map_response(with_server))
}

async fn with_server(mut response: Response) -> Response {
    response.headers_mut().insert(SERVER, NAME);
    response
}

async fn bare_metal(State(api): State<Arc<Api>>, request: Request) -> Response {
    api.serve(request).await.map(Body::new)
}

/// Whether requests can be answered now.
async fn ready(State(api): State<Arc<Api>>) -> Response {
    let asked = async {
        // Anybody may ask: one at a time is enough.
        let _alone = api.probe.lock().await;
        api.app.store().ping().await
    };
    match tokio::time::timeout(READY_WAIT, asked).await {
        Ok(Ok(())) => (StatusCode::OK, "ok\n").into_response(),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "2")], "the database does not answer\n")
                .into_response()
        }
    }
}

async fn figures(State(api): State<Arc<Api>>) -> Response {
    let asked = async {
        let _alone = api.probe.lock().await;
        (api.app.store().entry_counts().await, api.app.figures().await)
    };
    let (counts, cluster) = match tokio::time::timeout(READY_WAIT, asked).await {
        Ok((counts, cluster)) => {
            if let Err(failure) = &counts {
                error!(?failure, "the entries could not be counted for the figures");
            }
            if let Err(failure) = &cluster {
                error!(?failure, "the cluster could not be looked at for the figures");
            }
            (counts.ok(), cluster.ok())
        }
        Err(_) => (None, None),
    };
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], api.metrics.text(counts, cluster).await).into_response()
}

fn json(document: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], document).into_response()
}

//! Metrics and health over HTTP: `/metrics`, `/healthz`, `/readyz`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apelora_fencing::{BootTime, Epoch};
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::metrics;
use crate::shell::Outside;

/// The largest head of a request, in bytes.
const HEAD_MAX: usize = 16 << 10;
/// How long a request's head may take.
const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection, which is one request and its answer, may take.
const CONNECTION_LIMIT: Duration = Duration::from_secs(15);
/// Connections at once.
const CONNECTIONS: usize = 64;
/// The pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A follower that has not heard from the database for this long is not ready.
const SILENCE: Duration = Duration::from_secs(30);

/// What the worker is at, for those who ask.
#[derive(Debug)]
pub(crate) struct Health(Mutex<Role>);

#[derive(Clone, Debug)]
enum Role {
    Leading(Epoch),
    Following {
        /// When the database answered last.
        answered: Option<BootTime>,
        /// What stands in the way.
        problem: Option<String>,
    },
}

impl Default for Health {
    fn default() -> Self {
        Self(Mutex::new(Role::Following { answered: None, problem: None }))
    }
}

impl Health {
    fn role(&self) -> MutexGuard<'_, Role> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This worker leads.
    pub(crate) fn leading(&self, epoch: Epoch) {
        *self.role() = Role::Leading(epoch);
    }

    /// This worker follows; the database answered, and somebody else may lead.
    pub(crate) fn following(&self, now: BootTime) {
        *self.role() = Role::Following { answered: Some(now), problem: None };
    }

    /// This worker follows, and something stands in the way of more.
    pub(crate) fn hindered(&self, problem: String) {
        let mut role = self.role();
        let answered = match &*role {
            Role::Following { answered, .. } => *answered,
            Role::Leading(_) => None,
        };
        *role = Role::Following { answered, problem: Some(problem) };
    }

    /// Whether the worker does its part, and in which role; otherwise why not.
    pub(crate) fn ready(&self, now: BootTime) -> Result<String, String> {
        match &*self.role() {
            Role::Leading(epoch) => Ok(format!("leading, epoch {}", epoch.0)),
            Role::Following { problem: Some(problem), .. } => Err(problem.clone()),
            Role::Following { answered: None, .. } => Err("the database has not answered yet".into()),
            Role::Following { answered: Some(at), .. } if now.since(*at) > SILENCE => {
                Err(format!("the database has not answered for {} s", now.since(*at).as_secs()))
            }
            Role::Following { .. } => Ok("following".into()),
        }
    }
}

fn router(outside: Arc<Outside>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(figures))
        .with_state(outside)
}

async fn ready(State(outside): State<Arc<Outside>>) -> Response {
    match outside.health.ready(outside.clock.boot()) {
        Ok(role) => format!("{role}\n").into_response(),
        Err(problem) => (axum::http::StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")).into_response(),
    }
}

async fn figures(State(outside): State<Arc<Outside>>) -> Response {
    ([(axum::http::header::CONTENT_TYPE, metrics::CONTENT_TYPE)], outside.metrics.text()).into_response()
}

/// Serves for ever. Each connection is one request, bounded in time and size.
pub(crate) async fn serve(listener: TcpListener, outside: Arc<Outside>) {
    let router = router(outside);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        tokio::select! {
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let router = router.clone();
                    connections.spawn(async move {
                        let _place = place;
                        if timeout(CONNECTION_LIMIT, connection(stream, router)).await.is_err() {
                            debug!("a connection took too long and is cut");
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_MAX)
        .keep_alive(false)
        .half_close(true);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = served.await {
        debug!(error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> BootTime {
        BootTime::new(Duration::from_secs(secs))
    }

    #[test]
    fn readiness_says_why_not() {
        let health = Health::default();
        assert_eq!(health.ready(at(1)), Err("the database has not answered yet".into()));
        health.following(at(1));
        assert_eq!(health.ready(at(31)), Ok("following".into()));
        assert_eq!(health.ready(at(40)), Err("the database has not answered for 39 s".into()));
        health.hindered("no route".into());
        assert_eq!(health.ready(at(2)), Err("no route".into()));
        health.leading(Epoch(7));
        assert_eq!(health.ready(at(99)), Ok("leading, epoch 7".into()));
    }
}

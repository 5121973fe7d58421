//! One request of the Bare Metal API from its head to its answer, in the order of checks that clients know.
//!
//! Source: tests/data/ironic/README.md section 1.4: credentials, body, version, route, ident, then the resource's own checks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response, request};
use http_body_util::Full;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, error, info, info_span};

use crate::accept::Accept;
use crate::admission::{self, Admission, TurnedAway};
use crate::app::{App, Context};
use crate::auth::{Authenticator, Caller, NotLetIn};
use crate::baremetal::Call;
use crate::cluster::ClusterRoute;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::microversion;
use crate::policy::Policy;
use crate::reply::{Rendering, Success};
use crate::request::{Request, Unread};
use crate::route::{self, NoRoute, Route};
use crate::{Microversion, endpoints};

/// Everything that requests need.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) app: App,
    pub(crate) authenticator: Authenticator,
    pub(crate) policy: Policy,
    pub(crate) admission: Admission,
    pub(crate) metrics: Metrics,
    pub(crate) max: Microversion,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) local: SocketAddr,
    pub(crate) body_timeout: Duration,
    /// Held while one of the service's own pages asks the database.
    pub(crate) probe: tokio::sync::Mutex<()>,
}

/// What is known of a request besides its content; for its answer and for its line in the log.
#[derive(Debug, Clone)]
struct Trace {
    id: String,
    began: Instant,
    method: Method,
    at_root: bool,
    accept: Accept,
    version: Option<Microversion>,
    route: &'static str,
    caller: Option<String>,
}

/// Tries to get past the reservation of another service, and the time between two. Source: tests/data/ironic/README.md section 3.8.
const RESERVATION_TRIES: u32 = 3;
const RESERVATION_PAUSE: Duration = Duration::from_secs(1);

/// The route of requests that name none.
const NO_ROUTE: &str = "none";

impl Api {
    /// Answers a request.
    pub(crate) async fn serve(self: Arc<Self>, request: http::Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let mut trace = Trace {
            id: format!("req-{}", self.app.new_id()),
            began: Instant::now(),
            method: parts.method.clone(),
            at_root: matches!(parts.uri.path(), "/" | "//"),
            accept: Accept::of(&parts.headers),
            version: None,
            route: NO_ROUTE,
            caller: None,
        };
        if trace.method == Method::OPTIONS && !trace.at_root {
            return self.finish(&trace, &Ok(Success::options()));
        }
        let (caller, request) = match self.receive(&mut trace, parts, body).await {
            Ok(received) => received,
            Err(refusal) => return self.finish(&trace, &Err(refusal)),
        };
        let turn = match self.admission.turn().await {
            Ok(turn) => turn,
            Err(why) => return self.finish(&trace, &Err(self.busy(why))),
        };
        // Apart from the connection: a client that goes away does not cut a change in half, and a fault ends nothing
        // but its own request.
        let span = info_span!("request", id = trace.id);
        let work = {
            let (api, mut trace) = (Arc::clone(&self), trace.clone());
            async move {
                let _working = api.metrics.working();
                let outcome = api.work_with_patience(turn, &mut trace, &caller, &request).await;
                api.finish(&trace, &outcome)
            }
        };
        match tokio::spawn(work.instrument(span)).await {
            Ok(response) => response,
            Err(failure) => {
                error!(
                    id = trace.id,
                    panicked = failure.is_panic(),
                    "a request was ended by a fault of the service"
                );
                self.metrics.panicked();
                self.finish(&trace, &Err(ApiError::internal()))
            }
        }
    }

    /// Who calls, and the whole request.
    async fn receive(
        &self,
        trace: &mut Trace,
        parts: request::Parts,
        body: Body,
    ) -> Result<(Caller, Request), ApiError> {
        let recognised = self.authenticator.authenticate(&parts, || self.app.now(), &self.policy).await;
        let caller = recognised.map_err(|(why, refusal)| {
            match why {
                NotLetIn::Undecided(why) => self.metrics.undecided(why),
                NotLetIn::Token if refusal.status() == http::StatusCode::BAD_REQUEST => {
                    self.metrics.malformed_credentials();
                }
                NotLetIn::Token => {}
            }
            refusal
        })?;
        trace.caller = Some(caller.user.clone());
        let by = Instant::now() + self.body_timeout;
        match Request::read(parts, body, by).await {
            Ok(request) => Ok((caller, request)),
            Err(Unread::Refused(refusal)) => Err(refusal),
            Err(Unread::Gone) => {
                let message = "The request body could not be read.";
                Err(ApiError::Body { status: http::StatusCode::BAD_REQUEST, message })
            }
        }
    }

    /// Does the request, and again when another service held the node: nothing was changed then. Whoever waits takes
    /// nobody's turn.
    async fn work_with_patience(
        &self,
        turn: OwnedSemaphorePermit,
        trace: &mut Trace,
        caller: &Caller,
        request: &Request,
    ) -> Result<Success, ApiError> {
        let mut turn = turn;
        for _ in 1..RESERVATION_TRIES {
            match self.work(trace, caller, request).await {
                Err(ApiError::Reserved { .. }) => {}
                outcome => return outcome,
            }
            drop(turn);
            sleep(RESERVATION_PAUSE).await;
            turn = self.admission.turn().await.map_err(|why| self.busy(why))?;
        }
        let outcome = self.work(trace, caller, request).await;
        drop(turn);
        outcome
    }

    /// Version, route, then what the endpoint is for.
    async fn work(&self, trace: &mut Trace, caller: &Caller, request: &Request) -> Result<Success, ApiError> {
        let version = microversion::negotiate(&request.headers, self.max).map_err(ApiError::Version)?;
        trace.version = Some(version);
        let strip_json = microversion::strips_json_suffix(&request.headers);
        let route = route::parse(request.uri.path(), strip_json).map_err(|no_route| match no_route {
            NoRoute::Unknown => ApiError::no_route(),
            NoRoute::NoResource => ApiError::no_resource(),
            NoRoute::BadIdent(ident) => ApiError::Router {
                status: http::StatusCode::BAD_REQUEST,
                description: format!("Expected UUID or name for node: {ident}"),
                allow: None,
            },
        })?;
        trace.route = endpoints::template(&route);
        let endpoint = endpoints::find(&route, &request.method, version)?;
        // The audit trail has other forms beside JSON and looks by itself.
        let json_only = !matches!(route, Route::Root | Route::Cluster(ClusterRoute::Audit));
        if json_only && !trace.accept.json() {
            return Err(ApiError::NotAcceptable);
        }
        let base = request.base(self.scheme, self.local);
        let cx = Context { caller, version };
        let call = Call { app: &self.app, cx, request, route: &route, base: &base, max: self.max };
        call.answer(endpoint).await
    }

    fn busy(&self, why: TurnedAway) -> ApiError {
        self.metrics.turned_away(why.as_str());
        ApiError::unavailable(
            "The service has too much to do at the moment. Please retry",
            admission::RETRY_AFTER,
        )
    }

    /// The response, after the request's line in the log and its place in the figures.
    fn finish(&self, trace: &Trace, outcome: &Result<Success, ApiError>) -> Response<Full<Bytes>> {
        let rendering = Rendering {
            method: &trace.method,
            at_root: trace.at_root,
            accept: &trace.accept,
            version: trace.version,
            max: self.max,
            request_id: &trace.id,
        };
        let response = rendering.response(outcome);
        let status = response.status();
        let took = trace.began.elapsed();
        self.metrics.answered(trace.route, &trace.method, status, took);
        info!(
            id = trace.id,
            method = %trace.method,
            route = trace.route,
            status = status.as_u16(),
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            caller = ?trace.caller.as_deref().unwrap_or_default(),
            "answered"
        );
        response
    }
}

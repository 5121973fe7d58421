//! Figures of this server, in the text form of OpenMetrics.
//!
//! One registry for each server, so that several in one process keep apart. No label holds an identity or a text of a
//! client.

use std::fmt;
use std::time::Duration;

use apelora_maintenance::{Scope, registry};
use apelora_store::{EntryCount, Retries, Store};
use http::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use crate::cluster::{Figures, Gauges};

/// The media type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds of the buckets for durations, in seconds.
const BUCKETS: [f64; 11] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabels {
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EntryLabels {
    r#type: String,
    scope: String,
}

/// The figures of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    turned_away: Family<WhyLabels, Counter>,
    auth_failures: Family<WhyLabels, Counter>,
    undecided: Family<WhyLabels, Counter>,
    policy_reads: Family<OutcomeLabels, Counter>,
    policy_in_force: Gauge,
    denials: Family<RouteLabels, Counter>,
    panics: Counter,
    entries: Family<EntryLabels, Gauge>,
    cluster: Gauges,
    /// Held while entries are counted and written, so that two scrapes do not mix.
    scrape: Mutex<()>,
}

impl Metrics {
    pub(crate) fn new(store: Store) -> Self {
        let mut registry = Registry::with_prefix("apelora");
        let new = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Gauge::default(),
            turned_away: Family::default(),
            auth_failures: Family::default(),
            undecided: Family::default(),
            policy_reads: Family::default(),
            policy_in_force: Gauge::default(),
            denials: Family::default(),
            panics: Counter::default(),
            entries: Family::default(),
            cluster: Gauges::default(),
            scrape: Mutex::new(()),
            registry: Registry::default(),
        };
        registry.register("http_requests", "Answered requests of the API", new.requests.clone());
        registry.register(
            "http_request_duration_seconds",
            "Time from the head of a request to its answer",
            new.durations.clone(),
        );
        registry.register("http_requests_in_flight", "Requests that are worked on", new.in_flight.clone());
        registry.register(
            "http_turned_away",
            "Requests that were not worked on because the server was busy",
            new.turned_away.clone(),
        );
        registry.register("auth_failures", "Requests without valid credentials", new.auth_failures.clone());
        registry.register(
            "auth_undecided",
            "Requests of which Keystone could not say who sent them",
            new.undecided.clone(),
        );
        registry.register(
            "policy_reads",
            "Changed policy files, read again while serving",
            new.policy_reads.clone(),
        );
        registry.register(
            "policy_in_force",
            "1 while the rules in force are those of the policy files, 0 after the files could not be used",
            new.policy_in_force.clone(),
        );
        new.policy_in_force.set(1);
        registry.register("denials", "Requests that policy or an entry's floor refused", new.denials.clone());
        registry.register("http_panics", "Requests that a fault of the service ended", new.panics.clone());
        registry.register(
            "maintenance_entries",
            "Active maintenance entries by type and scope",
            new.entries.clone(),
        );
        new.cluster.register(&mut registry);
        registry.register_collector(Box::new(StoreFigures(store)));
        for why in ["queue_full", "queue_wait"] {
            drop(new.turned_away.get_or_create(&WhyLabels { why }));
        }
        for why in ["keystone_unavailable", "keystone_own_credentials"] {
            drop(new.undecided.get_or_create(&WhyLabels { why }));
        }
        for outcome in ["swapped", "refused"] {
            drop(new.policy_reads.get_or_create(&OutcomeLabels { outcome }));
        }
        for why in ["unauthorized", "malformed"] {
            drop(new.auth_failures.get_or_create(&WhyLabels { why }));
        }
        Self { registry, ..new }
    }

    pub(crate) fn answered(&self, route: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let labels = RequestLabels { route, method: method_label(method), status: status_label(status) };
        self.requests.get_or_create(&labels).inc();
        self.durations.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
        match status {
            StatusCode::FORBIDDEN => {
                self.denials.get_or_create(&RouteLabels { route }).inc();
            }
            StatusCode::UNAUTHORIZED => {
                self.auth_failures.get_or_create(&WhyLabels { why: "unauthorized" }).inc();
            }
            _ => {}
        }
    }

    pub(crate) fn malformed_credentials(&self) {
        self.auth_failures.get_or_create(&WhyLabels { why: "malformed" }).inc();
    }

    /// A request of which nobody could say who sent it.
    pub(crate) fn undecided(&self, why: &'static str) {
        self.undecided.get_or_create(&WhyLabels { why }).inc();
    }

    /// Changed policy files were read; `swapped` is whether they are in force.
    pub(crate) fn policy_looked(&self, swapped: bool) {
        let outcome = if swapped { "swapped" } else { "refused" };
        self.policy_reads.get_or_create(&OutcomeLabels { outcome }).inc();
        self.policy_in_force.set(i64::from(swapped));
    }

    pub(crate) fn turned_away(&self, why: &'static str) {
        self.turned_away.get_or_create(&WhyLabels { why }).inc();
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    /// Counts one request as being worked on until the answer is dropped.
    pub(crate) fn working(&self) -> Working {
        self.in_flight.inc();
        Working(self.in_flight.clone())
    }

    /// Everything as text, with the entries and the cluster as the database has them now; `None` leaves them as they were.
    pub(crate) async fn text(&self, counts: Option<Vec<EntryCount>>, cluster: Option<Figures>) -> String {
        let _alone = self.scrape.lock().await;
        if let Some(counts) = counts {
            self.set_entries(counts);
        }
        if let Some(cluster) = cluster {
            self.cluster.set(cluster);
        }
        let mut out = String::new();
        // Writing to memory does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }

    fn set_entries(&self, counts: Vec<EntryCount>) {
        self.entries.clear();
        for entry_type in registry::TYPES {
            for scope in Scope::ALL {
                let labels =
                    EntryLabels { r#type: entry_type.name.to_owned(), scope: scope.as_str().to_owned() };
                drop(self.entries.get_or_create(&labels));
            }
        }
        for EntryCount { entry_type, scope, count } in counts {
            self.entries.get_or_create(&EntryLabels { r#type: entry_type, scope }).set(count);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// One request that is being worked on.
#[derive(Debug)]
pub(crate) struct Working(Gauge);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Figures that the store keeps itself.
#[derive(Debug)]
struct StoreFigures(Store);

impl Collector for StoreFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let health = self.0.health();
        let Retries { deadlock, serialization, lock_wait, duplicate, connection } = health.retries;
        let retries = Family::<WhyLabels, Counter>::default();
        for (why, count) in [
            ("deadlock", deadlock),
            ("serialization", serialization),
            ("lock_wait", lock_wait),
            ("duplicate", duplicate),
            ("connection", connection),
        ] {
            retries.get_or_create(&WhyLabels { why }).inc_by(count);
        }
        let mut family =
            |name: &str, help: &str, metric: &dyn DynMetric| metric.write(&mut encoder, name, help);
        family("store_retries", "Transactions that were run again", &retries)?;
        family(
            "store_unanswered_commits",
            "Commits that the database did not answer and that were read back",
            &ConstCounter::new(health.unanswered_commits),
        )?;
        family(
            "store_unknown_commits",
            "Commits of which it could not be told whether they were made",
            &ConstCounter::new(health.unknown_commits),
        )
    }
}

/// A metric as a value of several kinds.
trait DynMetric {
    fn write(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result;
}

impl<M: EncodeMetric> DynMetric for M {
    fn write(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result {
        let metric = encoder.encode_descriptor(name, help, None, self.metric_type())?;
        self.encode(metric)
    }
}

/// Methods of strangers do not become labels.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn status_label(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

//! Figures of the cluster as the database has it, for alerts: numbers only, because everybody may read them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::look::Look;

/// What is counted in one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    leads: bool,
    status_age: Option<Duration>,
    unproven: usize,
    fenced: usize,
    distrusted: usize,
}

impl Figures {
    /// Counts. Of a report that is not current nobody is Offline: that it is old is a figure of its own.
    pub(super) fn of(look: &Look) -> Self {
        let names = look.names();
        let count = |holds: &dyn Fn(&apelora_fencing::MemberName) -> bool| {
            names.iter().filter(|name| holds(name)).count()
        };
        let fenced = |name: &_| look.stored(name).is_some_and(|stored| stored.row.is_fenced());
        Self {
            leads: look.leads(),
            status_age: look.report_age(),
            unproven: count(&|name| {
                look.is_current() && look.status_word(name) == Some("Offline") && !fenced(name)
            }),
            fenced: count(&fenced),
            distrusted: count(&|name| look.stored(name).is_some_and(|stored| stored.row.distrusted)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// The gauges.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    leads: Gauge,
    /// Not there before the first report.
    status_age: Family<NoLabels, Gauge<f64, AtomicU64>>,
    unproven: Gauge,
    fenced: Gauge,
    distrusted: Gauge,
}

impl Gauges {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "cluster_leader",
            "1 while some worker holds the leader lease by the database's clock, else 0",
            self.leads.clone(),
        );
        registry.register_with_unit(
            "cluster_status_age",
            "Time since a leader published its status; missing before the first one",
            Unit::Seconds,
            self.status_age.clone(),
        );
        registry.register(
            "cluster_members_unproven",
            "Members that are Offline in the current pass and not proven off",
            self.unproven.clone(),
        );
        registry.register("cluster_members_fenced", "Members that are proven off", self.fenced.clone());
        registry.register(
            "cluster_members_distrusted",
            "Members whose entry of the BMC map is distrusted until a person clears it",
            self.distrusted.clone(),
        );
    }

    pub(crate) fn set(&self, figures: Figures) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.leads.set(figures.leads.into());
        self.status_age.clear();
        if let Some(age) = figures.status_age {
            self.status_age.get_or_create(&NoLabels {}).set(age.as_secs_f64());
        }
        self.unproven.set(number(figures.unproven));
        self.fenced.set(number(figures.fenced));
        self.distrusted.set(number(figures.distrusted));
    }
}

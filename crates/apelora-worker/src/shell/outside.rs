//! Everything around the machine: the outside systems, the clocks, and where is told what happens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::{BootTime, Clock};
use tokio::time::Instant;
use uuid::Uuid;

use super::bmc::Bmcs;
use super::cluster::Cluster;
use super::database::Database;
use super::map::Maps;
use crate::config::WorkerConfig;
use crate::health::Health;
use crate::leases::LeaseSource;
use crate::metrics::Metrics;
use crate::notice::Notices;

/// Makes new random ids.
pub type Ids = Arc<dyn Fn() -> Uuid + Send + Sync>;
/// The wall clock, as Unix time. Shown, and never compared with anything.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What one worker works with, shared by its tasks.
pub(crate) struct Outside {
    pub(crate) config: WorkerConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) wall: WallClock,
    pub(crate) ids: Ids,
    pub(crate) database: Database,
    pub(crate) cluster: Cluster,
    pub(crate) bmcs: Bmcs,
    pub(crate) map: Maps,
    pub(crate) leases: LeaseSource,
    pub(crate) notices: Notices,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
}

impl Outside {
    /// The same time on the clock that timers use. That one stands still in a suspend: whatever must not be late is
    /// compared with the boot clock again.
    pub(crate) fn instant(&self, at: BootTime) -> Instant {
        Instant::now() + at.since(self.clock.boot())
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").field("config", &self.config).finish_non_exhaustive()
    }
}

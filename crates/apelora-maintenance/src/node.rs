//! A node as the planner sees it: plain data, read under the node's lock.

use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::Entry;

/// The columns of `nodes` that a change of its entries reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// `nodes.uuid`.
    pub uuid: String,
    /// `nodes.name`.
    pub name: Option<String>,
    /// `nodes.owner`: a project.
    pub owner: Option<String>,
    /// `nodes.lessee`: a project.
    pub lessee: Option<String>,
    /// `nodes.maintenance`: the cache of "an entry exists". Null in the database reads as false.
    pub maintenance: bool,
    /// `nodes.maintenance_reason`: the cache of the synthesised reason.
    pub maintenance_reason: Option<String>,
    /// `nodes.fault`.
    pub fault: Option<String>,
    /// `nodes.provision_state`.
    pub provision_state: Option<String>,
    /// `nodes.target_provision_state`.
    pub target_provision_state: Option<String>,
    /// `nodes.provision_updated_at`, UTC.
    pub provision_updated_at: Option<PrimitiveDateTime>,
}

/// A node and its active entries in the order `(asserted_at, id)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockedNode {
    /// The node's own columns.
    pub node: NodeFacts,
    /// Its active entries.
    pub entries: Vec<Entry>,
}

/// What a change takes from outside: made once per request and before the lock, so that a re-run of the transaction
/// gives the same rows, and a change whose COMMIT was not answered can be recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The id of the change. Ids of history and audit rows follow from it.
    pub change: Uuid,
    /// The id of the entry, if one is made.
    pub entry: Uuid,
    /// The time of the change in UTC, whole seconds.
    pub at: PrimitiveDateTime,
    /// This service's name, as it stands in `node_history.conductor`.
    pub host: String,
}

impl Stamp {
    /// The stamp of a change made `now` by the service `host`; the time is cut to the whole second that is stored.
    pub fn new(change: Uuid, entry: Uuid, now: PrimitiveDateTime, host: String) -> Self {
        Self { change, entry, at: now.replace_nanosecond(0).unwrap_or(now), host }
    }

    /// The `n`-th id that follows from the change's own.
    pub(crate) fn derived(&self, n: usize) -> Uuid {
        Uuid::new_v5(&self.change, &n.to_be_bytes())
    }
}

//! Rows that are read back: history, audit, counts.

use apelora_maintenance::{Entry, Scope};
use time::PrimitiveDateTime;

/// A row of `node_history`, of whatever service wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRecord {
    /// The record's id.
    pub uuid: String,
    /// When, in UTC.
    pub created_at: Option<PrimitiveDateTime>,
    /// When it was changed, in UTC; null for all that this service writes.
    pub updated_at: Option<PrimitiveDateTime>,
    /// The name of the service that wrote it.
    pub conductor: Option<String>,
    /// The kind of event: `maintenance` for changes of entries.
    pub event_type: Option<String>,
    /// `INFO` or `ERROR`.
    pub severity: Option<String>,
    /// The text.
    pub event: Option<String>,
    /// Who; at most 64 characters.
    pub user: Option<String>,
    /// Whose project; at most 80 characters.
    pub project: Option<String>,
    /// The node's provision state.
    pub state: Option<String>,
    /// The node's target provision state.
    pub target_provision_state: Option<String>,
    /// Whole seconds since the provision state changed.
    pub duration_seconds: Option<i64>,
    /// Readers below this rank may not learn `user` and `project`; `None` when nothing is hidden.
    pub author_visible_from: Option<Scope>,
}

/// A row of `apelora_audit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its place in the trail; grows with every row.
    pub seq: i64,
    /// The row's id.
    pub uuid: String,
    /// When, in UTC.
    pub at: PrimitiveDateTime,
    /// Who.
    pub user: String,
    /// That user's project; empty when there is none.
    pub project: String,
    /// The rank with which that user acted; empty for none.
    pub scope: String,
    /// The worker's epoch, when a worker did it.
    pub epoch: Option<i64>,
    /// What was done, such as `maintenance.asserted`.
    pub action: String,
    /// How it ended: `success`, `failed` or `refused`.
    pub outcome: String,
    /// Why, as a stable word.
    pub reason_code: Option<String>,
    /// The node's uuid.
    pub node_uuid: Option<String>,
    /// The node's name at that time.
    pub node_name: Option<String>,
    /// The cluster member.
    pub member: Option<String>,
    /// The hardware's own uuid.
    pub hardware_uuid: Option<String>,
    /// One sentence.
    pub summary: String,
    /// The text of a JSON object with everything about it.
    pub evidence: String,
}

/// The node of an entry, as far as it is told with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryNode {
    /// Its uuid.
    pub uuid: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The project that owns it.
    pub owner: Option<String>,
    /// The project that leases it.
    pub lessee: Option<String>,
}

/// An active entry with its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEntry {
    /// Where.
    pub node: EntryNode,
    /// What.
    pub entry: Entry,
}

/// How many entries are active, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryCount {
    /// The entries' type.
    pub entry_type: String,
    /// The entries' scope, as stored.
    pub scope: String,
    /// How many.
    pub count: i64,
}

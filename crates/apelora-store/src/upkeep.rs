//! What upkeep reports.

/// How far a backfill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackfillProgress {
    /// Nodes that were looked at.
    pub done: u64,
    /// Nodes that were to be looked at when it began.
    pub total: u64,
}

/// What a backfill did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackfillReport {
    /// Nodes that were looked at: those with the flag up or with an entry.
    pub examined: u64,
    /// Nodes where something was brought together.
    pub reconciled: u64,
    /// Legacy entries made for a flag without an entry.
    pub legacy_made: u64,
    /// Legacy entries ended because the flag was down.
    pub legacy_ended: u64,
    /// Fault entries ended because the flag was down or the fault was cleared.
    pub fault_ended: u64,
    /// Flags raised again for typed entries.
    pub flags_raised: u64,
    /// Entries whose reason or fault kind was taken over from the node.
    pub amended: u64,
    /// Nodes on which only `maintenance_reason` or `fault` was written again.
    pub refreshed: u64,
}

/// How much node history is kept, of every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The newest records of a node that are kept; 0 keeps all.
    pub max_entries: u32,
    /// Records younger than this many days are kept whatever their number.
    pub min_days: u32,
    /// Records deleted in one transaction; 0 deletes nothing.
    pub batch: u32,
}

/// The schema of a database, beside the one that this version works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaStatus {
    /// The version in the database; 0 for none.
    pub found: u32,
    /// The version that this program makes.
    pub wanted: u32,
    /// Whether this program can work with what was found.
    pub usable: bool,
    /// Whether `nodes` was made by the reference service.
    pub adopted: bool,
    /// Whether a backfill is due.
    pub backfill_due: bool,
}

/// How the store is doing, for health pages and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// The engine and its version.
    pub engine: String,
    /// Connections that are open.
    pub connections: u32,
    /// Connections that are not in use.
    pub idle: u32,
    /// Transactions run again, by cause.
    pub retries: Retries,
    /// Commits that were not answered.
    pub unanswered_commits: u64,
    /// Of those, the ones that could not be resolved in time.
    pub unknown_commits: u64,
}

/// Transactions that were run again, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retries {
    /// Deadlocks, also those of a Galera certification.
    pub deadlock: u64,
    /// Serialization failures.
    pub serialization: u64,
    /// Locks that were not granted in time, also a busy SQLite file.
    pub lock_wait: u64,
    /// A concurrent insert of the same entry.
    pub duplicate: u64,
    /// A connection that broke before the commit.
    pub connection: u64,
}

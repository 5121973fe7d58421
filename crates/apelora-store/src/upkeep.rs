//! Upkeep: its transactions, and what it reports.

use std::convert::Infallible;

use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::engine::{Conn, Fault};
use crate::table::pin::{self, Pin};
use crate::table::{audit, change, history};
use crate::transact::{Stop, Work};

/// What is noted about the pin. Each of these comes to the same when it is done twice, so none has an id to look for.
pub(crate) enum MarkPin {
    /// A start, with or without the pin.
    Start { pinned: bool },
    /// Nothing; the row is only read.
    Look,
    /// A backfill that was begun when `wanted` of them were wanted.
    Done { wanted: i64 },
}

impl Work for MarkPin {
    type Locked = Pin;
    type Out = Pin;
    type Refusal = Infallible;

    fn change(&self) -> Uuid {
        Uuid::nil()
    }

    async fn lock(&mut self, tx: &mut Conn) -> Result<Pin, Fault> {
        pin::lock(tx).await
    }

    async fn write(&mut self, tx: &mut Conn, before: Pin) -> Result<Pin, Stop<Infallible>> {
        let mut pin = before;
        match self {
            Self::Start { pinned } => {
                pin.wanted += i64::from(before.pinned && !*pinned);
                pin.pinned = *pinned;
            }
            Self::Look => {}
            Self::Done { wanted } => pin.done = pin.done.max(*wanted),
        }
        if pin != before {
            pin::write(tx, pin).await?;
        }
        Ok(pin)
    }
}

/// Deletes the oldest records of one node's history.
pub(crate) struct OldHistory {
    pub(crate) node_id: i64,
    pub(crate) before: PrimitiveDateTime,
    pub(crate) limit: i64,
}

impl Work for OldHistory {
    type Locked = ();
    type Out = u64;
    type Refusal = Infallible;

    fn change(&self) -> Uuid {
        Uuid::nil()
    }

    async fn lock(&mut self, _tx: &mut Conn) -> Result<(), Fault> {
        Ok(())
    }

    async fn write(&mut self, tx: &mut Conn, (): ()) -> Result<u64, Stop<Infallible>> {
        let limit = u64::try_from(self.limit).unwrap_or(0);
        let records = history::oldest(tx, self.node_id, self.before, limit).await?;
        Ok(history::delete(tx, &records).await?)
    }
}

/// Tables that only grow, and lose their oldest rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows {
    Changes,
    Audit,
}

/// Deletes the oldest rows of such a table.
pub(crate) struct OldRows {
    pub(crate) rows: Rows,
    pub(crate) before: PrimitiveDateTime,
}

impl OldRows {
    /// The most rows in one transaction.
    pub(crate) const LIMIT: u64 = 1_000;
}

impl Work for OldRows {
    type Locked = ();
    type Out = u64;
    type Refusal = Infallible;

    fn change(&self) -> Uuid {
        Uuid::nil()
    }

    async fn lock(&mut self, _tx: &mut Conn) -> Result<(), Fault> {
        Ok(())
    }

    async fn write(&mut self, tx: &mut Conn, (): ()) -> Result<u64, Stop<Infallible>> {
        Ok(match self.rows {
            Rows::Changes => change::delete_before(tx, self.before, Self::LIMIT).await?,
            Rows::Audit => audit::delete_before(tx, self.before, Self::LIMIT).await?,
        })
    }
}

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

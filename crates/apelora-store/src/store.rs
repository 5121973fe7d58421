//! The store: what the rest of Apelora can ask of the database.

use std::convert::Infallible;

use apelora_maintenance::{LockedNode, Plan, Stamp};
use time::PrimitiveDateTime;

use crate::{
    AuditQuery, AuditRecord, BackfillProgress, BackfillReport, Cause, ChangeError, Changed, ConnectError,
    EntryCount, Health, HistoryQuery, HistoryRecord, Locked, NodeChange, NodeColumn, NodeKey, NodePatch,
    NodeQuery, NodeRow, Retention, SchemaStatus, StoreConfig, StoreError,
};

/// A database, opened. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {}

fn unavailable() -> Cause {
    Cause::new("not connected")
}

#[allow(clippy::unused_async, unused_variables, clippy::needless_pass_by_value)]
impl Store {
    /// Opens the database. SQLite is created and upgraded; the others must have the schema of this version.
    ///
    /// # Errors
    /// What is wrong and the command or setting that helps.
    pub async fn connect(config: &StoreConfig) -> Result<Self, ConnectError> {
        Err(ConnectError::Failed(unavailable()))
    }

    /// Brings the schema up to this version; a no-op when it is. Safe beside another one. The backfill is a step of
    /// its own: [`Self::backfill`].
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn upgrade(config: &StoreConfig) -> Result<SchemaStatus, ConnectError> {
        Err(ConnectError::Failed(unavailable()))
    }

    /// What the schema is and what this version wants. Changes nothing.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn status(config: &StoreConfig) -> Result<SchemaStatus, ConnectError> {
        Err(ConnectError::Failed(unavailable()))
    }

    /// Asks the database for an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn ping(&self) -> Result<(), StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// How the store is doing; never fails and never waits for the database.
    pub fn health(&self) -> Health {
        Health::default()
    }

    /// Some columns of one node.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn node(&self, key: &NodeKey, columns: &[NodeColumn]) -> Result<Option<NodeRow>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// A page of nodes.
    ///
    /// # Errors
    /// [`StoreError::UnknownMarker`], and those of the database.
    pub async fn nodes(&self, query: &NodeQuery) -> Result<Vec<NodeRow>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// Makes a node: `fields` must hold the uuid. A plan, made on the facts of the node to be, gives its first entries.
    ///
    /// # Errors
    /// As [`Self::change_node`]; `NotFound`, `Reserved` and `Refused` do not occur.
    pub async fn create_node(
        &self,
        stamp: &Stamp,
        fields: NodePatch,
        plan: Option<Plan>,
    ) -> Result<Changed, ChangeError<Infallible>> {
        Err(ChangeError::Unavailable(unavailable()))
    }

    /// Changes a node under its lock, in one transaction: the only door to a change of `nodes` and its entries.
    ///
    /// `decide` sees the row and its entries as nobody can change them before the commit. It may be run again, in
    /// another transaction, when the database gives up on one: it must be pure, and everything new comes from `stamp`.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing was changed, except perhaps with [`ChangeError::Unknown`].
    pub async fn change_node<E: Send>(
        &self,
        key: &NodeKey,
        stamp: &Stamp,
        decide: impl FnMut(&Locked) -> Result<NodeChange, E> + Send,
    ) -> Result<Changed, ChangeError<E>> {
        Err(ChangeError::Unavailable(unavailable()))
    }

    /// One node's facts and its active entries in the order `(asserted_at, id)`, as of one moment; without the lock.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn entries(&self, key: &NodeKey) -> Result<Option<LockedNode>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// A page of the history of the node with this uuid; empty when there is no such node.
    ///
    /// # Errors
    /// [`StoreError::UnknownMarker`], and those of the database.
    pub async fn history(
        &self,
        node_uuid: &str,
        query: &HistoryQuery,
    ) -> Result<Vec<HistoryRecord>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// One record of the history of the node with this uuid; a record of another node is not found.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn history_record(
        &self,
        node_uuid: &str,
        uuid: &str,
    ) -> Result<Option<HistoryRecord>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// How many entries are active, by type and scope.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn entry_counts(&self) -> Result<Vec<EntryCount>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// Rows of the audit trail, oldest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// Notes whether this start is pinned to an older microversion; `true` when a backfill is due: on a database that
    /// never had one, and on the first start without the pin after one with it.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn note_pin(&self, pinned: bool) -> Result<bool, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// Brings flag and entries together on every node, in transactions of at most `batch` nodes. May be killed and run
    /// again at any point, and two may run at once. `next_stamp` is asked once for each node that is looked at.
    ///
    /// # Errors
    /// Of the database; what was committed before stays, and a new run does the rest.
    pub async fn backfill(
        &self,
        batch: u32,
        next_stamp: &mut (dyn FnMut() -> Stamp + Send),
        progress: &mut (dyn FnMut(BackfillProgress) + Send),
    ) -> Result<BackfillReport, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// Deletes history beyond the retention, at most `retention.batch` records in each transaction; the number deleted.
    ///
    /// # Errors
    /// Of the database; what was deleted before stays so.
    pub async fn clean_history(
        &self,
        retention: &Retention,
        now: PrimitiveDateTime,
    ) -> Result<u64, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }

    /// Deletes the rows of the change table that were written before `before`, which must lie at least 10 minutes back;
    /// the number deleted.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn prune_changes(&self, before: PrimitiveDateTime) -> Result<u64, StoreError> {
        Err(StoreError::Unavailable(unavailable()))
    }
}

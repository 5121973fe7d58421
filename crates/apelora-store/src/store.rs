//! The store: what the rest of Apelora can ask of the database.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use apelora_maintenance::{LockedNode, Plan, Stamp};
use time::PrimitiveDateTime;

use crate::engine::clock::micros;
use crate::engine::{Conn, Fault, Pools, Sql, open, open_for_upgrade};
use crate::schema::{self, AdoptedTables};
use crate::table::{audit, entry, history, node};
use crate::transact::{Counters, Limits, Work, transact};
use crate::upkeep::{MarkPin, OldHistory, OldRows, Rows};
use crate::work::{ChangeNode, CreateNode};
use crate::{
    AuditQuery, AuditRecord, BackfillProgress, BackfillReport, Cell, ChangeError, Changed, ConnectError,
    Engine, EntryCount, EntryQuery, Health, HistoryQuery, HistoryRecord, Kind, Locked, NodeChange,
    NodeColumn, NodeKey, NodePatch, NodeQuery, NodeRow, PlacedEntry, Retention, SchemaStatus, StoreConfig,
    StoreError, Unstorable, backfill,
};

/// How much longer than the server this side waits for a statement, so that the server's answer comes first.
const GRACE: Duration = Duration::from_secs(2);

/// A database, opened. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pools: Pools,
    limits: Limits,
    counters: Counters,
    adopted: AdoptedTables,
    version: String,
    /// In microseconds; 0 but in tests.
    clock_offset: AtomicI64,
}

impl Store {
    /// Opens the database. SQLite is created and upgraded; the others must have the schema of this version.
    ///
    /// # Errors
    /// What is wrong and the command or setting that helps.
    pub async fn connect(config: &StoreConfig) -> Result<Self, ConnectError> {
        let pools = open(config).await?;
        let database = config.url.to_string();
        if let Pools::Sqlite { .. } = pools {
            schema::upgrade(&pools, None, &database).await?;
        }
        let limits = Limits {
            statement: config.statement_timeout + GRACE,
            total: config.acquire_timeout + config.statement_timeout,
            commit_budget: config.commit_budget,
        };
        let prepared = async {
            let mut conn = pools.reader(Some(limits.statement)).await?;
            let status = schema::status(&mut conn).await?;
            let adopted = schema::adopted_tables(&mut conn).await?;
            Ok((status, adopted, version(&mut conn).await?))
        };
        let (status, adopted, version) = prepared.await.map_err(failed)?;
        status.check(&database)?;
        Ok(Self {
            inner: Arc::new(Inner {
                pools,
                limits,
                counters: Counters::default(),
                adopted,
                version,
                clock_offset: AtomicI64::new(0),
            }),
        })
    }

    /// Brings the schema up to this version; a no-op when it is. Safe beside another one. The backfill is a step of
    /// its own: [`Self::backfill`].
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn upgrade(config: &StoreConfig) -> Result<SchemaStatus, ConnectError> {
        Self::upgrade_to(config, None).await
    }

    /// As [`Self::upgrade`], but no further than this version.
    #[doc(hidden)]
    pub async fn upgrade_to(
        config: &StoreConfig,
        version: Option<u32>,
    ) -> Result<SchemaStatus, ConnectError> {
        let pools = open_for_upgrade(config).await?;
        let made = schema::upgrade(&pools, version, &config.url.to_string()).await;
        let status = async { schema::status(&mut pools.reader(None).await?).await };
        let status = status.await.map_err(failed);
        pools.close().await;
        made?;
        status
    }

    /// What the schema is and what this version wants. Changes nothing.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn status(config: &StoreConfig) -> Result<SchemaStatus, ConnectError> {
        if config.url.engine() == Engine::Sqlite && !config.url.path().exists() {
            return Ok(SchemaStatus::empty());
        }
        let pools = open(config).await?;
        let status =
            async { schema::status(&mut pools.reader(Some(config.statement_timeout + GRACE)).await?).await };
        let status = status.await.map_err(failed);
        pools.close().await;
        status
    }

    /// Closes the connections, after what is using them.
    pub async fn close(&self) {
        self.inner.pools.close().await;
    }

    /// Asks the database for an answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.reader().await?.fetch(Sql::plain("SELECT 1"), &[Kind::Int]).await?;
        Ok(())
    }

    /// How the store is doing; never fails and never waits for the database.
    pub fn health(&self) -> Health {
        let Inner { pools, counters, version, .. } = &*self.inner;
        let (connections, idle) = pools.usage();
        Health {
            engine: format!("{} {version}", pools.engine()),
            connections,
            idle,
            retries: counters.retries(),
            unanswered_commits: counters.unanswered.load(Ordering::Relaxed),
            unknown_commits: counters.unknown.load(Ordering::Relaxed),
        }
    }

    /// Some columns of one node.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn node(&self, key: &NodeKey, columns: &[NodeColumn]) -> Result<Option<NodeRow>, StoreError> {
        Ok(node::read(&mut self.reader().await?, key, columns).await?)
    }

    /// A page of nodes.
    ///
    /// # Errors
    /// [`StoreError::UnknownMarker`], and those of the database.
    pub async fn nodes(&self, query: &NodeQuery) -> Result<Vec<NodeRow>, StoreError> {
        let page = node::list(&mut self.reader().await?, query).await?;
        page.ok_or_else(|| StoreError::UnknownMarker(query.marker.clone().unwrap_or_default()))
    }

    /// How the database would answer the query, in its own words.
    #[doc(hidden)]
    pub async fn explain(&self, query: &NodeQuery) -> Result<String, StoreError> {
        Ok(node::explain(&mut self.reader().await?, query).await?)
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
        fields.check().map_err(ChangeError::Unstorable)?;
        let Some(Cell::Text(uuid)) = fields.get(NodeColumn::Uuid) else {
            return Err(ChangeError::Unstorable(Unstorable::Missing { column: NodeColumn::Uuid }));
        };
        let key = NodeKey::Uuid(uuid.clone());
        let mut work = CreateNode { stamp, key, fields, plan };
        self.transact(&mut work).await.map_err(Into::into)
    }

    /// Changes a node under its lock, in one transaction: the only door to a change of `nodes` and its entries.
    ///
    /// `decide` sees the row and its entries as nobody can change them before the commit. It may be run again, in
    /// another transaction, when the database gives up on one: it must be pure, and everything new comes from `stamp`,
    /// which is used for this one change only.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing was changed, except perhaps with [`ChangeError::Unknown`].
    pub async fn change_node<E: Send>(
        &self,
        key: &NodeKey,
        stamp: &Stamp,
        decide: impl FnMut(&Locked) -> Result<NodeChange, E> + Send,
    ) -> Result<Changed, ChangeError<E>> {
        let mut work = ChangeNode { key, stamp, adopted: &self.inner.adopted, decide };
        self.transact(&mut work).await.map_err(Into::into)
    }

    /// One node's facts and its active entries in the order `(asserted_at, id)`, as of one moment; without the lock.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn entries(&self, key: &NodeKey) -> Result<Option<LockedNode>, StoreError> {
        let mut conn = self.reader().await?;
        conn.begin_snapshot().await?;
        let node = match node::read(&mut conn, key, NodeColumn::ALL).await? {
            None => None,
            Some(row) => {
                let entries = entry::of_node(&mut conn, node::id(&row)).await?;
                Some(LockedNode { node: row.facts(), entries })
            }
        };
        conn.rollback().await;
        Ok(node)
    }

    /// A page of the active entries of all nodes, each with its node.
    ///
    /// # Errors
    /// [`StoreError::UnknownMarker`], and those of the database.
    pub async fn entries_of_all_nodes(&self, query: &EntryQuery) -> Result<Vec<PlacedEntry>, StoreError> {
        let page = entry::of_all_nodes(&mut self.reader().await?, query).await?;
        page.ok_or_else(|| StoreError::UnknownMarker(query.marker.clone().unwrap_or_default()))
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
        let mut conn = self.reader().await?;
        let Some(id) = node_id(&mut conn, node_uuid).await? else { return Ok(Vec::new()) };
        let page = history::list(&mut conn, id, query).await?;
        page.ok_or_else(|| StoreError::UnknownMarker(query.marker.clone().unwrap_or_default()))
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
        let mut conn = self.reader().await?;
        let Some(id) = node_id(&mut conn, node_uuid).await? else { return Ok(None) };
        Ok(history::read(&mut conn, id, uuid).await?)
    }

    /// How many entries are active, by type and scope.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn entry_counts(&self) -> Result<Vec<EntryCount>, StoreError> {
        Ok(entry::counts(&mut self.reader().await?).await?)
    }

    /// A page of the audit trail.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, StoreError> {
        Ok(audit::list(&mut self.reader().await?, query).await?)
    }

    /// How the database would answer the query, in its own words.
    #[doc(hidden)]
    pub async fn explain_audit(&self, query: &AuditQuery) -> Result<String, StoreError> {
        Ok(audit::explain(&mut self.reader().await?, query).await?)
    }

    /// Notes whether this start is pinned to an older microversion; `true` when a backfill is due: on a database that
    /// never had one, and on the first start without the pin after one with it.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn note_pin(&self, pinned: bool) -> Result<bool, StoreError> {
        let pin = self.transact(&mut MarkPin::Start { pinned }).await?;
        Ok(!pinned && pin.is_due())
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
        let wanted = self.transact(&mut MarkPin::Look).await?.wanted;
        let total = backfill::count(&mut self.reader().await?).await?;
        let mut report = BackfillReport::default();
        let mut after = 0;
        progress(BackfillProgress { done: 0, total });
        loop {
            let ids = backfill::next(&mut self.reader().await?, after, batch.max(1)).await?;
            let Some(last) = ids.last() else { break };
            after = *last;
            let nodes = ids.into_iter().map(|id| (id, next_stamp())).collect();
            report.add(&self.transact(&mut backfill::Batch { nodes }).await?);
            let done = report.examined;
            progress(BackfillProgress { done, total: total.max(done) });
        }
        self.transact(&mut MarkPin::Done { wanted }).await?;
        Ok(report)
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
        let Retention { max_entries, min_days, batch } = *retention;
        if max_entries == 0 || batch == 0 {
            return Ok(0);
        }
        let before = now.saturating_sub(time::Duration::days(i64::from(min_days)));
        let overfull = history::overfull(&mut self.reader().await?, max_entries).await?;
        let mut deleted = 0;
        for (node_id, mut surplus) in overfull {
            while surplus > 0 {
                let limit = surplus.min(i64::from(batch));
                let gone = self.transact(&mut OldHistory { node_id, before, limit }).await?;
                deleted += gone;
                if gone == 0 {
                    break;
                }
                surplus -= i64::try_from(gone).unwrap_or(surplus);
            }
        }
        Ok(deleted)
    }

    /// Deletes the rows of the change table that were written before `before`, which should lie at least 10 minutes
    /// back; the number deleted.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn prune_changes(&self, before: PrimitiveDateTime) -> Result<u64, StoreError> {
        self.delete_before(Rows::Changes, before).await
    }

    /// Deletes the rows of the audit trail that were written before `before`; the number deleted.
    ///
    /// # Errors
    /// Of the database; what was deleted before stays so.
    pub async fn prune_audit(&self, before: PrimitiveDateTime) -> Result<u64, StoreError> {
        self.delete_before(Rows::Audit, before).await
    }

    async fn delete_before(&self, rows: Rows, before: PrimitiveDateTime) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let gone = self.transact(&mut OldRows { rows, before }).await?;
            deleted += gone;
            if gone < OldRows::LIMIT {
                return Ok(deleted);
            }
        }
    }

    /// Moves the database's clock, as this store and its clones see it for fencing, for tests.
    #[doc(hidden)]
    pub fn shift_clock(&self, by: Duration) {
        self.inner.clock_offset.fetch_add(micros(by), Ordering::SeqCst);
    }

    pub(crate) fn clock_offset(&self) -> i64 {
        self.inner.clock_offset.load(Ordering::SeqCst)
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.inner.pools
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    pub(crate) async fn reader(&self) -> Result<Conn, Fault> {
        self.inner.pools.reader(Some(self.inner.limits.statement)).await
    }

    pub(crate) async fn transact<W: Work>(
        &self,
        work: &mut W,
    ) -> Result<W::Out, crate::transact::Failure<W::Refusal>> {
        transact(&self.inner.pools, self.inner.limits, &self.inner.counters, work).await
    }
}

async fn node_id(conn: &mut Conn, uuid: &str) -> Result<Option<i64>, Fault> {
    let key = NodeKey::Uuid(uuid.to_owned());
    Ok(node::read(conn, &key, &[NodeColumn::Id]).await?.as_ref().map(node::id))
}

async fn version(conn: &mut Conn) -> Result<String, Fault> {
    let ask = match conn.engine() {
        Engine::Sqlite => "SELECT sqlite_version()",
        Engine::Postgres => "SELECT current_setting('server_version')",
        Engine::MariaDb => "SELECT VERSION()",
    };
    let rows = conn.fetch(Sql::plain(ask), &[Kind::Text]).await?;
    Ok(match rows.into_iter().next().and_then(|row| row.into_iter().next()) {
        Some(Cell::Text(version)) => version,
        _ => String::new(),
    })
}

fn failed(fault: Fault) -> ConnectError {
    ConnectError::Failed(fault.into_cause())
}

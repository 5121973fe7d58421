//! The transactions that change nodes.

use std::convert::Infallible;

use apelora_maintenance::{Entry, Plan, Stamp};
use uuid::Uuid;

use crate::engine::{Class, Conn, Fault};
use crate::schema::AdoptedTables;
use crate::table::{audit, change, entry, history, node};
use crate::transact::{Failure, Stop, Work};
use crate::{ChangeError, Changed, Conflict, Locked, NodeChange, NodeColumn, NodeKey, NodePatch, Unstorable};

/// Why a change is refused.
#[derive(Debug)]
pub(crate) enum Refusal<E> {
    NotFound,
    Reserved(String),
    Conflict(Conflict),
    Unstorable(Unstorable),
    Decided(E),
}

impl<E> From<Failure<Refusal<E>>> for ChangeError<E> {
    fn from(failure: Failure<Refusal<E>>) -> Self {
        match failure {
            Failure::Refused(Refusal::NotFound) => Self::NotFound,
            Failure::Refused(Refusal::Reserved(by)) => Self::Reserved { by },
            Failure::Refused(Refusal::Conflict(conflict)) => Self::Conflict(conflict),
            Failure::Refused(Refusal::Unstorable(unstorable)) => Self::Unstorable(unstorable),
            Failure::Refused(Refusal::Decided(refusal)) => Self::Refused(refusal),
            Failure::Charset => Self::Unstorable(Unstorable::Charset),
            Failure::Unavailable(cause) => Self::Unavailable(cause),
            Failure::Failed(cause) => Self::Failed(cause),
            Failure::Unknown(cause) => Self::Unknown(cause),
        }
    }
}

/// Changes a node under its lock.
pub(crate) struct ChangeNode<'a, F> {
    pub(crate) key: &'a NodeKey,
    pub(crate) stamp: &'a Stamp,
    pub(crate) adopted: &'a AdoptedTables,
    pub(crate) decide: F,
}

impl<E, F> Work for ChangeNode<'_, F>
where
    E: Send,
    F: FnMut(&Locked) -> Result<NodeChange, E> + Send,
{
    type Locked = Option<Locked>;
    type Out = Changed;
    type Refusal = Refusal<E>;

    fn change(&self) -> Uuid {
        self.stamp.change
    }

    async fn lock(&mut self, tx: &mut Conn) -> Result<Self::Locked, Fault> {
        let Some(row) = node::lock(tx, self.key).await? else { return Ok(None) };
        let entries = entry::of_node(tx, node::id(&row)).await?;
        Ok(Some(Locked::new(row, entries)))
    }

    async fn write(&mut self, tx: &mut Conn, locked: Self::Locked) -> Result<Self::Out, Stop<Self::Refusal>> {
        let Some(locked) = locked else { return Err(Stop::Refused(Refusal::NotFound)) };
        if let Some(by) = locked.row.text(NodeColumn::Reservation) {
            return Err(Stop::Refused(Refusal::Reserved(by.to_owned())));
        }
        let NodeChange { fields, plan, remove_node } =
            (self.decide)(&locked).map_err(|e| Stop::Refused(Refusal::Decided(e)))?;
        fields.check().map_err(|e| Stop::Refused(Refusal::Unstorable(e)))?;
        apply(tx, self.stamp, self.adopted, locked, &fields, plan.as_ref(), remove_node).await
    }
}

/// Makes a decision true.
async fn apply<E>(
    tx: &mut Conn,
    stamp: &Stamp,
    adopted: &AdoptedTables,
    locked: Locked,
    fields: &NodePatch,
    plan: Option<&Plan>,
    remove_node: bool,
) -> Result<Changed, Stop<Refusal<E>>> {
    let Locked { mut row, node: before } = locked;
    if fields.is_empty() && plan.is_none() && !remove_node {
        return Ok(Changed { row, entry: None, entries: before.entries });
    }
    if remove_node && plan.is_none() {
        return Err(Fault::new(
            Class::Other,
            "a node cannot be removed without the plan that ends its entries",
        )
        .into());
    }
    let id = node::id(&row);
    if let Some(plan) = plan {
        write_plan(tx, id, plan, stamp).await?;
    }
    if remove_node {
        remove(tx, id, adopted).await?;
    } else {
        // Always written when there is a plan, even with the same values: a Galera cluster compares written rows only.
        node::update(tx, &mut row, fields, plan, stamp.at).await.map_err(|fault| taken(fault, fields))?;
    }
    change::insert(tx, stamp.change, change::NODE, &before.node.uuid, stamp.at).await?;
    let entries = match plan {
        _ if remove_node => Vec::new(),
        Some(plan) => plan.entries().to_vec(),
        None => before.entries,
    };
    Ok(Changed { row, entry: made(plan, stamp), entries })
}

/// The rows of a plan beside the node's own.
pub(crate) async fn write_plan<E>(
    tx: &mut Conn,
    node_id: i64,
    plan: &Plan,
    stamp: &Stamp,
) -> Result<(), Stop<E>> {
    entry::apply(tx, node_id, plan, stamp.at)
        .await
        .map_err(|fault| if entry::is_duplicate(&fault) { Stop::Stale(fault) } else { Stop::Fault(fault) })?;
    history::insert(tx, node_id, plan.history()).await?;
    audit::insert(tx, plan.audit()).await?;
    Ok(())
}

/// Removes a node and all that belongs to it. The foreign keys would see to the entries; a service that shares the file
/// may have made it without them.
async fn remove(tx: &mut Conn, id: i64, adopted: &AdoptedTables) -> Result<(), Fault> {
    for table in ["apelora_history_author", "node_history", "node_maintenance"] {
        node::delete_where(tx, table, "node_id", id).await?;
    }
    for table in &adopted.children {
        node::delete_where(tx, table, "node_id", id).await?;
    }
    node::delete_where(tx, "nodes", "id", id).await?;
    if adopted.allocations {
        node::delete_where(tx, "allocations", "node_id", id).await?;
    }
    Ok(())
}

fn made(plan: Option<&Plan>, stamp: &Stamp) -> Option<Entry> {
    plan?.insert().iter().find(|e| e.uuid == stamp.entry).cloned()
}

fn taken<E>(fault: Fault, fields: &NodePatch) -> Stop<Refusal<E>> {
    match node::conflict(&fault, fields) {
        Some(conflict) => Stop::Taken(Refusal::Conflict(conflict)),
        None => Stop::Fault(fault),
    }
}

/// Makes a node.
pub(crate) struct CreateNode<'a> {
    pub(crate) stamp: &'a Stamp,
    pub(crate) key: NodeKey,
    pub(crate) fields: NodePatch,
    pub(crate) plan: Option<Plan>,
}

impl Work for CreateNode<'_> {
    const LOCKS: bool = false;
    type Locked = ();
    type Out = Changed;
    type Refusal = Refusal<Infallible>;

    fn change(&self) -> Uuid {
        self.stamp.change
    }

    /// Nobody else can have the lock of a row that is not there. An earlier try of this very change holds its uuid,
    /// which makes the insertion wait.
    async fn lock(&mut self, _tx: &mut Conn) -> Result<(), Fault> {
        Ok(())
    }

    async fn write(&mut self, tx: &mut Conn, (): ()) -> Result<Self::Out, Stop<Self::Refusal>> {
        let Self { stamp, key, fields, plan } = self;
        let plan = plan.as_ref();
        node::insert(tx, fields, plan, stamp.at).await.map_err(|fault| taken(fault, fields))?;
        let row = node::read(tx, key, NodeColumn::ALL).await?;
        let row = row.ok_or_else(|| Fault::new(Class::Other, "a node that was just made is not there"))?;
        if let Some(plan) = plan {
            write_plan(tx, node::id(&row), plan, stamp).await?;
        }
        let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
        change::insert(tx, stamp.change, change::NODE, uuid, stamp.at).await?;
        let entries = plan.map(|plan| plan.entries().to_vec()).unwrap_or_default();
        Ok(Changed { row, entry: made(plan, stamp), entries })
    }
}

//! Bringing flag and entries together on every node, in bounded batches.

use apelora_maintenance::{
    AuditAction, Authority, LockedNode, MIGRATION, Operation, Plan, Stamp, plan, registry,
};
use sea_query::{Cond, Expr, ExprTrait, Order, Query};
use uuid::Uuid;

use crate::engine::{Class, Conn, Fault};
use crate::table::{Reader, change, entry, node};
use crate::transact::{Stop, Work};
use crate::work::write_plan;
use crate::{BackfillReport, Kind, NodePatch, NodeRow};

/// Nodes with the flag up or with an entry: whatever is not among them is in order.
fn candidates() -> Cond {
    let entries = Query::select()
        .expr(Expr::val(1))
        .from("node_maintenance")
        .and_where(Expr::col(("node_maintenance", "node_id")).equals(("nodes", "id")))
        .take();
    Cond::any().add(Expr::col("maintenance").eq(true)).add(Expr::exists(entries))
}

/// How many nodes are to be looked at.
pub(crate) async fn count(conn: &mut Conn) -> Result<u64, Fault> {
    let select = Query::select().expr(Expr::col("id").count()).from("nodes").cond_where(candidates()).take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int]).await?;
    let count = rows.into_iter().next().map_or(Ok(0), |row| Reader::new("nodes", row).int())?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// The row numbers of the next nodes to be looked at.
pub(crate) async fn next(conn: &mut Conn, after: i64, batch: u32) -> Result<Vec<i64>, Fault> {
    let select = Query::select()
        .column("id")
        .from("nodes")
        .and_where(Expr::col("id").gt(after))
        .cond_where(candidates())
        .order_by("id", Order::Asc)
        .limit(u64::from(batch))
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int]).await?;
    rows.into_iter().map(|row| Reader::new("nodes", row).int()).collect()
}

/// One batch: these nodes, each with the stamp of its own change.
pub(crate) struct Batch {
    pub(crate) nodes: Vec<(i64, Stamp)>,
}

impl Work for Batch {
    type Locked = Vec<(NodeRow, LockedNode)>;
    type Out = BackfillReport;
    type Refusal = std::convert::Infallible;

    /// The batch's own id, beside those of its nodes.
    fn change(&self) -> Uuid {
        self.nodes.first().map_or(Uuid::nil(), |(_, stamp)| Uuid::new_v5(&stamp.change, b"backfill"))
    }

    async fn lock(&mut self, tx: &mut Conn) -> Result<Self::Locked, Fault> {
        let ids: Vec<i64> = self.nodes.iter().map(|(id, _)| *id).collect();
        let rows = node::lock_all(tx, &ids).await?;
        let mut entries = entry::of_nodes(tx, &ids).await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                let entries = entries.remove(&node::id(&row)).unwrap_or_default();
                let locked = LockedNode { node: row.facts(), entries };
                (row, locked)
            })
            .collect())
    }

    async fn write(&mut self, tx: &mut Conn, locked: Self::Locked) -> Result<Self::Out, Stop<Self::Refusal>> {
        let by = Authority::service(MIGRATION);
        let mut report = BackfillReport { examined: locked.len() as u64, ..BackfillReport::default() };
        for (mut row, on) in locked {
            let id = node::id(&row);
            let Some((_, stamp)) = self.nodes.iter().find(|(node, _)| *node == id) else { continue };
            let plan = plan(&Operation::Reconcile, &on, &by, &mut |_| true, stamp)
                .map_err(|denial| Fault::new(Class::Other, denial))?;
            if !plan.changes(&on) {
                continue;
            }
            write_plan(tx, id, &plan, stamp).await?;
            node::update(tx, &mut row, &NodePatch::new(), Some(&plan), stamp.at).await?;
            change::insert(tx, stamp.change, change::NODE, &on.node.uuid, stamp.at).await?;
            count_changes(&mut report, &plan, &on);
        }
        if let Some((_, stamp)) = self.nodes.first()
            && report.reconciled + report.refreshed > 0
        {
            change::insert(tx, self.change(), change::BACKFILL, "", stamp.at).await?;
        }
        Ok(report)
    }
}

fn count_changes(report: &mut BackfillReport, plan: &Plan, on: &LockedNode) {
    let ended = |name: &str| {
        on.entries.iter().filter(|e| e.entry_type == name && plan.delete().contains(&e.uuid)).count() as u64
    };
    report.legacy_made += plan.insert().iter().filter(|e| e.entry_type == registry::LEGACY).count() as u64;
    report.legacy_ended += ended(registry::LEGACY);
    report.fault_ended += ended(registry::FAULT);
    report.amended += plan.amend().len() as u64;
    report.flags_raised += u64::from(plan.flag() && !on.node.maintenance);
    if plan.audit().iter().any(|event| event.action == AuditAction::Reconciled) {
        report.reconciled += 1;
    } else {
        report.refreshed += 1;
    }
}

impl BackfillReport {
    /// Adds what another batch did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.examined += other.examined;
        self.reconciled += other.reconciled;
        self.legacy_made += other.legacy_made;
        self.legacy_ended += other.legacy_ended;
        self.fault_ended += other.fault_ended;
        self.flags_raised += other.flags_raised;
        self.amended += other.amended;
        self.refreshed += other.refreshed;
    }
}

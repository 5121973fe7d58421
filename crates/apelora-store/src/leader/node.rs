//! The node of a member: whether an entry on it locks its power, and its `fault` entry.
//!
//! The entry goes the way of every change of a node: lock, plan, write what was planned. A node may be out of reach:
//! another service holds its `reservation`, or a transaction its row. A proof waits for neither. It is committed without
//! the entry, the member's row says what is due, and the leader tries again each time it publishes its status, until it
//! is done or the member is back.

use std::time::Duration;

use apelora_fencing::name::{Incarnation, MemberName};
use apelora_fencing::record::ProofKind;
use apelora_maintenance::{Authority, CONDUCTOR, FaultKind, LockedNode, Operation, Plan, Stamp, plan};
use serde_json::Map;

use super::Warning;
use super::member::{FaultMark, FaultState};
use super::proof::kind_sentence;
use super::tx::{Level, Tx};
use crate::engine::Fault;
use crate::table::{change, entry, node};
use crate::transact;
use crate::work::write_plan;
use crate::{NodeColumn, NodeKey, NodePatch, NodeRow};

/// What is to become of the `fault` entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Todo {
    /// It is asserted for a proof.
    Assert {
        /// What it carries as `extra.fence_record`.
        names: String,
        /// The life that ended.
        incarnation: Incarnation,
        /// What the proof stands on.
        kind: ProofKind,
    },
    /// It is released, if it is still the one that carries this.
    Release {
        /// What it carries as `extra.fence_record`.
        names: String,
    },
}

impl Todo {
    fn operation(&self, member: &MemberName) -> Operation {
        match self {
            Self::Assert { names, incarnation, kind } => {
                let mut extra = Map::new();
                extra.insert("fence_record".to_owned(), names.as_str().into());
                extra.insert("member".to_owned(), member.as_str().into());
                extra.insert("incarnation".to_owned(), incarnation.0.into());
                extra.insert("proof".to_owned(), kind.as_str().into());
                let reason =
                    format!("cluster member {member} failed and is proven off: {}", kind_sentence(*kind));
                Operation::AssertFault { kind: FaultKind::PowerFailure, reason: Some(reason), extra }
            }
            Self::Release { names } => Operation::ReleaseFault { fence_record: Some(names.clone()) },
        }
    }
}

/// A node that is locked, and what is to be written.
pub(super) struct Ready {
    row: NodeRow,
    plan: Plan,
    stamp: Stamp,
}

impl Ready {
    /// The node's uuid and name.
    pub(super) fn names(&self) -> (Option<String>, Option<String>) {
        let text = |column| self.row.text(column).map(str::to_owned);
        (text(NodeColumn::Uuid), text(NodeColumn::Name))
    }
}

/// What was found on the way to a node.
pub(super) enum Found {
    /// It is locked, and something is to be written.
    Ready(Box<Ready>),
    /// Nothing is to be done.
    Nothing,
    /// Not now.
    Busy(Warning),
    /// Not at all.
    Never(Warning),
}

fn key(member: &MemberName) -> NodeKey {
    NodeKey::Name(member.as_str().to_owned())
}

/// An adopted table may compare names without regard to case; a member's name is exact.
fn exact(row: Option<NodeRow>, member: &MemberName) -> Option<NodeRow> {
    row.filter(|row| row.text(NodeColumn::Name) == Some(member.as_str()))
}

/// Whether an active entry of one of these types stands on the member's node, which is locked by this.
pub(super) async fn is_held(tx: &mut Tx<'_>, member: &MemberName, types: &[String]) -> Result<bool, Fault> {
    if types.is_empty() {
        return Ok(false);
    }
    let row = node::lock(tx.lock(Level::Node), &key(member)).await?;
    let Some(row) = exact(row, member) else { return Ok(false) };
    let entries = entry::of_node(tx.conn(), node::id(&row)).await?;
    Ok(entries.iter().any(|entry| types.contains(&entry.entry_type)))
}

/// Locks the member's node, if that can be done soon.
async fn lock_soon(tx: &mut Tx<'_>, member: &MemberName) -> Result<Result<Option<NodeRow>, Warning>, Fault> {
    let conn = tx.lock(Level::Node);
    let key = key(member);
    for _ in 0..LOOKS {
        let row = node::lock_unless_locked(conn, &key).await?;
        if row.is_some() || node::read(conn, &key, &[]).await?.is_none() {
            return Ok(Ok(exact(row, member)));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Ok(Err(Warning::NodeBusy { member: member.clone(), reserved_by: None }))
}

/// Locks the member's node and plans what is to be done there.
pub(super) async fn look(
    tx: &mut Tx<'_>,
    member: &MemberName,
    todo: &Todo,
    stamp: Stamp,
) -> Result<Found, Fault> {
    let row = match lock_soon(tx, member).await? {
        Ok(row) => row,
        Err(busy) => return Ok(Found::Busy(busy)),
    };
    let Some(row) = row else {
        return Ok(match todo {
            Todo::Assert { .. } => Found::Never(Warning::NoNode(member.clone())),
            Todo::Release { .. } => Found::Nothing,
        });
    };
    if let Some(by) = row.text(NodeColumn::Reservation) {
        let warning = Warning::NodeBusy { member: member.clone(), reserved_by: Some(by.to_owned()) };
        return Ok(Found::Busy(warning));
    }
    let entries = entry::of_node(tx.conn(), node::id(&row)).await?;
    let on = LockedNode { node: row.facts(), entries };
    let by = Authority::service(CONDUCTOR);
    Ok(match plan(&todo.operation(member), &on, &by, &mut |_| true, &stamp) {
        Ok(plan) if plan.changes(&on) => Found::Ready(Box::new(Ready { row, plan, stamp })),
        Ok(_) => Found::Nothing,
        Err(denial) => Found::Never(Warning::NoEntry { member: member.clone(), why: denial.to_string() }),
    })
}

/// Writes what was planned on a node that is locked.
pub(super) async fn make(tx: &mut Tx<'_>, mut ready: Box<Ready>) -> Result<(), Fault> {
    let Ready { row, plan, stamp } = &mut *ready;
    let conn = tx.conn();
    write_plan::<std::convert::Infallible>(conn, node::id(row), plan, stamp).await.map_err(
        |stop| match stop {
            transact::Stop::Stale(fault) | transact::Stop::Fault(fault) => fault,
            transact::Stop::Refused(never) | transact::Stop::Taken(never) => match never {},
        },
    )?;
    node::update(conn, row, &NodePatch::new(), Some(plan), stamp.at).await?;
    let uuid = row.text(NodeColumn::Uuid).unwrap_or_default().to_owned();
    change::insert(conn, stamp.change, change::NODE, &uuid, stamp.at).await
}

/// How often a node whose row is locked is looked at, and the pause between two looks: what serves a request is done by
/// then, and a proof does not wait for anything longer.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// How many members' nodes are tried again each time.
pub(super) const TRIED_AGAIN: u64 = 16;

/// How long the tries of one round may take together.
pub(super) const ROUND: Duration = Duration::from_secs(3);

/// How the entry stands after what was found: the mark, what is to be written, and what is to be said.
pub(super) fn settle(
    before: &FaultMark,
    todo: &Todo,
    found: Found,
) -> (FaultMark, Option<Box<Ready>>, Option<Warning>) {
    let (ready, warning, state) = match found {
        Found::Ready(ready) => (Some(ready), None, Some(FaultState::Asserted)),
        Found::Nothing => (None, None, Some(FaultState::Asserted)),
        Found::Busy(warning) => (None, Some(warning), Some(FaultState::Due)),
        Found::Never(warning) => (None, Some(warning), None),
    };
    let mark = match todo {
        Todo::Assert { names, incarnation, .. } => {
            FaultMark { incarnation: Some(*incarnation), names: Some(names.clone()), state }
        }
        Todo::Release { names } => {
            let is_due = state == Some(FaultState::Due);
            FaultMark {
                incarnation: before.incarnation,
                names: is_due.then(|| names.clone()),
                state: is_due.then_some(FaultState::ReleaseDue),
            }
        }
    };
    (mark, ready, warning)
}

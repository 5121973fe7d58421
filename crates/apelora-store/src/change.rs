//! A change of one node: what the decision sees, what it answers, what came of it.

use apelora_maintenance::{Entry, LockedNode, Plan};

use crate::{NodePatch, NodeRow};

/// A node under its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// Every column of the row.
    pub row: NodeRow,
    /// The same row as the planner of maintenance sees it, and the active entries.
    pub node: LockedNode,
}

/// What is to become of a locked node, all in one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeChange {
    /// New values of columns.
    pub fields: NodePatch,
    /// A change of the entries; flag, reason and fault follow from it.
    pub plan: Option<Plan>,
    /// Whether the node goes, with its entries and its history. Needs the plan of `Operation::DeleteNode`.
    pub remove_node: bool,
}

impl From<Plan> for NodeChange {
    fn from(plan: Plan) -> Self {
        Self { plan: Some(plan), ..Self::default() }
    }
}

/// A change that was committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The row as it is now, with every column; the last one when the node is gone.
    pub row: NodeRow,
    /// The entry that was made with the stamp's id, if one was.
    pub entry: Option<Entry>,
    /// The active entries as they are now, in their order; empty when the node is gone.
    pub entries: Vec<Entry>,
}

impl Locked {
    pub(crate) fn new(row: NodeRow, entries: Vec<Entry>) -> Self {
        let node = LockedNode { node: row.facts(), entries };
        Self { row, node }
    }
}

//! What can be asked for: nodes, history, audit.

use time::PrimitiveDateTime;

use crate::{Cell, NodeColumn};

/// The direction of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Smallest first.
    #[default]
    Ascending,
    /// Largest first.
    Descending,
}

/// One condition on nodes; those of a query all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeFilter {
    /// The column has this value, exactly. A null cell asks for null.
    Equals(NodeColumn, Cell),
    /// The boolean column reads as this; null reads as false.
    Flag(NodeColumn, bool),
    /// The column is null.
    IsNull(NodeColumn),
    /// The column is not null.
    IsNotNull(NodeColumn),
    /// The column has one of these values; no value, no node.
    OneOf(NodeColumn, Vec<Cell>),
    /// The column's text contains this one, regardless of the case of ASCII letters.
    Contains(NodeColumn, String),
    /// At least one of these holds; none given, no node.
    Any(Vec<NodeFilter>),
}

impl NodeFilter {
    /// Nodes that the project owns or leases.
    pub fn project(project: &str) -> Self {
        Self::Any(vec![
            Self::Equals(NodeColumn::Owner, project.into()),
            Self::Equals(NodeColumn::Lessee, project.into()),
        ])
    }
}

/// A page of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeQuery {
    /// The columns to read.
    pub columns: Vec<NodeColumn>,
    /// Conditions that all hold.
    pub filters: Vec<NodeFilter>,
    /// The order; equal values are ordered by row number in the same direction, nulls come before every value when
    /// ascending.
    pub sort: (NodeColumn, Direction),
    /// The uuid of the node after which the page begins.
    pub marker: Option<String>,
    /// At most this many nodes.
    pub limit: u32,
}

impl NodeQuery {
    /// The first `limit` nodes in the order of their making.
    pub fn new(columns: &[NodeColumn], limit: u32) -> Self {
        Self {
            columns: columns.to_vec(),
            filters: Vec::new(),
            sort: (NodeColumn::Id, Direction::Ascending),
            marker: None,
            limit,
        }
    }
}

/// A column of `node_history` to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistoryColumn {
    /// The row number.
    Id,
    /// The record's id.
    Uuid,
    /// When.
    #[default]
    CreatedAt,
    /// When the row was changed; null for all that this service writes.
    UpdatedAt,
    /// The name of the service that wrote it.
    Conductor,
    /// The kind of event.
    EventType,
    /// `INFO` or `ERROR`.
    Severity,
    /// The text.
    Event,
    /// Who.
    User,
    /// Whose project.
    Project,
    /// The node's provision state.
    State,
    /// The node's target provision state.
    TargetProvisionState,
    /// Seconds since the provision state changed.
    DurationSeconds,
}

impl HistoryColumn {
    /// Every column that can be sorted by.
    pub const ALL: [Self; 13] = [
        Self::Id,
        Self::Uuid,
        Self::CreatedAt,
        Self::UpdatedAt,
        Self::Conductor,
        Self::EventType,
        Self::Severity,
        Self::Event,
        Self::User,
        Self::Project,
        Self::State,
        Self::TargetProvisionState,
        Self::DurationSeconds,
    ];

    /// The column's name in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Uuid => "uuid",
            Self::CreatedAt => "created_at",
            Self::UpdatedAt => "updated_at",
            Self::Conductor => "conductor",
            Self::EventType => "event_type",
            Self::Severity => "severity",
            Self::Event => "event",
            Self::User => "user",
            Self::Project => "project",
            Self::State => "state",
            Self::TargetProvisionState => "target_provision_state",
            Self::DurationSeconds => "duration_seconds",
        }
    }
}

/// A page of one node's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The order; equal values are ordered by row number in the same direction.
    pub sort: (HistoryColumn, Direction),
    /// The uuid of the record after which the page begins.
    pub marker: Option<String>,
    /// At most this many records.
    pub limit: u32,
}

/// A page of the active entries of all nodes, in the order in which they were asserted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryQuery {
    /// Only those on nodes that this project owns or leases.
    pub project: Option<String>,
    /// Only those that were asserted below system scope.
    pub below_system: bool,
    /// The uuid of the entry after which the page begins.
    pub marker: Option<String>,
    /// At most this many entries.
    pub limit: u32,
}

/// A page of the audit trail; conditions that are given all hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// The node's uuid.
    pub node_uuid: Option<String>,
    /// The node's name at that time.
    pub node_name: Option<String>,
    /// The cluster member.
    pub member: Option<String>,
    /// The action, such as `maintenance.asserted`.
    pub action: Option<String>,
    /// How it ended: `success`, `failed` or `refused`.
    pub outcome: Option<String>,
    /// The acting user.
    pub user: Option<String>,
    /// At or after this time.
    pub from: Option<PrimitiveDateTime>,
    /// Before this time.
    pub until: Option<PrimitiveDateTime>,
    /// In the order of the sequence numbers, the oldest first unless `Descending` is asked for.
    pub direction: Direction,
    /// After the row of this sequence number, in that order.
    pub after: Option<i64>,
    /// At most this many rows.
    pub limit: u32,
}

//! What bodies of maintenance look like, for the document.

// The derived code qualifies what needs no qualification.
#![allow(unused_qualifications)]

use utoipa::ToSchema;

/// An active reason why a node is out of service.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct MaintenanceEntry {
    /// The entry's id.
    #[schema(format = "uuid")]
    uuid: String,
    /// A registered type.
    r#type: String,
    /// Free text, never interpreted.
    reason: Option<String>,
    /// The rank with which it was asserted: system, owner or lessee.
    scope: String,
    /// Who asserted it; null for readers whom the entry's scope outranks.
    asserted_by: Option<String>,
    /// The asserter's project, empty when there is none; null for readers whom the entry's scope outranks.
    asserted_by_project: Option<String>,
    /// When, in UTC.
    #[schema(format = "date-time")]
    asserted_at: String,
    /// Data of the type, never interpreted.
    #[schema(value_type = Object)]
    extra: (),
    /// The entry itself.
    links: Vec<Link>,
}

/// A link to a resource.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct Link {
    /// The address.
    href: String,
    /// What it is to this resource.
    rel: String,
}

/// The active entries of a node, oldest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct MaintenanceEntries {
    /// The entries.
    maintenance: Vec<MaintenanceEntry>,
}

/// A page of the active entries of all nodes, oldest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct PlacedMaintenanceEntries {
    /// The entries of the nodes that the caller may see.
    maintenance: Vec<PlacedMaintenanceEntry>,
    /// The next page, where more may follow.
    next: Option<String>,
}

/// An active entry with its node.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct PlacedMaintenanceEntry {
    /// Where.
    node: MaintainedNode,
    /// What.
    entry: MaintenanceEntry,
    /// Whether it was asserted below system scope by a project that is neither owner nor lessee of the node any more.
    stale: bool,
}

/// The node of an entry.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct MaintainedNode {
    /// Its uuid.
    #[schema(format = "uuid")]
    uuid: String,
    /// Its name.
    name: Option<String>,
    /// The project that owns it.
    owner: Option<String>,
    /// The project that leases it.
    lessee: Option<String>,
}

/// An entry to be asserted. Scope and asserter follow from the caller.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct NewMaintenanceEntry {
    /// A registered type that is not reserved for the service.
    r#type: String,
    /// Free text, at most 65,535 bytes.
    reason: Option<String>,
    /// Data of the type, at most 65,535 bytes as JSON text.
    #[schema(value_type = Option<Object>)]
    extra: (),
}

/// The boolean's reason.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct MaintenanceReason {
    /// Replaces the reason that is there; cut at 4,096 characters.
    reason: Option<String>,
}

/// A refusal.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derived schema")]
pub(super) struct Error {
    /// JSON text of an object with `faultcode`, `faultstring` and `debuginfo`.
    error_message: String,
}

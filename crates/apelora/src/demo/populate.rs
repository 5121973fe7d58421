//! Puts the demo's fleet into an empty database, through the door that every change goes through.

use std::convert::Infallible;

use apelora_maintenance::{Denial, Stamp, plan};
use apelora_store::{Cell, ChangeError, NodeChange, NodeColumn, NodeKey, NodePatch, Store};

use super::fleet::{DemoNode, MEMBERS, NODES, entries};

/// Hours since the demo's nodes were enrolled: before the oldest of their entries.
const ENROLLED_HOURS_AGO: i64 = 24 * 30;

/// Why the fleet could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PopulateError {
    /// A node.
    #[error("node {0} could not be made")]
    Node(&'static str, #[source] ChangeError<Infallible>),
    /// An entry.
    #[error("maintenance of node {0} could not be asserted")]
    Entry(&'static str, #[source] ChangeError<Denial>),
}

/// Makes the nodes and asserts their entries. `stamp` gives ids and the time so many hours ago.
///
/// # Errors
/// The first node or entry that the store refuses.
pub(crate) async fn populate(store: &Store, stamp: &dyn Fn(i64) -> Stamp) -> Result<(), PopulateError> {
    for node in NODES {
        let stamp = stamp(ENROLLED_HOURS_AGO);
        let patch = columns(node, &stamp);
        store.create_node(&stamp, patch, None).await.map_err(|e| PopulateError::Node(node.name, e))?;
    }
    for (name, hours_ago, operation, by) in entries() {
        let stamp = stamp(hours_ago);
        let key = NodeKey::Name(name.to_owned());
        let decide = |on: &apelora_store::Locked| {
            plan(&operation, &on.node, &by, &mut |_| true, &stamp).map(NodeChange::from)
        };
        store.change_node(&key, &stamp, decide).await.map_err(|e| PopulateError::Entry(name, e))?;
    }
    Ok(())
}

/// The row of a node of the hardware type that needs no hardware, with that type's interfaces.
fn columns(node: &DemoNode, stamp: &Stamp) -> NodePatch {
    use NodeColumn as C;
    let in_use = node.lessee.is_some() || MEMBERS.contains(&node.name);
    let mut patch = NodePatch::new()
        .with(C::Uuid, stamp.entry.to_string())
        .with(C::Name, node.name)
        .with(C::Driver, "fake-hardware")
        .with(C::ResourceClass, node.resource_class)
        .with(C::Description, node.description)
        .with(C::Owner, Cell::opt_text(node.owner))
        .with(C::Lessee, Cell::opt_text(node.lessee))
        .with(C::ProvisionState, if in_use { "active" } else { "available" })
        .with(C::ProvisionUpdatedAt, stamp.at)
        .with(C::PowerState, if in_use { "power on" } else { "power off" });
    for empty in [C::DriverInfo, C::DriverInternalInfo, C::Extra, C::InstanceInfo, C::Properties] {
        patch.set(empty, Cell::Json("{}".to_owned()));
    }
    for interface in FAKE_INTERFACES {
        patch.set(*interface, "fake");
    }
    for interface in [C::NetworkInterface, C::StorageInterface] {
        patch.set(interface, "noop");
    }
    patch
}

/// Interfaces whose implementation for `fake-hardware` is `fake`.
const FAKE_INTERFACES: &[NodeColumn] = &[
    NodeColumn::BiosInterface,
    NodeColumn::BootInterface,
    NodeColumn::ConsoleInterface,
    NodeColumn::DeployInterface,
    NodeColumn::FirmwareInterface,
    NodeColumn::InspectInterface,
    NodeColumn::ManagementInterface,
    NodeColumn::PowerInterface,
    NodeColumn::RaidInterface,
    NodeColumn::RescueInterface,
    NodeColumn::VendorInterface,
];

//! What may be changed in which state of a node.
//!
//! Source: tests/data/ironic/README.md sections 3.6, 3.7.

use apelora_store::{Cell, NodeColumn, NodePatch, NodeRow};
use http::StatusCode;

use super::drivers::{self, Driver};
use crate::error::ApiError;
use crate::{Microversion, python};

/// States in which a node may be updated although it is on its way to another one.
const UPDATE_ALLOWED: [&str; 8] = [
    "deploy failed",
    "inspecting",
    "inspect failed",
    "inspect wait",
    "clean failed",
    "error",
    "verifying",
    "adopt failed",
];

/// States in which a node may be deleted without being in maintenance.
const DELETE_ALLOWED: [&str; 4] = ["manageable", "enroll", "adopt failed", "available"];

/// States in which driver and interfaces may be changed without the node being in maintenance.
const RECONFIGURE_ALLOWED: [&str; 5] = ["enroll", "inspecting", "inspect wait", "manageable", "available"];

/// The state of a node that an instance runs on.
pub(crate) const IN_USE: &str = "active";

/// Every provision state, for the filter of lists.
pub(crate) const PROVISION_STATES: [&str; 33] = [
    "active",
    "adopt failed",
    "adopting",
    "available",
    "clean failed",
    "clean hold",
    "clean wait",
    "cleaning",
    "deleted",
    "deleting",
    "deploy complete",
    "deploy failed",
    "deploy hold",
    "deploying",
    "enroll",
    "error",
    "inspect failed",
    "inspect wait",
    "inspecting",
    "manageable",
    "rebuild",
    "rescue",
    "rescue failed",
    "rescue wait",
    "rescuing",
    "service failed",
    "service hold",
    "service wait",
    "servicing",
    "unrescue failed",
    "unrescuing",
    "verifying",
    "wait call-back",
];

/// The kinds of `fault`.
pub(crate) const FAULTS: [&str; 4] =
    ["power failure", "clean failure", "rescue abort failure", "service failure"];

/// Whether a node may be updated now. `only_frees_instance` is whether the patch does nothing but remove the instance,
/// which is always allowed in maintenance.
///
/// # Errors
/// 409.
pub(crate) fn check_updatable(
    row: &NodeRow,
    ident: &str,
    only_frees_instance: bool,
    version: Microversion,
) -> Result<(), ApiError> {
    if only_frees_instance && in_maintenance(row) {
        return Ok(());
    }
    let state = row.text(NodeColumn::ProvisionState).unwrap_or_default();
    if row.text(NodeColumn::TargetProvisionState).is_some_and(|t| !t.is_empty())
        && !UPDATE_ALLOWED.contains(&state)
    {
        return Err(ApiError::conflict(format!(
            "Node {ident} can not be updated while a state transition is in progress."
        )));
    }
    if state == "inspecting" && version >= Microversion::new(39) {
        return Err(ApiError::conflict(format!(
            "Cannot update node \"{}\" while it is in state \"inspecting\".",
            uuid(row)
        )));
    }
    Ok(())
}

/// Whether a node may be deleted now, apart from its entries.
///
/// # Errors
/// 409 and 403.
pub(crate) fn check_deletable(row: &NodeRow) -> Result<(), ApiError> {
    let uuid = uuid(row);
    if row.bool(NodeColumn::Protected) == Some(true) {
        return Err(ApiError::forbidden(format!(
            "Node {uuid} is protected and cannot be undeployed, rebuilt or deleted"
        )));
    }
    if in_maintenance(row) {
        return Ok(());
    }
    if let Some(instance) = row.text(NodeColumn::InstanceUuid) {
        return Err(associated(uuid, instance));
    }
    let state = row.text(NodeColumn::ProvisionState).unwrap_or_default();
    if !DELETE_ALLOWED.contains(&state) {
        return Err(ApiError::conflict(format!(
            "Can not delete node \"{uuid}\" while it is in provision state \"{state}\". Valid provision states to \
             perform deletion are: \"{}\", or set the node into maintenance mode",
            python::repr_tuple(&DELETE_ALLOWED)
        )));
    }
    Ok(())
}

/// Whether these new values go together with each other and with the node, and what follows from them.
///
/// # Errors
/// 400 and 409.
pub(crate) fn complete_update(
    row: &NodeRow,
    changes: &mut NodePatch,
    reset_interfaces: bool,
) -> Result<(), ApiError> {
    check_protection(row, changes)?;
    check_retirement(row, changes)?;
    let new_instance = text_of(changes.get(NodeColumn::InstanceUuid));
    if let (Some(new), Some(old)) = (new_instance, row.text(NodeColumn::InstanceUuid))
        && new != old
    {
        return Err(associated(uuid(row), old));
    }
    complete_hardware(row, changes, reset_interfaces)
}

fn check_protection(row: &NodeRow, changes: &mut NodePatch) -> Result<(), ApiError> {
    let new = bool_of(changes.get(NodeColumn::Protected));
    match new {
        Some(true) => {
            let state = row.text(NodeColumn::ProvisionState).unwrap_or_default();
            if !matches!(state, "active" | "rescue") {
                return Err(ApiError::conflict(format!(
                    "Node {} can only be made protected in provision states 'active' or 'rescue', the current state \
                     is '{state}'",
                    uuid(row)
                )));
            }
        }
        Some(false) => changes.set(NodeColumn::ProtectedReason, Cell::Null),
        None => {}
    }
    let protected = new.or(row.bool(NodeColumn::Protected)).unwrap_or(false);
    if !protected && text_of(changes.get(NodeColumn::ProtectedReason)).is_some_and(|r| !r.is_empty()) {
        return Err(ApiError::bad_request(
            "The protected_reason field can only be set when protected is True",
        ));
    }
    Ok(())
}

fn check_retirement(row: &NodeRow, changes: &mut NodePatch) -> Result<(), ApiError> {
    let new = bool_of(changes.get(NodeColumn::Retired));
    match new {
        Some(true) if row.text(NodeColumn::ProvisionState) == Some("available") => {
            return Err(ApiError::conflict(format!(
                "Node {} can not have 'retired' set to True while in provision state 'available'. Move it to \
                 'manageable' first",
                uuid(row)
            )));
        }
        Some(false) => changes.set(NodeColumn::RetiredReason, Cell::Null),
        _ => {}
    }
    let retired = new.or(row.bool(NodeColumn::Retired)).unwrap_or(false);
    if !retired && text_of(changes.get(NodeColumn::RetiredReason)).is_some_and(|r| !r.is_empty()) {
        return Err(ApiError::bad_request("The retired_reason field can only be set when retired is True"));
    }
    Ok(())
}

/// Driver, conductor group and interfaces: valid together, defaults where none is given. What is not changed is not
/// looked at: a node of a hardware type that is unknown here is kept as it is.
fn complete_hardware(row: &NodeRow, changes: &mut NodePatch, reset_interfaces: bool) -> Result<(), ApiError> {
    let columns = || changes.cells().iter().map(|(column, _)| *column);
    let hardware: Vec<_> = columns().filter(|c| *c == NodeColumn::Driver || is_interface(*c)).collect();
    let group_changes = columns().any(|c| c == NodeColumn::ConductorGroup);
    if hardware.is_empty() && !group_changes && !reset_interfaces {
        return Ok(());
    }
    let state = row.text(NodeColumn::ProvisionState).unwrap_or_default();
    if !hardware.is_empty() && !in_maintenance(row) && !RECONFIGURE_ALLOWED.contains(&state) {
        let names: Vec<_> = hardware.iter().map(|c| c.name()).collect();
        return Err(ApiError::conflict(format!(
            "Node {} can not have {} updated unless it is in one of allowed ({}) states or in maintenance mode.",
            uuid(row),
            names.join(", "),
            RECONFIGURE_ALLOWED.join(", ")
        )));
    }
    let group = match changes.get(NodeColumn::ConductorGroup) {
        Some(cell) => text_of(Some(cell)).unwrap_or_default().to_owned(),
        None => row.text(NodeColumn::ConductorGroup).unwrap_or_default().to_owned(),
    };
    let name = text_of(changes.get(NodeColumn::Driver))
        .or(row.text(NodeColumn::Driver))
        .unwrap_or_default()
        .to_owned();
    let driver = known_driver(&name, &group)?;
    let new_driver = changes.get(NodeColumn::Driver).is_some();
    for interface in driver.interfaces {
        let given = changes.get(interface.column);
        let value = match given {
            Some(cell) => text_of(Some(cell)),
            None if reset_interfaces => None,
            None => row.text(interface.column),
        };
        match value {
            None if given.is_some() || reset_interfaces => {
                changes.set(interface.column, interface.valid.first().copied().unwrap_or_default());
            }
            Some(value) if given.is_some() || new_driver => check_interface(interface, value)?,
            _ => {}
        }
    }
    Ok(())
}

/// The hardware type, if this service has it for the group.
///
/// # Errors
/// 400.
pub(crate) fn known_driver(name: &str, group: &str) -> Result<&'static Driver, ApiError> {
    drivers::find(name).filter(|_| group.is_empty()).ok_or_else(|| {
        ApiError::bad_request(format!(
            "No valid host was found. Reason: No conductor service registered which supports driver {name} for \
             conductor group \"{group}\". Ensure the driver is valid and enabled."
        ))
    })
}

/// Whether the hardware type has this interface.
///
/// # Errors
/// 400.
pub(crate) fn check_interface(interface: &drivers::Interface, value: &str) -> Result<(), ApiError> {
    if interface.valid.contains(&value) {
        return Ok(());
    }
    let mut valid = interface.valid.to_vec();
    valid.sort_unstable();
    Err(ApiError::bad_request(format!(
        "Could not find the following interface in the 'ironic.hardware.interfaces.{}' entrypoint: {value}. Valid \
         interfaces are {}.",
        interface.kind,
        python::repr_list(&valid)
    )))
}

/// 409: the node belongs to an instance.
fn associated(uuid: &str, instance: &str) -> ApiError {
    ApiError::resource(StatusCode::CONFLICT, format!("Node {uuid} is associated with instance {instance}."))
}

fn is_interface(column: NodeColumn) -> bool {
    column.name().ends_with("_interface")
}

fn in_maintenance(row: &NodeRow) -> bool {
    row.bool(NodeColumn::Maintenance) == Some(true)
}

fn uuid(row: &NodeRow) -> &str {
    row.text(NodeColumn::Uuid).unwrap_or_default()
}

fn text_of(cell: Option<&Cell>) -> Option<&str> {
    match cell {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    }
}

fn bool_of(cell: Option<&Cell>) -> Option<bool> {
    match cell {
        Some(Cell::Bool(value)) => Some(*value),
        _ => None,
    }
}

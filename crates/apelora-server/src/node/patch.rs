//! The body of PATCH /v1/nodes/{ident}: what is to change of a node.
//!
//! Source: tests/data/ironic/README.md section 3.6. The steps follow the reference's order, because the first refusal is the one
//! that a client sees: body, fields, version, then the node itself.

use apelora_store::{Cell, NodeColumn, NodePatch, NodeRow};
use serde_json::{Map, Value};

use super::fields::{self, FIELDS, Field};
use super::jsonpatch::{self, Action, Operation};
use super::{rules, write};
use crate::Microversion;
use crate::authorise::{self, Rule};
use crate::error::ApiError;

/// From this version on a patch may put interfaces back to the defaults of a new driver.
const RESET_INTERFACES_SINCE: Microversion = Microversion::new(45);
/// Below this version a chassis cannot be taken away from a node.
const REMOVE_CHASSIS_SINCE: Microversion = Microversion::new(25);

/// A patch that is well formed, before the node is looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Patch {
    operations: Vec<Operation>,
    reset_interfaces: bool,
    version: Microversion,
}

/// What a patch does to one node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effect {
    /// New values of columns, without those that follow from the entries.
    pub(crate) fields: NodePatch,
    /// The flag, if the patch speaks of it.
    pub(crate) maintenance: Option<bool>,
}

/// Reads the body.
///
/// # Errors
/// 400 and 406.
pub(crate) fn parse(
    body: &Value,
    reset_interfaces: Option<bool>,
    version: Microversion,
) -> Result<Patch, ApiError> {
    if body.is_null() {
        return Err(ApiError::bad_request("The request body must be a list of operations"));
    }
    let operations = jsonpatch::parse(body).map_err(schema)?;
    if reset_interfaces.is_some() && version < RESET_INTERFACES_SINCE {
        return Err(ApiError::newer());
    }
    for operation in &operations {
        if fields::find(operation.field()).is_none_or(|f| !f.patchable()) {
            return Err(ApiError::bad_request(format!(
                "Cannot patch {}. Only the following can be updated: {}",
                operation.path,
                fields::patchable_names().join(", ")
            )));
        }
    }
    let gives =
        |field: &Field| operations.iter().any(|o| o.action != Action::Remove && o.is_whole(field.name));
    if FIELDS.iter().any(|field| field.since > version && gives(field)) {
        return Err(ApiError::newer());
    }
    let whole = |name: &str| operations.iter().filter(|o| o.is_whole(name)).collect::<Vec<_>>();
    if version < REMOVE_CHASSIS_SINCE && whole("chassis_uuid").iter().any(|o| o.action == Action::Remove) {
        return Err(ApiError::newer());
    }
    let reset_interfaces = reset_interfaces.unwrap_or(false);
    if reset_interfaces && !whole("driver").iter().any(|o| o.action != Action::Remove) {
        return Err(ApiError::bad_request(
            "The reset_interfaces parameter can only be used when changing the node's driver.",
        ));
    }
    let description = whole("description").into_iter().find_map(|o| o.value.as_ref()?.as_str());
    if description.is_some_and(|d| d.chars().count() > fields::DESCRIPTION_MAX) {
        return Err(ApiError::bad_request(format!(
            "Cannot update node with description exceeding {} characters",
            fields::DESCRIPTION_MAX
        )));
    }
    Ok(Patch { operations, reset_interfaces, version })
}

impl Patch {
    /// What policy must grant for it, on the node as it is. A field with a rule of its own needs that one alone.
    /// Source: the reference's PATCH.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for operation in &self.operations {
            let rule = rule_of(operation);
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        if rules.is_empty() {
            rules.push(authorise::NODE_UPDATE);
        }
        rules
    }

    /// What it does to this node.
    ///
    /// # Errors
    /// 400, 409.
    pub(crate) fn apply(&self, row: &NodeRow, ident: &str) -> Result<Effect, ApiError> {
        rules::check_updatable(row, ident, self.only_frees_instance(), self.version)?;
        for name in self.operations.iter().filter(|o| o.action != Action::Remove && o.is_whole("name")) {
            if let Some(Value::String(name)) = &name.value {
                write::check_name(name, self.version, &format!("Node {ident}: Cannot change name to"))?;
            }
        }
        let touched: Vec<_> =
            FIELDS.iter().filter(|f| self.operations.iter().any(|o| o.field() == f.name)).collect();
        let mut document = document(row, &touched);
        jsonpatch::apply(&mut document, &self.operations).map_err(ApiError::bad_request)?;
        if touched.iter().any(|f| f.name == "driver") && !document.contains_key("driver") {
            return Err(schema(jsonpatch::missing("driver")));
        }
        for field in &touched {
            write::check(field, document.get(field.name).unwrap_or(&Value::Null)).map_err(schema)?;
        }
        let mut effect = Effect { fields: NodePatch::new(), maintenance: None };
        for field in touched {
            let value = document.get(field.name).unwrap_or(&Value::Null);
            let cell = write::cell(field, value)?;
            match (field.column(), cell) {
                (Some(NodeColumn::Maintenance), cell) => effect.maintenance = Some(cell == Cell::Bool(true)),
                (Some(column), cell) if is_change(row, column, &cell) => effect.fields.set(column, cell),
                (None, Cell::Text(uuid)) => {
                    return Err(ApiError::bad_request(format!("Chassis {uuid} could not be found.")));
                }
                _ => {}
            }
        }
        rules::complete_update(row, &mut effect.fields, self.reset_interfaces)?;
        Ok(effect)
    }

    /// The node of which this one is to become a child, as given.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.operations
            .iter()
            .rev()
            .find(|o| o.action != Action::Remove && o.is_whole("parent_node"))
            .and_then(|o| o.value.as_ref()?.as_str())
    }

    fn only_frees_instance(&self) -> bool {
        matches!(self.operations.as_slice(), [only] if only.action == Action::Remove && only.is_whole("instance_uuid"))
    }
}

/// The rule for a change of one field.
fn rule_of(operation: &Operation) -> Rule {
    match operation.field() {
        "chassis_uuid" => "baremetal:node:update:chassis_uuid",
        "conductor_group" => "baremetal:node:update:conductor_group",
        "disable_power_off" => "baremetal:node:update:disable_power_off",
        "driver_info" => "baremetal:node:update:driver_info",
        "extra" => "baremetal:node:update_extra",
        "instance_info" => "baremetal:node:update_instance_info",
        "instance_uuid" => "baremetal:node:update:instance_uuid",
        "lessee" => "baremetal:node:update:lessee",
        "name" => "baremetal:node:update:name",
        "network_data" => "baremetal:node:update:network_data",
        "owner" => "baremetal:node:update:owner",
        "parent_node" => "baremetal:node:update:parent_node",
        "properties" => "baremetal:node:update:properties",
        "retired" | "retired_reason" => "baremetal:node:update:retired",
        "shard" => "baremetal:node:update:shard",
        "driver" => "baremetal:node:update:driver_interfaces",
        name if name.ends_with("_interface") => "baremetal:node:update:driver_interfaces",
        "automated_clean" if operation.value.as_ref().is_some_and(is_false) => {
            "baremetal:node:disable_cleaning"
        }
        _ => authorise::NODE_UPDATE,
    }
}

fn is_false(value: &Value) -> bool {
    matches!(crate::args::boolean("automated_clean", value), Ok(false))
}

fn schema(text: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("Schema error for patch: {text}"))
}

/// The fields as the document that is patched.
fn document(row: &NodeRow, fields: &[&'static Field]) -> Map<String, Value> {
    let value = |field: &Field| match field.column().map(|column| row.get(column)) {
        Some(Cell::Text(text)) => Value::from(text.as_str()),
        Some(Cell::Bool(value)) => Value::from(*value),
        Some(Cell::Json(text)) => serde_json::from_str(text)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| Value::Object(Map::new())),
        _ if field.is_object() => Value::Object(Map::new()),
        _ => Value::Null,
    };
    fields.iter().map(|field| (field.name.to_owned(), value(field))).collect()
}

/// Whether the cell differs from the stored one in more than its writing.
fn is_change(row: &NodeRow, column: NodeColumn, new: &Cell) -> bool {
    match (row.get(column), new) {
        (Cell::Null, Cell::Bool(false)) => false,
        (Cell::Null, Cell::Json(text)) => text != "{}",
        (old, new) => old != new,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(cells: &[(NodeColumn, Cell)]) -> NodeRow {
        let base = [
            (NodeColumn::Uuid, Cell::from("u")),
            (NodeColumn::Name, Cell::from("n1")),
            (NodeColumn::Driver, Cell::from("fake-hardware")),
            (NodeColumn::ProvisionState, Cell::from("enroll")),
            (NodeColumn::ConductorGroup, Cell::from("")),
            (NodeColumn::PowerInterface, Cell::from("fake")),
            (NodeColumn::Extra, Cell::Json(r#"{"a": 1}"#.into())),
        ];
        NodeRow::from_cells(base.into_iter().chain(cells.iter().cloned()))
    }

    fn effect_at(minor: u16, on: &NodeRow, body: &Value) -> Result<Effect, (u16, String)> {
        parse(body, None, Microversion::new(minor)).and_then(|patch| patch.apply(on, "n1")).map_err(|e| {
            match e {
                ApiError::Resource(refusal) => (refusal.status.as_u16(), refusal.text),
                other => panic!("{other:?}"),
            }
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads like JSON at its callers")]
    fn replace(path: &str, value: Value) -> Value {
        json!([{"op": "replace", "path": path, "value": value}])
    }

    #[test]
    fn changes() {
        let on = row(&[]);
        let effect = effect_at(
            115,
            &on,
            &json!([
                {"op": "add", "path": "/extra/b", "value": 2.50},
                {"op": "replace", "path": "/owner", "value": "p"},
                {"op": "remove", "path": "/lessee"},
                {"op": "replace", "path": "/name", "value": "n1"},
                {"op": "add", "path": "/maintenance", "value": "yes"},
            ]),
        )
        .unwrap();
        assert_eq!(effect.maintenance, Some(true));
        assert_eq!(
            effect.fields.cells(),
            [
                (NodeColumn::Extra, Cell::Json(r#"{"a": 1, "b": 2.5}"#.into())),
                (NodeColumn::Owner, Cell::from("p"))
            ]
        );
        assert_eq!(
            effect_at(115, &on, &json!([])).unwrap(),
            Effect { fields: NodePatch::new(), maintenance: None }
        );
    }

    #[test]
    fn recorded_refusals() {
        let on = row(&[]);
        for (body, status, text) in [
            (
                replace("/name", json!("bad name")),
                400,
                "Node n1: Cannot change name to invalid name 'bad name'",
            ),
            (
                replace("/maintenance", json!(5)),
                400,
                "Schema error for patch: 5 is not of type 'string', 'boolean', 'null'",
            ),
            (
                json!([{"op": "remove", "path": "/driver"}]),
                400,
                "Schema error for patch: 'driver' is a required property",
            ),
            (
                replace("/driver", json!("nosuch")),
                400,
                "No valid host was found. Reason: No conductor service registered which supports driver nosuch for \
                 conductor group \"\". Ensure the driver is valid and enabled.",
            ),
            (
                replace("/power_interface", json!("nosuch")),
                400,
                "Could not find the following interface in the 'ironic.hardware.interfaces.power' entrypoint: nosuch. \
                 Valid interfaces are ['fake'].",
            ),
            (
                replace("/protected", json!(true)),
                409,
                "Node u can only be made protected in provision states 'active' or 'rescue', the current state is \
                 'enroll'",
            ),
            (
                replace("/protected_reason", json!("x")),
                400,
                "The protected_reason field can only be set when protected is True",
            ),
            (replace("/instance_uuid", json!("nope")), 400, "Expected UUID for instance_uuid: nope"),
        ] {
            assert_eq!(effect_at(115, &on, &body), Err((status, text.to_owned())));
        }
        assert_eq!(
            effect_at(49, &on, &replace("/owner", json!("x"))),
            Err((406, "Request not acceptable.".to_owned()))
        );
        assert!(effect_at(49, &on, &json!([{"op": "remove", "path": "/owner"}])).is_ok());
        let refused = effect_at(115, &on, &replace("/fault", json!("x"))).unwrap_err();
        assert!(
            refused
                .1
                .starts_with("Cannot patch /fault. Only the following can be updated: automated_clean, ")
        );
    }

    #[test]
    fn states_in_which_a_node_is_left_alone() {
        let moving = |state: &str| {
            row(&[
                (NodeColumn::ProvisionState, Cell::from(state)),
                (NodeColumn::TargetProvisionState, Cell::from("active")),
                (NodeColumn::Maintenance, Cell::Bool(true)),
            ])
        };
        for state in ["available", "active", "deploying", "wait call-back", "cleaning", "rescue", "deleting"]
        {
            let refused = effect_at(115, &moving(state), &replace("/maintenance", json!(false)));
            assert_eq!(refused.unwrap_err().0, 409, "{state}");
            let freed = effect_at(115, &moving(state), &json!([{"op": "remove", "path": "/instance_uuid"}]));
            assert!(freed.is_ok(), "{state}");
        }
        for state in ["deploy failed", "clean failed", "inspect wait", "error", "verifying"] {
            assert!(
                effect_at(115, &moving(state), &replace("/maintenance", json!(false))).is_ok(),
                "{state}"
            );
        }
        assert!(effect_at(38, &moving("inspecting"), &json!([])).is_ok());
        assert!(effect_at(39, &moving("inspecting"), &json!([])).is_err());
    }

    #[test]
    fn a_node_of_an_unknown_hardware_type_can_be_changed_otherwise() {
        let on =
            row(&[(NodeColumn::Driver, Cell::from("ilo5")), (NodeColumn::PowerInterface, Cell::from("ilo"))]);
        assert!(effect_at(115, &on, &replace("/owner", json!("p"))).is_ok());
        assert!(effect_at(115, &on, &replace("/maintenance", json!(true))).is_ok());
    }
}

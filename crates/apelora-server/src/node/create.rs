//! The body of POST /v1/nodes: what a new node is.
//!
//! Source: tests/data/ironic/README.md section 3.1.

use apelora_store::{Cell, NodeColumn, NodePatch};
use serde_json::Value;

use super::fields::{self, FIELDS};
use super::{jsonpatch, rules, write};
use crate::Microversion;
use crate::error::ApiError;

/// From this version on a new node is to be enrolled before it is available.
const ENROLL_SINCE: Microversion = Microversion::new(11);

/// A node to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewNode {
    /// The columns of which the client spoke.
    given: NodePatch,
    version: Microversion,
    /// The owner that the client asks for.
    pub(crate) owner: Option<String>,
    /// Whether it begins its life in maintenance.
    pub(crate) maintenance: bool,
    /// The node of which it is to be a child, as given.
    pub(crate) parent: Option<String>,
}

/// Reads the body.
///
/// # Errors
/// 400 and 406, in the reference's order: schema, version, values, name.
pub(crate) fn parse(body: &Value, version: Microversion) -> Result<NewNode, ApiError> {
    let schema = |text: String| ApiError::bad_request(format!("Schema error for node: {text}"));
    let Value::Object(members) = body else {
        if body.is_null() {
            return Err(ApiError::bad_request("The request body must be an object that describes the node"));
        }
        return Err(schema(format!("{} is not of type 'object'", crate::python::repr(body))));
    };
    if !members.contains_key("driver") {
        return Err(schema(jsonpatch::missing("driver")));
    }
    let creatable = |name: &str| fields::find(name).filter(|f| f.creatable());
    let unknown: Vec<_> =
        members.keys().map(String::as_str).filter(|name| creatable(name).is_none()).collect();
    if !unknown.is_empty() {
        return Err(schema(jsonpatch::unexpected(&unknown)));
    }
    let given = || FIELDS.iter().filter_map(|field| members.get(field.name).map(|value| (field, value)));
    for (field, value) in given() {
        write::check(field, value).map_err(schema)?;
    }
    if members.get("properties").is_some_and(Value::is_null) {
        return Err(ApiError::bad_request(
            "The properties field cannot be null: give an object or leave it out",
        ));
    }
    let mut patch = NodePatch::new();
    let mut maintenance = false;
    for (field, value) in given() {
        let cell = write::cell(field, value)?;
        match (field.name, field.column(), cell) {
            ("maintenance", _, cell) => maintenance = cell == Cell::Bool(true),
            // An interface that is null is the default one, as is one that is not named.
            (name, Some(_), Cell::Null) if name.ends_with("_interface") => {}
            (_, Some(column), cell) => patch.set(column, cell),
            // Of a chassis nothing is kept here, so none is found.
            (_, None, Cell::Text(uuid)) => {
                return Err(ApiError::bad_request(format!("Chassis {uuid} could not be found.")));
            }
            _ => {}
        }
    }
    if given().any(|(field, value)| field.since > version && is_given(field.name, value)) {
        return Err(ApiError::newer());
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    if let Some(name) = text("name") {
        write::check_name(name, version, "Cannot create node with")?;
    }
    Ok(NewNode {
        given: patch,
        version,
        owner: text("owner").filter(|o| !o.is_empty()).map(str::to_owned),
        maintenance,
        parent: text("parent_node").map(str::to_owned),
    })
}

/// Whether a newer field is really asked for: older clients may send what the database has for nothing.
fn is_given(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => name != "conductor_group" || !text.is_empty(),
        _ => true,
    }
}

impl NewNode {
    /// Its uuid, if the client chose one.
    pub(crate) fn uuid(&self) -> Option<&str> {
        match self.given.get(NodeColumn::Uuid) {
            Some(Cell::Text(uuid)) => Some(uuid),
            _ => None,
        }
    }

    /// The columns of the new node: what was given, and the defaults for the rest.
    ///
    /// # Errors
    /// 400: a hardware type or an interface that is not known.
    pub(crate) fn complete(
        &self,
        uuid: &str,
        owner: Option<String>,
        parent: Option<String>,
    ) -> Result<NodePatch, ApiError> {
        let text = |column| match self.given.get(column) {
            Some(Cell::Text(text)) => text.as_str(),
            _ => "",
        };
        let driver = rules::known_driver(text(NodeColumn::Driver), text(NodeColumn::ConductorGroup))?;
        let mut node = NodePatch::new();
        for field in FIELDS {
            let Some(column) = field.column() else { continue };
            if field.is_object() {
                node.set(column, write::empty_object());
            } else if field.form == fields::Form::Bool && column != NodeColumn::Maintenance {
                node.set(column, false);
            }
        }
        let state = if self.version < ENROLL_SINCE { "available" } else { "enroll" };
        node.set(NodeColumn::ProvisionState, state);
        node.set(NodeColumn::ConductorGroup, "");
        for interface in driver.interfaces {
            match self.given.get(interface.column) {
                Some(Cell::Text(value)) => rules::check_interface(interface, value)?,
                _ => node.set(interface.column, interface.valid.first().copied().unwrap_or_default()),
            }
        }
        for (column, cell) in self.given.cells() {
            node.set(*column, cell.clone());
        }
        node.set(NodeColumn::Uuid, uuid);
        node.set(NodeColumn::Owner, Cell::opt_text(owner));
        node.set(NodeColumn::ParentNode, Cell::opt_text(parent));
        Ok(node)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(mut body: Value, minor: u16) -> Result<NewNode, (u16, String)> {
        if let Value::Object(members) = &mut body {
            members.entry("driver").or_insert(json!("fake-hardware"));
        }
        parse(&body, Microversion::new(minor)).map_err(|e| match e {
            ApiError::Resource(refusal) => (refusal.status.as_u16(), refusal.text),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn recorded_refusals() {
        for (body, minor, status, text) in [
            (json!([]), 115, 400, "Schema error for node: [] is not of type 'object'"),
            (
                json!({"bogus": 1}),
                115,
                400,
                "Schema error for node: Additional properties are not allowed ('bogus' was unexpected)",
            ),
            (
                json!({"protected": true}),
                115,
                400,
                "Schema error for node: Additional properties are not allowed ('protected' was unexpected)",
            ),
            (json!({"uuid": "nope"}), 115, 400, "Expected UUID for uuid: nope"),
            (json!({"name": "a b"}), 115, 400, "Cannot create node with invalid name 'a b'"),
            (json!({"name": "q_1"}), 9, 400, "Cannot create node with invalid name 'q_1'"),
            (json!({"name": "q"}), 4, 406, "Request not acceptable."),
            (json!({"owner": "x"}), 49, 406, "Request not acceptable."),
            (json!({"retired": false}), 60, 406, "Request not acceptable."),
            (json!({"conductor_group": "x"}), 45, 406, "Request not acceptable."),
            (
                json!({"chassis_uuid": "00000063-0000-4000-8000-000000000063"}),
                115,
                400,
                "Chassis 00000063-0000-4000-8000-000000000063 could not be found.",
            ),
        ] {
            assert_eq!(parsed(body, minor), Err((status, text.to_owned())));
        }
        for (body, minor) in [
            (json!({"retired": null}), 60),
            (json!({"name": null}), 4),
            (json!({"conductor_group": ""}), 45),
            (json!({"extra": null}), 1),
        ] {
            assert!(parsed(body, minor).is_ok());
        }
    }

    #[test]
    fn defaults() {
        let new = parsed(json!({"name": "n", "extra": {"a": 1}, "maintenance": "yes"}), 115).unwrap();
        assert!(new.maintenance);
        let node = new.complete("u", None, None).unwrap();
        assert_eq!(node.get(NodeColumn::ProvisionState), Some(&Cell::from("enroll")));
        assert_eq!(node.get(NodeColumn::NetworkInterface), Some(&Cell::from("noop")));
        assert_eq!(node.get(NodeColumn::Extra), Some(&Cell::Json(r#"{"a": 1}"#.into())));
        assert_eq!(node.get(NodeColumn::DriverInfo), Some(&Cell::Json("{}".into())));
        assert_eq!(node.check(), Ok(()));
        let old = parsed(json!({}), 10).unwrap().complete("u", None, None).unwrap();
        assert_eq!(old.get(NodeColumn::ProvisionState), Some(&Cell::from("available")));
    }

    #[test]
    fn every_known_hardware_type_has_defaults() {
        for driver in super::super::drivers::DRIVERS {
            let node =
                parsed(json!({"driver": driver.name}), 115).unwrap().complete("u", None, None).unwrap();
            for interface in driver.interfaces {
                assert_eq!(node.get(interface.column), Some(&Cell::from(interface.valid[0])));
            }
        }
    }
}

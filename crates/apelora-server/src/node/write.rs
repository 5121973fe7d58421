//! Values that a client gives for fields of a node: their types, their lengths, and what is stored for them.
//!
//! Source: tests/data/ironic/README.md sections 3.1, 3.6.

use apelora_maintenance::json;
use apelora_store::Cell;
use serde_json::Value;

use super::fields::{Field, Form, Rule};
use super::jsonpatch;
use crate::error::ApiError;
use crate::{Microversion, args, ident, python};

/// Whether the value is of the field's type and length.
///
/// # Errors
/// The schema's words for what is wrong.
pub(crate) fn check(field: &Field, value: &Value) -> Result<(), String> {
    let types: &[&str] = match (field.form, field.rule) {
        (Form::Text | Form::Computed, Rule::Required(_)) => &["string"],
        (Form::Bool | Form::OptionalBool, _) => &["string", "boolean", "null"],
        (Form::Object | Form::SecretObject | Form::InstanceInfo, _) => &["object", "null"],
        _ => &["string", "null"],
    };
    let of = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&of) {
        let types: Vec<_> = types.iter().map(|t| python::repr_text(t)).collect();
        return Err(format!("{} is not of type {}", python::repr(value), types.join(", ")));
    }
    let Value::String(text) = value else { return Ok(()) };
    if matches!(field.rule, Rule::NonEmpty(_)) && text.is_empty() {
        return Err(format!("{} should be non-empty", python::repr(value)));
    }
    let (Rule::MaxChars(max) | Rule::NonEmpty(max) | Rule::Required(max)) = field.rule else { return Ok(()) };
    if text.chars().count() > max {
        return Err(format!("{} is too long", python::repr(value)));
    }
    Ok(())
}

/// What is stored for a value that [`check`] passed.
///
/// # Errors
/// A text that is not of the form that its field has.
pub(crate) fn cell(field: &Field, value: &Value) -> Result<Cell, ApiError> {
    Ok(match (field.form, value) {
        (Form::Bool, Value::Null) if field.name == "maintenance" => {
            return Err(ApiError::bad_request("The maintenance field cannot be null: give true or false"));
        }
        (Form::Bool, Value::Null) => Cell::Bool(false),
        (Form::OptionalBool, Value::Null) => Cell::Null,
        (Form::Bool | Form::OptionalBool, value) => Cell::Bool(args::boolean(field.name, value)?),
        (Form::Object | Form::SecretObject | Form::InstanceInfo, Value::Null) => empty_object(),
        (Form::Object | Form::SecretObject | Form::InstanceInfo, value) => {
            if jsonpatch::is_too_deep(value) {
                return Err(ApiError::bad_request(format!("The {} field is nested too deeply", field.name)));
            }
            Cell::Json(json::to_string(value).map_err(|_| ApiError::internal())?)
        }
        (_, Value::Null) if field.name == "conductor_group" => Cell::from(""),
        (_, Value::Null) => Cell::Null,
        (_, Value::String(text)) if field.name == "conductor_group" => Cell::from(text.to_lowercase()),
        (_, Value::String(text)) if field.rule == Rule::Uuid => {
            if !ident::is_uuid_like(text) {
                return Err(args::expected("UUID", field.name, value));
            }
            Cell::from(ident::canonical_uuid(text).unwrap_or_else(|| text.clone()))
        }
        (_, Value::String(text)) => Cell::from(text.as_str()),
        (_, other) => return Err(args::expected("string", field.name, other)),
    })
}

/// An object without members, as it is stored.
pub(crate) fn empty_object() -> Cell {
    Cell::Json("{}".to_owned())
}

/// Whether a node may be called so.
///
/// # Errors
/// The refusal; `invalid` is its first half.
pub(crate) fn check_name(name: &str, version: Microversion, invalid: &str) -> Result<(), ApiError> {
    if ident::RESERVED.contains(&name) {
        return Err(ApiError::bad_request(format!(
            "The word \"{name}\" is reserved and can not be used as a node name. Reserved words are: {}.",
            ident::RESERVED.join(", ")
        )));
    }
    if !ident::is_valid_name(name, version) {
        return Err(ApiError::bad_request(format!("{invalid} invalid name '{name}'")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::fields;

    #[expect(clippy::needless_pass_by_value, reason = "reads like JSON at its callers")]
    fn refused(name: &str, value: Value) -> String {
        check(fields::find(name).unwrap(), &value).unwrap_err()
    }

    #[test]
    fn recorded_refusals_of_types() {
        assert_eq!(refused("driver", json!(null)), "None is not of type 'string'");
        assert_eq!(refused("maintenance", json!(1)), "1 is not of type 'string', 'boolean', 'null'");
        assert_eq!(refused("extra", json!([])), "[] is not of type 'object', 'null'");
        assert_eq!(refused("owner", json!(5)), "5 is not of type 'string', 'null'");
        assert_eq!(refused("instance_name", json!("")), "'' should be non-empty");
        let long = "a".repeat(81);
        assert_eq!(refused("resource_class", json!(long)), format!("'{long}' is too long"));
    }

    #[test]
    fn what_is_stored() {
        let stored = |name: &str, value: Value| cell(fields::find(name).unwrap(), &value);
        assert_eq!(stored("extra", json!(null)), Ok(Cell::Json("{}".into())));
        assert_eq!(stored("extra", json!({"a": [1, 2.5]})), Ok(Cell::Json("{\"a\": [1, 2.5]}".into())));
        assert_eq!(stored("retired", json!("yes")), Ok(Cell::Bool(true)));
        assert_eq!(stored("automated_clean", json!(null)), Ok(Cell::Null));
        assert_eq!(stored("conductor_group", json!(null)), Ok(Cell::from("")));
        assert!(stored("instance_uuid", json!("nope")).is_err());
        assert!(stored("maintenance", json!(null)).is_err());
    }
}

//! JSON Patch (RFC 6902) as PATCH of a node takes it: add, replace, remove, on one document, all or nothing.
//!
//! A library would do the same work with other words; clients compare these. Source: tests/data/ironic/README.md section 3.6.

use serde_json::{Map, Value};

use crate::python;

/// What an operation does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    Add,
    Replace,
    Remove,
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub(crate) action: Action,
    /// As it came.
    pub(crate) path: String,
    /// `None` when the operation has no such member.
    pub(crate) value: Option<Value>,
    /// The operation as it came, for messages.
    source: Value,
}

impl Operation {
    /// The first element of the path: the field.
    pub(crate) fn field(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    /// Whether the path is that of a whole field.
    pub(crate) fn is_whole(&self, field: &str) -> bool {
        self.path.strip_prefix('/') == Some(field)
    }
}

/// Reads the body of a PATCH.
///
/// # Errors
/// What is wrong with it, as the reference's schema says it.
pub(crate) fn parse(body: &Value) -> Result<Vec<Operation>, String> {
    let Value::Array(items) = body else {
        return Err(format!("{} is not of type 'array'", python::repr(body)));
    };
    if items.len() > OPERATIONS_MAX {
        return Err(format!(
            "a list of {} operations is too long: at most {OPERATIONS_MAX} are taken",
            items.len()
        ));
    }
    // The reference reports the shallowest error: first those of the operations themselves, then those of members.
    let members: Vec<_> = items.iter().map(operation_members).collect::<Result<_, _>>()?;
    members.into_iter().zip(items).map(|(members, source)| operation(members, source)).collect()
}

/// The most operations of one request: they are all applied while the node is locked.
const OPERATIONS_MAX: usize = 1_000;

/// The names of operations.
const ACTIONS: [&str; 3] = ["add", "replace", "remove"];
const MEMBERS: [&str; 3] = ["op", "path", "value"];

fn operation_members(item: &Value) -> Result<&Map<String, Value>, String> {
    let Value::Object(members) = item else {
        return Err(format!("{} is not of type 'object'", python::repr(item)));
    };
    let unknown: Vec<_> = members.keys().map(String::as_str).filter(|k| !MEMBERS.contains(k)).collect();
    if !unknown.is_empty() {
        return Err(unexpected(&unknown));
    }
    for required in ["op", "path"] {
        if !members.contains_key(required) {
            return Err(missing(required));
        }
    }
    Ok(members)
}

fn operation(members: &Map<String, Value>, source: &Value) -> Result<Operation, String> {
    let op = members.get("op").unwrap_or(&Value::Null);
    let action = match op.as_str() {
        Some("add") => Action::Add,
        Some("replace") => Action::Replace,
        Some("remove") => Action::Remove,
        _ => return Err(format!("{} is not one of {}", python::repr(op), python::repr_list(&ACTIONS))),
    };
    let path = members.get("path").unwrap_or(&Value::Null);
    let Some(text) = path.as_str() else {
        return Err(format!("{} is not of type 'string'", python::repr(path)));
    };
    if !is_path(text) {
        return Err(format!("{} does not match {}", python::repr(path), python::repr_text(r"^(/[\w-]+)+$")));
    }
    Ok(Operation {
        action,
        path: text.to_owned(),
        value: members.get("value").cloned(),
        source: source.clone(),
    })
}

/// `^(/[\w-]+)+$`
fn is_path(text: &str) -> bool {
    text.strip_prefix('/').is_some_and(|rest| {
        rest.split('/')
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-'))
    })
}

/// The schema's words for members that it does not know.
pub(crate) fn unexpected(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|n| python::repr_text(n)).collect();
    let verb = if names.len() == 1 { "was" } else { "were" };
    format!("Additional properties are not allowed ({} {verb} unexpected)", quoted.join(", "))
}

/// The schema's words for a member that is missing.
pub(crate) fn missing(name: &str) -> String {
    format!("{} is a required property", python::repr_text(name))
}

/// The deepest nesting that a document may come to: more could be written by many requests than one may send.
const DEPTH_MAX: usize = 100;

/// Applies the operations to the document, all or none.
///
/// # Errors
/// The refusal of the first operation that cannot be applied.
pub(crate) fn apply(document: &mut Map<String, Value>, operations: &[Operation]) -> Result<(), String> {
    let mut root = Value::Object(std::mem::take(document));
    for operation in operations {
        apply_one(&mut root, operation).map_err(|reason| {
            format!("Couldn't apply patch '{}'. Reason: {reason}", python::repr(&operation.source))
        })?;
    }
    if let Value::Object(patched) = root {
        *document = patched;
    }
    Ok(())
}

fn apply_one(root: &mut Value, operation: &Operation) -> Result<(), String> {
    let value = match (&operation.action, &operation.value) {
        (Action::Remove, _) => None,
        (_, None) => return Err("The operation does not contain a 'value' member".to_owned()),
        (_, Some(value)) => Some(value.clone()),
    };
    let parts: Vec<&str> = operation.path.split('/').skip(1).collect();
    let Some((last, parents)) = parts.split_last() else { return Ok(()) };
    if parents.len() > DEPTH_MAX {
        return Err(format!("the path is deeper than {DEPTH_MAX} levels"));
    }
    let mut target = root;
    for part in parents {
        target = step(target, part)?;
    }
    match (target, value) {
        (Value::Object(members), None) => match members.shift_remove(*last) {
            Some(_) => Ok(()),
            None => Err(format!("can't remove a non-existent object '{last}'")),
        },
        (Value::Object(members), Some(value)) => {
            if operation.action == Action::Replace && !members.contains_key(*last) {
                return Err(format!("can't replace a non-existent object '{last}'"));
            }
            members.insert((*last).to_owned(), value);
            Ok(())
        }
        (Value::Array(items), value) => change_item(items, last, &operation.action, value),
        (other, _) => Err(no_container(other)),
    }
}

fn change_item(
    items: &mut Vec<Value>,
    part: &str,
    action: &Action,
    value: Option<Value>,
) -> Result<(), String> {
    if part == "-" && *action == Action::Add {
        items.extend(value);
        return Ok(());
    }
    let at = index(part)?;
    match (action, value) {
        (Action::Add, Some(value)) if at <= items.len() => {
            items.insert(at, value);
            Ok(())
        }
        (Action::Add, _) => Err("can't insert outside of list".to_owned()),
        (Action::Replace, Some(value)) => match items.get_mut(at) {
            Some(item) => {
                *item = value;
                Ok(())
            }
            None => Err("can't replace outside of list".to_owned()),
        },
        _ if at < items.len() => {
            items.remove(at);
            Ok(())
        }
        _ => Err(format!("can't remove a non-existent object '{part}'")),
    }
}

/// One step down the path.
fn step<'a>(value: &'a mut Value, part: &str) -> Result<&'a mut Value, String> {
    match value {
        Value::Object(members) => {
            // Looked up twice, because the message shows the object.
            if !members.contains_key(part) {
                return Err(format!(
                    "member '{part}' not found in {}",
                    shown(&Value::Object(members.clone()))
                ));
            }
            Ok(members.entry(part).or_insert(Value::Null))
        }
        Value::Array(items) => {
            let at = index(part)?;
            items.get_mut(at).ok_or_else(|| format!("index '{part}' is out of bounds"))
        }
        other => Err(no_container(other)),
    }
}

fn index(part: &str) -> Result<usize, String> {
    let canonical = part == "0" || (!part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()));
    let at = if canonical { part.parse().ok() } else { None };
    at.ok_or_else(|| format!("'{part}' is not a valid sequence index"))
}

fn no_container(value: &Value) -> String {
    format!(
        "Document '{}' does not support indexing, must be a mapping/sequence or support __getitem__",
        shown(value)
    )
}

/// Messages do not repeat whole documents.
const SHOWN_MAX: usize = 4_096;

fn shown(value: &Value) -> String {
    let mut text = python::repr(value);
    if text.len() > SHOWN_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_MAX));
        text.push_str("...");
    }
    text
}

/// Whether the value is nested deeper than can be read back.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|v| deeper(v, left - 1)),
            Value::Object(members) => left == 0 || members.values().any(|v| deeper(v, left - 1)),
            _ => false,
        }
    }
    deeper(value, DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(patch: &Value) -> Result<Value, String> {
        let base = json!({"extra": {"a": 1, "l": [1, 2], "b": {"c": null, "d": 1}}, "owner": null});
        let mut document = base.as_object().unwrap().clone();
        apply(&mut document, &parse(patch)?)?;
        Ok(Value::Object(document))
    }

    fn refused(patch: &Value) -> String {
        patched(patch).unwrap_err()
    }

    #[test]
    fn operations() {
        let after = patched(&json!([
            {"op": "add", "path": "/extra/l/-", "value": 3},
            {"op": "add", "path": "/extra/l/0", "value": 0},
            {"op": "replace", "path": "/extra/a", "value": {}},
            {"op": "remove", "path": "/extra/b/d"},
            {"op": "remove", "path": "/owner"},
            {"op": "add", "path": "/owner", "value": "p"},
        ]));
        assert_eq!(after, Ok(json!({"extra": {"a": {}, "l": [0, 1, 2, 3], "b": {"c": null}}, "owner": "p"})));
    }

    #[test]
    fn recorded_refusals_of_the_schema() {
        for (patch, text) in [
            (json!({}), "{} is not of type 'array'"),
            (json!([1]), "1 is not of type 'object'"),
            (json!([{"op": "test", "path": "/extra"}]), "'test' is not one of ['add', 'replace', 'remove']"),
            (
                json!([{"op": "move", "path": "/extra", "from": "/x"}]),
                "Additional properties are not allowed ('from' was unexpected)",
            ),
            (json!([{"path": "/extra"}]), "'op' is a required property"),
            (json!([{"op": "replace"}]), "'path' is a required property"),
            (json!([{"op": "replace", "path": "extra"}]), r"'extra' does not match '^(/[\\w-]+)+$'"),
            (json!([{"op": "add", "path": "/extra/a~1b"}]), r"'/extra/a~1b' does not match '^(/[\\w-]+)+$'"),
        ] {
            assert_eq!(refused(&patch), text);
        }
    }

    #[test]
    fn recorded_refusals_of_operations() {
        let reason = |patch: &Value| {
            let text = refused(patch);
            text.split_once(". Reason: ").unwrap().1.to_owned()
        };
        assert_eq!(
            refused(&json!([{"op": "replace", "path": "/extra/n", "value": 1}])),
            "Couldn't apply patch '{'op': 'replace', 'path': '/extra/n', 'value': 1}'. \
             Reason: can't replace a non-existent object 'n'"
        );
        for (op, path, text) in [
            ("remove", "/extra/n", "can't remove a non-existent object 'n'"),
            ("add", "/extra/l/9", "can't insert outside of list"),
            ("add", "/extra/l/x", "'x' is not a valid sequence index"),
            ("replace", "/extra/l/9", "can't replace outside of list"),
            ("remove", "/extra/l/-", "'-' is not a valid sequence index"),
            ("add", "/extra/q/w", "member 'q' not found in {'a': 1, 'l': [1, 2], 'b': {'c': None, 'd': 1}}"),
        ] {
            assert_eq!(reason(&json!([{"op": op, "path": path, "value": 3}])), text);
        }
        assert_eq!(
            reason(&json!([{"op": "replace", "path": "/extra"}])),
            "The operation does not contain a 'value' member"
        );
        assert!(
            reason(&json!([{"op": "add", "path": "/extra/a/b", "value": 1}])).starts_with("Document '1' ")
        );
    }

    #[test]
    fn a_request_has_so_many_operations_at_most() {
        let many = |n| Value::Array(vec![json!({"op": "add", "path": "/extra/l/-", "value": 1}); n]);
        assert!(patched(&many(OPERATIONS_MAX)).is_ok());
        assert!(refused(&many(OPERATIONS_MAX + 1)).contains("at most 1000 are taken"));
    }

    #[test]
    fn nothing_is_changed_by_a_refused_patch_and_depth_is_bounded() {
        let mut document = Map::new();
        document.insert("extra".into(), json!({}));
        let many = json!([
            {"op": "add", "path": "/extra/a", "value": 1},
            {"op": "remove", "path": "/extra/zz"},
        ]);
        assert!(apply(&mut document.clone(), &parse(&many).unwrap()).is_err());
        let deep = (0..DEPTH_MAX + 2).fold(json!(1), |v, _| json!([v]));
        assert!(is_too_deep(&deep));
        assert!(!is_too_deep(&json!({"a": [1]})));
    }

    proptest::proptest! {
        #[test]
        fn no_patch_panics(
            op in "add|replace|remove",
            path in "(/(extra|owner|a|b|c|d|l|-|0|1|9|00|x)){1,4}",
            second in "(/(extra|owner|a|b|c|d|l|-|0|1)){1,4}",
        ) {
            let _ = patched(&json!([
                {"op": op, "path": path, "value": [null]},
                {"op": "remove", "path": second},
            ]));
        }
    }
}

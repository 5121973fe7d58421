//! What is asked for: the values that rules may insert with `%(key)s`.

use serde_json::{Map, Value};

use crate::creds::Creds;

/// The values of one object. Keys are flat: `node.owner` is a key, not a path.
///
/// Borrows everything, so that a list of a thousand nodes makes a thousand targets without allocating.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    base: Base<'a>,
    node: Option<NodeTarget<'a>>,
    entry: Option<EntryTarget<'a>>,
}

#[derive(Debug, Clone, Copy)]
enum Base<'a> {
    Creds(&'a Creds),
    Values(&'a Map<String, Value>),
}

#[derive(Debug, Clone, Copy)]
struct NodeTarget<'a> {
    owner: Option<&'a str>,
    lessee: Option<&'a str>,
}

/// A maintenance entry as a target. The values come from the row, never from a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryTarget<'a> {
    /// `maintenance.uuid`
    pub uuid: &'a str,
    /// `maintenance.type`
    pub kind: &'a str,
    /// `maintenance.scope`
    pub scope: &'a str,
    /// `maintenance.asserted_by`; empty when unknown, so that the text `None` never matches.
    pub asserted_by: &'a str,
    /// `maintenance.asserted_by_project`; empty when there is none.
    pub asserted_by_project: &'a str,
}

/// The names that a target can carry beside the caller's credentials.
pub(crate) const NAMES: [&str; 7] = [
    "node.owner",
    "node.lessee",
    "maintenance.uuid",
    "maintenance.type",
    "maintenance.scope",
    "maintenance.asserted_by",
    "maintenance.asserted_by_project",
];

/// A value of a target.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    Null,
    Text(&'a str),
    Value(&'a Value),
}

impl<'a> Target<'a> {
    /// No object yet, as when a node is created: the caller's own credentials.
    pub const fn caller(creds: &'a Creds) -> Self {
        Self { base: Base::Creds(creds), node: None, entry: None }
    }

    /// A node. `node.owner` is always there, null without an owner; `node.lessee` only with a lessee. An empty text
    /// is no owner and no lessee.
    pub fn node(creds: &'a Creds, owner: Option<&'a str>, lessee: Option<&'a str>) -> Self {
        let set = |value: Option<&'a str>| value.filter(|text| !text.is_empty());
        let node = NodeTarget { owner: set(owner), lessee: set(lessee) };
        Self { base: Base::Creds(creds), node: Some(node), entry: None }
    }

    /// The same node, with one of its maintenance entries.
    #[must_use]
    pub const fn with_entry(self, entry: EntryTarget<'a>) -> Self {
        Self { base: self.base, node: self.node, entry: Some(entry) }
    }

    /// A target as a plain mapping, whatever it holds; nothing is added.
    pub const fn values(values: &'a Map<String, Value>) -> Self {
        Self { base: Base::Values(values), node: None, entry: None }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Found<'a>> {
        self.of_node(key).or_else(|| self.of_entry(key)).or_else(|| match self.base {
            Base::Creds(creds) => creds.value(key).map(Found::Value),
            Base::Values(values) => values.get(key).map(Found::Value),
        })
    }

    fn of_node(&self, key: &str) -> Option<Found<'a>> {
        let node = self.node?;
        match key {
            "node.owner" => Some(node.owner.map_or(Found::Null, Found::Text)),
            "node.lessee" => node.lessee.map(Found::Text),
            _ => None,
        }
    }

    fn of_entry(&self, key: &str) -> Option<Found<'a>> {
        let entry = self.entry?;
        let value = match key.strip_prefix("maintenance.")? {
            "uuid" => entry.uuid,
            "type" => entry.kind,
            "scope" => entry.scope,
            "asserted_by" => entry.asserted_by,
            "asserted_by_project" => entry.asserted_by_project,
            _ => return None,
        };
        Some(Found::Text(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn every_listed_name_is_found_and_a_missing_lessee_is_not() {
        let creds = Creds::of(&Identity::default(), None);
        let entry =
            EntryTarget { uuid: "u", kind: "t", scope: "s", asserted_by: "", asserted_by_project: "" };
        let target = Target::node(&creds, None, Some("L")).with_entry(entry);
        for name in NAMES {
            assert!(target.get(name).is_some(), "{name}");
        }
        assert!(matches!(target.get("node.owner"), Some(Found::Null)));
        assert!(matches!(target.get("maintenance.asserted_by"), Some(Found::Text(""))));
        assert!(Target::node(&creds, Some(""), Some("")).get("node.lessee").is_none());
        assert!(target.get("user_id").is_some(), "a target has the caller's credentials, too");
    }
}

//! The command line of nodes and their maintenance.

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::Remote;

/// Work with nodes and their maintenance.
#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// List the nodes that you may see.
    List(ListNodes),
    /// Show everything about a node.
    Show(ShowNode),
    /// Make a node.
    Create(CreateNode),
    /// Change fields of a node.
    Set(SetNode),
    /// Delete a node, and with it its entries and its history.
    Delete(DeleteNode),
    /// Take a node out of service and bring it back.
    #[command(subcommand)]
    Maintenance(Maintenance),
}

/// Take a node out of service and bring it back.
#[derive(Debug, Subcommand)]
pub(crate) enum Maintenance {
    /// Raise the node's flag, as older clients do: makes its legacy entry, or changes that entry's reason.
    Set(SetMaintenance),
    /// Release every entry of a node, as older clients do; all of them or none.
    Unset(ClearMaintenance),
    /// Assert an entry: one more reason why the node is out of service.
    Add(AddEntry),
    /// List the active entries of a node, or of all nodes.
    List(ListEntries),
    /// Release one entry of a node, or all of them.
    Remove(RemoveEntries),
}

/// `node list`.
#[derive(Debug, Args)]
pub(crate) struct ListNodes {
    /// Only nodes that are out of service
    #[arg(long, conflicts_with = "no_maintenance")]
    pub(crate) maintenance: bool,
    /// Only nodes that are in service
    #[arg(long)]
    pub(crate) no_maintenance: bool,
    /// Only nodes of this owner
    #[arg(long, value_name = "PROJECT")]
    pub(crate) owner: Option<String>,
    /// Only nodes of this lessee
    #[arg(long, value_name = "PROJECT")]
    pub(crate) lessee: Option<String>,
    /// Only nodes with this fault
    #[arg(long)]
    pub(crate) fault: Option<String>,
    /// The fields to show, with commas between
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node show`.
#[derive(Debug, Args)]
pub(crate) struct ShowNode {
    /// The node, by name or uuid
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// The fields of a node that can be given.
#[derive(Debug, Args)]
pub(crate) struct NodeFields {
    /// Its name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The project that owns it
    #[arg(long, value_name = "PROJECT")]
    pub(crate) owner: Option<String>,
    /// The project that leases it
    #[arg(long, value_name = "PROJECT")]
    pub(crate) lessee: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// The class by which it is scheduled
    #[arg(long, value_name = "CLASS")]
    pub(crate) resource_class: Option<String>,
    /// A physical property: KEY=VALUE, where VALUE is read as JSON if it is JSON; or a whole JSON object
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = pairs)]
    pub(crate) property: Vec<Extra>,
    /// A setting of the driver, as --property
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = pairs)]
    pub(crate) driver_info: Vec<Extra>,
    /// What else to keep with it, as --property
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = pairs)]
    pub(crate) extra: Vec<Extra>,
}

/// `node create`.
#[derive(Debug, Args)]
pub(crate) struct CreateNode {
    /// Its driver
    #[arg(long)]
    pub(crate) driver: String,
    /// Its uuid; the server makes one otherwise
    #[arg(long)]
    pub(crate) uuid: Option<String>,
    #[command(flatten)]
    pub(crate) fields: NodeFields,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node set`.
#[derive(Debug, Args)]
pub(crate) struct SetNode {
    /// The node, by name or uuid
    pub(crate) node: String,
    /// Its driver
    #[arg(long)]
    pub(crate) driver: Option<String>,
    #[command(flatten)]
    pub(crate) fields: NodeFields,
    /// A field to empty, such as `owner` or `extra/rack`; can be repeated
    #[arg(long, value_name = "FIELD")]
    pub(crate) unset: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteNode {
    /// The node, by name or uuid
    pub(crate) node: String,
    /// Do not ask on a terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node maintenance set`.
#[derive(Debug, Args)]
pub(crate) struct SetMaintenance {
    /// The node, by name or uuid
    pub(crate) node: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node maintenance unset`.
#[derive(Debug, Args)]
pub(crate) struct ClearMaintenance {
    /// The node, by name or uuid
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node maintenance add`.
#[derive(Debug, Args)]
pub(crate) struct AddEntry {
    /// The node, by name or uuid
    pub(crate) node: String,
    /// What kind of reason it is: hardware_failure, operator_hold
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) entry_type: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// What else to keep with it: KEY=VALUE, where VALUE is read as JSON if it is JSON; or a whole JSON object
    #[arg(long, value_name = "KEY=VALUE|JSON", value_parser = pairs)]
    pub(crate) extra: Vec<Extra>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node maintenance list`.
#[derive(Debug, Args)]
pub(crate) struct ListEntries {
    /// The node, by name or uuid
    #[arg(required_unless_present = "all_nodes", conflicts_with = "all_nodes")]
    pub(crate) node: Option<String>,
    /// The entries of all nodes that you may see
    #[arg(long)]
    pub(crate) all_nodes: bool,
    /// Only entries whose project is no longer owner or lessee of the node
    #[arg(long, requires = "all_nodes", conflicts_with = "node")]
    pub(crate) stale: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `node maintenance remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveEntries {
    /// The node, by name or uuid
    pub(crate) node: String,
    /// The entry, by uuid
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) entry: Option<String>,
    /// Every entry of the node; all of them or none
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Some members of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Extra(pub(crate) Map<String, Value>);

/// Reads `KEY=VALUE`, or a JSON object.
fn pairs(text: &str) -> Result<Extra, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map(Extra).map_err(|why| format!("is not a JSON object: {why}"));
    }
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Ok(Extra(Map::from_iter([(key.to_owned(), value)])))
        }
        _ => Err("give KEY=VALUE or a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pairs_are_json_where_they_can_be() {
        for (text, wanted) in [
            ("rack=r1", json!({"rack": "r1"})),
            ("rack=", json!({"rack": ""})),
            ("a=b=c", json!({"a": "b=c"})),
            ("slot=007", json!({"slot": "007"})),
            ("height=2", json!({"height": 2})),
            ("tags=[1, \"x\"]", json!({"tags": [1, "x"]})),
            ("{\"a\": {\"b\": null}, \"c\": \"d=e\"}", json!({"a": {"b": null}, "c": "d=e"})),
        ] {
            assert_eq!(Value::Object(pairs(text).unwrap().0), wanted, "{text}");
        }
        for text in ["", "rack", "=r1", "{", "{\"a\"}"] {
            assert!(pairs(text).is_err(), "{text}");
        }
    }
}

//! `apelora node list|show|create|set|delete`.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};

use apelora_client::{Node, NodeQuery, PatchOp};
use serde_json::{Map, Value, json};

use super::{maintenance, remote};
use crate::cli::{self, CreateNode, DeleteNode, ListNodes, NodeFields, SetNode, ShowNode};
use crate::config::OneLine;
use crate::failure::Failure;
use crate::output::{Format, columns, print};
use crate::table::{Fit, Table, fields};

/// What a list shows unless it is asked for something else.
const LISTED: [&str; 7] =
    ["uuid", "name", "provision_state", "maintenance", "maintenance_reason", "owner", "lessee"];

type Environment = Vec<(OsString, OsString)>;

pub(super) fn run(verb: cli::Node, environment: Environment) -> Result<(), Failure> {
    match verb {
        cli::Node::List(options) => list(options, environment),
        cli::Node::Show(options) => show(options, environment),
        cli::Node::Create(options) => create(options, environment),
        cli::Node::Set(options) => set(options, environment),
        cli::Node::Delete(options) => delete(options, environment),
        cli::Node::Maintenance(verb) => maintenance::run(verb, environment),
    }
}

fn list(options: ListNodes, environment: Environment) -> Result<(), Failure> {
    let chosen = !options.fields.is_empty();
    let query = NodeQuery {
        maintenance: match (options.maintenance, options.no_maintenance) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        },
        owner: options.owner,
        lessee: options.lessee,
        fault: options.fault,
        fields: if chosen { options.fields.clone() } else { LISTED.map(str::to_owned).to_vec() },
    };
    let (client, format) = remote::client(options.remote, environment)?;
    let nodes = remote::wait(client.nodes(&query))?;
    let text = if chosen { table_of(&nodes, &options.fields) } else { usual_table(&nodes) };
    print(format, &text, &remote::json(&nodes)?)
}

fn usual_table(nodes: &[Node]) -> String {
    let mut table = Table::new(&[
        ("UUID", Fit::Whole),
        ("Name", Fit::Whole),
        ("State", Fit::Cut),
        ("Maintenance", Fit::Cut),
        ("Owner", Fit::Cut),
        ("Lessee", Fit::Cut),
    ]);
    for node in nodes {
        let maintenance = match (node.maintenance(), node.text("maintenance_reason")) {
            (false, _) => None,
            (true, Some(reason)) if !reason.is_empty() => Some(reason),
            (true, _) => Some("(no reason given)"),
        };
        table.row([
            node.text("uuid"),
            node.text("name"),
            node.text("provision_state"),
            maintenance,
            node.text("owner"),
            node.text("lessee"),
        ]);
    }
    table.text(columns())
}

fn table_of(nodes: &[Node], names: &[String]) -> String {
    let headings =
        names.iter().map(|name| (name.as_str(), if name == "uuid" { Fit::Whole } else { Fit::Cut }));
    let mut table = Table::new(&headings.collect::<Vec<_>>());
    for node in nodes {
        let cells: Vec<_> = names.iter().map(|name| node.field(name).map(shown)).collect();
        table.row(cells.iter().map(Option::as_deref));
    }
    table.text(columns())
}

/// A value in one cell: a text as it is, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn show(options: ShowNode, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    one(format, &remote::wait(client.node(&options.node))?)
}

/// Prints a node, whole.
fn one(format: Format, node: &Node) -> Result<(), Failure> {
    let values = node.0.iter().filter(|(name, _)| !is_link(name));
    let text = fields(values.map(|(name, value)| (name.as_str(), shown(value))), columns());
    print(format, &text, &remote::json(node)?)
}

/// Links are for programs, and so are the parts of a node that are nothing but links.
fn is_link(name: &str) -> bool {
    matches!(name, "links" | "ports" | "portgroups" | "states" | "volume")
}

fn create(options: CreateNode, environment: Environment) -> Result<(), Failure> {
    let mut fields = Map::new();
    fields.insert("driver".to_owned(), options.driver.into());
    if let Some(uuid) = options.uuid {
        fields.insert("uuid".to_owned(), uuid.into());
    }
    for (name, value) in texts(&options.fields) {
        fields.insert(name.to_owned(), value.into());
    }
    for (name, members) in objects(options.fields) {
        fields.insert(name.to_owned(), members.into());
    }
    let (client, format) = remote::client(options.remote, environment)?;
    one(format, &remote::wait(client.create_node(&fields))?)
}

fn set(options: SetNode, environment: Environment) -> Result<(), Failure> {
    let driver = options.driver.as_deref().map(|driver| ("driver", driver));
    let mut patch: Vec<_> = driver
        .into_iter()
        .chain(texts(&options.fields))
        .map(|(name, value)| PatchOp::Add { path: format!("/{name}"), value: value.into() })
        .collect();
    for (name, members) in objects(options.fields) {
        for (key, value) in members {
            patch.push(PatchOp::Add { path: format!("/{name}/{}", pointer(&key)), value });
        }
    }
    for field in &options.unset {
        patch.push(PatchOp::Remove { path: format!("/{}", field.trim_start_matches('/')) });
    }
    if patch.is_empty() {
        return Err(
            OneLine::new("nothing to change; give a field, as in --owner PROJECT or --unset owner").into()
        );
    }
    let (client, format) = remote::client(options.remote, environment)?;
    one(format, &remote::wait(client.update_node(&options.node, &patch))?)
}

/// The fields that are texts.
fn texts(of: &NodeFields) -> impl Iterator<Item = (&'static str, &str)> {
    let all = [
        ("name", &of.name),
        ("owner", &of.owner),
        ("lessee", &of.lessee),
        ("description", &of.description),
        ("resource_class", &of.resource_class),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
}

/// The fields that are objects, those that were given.
fn objects(of: NodeFields) -> impl Iterator<Item = (&'static str, Map<String, Value>)> {
    let all = [("properties", of.property), ("driver_info", of.driver_info), ("extra", of.extra)];
    let given = all.into_iter().filter(|(_, parts)| !parts.is_empty());
    given.map(|(name, parts)| (name, parts.into_iter().flat_map(|part| part.0).collect()))
}

/// A key as a part of a path. Source: RFC 6901, section 3.
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn delete(options: DeleteNode, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    if !options.yes && io::stdin().is_terminal() && !confirmed(&options.node)? {
        return Err(Failure::Failed("not deleted".to_owned()));
    }
    remote::wait(client.delete_node(&options.node))?;
    remote::done(format, &format!("Deleted node {}.", options.node), &json!({"deleted": options.node}))
}

fn confirmed(node: &str) -> Result<bool, Failure> {
    let mut asked = io::stderr().lock();
    write!(
        asked,
        "Delete node {} with its entries and its history? [y/N] ",
        crate::printable::printable(node)
    )?;
    asked.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

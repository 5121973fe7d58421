//! `apelora node maintenance set|unset|add|list|remove`.

use std::ffi::OsString;

use apelora_client::{Entry, NewEntry, PlacedEntry};
use serde_json::json;

use super::remote;
use crate::cli::{self, AddEntry, ClearMaintenance, ListEntries, RemoveEntries, SetMaintenance};
use crate::config::OneLine;
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::table::{Fit, Table, fields};

/// What stands where the reader may not learn who it was.
const HIDDEN: &str = "(hidden)";

type Environment = Vec<(OsString, OsString)>;

pub(super) fn run(verb: cli::Maintenance, environment: Environment) -> Result<(), Failure> {
    match verb {
        cli::Maintenance::Set(options) => set(options, environment),
        cli::Maintenance::Unset(options) => unset(options, environment),
        cli::Maintenance::Add(options) => add(options, environment),
        cli::Maintenance::List(options) => list(options, environment),
        cli::Maintenance::Remove(options) => remove(options, environment),
    }
}

fn set(options: SetMaintenance, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let SetMaintenance { node, reason, .. } = options;
    remote::wait(client.set_maintenance(&node, reason.as_deref()))?;
    let json = json!({"node": node, "maintenance": true, "reason": reason});
    remote::done(format, &format!("Node {node} is out of service."), &json)
}

fn unset(options: ClearMaintenance, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let node = options.node;
    remote::wait(client.clear_maintenance(&node))?;
    let json = json!({"node": node, "maintenance": false});
    remote::done(format, &format!("Released every maintenance entry of node {node}."), &json)
}

fn add(options: AddEntry, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let new = NewEntry {
        entry_type: options.entry_type,
        reason: options.reason,
        extra: options.extra.into_iter().flat_map(|part| part.0).collect(),
    };
    let entry = remote::wait(client.add_entry(&options.node, &new))?;
    print(format, &one(&entry), &remote::json(&entry)?)
}

fn one(entry: &Entry) -> String {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    fields(
        [
            ("uuid", entry.uuid.clone()),
            ("type", entry.entry_type.clone()),
            ("reason", text(entry.reason.as_deref())),
            ("scope", entry.scope.clone()),
            ("asserted_by", text(who(entry.asserted_by.as_deref()))),
            ("asserted_by_project", text(who(entry.asserted_by_project.as_deref()))),
            ("asserted_at", entry.asserted_at.clone()),
            ("extra", serde_json::Value::Object(entry.extra.clone()).to_string()),
        ],
        columns(),
    )
}

fn list(options: ListEntries, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    match options.node {
        Some(node) => {
            let entries = remote::wait(client.entries(&node))?;
            print(format, &table(&entries), &remote::json(&entries)?)
        }
        None => {
            let entries = remote::wait(client.entries_of_all_nodes(options.stale))?;
            print(format, &table_of_all(&entries), &remote::json(&entries)?)
        }
    }
}

fn table(entries: &[Entry]) -> String {
    let mut table = Table::new(&[
        ("UUID", Fit::Whole),
        ("Type", Fit::Whole),
        ("Scope", Fit::Whole),
        ("Reason", Fit::Cut),
        ("Asserted by", Fit::Cut),
        ("Project", Fit::Cut),
        ("Asserted at", Fit::Cut),
    ]);
    for entry in entries {
        table.row([
            Some(entry.uuid.as_str()),
            Some(&entry.entry_type),
            Some(&entry.scope),
            entry.reason.as_deref(),
            who(entry.asserted_by.as_deref()),
            who(entry.asserted_by_project.as_deref()),
            Some(&entry.asserted_at),
        ]);
    }
    table.text(columns())
}

fn table_of_all(entries: &[PlacedEntry]) -> String {
    let mut table = Table::new(&[
        ("Node", Fit::Whole),
        ("UUID", Fit::Whole),
        ("Type", Fit::Whole),
        ("Scope", Fit::Whole),
        ("Stale", Fit::Whole),
        ("Project", Fit::Cut),
        ("Owner", Fit::Cut),
        ("Lessee", Fit::Cut),
        ("Reason", Fit::Cut),
        ("Asserted at", Fit::Cut),
    ]);
    for PlacedEntry { node, entry, stale } in entries {
        table.row([
            Some(node.name.as_deref().unwrap_or(&node.uuid)),
            Some(&entry.uuid),
            Some(&entry.entry_type),
            Some(&entry.scope),
            Some(if *stale { "yes" } else { "no" }),
            who(entry.asserted_by_project.as_deref()),
            node.owner.as_deref(),
            node.lessee.as_deref(),
            entry.reason.as_deref(),
            Some(&entry.asserted_at),
        ]);
    }
    table.text(columns())
}

fn who(known: Option<&str>) -> Option<&str> {
    known.or(Some(HIDDEN))
}

fn remove(options: RemoveEntries, environment: Environment) -> Result<(), Failure> {
    let (client, format) = remote::client(options.remote, environment)?;
    let RemoveEntries { node, entry, all, .. } = options;
    match entry {
        Some(entry) => {
            remote::wait(client.remove_entry(&node, &entry))?;
            let json = json!({"node": node, "released": entry});
            remote::done(format, &format!("Released maintenance entry {entry} of node {node}."), &json)
        }
        None if all => {
            remote::wait(client.clear_maintenance(&node))?;
            let json = json!({"node": node, "released": "all"});
            remote::done(format, &format!("Released every maintenance entry of node {node}."), &json)
        }
        None => Err(OneLine::new("give the entry's uuid, or --all").into()),
    }
}

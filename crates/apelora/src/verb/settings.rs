//! `apelora settings show`.

use std::ffi::OsString;

use apelora_client::{Setting, Settings};

use super::remote;
use crate::cli;
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::printable::printable;
use crate::table::{Fit, Table};

pub(super) fn run(verb: cli::Settings, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let cli::Settings::Show(remote) = verb;
    let (client, format) = remote::client(remote, environment)?;
    let settings = remote::wait(client.settings())?;
    print(format, &text(&settings.known), &settings.json)
}

fn text(of: &Settings) -> String {
    let mut text = format!("{}\n\nServer\n{}", printable(&of.leader.sentence), table(&of.server));
    if !of.worker.is_empty() {
        text.push_str(&format!("\n\nWorker\n{}", table(&of.worker)));
    }
    if let Some(map) = &of.map {
        text.push_str(&format!("\n\nBMC map: {}", printable(&map.condition)));
        for line in map.problem.iter().chain(&map.warnings) {
            text.push_str(&format!("\n{}", printable(line)));
        }
    }
    if !of.map_entries.is_empty() {
        let mut table = Table::new(&[
            ("Member", Fit::Whole),
            ("Provider", Fit::Whole),
            ("Target", Fit::Cut),
            ("UUID", Fit::Whole),
            ("Secrets", Fit::Cut),
        ]);
        for entry in &of.map_entries {
            table.row([
                Some(entry.member.as_str()),
                Some(&entry.provider),
                Some(&entry.target),
                entry.uuid.as_deref(),
                Some(&entry.secrets.join(", ")),
            ]);
        }
        text.push_str(&format!("\n{}", table.text(columns())));
    }
    text
}

fn table(of: &[Setting]) -> String {
    let mut table = Table::new(&[("Setting", Fit::Whole), ("Value", Fit::Cut), ("Source", Fit::Whole)]);
    for setting in of {
        table.row([Some(setting.name.as_str()), Some(&setting.value), Some(&setting.source)]);
    }
    table.text(columns())
}

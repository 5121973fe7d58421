//! `apelora history list`.

use std::ffi::OsString;

use super::remote;
use crate::cli::{History, ListHistory};
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::printable::second;
use crate::table::{Fit, Table};

pub(super) fn run(verb: History, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let History::List(ListHistory { node, remote }) = verb;
    let (client, format) = remote::client(remote, environment)?;
    let records = remote::wait(client.history(&node))?;
    let mut table = Table::new(&[
        ("When", Fit::Whole),
        ("Severity", Fit::Whole),
        ("Type", Fit::Whole),
        ("User", Fit::Cut),
        ("Project", Fit::Cut),
        ("Event", Fit::Cut),
    ]);
    for record in &records {
        table.row([
            record.created_at.as_deref().map(second).as_deref(),
            record.severity.as_deref(),
            record.event_type.as_deref(),
            record.user.as_deref(),
            record.project.as_deref(),
            record.event.as_deref(),
        ]);
    }
    print(format, &table.text(columns()), &remote::json(&records)?)
}

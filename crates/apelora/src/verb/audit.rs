//! `apelora audit list`.

use std::ffi::OsString;

use apelora_client::{AuditFilter, AuditForm, AuditPosition, AuditRow, Client, ClientError};

use super::remote;
use crate::cli::{Audit, AuditFormat, ListAudit, Output, Remote};
use crate::failure::Failure;
use crate::output::{Format, columns, print, raw};
use crate::printable::{printable, second};
use crate::table::{Fit, Table};

pub(super) fn run(verb: Audit, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let Audit::List(options) = verb;
    let ListAudit { member, node, action, outcome, actor, from, until, newest_first, limit, format, process } =
        *options;
    let filter = AuditFilter { member, node, action, outcome, actor, from, until, newest_first };
    let (client, _) =
        remote::client(Remote { process, output: Output { format: Format::Text } }, environment)?;
    match format {
        AuditFormat::Text => print(Format::Text, &table(&rows(&client, &filter, limit)?), &().into()),
        AuditFormat::Json => print(Format::Json, "", &remote::json(&rows(&client, &filter, limit)?)?),
        AuditFormat::Jsonl => stream(&client, &filter, AuditForm::Lines, limit),
        AuditFormat::Csv => stream(&client, &filter, AuditForm::Csv, limit),
    }
}

/// All rows, page by page.
fn rows(client: &Client, filter: &AuditFilter, limit: Option<u32>) -> Result<Vec<AuditRow>, Failure> {
    remote::wait(async {
        let mut rows: Vec<AuditRow> = Vec::new();
        let mut left = limit;
        let mut at = AuditPosition::default();
        loop {
            let page = client.audit(filter, &at, left).await?;
            left = left.map(|left| left.saturating_sub(count(page.rows.len())));
            rows.extend(page.rows);
            match page.next {
                Some(next) if left != Some(0) => at = next,
                _ => return Ok::<_, ClientError>(rows),
            }
        }
    })
}

/// Each page as soon as it is there; the headings of CSV once.
fn stream(client: &Client, filter: &AuditFilter, form: AuditForm, limit: Option<u32>) -> Result<(), Failure> {
    let mut left = limit;
    let mut at = AuditPosition::default();
    let mut first = true;
    // A runtime for all pages: a connection lives no longer than the one that it was made in.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    loop {
        let page = runtime.block_on(client.audit_text(filter, form, &at, left))?;
        let (headings, body) = match form {
            AuditForm::Lines => ("", page.rows.as_str()),
            AuditForm::Csv => page.rows.split_at(page.rows.find('\n').map_or(page.rows.len(), |at| at + 1)),
        };
        raw(&shown(if first { page.rows.as_str() } else { body }))?;
        first = false;
        left = left.map(|left| left.saturating_sub(rows_in(form, headings, body)));
        match page.next {
            Some(next) if left != Some(0) => at = next,
            _ => return Ok(()),
        }
    }
}

/// How many rows a page of text has.
fn rows_in(form: AuditForm, headings: &str, body: &str) -> u32 {
    match form {
        AuditForm::Lines => count(body.lines().count()),
        AuditForm::Csv => {
            // A line end inside quotes is part of a cell.
            debug_assert!(!headings.contains('"'));
            let mut quoted = false;
            let ends = body.chars().filter(|c| {
                quoted ^= *c == '"';
                *c == '\n' && !quoted
            });
            count(ends.count())
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

/// What others wrote steers no terminal; a file gets it as it is.
fn shown(text: &str) -> String {
    if columns().is_none() {
        return text.to_owned();
    }
    let lines = text.split('\n').map(|line| match line.strip_suffix('\r') {
        Some(line) => format!("{}\r", printable(line)),
        None => printable(line).into_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn table(rows: &[AuditRow]) -> String {
    let mut table = Table::new(&[
        ("When", Fit::Whole),
        ("Action", Fit::Whole),
        ("Outcome", Fit::Whole),
        ("Reason", Fit::Whole),
        ("Member or node", Fit::Whole),
        ("Who", Fit::Cut),
        ("Summary", Fit::Cut),
    ]);
    for row in rows {
        let about = row.member.as_deref().or(row.node_name.as_deref()).or(row.node_uuid.as_deref());
        table.row([
            Some(second(&row.at).as_str()),
            Some(&row.action),
            Some(&row.outcome),
            row.reason_code.as_deref(),
            about,
            Some(&row.user),
            Some(&row.summary),
        ]);
    }
    table.text(columns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_page_are_counted_as_the_reader_of_the_form_does() {
        assert_eq!(rows_in(AuditForm::Lines, "", "{}\n{}\n"), 2);
        assert_eq!(rows_in(AuditForm::Csv, "a,b\r\n", "1,\"x\r\ny\"\r\n2,\"\"\"\"\r\n"), 2);
        assert_eq!(rows_in(AuditForm::Csv, "a,b\r\n", ""), 0);
    }
}

//! `apelora db upgrade|status|backfill|restored`.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use apelora_fencing::Limits;
use apelora_store::{BackfillProgress, BackfillReport, SchemaStatus, Store, StoreConfig};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::{configure, server};
use crate::cli::{Db, DbVerb};
use crate::config::DatabaseConfig;
use crate::failure::Failure;
use crate::output::{Format, print, say};
use crate::{logging, real};

/// Nodes in one transaction of a backfill: enough to be quick, few enough to hold nobody up.
pub(super) const BACKFILL_BATCH: u32 = 100;

pub(super) fn run(verb: Db, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match verb {
        Db::Upgrade(options) => {
            let (config, format) = start(options, environment)?;
            runtime.block_on(upgrade(&config, format))
        }
        Db::Status(options) => {
            let (config, format) = start(options, environment)?;
            runtime.block_on(status(&config, format))
        }
        Db::Backfill(options) => {
            let (config, format) = start(options, environment)?;
            runtime.block_on(backfill(&config, format))
        }
        Db::Restored(options) => {
            let (config, format) = start(options, environment)?;
            runtime.block_on(restored(&config, format))
        }
    }
}

fn start(
    options: DbVerb,
    environment: Vec<(OsString, OsString)>,
) -> Result<(DatabaseConfig, Format), Failure> {
    let (config, _) = configure(options.process, environment)?;
    logging::start(&config.log);
    Ok((config, options.output.format))
}

async fn upgrade(config: &DatabaseConfig, format: Format) -> Result<(), Failure> {
    let store_config = StoreConfig::new(config.database_url.clone());
    let before = Store::status(&store_config).await.map_err(|e| Failure::because(&e))?;
    let mut after = Store::upgrade(&store_config).await.map_err(|e| Failure::because(&e))?;
    let report = if after.backfill_due {
        let store = Store::connect(&store_config).await.map_err(|e| Failure::because(&e))?;
        let report = bring_together(&store, &host(config)).await?;
        server::close(&store).await;
        after = Store::status(&store_config).await.map_err(|e| Failure::because(&e))?;
        Some(report)
    } else {
        None
    };
    let mut text = if before.found == after.found {
        format!("The schema is at version {}; nothing was to be done.", after.found)
    } else {
        format!("The schema went from version {} to {}.", before.found, after.found)
    };
    if let Some(report) = &report {
        text.push('\n');
        text.push_str(&report_text(report));
    }
    let json = json!({
        "schema_before": before.found,
        "schema": status_json(&after),
        "backfill": report.as_ref().map(report_json),
    });
    print(format, &text, &json)
}

async fn status(config: &DatabaseConfig, format: Format) -> Result<(), Failure> {
    let status = Store::status(&StoreConfig::new(config.database_url.clone()))
        .await
        .map_err(|e| Failure::because(&e))?;
    let database = config.database_url.to_string();
    let mut json = status_json(&status);
    json["database"] = database.as_str().into();
    print(format, &status_text(&status, &database), &json)
}

async fn backfill(config: &DatabaseConfig, format: Format) -> Result<(), Failure> {
    let store = Store::connect(&StoreConfig::new(config.database_url.clone()))
        .await
        .map_err(|e| Failure::because(&e))?;
    let report = bring_together(&store, &host(config)).await?;
    server::close(&store).await;
    print(format, &report_text(&report), &report_json(&report))
}

/// A backup does not know what happened after it was made.
async fn restored(config: &DatabaseConfig, format: Format) -> Result<(), Failure> {
    let store_config = StoreConfig::new(config.database_url.clone());
    let status = Store::status(&store_config).await.map_err(|e| Failure::because(&e))?;
    if status.found == 0 {
        return Err(Failure::Failed(format!(
            "there is no schema in {}: name the database that was restored (--config, --database-url)",
            config.database_url
        )));
    }
    let store = Store::connect(&store_config).await.map_err(|e| Failure::because(&e))?;
    let members = store.note_restored().await.map_err(|e| Failure::because(&e))?;
    server::close(&store).await;
    let minutes = Limits::PRODUCTION.loop_guard.as_secs() / 60;
    let text = format!(
        "Noted. For {minutes} minutes no member is switched off that is not seen Online first. What in the backup proved \
         any of the {members} known members off proves nothing any more. A worker that still ran has lost its lease."
    );
    print(format, &text, &json!({"members": members, "no_power_off_minutes": minutes}))
}

fn host(config: &DatabaseConfig) -> String {
    config.host.clone().unwrap_or_else(real::host_name)
}

async fn bring_together(store: &Store, host: &str) -> Result<BackfillReport, Failure> {
    let mut shown = Progress::new();
    let report = store
        .backfill(BACKFILL_BATCH, &mut || real::stamp(host), &mut |progress| shown.at(progress))
        .await
        .map_err(|e| Failure::because(&e))?;
    shown.end();
    Ok(report)
}

/// How far a backfill is: a bar on a terminal, else a line for each tenth.
enum Progress {
    Bar(ProgressBar),
    Lines(Tenths),
}

impl Progress {
    fn new() -> Self {
        if !io::stderr().is_terminal() {
            return Self::Lines(Tenths::default());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} nodes, {eta} left") {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    fn at(&mut self, progress: BackfillProgress) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(progress.total);
                bar.set_position(progress.done);
            }
            Self::Lines(tenths) => {
                if tenths.passed(progress) {
                    say(&format!("{} of {} nodes", progress.done, progress.total));
                }
            }
        }
    }

    fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Which steps of a long way are worth a line.
#[derive(Default)]
pub(super) struct Tenths(u64);

impl Tenths {
    /// Whether another tenth is done.
    pub(super) fn passed(&mut self, progress: BackfillProgress) -> bool {
        let now = (progress.done * 10).checked_div(progress.total).unwrap_or(10);
        let passed = now > self.0;
        self.0 = now;
        passed
    }
}

fn status_text(status: &SchemaStatus, database: &str) -> String {
    let SchemaStatus { found, wanted, usable, adopted, backfill_due } = *status;
    let state = match found.cmp(&wanted) {
        Ordering::Equal => "up to date",
        Ordering::Less if found == 0 => "none yet; run `apelora db upgrade`",
        Ordering::Less if usable => "usable; `apelora db upgrade` brings it up to date",
        Ordering::Less => "too old; run `apelora db upgrade`",
        Ordering::Greater if usable => "newer than this program, which can still work with it",
        Ordering::Greater => "newer than this program; use the version of Apelora that made it",
    };
    let nodes = match (adopted, found) {
        (true, _) => "a table of the Bare Metal service, adopted",
        (false, 0) => "none yet",
        (false, _) => "Apelora's own table",
    };
    let backfill = if backfill_due { "due; run `apelora db backfill`" } else { "not due" };
    format!(
        "database        {database}\nschema version  {found} of {wanted}: {state}\nnodes           {nodes}\nbackfill        {backfill}"
    )
}

fn status_json(status: &SchemaStatus) -> Value {
    json!({
        "found": status.found,
        "wanted": status.wanted,
        "usable": status.usable,
        "adopted": status.adopted,
        "backfill_due": status.backfill_due,
    })
}

/// What a backfill counts, in the words of text and JSON.
fn counts(report: &BackfillReport) -> [(&'static str, &'static str, u64); 6] {
    [
        ("legacy_made", "legacy entries made for a flag without an entry", report.legacy_made),
        ("legacy_ended", "legacy entries ended because the flag was down", report.legacy_ended),
        (
            "fault_ended",
            "fault entries ended because the flag was down or the fault was cleared",
            report.fault_ended,
        ),
        ("flags_raised", "flags raised again for typed entries", report.flags_raised),
        ("amended", "entries whose reason or fault was taken over from the node", report.amended),
        ("refreshed", "nodes whose reason or fault was written again", report.refreshed),
    ]
}

fn report_text(report: &BackfillReport) -> String {
    let mut text = format!(
        "Looked at {} nodes and brought flag and entries together on {}.",
        report.examined, report.reconciled
    );
    for (_, words, count) in counts(report) {
        if count > 0 {
            text.push_str(&format!("\n{count:>8}  {words}"));
        }
    }
    text
}

fn report_json(report: &BackfillReport) -> Value {
    let mut json = json!({"examined": report.examined, "reconciled": report.reconciled});
    for (key, _, count) in counts(report) {
        json[key] = count.into();
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_what_was_done_and_nothing_else() {
        let report = BackfillReport {
            examined: 12,
            reconciled: 3,
            legacy_made: 2,
            flags_raised: 1,
            ..Default::default()
        };
        assert_eq!(
            report_text(&report),
            "Looked at 12 nodes and brought flag and entries together on 3.\n       2  legacy entries made for a flag \
             without an entry\n       1  flags raised again for typed entries"
        );
        assert_eq!(
            report_json(&report).to_string(),
            r#"{"examined":12,"reconciled":3,"legacy_made":2,"legacy_ended":0,"fault_ended":0,"flags_raised":1,"amended":0,"refreshed":0}"#
        );
    }

    #[test]
    fn a_long_backfill_says_ten_times_how_far_it_is() {
        let mut tenths = Tenths::default();
        let told = (0..=1000).filter(|done| tenths.passed(BackfillProgress { done: *done, total: 1000 }));
        assert_eq!(told.collect::<Vec<_>>(), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
        assert!(Tenths::default().passed(BackfillProgress { done: 0, total: 0 }));
    }

    #[test]
    fn a_status_says_what_to_run() {
        let status =
            |found, usable| SchemaStatus { found, wanted: 3, usable, adopted: false, backfill_due: false };
        let text = |found, usable| status_text(&status(found, usable), "sqlite://a.db");
        assert!(text(3, true).contains("3 of 3: up to date"));
        assert!(text(2, true).contains("2 of 3: usable; `apelora db upgrade`"));
        assert!(text(1, false).contains("1 of 3: too old; run `apelora db upgrade`"));
        assert!(text(0, false).contains("0 of 3: none yet; run `apelora db upgrade`"));
        assert!(text(4, false).contains("4 of 3: newer than this program"));
    }
}

//! `apelora bmc check`.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_fencing::event::Target;
use apelora_fencing::map::{BmcMap, MapState};
use apelora_worker::Providers;
use apelora_worker::bmc_map::MapFile;
use apelora_worker::check::{AT_ONCE, CheckRow, NotMapped, check_one};
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{configure, remote, worker};
use crate::cli::CheckBmc;
use crate::config::BmcCheckConfig;
use crate::failure::Failure;
use crate::output::{columns, print, say};
use crate::printable::printable;
use crate::table::{Fit, Table};
use crate::{logging, real};

/// How long one BMC may take: opening a conversation and one reading, with their limits in a power-off.
const EACH: Duration = Duration::from_secs(30);

pub(super) fn check(options: CheckBmc, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let format = options.asked.output.format;
    let lab = worker::provider_settings(&environment);
    let (config, _) = configure::<BmcCheckConfig>(options.asked.process, environment)?;
    logging::start(&config.log);
    let providers = Providers::new(lab(&config.bmcs), worker::secrets());
    let only = options.member.as_deref().map(MemberName::from);
    let runtime = tokio::runtime::Runtime::new()?;
    let checked = runtime.block_on(async {
        let map = load(MapFile::new(config.bmcs.map, config.bmcs.lab_san_vms)).await?;
        check_all(&providers, &map, only).await
    });
    // A thread that reads a file of a file system that hangs cannot be ended, and must not keep the process.
    runtime.shutdown_background();
    let rows = checked?;
    print(format, &text(&rows), &remote::json(&rows)?)?;
    if rows.iter().all(CheckRow::is_good) { Ok(()) } else { Err(Failure::Shown) }
}

/// The map, or why there is none.
async fn load(file: MapFile) -> Result<Arc<BmcMap>, Failure> {
    let loaded = file.load().await;
    for warning in &loaded.warnings {
        say(&format!("warning: {}", printable(warning)));
    }
    match loaded.state {
        MapState::Valid(map) => Ok(map),
        MapState::Invalid | MapState::Absent => {
            let problem = loaded.problem.unwrap_or_else(|| "there is no BMC map".to_owned());
            Err(Failure::Failed(printable(&problem).into_owned()))
        }
    }
}

/// Checks the members, or the one that is named, in the order of their names.
async fn check_all(
    providers: &Providers,
    map: &BmcMap,
    only: Option<MemberName>,
) -> Result<Vec<CheckRow>, Failure> {
    if let Some(name) = only.as_ref().filter(|name| map.get(name).is_none()) {
        let problem = NotMapped(vec![name.to_string()]).to_string();
        return Err(Failure::Failed(printable(&problem).into_owned()));
    }
    let targets: Vec<_> = map
        .iter()
        .filter(|(member, _)| only.as_ref().is_none_or(|only| only == *member))
        .map(|(member, entry)| Target { member: member.clone(), entry: Arc::clone(entry), map: map.sha() })
        .collect();
    let bar = bar(targets.len());
    let now = real::now().assume_utc();
    let mut rows: Vec<_> = stream::iter(targets)
        .map(|target| async move {
            let by = tokio::time::Instant::now() + EACH;
            check_one(providers, &target, by, now).await
        })
        .buffer_unordered(AT_ONCE)
        .inspect(|_| bar.inc(1))
        .collect()
        .await;
    bar.finish_and_clear();
    rows.sort_by(|a, b| a.member.cmp(&b.member));
    Ok(rows)
}

/// How far it is, for a person who waits.
fn bar(members: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(members as u64), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} BMCs") {
        bar.set_style(style);
    }
    bar
}

fn text(rows: &[CheckRow]) -> String {
    let mut table = Table::new(&[
        ("Member", Fit::Whole),
        ("Provider", Fit::Whole),
        ("Result", Fit::Whole),
        ("Power", Fit::Whole),
        ("Round trip", Fit::Whole),
        ("Certificate", Fit::Whole),
        ("BMC", Fit::Cut),
        ("Details", Fit::Cut),
    ]);
    for row in rows {
        let result = row.failure.as_ref().map_or("ok", |failure| failure.reason.as_str());
        let round_trip = row.round_trip_ms.map(|ms| format!("{ms} ms"));
        let days = row.certificate.as_ref().and_then(|certificate| certificate.days_left);
        let certificate = days.map(|days| format!("{days} days"));
        table.row([
            Some(row.member.as_str()),
            Some(row.provider.as_str()),
            Some(result),
            row.power.as_deref(),
            round_trip.as_deref(),
            certificate.as_deref(),
            Some(row.target.as_str()),
            Some(details(row).as_str()),
        ]);
    }
    let mut text = table.text(columns());
    for row in rows {
        if let Some(failure) = &row.failure {
            text.push_str(&format!(
                "\n\n{}: {}",
                printable(row.member.as_str()),
                printable(&failure.sentence)
            ));
            if !failure.detail.is_empty() {
                text.push_str(&format!("\n    found: {}", printable(&failure.detail)));
            }
            text.push_str(&format!("\n    to do: {}", printable(&failure.remedy)));
        }
        for advice in &row.advice {
            text.push_str(&format!("\n\n{}, advice: {}", printable(row.member.as_str()), printable(advice)));
        }
    }
    text
}

/// What is worth knowing about a BMC beside the result.
fn details(row: &CheckRow) -> String {
    let suite = row.suite.map(|suite| format!("cipher suite {suite}"));
    // The path of a system that the map names stands in its target.
    let system = row.system.clone().filter(|system| !row.target.ends_with(system.as_str()));
    // Redfish has one order only.
    let order = row.byte_order.filter(|_| row.suite.is_some());
    let order = order.map(|order| format!("{} order", order.as_str()));
    let parts = [row.vendor.clone(), system, suite, row.privilege.clone(), row.reported.clone(), order];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

//! `apelora lease check`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use apelora_fencing::lease::{LeaseConfig, LeaseRow, LeaseSeen, LeaseWatch, Proves};
use apelora_fencing::{Limits, MemberName};
use apelora_store::{DatabaseUrl, LeaderConfig, Store, StoreConfig};
use apelora_worker::leases::{LeaseLook, LeaseSource};
use tokio::time::Instant;

use super::{configure, remote, server, worker};
use crate::cli::Lease;
use crate::config::LeaseCheckConfig;
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::printable::printable;
use crate::table::{Fit, Table};
use crate::{logging, real};

/// How long a look may take: each command of it has a shorter limit of its own.
const LOOK: Duration = Duration::from_secs(15);

pub(super) fn run(verb: Lease, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    let Lease::Check(options) = verb;
    let format = options.output.format;
    let (config, _) = configure::<LeaseCheckConfig>(options.process, environment)?;
    logging::start(&config.log);
    let hosts = worker::lease_hosts(config.sanlock_hosts.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (rows, problems) = runtime.block_on(look(&hosts, config.database_url.as_ref()))?;
    print(format, &text(&rows), &remote::json(&rows)?)?;
    if problems.is_empty() { Ok(()) } else { Err(Failure::Shown) }
}

/// What this host's daemon says, and which lockspaces it cannot tell of.
async fn look(
    hosts: &LeaseConfig,
    database: Option<&DatabaseUrl>,
) -> Result<(Vec<LeaseRow>, BTreeMap<String, String>), Failure> {
    let source = LeaseSource::Sanlock(apelora_sanlock::DEFAULT_SOCKET.into());
    let look: LeaseLook = source.look(&real::BootClock, Instant::now() + LOOK).await;
    let problems = look.problems_of(hosts);
    let seen = match database {
        Some(url) => Some(seen_alive(url).await?),
        None => None,
    };
    let mut watch = LeaseWatch::default();
    watch.see(look.readings);
    Ok((watch.rows(hosts, seen.as_ref(), &problems), problems))
}

/// The leases that the worker stored of each member while it was Online.
async fn seen_alive(url: &DatabaseUrl) -> Result<BTreeMap<MemberName, Vec<LeaseSeen>>, Failure> {
    let store = Store::connect(&StoreConfig::new(url.clone())).await.map_err(|e| Failure::because(&e))?;
    let stored = store.persisted(&LeaderConfig::new(Limits::PRODUCTION, real::host_name())).await;
    server::close(&store).await;
    let stored = stored.map_err(|e| Failure::because(&e))?;
    Ok(stored.members.into_iter().map(|(member, row)| (member, row.leases)).collect())
}

fn text(rows: &[LeaseRow]) -> String {
    let mut table = Table::new(&[
        ("Lockspace", Fit::Whole),
        ("Host", Fit::Whole),
        ("Member", Fit::Whole),
        ("State", Fit::Whole),
        ("Looked", Fit::Whole),
        ("Unchanged", Fit::Whole),
        ("Prepared", Fit::Whole),
        ("Proves", Fit::Whole),
        ("Reasons", Fit::Cut),
    ]);
    let seconds = |seconds: Option<u64>| seconds.map(|seconds| format!("{seconds} s ago"));
    for row in rows {
        let unchanged = match (row.unchanged_s, row.dead_after_s) {
            (Some(unchanged), Some(needed)) => Some(format!("{unchanged} of {needed} s")),
            _ => None,
        };
        let codes: Vec<_> = row.reasons.iter().map(|reason| reason.code).collect();
        table.row([
            Some(row.lockspace.as_str()),
            row.host_id.map(|id| id.to_string()).as_deref(),
            row.member.as_ref().map(MemberName::as_str),
            row.state.as_ref().map(|state| format!("{state:?}").to_uppercase()).as_deref(),
            seconds(row.checked_s).as_deref(),
            unchanged.as_deref(),
            Some(if row.prepared { "yes" } else { "no" }),
            Some(proves(row.proves)),
            Some(codes.join(", ").as_str()),
        ]);
    }
    let mut text = table.text(columns());
    for row in rows {
        let whose = row.member.as_ref().map_or_else(
            || format!("host {} of {}", row.host_id.unwrap_or_default(), row.lockspace),
            |member| format!("{member} in {}", row.lockspace),
        );
        for reason in row.reasons.iter().filter(|reason| reason.remedy.is_some()) {
            let remedy = reason.remedy.unwrap_or_default();
            let line = format!("{whose}, {}: {}", reason.code, reason.sentence);
            text.push_str(&format!("\n\n{}\n    to do: {}", printable(&line), printable(remedy)));
        }
    }
    text
}

const fn proves(what: Proves) -> &'static str {
    match what {
        Proves::Nothing => "nothing",
        Proves::OneOfTwo => "one_of_two",
        Proves::ThisLockspace => "this_lockspace",
        Proves::Dead => "dead",
    }
}

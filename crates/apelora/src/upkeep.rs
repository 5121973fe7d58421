//! What a server does beside serving: it keeps history, the change table and, if asked to, the audit trail and what is stored
//! of restarts from growing.

use std::time::Duration;

use apelora_store::{Retention, Store};
use time::PrimitiveDateTime;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::config::HistoryRetention;

/// Rows of the change table are of use to others for this long.
const CHANGES_KEPT: time::Duration = time::Duration::minutes(10);
/// How often the change table is pruned.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
/// How often the audit trail is pruned, and the restarts of which it tells.
const AUDIT_EVERY: Duration = DAY;

/// Starts the tasks; they end when the set is dropped. `now` is the clock.
pub(crate) fn start(
    store: &Store,
    history: HistoryRetention,
    audit_days: Option<u32>,
    now: fn() -> PrimitiveDateTime,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if history.max_entries > 0 && history.batch > 0 {
        tasks.spawn(clean_history(store.clone(), history, now));
    }
    tasks.spawn(prune_changes(store.clone(), now));
    if let Some(days) = audit_days {
        tasks.spawn(prune_audit(store.clone(), days, now));
    }
    tasks
}

async fn clean_history(store: Store, history: HistoryRetention, now: fn() -> PrimitiveDateTime) {
    let retention =
        Retention { max_entries: history.max_entries, min_days: history.min_days, batch: history.batch };
    let mut due = every(Duration::from_secs(history.interval_secs.into()));
    loop {
        due.tick().await;
        match store.clean_history(&retention, now()).await {
            Ok(0) => {}
            Ok(records) => tracing::info!(records, "history cleaned up"),
            Err(error) => failed("history clean-up", &error),
        }
    }
}

async fn prune_changes(store: Store, now: fn() -> PrimitiveDateTime) {
    let mut due = every(PRUNE_EVERY);
    loop {
        due.tick().await;
        match store.prune_changes(now() - CHANGES_KEPT).await {
            Ok(rows) => tracing::debug!(rows, "change table pruned"),
            Err(error) => failed("pruning of the change table", &error),
        }
    }
}

async fn prune_audit(store: Store, days: u32, now: fn() -> PrimitiveDateTime) {
    let mut due = every(AUDIT_EVERY);
    loop {
        due.tick().await;
        match store.prune_audit(now() - time::Duration::days(days.into())).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "audit trail pruned"),
            Err(error) => failed("pruning of the audit trail", &error),
        }
        match store.prune_recoveries(DAY * days).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "ended restarts pruned"),
            Err(error) => failed("pruning of ended restarts", &error),
        }
    }
}

/// At once, then after each period; a late one is not made up for.
fn every(period: Duration) -> tokio::time::Interval {
    let mut due = tokio::time::interval(period);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    due
}

/// The next period tries again, so a failure is worth a line and no more.
fn failed(task: &str, error: &apelora_store::StoreError) {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::warn!(task, %error, cause, "will be tried again");
}

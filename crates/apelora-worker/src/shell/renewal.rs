//! The renewal of the lease: a task and a connection of its own, and it stops when the loop that decides does not move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_fencing::write::CommitError;
use apelora_fencing::{BootTime, Limits};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, warn};

use super::answer::{Answer, Answers};
use super::database::Term;
use super::outside::Outside;
use crate::metrics::Renewal;
use crate::status::millis;

/// A loop that has not moved for so many intervals between two passes is stuck.
const STUCK_AFTER_PASSES: u32 = 3;
/// How much earlier than it must a renewal begins. The figures leave nothing to spare: a lease that is renewed exactly in
/// time covers a send exactly, and a timer and an answer always take a moment.
const EARLIER: Duration = Duration::from_secs(1);
/// The pause after a renewal that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// When the deciding loop moved last, on the boot-time clock.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU64);

impl Progress {
    /// The loop moves.
    pub(super) fn report(&self, now: BootTime) {
        self.0.store(millis(now.since_boot()), Ordering::Relaxed);
    }

    fn is_stuck(&self, now: BootTime, limits: &Limits) -> bool {
        let age =
            Duration::from_millis(millis(now.since_boot()).saturating_sub(self.0.load(Ordering::Relaxed)));
        age > limits.pass_interval * STUCK_AFTER_PASSES
    }
}

/// Renews until the lease is lost or the task is ended. `now` renews at once, beside the usual times.
pub(super) async fn keep(
    outside: Arc<Outside>,
    term: Arc<Term>,
    progress: Arc<Progress>,
    now: Arc<Notify>,
    answers: Answers,
) {
    let limits = &outside.config.limits;
    let due = limits.lease_renewal.saturating_sub(EARLIER);
    let mut next = Instant::now() + due;
    loop {
        tokio::select! {
            () = sleep_until(next) => {}
            () = now.notified() => {}
        }
        if progress.is_stuck(outside.clock.boot(), limits) {
            outside.metrics.renewal(Renewal::Withheld);
            error!("the deciding loop does not move; the lease is not renewed");
            next = Instant::now() + AGAIN;
            continue;
        }
        let began = Instant::now();
        // The store has its own, shorter limit; this one holds whatever happens there.
        let renewed = timeout(limits.lease_statement * 2, term.renew()).await;
        match renewed.unwrap_or(Err(CommitError::Unknown)) {
            Ok(deadline) => {
                outside.metrics.renewal(Renewal::Renewed);
                answers.send(Answer::Renewed(deadline));
                next = began + due;
            }
            Err(CommitError::Deposed) => {
                outside.metrics.renewal(Renewal::Deposed);
                return answers.send(Answer::Lost);
            }
            Err(failure) => {
                outside.metrics.renewal(Renewal::Failed);
                warn!(?failure, "the lease could not be renewed");
                next = Instant::now() + AGAIN;
            }
        }
    }
}

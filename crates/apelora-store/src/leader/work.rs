//! Running the leader's transactions: again when the database gives up on one, within a time that suits a lease, and
//! never again when a commit was not answered.

use std::sync::PoisonError;
use std::time::Duration;

use apelora_fencing::write::{AuditRow, CommitError};
use apelora_maintenance::Stamp;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::Leader;
use super::tx::{Fenced, Stop};
use crate::chance;
use crate::engine::{Class, DbTime, Pools};
use crate::table::change;

/// Transactions are run at most this often.
const TRIES: u32 = 5;

/// A transaction of the leader, as something that can be run again.
pub(super) trait Work: Send + Sync {
    /// What it comes to.
    type Out: Send;

    /// Reads, decides and writes; ids come from `mint`, which gives the same ones each time.
    fn run(&self, tx: &mut Fenced, mint: &mut Mint) -> impl Future<Output = Result<Self::Out, Stop>> + Send;
}

/// Makes the ids of one write, which follow from the id of the change.
#[derive(Debug, Clone)]
pub(super) struct Mint {
    change: Uuid,
    given: u64,
}

impl Mint {
    /// For this change.
    pub(super) fn new(change: Uuid) -> Self {
        Self { change, given: 0 }
    }

    /// The id of the change itself.
    pub(super) fn change(&self) -> Uuid {
        self.change
    }

    /// The next id.
    pub(super) fn next(&mut self) -> Uuid {
        self.given += 1;
        Uuid::new_v5(&self.change, &self.given.to_be_bytes())
    }

    /// The stamp of a change of a node.
    pub(super) fn stamp(&mut self, now: DbTime, host: &str) -> Stamp {
        Stamp::new(self.next(), self.next(), now.utc(), host.to_owned())
    }
}

/// A write whose commit was not answered, with the audit rows that it would have made.
#[derive(Debug, Clone)]
pub(super) struct Doubt {
    change: Uuid,
    audit: Vec<AuditRow>,
}

/// What a transaction came to.
pub(super) struct Kept<T> {
    pub(super) out: T,
    /// Audit rows of earlier writes that were not answered and are now known to have been kept.
    pub(super) found: Vec<AuditRow>,
}

impl Leader {
    /// The one way to write as the leader.
    ///
    /// `audit` names the rows that counters want, so that they are not lost when the commit is not answered.
    pub(super) async fn fenced<W: Work>(
        &self,
        pools: &Pools,
        total: Duration,
        work: &W,
        audit: impl Fn(&W::Out) -> Vec<AuditRow>,
    ) -> Result<Kept<W::Out>, CommitError> {
        let give_up = Instant::now() + total;
        let change = self.next_change();
        let counters = self.store.counters();
        let mut tries = 0;
        loop {
            let prepared = timeout_at(give_up, self.prepare(pools, work, change)).await;
            let stop = match prepared {
                Ok(Ok((tx, out, doubts))) => match tx.commit().await {
                    Ok(()) => return Ok(Kept { out, found: self.settled(doubts) }),
                    Err(fault) if fault.refuses_commit() => Stop::Fault(fault),
                    Err(fault) => {
                        counters.unanswered();
                        tracing::warn!(%fault, epoch = self.epoch().0, "a commit of the leader was not answered");
                        self.doubt(Doubt { change, audit: audit(&out) });
                        return Err(CommitError::Unknown);
                    }
                },
                Ok(Err(stop)) => stop,
                Err(_) => {
                    tracing::warn!(
                        epoch = self.epoch().0,
                        ?total,
                        "the database did not take a write of the leader in time"
                    );
                    return Err(CommitError::Unavailable);
                }
            };
            match stop {
                Stop::Deposed => {
                    self.depose();
                    return Err(CommitError::Deposed);
                }
                Stop::Refused(reason) => return Err(CommitError::Refused(reason)),
                Stop::Fault(ref fault)
                    if stop.may_pass() && tries + 1 < TRIES && Instant::now() < give_up =>
                {
                    tries += 1;
                    counters.count(&fault.class);
                    tracing::debug!(%fault, tries, "a write of the leader is run again");
                    tokio::time::sleep(chance::pause(tries)).await;
                }
                Stop::Fault(fault) => {
                    if fault.class == Class::Other {
                        tracing::error!(%fault, "the database refused a write of the leader");
                    } else {
                        tracing::warn!(%fault, "the database did not take a write of the leader");
                    }
                    return Err(CommitError::Unavailable);
                }
            }
        }
    }

    /// Everything before the commit. Dropped in its middle, it leaves nothing: the connection is closed.
    async fn prepare<W: Work>(
        &self,
        pools: &Pools,
        work: &W,
        change: Uuid,
    ) -> Result<(Fenced, W::Out, Vec<(Uuid, bool)>), Stop> {
        let conn = pools.writer(Some(self.config.limits.lease_statement)).await?;
        let mut tx = Fenced::begin(conn, self.author(), self.store.clock_offset()).await?;
        let ran = async {
            let doubts = self.ask_about_doubts(&mut tx).await?;
            let out = work.run(&mut tx, &mut Mint::new(change)).await?;
            Ok((out, doubts))
        };
        match ran.await {
            Ok((out, doubts)) => Ok((tx, out, doubts)),
            Err(stop) => {
                tx.give_up(&stop).await;
                Err(stop)
            }
        }
    }

    /// Which of the unanswered commits were kept. The lease is locked, so each of them has ended.
    async fn ask_about_doubts(&self, tx: &mut Fenced) -> Result<Vec<(Uuid, bool)>, Stop> {
        let doubts: Vec<Uuid> = self.doubts().iter().map(|doubt| doubt.change).collect();
        let mut known = Vec::with_capacity(doubts.len());
        for doubt in doubts {
            known.push((doubt, change::exists(tx.conn(), doubt).await?));
        }
        Ok(known)
    }

    /// Forgets the doubts that are none any more; the audit rows of those that were kept.
    fn settled(&self, known: Vec<(Uuid, bool)>) -> Vec<AuditRow> {
        let mut doubts = self.doubts();
        let mut found = Vec::new();
        for (change, was_kept) in known {
            if let Some(at) = doubts.iter().position(|doubt| doubt.change == change) {
                let doubt = doubts.remove(at);
                if was_kept {
                    found.extend(doubt.audit);
                }
            }
        }
        found
    }

    fn doubt(&self, doubt: Doubt) {
        if !doubt.audit.is_empty() {
            self.doubts().push(doubt);
        }
    }

    fn doubts(&self) -> std::sync::MutexGuard<'_, Vec<Doubt>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

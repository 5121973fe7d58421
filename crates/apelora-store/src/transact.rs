//! Transactions that write: run again when the database gives up on one, and never wrong about a commit that was not
//! answered.
//!
//! A connection may break after COMMIT was sent. Then nobody knows whether the transaction was kept, and the server may
//! even still be working on it. So every transaction writes the id of its change into `apelora_change`; after a broken
//! commit the next transaction first takes the same lock, which waits until the broken one has ended, and looks for the
//! id. Found: it was kept, and what it came to is known. Not found: it is run again. The id is unique, so even where
//! the lock cannot wait for the other one (between the nodes of a Galera cluster) it is never kept twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::engine::{Class, Conn, Fault, Pools};
use crate::table::change;
use crate::{Cause, Retries, StoreError, chance};

/// Transactions are run at most this often, as long as their time is not over either.
const TRIES: u32 = 6;

/// A transaction, as something that can be run again.
pub(crate) trait Work: Send {
    /// Whether [`Self::lock`] waits for an earlier try.
    const LOCKS: bool = true;
    /// What is read under the lock.
    type Locked: Send;
    /// What it comes to.
    type Out: Send;
    /// Why it was given up by decision.
    type Refusal: Send;

    /// The id that it writes into `apelora_change`.
    fn change(&self) -> Uuid;

    /// Takes the lock that every transaction takes which changes the same things. An earlier try of this very work has
    /// ended when it is granted, unless there is nothing to lock: then `LOCKS` is false.
    fn lock(&mut self, tx: &mut Conn) -> impl Future<Output = Result<Self::Locked, Fault>> + Send;

    /// Decides and writes.
    fn write(
        &mut self,
        tx: &mut Conn,
        locked: Self::Locked,
    ) -> impl Future<Output = Result<Self::Out, Stop<Self::Refusal>>> + Send;
}

/// Why a transaction is not committed.
#[derive(Debug)]
pub(crate) enum Stop<R> {
    /// By decision.
    Refused(R),
    /// By a value that is taken already; perhaps by an earlier try of this very work, whose commit was not answered.
    Taken(R),
    /// Somebody else wrote what was not there when it was read: run it again, so that the decision sees it.
    Stale(Fault),
    /// The database.
    Fault(Fault),
}

impl<R> From<Fault> for Stop<R> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) enum Failure<R> {
    Refused(R),
    /// A character that an adopted table cannot store.
    Charset,
    Unavailable(Cause),
    Failed(Cause),
    /// Perhaps something came of it.
    Unknown(Cause),
}

impl From<Failure<std::convert::Infallible>> for StoreError {
    fn from(failure: Failure<std::convert::Infallible>) -> Self {
        match failure {
            Failure::Refused(never) => match never {},
            Failure::Charset => Self::Failed(Cause::new("a character that an adopted table cannot store")),
            Failure::Unavailable(cause) | Failure::Unknown(cause) => Self::Unavailable(cause),
            Failure::Failed(cause) => Self::Failed(cause),
        }
    }
}

/// The limits of running transactions again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// One statement.
    pub(crate) statement: Duration,
    /// All tries together.
    pub(crate) total: Duration,
    /// Asking about a commit that was not answered.
    pub(crate) commit_budget: Duration,
}

/// How often what was run again.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    deadlock: AtomicU64,
    serialization: AtomicU64,
    lock_wait: AtomicU64,
    duplicate: AtomicU64,
    connection: AtomicU64,
    pub(crate) unanswered: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

impl Counters {
    pub(crate) fn retries(&self) -> Retries {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Retries {
            deadlock: read(&self.deadlock),
            serialization: read(&self.serialization),
            lock_wait: read(&self.lock_wait),
            duplicate: read(&self.duplicate),
            connection: read(&self.connection),
        }
    }

    /// A transaction is run again after a failure of this class.
    pub(crate) fn count(&self, class: &Class) {
        let counter = match class {
            Class::Deadlock => &self.deadlock,
            Class::Serialization => &self.serialization,
            Class::LockWait | Class::Timeout => &self.lock_wait,
            Class::Unique(_) => &self.duplicate,
            Class::Connection | Class::Unavailable | Class::Charset | Class::Other => &self.connection,
        };
        add(counter);
    }
}

impl Counters {
    /// A commit was not answered.
    pub(crate) fn unanswered(&self) {
        add(&self.unanswered);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A commit that was not answered.
struct Doubt<T> {
    /// What it came to, if it was kept.
    out: T,
    /// Until when to keep asking.
    until: Instant,
    /// Whether it is known by now that it was not kept.
    settled: bool,
    /// How many commits were not answered so far.
    commits: u32,
    /// What came in place of the last answer.
    why: String,
}

/// Runs `work` to its end.
pub(crate) async fn transact<W: Work>(
    pools: &Pools,
    limits: Limits,
    counters: &Counters,
    work: &mut W,
) -> Result<W::Out, Failure<W::Refusal>> {
    let give_up = Instant::now() + limits.total;
    let mut doubt: Option<Doubt<W::Out>> = None;
    let (mut tries, mut asked) = (0, 0);
    loop {
        let (fault, again) = match attempt(pools, limits, counters, work, &mut doubt).await {
            Ok(out) => return Ok(out),
            Err(Stop::Refused(refusal)) => return Err(Failure::Refused(refusal)),
            Err(Stop::Taken(refusal)) => match resolve(pools, limits, work, &mut doubt).await {
                Ok(Some(out)) => return Ok(out),
                Ok(None) => return Err(Failure::Refused(refusal)),
                Err(fault) => (fault, true),
            },
            Err(Stop::Stale(fault)) => (fault, true),
            Err(Stop::Fault(fault)) => {
                let again = matches!(
                    fault.class,
                    Class::Deadlock
                        | Class::Serialization
                        | Class::LockWait
                        | Class::Timeout
                        | Class::Connection
                );
                (fault, again)
            }
        };
        let now = Instant::now();
        match &doubt {
            Some(Doubt { until, settled: false, .. }) => {
                if now >= *until {
                    add(&counters.unknown);
                    tracing::error!(%fault, "a commit was not answered and could not be asked about");
                    return Err(Failure::Unknown(fault.into_cause()));
                }
                asked += 1;
            }
            _ if again && tries + 1 < TRIES && now < give_up => tries += 1,
            _ => return Err(failure(fault, again)),
        }
        counters.count(&fault.class);
        tracing::debug!(%fault, tries, asked, "transaction is run again");
        tokio::time::sleep(chance::pause(tries + asked)).await;
    }
}

/// Whether the commit that was not answered was kept after all, now that it is known to have ended.
async fn resolve<W: Work>(
    pools: &Pools,
    limits: Limits,
    work: &W,
    doubt: &mut Option<Doubt<W::Out>>,
) -> Result<Option<W::Out>, Fault> {
    if doubt.is_none() {
        return Ok(None);
    }
    let mut tx = pools.writer(Some(limits.statement)).await?;
    tx.begin().await?;
    let was_kept = change::exists(&mut tx, work.change()).await?;
    tx.rollback().await;
    Ok(if was_kept { doubt.take().map(|doubt| doubt.out) } else { None })
}

fn failure<R>(fault: Fault, again: bool) -> Failure<R> {
    match fault.class {
        Class::Charset => Failure::Charset,
        Class::Unavailable => Failure::Unavailable(fault.into_cause()),
        _ if again => Failure::Unavailable(fault.into_cause()),
        _ => Failure::Failed(fault.into_cause()),
    }
}

async fn attempt<W: Work>(
    pools: &Pools,
    limits: Limits,
    counters: &Counters,
    work: &mut W,
    doubt: &mut Option<Doubt<W::Out>>,
) -> Result<W::Out, Stop<W::Refusal>> {
    let mut tx = pools.writer(Some(limits.statement)).await?;
    tx.begin().await?;
    let locked = match work.lock(&mut tx).await {
        Ok(locked) => locked,
        Err(fault) => {
            tx.abandon(&fault).await;
            return Err(fault.into());
        }
    };
    if let Some(open) = doubt {
        if change::exists(&mut tx, work.change()).await? {
            tx.rollback().await;
            // Nothing was put in its place since: the commit that was not answered is the last one.
            if let Some(open) = doubt.take() {
                return Ok(open.out);
            }
            return Err(Fault::new(Class::Other, "an unanswered commit without an outcome").into());
        }
        open.settled = W::LOCKS;
        // A disk that refuses every commit would keep this going for ever.
        if open.settled && open.commits >= TRIES {
            tx.rollback().await;
            return Err(Fault::new(Class::Unavailable, open.why.clone()).into());
        }
    }
    let out = match work.write(&mut tx, locked).await {
        Ok(out) => out,
        Err(stop) => {
            match &stop {
                Stop::Refused(_) | Stop::Taken(_) => tx.rollback().await,
                Stop::Stale(fault) | Stop::Fault(fault) => tx.abandon(fault).await,
            }
            return Err(stop);
        }
    };
    match tx.commit().await {
        Ok(()) => Ok(out),
        Err(fault) if fault.refuses_commit() => Err(fault.into()),
        Err(fault) => {
            add(&counters.unanswered);
            let until = match doubt {
                Some(open) if !open.settled => open.until,
                _ => Instant::now() + limits.commit_budget,
            };
            let commits = doubt.as_ref().map_or(0, |open| open.commits) + 1;
            *doubt = Some(Doubt { out, until, settled: false, commits, why: fault.to_string() });
            Err(fault.into())
        }
    }
}

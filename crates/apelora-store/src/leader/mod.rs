//! The leader: the lease on the database, every write of a worker under it, and a person's word, which needs none.
//!
//! A write of the leader is data ([`apelora_fencing::Write`]). One private function begins its transaction by touching
//! the lease and makes the [`tx::Fenced`] without which nothing of the leader's can be written; the rows that the write is
//! about are locked and put into the machine's own store in memory ([`scene`]), which decides; what it changed is
//! written down with the audit trail ([`mod@write`]). So a worker write that is not fenced does not compile, and there is no
//! second text of what a write means.
//!
//! Locks are taken in the order lease, member, record, node, by writing (`touched = touched + 1`): on a Galera cluster
//! only what is written is certified. A person's word begins at the member and so orders itself against the leader.

mod audit;
mod config;
mod due;
mod evidence;
mod lease;
mod member;
mod node;
mod person;
mod proof;
mod reads;
mod record;
mod recovery;
mod retention;
mod rows;
mod scene;
mod told;
mod tx;
mod work;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apelora_fencing::name::{Epoch, HolderId, MemberName};
use apelora_fencing::proof::{PermitRequest, SendPermit};
use apelora_fencing::recovery::RecoveryRow;
use apelora_fencing::restart::Instance;
use apelora_fencing::time::{BootTime, Clock};
use apelora_fencing::write::{AuditRow, CommitError, Write};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use crate::engine::{Class, Pools};
use crate::{Store, StoreError};

pub use config::LeaderConfig;
pub use person::{ConfirmError, Confirmed, PersonsWord};
pub use rows::{
    Done, EvidenceRow, FenceRecord, LeaseState, ProofQuery, RecordQuery, StatusRow, StoredCheck,
    StoredInstance, StoredMember, StoredProof, StoredRecovery, Voided, Warning,
};

/// The right to write as the leader, under one epoch. Not `Clone`: a worker that leads shares the one it has.
///
/// The database judges every write anew; this value only says who asks. A call that is dropped before it ends may have
/// been made or not, as with [`CommitError::Unknown`].
pub struct Leader {
    store: Store,
    config: LeaderConfig,
    clock: Arc<dyn Clock>,
    author: audit::Author,
    /// Of the renewals alone.
    own: Pools,
    /// The local deadline, in nanoseconds of the clock.
    deadline: AtomicU64,
    deposed: AtomicBool,
    changes: AtomicU64,
    doubts: Mutex<Vec<work::Doubt>>,
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader").field("epoch", &self.author.epoch).finish_non_exhaustive()
    }
}

impl Leader {
    /// The epoch it writes under.
    pub fn epoch(&self) -> Epoch {
        self.author.epoch
    }

    /// Who it is.
    pub fn holder(&self) -> HolderId {
        self.author.holder
    }

    /// Until when to act, by the clock given to [`Store::campaign`]: the reading before the request that took or renewed
    /// the lease, plus its life, less the margin. The boot of the machine once the role is over.
    pub fn deadline(&self) -> BootTime {
        if self.deposed.load(Ordering::Acquire) {
            return BootTime::default();
        }
        BootTime::new(Duration::from_nanos(self.deadline.load(Ordering::Acquire)))
    }

    /// Makes one write: exactly what [`apelora_fencing::memory::MemoryStore`] does for it, in one transaction.
    ///
    /// It is run again when the database gives up on it, for a few seconds at most. A commit whose answer is lost is
    /// [`CommitError::Unknown`] and is not run again: ask with [`Write::ReadBack`].
    pub async fn commit(&self, write: Write) -> Done {
        let machine = write::Machine { write: &write, author: &self.author, config: &self.config };
        match self.fenced(self.store.pools(), self.total(), &machine, |made| made.audit.clone()).await {
            Ok(work::Kept { out, found }) => {
                let audit = found.into_iter().chain(out.audit).collect();
                Done { result: Ok(out.answer), audit, warnings: out.warnings }
            }
            Err(error) => Done { result: Err(error), audit: Vec::new(), warnings: Vec::new() },
        }
    }

    /// Commits the permit's write and, once that was answered, turns the request into the permit: from then on a
    /// power-off counts as sent. The only way to a permit.
    pub async fn permit(&self, request: PermitRequest) -> (Result<SendPermit, CommitError>, Vec<AuditRow>) {
        let done = self.commit(Write::Permit(request.clone())).await;
        #[expect(clippy::disallowed_methods, reason = "the commit was answered; this is the one place")]
        let permit = done.result.map(|_| request.committed());
        (permit, done.audit)
    }

    /// Renews the lease; the new local deadline. An expired lease is not revived.
    ///
    /// On a connection of its own that waits for nobody else's statements, within the limit of a statement altogether.
    /// It is not tried again, but for a connection that turns out to be broken before anything was asked of it.
    ///
    /// # Errors
    /// `Deposed` when the role is over; `Unavailable` and `Unknown` leave the deadline as it was.
    pub async fn renew(&self) -> Result<BootTime, CommitError> {
        let limits = &self.config.limits;
        let before = self.clock.boot();
        let give_up = Instant::now() + limits.lease_statement;
        let tx = match timeout_at(give_up, self.prolonged()).await {
            Ok(Ok(tx)) => tx,
            Ok(Err(tx::Stop::Deposed | tx::Stop::Refused(_))) => {
                self.depose();
                return Err(CommitError::Deposed);
            }
            Ok(Err(tx::Stop::Fault(fault))) => {
                tracing::warn!(%fault, epoch = self.epoch().0, "the lease was not renewed");
                return Err(CommitError::Unavailable);
            }
            Err(_) => {
                tracing::warn!(
                    epoch = self.epoch().0,
                    "the lease was not renewed: the database did not answer in time"
                );
                return Err(CommitError::Unavailable);
            }
        };
        match timeout_at(give_up, tx.commit()).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) if fault.refuses_commit() => return Err(CommitError::Unavailable),
            Ok(Err(_)) | Err(_) => return Err(CommitError::Unknown),
        }
        self.deadline.fetch_max(
            nanos(before + limits.lease_ttl.saturating_sub(limits.lease_margin)),
            Ordering::AcqRel,
        );
        Ok(self.deadline())
    }

    async fn prolonged(&self) -> Result<tx::Fenced, tx::Stop> {
        let limit = Some(self.config.limits.lease_statement);
        let offset = self.store.clock_offset();
        let begun = tx::Fenced::begin(self.own.writer(limit).await?, self.author(), offset).await;
        let mut tx = match begun {
            // It lay idle, and the other side closed it: the pool opens another.
            Err(tx::Stop::Fault(fault)) if fault.class == Class::Connection => {
                tx::Fenced::begin(self.own.writer(limit).await?, self.author(), offset).await?
            }
            begun => begun?,
        };
        match lease::prolong(&mut tx, self.config.limits.lease_ttl, offset).await {
            Ok(1) => Ok(tx),
            Ok(_) => {
                tx.give_up(&tx::Stop::Deposed).await;
                Err(tx::Stop::Deposed)
            }
            Err(fault) => {
                let stop = tx::Stop::Fault(fault);
                tx.give_up(&stop).await;
                Err(stop)
            }
        }
    }

    /// Publishes the status document in place of the one before. Then tries again to write `fault` entries that had to
    /// wait; what that meets is in the warnings and in the log.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn publish(&self, status: &str) -> Result<Vec<Warning>, CommitError> {
        let work = due::Publish { document: status, by: self.author() };
        let due = self.fenced(self.store.pools(), self.total(), &work, |_| Vec::new()).await?.out;
        self.settle(due).await
    }

    /// Stores what runs on a healthy member, in place of what was stored of it.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn note_inventory(
        &self,
        member: &MemberName,
        instances: &[Instance],
    ) -> Result<(), CommitError> {
        let work = due::Inventory { member, instances };
        self.fenced(self.store.pools(), self.total(), &work, |()| Vec::new()).await.map(|kept| kept.out)
    }

    /// Stores the state of a restart, one row for each (member, life, project, instance). Reaching its end is audited as
    /// `cluster.member.recovered`.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn note_recovery(&self, row: &RecoveryRow) -> Result<(), CommitError> {
        let work = due::Recovery { row, author: &self.author };
        self.fenced(self.store.pools(), self.total(), &work, |()| Vec::new()).await.map(|kept| kept.out)
    }

    /// Gives the lease back: it ends now, holder and epoch stay. The role is over whether or not the database hears of it.
    pub async fn resign(&self) {
        self.depose();
        let limit = self.config.limits.lease_statement;
        if let Err(error) = self.fenced(self.store.pools(), limit, &due::Resign, |()| Vec::new()).await
            && error != CommitError::Deposed
        {
            tracing::warn!(epoch = self.epoch().0, "the lease was not given back; it ends by itself");
        }
    }

    /// How long the tries of one write may take before its commit.
    fn total(&self) -> Duration {
        self.config.limits.lease_statement * 2
    }

    fn author(&self) -> (Epoch, HolderId) {
        (self.author.epoch, self.author.holder)
    }

    fn depose(&self) {
        self.deposed.store(true, Ordering::Release);
    }

    /// The id of the next change; nobody else's, because nobody else has this epoch.
    fn next_change(&self) -> Uuid {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        Uuid::new_v5(&self.author.holder.0, format!("{} {number}", self.author.epoch.0).as_bytes())
    }
}

fn nanos(at: BootTime) -> u64 {
    u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

impl Store {
    /// Takes the lease if nobody holds it. `None`: somebody else does, or was faster.
    ///
    /// `me` is of one start of one process. `clock` is the boot-time clock for the local deadline.
    ///
    /// # Errors
    /// Only of the database. If it was the answer to the commit that was lost, the lease may have been taken; it then
    /// ends by itself.
    pub async fn campaign(
        &self,
        config: &LeaderConfig,
        me: HolderId,
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Leader>, StoreError> {
        let limits = &config.limits;
        let offset = self.clock_offset();
        let limit = Some(limits.lease_statement);
        // A look first: the one who leads is not to wait for those who would.
        if lease::read(&mut self.pools().reader(limit).await?, offset).await?.expires_in.is_some() {
            return Ok(None);
        }
        let before = clock.boot();
        let mut conn = self.pools().writer(limit).await?;
        conn.begin().await?;
        let taken = lease::take(&mut conn, me, &config.host, limits.lease_ttl, offset).await;
        let epoch = match taken {
            Ok(Some(epoch)) => epoch,
            Ok(None) => {
                conn.rollback().await;
                return Ok(None);
            }
            Err(fault) => {
                conn.abandon(&fault).await;
                // Somebody else is at the row.
                let is_race = matches!(fault.class, Class::Deadlock | Class::Serialization | Class::LockWait);
                return if is_race { Ok(None) } else { Err(fault.into()) };
            }
        };
        if let Err(fault) = conn.commit().await {
            let is_race = matches!(fault.class, Class::Deadlock | Class::Serialization | Class::LockWait);
            return if is_race { Ok(None) } else { Err(fault.into()) };
        }
        let deadline = before + limits.lease_ttl.saturating_sub(limits.lease_margin);
        Ok(Some(Leader {
            store: self.clone(),
            author: audit::Author { epoch, holder: me, host: config.host.clone() },
            own: self.pools().lone(limits.lease_statement),
            config: config.clone(),
            clock,
            deadline: AtomicU64::new(nanos(deadline)),
            deposed: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            doubts: Mutex::new(Vec::new()),
        }))
    }
}

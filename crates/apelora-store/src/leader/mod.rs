//! The leader: the lease on the database, every write of a worker under it, and a person's word, which needs none.

mod rows;

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::Limits;
use apelora_fencing::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};
use apelora_fencing::proof::{PermitRequest, SendPermit};
use apelora_fencing::reason::ReasonCode;
use apelora_fencing::record::Persisted;
use apelora_fencing::recovery::RecoveryRow;
use apelora_fencing::restart::Instance;
use apelora_fencing::time::{BootTime, Clock};
use apelora_fencing::write::{AuditRow, CommitError, Write};
use apelora_maintenance::{Authority, Stamp, registry};

use crate::{Cause, Store, StoreError};

pub use rows::{
    Done, EvidenceRow, FenceRecord, LeaseState, ProofQuery, RecordQuery, StatusRow, StoredCheck,
    StoredInstance, StoredMember, StoredProof, StoredRecovery, Voided, Warning,
};

/// The figures of a leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderConfig {
    /// Life of the lease, its margin, limit of a statement, loop guard.
    pub limits: Limits,
    /// This service's name (`APELORA_HOST`), for history, audit and the lease's row.
    pub host: String,
    /// Types of maintenance entries that lock power.
    pub power_locking_types: Vec<String>,
}

impl LeaderConfig {
    /// With the types that the registry marks as locking power.
    pub fn new(limits: Limits, host: impl Into<String>) -> Self {
        let locking = registry::TYPES.iter().filter(|t| t.locks_power).map(|t| t.name.to_owned()).collect();
        Self { limits, host: host.into(), power_locking_types: locking }
    }
}

/// A person's word that a member is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonsWord {
    /// The member, typed in full by the person.
    pub member: MemberName,
    /// The life of it that was shown to the person.
    pub shown: Incarnation,
    /// Why the person knows.
    pub reason: String,
    /// Who it is.
    pub by: Authority,
}

/// A person's word that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    /// The audit rows that were written.
    pub audit: Vec<AuditRow>,
    /// What somebody should be told in the log.
    pub warnings: Vec<Warning>,
}

/// A person's word was not taken, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// It does not apply. Nothing was written.
    #[error("{}", .0.sentence())]
    Refused(ReasonCode),
    /// Nothing was written; trying again later helps.
    #[error("The database is not available at the moment. Please retry")]
    Unavailable(#[source] Cause),
    /// Nothing was written, and trying again does not help.
    #[error("The database could not make the change. The service's log has the cause")]
    Failed(#[source] Cause),
    /// The database did not answer the commit and could not be asked again in time.
    #[error("The database did not confirm the change. It was made whole or not at all: look before retrying")]
    Unknown(#[source] Cause),
}

/// The right to write as the leader, under one epoch. Not `Clone`: a worker that leads shares the one it has.
pub struct Leader {
    epoch: Epoch,
    holder: HolderId,
}

impl Leader {
    /// The epoch it writes under.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Who it is.
    pub fn holder(&self) -> HolderId {
        self.holder
    }

    /// Until when to act, by the clock given to [`Store::campaign`]; the boot of the machine once the role is over.
    pub fn deadline(&self) -> BootTime {
        unimplemented!()
    }

    /// Makes one write.
    pub async fn commit(&self, _write: Write) -> Done {
        unimplemented!()
    }

    /// Commits the permit and turns the request into it.
    pub async fn permit(&self, _request: PermitRequest) -> (Result<SendPermit, CommitError>, Vec<AuditRow>) {
        unimplemented!()
    }

    /// Renews the lease; the new local deadline.
    ///
    /// # Errors
    /// `Deposed` when it is over.
    pub async fn renew(&self) -> Result<BootTime, CommitError> {
        unimplemented!()
    }

    /// Publishes the status document, and writes `fault` entries that could not be written before.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn publish(&self, _status: &str) -> Result<Vec<Warning>, CommitError> {
        unimplemented!()
    }

    /// Stores what runs on a healthy member, in place of what was stored of it.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn note_inventory(
        &self,
        _member: &MemberName,
        _instances: &[Instance],
    ) -> Result<(), CommitError> {
        unimplemented!()
    }

    /// Stores the state of a restart; reaching its end is audited as `cluster.member.recovered`.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn note_recovery(&self, _row: &RecoveryRow) -> Result<(), CommitError> {
        unimplemented!()
    }

    /// Gives the lease back.
    pub async fn resign(&self) {
        unimplemented!()
    }
}

impl Store {
    /// Takes the lease if nobody holds it.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn campaign(
        &self,
        _config: &LeaderConfig,
        _me: HolderId,
        _clock: Arc<dyn Clock>,
    ) -> Result<Option<Leader>, StoreError> {
        unimplemented!()
    }

    /// Moves the database's clock, as this store and its clones see it, for tests.
    #[doc(hidden)]
    pub fn shift_clock(&self, _by: Duration) {
        unimplemented!()
    }

    /// Everything that a pass reads, as of one moment.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn persisted(&self, _config: &LeaderConfig) -> Result<Persisted, StoreError> {
        unimplemented!()
    }

    /// The lease.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn lease(&self) -> Result<LeaseState, StoreError> {
        unimplemented!()
    }

    /// What the leader last published; `None` before the first time.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn leader_status(&self) -> Result<Option<StatusRow>, StoreError> {
        unimplemented!()
    }

    /// Takes a person's word that a member is off. Needs no lease.
    ///
    /// # Errors
    /// [`ConfirmError`].
    pub async fn confirm_off(&self, _word: &PersonsWord, _stamp: &Stamp) -> Result<Confirmed, ConfirmError> {
        unimplemented!()
    }

    /// A person trusts a member's mapping again; whether it was distrusted.
    ///
    /// # Errors
    /// [`ConfirmError`]; `Refused` does not occur.
    pub async fn trust(
        &self,
        _member: &MemberName,
        _by: &Authority,
        _reason: &str,
        _stamp: &Stamp,
    ) -> Result<bool, ConfirmError> {
        unimplemented!()
    }

    /// Notes that the database was restored or lost commits just now: every member counts as powered off at this moment.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn note_history_gap(&self) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// The members that are stored, by name.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn stored_members(&self) -> Result<Vec<StoredMember>, StoreError> {
        unimplemented!()
    }

    /// A page of proofs, newest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn proofs(&self, _query: &ProofQuery) -> Result<Vec<StoredProof>, StoreError> {
        unimplemented!()
    }

    /// A page of fence records, newest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn fence_records(&self, _query: &RecordQuery) -> Result<Vec<FenceRecord>, StoreError> {
        unimplemented!()
    }

    /// One fence record with its evidence.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn fence_record(
        &self,
        _id: RecordId,
    ) -> Result<Option<(FenceRecord, Vec<EvidenceRow>)>, StoreError> {
        unimplemented!()
    }

    /// The restarts of instances, of one member or of all, oldest first.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn recoveries(&self, _member: Option<&MemberName>) -> Result<Vec<StoredRecovery>, StoreError> {
        unimplemented!()
    }

    /// The instances of all members as they were last stored.
    ///
    /// # Errors
    /// Only of the database.
    pub async fn inventory(&self) -> Result<Vec<StoredInstance>, StoreError> {
        unimplemented!()
    }
}

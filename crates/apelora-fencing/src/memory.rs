//! The store in memory: the very conditions and effects of every [`Write`], without SQL.
//!
//! The exhaustive check and the simulation run on it, and a store on SQL is compared with it. Times are the database's
//! clock and are passed in; nothing is shared and nothing waits, so one call is one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::Limits;
use crate::map::MapSha;
use crate::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};
use crate::reason::ReasonCode;
use crate::record::{OpenRecord, Persisted, ProofKind, RecordStatus, SendRow};
use crate::write::{
    AuditAction, AuditRow, CommitError, Committed, Final, Found, Intent, NewProof, Observation, Outcome,
    ProofGround, Seen, Write,
};

mod row;

pub use row::{DbTime, LeaseRow, RecordRow, StoredMember, StoredProof};

/// The whole database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemoryStore {
    /// The lease.
    pub lease: LeaseRow,
    /// The members.
    pub members: BTreeMap<MemberName, StoredMember>,
    /// Records, the oldest first. Final ones older than the loop guard are of no consequence and may be dropped.
    pub records: Vec<RecordRow>,
    /// When the database was restored or lost commits.
    pub history_gap_at: Option<DbTime>,
    ttl: Duration,
    loop_guard: Duration,
}

type Answer = Result<Committed, CommitError>;

fn refused(reason: ReasonCode) -> Answer {
    Err(CommitError::Refused(reason))
}

impl MemoryStore {
    /// An empty database.
    pub fn new(limits: &Limits) -> Self {
        Self {
            lease: LeaseRow::default(),
            members: BTreeMap::new(),
            records: Vec::new(),
            history_gap_at: None,
            ttl: limits.lease_ttl,
            loop_guard: limits.loop_guard,
        }
    }

    /// Acquires the lease if it has expired. Returns the new epoch.
    pub fn campaign(&mut self, now: DbTime, holder: HolderId) -> Option<Epoch> {
        if self.lease.holder.is_some() && self.lease.expires_at >= now {
            return None;
        }
        self.lease = LeaseRow {
            holder: Some(holder),
            epoch: Epoch(self.lease.epoch.0 + 1),
            expires_at: now + self.ttl,
        };
        Some(self.lease.epoch)
    }

    /// Renews the lease. An expired one is not revived.
    ///
    /// # Errors
    /// `Deposed` when it is not this holder's any more.
    pub fn renew(&mut self, now: DbTime, epoch: Epoch, holder: HolderId) -> Result<(), CommitError> {
        self.touch(now, epoch, holder)?;
        self.lease.expires_at = now + self.ttl;
        Ok(())
    }

    fn touch(&self, now: DbTime, epoch: Epoch, holder: HolderId) -> Result<(), CommitError> {
        let LeaseRow { holder: by, epoch: in_force, expires_at } = self.lease;
        if by == Some(holder) && in_force == epoch && expires_at > now {
            Ok(())
        } else {
            Err(CommitError::Deposed)
        }
    }

    /// Everything that a pass reads.
    pub fn read(&self, now: DbTime) -> Persisted {
        let open = self.records.iter().find(|r| r.status.is_open());
        let sends = self.records.iter().filter_map(|r| {
            let age = now.saturating_sub(r.send_at?);
            (age < self.loop_guard).then(|| SendRow {
                member: r.member.clone(),
                uuid: r.uuid,
                age,
                open: r.status.is_open(),
            })
        });
        Persisted {
            members: self.members.iter().map(|(name, m)| (name.clone(), m.row(now))).collect(),
            open: open.map(|r| OpenRecord {
                id: r.id,
                member: r.member.clone(),
                uuid: r.uuid,
                incarnation: r.incarnation,
                status: r.status,
                map: r.map,
                epoch: r.epoch,
                holder: r.holder,
            }),
            sends: sends.collect(),
            history_gap: self.history_gap_at.map(|at| now.saturating_sub(at)),
        }
    }

    /// A person's word that `member` is off, for the life that was shown to them. Needs no lease.
    ///
    /// # Errors
    /// `seen_online` when it was seen Online in the last pass; `back_online` when another life was shown.
    pub fn confirm_off(
        &mut self,
        now: DbTime,
        member: &MemberName,
        shown: Incarnation,
    ) -> Result<Vec<AuditRow>, ReasonCode> {
        // A word that is refused leaves nothing, not even a row of its member.
        let known = self.members.get(member);
        if known.is_some_and(|row| row.online) {
            return Err(ReasonCode::SeenOnline);
        }
        if known.map_or(Incarnation(0), |row| row.incarnation) != shown {
            return Err(ReasonCode::BackOnline);
        }
        let row = self.members.entry(member.clone()).or_default();
        let recovery_started = row.standing().is_some_and(|p| p.recovery_started);
        row.proof =
            Some(StoredProof { kind: ProofKind::Person, incarnation: shown, at: now, recovery_started });
        Ok(vec![audit(AuditAction::ConfirmedOff, member, None), audit(AuditAction::Fenced, member, None)])
    }

    /// Sets or clears a lock of `member`'s power.
    pub fn set_held(&mut self, member: &MemberName, held: bool) {
        self.members.entry(member.clone()).or_default().held = held;
    }

    /// A person trusts `member`'s mapping again.
    pub fn trust(&mut self, member: &MemberName) {
        if let Some(row) = self.members.get_mut(member) {
            row.distrusted = false;
        }
    }

    /// Makes one write of the leader with this epoch and holder. Returns the answer, and the audit rows that were written
    /// with it.
    pub fn commit(
        &mut self,
        now: DbTime,
        (epoch, holder): (Epoch, HolderId),
        write: &Write,
    ) -> (Answer, Vec<AuditRow>) {
        if let Err(deposed) = self.touch(now, epoch, holder) {
            return (Err(deposed), Vec::new());
        }
        let mut rows = Vec::new();
        let answer = match write {
            Write::Observed(seen) => self.observed(now, seen, &mut rows),
            Write::Refused(refusals) => {
                rows.extend(refusals.iter().map(|r| AuditRow {
                    outcome: Some(Outcome::Refused),
                    reason: r.reasons.first().copied(),
                    ..audit(AuditAction::PowerOff, &r.member, None)
                }));
                Ok(Committed::Done)
            }
            Write::Intent(intent) => self.intent(now, epoch, holder, intent),
            Write::Permit(request) => self.permit(now, epoch, request.record(), request.map()),
            Write::Adopt(record) => self.adopt(epoch, holder, *record),
            Write::Final(last) => self.close(now, epoch, last, &mut rows),
            Write::ReadBack(record) => {
                Ok(Committed::Record(self.records.iter().find(|r| r.id == *record).map(|r| r.status)))
            }
            Write::Proof(new) => Ok(Committed::Proof(self.prove_alone(now, new, &mut rows))),
            Write::Withdraw(w) => {
                if let Some(row) = self.members.get_mut(&w.member)
                    && row
                        .proof
                        .is_some_and(|p| p.incarnation == w.incarnation && p.kind == ProofKind::PowerOff)
                {
                    row.proof = row.proof.filter(|p| p.recovery_started);
                    rows.push(audit(AuditAction::ProofWithdrawn, &w.member, None));
                }
                Ok(Committed::Done)
            }
            Write::Checked(checks) => {
                for check in checks {
                    rows.push(AuditRow {
                        reason: match check.found {
                            Found::Bad(reason) => Some(reason),
                            Found::Contradiction => Some(ReasonCode::Distrusted),
                            Found::Good => None,
                        },
                        ..audit(AuditAction::BmcChecked, &check.member, None)
                    });
                    if check.found == Found::Contradiction {
                        self.members.entry(check.member.clone()).or_default().distrusted = true;
                        rows.push(audit(AuditAction::BmcDistrusted, &check.member, None));
                    }
                }
                Ok(Committed::Done)
            }
            Write::RecoveryStarted { member, incarnation } => match self.members.get_mut(member) {
                Some(row) if row.standing().is_some() && row.incarnation == *incarnation => {
                    row.proof = row.proof.map(|p| StoredProof { recovery_started: true, ..p });
                    Ok(Committed::Done)
                }
                _ => refused(ReasonCode::BackOnline),
            },
        };
        (answer, rows)
    }

    fn observed(&mut self, now: DbTime, seen: &[Observation], rows: &mut Vec<AuditRow>) -> Answer {
        for Observation { member, seen } in seen {
            let row = self.members.entry(member.clone()).or_default();
            match seen {
                Seen::Away => row.online = false,
                Seen::Online(leases) => {
                    if !row.online {
                        if row.standing().is_some() {
                            rows.push(audit(AuditAction::Returned, member, None));
                        }
                        row.incarnation = Incarnation(row.incarnation.0 + 1);
                        row.last_online_at = Some(now);
                        row.online = true;
                    }
                    if !leases.is_empty() {
                        row.leases.clone_from(leases);
                    }
                }
            }
        }
        Ok(Committed::Done)
    }

    fn intent(&mut self, now: DbTime, epoch: Epoch, holder: HolderId, intent: &Intent) -> Answer {
        if self.records.iter().any(|r| r.status.is_open()) {
            return refused(ReasonCode::AnotherInProgress);
        }
        let Some(row) = self.members.get(&intent.member) else { return refused(ReasonCode::NeverOnline) };
        if let Some(reason) = row.forbids_send(intent.incarnation) {
            return refused(reason);
        }
        let since = |at: DbTime| {
            now.saturating_sub(at) < self.loop_guard && row.last_online_at.is_none_or(|online| online <= at)
        };
        let same = |r: &&RecordRow| r.member == intent.member || (r.uuid.is_some() && r.uuid == intent.uuid);
        if self.records.iter().filter(same).filter_map(|r| r.send_at).any(since) {
            return refused(ReasonCode::PoweredOffRecently);
        }
        if self.history_gap_at.is_some_and(since) {
            return refused(ReasonCode::HistoryLost);
        }
        self.records.push(RecordRow {
            id: intent.record,
            member: intent.member.clone(),
            uuid: intent.uuid,
            incarnation: intent.incarnation,
            status: RecordStatus::Intent,
            map: intent.map,
            epoch,
            holder,
            send_at: None,
        });
        Ok(Committed::Done)
    }

    fn open_of(&mut self, epoch: Epoch, record: RecordId) -> Option<&mut RecordRow> {
        self.records.iter_mut().find(|r| r.id == record && r.status.is_open() && r.epoch == epoch)
    }

    fn permit(&mut self, now: DbTime, epoch: Epoch, record: RecordId, map: MapSha) -> Answer {
        let Some(row) = self.open_of(epoch, record).filter(|r| r.status == RecordStatus::Intent).cloned()
        else {
            return refused(ReasonCode::LeaderChanged);
        };
        if row.map != map {
            return refused(ReasonCode::MappingChanged);
        }
        if let Some(reason) = self.members.get(&row.member).and_then(|m| m.forbids_send(row.incarnation)) {
            return refused(reason);
        }
        if let Some(row) = self.open_of(epoch, record) {
            row.status = RecordStatus::Sent;
            row.send_at = Some(now);
        }
        Ok(Committed::Done)
    }

    fn adopt(&mut self, epoch: Epoch, holder: HolderId, record: RecordId) -> Answer {
        let Some(row) = self.records.iter_mut().find(|r| r.id == record && r.status.is_open()) else {
            return Ok(Committed::Record(None));
        };
        row.epoch = epoch;
        row.holder = holder;
        Ok(Committed::Record(Some(row.status)))
    }

    fn close(&mut self, now: DbTime, epoch: Epoch, last: &Final, rows: &mut Vec<AuditRow>) -> Answer {
        let Some(record) = self.open_of(epoch, last.record).cloned() else {
            return refused(ReasonCode::LeaderChanged);
        };
        let (mut outcome, mut reason) = (last.outcome, last.reason);
        let proven =
            last.proof.is_some() && self.prove(now, &record.member, record.incarnation, ProofKind::PowerOff);
        if outcome == Outcome::Success && !proven {
            outcome = if last.sent { Outcome::Failed } else { Outcome::Refused };
            reason = ReasonCode::BackOnline;
        }
        if let Some(row) = self.open_of(epoch, last.record) {
            row.status = match (outcome, reason) {
                (Outcome::Success, _) => RecordStatus::Fenced,
                (Outcome::Failed, _) => RecordStatus::Failed,
                (Outcome::Refused, ReasonCode::PersonConfirmed) => RecordStatus::Superseded,
                (Outcome::Refused, _) => RecordStatus::Refused,
            };
            if !last.sent {
                row.send_at = None;
            }
        }
        rows.push(AuditRow {
            outcome: Some(outcome),
            reason: Some(reason),
            sent: last.sent,
            ..audit(AuditAction::PowerOff, &record.member, Some(last.record))
        });
        if proven {
            rows.push(audit(AuditAction::Fenced, &record.member, Some(last.record)));
        }
        Ok(Committed::Proof(proven))
    }

    /// Stores a proof of `kind` for this life, unless the member was seen Online since. A proof that stands is kept: a
    /// person's word always wins. Whether the member is proven off by now.
    fn prove(&mut self, now: DbTime, member: &MemberName, life: Incarnation, kind: ProofKind) -> bool {
        let Some(row) = self.members.get_mut(member).filter(|m| m.incarnation == life && !m.online) else {
            return false;
        };
        if row.standing().is_none() {
            row.proof = Some(StoredProof { kind, incarnation: life, at: now, recovery_started: false });
        }
        true
    }

    fn prove_alone(&mut self, now: DbTime, new: &NewProof, rows: &mut Vec<AuditRow>) -> bool {
        let kind = match new.ground {
            ProofGround::LeaseDead(_) => ProofKind::LeaseDead,
            ProofGround::Watched(_) => ProofKind::PowerOff,
        };
        if self.members.get(&new.member).is_some_and(|m| m.standing().is_some()) {
            return true;
        }
        let proven = self.prove(now, &new.member, new.incarnation, kind);
        if proven {
            rows.push(audit(AuditAction::Fenced, &new.member, None));
        }
        proven
    }
}

fn audit(action: AuditAction, member: &MemberName, record: Option<RecordId>) -> AuditRow {
    AuditRow { action, member: member.clone(), record, outcome: None, reason: None, sent: false }
}

#[cfg(test)]
mod tests;

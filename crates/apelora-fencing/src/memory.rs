//! The store in memory: the very conditions and effects of every [`Write`], without SQL.
//!
//! The exhaustive check and the simulation run on it, and a store on SQL is compared with it. Times are the database's
//! clock and are passed in; nothing is shared and nothing waits, so one call is one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::identity::SystemUuid;
use crate::lease::LeaseSeen;
use crate::limits::Limits;
use crate::map::MapSha;
use crate::name::{Epoch, HolderId, Incarnation, MemberName, RecordId};
use crate::reason::ReasonCode;
use crate::record::{MemberRow, OpenRecord, Persisted, ProofKind, ProofRow, RecordStatus, SendRow};
use crate::write::{
    AuditAction, AuditRow, CommitError, Committed, Final, Found, Intent, NewProof, Observation, Outcome,
    ProofGround, Seen, Write,
};

/// A point on the database's clock.
pub type DbTime = Duration;

/// The leader lease's one row. Never deleted; the epoch never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    /// Who holds or held it.
    pub holder: Option<HolderId>,
    /// Grows with every acquisition.
    pub epoch: Epoch,
    /// When it ends.
    pub expires_at: DbTime,
}

/// A fence record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordRow {
    /// Its id.
    pub id: RecordId,
    /// Whom it is about.
    pub member: MemberName,
    /// The mapped hardware.
    pub uuid: Option<SystemUuid>,
    /// Which life.
    pub incarnation: Incarnation,
    /// Where it stands.
    pub status: RecordStatus,
    /// The map it was made from.
    pub map: MapSha,
    /// The epoch that last wrote it.
    pub epoch: Epoch,
    /// The holder that last wrote it.
    pub holder: HolderId,
    /// When the permit was committed, if something was or may have been sent.
    pub send_at: Option<DbTime>,
}

/// A stored proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredProof {
    /// Its kind.
    pub kind: ProofKind,
    /// The life it ended.
    pub incarnation: Incarnation,
    /// When it was stored.
    pub at: DbTime,
    /// Whether a restart builds on it.
    pub recovery_started: bool,
}

/// What is stored about a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoredMember {
    /// Its present life.
    pub incarnation: Incarnation,
    /// Whether it is stored as Online.
    pub online: bool,
    /// When it was last stored as Online again.
    pub last_online_at: Option<DbTime>,
    /// Its latest proof that was not withdrawn.
    pub proof: Option<StoredProof>,
    /// Whether an entry locks its power.
    pub held: bool,
    /// Whether its mapping is distrusted.
    pub distrusted: bool,
    /// Its leases while it was Online.
    pub leases: Vec<LeaseSeen>,
}

impl StoredMember {
    fn row(&self, now: DbTime) -> MemberRow {
        MemberRow {
            incarnation: self.incarnation,
            online: self.online,
            last_online: self.last_online_at.map(|at| now.saturating_sub(at)),
            proof: self.proof.map(|p| ProofRow {
                kind: p.kind,
                incarnation: p.incarnation,
                age: now.saturating_sub(p.at),
                recovery_started: p.recovery_started,
            }),
            held: self.held,
            distrusted: self.distrusted,
            leases: self.leases.clone(),
        }
    }

    fn standing(&self) -> Option<&StoredProof> {
        self.proof.as_ref().filter(|p| p.incarnation == self.incarnation && !self.online)
    }

    /// Why nothing may be sent to it, by what is stored.
    fn forbids_send(&self, incarnation: Incarnation) -> Option<ReasonCode> {
        if self.online || self.incarnation != incarnation {
            return Some(ReasonCode::BackOnline);
        }
        match self.standing() {
            Some(StoredProof { kind: ProofKind::Person, .. }) => return Some(ReasonCode::PersonConfirmed),
            Some(_) => return Some(ReasonCode::AlreadyFenced),
            None => {}
        }
        let flags = [
            (incarnation == Incarnation(0), ReasonCode::NeverOnline),
            (self.held, ReasonCode::Held),
            (self.distrusted, ReasonCode::Distrusted),
        ];
        flags.into_iter().find(|(is, _)| *is).map(|(_, reason)| reason)
    }
}

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
mod tests {
    use super::*;
    use crate::map::Provider;
    use crate::proof::PermitRequest;
    use crate::time::BootTime;
    use crate::write::Numbers;

    const NOW: DbTime = Duration::from_secs(1_000);

    fn store() -> (MemoryStore, (Epoch, HolderId)) {
        let mut store = MemoryStore::new(&Limits::PRODUCTION);
        let holder = HolderId(uuid::Uuid::from_u128(1));
        let epoch = store.campaign(NOW, holder).unwrap();
        let member = StoredMember { incarnation: Incarnation(1), ..StoredMember::default() };
        store.members.insert("a".into(), member);
        (store, (epoch, holder))
    }

    fn intent() -> Write {
        Write::Intent(Intent {
            record: RecordId(uuid::Uuid::from_u128(7)),
            member: "a".into(),
            incarnation: Incarnation(1),
            uuid: None,
            provider: Provider::Lima,
            target: "apelora-a".into(),
            map: MapSha::from_bytes([1; 32]),
            numbers: Numbers::default(),
            witnesses: ("b".into(), None),
        })
    }

    #[test]
    fn an_expired_lease_writes_nothing_although_nobody_took_it() {
        let (mut store, me) = store();
        let end = NOW + Limits::PRODUCTION.lease_ttl;
        assert_eq!(store.commit(end, me, &intent()).0, Err(CommitError::Deposed));
        assert_eq!(store.renew(end, me.0, me.1), Err(CommitError::Deposed), "and is not revived");
        assert!(store.commit(end - Duration::from_nanos(1), me, &intent()).0.is_ok());
    }

    #[test]
    fn a_permit_under_another_map_is_refused() {
        for (map, answer) in [(2, refused(ReasonCode::MappingChanged)), (1, Ok(Committed::Done))] {
            let (mut store, me) = store();
            assert!(store.commit(NOW, me, &intent()).0.is_ok());
            let record = RecordId(uuid::Uuid::from_u128(7));
            let request = PermitRequest::new(record, MapSha::from_bytes([map; 32]), BootTime::default());
            assert_eq!(store.commit(NOW, me, &Write::Permit(request)).0, answer);
        }
    }

    #[test]
    fn the_lease_row_is_taken_over_only_after_its_end_and_with_a_new_epoch() {
        let (mut store, me) = store();
        let other = HolderId(uuid::Uuid::from_u128(2));
        let end = NOW + Limits::PRODUCTION.lease_ttl;
        assert_eq!(store.campaign(end, other), None);
        assert_eq!(store.campaign(end + Duration::from_nanos(1), other), Some(Epoch(me.0.0 + 1)));
    }
}

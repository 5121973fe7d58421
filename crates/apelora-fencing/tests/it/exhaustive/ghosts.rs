//! What must hold whenever something is written or sent, checked from outside the machine.

use super::model::*;

use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::write::{AuditAction, CommitError, Committed, Seen, Write};
use apelora_fencing::{ReasonCode, RecordId};

impl Exploration {
    /// Makes a write, and checks what it did.
    pub(super) fn make(&self, s: &mut State, w: usize, write: &Write) -> Result<Committed, CommitError> {
        let db = s.db();
        let open_before = s.store.records.iter().filter(|r| r.status.is_open()).count();
        let (answer, rows) = s.store.commit(db, (s.workers[w].epoch, holder(w)), write);
        if answer == Err(CommitError::Deposed) {
            s.reached |= bit("deposed write refused");
        }
        if let (Write::Permit(_), Err(CommitError::Refused(ReasonCode::Held))) = (write, &answer) {
            s.reached |= bit("locked under an intent");
        }
        if answer.is_err() {
            s.must("a refused write writes nothing", rows.is_empty());
            return answer;
        }
        let record_of = |s: &State, id: RecordId| s.store.records.iter().find(|r| r.id == id).cloned();
        match write {
            Write::Observed(seen) => {
                for o in seen.iter().filter(|o| o.seen != Seen::Away) {
                    let m = self.index(&o.member);
                    s.servers[m].sent_lately = false;
                    s.servers[m].over &= s.workers[w].met & (1 << m) == 0;
                }
            }
            Write::Intent(intent) => {
                s.must("SEND-SINGLE", open_before == 0);
                let row = &s.store.members[&intent.member];
                let fenced = row.proof.is_some_and(|p| p.incarnation == row.incarnation);
                s.must("no intent for a fenced member", !fenced);
            }
            Write::Permit(request) => {
                let record = record_of(s, request.record()).expect("a permitted record");
                let m = self.index(&record.member);
                let row = s.store.members[&record.member].clone();
                let fenced = row.proof.is_some_and(|p| p.incarnation == row.incarnation);
                s.must("PROOF-PERSON-WINS", !fenced);
                s.must("no send to a held member", !row.held);
                s.must("SEND-LOOP", !s.servers[m].sent_lately);
                s.servers[m].sent_lately = true;
            }
            Write::Adopt(_) => s.reached |= bit("adopted"),
            Write::Final(last) => {
                let record = record_of(s, last.record).expect("a final record");
                let m = self.index(&record.member);
                let finals = rows.iter().filter(|r| r.action == AuditAction::PowerOff).count();
                s.must("AUDIT-EACH", finals == 1);
                if !last.sent {
                    s.servers[m].sent_lately = false;
                }
                s.reached |= match (record.status, last.reason) {
                    (RecordStatus::Fenced, ReasonCode::AlreadyOff) => bit("fenced although already off"),
                    (RecordStatus::Fenced, _) => bit("fenced by power-off"),
                    (RecordStatus::Superseded, _) => bit("superseded by a person"),
                    (RecordStatus::Failed, _) => bit("failed"),
                    (_, ReasonCode::BackOnline) => bit("back online before the send"),
                    (_, ReasonCode::MappingChanged) => bit("map changed under an intent"),
                    (_, ReasonCode::PermitExpired) => bit("permit expired"),
                    _ => 0,
                };
            }
            Write::Proof(_) if answer == Ok(Committed::Proof(true)) => s.reached |= bit("fenced by watching"),
            Write::RecoveryStarted { member, .. } => {
                s.reached |= bit("recovered");
                let m = self.index(member);
                let over = s.servers[m].over && s.workers[w].met & (1 << m) == 0;
                s.must("PROOF-INCARNATION: a restart although the old life runs", over);
            }
            _ => {}
        }
        for row in rows.iter().filter(|r| r.action == AuditAction::Fenced) {
            let stored = s.store.members[&row.member].proof.expect("a proof was stored");
            if stored.kind == ProofKind::PowerOff {
                let over = s.servers[self.index(&row.member)].over;
                s.must("PROOF-READBACK: fenced although the old life runs", over);
            }
        }
        let open = s.store.records.iter().filter(|r| r.status.is_open()).count();
        s.must("SEND-SINGLE", open <= 1);
        answer
    }

    /// The first byte of a power-off leaves now.
    pub(super) fn sends(&self, s: &mut State, w: usize, m: usize) {
        let worker = &s.workers[w];
        let (asked, offline, map) = worker.looked.expect("a send after a look");
        let fresh = s.now.since(asked) <= self.limits.permit_valid;
        let minority = 2 * offline.count_ones() < self.members as u32;
        let was_offline = offline & (1 << m) != 0;
        let lease = s.store.lease;
        let covered = lease.epoch == worker.epoch && lease.expires_at >= s.db() + self.limits.send_deadline;
        let record = s.store.records.iter().find(|r| r.status.is_open()).cloned();
        let mapped = record.as_ref().is_some_and(|r| self.maps[map].sha() == Some(r.map));
        let own = record.is_some_and(|r| {
            r.status == RecordStatus::Sent && self.index(&r.member) == m && r.epoch == worker.epoch
        });
        s.must("SEND-GUARDED: Offline in a fresh answer", fresh && was_offline);
        s.must("SEND-GUARDED: fewer than half Offline", minority);
        s.must("LEASE-COVERS-SEND", covered);
        s.must("SEND-INTENT-FIRST", own);
        s.must("SEND-MAPPED", mapped);
        let host = self.own_hosts.then_some(w);
        s.must("SEND-NOT-SELF", host != Some(m));
    }
}

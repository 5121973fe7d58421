//! What must hold in every night, checked from outside the machine, and what must happen in some.

use std::collections::BTreeMap;
use std::time::Duration;

use apelora_fencing::event::Pass;
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::view::Status;
use apelora_fencing::write::{AuditAction, AuditRow, CommitError, Committed, ProofGround, Write};
use apelora_fencing::{MemberName, ReasonCode, RecordId};

use super::site::{Manner, Site};

/// The latest readable list that a worker was given: when it was asked for, and who was Offline.
#[derive(Clone, Debug, Default)]
struct Looked {
    asked: u64,
    offline: Vec<MemberName>,
    total: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    looked: BTreeMap<usize, Looked>,
    /// The last send to each member by the database's clock, which the loop guard goes by.
    sends: BTreeMap<MemberName, u64>,
    online_since: BTreeMap<MemberName, u64>,
    /// The boot of each member that some worker last saw Online: the life that a proof is about.
    life: BTreeMap<MemberName, u64>,
    finals: BTreeMap<RecordId, usize>,
    begun: Vec<RecordId>,
    /// When a member was first shown as Offline, and when it was proven off.
    pub(crate) shown: BTreeMap<MemberName, u64>,
    pub(crate) proven: BTreeMap<MemberName, u64>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) broken: Vec<String>,
}

impl Ghosts {
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn must(&mut self, invariant: &str, holds: bool, detail: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(format!("{invariant}: {}", detail()));
        }
    }

    pub(crate) fn looked(&mut self, w: usize, now: u64, pass: &Pass, took: Duration, site: &Site) {
        let Ok(view) = &pass.view else { return };
        for server in &site.servers {
            if view.status(&server.name) == Some(&Status::Online) {
                self.life.insert(server.name.clone(), server.heard_run);
            }
        }
        let offline = view.members().iter().filter(|l| l.status == Status::Offline).map(|l| l.name.clone());
        let offline: Vec<_> = offline.collect();
        for member in &offline {
            self.shown.entry(member.clone()).or_insert(now);
        }
        let asked = now - took.as_millis() as u64;
        self.looked.insert(w, Looked { asked, offline, total: view.members().len() });
    }

    /// A power-off request leaves.
    pub(crate) fn sends(&mut self, now: u64, member: &MemberName, site: &Site, store: &MemoryStore) {
        self.count("sent");
        // The worker that sends is the one with the freshest list; any list of the last 5 s that shows it Offline counts.
        let justified = self
            .looked
            .values()
            .any(|l| now <= l.asked + 5_000 && l.offline.contains(member) && 2 * l.offline.len() < l.total);
        self.must("SEND-GUARDED", justified, || format!("{member} at {now}"));
        let record = store.records.iter().find(|r| r.member == *member && r.status == RecordStatus::Sent);
        self.must("SEND-INTENT-FIRST", record.is_some(), || format!("{member} at {now}"));
        let open = store.records.iter().filter(|r| r.status.is_open()).count();
        self.must("SEND-SINGLE", open == 1, || format!("{open} open records"));
        let row = &store.members[member];
        self.must("SEND-MAPPED", !row.distrusted, || format!("{member} is distrusted"));
        let stranger = site.servers.iter().any(|s| s.name == *member && s.manner == Manner::Stranger);
        self.must("PROOF-IDENTITY", !stranger, || format!("{member}'s BMC is another server's"));
        if row.held {
            // The lock may come after the permit, never before it.
            self.count("locked after its permit");
        }
    }

    /// A write was made, or refused.
    pub(crate) fn committed(
        &mut self,
        (now, db_now): (u64, u64),
        write: &Write,
        answer: &Result<Committed, CommitError>,
        rows: &[AuditRow],
        site: &Site,
        store: &MemoryStore,
    ) {
        if answer.is_err() {
            if *answer == Err(CommitError::Deposed) {
                self.count("a deposed leader's write was refused");
            }
            return;
        }
        match write {
            Write::Intent(intent) => self.begun.push(intent.record),
            // The send, in the words of the invariants.
            Write::Permit(request) => {
                let record = store.records.iter().find(|r| r.id == request.record());
                let member = record.map(|r| r.member.clone()).expect("a permitted record");
                let before = self.sends.insert(member.clone(), db_now).unwrap_or(0);
                let online_between = self.online_since.get(&member).is_some_and(|at| *at > before);
                self.must("SEND-LOOP", before == 0 || online_between || db_now - before >= 600_000, || {
                    format!("{member}: {before}, {db_now}")
                });
            }
            // Permitted, but nothing was sent.
            Write::Final(last) if !last.sent => {
                if let Some(record) = store.records.iter().find(|r| r.id == last.record) {
                    self.sends.remove(&record.member);
                }
            }
            Write::Adopt(_) => self.count("adopted"),
            Write::Withdraw(_) => self.count("withdrawn"),
            Write::RecoveryStarted { member, .. } => {
                self.count("recovered");
                self.old_life_is_over("PROOF-INCARNATION", member, site);
            }
            Write::Proof(new)
                if matches!(new.ground, ProofGround::Watched(_)) && *answer == Ok(Committed::Proof(true)) =>
            {
                self.count("proven by watching");
            }
            _ => {}
        }
        for row in rows {
            match row.action {
                AuditAction::PowerOff => {
                    self.count(row.reason.map_or("no reason", ReasonCode::as_str));
                    if let Some(record) = row.record {
                        *self.finals.entry(record).or_default() += 1;
                    }
                }
                AuditAction::Fenced => {
                    self.proven.entry(row.member.clone()).or_insert(now);
                    if store.members[&row.member].proof.is_some_and(|p| p.kind == ProofKind::PowerOff) {
                        self.old_life_is_over("PROOF-READBACK", &row.member, site);
                    }
                }
                AuditAction::Returned => self.count("returned"),
                AuditAction::ConfirmedOff => self.count("confirmed"),
                AuditAction::BmcDistrusted => self.count("distrusted"),
                AuditAction::ProofWithdrawn | AuditAction::BmcChecked => {}
            }
        }
        if let Write::Observed(seen) = write {
            for seen in seen.iter().filter(|s| matches!(s.seen, apelora_fencing::write::Seen::Online(_))) {
                self.online_since.insert(seen.member.clone(), db_now);
            }
        }
    }

    /// What ran when the member was last seen Online does not run any more. A BMC that says Off while its server runs can
    /// fool two readings; its flickers are never two in a row a second apart by chance more often than the test allows.
    fn old_life_is_over(&mut self, invariant: &str, member: &MemberName, site: &Site) {
        let Some(server) = site.servers.iter().find(|s| s.name == *member) else { return };
        let over = !server.powered || self.life.get(member).is_some_and(|life| server.run > *life);
        if server.manner == Manner::Flickers && !over {
            self.count("two lies in a row");
            return;
        }
        self.must(invariant, over, || format!("{member} still runs"));
    }

    /// At the end: every record has one final audit row, unless it is still open.
    pub(crate) fn ends(&mut self, store: &MemoryStore) {
        let begun = std::mem::take(&mut self.begun);
        for id in begun {
            let open = store.records.iter().any(|r| r.id == id && r.status.is_open());
            let rows = self.finals.get(&id).copied().unwrap_or(0);
            self.must("AUDIT-EACH", rows == usize::from(!open), || {
                format!("{id:?}: {rows} rows, open: {open}")
            });
        }
    }
}

//! What is told to people, from what happened: notices, figures, and the facts of the status document.

use std::collections::BTreeMap;

use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::map::MapState;
use apelora_fencing::proof::{PowerWord, Reported, SendReport};
use apelora_fencing::record::{Persisted, ProofKind};
use apelora_fencing::view::{ClusterView, Status};
use apelora_fencing::write::{
    AuditAction, AuditRow, CommitError, Committed, NewProof, Outcome, Refusal, Write,
};
use apelora_fencing::{BootTime, Incarnation, MemberName, ReasonCode, Supervisor};

use super::outside::Outside;
use super::pass::Passed;
use crate::metrics::PassResult;
use crate::notice::Notice;
use crate::status::{LastCheck, Sheet};

/// What was told already, so that only news is told. Outlives a leadership.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) sheet: Sheet,
    statuses: BTreeMap<MemberName, Status>,
    /// `None` before the first pass.
    cluster_readable: Option<bool>,
    store_readable: Option<bool>,
    map: Option<Result<MapState, Option<String>>>,
    /// What the BMC of the power-off in progress said last.
    heard: Option<(MemberName, Result<PowerWord, ReasonCode>)>,
    /// When the latest power-off was requested.
    sent_at: Option<BootTime>,
    /// The lives of members that a person's word has ended.
    persons: BTreeMap<MemberName, Incarnation>,
    /// Proofs whose commit was not answered: their audit rows may be reported later.
    unanswered: BTreeMap<MemberName, ProofKind>,
}

impl Story {
    /// A pass was read.
    pub(super) fn passed(&mut self, outside: &Outside, passed: &Passed) {
        let pass = &passed.pass;
        outside.metrics.passed(match (&pass.view, &pass.stored) {
            (Err(_), _) => PassResult::ClusterUnreadable,
            (Ok(_), None) => PassResult::StoreUnreadable,
            (Ok(_), Some(_)) => PassResult::Complete,
        });
        if let Some(stored) = &pass.stored {
            self.confirmed(outside, stored);
            outside.metrics.open_records(usize::from(stored.open.is_some()));
        }
        outside.metrics.map(&pass.map);
        outside.metrics.leases(&pass.leases);
        match &pass.view {
            Ok(view) => self.viewed(outside, view),
            Err(problem) => {
                if self.cluster_readable.replace(false) != Some(false) {
                    outside.notices.tell(Notice::ClusterUnreadable { problem: problem.to_string() });
                }
            }
        }
        let readable = pass.stored.is_some();
        let before = self.store_readable.replace(readable);
        if let (true, Some(false)) = (readable, before) {
            outside.notices.tell(Notice::StoreReadable);
        }
        if let (Some(problem), true) = (&passed.stored_problem, before != Some(false)) {
            outside.notices.tell(Notice::StoreUnreadable { problem: problem.clone() });
        }
        self.mapped(outside, passed);
        self.sheet.passed(passed);
    }

    /// A person's word needs no worker: it is noticed in the rows.
    fn confirmed(&mut self, outside: &Outside, stored: &Persisted) {
        for (member, row) in &stored.members {
            let by_person = row.standing_proof().is_some_and(|proof| proof.kind == ProofKind::Person);
            if by_person && self.persons.insert(member.clone(), row.incarnation) != Some(row.incarnation) {
                let kind = Some(ProofKind::Person);
                outside.notices.tell(Notice::Fenced { member: member.clone(), kind });
            }
        }
    }

    fn viewed(&mut self, outside: &Outside, view: &ClusterView) {
        let first = self.statuses.is_empty();
        if self.cluster_readable.replace(true) != Some(true) {
            outside.notices.tell(Notice::ClusterReadable { members: view.members().len() });
        }
        for listed in view.members() {
            let before = self.statuses.insert(listed.name.clone(), listed.status.clone());
            if before.as_ref() == Some(&listed.status) || (first && listed.status == Status::Online) {
                continue;
            }
            let member = listed.name.clone();
            outside.notices.tell(match &listed.status {
                Status::Offline => Notice::Grace { member, needed: outside.config.limits.fence_after },
                other => Notice::Seen { member, status: Some(other.clone()) },
            });
        }
        self.statuses.retain(|member, _| {
            let listed = view.status(member).is_some();
            if !listed {
                outside.notices.tell(Notice::Seen { member: member.clone(), status: None });
            }
            listed
        });
    }

    fn mapped(&mut self, outside: &Outside, passed: &Passed) {
        let now = match &passed.pass.map {
            MapState::Invalid => Err(passed.map_problem.clone()),
            map => Ok(map.clone()),
        };
        if self.map.as_ref() == Some(&now) {
            return;
        }
        match &now {
            Ok(MapState::Valid(map)) => outside.notices.tell(Notice::MapValid { members: map.len() }),
            Err(problem) => {
                let problem = problem.clone().unwrap_or_else(|| "it cannot be read".into());
                outside.notices.tell(Notice::MapInvalid { problem });
            }
            Ok(_) => {}
        }
        self.map = Some(now);
    }

    /// A write ended.
    pub(super) fn committed(
        &mut self,
        outside: &Outside,
        supervisor: &Supervisor,
        write: &Write,
        result: &Result<Committed, CommitError>,
        audit: &[AuditRow],
    ) {
        if let (Some((member, kind)), Err(CommitError::Unknown)) = (proof_of(write, supervisor), result) {
            self.unanswered.insert(member, kind);
        }
        if let Ok(made) = result {
            match (write, made) {
                (Write::Intent(intent), _) => {
                    self.heard = None;
                    self.sent_at = None;
                    let (member, record) = (intent.member.clone(), intent.record);
                    outside.notices.tell(Notice::Intent { member, record });
                }
                (Write::Adopt(record), Committed::Record(Some(status))) if status.is_open() => {
                    self.heard = None;
                    self.sent_at = None;
                    if let Some((member, _)) = supervisor.in_progress() {
                        let (member, record) = (member.clone(), *record);
                        outside.notices.tell(Notice::Adopted { member, record });
                    }
                }
                (Write::Refused(refusals), _) => {
                    for refusal in refusals {
                        refused(outside, supervisor, refusal);
                    }
                }
                _ => {}
            }
        }
        for row in audit {
            let kind = self.kind_of(row, Some(write));
            outside.metrics.audited(row, kind);
            self.audited(outside, row, kind);
        }
    }

    fn audited(&mut self, outside: &Outside, row: &AuditRow, kind: Option<ProofKind>) {
        let member = row.member.clone();
        let notice = match row.action {
            AuditAction::PowerOff => {
                let (Some(outcome), Some(reason), Some(_)) = (row.outcome, row.reason, row.record) else {
                    return;
                };
                let sent_at = self.sent_at.take().filter(|_| row.sent && outcome == Outcome::Success);
                if let Some(sent_at) = sent_at {
                    outside.metrics.went_off(outside.clock.boot().since(sent_at));
                }
                Notice::Ended { member, outcome, reason }
            }
            AuditAction::Fenced => Notice::Fenced { member, kind },
            AuditAction::Returned => Notice::Returned { member },
            AuditAction::ProofWithdrawn => Notice::Withdrawn { member },
            AuditAction::BmcDistrusted => {
                // The reading that led to this was taken for a good one when it ended.
                outside.metrics.checked(&member, false, (outside.wall)());
                let (at, reason) = (outside.clock.boot(), Some(ReasonCode::Distrusted));
                self.sheet.checked(&member, LastCheck { at, reason, detail: still_off() });
                Notice::Distrusted { member }
            }
            AuditAction::ConfirmedOff | AuditAction::BmcChecked => return,
        };
        outside.notices.tell(notice);
    }

    /// The kind of the proof that an audit row tells of. A proof with a record is one by power.
    fn kind_of(&mut self, row: &AuditRow, write: Option<&Write>) -> Option<ProofKind> {
        if row.action != AuditAction::Fenced {
            return None;
        }
        match (row.record, write) {
            (Some(_), _) => Some(ProofKind::PowerOff),
            (None, Some(Write::Proof(new))) if new.member == row.member => Some(new.ground.kind()),
            (None, _) => self.unanswered.remove(&row.member),
        }
    }

    /// The permit's write ended.
    pub(super) fn permitted(
        &mut self,
        outside: &Outside,
        supervisor: &Supervisor,
        audit: &[AuditRow],
        made: bool,
    ) {
        for row in audit {
            let kind = self.kind_of(row, None);
            outside.metrics.audited(row, kind);
            self.audited(outside, row, kind);
        }
        if let Some((member, _)) = supervisor.in_progress().filter(|_| made) {
            outside.notices.tell(Notice::Permitted { member: member.clone() });
        }
    }

    /// The power-off was requested, or was not.
    pub(super) fn sent(&mut self, outside: &Outside, member: &MemberName, report: &SendReport) {
        if report.may_have_been_sent() && self.sent_at.is_none() {
            self.sent_at = Some(report.began);
        }
        outside.notices.tell(Notice::Sent { member: member.clone(), answer: report.answer });
    }

    /// A conversation could not be opened, or a reading ended: of the power-off in progress, or in idle time.
    pub(super) fn talked(
        &mut self,
        outside: &Outside,
        supervisor: &Supervisor,
        target: &Target,
        result: Result<&Reported, &BmcError>,
    ) {
        let member = target.member.clone();
        let facts = supervisor.world().and_then(|w| w.members.iter().find(|m| m.name == member));
        let distrusted = facts.is_some_and(|m| m.distrusted);
        let idle = supervisor.in_progress().is_none_or(|(busy, _)| *busy != member);
        let matched = result.map_err(|e| (e.reason, e.detail.clone())).and_then(|reported| {
            match target.entry.identity.check(&reported.identity) {
                Ok(_) => Ok(reported.power),
                Err(stranger) => Err((stranger.reason(), stranger.to_string())),
            }
        });
        let matched = match matched {
            Ok(PowerWord::Off) if idle && distrusted => Err((ReasonCode::Distrusted, still_off())),
            matched => matched,
        };
        let news = match idle {
            false => {
                let heard = Some((member.clone(), matched.as_ref().copied().map_err(|(reason, _)| *reason)));
                let news = self.heard != heard;
                self.heard = heard;
                news
            }
            true => {
                let at = outside.clock.boot();
                let (reason, detail) = match &matched {
                    Ok(power) => (None, format!("the mapped server reads {}", power.as_str())),
                    Err((reason, detail)) => (Some(*reason), detail.clone()),
                };
                outside.metrics.checked(&member, reason.is_none(), (outside.wall)());
                self.sheet.checked(&member, LastCheck { at, reason, detail }) && reason.is_some()
            }
        };
        if !news {
            return;
        }
        outside.notices.tell(match matched {
            Ok(power) => Notice::PowerRead { member, power },
            Err((reason, detail)) => {
                Notice::BmcTrouble { member, provider: target.entry.provider(), reason, detail }
            }
        });
    }
}

/// What a BMC says that contradicts the cluster.
fn still_off() -> String {
    format!("the mapped server reads {}", PowerWord::Off.as_str())
}

/// A refusal that was audited.
fn refused(outside: &Outside, supervisor: &Supervisor, refusal: &Refusal) {
    let verdict = supervisor.decision().and_then(|d| d.verdict(&refusal.member));
    let sentence = match (verdict, refusal.reasons.first()) {
        (Some(verdict), _) => verdict.sentence(),
        (None, Some(reason)) => reason.sentence().to_owned(),
        (None, None) => return,
    };
    let (member, reasons) = (refusal.member.clone(), refusal.reasons.iter().copied().collect());
    outside.notices.tell(Notice::Refused { member, reasons, sentence });
}

/// Whom a write proves off, and by what.
fn proof_of(write: &Write, supervisor: &Supervisor) -> Option<(MemberName, ProofKind)> {
    match write {
        Write::Proof(NewProof { member, ground, .. }) => Some((member.clone(), ground.kind())),
        Write::Final(last) if last.proof.is_some() => {
            supervisor.in_progress().map(|(member, _)| (member.clone(), ProofKind::PowerOff))
        }
        _ => None,
    }
}

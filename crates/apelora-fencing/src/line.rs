//! The commit line: one write at a time, the record's first, and nothing new after an answer that was lost.

use std::collections::BTreeMap;

use crate::event::Effect;
use crate::name::{MemberName, Ticket};
use crate::proof::PermitRequest;
use crate::time::BootTime;
use crate::write::{
    Check, CommitError, Committed, Intent, NewProof, Observation, Refusal, Seen, Withdrawal, Write,
};

/// What waits for its turn, in the order in which it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    /// The record's next write: `Permit`, `Adopt`, `Final` or `ReadBack`.
    pub(crate) record: Option<Write>,
    /// What was seen and is stored otherwise.
    pub(crate) observed: BTreeMap<MemberName, Seen>,
    /// Proofs without a record, kept until they are stored or overtaken.
    pub(crate) proofs: BTreeMap<MemberName, NewProof>,
    /// Contradicted proofs.
    pub(crate) withdrawals: Vec<Withdrawal>,
    /// An intent, and the time after which the pass that justifies it is too old.
    pub(crate) intent: Option<(Intent, BootTime)>,
    /// Drill results.
    pub(crate) checks: Vec<Check>,
    /// Refusals.
    pub(crate) refusals: Vec<Refusal>,
}

/// The line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) pending: Pending,
    /// The write whose answer is awaited.
    pub(crate) outstanding: Option<(Ticket, Write)>,
    /// After a lost or a refused-for-now answer nothing but the record's own write may follow, until a later pass has
    /// read the database.
    pub(crate) unsettled: bool,
}

/// A write that ended, and how.
pub(crate) struct Ended {
    pub(crate) write: Write,
    pub(crate) result: Result<Committed, CommitError>,
}

impl Line {
    /// Takes the answer to `ticket`, if it is awaited.
    pub(crate) fn ended(&mut self, ticket: Ticket, result: Result<Committed, CommitError>) -> Option<Ended> {
        let (_, write) = self.outstanding.take_if(|(t, _)| *t == ticket)?;
        if matches!(result, Err(CommitError::Unknown | CommitError::Unavailable)) {
            self.unsettled = true;
            self.keep(&write);
        }
        Some(Ended { write, result })
    }

    /// Puts back what nobody would think of again. Refusals, and members that are away, come anew with each pass.
    fn keep(&mut self, write: &Write) {
        match write {
            Write::Observed(seen) => {
                for Observation { member, seen } in seen {
                    if let Seen::Online(_) = seen {
                        self.pending.observed.insert(member.clone(), seen.clone());
                    }
                }
            }
            Write::Proof(new) => {
                self.pending.proofs.entry(new.member.clone()).or_insert_with(|| new.clone());
            }
            Write::Withdraw(withdrawal) => self.pending.withdrawals.push(withdrawal.clone()),
            Write::Checked(checks) => {
                for check in checks {
                    // One that was found since is the newer one.
                    if !self.pending.checks.iter().any(|newer| newer.member == check.member) {
                        self.pending.checks.push(check.clone());
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a write is on its way whose outcome a pass that was started before cannot show.
    pub(crate) const fn is_busy(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Whether `member` was seen alive and that is not written yet.
    pub(crate) fn saw_alive(&self, member: &MemberName) -> bool {
        let waiting = self.pending.observed.get(member).is_some_and(|seen| *seen != Seen::Away);
        let going = match &self.outstanding {
            Some((_, Write::Observed(seen))) => {
                seen.iter().any(|o| o.member == *member && o.seen != Seen::Away)
            }
            _ => false,
        };
        waiting || going
    }

    /// The next write, if it may go now.
    pub(crate) fn next(&mut self, now: BootTime, ticket: Ticket) -> Option<Effect> {
        if self.outstanding.is_some() {
            return None;
        }
        let settled = !self.unsettled;
        let may_go = |w: &mut Write| settled || !matches!(w, Write::Permit(_));
        let record = self.pending.record.take_if(may_go);
        let write = record.or_else(|| if settled { self.pending.pop(now) } else { None })?;
        self.outstanding = Some((ticket, write.clone()));
        Some(match write {
            Write::Permit(request) => Effect::Permit(ticket, request),
            other => Effect::Commit(ticket, other),
        })
    }

    /// Asks for a record's write.
    pub(crate) fn record(&mut self, write: Write) {
        self.pending.record = Some(write);
    }

    /// Asks for a permit.
    pub(crate) fn permit(&mut self, request: PermitRequest) {
        self.record(Write::Permit(request));
    }
}

impl Pending {
    fn pop(&mut self, now: BootTime) -> Option<Write> {
        if !self.observed.is_empty() {
            let seen = std::mem::take(&mut self.observed).into_iter();
            return Some(Write::Observed(seen.map(|(member, seen)| Observation { member, seen }).collect()));
        }
        if let Some((_, proof)) = self.proofs.pop_first() {
            return Some(Write::Proof(proof));
        }
        if let Some(withdrawal) = self.withdrawals.pop() {
            return Some(Write::Withdraw(withdrawal));
        }
        if let Some((intent, _)) = self.intent.take().filter(|(_, until)| now < *until) {
            return Some(Write::Intent(intent));
        }
        if !self.checks.is_empty() {
            return Some(Write::Checked(std::mem::take(&mut self.checks)));
        }
        if !self.refusals.is_empty() {
            return Some(Write::Refused(std::mem::take(&mut self.refusals)));
        }
        None
    }
}

//! One record from its intent (or its adoption) to its end: open, look again, permit, read, send, read back, close.
//!
//! The machine of tests/data/fencing/README.md section 2, once for all providers. It decides nothing about guards: the
//! supervisor tells it whether they (still) hold.

use std::sync::Arc;
use std::time::Duration;

use crate::event::{BmcError, Effect, ReadDone, Target};
use crate::identity::IdentityError;
use crate::limits::Limits;
use crate::line::Line;
use crate::map::{MapEntry, MapSha};
use crate::name::{Incarnation, MemberName, RecordId, Ticket};
use crate::proof::{
    Ground, OffStreak, PermitRequest, PowerOffProof, PowerWord, Reading, SendAnswer, SendReport,
};
use crate::reason::{ReasonCode, ReasonKind};
use crate::record::{OpenRecord, RecordStatus};
use crate::time::BootTime;
use crate::write::{CommitError, Committed, Evidence, Final, Outcome, Saw, Write};

/// More evidence than this is not kept; a read-back at its usual pace needs about a hundred.
const MOST_EVIDENCE: usize = 256;

/// What the episode may use in one step.
pub(crate) struct Step<'a> {
    pub(crate) now: BootTime,
    pub(crate) limits: &'a Limits,
    pub(crate) tickets: &'a mut u64,
    pub(crate) line: &'a mut Line,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Step<'_> {
    pub(crate) fn ticket(&mut self) -> Ticket {
        *self.tickets += 1;
        Ticket(*self.tickets)
    }
}

/// Where an episode stands. What is awaited from outside is in the name.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// The intent's commit.
    Intent,
    /// The adoption's commit.
    Adopt,
    /// A conversation, before the permit.
    Opening,
    /// A pass that was begun later than this ticket, before the permit.
    Looking(Ticket),
    /// The permit's commit.
    Permit,
    /// A reading.
    Reading,
    /// The answer to the power-off request.
    Sending,
    /// Another conversation, to go on reading.
    Reopening,
    /// The time of the next reading.
    Resting(BootTime),
    /// The final commit; or, without an answer from the database, the next pass.
    Closing(Final),
}

/// What the last reading showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Last {
    Nothing,
    Power(PowerWord),
    Trouble(ReasonCode),
}

/// A record in progress.
#[derive(Clone, Debug)]
pub(crate) struct Episode {
    pub(crate) record: RecordId,
    pub(crate) member: MemberName,
    pub(crate) incarnation: Incarnation,
    /// The mapped BMC; `None` when the record that was adopted was made from another map.
    pub(crate) entry: Option<Arc<MapEntry>>,
    pub(crate) map: MapSha,
    /// Of an earlier leader: read only.
    pub(crate) adopted: bool,
    /// Whether the machine stops before the permit.
    pub(crate) dry_run: bool,
    pub(crate) began: BootTime,
    pub(crate) phase: Phase,
    /// The answer to the phase's commit was lost: the record is read back before anything else.
    pub(crate) unsure: bool,
    /// The open conversation.
    pub(crate) talk: Option<Ticket>,
    /// Until when the committed permit allows a send; `None` once anything speaks against it.
    pub(crate) permit: Option<BootTime>,
    /// Why the permit was given up.
    pub(crate) given_up: Option<ReasonCode>,
    pub(crate) posts: u8,
    /// The latest request that may have reached the BMC.
    pub(crate) sent: Option<SendReport>,
    /// Adopted after its permit: something may have been sent.
    pub(crate) may_have_sent: bool,
    pub(crate) streak: OffStreak,
    pub(crate) off_seen: bool,
    pub(crate) last: Last,
    /// When the last reading may begin.
    pub(crate) deadline: BootTime,
    /// Seen Online since the intent: there will be no proof.
    pub(crate) returned: bool,
    pub(crate) evidence: Vec<Evidence>,
}

impl Episode {
    /// The episode of a new record, whose intent is about to be committed.
    pub(crate) fn new(
        record: RecordId,
        target: Target,
        incarnation: Incarnation,
        dry_run: bool,
        now: BootTime,
    ) -> Self {
        let Target { member, entry, map } = target;
        Self { entry: Some(entry), dry_run, ..Self::blank(record, member, incarnation, map, now) }
    }

    fn blank(
        record: RecordId,
        member: MemberName,
        incarnation: Incarnation,
        map: MapSha,
        now: BootTime,
    ) -> Self {
        Self {
            record,
            member,
            incarnation,
            entry: None,
            map,
            adopted: false,
            dry_run: false,
            began: now,
            phase: Phase::Intent,
            unsure: false,
            talk: None,
            permit: None,
            given_up: None,
            posts: 0,
            sent: None,
            may_have_sent: false,
            streak: OffStreak::new(Ground::Unsent),
            off_seen: false,
            last: Last::Nothing,
            deadline: now,
            returned: false,
            evidence: Vec::new(),
        }
    }

    /// The episode that reads an earlier leader's record to its end.
    pub(crate) fn adopt(open: &OpenRecord, entry: Option<Arc<MapEntry>>, s: &mut Step<'_>) -> Self {
        s.line.record(Write::Adopt(open.id));
        Self {
            entry,
            adopted: true,
            phase: Phase::Adopt,
            may_have_sent: open.status == RecordStatus::Sent,
            deadline: s.now + s.limits.readback_deadline,
            ..Self::blank(open.id, open.member.clone(), open.incarnation, open.map, s.now)
        }
    }

    /// Whether a power-off was or may have been sent.
    pub(crate) fn sent(&self) -> bool {
        self.may_have_sent || self.sent.is_some()
    }

    fn saw(&mut self, now: BootTime, what: Saw, detail: &str) {
        if self.evidence.len() < MOST_EVIDENCE {
            self.evidence.push(Evidence { offset: now.since(self.began), what, detail: detail.into() });
        }
    }

    fn open(&mut self, s: &mut Step<'_>, phase: Phase) {
        let Some(entry) = self.entry.clone() else { return self.close(s, ReasonCode::MappingChanged, None) };
        let ticket = s.ticket();
        self.talk = Some(ticket);
        self.phase = phase;
        let target = Target { member: self.member.clone(), entry, map: self.map };
        s.effects.push(Effect::Open(ticket, target, s.now + s.limits.open_deadline));
    }

    fn hang_up(&mut self, s: &mut Step<'_>) {
        if let Some(ticket) = self.talk.take() {
            s.effects.push(Effect::Close(ticket));
        }
    }

    fn read(&mut self, s: &mut Step<'_>) {
        if let Some(ticket) = self.talk {
            self.phase = Phase::Reading;
            s.effects.push(Effect::Read(ticket, s.now + s.limits.read_deadline));
        } else {
            self.open(s, Phase::Reopening);
        }
    }

    /// Ends the record: without a proof it succeeds at nothing.
    fn close(&mut self, s: &mut Step<'_>, reason: ReasonCode, proof: Option<PowerOffProof>) {
        self.hang_up(s);
        let outcome = match (&proof, self.sent()) {
            (Some(_), _) => Outcome::Success,
            (None, true) => Outcome::Failed,
            (None, false) => Outcome::Refused,
        };
        let last = Final {
            record: self.record,
            outcome,
            reason,
            sent: self.sent(),
            proof,
            evidence: std::mem::take(&mut self.evidence),
        };
        self.phase = Phase::Closing(last.clone());
        s.line.record(Write::Final(last));
    }

    /// What the pass with this ticket found about the guards of this member: until when a permit would be valid, or the
    /// first reason against it.
    pub(crate) fn on_pass(&mut self, s: &mut Step<'_>, pass: Ticket, guards: Result<BootTime, ReasonCode>) {
        if self.unsure {
            return self.again(s, Write::ReadBack(self.record));
        }
        match (&self.phase, guards) {
            (Phase::Intent | Phase::Adopt, _) => {}
            (Phase::Closing(last), _) => self.again(s, Write::Final(last.clone())),
            (_, Err(ReasonCode::BackOnline)) => {
                self.saw_alive();
                // What was sent, or is being sent, is read to its end, for the record to tell the truth.
                let sends = self.sent() || matches!(self.phase, Phase::Sending);
                if !sends || self.adopted {
                    self.close(s, ReasonCode::BackOnline, None);
                }
            }
            (Phase::Opening | Phase::Looking(_), Err(reason)) => self.close(s, reason, None),
            (Phase::Looking(after), Ok(until)) if pass > *after => {
                if self.dry_run {
                    self.close(s, ReasonCode::DryRun, None);
                } else {
                    self.phase = Phase::Permit;
                    self.permit = Some(until);
                    s.line.permit(PermitRequest::new(self.record, self.map, until));
                }
            }
            (_, Err(reason)) => {
                if self.permit.take().is_some() {
                    self.given_up = Some(reason);
                }
            }
            (_, Ok(_)) => {}
        }
    }

    /// Its member was seen alive: whatever comes, there is no send from here on, and no proof.
    pub(crate) fn saw_alive(&mut self) {
        self.returned = true;
        self.permit = None;
        self.given_up = Some(ReasonCode::BackOnline);
    }

    /// Repeats a write that the database did not take, one pass later.
    fn again(&self, s: &mut Step<'_>, write: Write) {
        if !s.line.is_busy() {
            s.line.record(write);
        }
    }

    /// One of the record's writes ended. Returns whether the episode is over.
    pub(crate) fn on_committed(
        &mut self,
        s: &mut Step<'_>,
        write: &Write,
        result: &Result<Committed, CommitError>,
    ) -> bool {
        match (write, result) {
            (_, Err(CommitError::Deposed)) => return true,
            (Write::Final(_), Ok(_)) => return true,
            // Closed by somebody else: nothing is left to be closed.
            (Write::Final(_), Err(CommitError::Refused(_))) => return true,
            // Kept in memory until a pass can read the database again.
            (Write::Final(_), Err(CommitError::Unavailable)) => {}
            (
                Write::Intent(_) | Write::Permit(_) | Write::Adopt(_) | Write::Final(_),
                Err(CommitError::Unknown),
            ) => {
                self.unsure = true;
                s.line.record(Write::ReadBack(self.record));
            }
            (Write::Intent(_), Ok(_)) => self.open(s, Phase::Opening),
            (Write::Intent(_), Err(_)) => return true,
            (Write::Permit(_), Ok(_)) => self.read(s),
            (Write::Permit(_), Err(CommitError::Refused(reason))) => self.close(s, *reason, None),
            (Write::Permit(_), Err(_)) => self.close(s, ReasonCode::StoreUnreadable, None),
            (Write::Adopt(_), Ok(Committed::Record(Some(status)))) => {
                self.may_have_sent = *status == RecordStatus::Sent;
                if self.may_have_sent {
                    self.open(s, Phase::Reopening);
                } else {
                    self.close(s, ReasonCode::LeaderChanged, None);
                }
            }
            (Write::Adopt(_), _) => return true,
            (Write::ReadBack(_), Ok(Committed::Record(found))) => return self.on_found(s, *found),
            // Still not known: asked again with the next pass.
            _ => {}
        }
        false
    }

    /// The record's status, after the answer to a write was lost. Returns whether the episode is over.
    fn on_found(&mut self, s: &mut Step<'_>, found: Option<RecordStatus>) -> bool {
        self.unsure = false;
        match (&self.phase, found) {
            (_, None) => return true,
            (_, Some(status)) if !status.is_open() => return true,
            (Phase::Closing(last), Some(_)) => s.line.record(Write::Final(last.clone())),
            // The permit that came of a lost answer is lost with it, so nothing was sent under it.
            (_, Some(_)) if !self.adopted => self.close(s, ReasonCode::CommitUnknown, None),
            (_, Some(_)) => s.line.record(Write::Adopt(self.record)),
        }
        false
    }

    /// The conversation is open, or not.
    pub(crate) fn on_opened(&mut self, s: &mut Step<'_>, result: Result<(), BmcError>) {
        let before_permit = matches!(self.phase, Phase::Opening);
        match result {
            Ok(()) => {
                self.saw(s.now, Saw::Opened, "");
                if before_permit {
                    self.phase = Phase::Looking(Ticket(*s.tickets));
                } else {
                    self.read(s);
                }
            }
            Err(error) => {
                self.saw(s.now, Saw::Trouble(error.reason), &error.detail);
                self.talk = None;
                if before_permit {
                    self.close(s, error.reason, None);
                } else {
                    self.trouble(s, error.reason, error.transient);
                }
            }
        }
    }

    /// A reading ended.
    pub(crate) fn on_read(&mut self, s: &mut Step<'_>, talk: Ticket, done: ReadDone) {
        let reported = match done.result {
            Ok(reported) => reported,
            Err(error) => {
                self.saw(s.now, Saw::Trouble(error.reason), &error.detail);
                self.hang_up(s);
                return self.trouble(s, error.reason, error.transient);
            }
        };
        let Some(entry) = &self.entry else { return };
        match Reading::verify(&reported, &entry.identity, talk, (done.began, done.ended)) {
            Ok(reading) => {
                self.saw(s.now, Saw::Power(reading.power()), &reported.detail);
                self.on_power(s, reading);
            }
            Err(error) => self.on_stranger(s, &error),
        }
    }

    /// Another server answered. After the right one did, that is an alarm: the request may have reached a neighbour.
    fn on_stranger(&mut self, s: &mut Step<'_>, error: &IdentityError) {
        let known = self.sent.is_some() || matches!(self.last, Last::Power(_));
        let reason = if known { ReasonCode::UuidChanged } else { error.reason() };
        self.saw(s.now, Saw::Trouble(reason), &error.to_string());
        self.close(s, reason, None);
    }

    fn on_power(&mut self, s: &mut Step<'_>, reading: Reading) {
        let power = reading.power();
        self.last = Last::Power(power);
        if let Some(proof) = self.streak.see(&reading, s.limits) {
            let reason = match (self.returned, self.sent()) {
                (true, _) => ReasonCode::BackOnline,
                (false, true) => ReasonCode::PoweredOff,
                (false, false) => ReasonCode::AlreadyOff,
            };
            let proof = (!self.returned).then_some(proof);
            return self.close(s, reason, proof);
        }
        if power == PowerWord::Off {
            if !self.off_seen && !self.sent() {
                self.deadline = s.now + s.limits.readback_deadline;
            }
            self.off_seen = true;
            return self.rest(s);
        }
        if self.may_send(s.now, power, s.limits) {
            self.phase = Phase::Sending;
            self.posts += 1;
            s.effects.push(Effect::SendOff(reading.conversation(), reading, s.now + s.limits.send_deadline));
            return;
        }
        if self.sent() {
            return self.rest(s);
        }
        match power {
            PowerWord::Unknown if self.permit_holds(s.now) => self.rest(s),
            PowerWord::Unknown if !self.off_seen => self.close(s, ReasonCode::PowerStateUnknown, None),
            PowerWord::Unknown => self.rest(s),
            _ if self.off_seen => self.close(s, ReasonCode::CameBackOn, None),
            _ => self.close(s, self.given_up.unwrap_or(ReasonCode::PermitExpired), None),
        }
    }

    fn permit_holds(&self, now: BootTime) -> bool {
        self.permit.is_some_and(|until| now < until)
    }

    /// The first request follows any reading of a running system; a second one, under the same permit, only an unanswered
    /// first one and a fresh reading of exactly On.
    fn may_send(&self, now: BootTime, power: PowerWord, limits: &Limits) -> bool {
        let again = self.sent.is_some_and(|s| s.answer == SendAnswer::Unanswered) && power == PowerWord::On;
        !self.adopted
            && self.permit_holds(now)
            && self.posts < limits.posts_per_permit
            && power.is_running()
            && (self.posts == 0 || again)
    }

    /// The power-off request ended.
    pub(crate) fn on_sent(&mut self, s: &mut Step<'_>, report: SendReport) {
        self.saw(s.now, Saw::Sent(report.answer), "");
        if report.may_have_been_sent() {
            self.deadline = self.sent.map_or(report.began, |first| first.began) + s.limits.readback_deadline;
            self.sent = Some(report);
            self.streak = OffStreak::new(Ground::Sent(report.ended));
        }
        match report.answer {
            SendAnswer::NotSent(reason) if !self.sent() => self.close(s, reason, None),
            SendAnswer::Rejected(reason) => self.close(s, reason, None),
            _ => self.read(s),
        }
    }

    /// A reading or an opening failed, which proves nothing and starts the count of Off readings again.
    fn trouble(&mut self, s: &mut Step<'_>, reason: ReasonCode, transient: bool) {
        self.streak.interrupt();
        self.last = Last::Trouble(reason);
        let reads_on = self.sent() || self.off_seen || (transient && self.permit_holds(s.now));
        if reads_on { self.rest(s) } else { self.close(s, reason, None) }
    }

    /// Waits for the time of the next reading, or gives up.
    fn rest(&mut self, s: &mut Step<'_>) {
        let since_send = self.sent.map(|r| s.now.since(r.ended));
        let fast = since_send.is_some_and(|t| t < s.limits.readback_fast_for);
        let pace: Duration = if fast { s.limits.readback_fast } else { s.limits.readback_slow };
        let mut at = s.now + pace;
        if let Some(second) = self.streak.second_from(s.limits)
            && second > s.now
        {
            at = at.min(second);
        }
        let bounded = self.sent() || self.off_seen;
        if bounded && at >= self.deadline {
            return self.give_up(s);
        }
        self.phase = Phase::Resting(at);
    }

    fn give_up(&mut self, s: &mut Step<'_>) {
        let declined = self.sent.is_some_and(|r| r.answer == SendAnswer::Declined);
        let reason = match self.last {
            Last::Power(p) if p.is_running() && self.off_seen => ReasonCode::CameBackOn,
            Last::Power(p) if p.is_running() && self.adopted => ReasonCode::LeaderChanged,
            Last::Power(p) if p.is_running() && declined => ReasonCode::ResetRejected,
            Last::Power(p) if p.is_running() => ReasonCode::NeverOff,
            Last::Power(PowerWord::Unknown) => ReasonCode::PowerStateUnknown,
            _ => ReasonCode::ReadbackTimeout,
        };
        self.close(s, reason, None);
    }

    /// Does what is due by now.
    pub(crate) fn on_time(&mut self, s: &mut Step<'_>) {
        if let Phase::Resting(at) = self.phase
            && s.now >= at
        {
            self.read(s);
        }
    }

    /// The ticket that the pass it waits for must be later than.
    pub(crate) const fn wants_look(&self) -> Option<Ticket> {
        match self.phase {
            Phase::Looking(after) => Some(after),
            _ => None,
        }
    }

    /// Whether a permit is still to come.
    pub(crate) const fn needs_lease(&self) -> bool {
        matches!(self.phase, Phase::Intent | Phase::Opening | Phase::Looking(_))
    }

    /// When it wants to be woken.
    pub(crate) const fn wake(&self) -> Option<BootTime> {
        match self.phase {
            Phase::Resting(at) => Some(at),
            _ => None,
        }
    }

    /// How long its member is left alone after it ended for this reason.
    pub(crate) fn pause_after(reason: ReasonCode, limits: &Limits) -> Option<Duration> {
        match (reason, reason.kind()) {
            (ReasonCode::Credential | ReasonCode::IpmiAuth | ReasonCode::IpmiPrivilege, _) => {
                Some(limits.pause_credential)
            }
            (_, ReasonKind::Bmc) | (ReasonCode::PermitExpired, _) => Some(limits.pause_refused),
            (ReasonCode::DryRun, _) => Some(limits.audit_again),
            _ => None,
        }
    }
}

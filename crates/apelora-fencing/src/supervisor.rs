//! The supervisor of one leadership: the only entry point of the protocol.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::decide::Decision;
use crate::episode::{Episode, Phase, Step};
use crate::event::{Effect, Event, Outcome, Target, Why};
use crate::lease::{LeaseConfig, LeaseWatch};
use crate::limits::Limits;
use crate::line::{Ended, Line};
use crate::map::{MapEntry, MapState, Provider};
use crate::name::{Epoch, HolderId, MemberName, RecordId, Ticket};
use crate::record::{MemberRow, Persisted, ProofKind};
use crate::time::BootTime;
use crate::track::Tracks;
use crate::view::{ClusterView, Healing, Status};
use crate::watch::{Drill, Purpose, Talks};
use crate::world::World;
use crate::write::{CommitError, Found, Intent, Observation, Seen, Write};

/// What is configured, beside the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The member that this worker runs on, if it runs on one.
    pub own_host: Option<MemberName>,
    /// `APELORA_INCUS_SINGLE_VIEW`.
    pub single_view: bool,
    /// `APELORA_FAILURE_DOMAIN_RULE`.
    pub failure_domain_rule: bool,
    /// `APELORA_BMC_ALLOW_LAB`.
    pub allow_lab: bool,
    /// `--dry-run`: decide and audit, stop before the permit.
    pub dry_run: bool,
    /// `APELORA_SANLOCK_HOSTS`.
    pub leases: LeaseConfig,
}

impl Settings {
    /// Whether there is an entry, and its provider may be used here.
    pub(crate) fn may_use(&self, entry: Option<&Arc<MapEntry>>) -> bool {
        entry.is_some_and(|e| self.allow_lab || e.provider() != Provider::Lima)
    }
}

/// A leadership that was just acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leadership {
    /// Its fencing token.
    pub epoch: Epoch,
    /// This process.
    pub holder: HolderId,
    /// The lease's end by the own clock, short of the expiry by the margin.
    pub deadline: BootTime,
}

/// What the latest pass left behind.
#[derive(Clone, Debug)]
pub(crate) struct Latest {
    pub(crate) view: Option<ClusterView>,
    pub(crate) healing: Healing,
    pub(crate) stored: Persisted,
    pub(crate) map: MapState,
    /// The world and what was decided on it: kept for those who ask.
    pub(crate) judged: Arc<(World, Decision)>,
    pub(crate) judged_at: BootTime,
}

/// The machine. Made anew with every election, so that no series outlives a leadership.
#[derive(Clone, Debug)]
pub struct Supervisor {
    pub(crate) limits: Arc<Limits>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) me: Leadership,
    /// Nothing is begun before this: one margin after the election.
    pub(crate) acts_from: BootTime,
    pub(crate) over: bool,
    pub(crate) tickets: u64,
    /// The look that is awaited, and when it was begun.
    pub(crate) look: Option<(Ticket, BootTime)>,
    pub(crate) next_look: BootTime,
    /// Looks up to this ticket began before the last commit ended: what they read of the database may be older.
    pub(crate) stale_looks: Ticket,
    pub(crate) tracks: Tracks,
    pub(crate) lease_watch: LeaseWatch,
    pub(crate) line: Line,
    pub(crate) episode: Option<Episode>,
    pub(crate) talks: Talks,
    pub(crate) drill: Drill,
    pub(crate) latest: Option<Latest>,
    pub(crate) wake: Option<BootTime>,
    /// When the lease was last asked to be renewed early.
    pub(crate) renewal_asked: Option<BootTime>,
}

impl Supervisor {
    /// The supervisor of a leadership acquired at `now`: no series, and open records are adopted before anything else.
    pub fn elected(now: BootTime, me: Leadership, limits: Limits, settings: Settings) -> Self {
        let acts_from = now + limits.lease_margin;
        Self {
            settings: Arc::new(settings),
            me,
            acts_from,
            over: false,
            tickets: 0,
            look: None,
            next_look: now,
            stale_looks: Ticket(0),
            tracks: Tracks::default(),
            lease_watch: LeaseWatch::default(),
            line: Line::default(),
            episode: None,
            talks: Talks::default(),
            drill: Drill { next: now + limits.drill_pause, ..Drill::default() },
            latest: None,
            wake: None,
            renewal_asked: None,
            limits: Arc::new(limits),
        }
    }

    /// Takes an event and says what is to be done. Call it once with [`Event::Woke`] after the election.
    pub fn on(&mut self, now: BootTime, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.over {
            return effects;
        }
        if let Event::Renewed(deadline) = event {
            self.me.deadline = self.me.deadline.max(deadline);
        }
        if now >= self.me.deadline {
            return self.step_down(Why::LeaseExpired);
        }
        match event {
            Event::Lost => return self.step_down(Why::Deposed),
            Event::Pass(pass) => {
                if let Some(why) = self.on_pass(now, *pass, &mut effects) {
                    return self.step_down(why);
                }
            }
            Event::Done(ticket, outcome) => {
                if self.on_done(now, ticket, outcome, &mut effects) {
                    return self.step_down(Why::Deposed);
                }
            }
            Event::Renewed(_) | Event::Woke => {}
        }
        self.act(now, &mut effects);
        effects
    }

    /// What the guards said in the latest pass.
    pub fn decision(&self) -> Option<&Decision> {
        self.latest.as_ref().map(|l| &l.judged.1)
    }

    /// What they were asked about.
    pub fn world(&self) -> Option<&World> {
        self.latest.as_ref().map(|l| &l.judged.0)
    }

    /// When that was.
    pub fn judged_at(&self) -> Option<BootTime> {
        self.latest.as_ref().map(|l| l.judged_at)
    }

    /// The record in progress.
    pub fn in_progress(&self) -> Option<(&MemberName, RecordId)> {
        self.episode.as_ref().map(|e| (&e.member, e.record))
    }

    /// Whether the role is over.
    pub const fn is_over(&self) -> bool {
        self.over
    }

    /// Whether a restart of `member`'s instances may begin or go on now. Asked before every step of a recovery.
    ///
    /// A proof stands for the member's present life; the latest pass is no older than two intervals and sees it Offline, or
    /// evacuated where a person said that it is off; the cluster does not heal by itself; and a proof by power-off that is
    /// not brand new was read once more.
    pub fn may_recover(&self, now: BootTime, member: &MemberName) -> bool {
        let Some(latest) = self.latest.as_ref().filter(|_| !self.over && now < self.me.deadline) else {
            return false;
        };
        let Some(proof) = latest.stored.members.get(member).and_then(MemberRow::standing_proof) else {
            return false;
        };
        let fresh = self.tracks.asked.is_some_and(|asked| now.since(asked) <= self.limits.pass_gap());
        let away = match latest.view.as_ref().and_then(|v| v.status(member)) {
            Some(Status::Offline) => true,
            // Says neither dead nor alive, also of a member that was Offline before and alive since: a person knows.
            Some(Status::Moved(_)) => proof.kind == ProofKind::Person,
            Some(Status::Online | Status::Blocked | Status::Unknown(_)) | None => false,
        };
        let withdrawn = self.line.pending.withdrawals.iter().any(|w| w.member == *member);
        let track = self.tracks.of.get(member);
        let settled = proof.kind != ProofKind::PowerOff
            || proof.recovery_started
            || proof.age <= self.limits.recheck_after
            || latest.map.entry(member).is_none()
            || track.is_some_and(|t| t.rechecked);
        fresh
            && away
            && settled
            && !withdrawn
            && !self.line.saw_alive(member)
            && latest.healing == Healing::Off
    }

    /// The entry of `member`, unless it is the lab's and that is not allowed.
    pub(crate) fn entry<'a>(&self, map: &'a MapState, member: &MemberName) -> Option<&'a Arc<MapEntry>> {
        map.entry(member).filter(|e| self.settings.may_use(Some(e)))
    }

    pub(crate) fn step<'a>(
        now: BootTime,
        limits: &'a Limits,
        tickets: &'a mut u64,
        line: &'a mut Line,
        effects: &'a mut Vec<Effect>,
    ) -> Step<'a> {
        Step { now, limits, tickets, line, effects }
    }

    fn step_down(&mut self, why: Why) -> Vec<Effect> {
        self.over = true;
        let talk = self.episode.take().and_then(|e| e.talk);
        let readings = std::mem::take(&mut self.talks.open).into_keys();
        readings.chain(talk).map(Effect::Close).chain([Effect::StepDown(why)]).collect()
    }

    /// Whether the role is over.
    fn on_done(
        &mut self,
        now: BootTime,
        ticket: Ticket,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let mine = self.episode.as_ref().is_some_and(|e| e.talk == Some(ticket));
        let mut s =
            Step { now, limits: &self.limits, tickets: &mut self.tickets, line: &mut self.line, effects };
        let heard = match (outcome, &mut self.episode) {
            (Outcome::Committed(result), _) => {
                let Some(ended) = s.line.ended(ticket, result) else { return false };
                return self.on_committed(now, ended, effects);
            }
            (Outcome::Opened(result), Some(episode)) if mine => {
                episode.on_opened(&mut s, result);
                None
            }
            (Outcome::Read(done), Some(episode)) if mine => {
                episode.on_read(&mut s, ticket, done);
                None
            }
            (Outcome::Sent(report), Some(episode)) if mine => {
                episode.on_sent(&mut s, report);
                None
            }
            (Outcome::Opened(result), _) => self.talks.on_opened(&mut s, ticket, result),
            (Outcome::Read(done), _) => self.talks.on_read(&mut s, ticket, done),
            (Outcome::Sent(_), _) => None,
        };
        if let Some(heard) = heard {
            self.on_heard(now, heard);
        }
        false
    }

    fn on_committed(&mut self, now: BootTime, ended: Ended, effects: &mut Vec<Effect>) -> bool {
        let Ended { write, result } = ended;
        if result == Err(CommitError::Deposed) {
            return true;
        }
        self.stale_looks = Ticket(self.tickets);
        if let (Write::Observed(seen), Ok(_), Some(latest)) = (&write, &result, &mut self.latest) {
            // What the latest pass read is overtaken: a proof ends here, not with the next pass.
            for Observation { member, seen } in seen {
                if let Some(row) = latest.stored.members.get_mut(member) {
                    row.online = matches!(seen, Seen::Online(_));
                }
            }
        }
        if let (Write::Checked(checks), Ok(_), Some(latest)) = (&write, &result, &mut self.latest) {
            for check in checks.iter().filter(|c| c.found == Found::Contradiction) {
                if let Some(row) = latest.stored.members.get_mut(&check.member) {
                    row.distrusted = true;
                }
            }
        }
        if let (Write::Refused(refusals), Ok(_)) = (&write, &result) {
            for refusal in refusals {
                self.tracks.get_mut(&refusal.member).audited = Some((refusal.reasons.clone(), now));
            }
        }
        let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
        if let Some(episode) = self.episode.as_mut().filter(|e| write.record() == Some(e.record))
            && episode.on_committed(&mut s, &write, &result)
        {
            if let Phase::Closing(last) = &episode.phase {
                let pause = Episode::pause_after(last.reason, &self.limits);
                self.tracks.get_mut(&episode.member).pause = pause.map(|p| (last.reason, now + p));
            }
            self.episode = None;
        }
        false
    }

    /// Everything that time or a free line allows, after every event.
    fn act(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let ticket = Ticket(self.tickets + 1);
        if let Some(effect) = self.line.next(now, ticket) {
            self.tickets += 1;
            if let Effect::Commit(_, Write::Intent(intent)) = &effect {
                self.begin(now, intent.clone(), effects);
            }
            effects.push(effect);
        }
        let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
        if let Some(episode) = &mut self.episode {
            episode.on_time(&mut s);
        }
        self.readings(now, effects);
        self.renew(now, effects);
        self.look(now, effects);
        let next = self.next_wake();
        if self.wake != Some(next) || now >= next {
            self.wake = Some(next);
            effects.push(Effect::Wake(next));
        }
    }

    /// The intent goes to the database: from here on it is an episode, and its member's BMC is its own.
    fn begin(&mut self, now: BootTime, intent: Intent, effects: &mut Vec<Effect>) {
        let Some(entry) = self.latest.as_ref().and_then(|l| l.map.entry(&intent.member)).cloned() else {
            return;
        };
        let target = Target { member: intent.member, entry, map: intent.map };
        let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
        self.talks.hang_up(&mut s, &target.member);
        self.tracks.get_mut(&target.member).watch = None;
        self.episode =
            Some(Episode::new(intent.record, target, intent.incarnation, self.settings.dry_run, now));
    }

    /// Before a permit the lease must cover the whole of it, so that it is not cut short in mid-course (lease.md section 4).
    fn renew(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let needed = self.limits.lease_for_send() + self.limits.permit_valid;
        let asked = self.renewal_asked.is_some_and(|at| now.since(at) < self.limits.lease_statement);
        if self.episode.as_ref().is_some_and(Episode::needs_lease)
            && self.me.deadline.since(now) < needed
            && !asked
        {
            self.renewal_asked = Some(now);
            effects.push(Effect::Renew);
        }
    }

    /// Asks for a pass when it is time, when a record waits for a fresh one, or when the last one is overdue.
    fn look(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let wants = self.episode.as_ref().and_then(Episode::wants_look);
        let due = match self.look {
            Some((ticket, began)) => {
                now.since(began) >= self.limits.pass_deadline || wants.is_some_and(|after| ticket <= after)
            }
            None => wants.is_some() || now >= self.next_look,
        };
        if due {
            self.tickets += 1;
            let ticket = Ticket(self.tickets);
            self.look = Some((ticket, now));
            self.next_look = now + self.limits.pass_interval;
            effects.push(Effect::Look(ticket));
        }
    }

    /// When something is due next without an event.
    fn next_wake(&self) -> BootTime {
        let look = match self.look {
            Some((_, began)) => began + self.limits.pass_deadline,
            None => self.next_look,
        };
        let busy: BTreeSet<_> = self.talks.open.values().map(|t| &t.member).collect();
        let watches =
            self.tracks.of.iter().filter(|(m, _)| !busy.contains(m)).filter_map(|(_, t)| t.watch.as_ref());
        let full = self.talks.count(Purpose::Watch) >= self.limits.watch_at_most;
        let watch = watches.map(|w| w.next.max(self.acts_from)).min().filter(|_| !full);
        let episode = self.episode.as_ref().and_then(Episode::wake);
        let mapped = matches!(self.latest.as_ref().map(|l| &l.map), Some(MapState::Valid(_)));
        let drills = mapped && self.talks.count(Purpose::Drill) == 0;
        let drill = drills.then(|| self.drill.next.max(self.acts_from));
        [episode, watch, drill, Some(self.me.deadline)].into_iter().flatten().fold(look, BootTime::min)
    }
}

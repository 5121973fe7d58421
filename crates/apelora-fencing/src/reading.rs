//! The readings that need no record: who is watched, read once more or drilled, and what comes of it.

use crate::decide::{Action, Decision};
use crate::episode::Step;
use crate::event::{Effect, Pass, Target};
use crate::map::MapState;
use crate::name::MemberName;
use crate::record::{Persisted, ProofKind};
use crate::supervisor::Supervisor;
use crate::time::BootTime;
use crate::view::Status;
use crate::watch::{Drill, Heard, Purpose, Sight, Standing, Watch};
use crate::write::{NewProof, ProofGround, Withdrawal};

impl Supervisor {
    /// Starts, keeps and ends watches, and reads proofs once more that another leader left.
    pub(crate) fn watches(
        &mut self,
        now: BootTime,
        pass: &Pass,
        stored: &Persisted,
        decision: &Decision,
        effects: &mut Vec<Effect>,
    ) {
        for verdict in &decision.verdicts {
            let member = &verdict.member;
            let entry = pass.map.entry(member).filter(|_| verdict.action == Action::Watch);
            let track = self.tracks.get_mut(member);
            match (&mut track.watch, entry) {
                (Some(watch), Some(entry)) if watch.entry == *entry => {}
                (slot, Some(entry)) => *slot = Some(Watch::new(entry.clone(), now)),
                (slot, None) => *slot = None,
            }
        }
        let Some(sha) = pass.map.sha().filter(|_| now >= self.acts_from) else { return };
        for (member, row) in &stored.members {
            let Some(proof) = row.standing_proof() else {
                self.tracks.get_mut(member).rechecked = false;
                continue;
            };
            let old = proof.kind == ProofKind::PowerOff
                && !proof.recovery_started
                && proof.age > self.limits.recheck_after;
            let busy =
                self.talks.with(member) || self.talks.count(Purpose::Recheck) >= self.limits.watch_at_most;
            let Some(entry) = self.entry(&pass.map, member).filter(|_| old && !busy) else { continue };
            if !self.tracks.get_mut(member).rechecked {
                let target = Target { member: member.clone(), entry: entry.clone(), map: sha };
                let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
                self.talks.start(&mut s, target, Purpose::Recheck);
            }
        }
    }

    /// A reading without a record ended.
    pub(crate) fn on_heard(&mut self, now: BootTime, Heard { talk, result }: Heard) {
        let member = &talk.member;
        let row = self.latest.as_mut().and_then(|l| l.stored.members.get_mut(member));
        let incarnation = row.as_ref().map(|r| r.incarnation);
        if let (Ok(reading), Some(row)) = (&result, row)
            && let Some(proof) = row.standing_proof()
            && proof.kind == ProofKind::PowerOff
            && reading.power().is_running()
        {
            self.line.pending.withdrawals.push(Withdrawal {
                member: member.clone(),
                incarnation: proof.incarnation,
                power: reading.power(),
            });
            // The next pass may be seconds away, and nothing may be restarted until then either.
            row.proof = None;
        }
        let track = self.tracks.get_mut(member);
        match talk.purpose {
            Purpose::Recheck => track.rechecked = true,
            Purpose::Drill => {
                let view = self.latest.as_ref().and_then(|l| l.view.as_ref());
                let cluster = match (track.online_since, view) {
                    (Some(since), _) => Sight::Online { since },
                    (None, Some(view)) if !view.status(member).is_some_and(Status::is_alive) => Sight::Away,
                    (None, _) => Sight::Unknown,
                };
                let standing = Standing { cluster, distrusted: row.is_some_and(|r| r.distrusted) };
                if let Some(check) = self.drill.heard(member, &result, &standing, now, &self.limits) {
                    // The latest finding counts.
                    self.line.pending.checks.retain(|c| c.member != *member);
                    self.line.pending.checks.push(check);
                }
            }
            Purpose::Watch => {
                let watch = track.watch.as_mut().filter(|w| w.entry == talk.entry);
                if let (Some(watch), Some(incarnation)) = (watch, incarnation)
                    && let Some(proof) = watch.heard(&result, now, &self.limits)
                {
                    let ground = ProofGround::Watched(proof);
                    let new = NewProof { member: member.clone(), incarnation, ground };
                    self.line.pending.proofs.insert(member.clone(), new);
                }
            }
        }
    }

    /// Starts the watch and drill readings that are due.
    pub(crate) fn readings(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let Some(MapState::Valid(map)) =
            self.latest.as_ref().map(|l| &l.map).filter(|_| now >= self.acts_from)
        else {
            return;
        };
        let mine = self.episode.as_ref().map(|e| &e.member);
        let mut s =
            Step { now, limits: &self.limits, tickets: &mut self.tickets, line: &mut self.line, effects };
        // Who waits longest goes first, so that BMCs that answer slowly do not keep the others waiting for ever.
        let watches = self.tracks.of.iter().filter_map(|(member, t)| Some((member, t.watch.as_ref()?)));
        let mut due: Vec<_> = watches.filter(|(_, w)| now >= w.next).collect();
        due.sort_by_key(|(_, w)| w.next);
        for (member, watch) in due {
            let full = self.talks.count(Purpose::Watch) >= self.limits.watch_at_most;
            if !full && mine != Some(member) && !self.talks.with(member) {
                let target = Target { member: member.clone(), entry: watch.entry.clone(), map: map.sha() };
                self.talks.start(&mut s, target, Purpose::Watch);
            }
        }
        if self.talks.count(Purpose::Drill) > 0 {
            return;
        }
        let free = |member: &MemberName| {
            let track = self.tracks.of.get(member);
            let paused = track.and_then(|t| t.pause).is_some_and(|(_, until)| now < until);
            let watched = track.is_some_and(|t| t.watch.is_some());
            mine != Some(member)
                && !paused
                && !watched
                && !self.talks.with(member)
                && self.settings.may_use(map.get(member))
        };
        if now < self.drill.next {
            return;
        }
        let due = self.drill.due(now, map, &self.limits, free);
        self.drill.next = now + Drill::pause(map, &self.limits);
        if let Some(member) = due
            && let Some(entry) = map.get(&member)
        {
            let target = Target { member, entry: entry.clone(), map: map.sha() };
            self.talks.start(&mut s, target, Purpose::Drill);
        }
    }
}

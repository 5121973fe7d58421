//! What one pass leads to: observations to store, proofs by lease, refusals to audit, the record in progress, an adoption,
//! an intent.

use std::sync::Arc;

use crate::decide::{Action, Decision, decide};
use crate::episode::Episode;
use crate::event::{Effect, Pass, Why};
use crate::facts::{Known, world};
use crate::reason::ReasonCode;
use crate::record::Persisted;
use crate::supervisor::{Latest, Supervisor};
use crate::time::BootTime;
use crate::view::{Status, ViewError};
use crate::world::World;
use crate::write::{Intent, NewProof, Numbers, ProofGround, Refusal, Seen};

impl Supervisor {
    pub(crate) fn on_pass(
        &mut self,
        now: BootTime,
        mut pass: Pass,
        effects: &mut Vec<Effect>,
    ) -> Option<Why> {
        let (ticket, began) = self.look.take_if(|(t, _)| *t == pass.ticket)?;
        if pass.view.as_ref().is_ok_and(|v| v.asked() < began || v.asked() > now) {
            pass.view = Err(ViewError::Unreadable("it is from before it was asked for".into()));
        }
        let leases = std::mem::take(&mut pass.leases);
        if let Ok(view) = &pass.view {
            // Leases that were read right after a gap say nothing yet.
            if self.tracks.see(view, now, self.limits.pass_gap()) {
                self.lease_watch.reset();
            } else {
                self.lease_watch.see(leases);
            }
            let own = self.settings.own_host.as_ref().and_then(|h| view.status(h));
            if own == Some(&Status::Offline) {
                return Some(Why::OwnHostOffline);
            }
        } else {
            self.tracks.reset();
            self.lease_watch.reset();
        }
        self.notice_alive(&pass);
        // Nothing is decided on rows that a write of our own may have overtaken; the series went on.
        if ticket <= self.stale_looks || self.line.is_busy() {
            return None;
        }
        match pass.stored.take() {
            Some(stored) => {
                self.line.unsettled = false;
                self.judge(now, pass, stored, effects);
            }
            // Nothing new, and a record in preparation ends.
            None => {
                let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
                if let Some(episode) = &mut self.episode {
                    episode.on_pass(&mut s, ticket, Err(ReasonCode::StoreUnreadable));
                }
            }
        }
        None
    }

    /// What every readable view is good for, even when the pass decides nothing: a member that was seen alive was alive.
    fn notice_alive(&mut self, pass: &Pass) {
        let Ok(view) = &pass.view else { return };
        if let Some(episode) = &mut self.episode
            && view.status(&episode.member).is_some_and(Status::is_alive)
        {
            episode.saw_alive();
        }
        let Some(latest) = &self.latest else { return };
        for listed in view.members().iter().filter(|l| l.status.is_alive()) {
            if latest.stored.members.get(&listed.name).is_some_and(|r| !r.online) {
                self.line.pending.observed.insert(listed.name.clone(), Seen::Online(Vec::new()));
            }
        }
    }

    fn judge(&mut self, now: BootTime, pass: Pass, stored: Persisted, effects: &mut Vec<Effect>) {
        let mine = self.episode.as_ref().map(|e| e.member.clone());
        let known = Known {
            now,
            fence_after: self.limits.fence_after,
            settings: &self.settings,
            tracks: &self.tracks,
            lease_left: self.me.deadline.since(now),
            open: mine.or_else(|| stored.open.as_ref().map(|o| o.member.clone())),
        };
        let world = world(&pass, &stored, &known);
        let decision = decide(&world, &self.limits);
        self.observe(&pass, &stored);
        self.prove_by_lease(&pass, &stored);
        self.refusals(now, &world, &decision);
        self.episode_pass(now, &pass, &stored, &decision, effects);
        self.adopt(now, &pass, &stored, effects);
        self.intend(&pass, &stored, &world, &decision);
        self.watches(now, &pass, &stored, &decision, effects);
        self.latest = Some(Latest {
            view: pass.view.ok(),
            healing: pass.healing,
            stored,
            map: pass.map,
            judged: Arc::new((world, decision)),
            judged_at: now,
        });
    }

    /// What was seen and is stored otherwise. Somebody who was seen alive stays noted until that is written.
    fn observe(&mut self, pass: &Pass, stored: &Persisted) {
        self.line.pending.observed.retain(|_, seen| *seen != Seen::Away);
        let Ok(view) = &pass.view else { return };
        let news = view.members().iter().filter_map(|listed| {
            let row = stored.members.get(&listed.name);
            let online = row.is_some_and(|r| r.online);
            let seen = if listed.status.is_alive() {
                let leases = self.lease_watch.alive(&self.settings.leases, &listed.name);
                let same = leases.is_empty() || row.is_some_and(|r| r.leases == leases);
                if online && same {
                    return None;
                }
                Seen::Online(leases)
            } else if online || row.is_none() {
                Seen::Away
            } else {
                return None;
            };
            Some((listed.name.clone(), seen))
        });
        for (member, seen) in news {
            match seen {
                Seen::Online(_) => drop(self.line.pending.observed.insert(member, seen)),
                Seen::Away => drop(self.line.pending.observed.entry(member).or_insert(seen)),
            }
        }
    }

    fn prove_by_lease(&mut self, pass: &Pass, stored: &Persisted) {
        // Kept proofs that are stored by now, or whose member's life went on, are dropped.
        self.line.pending.proofs.retain(|member, proof| {
            stored.members.get(member).is_some_and(|r| r.incarnation == proof.incarnation && !r.is_fenced())
        });
        let Ok(view) = &pass.view else { return };
        for listed in view.members().iter().filter(|l| l.status == Status::Offline) {
            let Some(row) =
                stored.members.get(&listed.name).filter(|r| r.incarnation.0 > 0 && !r.is_fenced())
            else {
                continue;
            };
            if let Some(proof) = self.lease_watch.dead(&self.settings.leases, &listed.name, &row.leases) {
                let ground = ProofGround::LeaseDead(proof);
                let new = NewProof { member: listed.name.clone(), incarnation: row.incarnation, ground };
                self.line.pending.proofs.insert(listed.name.clone(), new);
            }
        }
    }

    /// Refusals that a person should find in the audit: of members that are Offline long enough, when the reasons change
    /// and now and then.
    fn refusals(&mut self, now: BootTime, world: &World, decision: &Decision) {
        use ReasonCode::{AlreadyFenced, AlreadyInProgress, PersonConfirmed};
        self.line.pending.refusals.clear();
        for (facts, verdict) in world.members.iter().zip(&decision.verdicts) {
            let ripe = facts.status == Some(Status::Offline) && facts.offline_for >= Some(world.fence_after);
            if !ripe || verdict.action == Action::Intent {
                continue;
            }
            let reasons = verdict.reasons();
            if [AlreadyFenced, AlreadyInProgress, PersonConfirmed].iter().any(|r| reasons.contains(r)) {
                continue;
            }
            let track = self.tracks.get_mut(&facts.name);
            let told = track
                .audited
                .as_ref()
                .is_some_and(|(before, at)| *before == reasons && now.since(*at) < self.limits.audit_again);
            if !told {
                let numbers = numbers(world, facts.offline_for);
                self.line.pending.refusals.push(Refusal { member: facts.name.clone(), reasons, numbers });
            }
        }
    }

    fn episode_pass(
        &mut self,
        now: BootTime,
        pass: &Pass,
        stored: &Persisted,
        decision: &Decision,
        effects: &mut Vec<Effect>,
    ) {
        let Some(episode) = &mut self.episode else { return };
        let row = stored.members.get(&episode.member);
        let status = pass.view.as_ref().ok().and_then(|v| v.status(&episode.member));
        let back =
            status.is_some_and(Status::is_alive) || row.is_none_or(|r| r.incarnation != episode.incarnation);
        let verdict = decision.verdict(&episode.member);
        let against = verdict.map_or(Some(ReasonCode::NotAMember), |v| {
            v.reasons().into_iter().find(|r| *r != ReasonCode::AlreadyInProgress)
        });
        let same_map =
            pass.map.sha() == Some(episode.map) && pass.map.entry(&episode.member) == episode.entry.as_ref();
        let guards = if back {
            Err(ReasonCode::BackOnline)
        } else if let Some(reason) = against {
            Err(reason)
        } else if !same_map {
            Err(ReasonCode::MappingChanged)
        } else {
            let asked = self.tracks.asked.unwrap_or_default();
            let covered = self.me.deadline.earlier(self.limits.lease_for_send());
            Ok((asked + self.limits.permit_valid).min(covered))
        };
        let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
        episode.on_pass(&mut s, pass.ticket, guards);
    }

    /// An open record that is not in progress here is another leader's: it is read to its end before anything new.
    fn adopt(&mut self, now: BootTime, pass: &Pass, stored: &Persisted, effects: &mut Vec<Effect>) {
        let Some(open) = stored.open.as_ref().filter(|_| self.episode.is_none() && now >= self.acts_from)
        else {
            return;
        };
        let same_map = pass.map.sha() == Some(open.map);
        let entry = self.entry(&pass.map, &open.member).filter(|_| same_map).cloned();
        let mut s = Self::step(now, &self.limits, &mut self.tickets, &mut self.line, effects);
        self.talks.hang_up(&mut s, &open.member);
        self.episode = Some(Episode::adopt(open, entry, &mut s));
    }

    fn intend(&mut self, pass: &Pass, stored: &Persisted, world: &World, decision: &Decision) {
        self.line.pending.intent = None;
        let Some(index) = decision.chosen.filter(|_| self.episode.is_none() && stored.open.is_none()) else {
            return;
        };
        let facts = &world.members[index];
        let (Some(entry), Some(map), Some(row), Ok(view)) =
            (pass.map.entry(&facts.name), pass.map.sha(), stored.members.get(&facts.name), &pass.view)
        else {
            return;
        };
        let second = pass.second.witness(view).map(|w| w.responder().clone());
        let intent = Intent {
            record: pass.fresh_id,
            member: facts.name.clone(),
            incarnation: row.incarnation,
            uuid: entry.identity.uuid(),
            provider: entry.provider(),
            target: entry.target(),
            map,
            numbers: numbers(world, facts.offline_for),
            witnesses: (view.responder().clone(), second),
        };
        self.line.pending.intent = Some((intent, view.asked() + self.limits.permit_valid));
    }
}

fn numbers(world: &World, offline_for: Option<std::time::Duration>) -> Numbers {
    let listed = || world.members.iter().filter_map(|m| m.status.as_ref());
    Numbers {
        offline_for: offline_for.unwrap_or_default(),
        members_total: listed().count(),
        members_offline: listed().filter(|s| s.counts_offline()).count(),
        lease_remaining: world.lease.remaining,
    }
}

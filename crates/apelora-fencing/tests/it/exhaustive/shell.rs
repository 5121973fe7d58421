//! The two shells: how the effects of a supervisor are carried out, and time.

use super::model::*;
use std::time::Duration;

use apelora_fencing::event::{BmcError, Effect, Event, Outcome, Pass, ReadDone};
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer, SendReport};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status};
use apelora_fencing::write::{CommitError, Write};
use apelora_fencing::{MemberName, ReasonCode, RecordId};
use uuid::Uuid;

impl Exploration {
    pub(super) fn index(&self, name: &MemberName) -> usize {
        self.names.iter().position(|n| n == name).expect("a member of the model")
    }

    pub(super) fn tell(&self, s: &mut State, w: usize, event: Event) {
        let Some(supervisor) = &mut s.workers[w].supervisor else { return };
        let effects = supervisor.on(s.now, event);
        for effect in effects {
            self.carry_out(s, w, effect);
        }
        self.at_once(s, w);
    }

    pub(super) fn carry_out(&self, s: &mut State, w: usize, effect: Effect) {
        let now = s.now;
        let worker = &mut s.workers[w];
        match effect {
            Effect::Look(ticket) => {
                worker.doing.retain(|t| !matches!(t.doing, Doing::Look(..)));
                worker.begin(Doing::Look(ticket, now));
            }
            Effect::Commit(ticket, write) => worker.begin(Doing::Commit(ticket, write)),
            Effect::Permit(ticket, request) => worker.begin(Doing::Commit(ticket, Write::Permit(request))),
            Effect::Open(ticket, target, _) => {
                let m = self.index(&target.member);
                worker.talks.push((ticket, m));
                worker.begin(Doing::Open(ticket, m));
            }
            Effect::Read(ticket, _) => {
                let m = worker.talks.iter().find(|(t, _)| *t == ticket).expect("an open conversation").1;
                worker.begin(Doing::Read(ticket, m));
            }
            Effect::SendOff(ticket, reading, _) => {
                assert_eq!(reading.conversation(), ticket);
                let m = worker.talks.iter().find(|(t, _)| *t == ticket).expect("an open conversation").1;
                worker.begin(Doing::Send(ticket, m));
            }
            Effect::Close(ticket) => {
                worker.talks.retain(|(t, _)| *t != ticket);
                worker.doing.retain(|task| !matches!(task.doing,
                    Doing::Open(t, _) | Doing::Read(t, _) | Doing::Send(t, _) | Doing::Stalled(t, _) | Doing::Report(t, ..)
                        if t == ticket));
            }
            Effect::Renew => {
                let epoch = worker.epoch;
                if s.store.renew(now.since_boot(), epoch, holder(w)).is_ok() {
                    let deadline = now + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin);
                    if let Some(supervisor) = &mut s.workers[w].supervisor {
                        // Nothing but the deadline changes by it at this moment.
                        let more = supervisor.on(now, Event::Renewed(deadline));
                        more.into_iter().for_each(|e| self.carry_out(s, w, e));
                    }
                }
            }
            Effect::Wake(at) => worker.wake = Some(at),
            Effect::StepDown(why) => {
                worker.supervisor = None;
                worker.doing.clear();
                worker.talks.clear();
                worker.permit = None;
                worker.wake = None;
                worker.barred = why == apelora_fencing::event::Why::OwnHostOffline;
            }
        }
    }

    /// What happens without a choice: looks while nothing is in progress, and writes that change nothing but the audit.
    pub(super) fn at_once(&self, s: &mut State, w: usize) {
        let idle = s.workers[w].supervisor.as_ref().is_some_and(|v| v.in_progress().is_none());
        let quick = |d: &Doing| match d {
            Doing::Commit(_, Write::Refused(_) | Write::Checked(_)) => true,
            // Interesting only when it can go wrong.
            Doing::Commit(_, Write::Observed(_) | Write::Proof(_)) => s.budget.lost_answers == 0,
            _ => false,
        };
        if s.workers[w].doing.iter().any(|t| quick(&t.doing)) {
            self.commit(s, w, Fate::Made);
        } else if idle && s.workers[w].doing.iter().any(|t| matches!(t.doing, Doing::Look(..))) {
            self.look(s, w);
        }
    }

    pub(super) fn take(s: &mut State, w: usize, which: impl Fn(&Doing) -> bool) -> Option<Doing> {
        let i = s.workers[w].doing.iter().position(|t| which(&t.doing))?;
        Some(s.workers[w].doing.remove(i).doing)
    }

    pub(super) fn look(&self, s: &mut State, w: usize) {
        let Some(Doing::Look(ticket, asked)) = Self::take(s, w, |d| matches!(d, Doing::Look(..))) else {
            return;
        };
        let online: Vec<_> = (0..self.members).filter(|m| s.servers[*m].online).collect();
        let list = |by: usize| {
            let listed = (0..self.members).map(|m| Listed {
                name: self.names[m].clone(),
                status: if s.servers[m].online { Status::Online } else { Status::Offline },
                failure_domain: None,
            });
            ClusterView::new(asked, self.names[by].clone(), None, listed.collect()).unwrap()
        };
        let view = online.last().map(|by| list(*by)).ok_or(apelora_fencing::view::ViewError::Empty);
        let second = if online.len() > 1 { SecondView::Seen(list(online[0])) } else { SecondView::Missing };
        s.ids += 1;
        let pass = Pass {
            ticket,
            view,
            second,
            healing: Healing::Off,
            leases: Vec::new(),
            stored: Some(s.store.read(s.db())),
            map: self.maps[s.map].clone(),
            fresh_id: RecordId(Uuid::from_u128(s.ids)),
        };
        let mut offline = 0;
        for m in 0..self.members {
            let server = &mut s.servers[m];
            if server.online {
                // The life that is seen: the present one, unless its power is gone already.
                if server.powered {
                    s.workers[w].met |= 1 << m;
                    server.over &= !s.store.members[&self.names[m]].online;
                }
            } else {
                offline |= 1 << m;
            }
        }
        s.workers[w].looked = Some((asked, offline, s.map));
        self.tell(s, w, Event::Pass(Box::new(pass)));
    }

    pub(super) fn commit(&self, s: &mut State, w: usize, fate: Fate) {
        let Some(Doing::Commit(ticket, write)) = Self::take(s, w, |d| matches!(d, Doing::Commit(..))) else {
            return;
        };
        let made = matches!(fate, Fate::Made | Fate::MadeAnswerLost).then(|| self.make(s, w, &write));
        let result = match (fate, made) {
            (Fate::Made, Some(answer)) => answer,
            (Fate::Unavailable, _) => Err(CommitError::Unavailable),
            _ => Err(CommitError::Unknown),
        };
        if let (Write::Permit(request), Ok(_)) = (&write, &result) {
            s.workers[w].permit = Some(request.clone());
        }
        self.tell(s, w, Event::Done(ticket, Outcome::Committed(result)));
    }

    pub(super) fn send(&self, s: &mut State, w: usize, taking: Taking) {
        let Some(Doing::Send(ticket, m) | Doing::Stalled(ticket, m)) =
            Self::take(s, w, |d| matches!(d, Doing::Send(..) | Doing::Stalled(..)))
        else {
            return;
        };
        self.byte_leaves(s, w, m, taking);
        let answer = match taking {
            Taking::ActsUnanswered => SendAnswer::Unanswered,
            Taking::Fails => SendAnswer::NotSent(ReasonCode::PermitExpired),
            Taking::Acts | Taking::Ignores | Taking::ActsLate => SendAnswer::Accepted,
        };
        let report = SendReport { began: s.now, ended: s.now, answer };
        if s.workers[w].hung {
            s.workers[w].begin(Doing::Report(ticket, m, report));
        } else {
            self.tell(s, w, Event::Done(ticket, Outcome::Sent(report)));
        }
    }

    pub(super) fn byte_leaves(&self, s: &mut State, w: usize, m: usize, taking: Taking) {
        if taking == Taking::Fails {
            return;
        }
        self.sends(s, w, m);
        match taking {
            Taking::Acts | Taking::ActsUnanswered => power_off(s, m),
            Taking::ActsLate => s.servers[m].off_later = true,
            Taking::Ignores | Taking::Fails => {}
        }
    }

    pub(super) fn allows(s: &State, w: usize) -> bool {
        s.workers[w].permit.as_ref().is_some_and(|p| s.now < p.until())
    }

    pub(super) fn crash(s: &mut State, w: usize) {
        let epoch = s.workers[w].epoch;
        s.workers[w] = Worker::down(epoch);
    }

    pub(super) fn tick(&self, s: &mut State) {
        s.now = s.now + TICK;
        s.workers.iter_mut().flat_map(|w| &mut w.doing).for_each(|t| t.late = true);
        for w in 0..WORKERS {
            if s.workers[w].hung || s.workers[w].supervisor.is_none() {
                continue;
            }
            if s.store.renew(s.db(), s.workers[w].epoch, holder(w)).is_ok() {
                let deadline = s.now + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin);
                self.tell(s, w, Event::Renewed(deadline));
            } else {
                self.tell(s, w, Event::Lost);
            }
            if s.workers[w].wake.is_some_and(|at| at <= s.now) {
                self.tell(s, w, Event::Woke);
            }
        }
        // The ten minutes pass by their own action: keep what was sent and seen as old as it is.
        let now = s.db();
        for record in &mut s.store.records {
            let online = s.store.members.get(&record.member).and_then(|m| m.last_online_at);
            if let Some(at) = record.send_at {
                let since = online.is_some_and(|online| online > at);
                record.send_at = Some(if since { now.saturating_sub(TICK) } else { now });
            }
        }
        for (name, member) in &mut s.store.members {
            let sent = s.store.records.iter().filter(|r| r.member == *name).filter_map(|r| r.send_at).max();
            let since = sent.is_some_and(|at| member.last_online_at.is_some_and(|online| online > at));
            member.last_online_at = member.last_online_at.map(|_| if since { now } else { Duration::ZERO });
        }
    }
    pub(super) fn open(&self, s: &mut State, w: usize, m: usize, opens: bool) {
        let which = |d: &Doing| matches!(d, Doing::Open(_, of) if *of == m);
        let Some(Doing::Open(ticket, _)) = Self::take(s, w, which) else { return };
        if !opens {
            s.budget.read_errors -= 1;
            s.workers[w].talks.retain(|(t, _)| *t != ticket);
        }
        let result = if opens { Ok(()) } else { Err(unreachable_bmc()) };
        self.tell(s, w, Event::Done(ticket, Outcome::Opened(result)));
    }

    pub(super) fn read(&self, s: &mut State, w: usize, m: usize, telling: Telling) {
        let which = |d: &Doing| matches!(d, Doing::Read(_, of) if *of == m);
        let Some(Doing::Read(ticket, _)) = Self::take(s, w, which) else { return };
        let power = match telling {
            Telling::Truth if s.servers[m].powered => PowerWord::On,
            _ => PowerWord::Off,
        };
        match telling {
            Telling::Truth => {}
            Telling::Error => s.budget.read_errors -= 1,
            Telling::LieOff => s.budget.lies -= 1,
        }
        let identity = RawIdentity::LabName(format!("apelora-{}", self.names[m]));
        let result = match telling {
            Telling::Error => Err(unreachable_bmc()),
            _ => Ok(Reported { identity, power, detail: String::new() }),
        };
        let done = ReadDone { began: s.now, ended: s.now, result };
        self.tell(s, w, Event::Done(ticket, Outcome::Read(done)));
    }

    /// The loop goes on: what waited for it reaches it now.
    pub(super) fn thaw(&self, s: &mut State, w: usize) {
        s.workers[w].hung = false;
        while let Some(Doing::Report(ticket, _, report)) =
            Self::take(s, w, |d| matches!(d, Doing::Report(..)))
        {
            self.tell(s, w, Event::Done(ticket, Outcome::Sent(report)));
        }
        self.tell(s, w, Event::Woke);
    }
}

pub(super) fn unreachable_bmc() -> BmcError {
    BmcError { reason: ReasonCode::BmcUnreachable, transient: true, detail: String::new() }
}

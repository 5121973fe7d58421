//! What can happen in a state, and what it leads to.

use super::model::*;
use std::time::Duration;

use apelora_fencing::event::Event;
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::write::Write;
use apelora_fencing::{BootTime, Epoch, Incarnation, Supervisor};

use super::bfs::Model;

impl Model for Exploration {
    type State = State;
    type Action = Act;

    fn start(&self) -> State {
        let up = Server {
            powered: true,
            alive: true,
            online: true,
            off_later: false,
            over: false,
            sent_lately: false,
        };
        let mut store = MemoryStore::new(&self.limits);
        for name in &self.names {
            let member = store.members.entry(name.clone()).or_default();
            member.incarnation = Incarnation(1);
            member.online = true;
            member.last_online_at = Some(Duration::ZERO);
        }
        State {
            now: BootTime::new(ticks(100)),
            servers: vec![up; self.members],
            store,
            workers: [Worker::down(Epoch(0)), Worker::down(Epoch(0))],
            budget: self.budget,
            map: 0,
            ids: 1_000,
            reached: 0,
            broken: None,
        }
    }

    fn actions(&self, s: &State, into: &mut Vec<Act>) {
        let b = &s.budget;
        // Every operation ends by its deadline, which is one tick; only a frozen worker takes longer.
        if s.workers.iter().all(|w| w.hung || w.doing.iter().all(Task::may_last)) {
            into.push(Act::Tick);
        }
        if b.loops > 0 && s.servers.iter().any(|v| v.sent_lately) {
            into.push(Act::LoopPasses);
        }
        if b.edits > 0 {
            into.push(Act::Edit);
        }
        for (m, server) in s.servers.iter().enumerate() {
            if server.online != server.alive {
                into.push(Act::ViewCatchesUp(m));
            }
            if server.off_later {
                into.push(Act::LateOff(m));
            }
            if m >= self.mortal {
                continue;
            }
            if b.failures > 0 && server.alive {
                into.extend([Act::Hang(m), Act::PowerLoss(m)]);
            }
            if b.returns > 0 && !server.alive {
                into.push(Act::Return(m));
            }
            if b.false_offline > 0 && server.alive && server.online {
                into.push(Act::FalseOffline(m));
            }
            if b.persons > 0
                && !server.powered
                && s.store.members.get(&self.names[m]).is_some_and(|r| !r.online)
            {
                into.push(Act::Person(m));
            }
            if b.locks > 0 && !s.store.members[&self.names[m]].held {
                into.push(Act::Lock(m));
            }
        }
        for (w, worker) in s.workers.iter().enumerate() {
            let Some(supervisor) = &worker.supervisor else {
                let free = s.store.lease.holder.is_none() || s.store.lease.expires_at < s.db();
                if free && s.store.lease.epoch.0 < u64::from(b.epochs) && !worker.barred {
                    into.push(Act::Campaign(w));
                }
                continue;
            };
            if b.crashes > 0 {
                into.push(Act::Crash(w));
            }
            if worker.hung {
                into.push(Act::Thaw(w));
            } else if b.hangs > 0 {
                into.push(Act::Freeze(w));
            }
            for task in &worker.doing {
                self.actions_of(s, w, &task.doing, into);
            }
            if worker.hung {
                continue;
            }
            for (m, name) in self.names.iter().enumerate() {
                let row = &s.store.members[name];
                if row.proof.is_some_and(|p| !p.recovery_started) && supervisor.may_recover(s.now, name) {
                    into.push(Act::Recover(w, m));
                }
            }
        }
    }

    fn apply(&self, s: &mut State, act: Act) {
        match act {
            Act::Tick => self.tick(s),
            Act::LoopPasses => {
                s.budget.loops -= 1;
                s.servers.iter_mut().for_each(|v| v.sent_lately = false);
                s.store.records.iter_mut().filter(|r| !r.status.is_open()).for_each(|r| r.send_at = None);
            }
            Act::Hang(m) => {
                s.budget.failures -= 1;
                s.servers[m].alive = false;
            }
            Act::PowerLoss(m) => {
                s.budget.failures -= 1;
                power_off(s, m);
            }
            Act::Return(m) => {
                s.budget.returns -= 1;
                // A new boot: what ran before is gone. A power-off on its way may still come.
                s.servers[m] = Server { powered: true, alive: true, ..s.servers[m] };
                life_ends(s, m);
            }
            Act::FalseOffline(m) => {
                s.budget.false_offline -= 1;
                s.servers[m].online = false;
            }
            Act::ViewCatchesUp(m) => s.servers[m].online = s.servers[m].alive,
            Act::LateOff(m) => power_off(s, m),
            Act::Person(m) => {
                s.budget.persons -= 1;
                let shown = s.store.members[&self.names[m]].incarnation;
                let now = s.db();
                s.store.confirm_off(now, &self.names[m], shown).expect("a member that is not Online");
            }
            Act::Edit => {
                s.budget.edits -= 1;
                s.map = 1 - s.map;
            }
            Act::Lock(m) => {
                s.budget.locks -= 1;
                s.store.set_held(&self.names[m], true);
            }
            Act::Campaign(w) => {
                let now = s.db();
                let epoch = s.store.campaign(now, holder(w)).expect("an expired lease");
                let deadline = s.now + self.limits.lease_ttl.saturating_sub(self.limits.lease_margin);
                let me = Leadership { epoch, holder: holder(w), deadline };
                let own_host = self.own_hosts.then(|| self.names[w].clone());
                let settings = Settings { own_host, allow_lab: true, ..Settings::default() };
                s.workers[w] = Worker::down(epoch);
                s.workers[w].supervisor = Some(Supervisor::elected(s.now, me, self.limits.clone(), settings));
                self.tell(s, w, Event::Woke);
            }
            Act::Crash(w) => {
                s.budget.crashes -= 1;
                Self::crash(s, w);
            }
            Act::Freeze(w) => {
                s.budget.hangs -= 1;
                s.workers[w].hung = true;
            }
            Act::Thaw(w) => self.thaw(s, w),
            Act::Look(w) => self.look(s, w),
            Act::Commit(w, fate) => {
                if fate != Fate::Made {
                    s.budget.lost_answers -= 1;
                }
                self.commit(s, w, fate);
            }
            Act::CommitThenCrash(w) => {
                s.budget.crashes -= 1;
                if let Some(Doing::Commit(_, write)) = Self::take(s, w, |d| matches!(d, Doing::Commit(..))) {
                    let _ = self.make(s, w, &write);
                }
                Self::crash(s, w);
            }
            Act::Open(w, m, opens) => self.open(s, w, m, opens),
            Act::Read(w, m, telling) => self.read(s, w, m, telling),
            Act::Send(w, taking) => {
                if matches!(taking, Taking::Ignores | Taking::ActsLate | Taking::ActsUnanswered) {
                    s.budget.bad_sends -= 1;
                }
                self.send(s, w, taking);
            }
            Act::SendThenCrash(w) => {
                s.budget.crashes -= 1;
                if let Some(Doing::Send(_, m)) = Self::take(s, w, |d| matches!(d, Doing::Send(..))) {
                    self.byte_leaves(s, w, m, Taking::Acts);
                }
                Self::crash(s, w);
            }
            Act::Stall(w) => {
                if let Some(Doing::Send(t, m)) = Self::take(s, w, |d| matches!(d, Doing::Send(..))) {
                    s.workers[w].begin(Doing::Stalled(t, m));
                }
            }
            Act::Unstall(w) => self.send(s, w, Taking::Acts),
            Act::Recover(w, m) => {
                let member = self.names[m].clone();
                let incarnation = s.store.members[&member].incarnation;
                let _ = self.make(s, w, &Write::RecoveryStarted { member, incarnation });
            }
        }
        self.forget(s);
    }

    fn fingerprint(&self, s: &State) -> u64 {
        self.canonical(s)
    }

    fn broken(&self, s: &State) -> Option<String> {
        s.broken.clone()
    }

    fn reached(&self, s: &State) -> u64 {
        s.reached
    }
}

impl Exploration {
    pub(super) fn actions_of(&self, s: &State, w: usize, doing: &Doing, into: &mut Vec<Act>) {
        let (b, hung) = (&s.budget, s.workers[w].hung);
        match doing {
            Doing::Send(..) => {
                if !Self::allows(s, w) {
                    return into.push(Act::Send(w, Taking::Fails));
                }
                into.push(Act::Send(w, Taking::Acts));
                if b.bad_sends > 0 {
                    into.extend(
                        [Taking::Ignores, Taking::ActsLate, Taking::ActsUnanswered].map(|t| Act::Send(w, t)),
                    );
                }
                if b.crashes > 0 {
                    into.push(Act::SendThenCrash(w));
                }
                if self.stalls {
                    into.push(Act::Stall(w));
                }
            }
            Doing::Stalled(..) => into.push(Act::Unstall(w)),
            _ if hung => {}
            Doing::Look(..) => into.push(Act::Look(w)),
            Doing::Commit(_, write) => {
                into.push(Act::Commit(w, Fate::Made));
                if b.lost_answers > 0 {
                    let fates = [Fate::MadeAnswerLost, Fate::NotMadeAnswerLost, Fate::Unavailable];
                    into.extend(fates.map(|fate| Act::Commit(w, fate)));
                }
                if b.crashes > 0 && write.record().is_some() {
                    into.push(Act::CommitThenCrash(w));
                }
            }
            Doing::Open(_, m) => {
                into.push(Act::Open(w, *m, true));
                if b.read_errors > 0 {
                    into.push(Act::Open(w, *m, false));
                }
            }
            Doing::Read(_, m) => {
                into.push(Act::Read(w, *m, Telling::Truth));
                if b.read_errors > 0 {
                    into.push(Act::Read(w, *m, Telling::Error));
                }
                if b.lies > 0 && s.servers[*m].powered {
                    into.push(Act::Read(w, *m, Telling::LieOff));
                }
            }
            Doing::Report(..) => {}
        }
    }
}

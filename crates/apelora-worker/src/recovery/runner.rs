//! Finds what has to be restarted, plans it, and keeps one task for each instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::recovery::{Place, RecoveryRow, Restart, Step};
use apelora_fencing::restart::{Instance, Plan, Stays, sort};
use apelora_fencing::write::{CommitError, Write};
use apelora_fencing::{BootTime, MemberName};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::back::Returns;
use super::board;
use super::held::Held;
use super::ledger::{Key, Life};
use super::one::{One, Unread};
use super::seen::{Off, Seen};
use super::stock::{Stock, is_online};
use super::with::{Noted, With};
use crate::metrics::Recovered;
use crate::notice::Notice;
use crate::shell::Answer;

/// What ran on a fenced member is listed again this often: a move by hand may have come late.
const LIST_AGAIN: Duration = Duration::from_secs(60);
/// How long the restarts of before may take to be read.
const LOAD_LIMIT: Duration = Duration::from_secs(5);
/// How long the first write of a recovery may take.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// Of an instance that is in no stored inventory.
const NOT_KNOWN: &str = "Its server failed before its settings could be read, so that nobody knows whether it may run \
                         elsewhere; move and start it by hand.";

pub(super) struct Runner {
    with: Arc<With>,
    stock: Stock,
    returns: Returns,
    /// Whether the restarts of earlier leaders are in the ledger.
    loaded: bool,
    tasks: JoinSet<Key>,
    /// The tasks at work, and how each is told another target.
    working: BTreeMap<Key, watch::Sender<Option<MemberName>>>,
    /// Lives whose recovery is noted as begun.
    begun: BTreeSet<Life>,
    /// When the instances of a life were last looked for.
    listed: BTreeMap<Life, BootTime>,
    /// Lives whose instances could not be listed, told already.
    unlisted: BTreeSet<Life>,
    held: Held,
    /// Whether restarts wait for something that cannot be read.
    stalled: bool,
    /// Lives of which something was restarted or ended in this leadership, until that is told.
    busy: BTreeSet<Life>,
}

/// Works until nobody tells it anything any more.
pub(super) async fn run(with: Arc<With>, mut told: watch::Receiver<Seen>) {
    let mut runner = Runner {
        with,
        stock: Stock::default(),
        returns: Returns::default(),
        loaded: false,
        tasks: JoinSet::new(),
        working: BTreeMap::new(),
        begun: BTreeSet::new(),
        listed: BTreeMap::new(),
        unlisted: BTreeSet::new(),
        held: Held::default(),
        stalled: false,
        busy: BTreeSet::new(),
    };
    loop {
        tokio::select! {
            changed = told.changed() => {
                if changed.is_err() {
                    return;
                }
                let seen = told.borrow_and_update().clone();
                runner.pass(&seen).await;
            }
            Some(ended) = runner.tasks.join_next() => runner.ended(ended),
        }
        runner.finish();
    }
}

impl Runner {
    async fn pass(&mut self, seen: &Seen) {
        self.with.board.fenced(seen.fenced.clone());
        if !self.load().await {
            return;
        }
        self.returns.look(&self.with, seen).await;
        self.resume(seen).await;
        // What was read before the member was proven off may miss what was stored last.
        let newest = seen
            .ready
            .iter()
            .filter_map(|member| seen.fenced.get(member).map(|off| (member, off)))
            .filter(|(member, off)| !self.listed.contains_key(&life(member, off)))
            .map(|(_, off)| off.proven_at)
            .max();
        let waits = self.with.ledger.open().iter().any(|row| !self.working.contains_key(&Key::of(row)));
        let needs_target = self.with.ledger.open().iter().any(|row| self.is_stranded(seen, row));
        let since = if waits || needs_target { Some(seen.at) } else { newest };
        let enough = self.stock.refresh(&self.with, seen, since).await;
        // Somebody waits in the night: once, it is said for what.
        if !enough && !seen.ready.is_empty() && !self.stalled {
            warn!(
                "what is to be restarted waits, because what ran where or where there is room cannot be read"
            );
        }
        self.stalled = !enough && !seen.ready.is_empty();
        if enough {
            for member in &seen.ready {
                if let Some(off) = seen.fenced.get(member) {
                    self.recover(seen, member, off).await;
                }
            }
        }
        self.held.look(&self.with, seen);
        self.show(seen);
    }

    /// Reads the restarts of earlier leaders, once.
    async fn load(&mut self) -> bool {
        if self.loaded {
            return true;
        }
        let read = timeout(LOAD_LIMIT, self.with.outside.database.recoveries()).await;
        match read.unwrap_or_else(|_| Err("it took too long".into())) {
            Ok(rows) => {
                for row in rows {
                    self.with.ledger.put(row);
                }
                self.loaded = true;
            }
            Err(problem) => warn!(problem, "the restarts of before could not be read; nothing is restarted"),
        }
        self.loaded
    }

    /// Goes on with what an earlier leader began, and ends what is over.
    async fn resume(&mut self, seen: &Seen) {
        for row in self.with.ledger.open() {
            let key = Key::of(&row);
            if self.working.contains_key(&key) {
                continue;
            }
            let (member, incarnation) = (&row.member, row.incarnation);
            // The permission is over: its task is told so, and ends.
            if seen.is_over(member, incarnation) {
                self.work(Restart::resumed(row), None);
                continue;
            }
            let off = seen.fenced.get(member).filter(|off| off.incarnation == incarnation);
            let Some(off) = off.filter(|_| row.target.is_some() && seen.ready.contains(member)) else {
                continue;
            };
            if self.begin(&key.life, off).await {
                self.work(Restart::resumed(row), Some(off.proven_at));
            }
        }
    }

    /// Notes that a restart builds on the proof, once. Whether it is noted.
    async fn begin(&mut self, life: &Life, off: &Off) -> bool {
        if off.started || self.begun.contains(life) {
            return true;
        }
        let (member, incarnation) = life.clone();
        let write = Write::RecoveryStarted { member, incarnation };
        let made = timeout(BEGIN_LIMIT, self.with.term.commit(write)).await;
        let (result, audit) = made.unwrap_or((Err(CommitError::Unknown), Vec::new()));
        for row in &audit {
            self.with.outside.metrics.audited(row, None);
        }
        match result {
            Ok(_) => {
                self.begun.insert(life.clone());
                true
            }
            Err(CommitError::Deposed) => {
                self.with.answers.send(Answer::Lost);
                false
            }
            Err(failure) => {
                debug!(member = %life.0, ?failure, "the begin of its recovery could not be noted");
                false
            }
        }
    }

    fn work(&mut self, restart: Restart, proven_at: Option<BootTime>) {
        let key = Key::of(restart.row());
        let (sender, target) = watch::channel(restart.row().target.clone());
        let with = Arc::clone(&self.with);
        self.busy.insert(key.life.clone());
        self.working.insert(key.clone(), sender);
        let one = One { with, restart, target, proven_at, unread: Unread::default(), told: BTreeSet::new() };
        self.tasks.spawn(async move {
            one.run().await;
            key
        });
    }

    fn ended(&mut self, ended: Result<Key, JoinError>) {
        match ended {
            Ok(key) => drop(self.working.remove(&key)),
            // The leadership must not go on without it: the next one goes on from what is stored.
            Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
            Err(_) => {}
        }
    }

    /// Finds, plans and begins what a fenced member ran.
    async fn recover(&mut self, seen: &Seen, member: &MemberName, off: &Off) {
        let life = life(member, off);
        let mut found = Vec::new();
        let now = self.with.outside.clock.boot();
        if self.listed.get(&life).is_none_or(|at| now.since(*at) >= LIST_AGAIN) {
            match self.list(&life).await {
                Ok(new) => {
                    self.unlisted.remove(&life);
                    self.listed.insert(life.clone(), now);
                    found = new;
                }
                Err(problem) if self.unlisted.insert(life.clone()) => {
                    warn!(%member, problem, "what it ran cannot be listed; it is not restarted before");
                }
                Err(problem) => debug!(%member, problem, "what it ran could not be listed"),
            }
        }
        // Only now: what was listed elsewhere has a task since.
        found.extend(self.waiting(&life));
        sort(&mut found);
        let open = self.with.ledger.open();
        let plans = self.stock.plan(seen, &found, member, &open);
        for (instance, plan) in found.iter().zip(plans) {
            self.follow(&life, off, instance, plan).await;
        }
        self.retarget(seen, &life, &open);
    }

    /// What had no place yet.
    fn waiting(&self, life: &Life) -> Vec<Instance> {
        let rows = self.with.ledger.of(life).into_iter();
        let rows = rows.filter(|row| !row.step.is_end() && !self.working.contains_key(&Key::of(row)));
        rows.filter_map(|row| {
            let instance = self.stock.instance(&(row.project, row.instance))?.clone();
            Some(Instance { member: life.0.clone(), ..instance })
        })
        .collect()
    }

    /// What the cluster says is on the member and was not dealt with yet.
    async fn list(&mut self, life: &Life) -> Result<Vec<Instance>, String> {
        let listing = self.with.looker.list(&self.with.outside.cluster).await?;
        let mut found = Vec::new();
        let is_here = |place: &Place| matches!(place, Place::At { member, .. } if *member == life.0);
        for row in self.with.ledger.of(life) {
            let name = (row.project.clone(), row.instance.clone());
            let waits =
                !row.step.is_end() && row.target.is_none() && !self.working.contains_key(&Key::of(&row));
            // Somebody has moved or deleted it while there was no place for it: its task looks, and ends.
            if waits && listing.get(&name).is_none_or(|place| !is_here(place)) {
                self.work(Restart::resumed(row), None);
            }
        }
        for (name, place) in listing.iter() {
            let key = Key { life: life.clone(), project: name.0.clone(), name: name.1.clone() };
            // One that had no place when the proof was withdrawn is found again under the next proof.
            let is_new = match self.with.ledger.get(&key) {
                Some(row) => row.step == Step::GaveUp && row.target.is_none(),
                None => true,
            };
            if !is_here(place) || !is_new {
                continue;
            }
            match self.stock.instance(name) {
                Some(instance) => found.push(Instance { member: life.0.clone(), ..instance.clone() }),
                None => self.stays(&key, NOT_KNOWN).await,
            }
        }
        Ok(found)
    }

    /// Carries out what is planned for one instance.
    async fn follow(&mut self, life: &Life, off: &Off, instance: &Instance, plan: Plan) {
        let (project, name) = (instance.project.clone(), instance.name.clone());
        let key = Key { life: life.clone(), project, name };
        let (target, start) = match plan {
            Plan::Restart(target) => (target, true),
            Plan::Move(target) => (target, false),
            Plan::Stay(Stays::NotFenced) => return,
            Plan::Stay(stays @ (Stays::Architecture | Stays::NoTarget | Stays::NoRoom)) => {
                return self.waits(&key, instance, stays).await;
            }
            Plan::Stay(stays) => return self.stays(&key, stays.sentence()).await,
        };
        if !self.begin(life, off).await {
            // It is found again.
            self.listed.remove(life);
            return;
        }
        // The plan is stored first, so that it is known as a whole while a few are worked on.
        let row = RecoveryRow { target: Some(target), start, ..row(&key) };
        match self.with.note(&row).await {
            Noted::Stored(_) => self.work(Restart::resumed(row), Some(off.proven_at)),
            Noted::NotNow | Noted::Lost => drop(self.listed.remove(life)),
        }
    }

    /// It stays for good.
    async fn stays(&mut self, key: &Key, sentence: &str) {
        let row = RecoveryRow { step: Step::Stays, detail: sentence.to_owned(), ..row(key) };
        let Noted::Stored(_) = self.with.note(&row).await else {
            self.listed.remove(&key.life);
            return;
        };
        self.busy.insert(key.life.clone());
        self.with.outside.metrics.recovered(Recovered::Stayed);
        let (project, instance) = (row.project, row.instance);
        let (member, sentence) = (row.member, row.detail);
        self.with.outside.notices.tell(Notice::Stays { project, instance, member, sentence });
    }

    /// It stays until there is a place for it.
    async fn waits(&mut self, key: &Key, instance: &Instance, stays: Stays) {
        let start = instance.autostart.unwrap_or(instance.was_running);
        let row = RecoveryRow { start, detail: stays.sentence().to_owned(), ..row(key) };
        if self.with.ledger.get(key).as_ref() == Some(&row) {
            return;
        }
        let Noted::Stored(_) = self.with.note(&row).await else {
            self.listed.remove(&key.life);
            return;
        };
        let (project, instance) = (row.project, row.instance);
        let problem = row.detail.trim_end_matches('.').to_owned();
        self.with.outside.notices.tell(Notice::StartRefused { project, instance, problem });
    }

    /// Whether a restart that is at work cannot reach its target as things are.
    fn is_stranded(&self, seen: &Seen, row: &RecoveryRow) -> bool {
        let Some(target) = &row.target else { return false };
        match row.step {
            Step::Planned => !self.stock.is_usable(seen, target),
            // The move may have been asked for: another target only if this one is gone.
            Step::Moving => !is_online(seen, target),
            _ => false,
        }
    }

    /// Gives other targets to restarts whose targets are gone.
    fn retarget(&self, seen: &Seen, life: &Life, open: &[RecoveryRow]) {
        for row in open.iter().filter(|row| (&row.member, row.incarnation) == (&life.0, life.1)) {
            let Some(sender) = self.working.get(&Key::of(row)) else { continue };
            if !self.is_stranded(seen, row) {
                continue;
            }
            let name = (row.project.clone(), row.instance.clone());
            let Some(instance) = self.stock.instance(&name) else { continue };
            let instance = [Instance { member: life.0.clone(), ..instance.clone() }];
            let plan = self.stock.plan(seen, &instance, &life.0, open).pop();
            if let Some(Plan::Restart(target) | Plan::Move(target)) = plan {
                sender.send_if_modified(|before| {
                    let is_new = before.as_ref() != Some(&target);
                    *before = Some(target);
                    is_new
                });
            }
        }
    }

    /// Shows what would become of everything.
    fn show(&self, seen: &Seen) {
        let Some(view) = &seen.view else { return };
        let open = self.with.ledger.open();
        let mut planned = BTreeMap::new();
        for listed in view.members() {
            let on = self.stock.on(&listed.name);
            let plans = self.stock.plan(seen, on, &listed.name, &open);
            let all = on.iter().zip(&plans).map(|(instance, plan)| board::planned(instance, plan));
            planned.insert(listed.name.clone(), all.collect());
        }
        self.with.board.plan(planned);
    }

    /// Tells of recoveries that have ended.
    fn finish(&mut self) {
        let ended: Vec<_> = self
            .busy
            .iter()
            .filter(|life| {
                let is_working = self.working.keys().any(|key| key.life == **life);
                let rows = self.with.ledger.of(life);
                self.listed.contains_key(*life) && !is_working && rows.iter().all(|row| row.step.is_end())
            })
            .cloned()
            .collect();
        for life in ended {
            let rows = self.with.ledger.of(&life);
            let count = |is: fn(&RecoveryRow) -> bool| rows.iter().filter(|row| is(row)).count();
            self.busy.remove(&life);
            self.with.outside.notices.tell(Notice::Recovered {
                member: life.0,
                restarted: count(|row| row.step == Step::Done && row.start),
                moved: count(|row| row.step == Step::Done && !row.start),
                stayed: count(|row| row.step == Step::Stays),
                gave_up: count(|row| row.step == Step::GaveUp),
            });
        }
    }
}

fn life(member: &MemberName, off: &Off) -> Life {
    (member.clone(), off.incarnation)
}

/// A row of which nothing is known yet.
fn row(key: &Key) -> RecoveryRow {
    RecoveryRow {
        member: key.life.0.clone(),
        incarnation: key.life.1,
        project: key.project.clone(),
        instance: key.name.clone(),
        target: None,
        start: false,
        step: Step::Planned,
        attempts: 0,
        detail: String::new(),
    }
}

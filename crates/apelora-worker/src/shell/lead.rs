//! One leadership: one loop owns the machine, tells it what happened, and carries out what it wants. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::Outcome;
use apelora_fencing::proof::SendPermit;
use apelora_fencing::record::Persisted;
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::write::Committed;
use apelora_fencing::{BootTime, Event, HolderId, MemberName, Supervisor, Ticket};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::error;

use super::answer::{Answer, Answers};
use super::database::Term;
use super::inventory;
use super::outside::Outside;
use super::pass::Passed;
use super::publish::{self, Publisher};
use super::renewal::{self, Progress};
use super::story::Story;
use super::talk::Talk;
use crate::notice::{Notice, SteppedDown};
use crate::recovery::{self, Recovery};

/// A leading loop compares its clocks at least this often: timers stand still in a suspend, the lease does not.
const TICK: Duration = Duration::from_secs(1);
/// No timer is exact to less than this.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// How long conversations may take to end when the role is over.
const CLOSING_LIMIT: Duration = Duration::from_secs(4);
/// How long giving the lease back may take.
const RESIGN_LIMIT: Duration = Duration::from_secs(3);

/// What is left of a leadership.
pub(super) struct Left {
    /// Why it ended.
    pub(super) why: SteppedDown,
    /// The member that this worker runs on, as far as is known.
    pub(super) own_host: Option<MemberName>,
    /// What was told to people, for the next time.
    pub(super) story: Story,
}

/// A leadership in office.
pub(super) struct Lead {
    pub(super) outside: Arc<Outside>,
    pub(super) term: Arc<Term>,
    pub(super) own_host: Option<MemberName>,
    pub(super) supervisor: Supervisor,
    /// The lease's local end, as far as the loop was told.
    deadline: BootTime,
    pub(super) answers: Answers,
    heard: mpsc::UnboundedReceiver<Answer>,
    pub(super) tasks: JoinSet<()>,
    /// The conversations' tasks.
    pub(super) talkers: JoinSet<()>,
    pub(super) talks: BTreeMap<Ticket, Talk>,
    /// Beside the conversations; lent to the one that sends, dropped at the record's final.
    pub(super) permit: Option<SendPermit>,
    /// Whether the permit is lent: a request may be on its way.
    pub(super) sending: bool,
    pub(super) look: Option<AbortHandle>,
    pub(super) wake: Option<BootTime>,
    pub(super) renew_now: Arc<Notify>,
    progress: Arc<Progress>,
    pub(super) story: Story,
    /// The rows of the latest pass that could read them.
    stored: Persisted,
    publisher: Publisher,
    /// Something happened that the status document tells.
    news: bool,
    inventory: inventory::Keeper,
    recovery: Recovery,
    pub(super) ended: Option<SteppedDown>,
}

impl Lead {
    /// Takes office. `own_host` is the member that this worker runs on, as far as is known.
    pub(super) fn new(
        outside: Arc<Outside>,
        term: Term,
        holder: HolderId,
        own_host: Option<MemberName>,
        story: Story,
    ) -> Self {
        let now = outside.clock.boot();
        let (deadline, epoch) = (term.deadline(), term.epoch());
        let config = &outside.config;
        let settings = Settings {
            own_host: own_host.clone(),
            single_view: config.incus.single_view,
            failure_domain_rule: config.failure_domain_rule,
            allow_lab: config.providers.allow_lab,
            dry_run: config.dry_run,
            leases: config.leases.clone(),
        };
        let leadership = Leadership { epoch, holder, deadline };
        let supervisor = Supervisor::elected(now, leadership, config.limits.clone(), settings);
        let term = Arc::new(term);
        let (answers, heard) = Answers::channel();
        let progress = Arc::new(Progress::default());
        progress.report(now);
        let renew_now = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(renewal::keep(
            Arc::clone(&outside),
            Arc::clone(&term),
            Arc::clone(&progress),
            Arc::clone(&renew_now),
            answers.clone(),
        ));
        let (publisher, publishing) = publish::pair(Arc::clone(&term), answers.clone());
        tasks.spawn(publishing);
        let (keeper, keeping) = inventory::pair(Arc::clone(&outside), Arc::clone(&term), answers.clone());
        tasks.spawn(keeping);
        let (recovery, recovering) = Recovery::new(Arc::clone(&outside), Arc::clone(&term), answers.clone());
        tasks.spawn(recovering);
        outside.metrics.leads(Some(epoch));
        outside.health.leading(epoch);
        outside.notices.tell(Notice::Elected { epoch, own_host: own_host.clone() });
        Self {
            outside,
            term,
            own_host,
            supervisor,
            deadline,
            answers,
            heard,
            tasks,
            talkers: JoinSet::new(),
            talks: BTreeMap::new(),
            permit: None,
            sending: false,
            look: None,
            wake: None,
            renew_now,
            progress,
            story,
            stored: Persisted::default(),
            publisher,
            news: true,
            inventory: keeper,
            recovery,
            ended: None,
        }
    }

    /// Leads until the role is over or the worker is told to stop.
    pub(super) async fn run(mut self, stop: &mut watch::Receiver<bool>) -> Left {
        self.take(Event::Woke);
        while self.ended.is_none() {
            let now = self.outside.clock.boot();
            self.progress.report(now);
            let nap = self.wake.map_or(TICK, |at| at.since(now)).clamp(SHORTEST_NAP, TICK);
            let answer = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {
                    self.ended = Some(SteppedDown::Stopped);
                    break;
                }
                Some(ended) = self.tasks.join_next() => {
                    self.task_ended(&ended);
                    None
                }
                Some(ended) = self.talkers.join_next() => {
                    self.task_ended(&ended);
                    None
                }
                Some(answer) = self.heard.recv() => Some(answer),
                () = sleep(nap) => None,
            };
            self.woken(answer);
        }
        self.leave().await
    }

    /// What is due comes first, then what was heard: a timer that came late in a suspend is noticed before anything that
    /// was heard meanwhile counts.
    fn woken(&mut self, answer: Option<Answer>) {
        let now = self.outside.clock.boot();
        if now >= self.deadline || self.wake.is_some_and(|at| now >= at) {
            self.take(Event::Woke);
        }
        if let Some(answer) = answer.filter(|_| self.ended.is_none()) {
            self.hear(answer);
        }
        let now = self.outside.clock.boot();
        if self.ended.is_none() && self.publisher.wants(now, std::mem::take(&mut self.news)) {
            let instances = |member: &MemberName| self.recovery.instances(member);
            let config = &self.outside.config;
            let status = self.story.sheet.fill(now, config, &self.supervisor, &instances);
            self.publisher.offer(now, &status);
        }
    }

    /// A task that panicked may owe an answer that the machine waits for: the role ends, and open records are adopted.
    fn task_ended(&mut self, ended: &Result<(), JoinError>) {
        if ended.as_ref().is_err_and(JoinError::is_panic) {
            error!("a task of this leadership failed; the leadership ends and starts again");
            self.ended = Some(SteppedDown::Fault);
        }
    }

    pub(super) fn take(&mut self, event: Event) {
        for effect in self.supervisor.on(self.outside.clock.boot(), event) {
            self.carry_out(effect);
        }
    }

    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Passed(passed) => self.passed(*passed),
            Answer::Committed(ticket, write, result, audit) => {
                self.news = true;
                self.story.committed(&self.outside, &self.supervisor, &write, &result, &audit);
                self.take(Event::Done(ticket, Outcome::Committed(result)));
            }
            Answer::Permitted(ticket, result, audit) => {
                self.story.permitted(&self.outside, &self.supervisor, &audit, result.is_ok());
                let result = result.map(|permit| {
                    self.permit = Some(permit);
                    Committed::Done
                });
                self.take(Event::Done(ticket, Outcome::Committed(result)));
            }
            Answer::Opened(ticket, result) => {
                if let Err(failure) = &result
                    && let Some(talk) = self.talks.remove(&ticket)
                {
                    self.story.talked(&self.outside, &self.supervisor, talk.target(), Err(failure));
                }
                self.take(Event::Done(ticket, Outcome::Opened(result)));
            }
            Answer::Read(ticket, done) => {
                if let Some(talk) = self.talks.get(&ticket) {
                    self.story.talked(&self.outside, &self.supervisor, talk.target(), done.result.as_ref());
                }
                self.take(Event::Done(ticket, Outcome::Read(done)));
            }
            Answer::Sent(ticket, report, permit) => {
                self.sending = false;
                let record = self.supervisor.in_progress().map(|(_, record)| record);
                self.permit = Some(permit).filter(|p| record == Some(p.record()));
                if let Some(talk) = self.talks.get(&ticket) {
                    self.story.sent(&self.outside, &talk.target().member, &report);
                }
                self.take(Event::Done(ticket, Outcome::Sent(report)));
            }
            Answer::NotSent(ticket, report) => {
                if let Some(talk) = self.talks.get(&ticket) {
                    self.story.sent(&self.outside, &talk.target().member, &report);
                }
                self.take(Event::Done(ticket, Outcome::Sent(report)));
            }
            Answer::Renewed(deadline) => {
                self.deadline = self.deadline.max(deadline);
                self.take(Event::Renewed(deadline));
            }
            Answer::Lost => self.take(Event::Lost),
            Answer::MayRecover { member, incarnation, reply } => {
                let may = self.supervisor.may_recover(self.outside.clock.boot(), &member);
                let _ = reply.send(recovery::permission(may, &self.stored, &member, incarnation));
            }
        }
    }

    fn passed(&mut self, passed: Passed) {
        if passed.own_host.is_some() && passed.own_host != self.own_host {
            // The machine must know which member it may never switch off before it judges anything.
            self.own_host = passed.own_host;
            self.ended = Some(SteppedDown::OwnHostLearnt);
            return;
        }
        self.news = true;
        self.story.passed(&self.outside, &passed);
        if let Some(stored) = &passed.pass.stored {
            self.stored = stored.clone();
        }
        if let Ok(view) = &passed.pass.view {
            self.inventory.seen(view);
        }
        let view = passed.pass.view.as_ref().ok().cloned();
        self.take(Event::Pass(Box::new(passed.pass)));
        let now = self.outside.clock.boot();
        if self.ended.is_none() {
            self.recovery.passed(now, &self.supervisor, view.as_ref(), &self.stored);
        }
    }

    /// The role is over: conversations end, everything is dropped, and the lease is let go where it may still be held.
    async fn leave(mut self) -> Left {
        let why = self.ended.unwrap_or(SteppedDown::Stopped);
        self.talks.clear();
        self.recovery.stop();
        self.permit = None;
        if let Some(look) = self.look.take() {
            look.abort();
        }
        let closed = async { while self.talkers.join_next().await.is_some() {} };
        let _ = timeout(CLOSING_LIMIT, closed).await;
        self.talkers.shutdown().await;
        self.tasks.shutdown().await;
        // A request that may be on its way keeps the lease to its end, so that nobody else acts before it is over.
        if !self.sending && why.may_resign() {
            let _ = timeout(RESIGN_LIMIT, self.term.resign()).await;
        }
        self.outside.metrics.leads(None);
        self.outside.notices.tell(Notice::SteppedDown { why });
        Left { why, own_host: self.own_host, story: self.story }
    }
}

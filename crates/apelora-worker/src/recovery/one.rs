//! The restart of one instance, carried out: the pure machine says what comes next, and is told what became of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::recovery::{Act, Heard, Permission, RecoveryRow, Restart, Step};
use apelora_fencing::{BootTime, Incarnation, MemberName};
use apelora_incus::{Client, Ended, IncusError, OperationId, Problem};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::ledger::Key;
use super::prober::Sign;
use super::with::{Noted, With};
use crate::metrics::Recovered;
use crate::notice::Notice;

/// What the request of a move or a start may take (tests/data/incus/README.md section 6).
const POST_LIMIT: Duration = Duration::from_secs(15);
/// How long a move is waited for: it changes the cluster's database only.
const MOVE_LIMIT: Duration = Duration::from_secs(60);
/// How long a start is waited for. It goes on in the cluster, and is looked at again.
const START_LIMIT: Duration = Duration::from_secs(180);
/// What cannot be read for this long is told.
const UNREAD: Duration = Duration::from_secs(60);
/// Before the database, or the member itself, is asked again.
const PAUSE: Duration = Duration::from_secs(3);
/// Sleeping is compared with the boot clock this often: timers stand still in a suspend.
const NAP: Duration = Duration::from_secs(1);

/// Drives one restart to its end.
pub(super) struct One {
    pub(super) with: Arc<With>,
    pub(super) restart: Restart,
    /// Another target, from somebody who plans.
    pub(super) target: watch::Receiver<Option<MemberName>>,
    /// When the member was proven off, as far as is known.
    pub(super) proven_at: Option<BootTime>,
    /// That it cannot be read where the instance is, or nothing be asked for, although the cluster can be read.
    pub(super) unread: Unread,
    /// Problems that were told already.
    pub(super) told: BTreeSet<String>,
}

/// Since when nothing comes of it, and whether that was told.
#[derive(Default)]
pub(super) struct Unread {
    since: Option<BootTime>,
    told: bool,
}

impl One {
    /// Works until the restart has ended, or somebody else leads.
    pub(super) async fn run(mut self) {
        loop {
            let turn = {
                let with = Arc::clone(&self.with);
                // One of a few, so that a cluster is not flooded; let go during a rest, so that an instance whose storage
                // is still locked keeps nobody waiting.
                let Ok(_hand) = with.hands.acquire().await else { return };
                self.turn().await
            };
            match turn {
                Turn::Rest(rest) => {
                    self.rest(rest).await;
                    self.restart.heard(Heard::Rested);
                }
                Turn::Again => self.rest(PAUSE).await,
                Turn::Ended => return,
            }
        }
    }

    async fn turn(&mut self) -> Turn {
        let mut client = None;
        let (member, incarnation) = {
            let row = self.restart.row();
            (row.member.clone(), row.incarnation)
        };
        loop {
            if self.target.has_changed().unwrap_or(false) {
                let target = self.target.borrow_and_update().clone();
                self.restart.retarget(target);
            }
            if self.with.is_followed(self.restart.row()) {
                self.restart.followed();
            }
            let permission = self.with.answers.may_recover(&member, incarnation).await;
            let act = self.restart.next(permission);
            let refusal = match &act {
                Act::Move(_) | Act::Start => self.refusal(&member, incarnation).await,
                // Nor is it stored that something is begun which is not going to be asked for. Why it waits is stored.
                Act::Note(row) if self.begins(row) => {
                    if self.sign(&member, incarnation).await.is_some() {
                        return Turn::Rest(PAUSE);
                    }
                    None
                }
                _ => None,
            };
            let heard = match &act {
                Act::Note(row) => match self.with.note(row).await {
                    Noted::Stored(before) => {
                        self.tell(before, row);
                        Heard::Noted
                    }
                    Noted::NotNow => return Turn::Again,
                    Noted::Lost => return Turn::Ended,
                },
                Act::Rest(rest) => return Turn::Rest(*rest),
                Act::End => return Turn::Ended,
                Act::Look | Act::Move(_) | Act::Start => {
                    if client.is_none() {
                        client = self.with.outside.cluster.client();
                    }
                    match (&client, refusal) {
                        (_, Some(why)) => Heard::Unreadable(why),
                        (Some(client), None) => self.act(client, &act).await,
                        (None, None) => Heard::Unreadable("there is no endpoint of the cluster".into()),
                    }
                }
            };
            match &heard {
                Heard::Trouble(why) => {
                    self.unread = Unread::default();
                    self.refused(why);
                }
                Heard::Unreadable(why) => {
                    // Another endpoint may know more.
                    client = None;
                    if permission == Permission::Granted {
                        self.unread(why);
                    }
                }
                Heard::Accepted | Heard::Noted => self.unread = Unread::default(),
                _ => {}
            }
            self.restart.heard(heard);
            if self.restart.seen_at_home() {
                let now = self.with.outside.clock.boot();
                self.with.prober.saw_alive(&member, incarnation, now).await;
                let why = format!(
                    "one of them runs on {member}, which may be back; if it is not to be back, switch it off"
                );
                self.with.tell_waits(&(member.clone(), incarnation), &why);
            }
        }
    }

    /// Whether a row says that a move or a start begins.
    fn begins(&self, row: &RecoveryRow) -> bool {
        matches!(row.step, Step::Moving | Step::Starting)
            && self.with.ledger.get(&Key::of(row)).is_none_or(|stored| stored.step < row.step)
    }

    /// Why the next move or start is not made after all: the member is asked, and then once more for permission, because that
    /// may have taken a second.
    async fn refusal(&self, member: &MemberName, incarnation: Incarnation) -> Option<String> {
        let sign = self.sign(member, incarnation).await;
        if sign.is_some() {
            return sign;
        }
        let permission = self.with.answers.may_recover(member, incarnation).await;
        (permission != Permission::Granted).then(|| "it may not go on at the moment".to_owned())
    }

    /// Why nothing may be moved or started as far as the member itself is concerned, whatever the others list.
    async fn sign(&self, member: &MemberName, incarnation: Incarnation) -> Option<String> {
        let With { outside, prober, board, .. } = &*self.with;
        let Some(off) = board.off(member).filter(|off| off.incarnation == incarnation) else {
            return Some("it may not go on at the moment".to_owned());
        };
        let why = match prober.ask(&outside.cluster, &*outside.clock, member, &off).await {
            Sign::Silent => return None,
            Sign::Answers => format!(
                "{member} answers at its own address: it may be back, so nothing is moved or started; if it is not to be \
                 back, switch it off"
            ),
            Sign::WasAlive => format!(
                "{member} was seen alive after it was proven off and may run them; make sure that it is off, then \
                 `apelora member confirm-off {member}`"
            ),
        };
        self.with.tell_waits(&(member.clone(), incarnation), &why);
        Some(why)
    }

    async fn act(&self, client: &Client, act: &Act) -> Heard {
        let row = self.restart.row();
        let (project, name) = (row.project.as_str(), row.instance.as_str());
        let by = Instant::now() + POST_LIMIT;
        match act {
            Act::Move(target) => {
                let asked = client.move_instance(project, name, target.as_str(), by).await;
                end_of(client, asked, MOVE_LIMIT).await
            }
            Act::Start => end_of(client, client.start_instance(project, name, by).await, START_LIMIT).await,
            _ => self.with.looker.look(&self.with.outside.cluster, client, project, name).await,
        }
    }

    /// Rests this long by the boot clock.
    async fn rest(&self, rest: Duration) {
        let clock = &self.with.outside.clock;
        let until = clock.boot() + rest;
        loop {
            let left = until.since(clock.boot());
            if left.is_zero() {
                return;
            }
            sleep(left.min(NAP)).await;
        }
    }

    /// Nothing comes of it: told when it lasts, as when a client certificate was restricted further.
    fn unread(&mut self, why: &str) {
        let now = self.with.outside.clock.boot();
        let since = *self.unread.since.get_or_insert(now);
        // Once, whichever endpoint says so in its own words.
        if now.since(since) >= UNREAD && !std::mem::replace(&mut self.unread.told, true) {
            self.refused(why);
        }
    }

    fn refused(&mut self, why: &str) {
        if !self.told.insert(why.to_owned()) {
            return;
        }
        let RecoveryRow { project, instance, .. } = self.restart.row().clone();
        self.with.outside.notices.tell(Notice::StartRefused { project, instance, problem: why.to_owned() });
    }

    /// A step is stored: what it means for people.
    fn tell(&self, before: Option<Step>, row: &RecoveryRow) {
        let before = before.unwrap_or(Step::Planned);
        if before == row.step {
            return;
        }
        let outside = &self.with.outside;
        let (project, instance) = (row.project.clone(), row.instance.clone());
        let arrived = matches!(row.step, Step::Moved | Step::Starting | Step::Done);
        if let (true, true, Some(to)) = (before < Step::Moved, arrived, row.target.clone()) {
            let (project, instance) = (project.clone(), instance.clone());
            outside.notices.tell(Notice::Moved { project, instance, to });
        }
        match (row.step, row.target.clone()) {
            (Step::Done, Some(on)) if row.start => {
                outside.metrics.recovered(Recovered::Restarted);
                if let Some(proven_at) = self.proven_at {
                    outside.metrics.restarted(outside.clock.boot().since(proven_at));
                }
                outside.notices.tell(Notice::Started { project, instance, on });
            }
            (Step::Done, _) => outside.metrics.recovered(Recovered::Moved),
            (Step::GaveUp, _) => {
                outside.metrics.recovered(Recovered::GaveUp);
                let (member, why) = (row.member.clone(), row.detail.clone());
                let doubtful = self.restart.is_doubtful();
                outside.notices.tell(Notice::GaveUp { project, instance, member, why, doubtful });
            }
            _ => {}
        }
    }
}

/// How a turn ended.
enum Turn {
    /// The machine wants a rest.
    Rest(Duration),
    /// The database does not answer.
    Again,
    Ended,
}

/// How something that was asked for ended, as far as anybody knows.
async fn end_of(client: &Client, asked: Result<OperationId, IncusError>, limit: Duration) -> Heard {
    let operation = match asked {
        Ok(operation) => operation,
        // Nothing was asked for, so nothing was tried.
        Err(why) if !why.may_have_been_sent() && !matches!(why.problem, Problem::Name { .. }) => {
            return Heard::Unreadable(why.to_string());
        }
        Err(why) => return Heard::Trouble(why.to_string()),
    };
    match client.wait(&operation, Instant::now() + limit).await {
        Ok(Ended::Success) => Heard::Accepted,
        Ok(Ended::Failed { text, .. }) => Heard::Trouble(text),
        Ok(Ended::Unknown) => Heard::Trouble("the cluster does not know how it ended".into()),
        Err(why) => Heard::Trouble(format!("it is not known how it ended: {why}")),
    }
}

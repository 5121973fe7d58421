//! The restart of what a fenced member ran: the loop tells it each pass, and is asked before each step.
//!
//! What may be done next about an instance is the pure machine of [`apelora_fencing::recovery`]; its permission comes from
//! [`Answers::may_recover`], which asks the loop, which asks the supervisor.

mod back;
mod board;
mod held;
mod ledger;
mod looker;
mod one;
mod prober;
mod rooms;
mod runner;
mod seen;
mod stock;
mod with;

use std::sync::Arc;

use apelora_fencing::record::Persisted;
use apelora_fencing::recovery::Permission;
use apelora_fencing::status::InstanceStatus;
use apelora_fencing::view::ClusterView;
use apelora_fencing::{BootTime, Incarnation, MemberName, Supervisor};
use tokio::sync::watch;

use self::seen::Seen;
use self::with::With;
use crate::shell::{Answers, Outside, Term};

/// The loop's end of everything that goes on about restarts in one leadership.
pub(crate) struct Recovery {
    with: Arc<With>,
    /// Gone when the role is over.
    told: Option<watch::Sender<Seen>>,
}

impl Recovery {
    /// Of a leadership that was just acquired: the loop's end, and the task that does the work.
    pub(crate) fn new(
        outside: Arc<Outside>,
        term: Arc<Term>,
        answers: Answers,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let with = Arc::new(With::new(outside, term, answers));
        let (told, heard) = watch::channel(Seen::default());
        (Self { with: Arc::clone(&with), told: Some(told) }, runner::run(with, heard))
    }

    /// A pass was judged. `view` is its member list, unless it could not be read; `stored` are the rows of the latest pass
    /// that could read them.
    pub(crate) fn passed(
        &mut self,
        now: BootTime,
        supervisor: &Supervisor,
        view: Option<&ClusterView>,
        stored: &Persisted,
    ) {
        let Some(told) = &self.told else { return };
        let mut seen = Seen::new(now, supervisor, view, stored);
        if self.with.outside.config.dry_run {
            // The plan is shown, and nothing of it is carried out.
            seen.ready.clear();
        }
        told.send_replace(seen);
    }

    /// What would become, or becomes, of the instances that `member` ran: for the status document.
    pub(crate) fn instances(&self, member: &MemberName) -> Vec<InstanceStatus> {
        self.with.board.of(member, &self.with.ledger)
    }

    /// The role is over: nothing is begun any more.
    pub(crate) fn stop(&mut self) {
        self.told = None;
    }
}

/// The permission that follows from the supervisor's word and the rows of the latest pass. It is over for good when this life
/// of the member is not its latest one any more, or has no proof any more.
pub(crate) fn permission(
    may: bool,
    stored: &Persisted,
    member: &MemberName,
    incarnation: Incarnation,
) -> Permission {
    let row = stored.members.get(member);
    let stands = row.is_some_and(|row| row.incarnation == incarnation && row.is_fenced());
    match (may && stands, row) {
        (true, _) => Permission::Granted,
        (false, Some(_)) if !stands => Permission::Over,
        // No rows, or not this moment.
        (false, _) => Permission::NotNow,
    }
}

#[cfg(test)]
mod tests;

//! What the tasks of restarts work with.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::write::CommitError;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use super::board::Board;
use super::ledger::{Key, Ledger, Life};
use super::looker::Looker;
use super::prober::Prober;
use crate::notice::Notice;
use crate::shell::{Answer, Answers, Outside, Term};

/// So many instances are worked on at once, in the whole cluster.
const HANDS: usize = 4;
/// The store has its own, shorter limits.
const NOTE_LIMIT: Duration = Duration::from_secs(10);

pub(super) struct With {
    pub(super) outside: Arc<Outside>,
    pub(super) term: Arc<Term>,
    pub(super) answers: Answers,
    pub(super) looker: Looker,
    pub(super) prober: Prober,
    pub(super) ledger: Ledger,
    pub(super) board: Board,
    pub(super) hands: Semaphore,
    /// For what the restarts of a life wait, as far as it was told.
    waits: Mutex<BTreeSet<(Life, String)>>,
}

/// What became of storing a row.
pub(super) enum Noted {
    /// It is stored; how far it was before.
    Stored(Option<Step>),
    /// Perhaps not. Nothing may be done before it is.
    NotNow,
    /// Somebody else leads.
    Lost,
}

impl With {
    pub(super) fn new(outside: Arc<Outside>, term: Arc<Term>, answers: Answers) -> Self {
        let (looker, ledger, board) = (Looker::default(), Ledger::default(), Board::default());
        let prober = Prober::default();
        let (hands, waits) = (Semaphore::new(HANDS), Mutex::default());
        Self { outside, term, answers, looker, prober, ledger, board, hands, waits }
    }

    /// Whether the instance is restarted as one of what its target ran: that is proven off too.
    pub(super) fn is_followed(&self, row: &RecoveryRow) -> bool {
        let Some(target) = row.target.as_ref().filter(|target| **target != row.member) else { return false };
        let Some(incarnation) = self.board.fenced_life(target) else { return false };
        let (project, name) = (row.project.clone(), row.instance.clone());
        self.ledger.get(&Key { life: (target.clone(), incarnation), project, name }).is_some()
    }

    /// Tells for what the restarts of a life wait: once, although each of them finds out.
    pub(super) fn tell_waits(&self, life: &Life, why: &str) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.insert((life.clone(), why.to_owned())) {
            let open = self.ledger.open();
            let instances =
                open.iter().filter(|row| (&row.member, row.incarnation) == (&life.0, life.1)).count();
            let (member, why) = (life.0.clone(), why.to_owned());
            self.outside.notices.tell(Notice::RecoveryWaits { member, instances, why });
        }
    }

    /// Stores a row.
    pub(super) async fn note(&self, row: &RecoveryRow) -> Noted {
        let noted = timeout(NOTE_LIMIT, self.term.note_recovery(row)).await;
        match noted.unwrap_or(Err(CommitError::Unknown)) {
            Ok(()) => Noted::Stored(self.ledger.put(row.clone())),
            Err(CommitError::Deposed) => {
                self.answers.send(Answer::Lost);
                Noted::Lost
            }
            Err(failure) => {
                let RecoveryRow { project, instance, member, .. } = row;
                warn!(%member, project, instance, ?failure, "how far its restart is could not be stored");
                Noted::NotNow
            }
        }
    }
}

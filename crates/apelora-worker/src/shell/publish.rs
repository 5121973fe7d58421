//! The status row: published by a task of its own, when it says something new and now and then.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::BootTime;
use apelora_fencing::status::Status;
use apelora_fencing::write::CommitError;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{error, warn};

use super::answer::{Answer, Answers};
use super::database::Term;
use crate::status::gist;

/// The status is published at least this often.
const EVERY: Duration = Duration::from_secs(10);
/// How long it may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The loop's end: what is newest wins.
pub(super) struct Publisher {
    newest: watch::Sender<Option<Arc<str>>>,
    last: Option<(BootTime, String)>,
}

/// The loop's end and the task.
pub(super) fn pair(term: Arc<Term>, answers: Answers) -> (Publisher, impl Future<Output = ()> + Send) {
    let (newest, watched) = watch::channel(None);
    (Publisher { newest, last: None }, publish(term, watched, answers))
}

impl Publisher {
    /// Whether a status is worth being made now.
    pub(super) fn wants(&self, now: BootTime, news: bool) -> bool {
        news || self.last.as_ref().is_none_or(|(at, _)| now.since(*at) >= EVERY)
    }

    /// Hands the status on if it says something new, or if the last one is old.
    pub(super) fn offer(&mut self, now: BootTime, status: &Status) {
        let gist = gist(status);
        if self.last.as_ref().is_some_and(|(at, before)| now.since(*at) < EVERY && *before == gist) {
            return;
        }
        match serde_json::to_string(status) {
            Ok(text) => {
                self.newest.send_replace(Some(text.into()));
                self.last = Some((now, gist));
            }
            Err(failure) => error!(%failure, "the status document could not be written"),
        }
    }
}

async fn publish(term: Arc<Term>, mut watched: watch::Receiver<Option<Arc<str>>>, answers: Answers) {
    while watched.changed().await.is_ok() {
        let Some(text) = watched.borrow_and_update().clone() else { continue };
        match timeout(LIMIT, term.publish(&text)).await.unwrap_or(Err(CommitError::Unknown)) {
            Ok(()) => {}
            Err(CommitError::Deposed) => return answers.send(Answer::Lost),
            Err(failure) => warn!(?failure, "the status could not be published"),
        }
    }
}

//! What the log says about Keystone: when the trouble begins, now and then while it lasts, and when it is over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Refusal;

/// The same trouble is not said again before this time, also when it comes and goes.
const AGAIN: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Journal(Mutex<Said>);

#[derive(Default)]
struct Said {
    /// Whether the last word was of trouble.
    trouble: bool,
    last: Option<(&'static str, Instant)>,
}

impl Journal {
    /// Keystone has decided about a token.
    pub(crate) fn decided(&self) {
        if std::mem::take(&mut self.said().trouble) {
            tracing::info!("Keystone decides about tokens again");
        }
    }

    /// There was no decision.
    pub(crate) fn undecided(&self, why: &Refusal) {
        let now = Instant::now();
        let mut said = self.said();
        if said.last.is_some_and(|(code, at)| code == why.code() && now < at + AGAIN) {
            tracing::debug!(code = why.code(), "{why}");
            return;
        }
        *said = Said { trouble: true, last: Some((why.code(), now)) };
        match why {
            Refusal::OwnCredentials { .. } => tracing::error!(code = why.code(), "{why}"),
            _ => tracing::warn!(code = why.code(), "{why}"),
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

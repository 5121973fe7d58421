//! The service's own token: got by logging in, renewed before it expires, replaced once when Keystone refuses it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::api::{Api, Login};
use crate::refusal::COME_AGAIN;
use crate::{OwnTrouble, Refusal, Token, Trouble};

/// The pause between two early renewals; while the token lives, a failed one is no trouble.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);

/// Our token, with its number: each log-in gives the next.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) token: Token,
    pub(crate) generation: u64,
    renew_at: Instant,
    dead_at: Instant,
}

#[derive(Default)]
struct State {
    held: Option<Held>,
    generation: u64,
    next_renewal: Option<Instant>,
    /// Keystone has refused the log-in, and until when it is not tried again.
    refused: Option<(OwnTrouble, Instant)>,
}

pub(crate) struct OwnToken {
    pause: Duration,
    state: Mutex<State>,
    /// Held while logging in: one at a time.
    door: tokio::sync::Mutex<()>,
}

impl OwnToken {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::default(), door: tokio::sync::Mutex::default() }
    }

    /// A token that lives, by logging in if there is none.
    pub(crate) async fn get(&self, api: &Api, by: Instant) -> Result<Held, Refusal> {
        if let Some(held) = self.alive(0) {
            return Ok(held);
        }
        self.newer_than(0, api, by).await
    }

    /// A token that is newer than the one with this number: for one that Keystone has refused, or that is to be
    /// renewed. Whoever asks at the same time gets the same one.
    pub(crate) async fn newer_than(&self, generation: u64, api: &Api, by: Instant) -> Result<Held, Refusal> {
        let late = |_| Refusal::unavailable(Trouble::Deadline);
        let _alone = timeout_at(by, self.door.lock()).await.map_err(late)?;
        if let Some(held) = self.alive(generation) {
            return Ok(held);
        }
        let start = Instant::now();
        if let Some((why, until)) = self.state().refused.filter(|&(_, until)| start < until) {
            return Err(Refusal::OwnCredentials {
                why,
                retry_after: (until - start).max(Duration::from_secs(1)),
            });
        }
        match api.log_in(by).await.map_err(Refusal::unavailable)? {
            Login::In { token, life } => {
                let mut state = self.state();
                state.generation += 1;
                let held = Held {
                    token,
                    generation: state.generation,
                    // Counted from before the request, so never later than Keystone counts.
                    renew_at: start + life * 4 / 5,
                    dead_at: start + life,
                };
                state.held = Some(held.clone());
                state.refused = None;
                tracing::debug!(life = ?life, "got a token of our own from Keystone");
                Ok(held)
            }
            Login::Refused(status) => {
                let why = OwnTrouble::Login(status);
                self.state().refused = Some((why, start + self.pause));
                Err(Refusal::OwnCredentials { why, retry_after: self.pause.max(COME_AGAIN) })
            }
        }
    }

    /// The number of a token that should be renewed now. Says so once in a while, not to each who asks.
    pub(crate) fn due(&self) -> Option<u64> {
        let mut state = self.state();
        let now = Instant::now();
        let held = state.held.as_ref().filter(|held| now >= held.renew_at)?;
        let generation = held.generation;
        if state.next_renewal.is_some_and(|next| now < next) {
            return None;
        }
        state.next_renewal = Some(now + RENEWAL_PAUSE);
        Some(generation)
    }

    fn alive(&self, newer_than: u64) -> Option<Held> {
        let now = Instant::now();
        self.state().held.clone().filter(|held| held.generation > newer_than && now < held.dead_at)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

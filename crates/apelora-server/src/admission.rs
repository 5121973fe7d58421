//! How many requests are worked on at once, and what happens to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Limits;

/// Seconds after which a client that was turned away may come again.
pub(crate) const RETRY_AFTER: u16 = 1;

/// The turnstile in front of the API: so many at work, so many waiting, nobody waiting for long.
#[derive(Debug)]
pub(crate) struct Admission {
    turns: Arc<Semaphore>,
    all: u32,
    waiting: AtomicUsize,
    queued: usize,
    wait: Duration,
}

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// Too many wait already.
    QueueFull,
    /// It waited for too long.
    QueueWait,
}

impl TurnedAway {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::QueueWait => "queue_wait",
        }
    }
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let all = u32::try_from(limits.in_flight.clamp(1, 65_536)).unwrap_or(1);
        Self {
            turns: Arc::new(Semaphore::new(all as usize)),
            all,
            waiting: AtomicUsize::new(0),
            queued: limits.queued,
            wait: limits.queue_wait,
        }
    }

    /// A turn, kept until it is dropped.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, TurnedAway> {
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return Ok(turn);
        }
        let _waiting = Waiting::new(&self.waiting, self.queued)?;
        match tokio::time::timeout(self.wait, Arc::clone(&self.turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) | Err(_) => Err(TurnedAway::QueueWait),
        }
    }

    /// Waits until nobody is at work.
    pub(crate) async fn quiet(&self) {
        // The semaphore is never closed.
        drop(self.turns.acquire_many(self.all).await);
    }
}

/// A place in the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize, queued: usize) -> Result<Self, TurnedAway> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= queued { Err(TurnedAway::QueueFull) } else { Ok(place) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_work_some_wait_the_rest_is_turned_away() {
        let limits = Limits { in_flight: 1, queued: 1, ..Limits::default() };
        let admission = Admission::new(&limits);
        let at_work = admission.turn().await.unwrap();
        let (waited, refused) = tokio::join!(admission.turn(), admission.turn());
        assert_eq!(waited.unwrap_err(), TurnedAway::QueueWait);
        assert_eq!(refused.unwrap_err(), TurnedAway::QueueFull);
        let (waited, ()) = tokio::join!(admission.turn(), async { drop(at_work) });
        assert!(waited.is_ok());
        drop(waited);
        admission.quiet().await;
    }
}

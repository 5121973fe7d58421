//! The power of one machine: what its BMC switches, and what the machine lives on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The power of one machine. Shared by the machine and whatever switches it; its time is the caller's.
#[derive(Debug)]
pub struct Switch {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    on: bool,
    /// Whether mains power is there.
    fed: bool,
    /// When it will be off.
    off_at: Option<Instant>,
    changes: Vec<(Instant, bool)>,
}

impl State {
    fn settle(&mut self, now: Instant) {
        if let Some(at) = self.off_at.filter(|at| *at <= now) {
            self.set(at, false);
        }
    }

    fn set(&mut self, at: Instant, on: bool) {
        self.off_at = None;
        if self.on != on {
            self.on = on;
            self.changes.push((at, on));
        }
    }
}

impl Switch {
    /// The power of a machine that has mains power and is on or off.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self { state: Mutex::new(State { on, fed: true, off_at: None, changes: Vec::new() }) }
    }

    /// Whether the machine has power.
    pub fn is_on(&self, now: Instant) -> bool {
        let mut state = self.lock();
        state.settle(now);
        state.on
    }

    /// Switches it off, `after` this long. Nothing happens when it is off.
    pub fn off(&self, now: Instant, after: Duration) {
        let mut state = self.lock();
        state.settle(now);
        if after.is_zero() {
            state.set(now, false);
        } else if state.on {
            state.off_at = Some(now + after);
        }
    }

    /// Switches it on. Nothing happens without mains power.
    pub fn on(&self, now: Instant) {
        let mut state = self.lock();
        state.settle(now);
        if state.fed {
            state.set(now, true);
        }
    }

    /// Takes the mains power away, which switches it off, or gives it back, which leaves it as it is.
    pub fn set_mains(&self, now: Instant, fed: bool) {
        let mut state = self.lock();
        state.settle(now);
        state.fed = fed;
        if !fed {
            state.set(now, false);
        }
    }

    /// The changes since the last time this was asked, oldest first: when, and whether it was switched on.
    pub(crate) fn changes(&self, now: Instant) -> Vec<(Instant, bool)> {
        let mut state = self.lock();
        state.settle(now);
        std::mem::take(&mut state.changes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

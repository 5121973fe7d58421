//! Time as this crate sees it: the age of the process' boot, never a wall clock.

use std::ops::Add;
use std::time::Duration;

/// A point on the worker's boot-time clock (`CLOCK_BOOTTIME`), which goes on counting while the machine is suspended.
///
/// `std::time::Instant` is `CLOCK_MONOTONIC` on Linux and stands still in a suspend, so that a lease could seem to be
/// held for hours after it expired (tests/data/fencing/lease.md section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    /// The point that lies `since_boot` after the boot of the machine.
    pub const fn new(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// The time since the boot of the machine.
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// How much later this is than `earlier`; zero when it is not later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `by` earlier, at the boot at the earliest.
    pub const fn earlier(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

/// Where the boot-time clock is read. The worker has the real one; tests derive theirs from a virtual time.
pub trait Clock: Send + Sync {
    /// The present reading.
    fn boot(&self) -> BootTime;
}

//! The client against peers that answer as Incus does, as it did, and as it never should.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod answers;
mod bodies;
mod calls;
mod hostile;
mod listed;
mod peer;
mod recordings;
mod trust;
mod wait;

use std::time::Duration;

use tokio::time::Instant;

/// Far away: no test waits for it.
fn later() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

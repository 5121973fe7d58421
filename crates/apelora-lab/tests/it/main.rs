//! The simulated cluster against the recorded one, what it does when it is broken, and a whole site with real clients.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod breaking;
mod client;
mod likeness;
mod quorum;
mod recordings;
#[expect(clippy::disallowed_methods, reason = "real clients switch simulated machines")]
mod site;
mod support;
mod timelines;
mod wire;

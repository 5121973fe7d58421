//! The worker as a whole: a real database, and a simulated site that speaks the real protocols.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod drill;
mod night;
mod whole;
mod word;

//! The reader against a daemon that is scripted: one that says what was recorded, and hostile ones.
#![cfg(test)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contract;
mod hostile;
mod peer;
mod recorded;

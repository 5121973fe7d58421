//! The suites of the fencing core.
#![allow(missing_docs, reason = "a test binary")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy does not see as tests"
)]

mod data;
mod docs;
mod exhaustive;
mod guards;
mod leases;
mod monotone;
mod night;
mod protocol;
mod replay;

//! The suites of the fencing core.
#![allow(missing_docs, reason = "a test binary")]

mod data;
mod exhaustive;
mod guards;
mod leases;
mod monotone;
mod night;
mod replay;

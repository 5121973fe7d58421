//! The worker: leads, looks at the cluster, talks to BMCs, and restarts what a fenced server ran.
//!
//! The machine that decides is [`apelora_fencing::Supervisor`]; this crate is the shell around it. One loop owns the machine,
//! tells it what happened and carries out its effects; everything that waits for somebody is a task with a deadline.
//! [`Worker`] is bound to its address, then serves until it is told to stop.

pub mod bmc_map;
pub mod check;
mod config;
mod health;
pub mod leases;
mod metrics;
mod notice;
mod observe;
mod provider;
mod recovery;
pub mod secret;
mod shell;
mod status;
#[cfg(test)]
mod tests;
mod worker;

/// Reads an address as `APELORA_INCUS_URL` holds it: only this crate knows the cluster's client.
pub use apelora_incus::endpoint as incus_endpoint;
pub use config::{IncusConfig, Pace, WorkerConfig, WorkerError};
pub use notice::{Notice, SteppedDown};
pub use provider::{ProviderSettings, Providers};
pub use shell::{Ids, WallClock};
pub use worker::{Parts, Worker, bind};

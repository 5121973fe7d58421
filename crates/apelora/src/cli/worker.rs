//! The worker, and the checks for the host that it runs on.

use clap::{Args, Subcommand};

use super::{Asked, Process};
use crate::config::{BmcCheckConfig, LeaseCheckConfig, WorkerConfig};

/// `worker`.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Decide and audit, but stop before every permit: nothing is switched off and nothing is restarted
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) process: Process<WorkerConfig>,
}

/// `bmc check`.
#[derive(Debug, Args)]
pub(crate) struct CheckBmc {
    /// Only this member of the map
    pub(crate) member: Option<String>,
    #[command(flatten)]
    pub(crate) asked: Asked<BmcCheckConfig>,
}

/// Look at storage leases.
#[derive(Debug, Subcommand)]
pub(crate) enum Lease {
    /// Show the storage leases of every member: states, ages, and what each would prove; changes nothing
    ///
    /// To be run on the worker's host. Exits with 1 when a lockspace cannot be read.
    Check(Asked<LeaseCheckConfig>),
}

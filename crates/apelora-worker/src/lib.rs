//! The worker: leads, looks at the cluster, talks to BMCs, and restarts what a fenced server ran.

pub mod bmc_map;
pub mod check;
pub mod leases;
mod provider;
pub mod secret;
#[cfg(test)]
mod tests;

pub use provider::{ProviderSettings, Providers};

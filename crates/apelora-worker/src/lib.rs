//! The worker: leads, looks at the cluster, talks to BMCs, and restarts what a fenced server ran.

pub mod leases;

//! A simulated Incus 6.0.4 cluster that speaks its HTTP protocol (`tests/data/incus/README.md`): as many members as are
//! wanted, each with its own HTTPS listener on loopback and, if wanted, a Unix socket.
//!
//! * [`ClusterPlan`] says what it is made of, [`Cluster`] runs it, breaks it and tells the truth about it.
//! * Time is tokio's, so tests may pause it. Nothing runs in the background: the world moves when somebody looks, and
//!   whatever was due before then happens first.
//! * It answers as the recorded cluster did while members fail, also where that is wrong: Offline by the clock of the
//!   member that is asked, false Offline after an election, hanging calls, a move that is met by no lock, an instance
//!   that runs on where nobody can see it.
//!
//! What it does not have: virtual networks, images, snapshots, events, Incus' own healing (its setting is only shown).

mod api;
mod call;
mod clock;
mod cluster;
mod control;
mod database;
mod envelope;
mod front;
mod instance;
mod machine;
mod operation;
mod plan;
mod show;
#[cfg(test)]
mod tests;
mod truth;
mod world;

pub use cluster::{Cluster, ClusterError};
pub use machine::ApiFault;
pub use plan::{ClusterPlan, InstancePlan, Lease, PoolPlan};
pub use truth::{Happening, InstanceName, What};

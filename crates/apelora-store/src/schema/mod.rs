//! The schema: its steps, what a database has of them, and bringing it up to date.

mod adopt;
mod fencing;
mod steps;
mod table;
mod tables;
mod upgrade;

pub(crate) use fencing::LEASE_NAME;
pub(crate) use steps::status;
pub(crate) use upgrade::upgrade;

pub(crate) use adopt::{AdoptedTables, adopted_tables};

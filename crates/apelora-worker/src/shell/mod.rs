//! The shell around the machine: campaigns, leads, and does everything that is not pure.

mod answer;
mod bmc;
mod cluster;
mod database;
mod effects;
mod inventory;
mod lead;
mod life;
mod map;
mod outside;
mod pass;
mod publish;
mod renewal;
#[cfg(test)]
pub(crate) mod scripted;
mod send;
mod story;
mod talk;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use answer::{Answer, Answers};
pub(crate) use bmc::Bmcs;
pub(crate) use cluster::{Cluster, Endpoints};
pub(crate) use database::{Database, Term};
pub(crate) use life::live;
pub(crate) use map::Maps;
pub(crate) use outside::Outside;
pub use outside::{Ids, WallClock};
pub(crate) use pass::Passed;

//! `apelora demo`: the whole of Apelora on loopback, with a fleet of its own that goes with it.

mod cluster;
pub(crate) mod control;
mod fleet;
mod populate;
pub(crate) mod story;

pub(crate) use cluster::DemoCluster;
pub(crate) use populate::populate;

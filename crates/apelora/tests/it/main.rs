//! The real command: what it prints, where, and how it exits.

// Helpers of tests panic like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bmc;
mod cluster;
mod command;
mod db;
mod demo;
mod demo_cluster;
mod disk;

mod failures;
mod fence;
mod graph;
mod lease;
mod maintenance;
mod members;
mod nodes;
mod policy;
mod running;
mod server;
mod settings;
mod terminal;
mod worker;

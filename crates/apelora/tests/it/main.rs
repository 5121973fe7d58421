//! The real command: what it prints, where, and how it exits.

// Helpers of tests panic like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod command;
mod db;
mod demo;
mod disk;
mod fence;
mod maintenance;
mod members;
mod nodes;
mod policy;
mod running;
mod server;
mod settings;
mod terminal;
mod worker;

//! The client against a real control plane, and against servers that answer what a test tells them to.

// Helpers of tests panic like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod contract_keystone;
mod entries;
mod identity;
mod lab;
mod nodes;
mod real_keystone;
mod retries;
mod versions;

//! The validation of tokens against a simulated Keystone over the real protocol, and against a real one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contract_behaviour;
mod contract_personas;
mod memory;
mod own_token;
mod real;
mod rules;
mod secrets;
mod support;
mod trouble;

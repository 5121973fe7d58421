//! The Redfish client against scripted, simulated and hostile BMCs, and against independent emulators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod contract_cases;
mod contract_vendors;
mod conversation;
mod emulator;
mod faults;
mod hostile;
mod independent;
mod machine;
mod script;
mod secrets;
mod support;
mod tls;

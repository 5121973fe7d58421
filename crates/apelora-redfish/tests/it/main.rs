//! The Redfish client against scripted, simulated and hostile BMCs, and against independent emulators.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

mod contract_cases;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod contract_vendors;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod conversation;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod emulator;
mod faults;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod hostile;
mod independent;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod machine;
mod script;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod secrets;
mod support;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod tls;

//! A simulated BMC that speaks IPMI 2.0 over the LAN (RMCP+, UDP): suites 17 and 3, one account, power to switch, and the
//! faults that real BMCs have.
//!
//! * [`Bmc`] is the BMC: a datagram in, datagrams out, time and the sender's address given.
//! * [`Server`] puts it on a UDP socket.
//! * [`Fault`] breaks it.
//!
//! It shares no code with the client, so that a mistake of one is not hidden by the other; the recorded exchanges of other
//! makers' clients and BMCs check it.

mod bmc;
mod commands;
mod crypto;
mod packet;
mod server;
mod setup;
#[cfg(test)]
mod tests;

pub use bmc::{Account, Bmc, ByteOrder, Fault, Level, Power, Suite};
pub use server::{Listening, Server};

//! The client against BMCs of other makers, on loopback: pyghmi's BMC as shipped and with suite 17, OpenIPMI's ipmi_sim.
//!
//! Every test starts its own BMC and stops it. What they need is installed by the suite `ipmi` of `scripts/test`, which
//! runs them; without that they are ignored, and say so. Those in `lab` need nothing: their BMC is the simulated one.
#![cfg(test)]

mod forgery;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod lab;
mod network;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod peers;
#[expect(clippy::disallowed_methods, reason = "the client's own tests: simulated servers")]
mod power;
mod refusals;
mod relay;

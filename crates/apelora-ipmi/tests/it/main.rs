//! The client against BMCs of other makers, on loopback: pyghmi's BMC as shipped and with suite 17, OpenIPMI's ipmi_sim.
//!
//! Every test starts its own BMC and stops it. What they need is installed by the suite `ipmi` of `scripts/test`, which
//! runs them; without that they are ignored, and say so. Those in `lab` need nothing: their BMC is the simulated one.
#![cfg(test)]

mod forgery;
mod lab;
mod network;
mod peers;
mod power;
mod refusals;
mod relay;

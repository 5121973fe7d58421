//! Simulated outside systems that speak the real protocols on loopback: for the demo, for tests, and for trying out a
//! failure before it happens. They offer protocols, never implementations of the product's own interfaces, and no
//! product crate but the binary links them.

pub mod https;
mod ident;
pub mod incus;
pub mod ipmi;
pub mod keystone;
pub mod power;
pub mod redfish;
pub mod site;

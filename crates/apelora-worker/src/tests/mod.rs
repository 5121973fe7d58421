//! The providers and the check against simulated BMCs, over loopback, with the product's own machine deciding.

pub(crate) mod bmcs;
mod checks;
mod independent_ipmi;
mod independent_redfish;
mod lab_vms;
mod permits;
mod power;
mod real;
mod real_ipmi;
mod real_redfish;
mod rig;
mod secrets;

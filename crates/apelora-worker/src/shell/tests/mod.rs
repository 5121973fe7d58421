//! The shell on a virtual time, around the real machine.

mod course;
pub(crate) mod rig;
mod site;
mod trouble;

//! The shell on a virtual time, around the real machine.

mod course;
mod rig;
mod site;
mod trouble;

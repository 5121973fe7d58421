//! The protocol, step by step and figure by figure.

mod course;
mod leadership;
mod readings;
mod rig;
mod series;

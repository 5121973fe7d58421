//! Nodes of the Bare Metal API: their fields, how they look, what may be written. Pure.

pub(crate) mod fields;

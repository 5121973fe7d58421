//! Nodes of the Bare Metal API: their fields, how they look, what may be written. Pure.

pub(crate) mod create;
pub(crate) mod drivers;
pub(crate) mod fields;
pub(crate) mod jsonpatch;
pub(crate) mod mask;
pub(crate) mod patch;
pub(crate) mod render;
pub(crate) mod rules;
pub(crate) mod write;

//! `apelora demo`: the whole of Apelora on loopback, with a fleet of its own that goes with it.

pub(crate) mod control;
mod fleet;
mod populate;

pub(crate) use populate::populate;

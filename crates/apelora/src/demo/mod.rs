//! `apelora demo`: the whole of Apelora on loopback, with a fleet of its own that goes with it.

mod fleet;
mod populate;

pub(crate) use populate::populate;

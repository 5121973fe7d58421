//! Typed node maintenance, without I/O.

mod scope;

pub use scope::Scope;

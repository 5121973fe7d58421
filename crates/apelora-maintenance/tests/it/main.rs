//! The rules of the requirement text, one by one, and what must hold after any sequence of changes.

// Helpers outside of `#[test]` functions are test code, too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod denials;
mod faults;
mod properties;
mod records;
mod rules;
mod support;

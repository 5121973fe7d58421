//! Recorded cases and properties of the rule language.

// Helpers outside of `#[test]` functions are test code, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authority;
mod cases;
mod defaults;
mod explain;
mod files;
mod properties;
mod rbac;
mod support;

//! The rules of the requirement text, one by one, and what must hold after any sequence of changes.

mod denials;
mod faults;
mod properties;
mod records;
mod rules;
mod support;

//! The control plane over HTTP.
mod accept;
mod error;
mod ident;
mod microversion;
mod node;
mod python;
mod reply;
mod route;

pub use microversion::{BadVersion, Microversion};

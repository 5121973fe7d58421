//! The control plane over HTTP: the OpenStack Bare Metal API with typed node maintenance.
//!
//! A request comes in through [`Server`]'s listener, is recognised, negotiated and routed, and reaches a handler that
//! reads it, calls one service and renders the answer. The dialect of the Bare Metal API (paths, versions, four shapes
//! of errors, JSON to the byte) lives in modules of its own, all of them pure; what is served stands in one table of
//! endpoints, what a node looks like in one table of fields.

mod accept;
mod admission;
mod api;
mod app;
mod args;
mod auth;
mod authorise;
mod baremetal;
mod cluster;
mod config;
mod endpoints;
mod error;
mod files;
mod ident;
mod listener;
mod metrics;
mod microversion;
mod node;
mod openapi;
mod policy;
mod python;
mod reply;
mod request;
mod route;
mod server;
mod tls;
mod watched;

pub use config::{AuthStrategy, KeystoneAuth, Limits, ServerConfig, Sources, StartError, TlsFiles};
pub use microversion::{BadVersion, Microversion};
pub use policy::PolicyFiles;
pub use server::Server;

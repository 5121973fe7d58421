//! A whole small site: machines, each with power, an operating system, a BMC of its own and a member of one simulated
//! Incus cluster. What `apelora demo` runs, and what end-to-end tests break.
//!
//! * [`SitePlan`] says what it is made of, [`Site`] runs it. It writes what a worker needs into a folder: the BMC map, the
//!   certificates that it trusts and its own.
//! * What a BMC switches is the power that its machine lives on: with it, everything on the machine ends.
//! * [`Site::cluster`] and [`Site::bmc`] break single parts and tell what has reached them.

mod bmc;
mod files;
mod plan;
mod running;

pub use bmc::{MemberBmc, Trouble};
pub use plan::{BmcKind, MemberPlan, SitePlan};
pub use running::{Site, SiteError};

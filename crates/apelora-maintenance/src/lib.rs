//! Typed node maintenance, without I/O.
//!
//! A node is out of service for as long as it has at least one *entry*: a typed reason with an author, a scope and its
//! own release. This crate decides what every change of the entries of one node means. The caller locks the node, reads
//! it and its entries into a [`LockedNode`], asks [`plan()`], and makes the answer true in the same transaction: a
//! [`Plan`] holds everything derived (rows in and out, the flag, the reason, the fault, history, audit), a [`Denial`]
//! says in words what to tell the caller.
//!
//! Source of the rules: `docs/maintenance.md`.

mod authority;
mod denial;
mod entry;
pub mod json;
mod node;
mod operation;
mod plan;
mod reason;
mod record;
pub mod registry;
mod scope;

pub use authority::{Authority, FloorRefusal};
pub use denial::{Blocker, BlockerReason, Denial, TextProblem};
pub use entry::{EXTRA_MAX_BYTES, Entry, LEGACY_REASON_MAX_CHARS, REASON_MAX_BYTES};
pub use node::{LockedNode, NodeFacts, Stamp};
pub use operation::{FaultKind, Operation};
pub use plan::{Amendment, Outcome, Plan, plan};
pub use reason::synthesise;
pub use record::{AuditAction, AuditEvent, HistoryEvent};
pub use scope::{Scope, UnknownScope};

/// The asserter of entries that the service makes on its own behalf, such as faults. No http_basic user may have it.
pub const CONDUCTOR: &str = "conductor";

/// The asserter of entries that stand for a flag somebody else set: the backfill and the reconciliation with older
/// services. No http_basic user may have it.
pub const MIGRATION: &str = "migration";

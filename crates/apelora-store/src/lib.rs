//! The database behind one door: nodes, their maintenance entries, history and audit on SQLite, PostgreSQL and MariaDB.
//!
//! A change of a node goes through [`Store::change_node`]: the store locks the node, hands the row and its entries to a
//! pure decision, and makes the answer true in the same transaction, or not at all. What a worker writes goes through
//! [`Leader`], which touches the leader lease first; a person's word through [`Store::confirm_off`]. No type of a database library is
//! part of this crate's interface, and no text of a statement is part of an error's own text.

mod backfill;
mod chance;
mod change;
mod column;
mod config;
mod engine;
mod error;
mod leader;
mod node;
mod query;
mod record;
mod schema;
mod store;
mod table;
mod transact;
mod upkeep;
mod work;

pub use change::{Changed, Locked, NodeChange};
pub use column::{Kind, NodeColumn, UnknownColumn, Width};
pub use config::{DatabaseUrl, Engine, StoreConfig};
pub use error::{Cause, ChangeError, Conflict, ConnectError, StoreError, Unstorable};
pub use leader::{
    ConfirmError, Confirmed, Done, EvidenceRow, FenceRecord, Leader, LeaderConfig, LeaseState, PersonsWord,
    ProofQuery, RecordQuery, StatusRow, StoredCheck, StoredInstance, StoredMember, StoredProof,
    StoredRecovery, Voided, Warning,
};
pub use node::{Cell, NodeKey, NodePatch, NodeRow};
pub use query::{AuditQuery, Direction, EntryQuery, HistoryColumn, HistoryQuery, NodeFilter, NodeQuery};
pub use record::{AuditRecord, EntryCount, EntryNode, HistoryRecord, PlacedEntry};
pub use store::Store;
pub use upkeep::{BackfillProgress, BackfillReport, Health, Retention, Retries, SchemaStatus};

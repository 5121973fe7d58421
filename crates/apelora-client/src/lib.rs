//! A client of the Bare Metal API with typed maintenance: nodes, their maintenance entries, their history. And of the
//! cluster API: members and their fencing, the audit trail, the settings.
//!
//! * **Every way to authenticate** ([`Auth`]): nobody is asked, a user with a password, a token, or a log-in at Keystone
//!   whose catalogue then says where the API is. [`from_variables`] reads the `OS_*` variables that the `openstack` command
//!   reads.
//! * **Versions are negotiated**: requests ask for [`Version::MAX`], or for the highest that the server has. What needs a newer
//!   server than this one is not sent; the error names both versions.
//! * **Retries are bounded** in number and time ([`Retry`]), and only where nothing can have been done: a node that somebody
//!   else is working on (409), and a server that says that it did nothing (503). A duplicate (409) is not tried again.
//! * **Errors tell what may have happened** ([`ClientError`]): the server's own words with status and request id; or that a
//!   change may have been made.
//! * **Secrets** are never printed, and overwritten when they are dropped.

mod address;
mod all_entries;
mod audit;
mod auth;
mod client;
mod cluster;
mod entry;
mod error;
mod history;
mod keystone;
mod link;
mod member;
mod node;
mod openstack;
mod retry;
mod version;

pub use all_entries::{EntryNode, PlacedEntry};
pub use apelora_http::Trust;
pub use audit::{AuditFilter, AuditForm, AuditPage, AuditPosition, AuditRow};
pub use auth::{Auth, Domain, Interface, LogIn, Named, Proof, Scope};
pub use client::{Client, Config};
pub use entry::{Entry, NewEntry};
pub use error::{ClientError, Refusal};
pub use history::HistoryRecord;
pub use member::{
    BmcMap, Check, ConfirmedOff, Evidence, Explanation, FenceRecord, Guard, InProgress, Instance,
    InstanceCounts, Judged, Leader, MapEntry, Member, MemberDetail, Members, Proof as MemberProof, Reason,
    Recovery, Setting, Settings, Shown, StoredProof, Trusted,
};
pub use node::{Node, NodeQuery, PatchOp};
pub use openstack::{Variables, from_variables};
pub use retry::Retry;
pub use version::Version;

//! Why a change is refused, in the words that the caller reads.

use std::fmt;

use uuid::Uuid;

use crate::{Entry, FloorRefusal, Scope, registry};

/// A refused change. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// The type is not registered (400).
    UnknownType(String),
    /// The type is reserved for the service (400).
    ReservedType(String),
    /// A text that cannot be stored (400): the field and what to do about it.
    BadText {
        /// `reason` or `extra`.
        field: &'static str,
        /// What is wrong with it.
        problem: TextProblem,
    },
    /// The same type at the same scope from the same project is already active (409).
    Duplicate {
        /// The active entry; its asserter is empty when the caller may not learn it.
        existing: Box<Entry>,
    },
    /// The caller is neither operator nor a member of the owner's or the lessee's project (403).
    NoStanding,
    /// Entries that the caller may not release (403), in their order; never empty.
    Blocked(Vec<Blocker>),
    /// The node has no active entry of this id (404).
    NoSuchEntry(Uuid),
}

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextProblem {
    /// Longer than this many bytes of UTF-8.
    LongerThan(usize),
    /// It contains U+0000, which not every database can store.
    Nul,
}

/// One entry in the way of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The entry's id.
    pub uuid: Uuid,
    /// The entry's type.
    pub entry_type: String,
    /// The entry's scope.
    pub scope: Scope,
    /// Why the caller may not release it.
    pub reason: BlockerReason,
}

/// Why one entry may not be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockerReason {
    /// Policy says no.
    Policy,
    /// The entry outranks the caller, who has this rank.
    Outranked(Option<Scope>),
    /// Equal rank, but asserted by this other project.
    OtherProject(String),
}

impl Blocker {
    pub(crate) fn policy(entry: &Entry) -> Self {
        Self::of(entry, BlockerReason::Policy)
    }

    pub(crate) fn floor(entry: &Entry, refusal: FloorRefusal) -> Self {
        let reason = match refusal {
            FloorRefusal::Outranked(rank) => BlockerReason::Outranked(rank),
            FloorRefusal::OtherProject => BlockerReason::OtherProject(entry.asserted_by_project.clone()),
        };
        Self::of(entry, reason)
    }

    fn of(entry: &Entry, reason: BlockerReason) -> Self {
        Self { uuid: entry.uuid, entry_type: entry.entry_type.clone(), scope: entry.scope, reason }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uuid, entry_type, scope, reason } = self;
        write!(f, "Cannot release maintenance entry {uuid} (type {entry_type}, scope {scope}")?;
        match reason {
            BlockerReason::Policy => f.write_str("): not permitted by policy"),
            BlockerReason::Outranked(Some(rank)) => write!(f, "): not permitted at {rank} scope"),
            BlockerReason::Outranked(None) => {
                f.write_str("): not permitted without owner or lessee standing on the node")
            }
            BlockerReason::OtherProject(project) if project.is_empty() => {
                f.write_str("): not asserted by your project")
            }
            BlockerReason::OtherProject(project) => {
                write!(f, ", asserted by project {project}): not asserted by your project")
            }
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(name) => {
                write!(f, "Unknown maintenance type '{name}'. Known types are: {}", known_types())
            }
            Self::ReservedType(name) => write!(
                f,
                "Maintenance type '{name}' is reserved and cannot be asserted. Known types are: {}",
                known_types()
            ),
            Self::BadText { field, problem: TextProblem::LongerThan(limit) } => {
                write!(f, "The maintenance {field} is too long: at most {limit} bytes are stored. Shorten it")
            }
            Self::BadText { field, problem: TextProblem::Nul } => {
                write!(f, "The maintenance {field} must not contain the character U+0000. Remove it")
            }
            Self::Duplicate { existing } => {
                write!(
                    f,
                    "A maintenance entry of type {} at {} scope already exists: {}, asserted at {}",
                    existing.entry_type,
                    existing.scope,
                    existing.uuid,
                    crate::json::iso(existing.asserted_at),
                )?;
                if !existing.asserted_by.is_empty() {
                    write!(f, " by {}", existing.asserted_by)?;
                }
                if !existing.asserted_by_project.is_empty() {
                    write!(f, " of project {}", existing.asserted_by_project)?;
                }
                Ok(())
            }
            Self::NoStanding => f.write_str(
                "Cannot add a maintenance entry: your project is neither the owner nor the lessee of the node",
            ),
            Self::Blocked(blockers) => {
                for (i, blocker) in blockers.iter().enumerate() {
                    if i > 0 {
                        f.write_str("; ")?;
                    }
                    blocker.fmt(f)?;
                }
                Ok(())
            }
            Self::NoSuchEntry(uuid) => write!(f, "Maintenance entry {uuid} could not be found."),
        }
    }
}

impl std::error::Error for Denial {}

fn known_types() -> String {
    registry::assertable().map(|t| t.name).collect::<Vec<_>>().join(", ")
}

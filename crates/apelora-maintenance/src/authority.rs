//! What a caller is on one node, and the floor that no policy can lower.

use crate::{Entry, Scope};

/// A caller on one node: computed by the server from the caller's credentials and the node row read under the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The caller's rank on this node; `None` for a caller whom policy lets in without standing.
    pub scope: Option<Scope>,
    /// The user, as it will stand in `asserted_by`; at most 255 characters.
    pub user: String,
    /// The caller's project; empty when there is none.
    pub project: String,
}

/// Why the floor refuses a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloorRefusal {
    /// The entry's scope outranks the caller's.
    Outranked(Option<Scope>),
    /// Equal scope, another project.
    OtherProject,
}

impl Authority {
    /// The service acting for itself under this name.
    pub fn service(name: &str) -> Self {
        Self { scope: Some(Scope::System), user: name.to_owned(), project: String::new() }
    }

    /// The release floor: what the caller may release however policy is written. Source: `docs/maintenance.md`, *Who may release what*.
    ///
    /// # Errors
    /// The rule that stands in the way.
    pub fn floor(&self, entry: &Entry) -> Result<(), FloorRefusal> {
        if entry.is_reserved() {
            return Ok(());
        }
        let Some(rank) = self.scope else { return Err(FloorRefusal::Outranked(None)) };
        match rank.cmp(&entry.scope) {
            std::cmp::Ordering::Greater => Ok(()),
            std::cmp::Ordering::Less => Err(FloorRefusal::Outranked(Some(rank))),
            // Below system an empty project belongs to nobody, so it never matches another empty one.
            std::cmp::Ordering::Equal
                if rank == Scope::System
                    || (!self.project.is_empty() && self.project == entry.asserted_by_project) =>
            {
                Ok(())
            }
            std::cmp::Ordering::Equal => Err(FloorRefusal::OtherProject),
        }
    }
}

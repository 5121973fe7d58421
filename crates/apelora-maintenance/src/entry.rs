//! One active reason why a node is out of service.

use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::Scope;

/// The longest typed reason, in bytes of UTF-8: a TEXT column of MariaDB.
pub const REASON_MAX_BYTES: usize = 65_535;
/// The longest serialised `extra`, in bytes: a TEXT column of MariaDB.
pub const EXTRA_MAX_BYTES: usize = 65_535;
/// A reason given through the boolean API is cut at this many characters, as the reference service does
/// (`[DEFAULT]log_in_db_max_size`).
pub const LEGACY_REASON_MAX_CHARS: usize = 4_096;

/// A row of `node_maintenance`, without its row number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The entry's own id.
    pub uuid: Uuid,
    /// A name out of [`crate::registry`], or one that a newer version registered.
    pub entry_type: String,
    /// Free text, never interpreted.
    pub reason: Option<String>,
    /// The rank with which it was asserted.
    pub scope: Scope,
    /// The user who asserted it: a user id, a basic user, or one of [`crate::CONDUCTOR`] and [`crate::MIGRATION`].
    pub asserted_by: String,
    /// The asserter's project; empty for the service itself and for callers without one.
    pub asserted_by_project: String,
    /// When, in UTC, whole seconds.
    pub asserted_at: PrimitiveDateTime,
    /// The JSON text of an object, as stored and served; never interpreted except for the `fault` type.
    pub extra: Option<String>,
}

impl Entry {
    /// Whether a reader of this rank may not learn who asserted the entry: its scope strictly outranks the reader's.
    /// `None` is a reader without standing on the node, whom every scope outranks.
    pub fn hides_asserter_from(&self, reader: Option<Scope>) -> bool {
        reader.is_none_or(|rank| self.scope > rank)
    }

    /// Whether it was asserted below system scope by a project that is neither the owner nor the lessee of the node now.
    pub fn is_stale(&self, owner: Option<&str>, lessee: Option<&str>) -> bool {
        let project = Some(self.asserted_by_project.as_str());
        self.scope != Scope::System && project != owner && project != lessee
    }

    /// Whether this is the entry of that name; at most one exists for the reserved types.
    pub(crate) fn is(&self, entry_type: &str) -> bool {
        self.entry_type == entry_type
    }

    /// Whether policy alone governs its release.
    pub fn is_reserved(&self) -> bool {
        crate::registry::is_reserved(&self.entry_type)
    }

    /// A member of the `extra` object, when that is a text.
    pub(crate) fn extra_text(&self, key: &str) -> Option<String> {
        let map: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(self.extra.as_deref()?).ok()?;
        map.get(key)?.as_str().map(str::to_owned)
    }
}

//! The authority with which an entry is asserted or a caller acts.

use std::fmt;
use std::str::FromStr;

/// The rank of an entry, and of a caller on one node. Ordered: `System` outranks `Owner` outranks `Lessee`.
///
/// Source: `docs/maintenance.md`, *Who may release what*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A member of the project in `nodes.lessee`.
    Lessee,
    /// A member of the project in `nodes.owner`.
    Owner,
    /// The operators of the whole deployment, and the service itself.
    System,
}

impl Scope {
    /// All scopes, lowest rank first.
    pub const ALL: [Self; 3] = [Self::Lessee, Self::Owner, Self::System];

    /// The word that stands in the database and in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lessee => "lessee",
            Self::Owner => "owner",
            Self::System => "system",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is none of the three scopes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a scope; scopes are system, owner and lessee")]
pub struct UnknownScope(pub String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|s| s.as_str() == word).ok_or_else(|| UnknownScope(word.to_owned()))
    }
}

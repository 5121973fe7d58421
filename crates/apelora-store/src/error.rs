//! What can go wrong, in words that may be shown to anyone; causes are for the log.

use std::error::Error;
use std::fmt;

use crate::NodeColumn;

/// What the database said. Its text may hold statements and values: print it in the service's log and nowhere else. It
/// is the `source` of the errors here, and no part of their own text.
pub struct Cause(Box<dyn Error + Send + Sync>);

impl Cause {
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// A read or a service task failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, or every connection stayed busy, or it kept giving up on the transaction. Trying
    /// again later helps.
    #[error("The database is not available at the moment. Please retry")]
    Unavailable(#[source] Cause),
    /// The database refused a statement or holds something that cannot be read: a fault, and trying again does not help.
    #[error("The database could not answer. The service's log has the cause")]
    Failed(#[source] Cause),
    /// The page's marker names no row.
    #[error("Marker {0} could not be found")]
    UnknownMarker(String),
}

/// A change was not made, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError<E> {
    /// There is no such node.
    #[error("The node could not be found")]
    NotFound,
    /// Another node already has a value that must be unique.
    #[error(transparent)]
    Conflict(Conflict),
    /// Another service holds the node's `reservation`.
    #[error("The node is locked by host {by}")]
    Reserved {
        /// The holder.
        by: String,
    },
    /// The caller's own decision on the locked node.
    #[error("refused")]
    Refused(E),
    /// A value does not fit its column.
    #[error(transparent)]
    Unstorable(Unstorable),
    /// Nothing was changed; trying again later helps.
    #[error("The database is not available at the moment. Please retry")]
    Unavailable(#[source] Cause),
    /// Nothing was changed, and trying again does not help.
    #[error("The database could not make the change. The service's log has the cause")]
    Failed(#[source] Cause),
    /// The database did not answer the commit and could not be asked again in time: the change was made whole or not at
    /// all. Read the node before trying again.
    #[error(
        "The database did not confirm the change. It was made whole or not at all: read the node before retrying"
    )]
    Unknown(#[source] Cause),
}

/// Another node already has this value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a node with {column} {value} already exists")]
pub struct Conflict {
    /// `uuid`, `name` or `instance_uuid`.
    pub column: NodeColumn,
    /// The value that is taken.
    pub value: String,
}

/// A value that does not fit its column, on any engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unstorable {
    /// Too long, in characters.
    #[error("{column} is too long: at most {limit} characters are stored")]
    TooManyChars {
        /// The column.
        column: NodeColumn,
        /// The limit in characters.
        limit: usize,
    },
    /// Too long, in bytes of UTF-8.
    #[error("{column} is too long: at most {limit} bytes are stored")]
    TooManyBytes {
        /// The column.
        column: NodeColumn,
        /// The limit in bytes.
        limit: usize,
    },
    /// It contains U+0000, which not every database can store.
    #[error("{column} must not contain the character U+0000")]
    Nul {
        /// The column.
        column: NodeColumn,
    },
    /// A value of another kind than the column's.
    #[error("{column} cannot hold a value of this kind")]
    WrongKind {
        /// The column.
        column: NodeColumn,
    },
    /// A column that must have a value has none.
    #[error("{column} is missing")]
    Missing {
        /// The column.
        column: NodeColumn,
    },
    /// A column that only the store sets.
    #[error("{column} cannot be set")]
    NotSettable {
        /// The column.
        column: NodeColumn,
    },
    /// An adopted database whose tables keep 3-byte characters only.
    #[error(
        "a text contains a character outside the basic plane, which the tables of this adopted database cannot store: \
         remove it, or convert the tables to utf8mb4"
    )]
    Charset,
}

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("database URL: {0}")]
    Url(String),
    /// The database cannot be reached.
    #[error("cannot open the database {database}: {hint}")]
    Unreachable {
        /// The database, without credentials.
        database: String,
        /// What to look at.
        hint: String,
        /// What the driver said.
        #[source]
        cause: Cause,
    },
    /// The schema is not the one that this version works with.
    #[error("{0}")]
    Schema(String),
    /// The database refused a statement.
    #[error("the database refused to be prepared; the log has the cause")]
    Failed(#[source] Cause),
}

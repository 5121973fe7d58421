//! The changes that can be made to the entries of a node.

use serde_json::{Map, Value};
use uuid::Uuid;

/// One change, as asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// `PUT …/maintenance`: make the legacy entry, or replace its reason (also by null).
    Set {
        /// The reason; cut at 4,096 characters.
        reason: Option<String>,
    },
    /// `PATCH /maintenance true` and a creation with `maintenance: true`: make the legacy entry without a reason if there is none.
    SetFlag,
    /// `DELETE …/maintenance` and `PATCH /maintenance false`: release every entry, or none.
    ReleaseAll,
    /// `POST …/maintenance`: assert a typed entry.
    Add {
        /// A registered type that is not reserved.
        entry_type: String,
        /// At most 65,535 bytes.
        reason: Option<String>,
        /// JSON text of an object, at most 65,535 bytes.
        extra: Option<String>,
    },
    /// `DELETE …/maintenance/{entry}`: release one entry.
    Release(Uuid),
    /// Assert the fault entry, or update it in place.
    AssertFault {
        /// What failed.
        kind: FaultKind,
        /// What to tell people.
        reason: Option<String>,
        /// Members of `extra` beside `fault`, such as `fence_record`.
        extra: Map<String, Value>,
    },
    /// Release the fault entry, if there is one.
    ReleaseFault {
        /// Only the one that carries this text in `extra.fence_record`.
        fence_record: Option<String>,
    },
    /// Bring flag and entries together after a service that does not know entries changed the flag.
    Reconcile,
    /// The node is about to be removed: ends its entries, and needs what releasing them needs.
    DeleteNode,
}

/// The kinds of `nodes.fault` that the reference service knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The power state could not be read or does not agree.
    PowerFailure,
    /// A clean step failed.
    CleanFailure,
    /// Leaving rescue failed.
    RescueAbortFailure,
    /// A service step failed.
    ServiceFailure,
}

impl FaultKind {
    /// All kinds, in the reference's order.
    pub const ALL: [Self; 4] =
        [Self::PowerFailure, Self::CleanFailure, Self::RescueAbortFailure, Self::ServiceFailure];

    /// The text in `nodes.fault` and in `extra.fault`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PowerFailure => "power failure",
            Self::CleanFailure => "clean failure",
            Self::RescueAbortFailure => "rescue abort failure",
            Self::ServiceFailure => "service failure",
        }
    }
}

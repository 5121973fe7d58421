//! The figures of a leadership.

use apelora_fencing::Limits;
use apelora_maintenance::registry;

/// The figures of a leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderConfig {
    /// Life of the lease, its margin, limit of a statement, loop guard.
    pub limits: Limits,
    /// This service's name (`APELORA_HOST`), for history, audit and the lease's row.
    pub host: String,
    /// Types of maintenance entries that lock power.
    pub power_locking_types: Vec<String>,
}

impl LeaderConfig {
    /// With the types that the registry marks as locking power.
    pub fn new(limits: Limits, host: impl Into<String>) -> Self {
        let locking = registry::TYPES.iter().filter(|t| t.locks_power).map(|t| t.name.to_owned()).collect();
        Self { limits, host: host.into(), power_locking_types: locking }
    }
}

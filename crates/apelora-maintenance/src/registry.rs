//! The entry types: registered in code, stored as plain words.
//!
//! Adding one is a row in [`TYPES`], its behaviour where the event happens, and tests: `docs/adding-a-type.md`.

/// Stands for the boolean: made by `PUT …/maintenance`, at most one per node, released by policy alone.
pub const LEGACY: &str = "legacy";
/// A fault that the service found itself; at most one per node, released by policy alone.
pub const FAULT: &str = "fault";
/// A hardware problem that a person asserted.
pub const HARDWARE_FAILURE: &str = "hardware_failure";
/// A hold with no more specific type.
pub const OPERATOR_HOLD: &str = "operator_hold";

/// What a type means to the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryType {
    /// The word in the database and in the API; at most 64 characters.
    pub name: &'static str,
    /// Made by the service only, never accepted from the typed API; at most one per node; exempt from the release
    /// floor, so that policy alone says who may release it.
    pub reserved: bool,
    /// While an entry of this type is active, the machine never switches the server off.
    pub locks_power: bool,
    /// One line for people.
    pub summary: &'static str,
}

/// Every registered type.
pub const TYPES: &[EntryType] = &[
    EntryType {
        name: LEGACY,
        reserved: true,
        locks_power: false,
        summary: "stands for the maintenance boolean",
    },
    EntryType {
        name: FAULT,
        reserved: true,
        locks_power: false,
        summary: "a fault that the service found itself; its kind is in extra.fault",
    },
    EntryType {
        name: HARDWARE_FAILURE,
        reserved: false,
        locks_power: false,
        summary: "a hardware problem that a person asserted",
    },
    EntryType {
        name: OPERATOR_HOLD,
        reserved: false,
        locks_power: false,
        summary: "a hold with no more specific type",
    },
];

/// The registered type of this name. Names are compared exactly.
pub fn find(name: &str) -> Option<&'static EntryType> {
    TYPES.iter().find(|t| t.name == name)
}

/// Whether entries of this type are released by policy alone. A type that this version does not know is not: an entry
/// that a newer version made is never easier to release here.
pub fn is_reserved(name: &str) -> bool {
    find(name).is_some_and(|t| t.reserved)
}

/// The types that the typed API accepts, for messages and documents.
pub fn assertable() -> impl Iterator<Item = &'static EntryType> {
    TYPES.iter().filter(|t| !t.reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_column() {
        for (i, t) in TYPES.iter().enumerate() {
            assert!(t.name.len() <= 64, "{}", t.name);
            assert!(t.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", t.name);
            assert!(TYPES[..i].iter().all(|other| other.name != t.name), "{} twice", t.name);
        }
    }

    #[test]
    fn an_unknown_type_is_not_exempt_from_the_floor() {
        assert!(!is_reserved("scheduled_window"));
        assert!(is_reserved(LEGACY) && is_reserved(FAULT) && !is_reserved(OPERATOR_HOLD));
        assert_eq!(assertable().map(|t| t.name).collect::<Vec<_>>(), [HARDWARE_FAILURE, OPERATOR_HOLD]);
    }
}

//! Storage pools.

use serde::Deserialize;

/// A storage pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its driver, as it came.
    pub driver: String,
    /// Its status, as it came: `Created` when it can be used.
    pub status: String,
}

/// The drivers whose volumes every member reaches (section 1 of the contract).
const SHARED: [&str; 4] = ["ceph", "linstor", "lvmcluster", "truenas"];

impl Pool {
    /// Whether every member reaches its volumes. An unknown driver is not shared.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        SHARED.contains(&self.driver.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_drivers_are_shared() {
        let shared = |driver: &str| {
            Pool { name: "p".to_owned(), driver: driver.to_owned(), status: "Created".to_owned() }.is_shared()
        };
        assert!(["lvmcluster", "ceph", "linstor", "truenas"].into_iter().all(shared));
        let others = ["dir", "lvm", "zfs", "btrfs", "cephfs", "cephobject", "Ceph", "lvmcluster2", ""];
        assert!(!others.into_iter().any(shared));
    }
}

//! What a simulated cluster is made of.

use std::path::PathBuf;
use std::time::Duration;

/// A cluster to simulate.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Its members, in the order in which they joined; the first leads the database at first.
    pub members: Vec<String>,
    /// `cluster.offline_threshold`; Incus accepts more than 10 s. A heartbeat round is half of it.
    pub offline_threshold: Duration,
    /// `cluster.healing_threshold` in seconds, if it is set. The simulation only shows it.
    pub healing_threshold: Option<u64>,
    /// Its storage pools.
    pub pools: Vec<PoolPlan>,
    /// Its instances.
    pub instances: Vec<InstancePlan>,
    /// How long a machine boots until its member answers.
    pub boot_time: Duration,
    /// How the shared storage guards its volumes.
    pub lease: Lease,
    /// The wall clock at the start, since the Unix epoch.
    pub wall_clock: Duration,
    /// Each member also listens on a Unix socket `MEMBER.socket` in this folder, which must exist.
    pub sockets: Option<PathBuf>,
    /// What ids are made of: give another one to each cluster.
    pub seed: u64,
}

impl ClusterPlan {
    /// A cluster of these members as Incus makes one by default: threshold 20 s, no healing, a local pool `local` and a
    /// shared pool `shared`, no instances, machines that boot in 20 s, exclusive leases that end with the power.
    #[must_use]
    pub fn new(members: &[&str]) -> Self {
        Self {
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            offline_threshold: Duration::from_secs(20),
            healing_threshold: None,
            pools: vec![PoolPlan::new("local", "dir"), PoolPlan::new("shared", "lvmcluster")],
            instances: Vec::new(),
            boot_time: Duration::from_secs(20),
            lease: Lease::Exclusive(Duration::ZERO),
            // 2026-11-30T00:00:00Z
            wall_clock: Duration::from_secs(1_795_996_800),
            sockets: None,
            seed: 0,
        }
    }
}

/// A storage pool.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    /// Its name.
    pub name: String,
    /// Its driver; `lvmcluster` and `ceph` are shared by all members.
    pub driver: String,
}

impl PoolPlan {
    /// A pool.
    #[must_use]
    pub fn new(name: &str, driver: &str) -> Self {
        Self { name: name.to_owned(), driver: driver.to_owned() }
    }

    /// Whether its volumes can be used on every member.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.driver.as_str(), "lvmcluster" | "ceph" | "linstor" | "truenas")
    }
}

/// How shared storage guards a volume against two users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// One host at a time. A host that has lost its power keeps its leases for this long; one that has power keeps them.
    Exclusive(Duration),
    /// Any number of hosts at once: what an instance that runs twice needs.
    Shared,
}

/// An instance. It runs at first, unless it is planned otherwise.
#[derive(Debug, Clone)]
pub struct InstancePlan {
    /// Its project.
    pub project: String,
    /// Its name, unique in the project.
    pub name: String,
    /// The member that it is on.
    pub member: String,
    /// The pool of its root disk.
    pub pool: String,
    /// Whether it is a virtual machine.
    pub virtual_machine: bool,
    /// `boot.autostart`.
    pub autostart: Option<bool>,
    /// `cluster.evacuate`.
    pub evacuate: Option<String>,
    /// Whether it is deleted when it stops.
    pub ephemeral: bool,
    /// Whether a USB device of its member is passed through to it.
    pub local_device: bool,
    /// Whether it has a backup.
    pub backup: bool,
    /// `limits.memory`, in MiB.
    pub memory: Option<u32>,
    /// Whether it runs.
    pub running: bool,
}

impl InstancePlan {
    /// A running container on the pool `shared`.
    #[must_use]
    pub fn new(project: &str, name: &str, member: &str) -> Self {
        Self {
            project: project.to_owned(),
            name: name.to_owned(),
            member: member.to_owned(),
            pool: "shared".to_owned(),
            virtual_machine: false,
            autostart: None,
            evacuate: None,
            ephemeral: false,
            local_device: false,
            backup: false,
            memory: None,
            running: true,
        }
    }

    /// Its root disk is on this pool.
    #[must_use]
    pub fn on_pool(self, pool: &str) -> Self {
        Self { pool: pool.to_owned(), ..self }
    }

    /// A virtual machine instead of a container.
    #[must_use]
    pub fn virtual_machine(self) -> Self {
        Self { virtual_machine: true, ..self }
    }

    /// With `boot.autostart`.
    #[must_use]
    pub fn autostart(self, autostart: bool) -> Self {
        Self { autostart: Some(autostart), ..self }
    }

    /// With `cluster.evacuate`.
    #[must_use]
    pub fn evacuate(self, word: &str) -> Self {
        Self { evacuate: Some(word.to_owned()), ..self }
    }

    /// Deleted when it stops.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        Self { ephemeral: true, ..self }
    }

    /// With a device that ties it to its member.
    #[must_use]
    pub fn with_local_device(self) -> Self {
        Self { local_device: true, ..self }
    }

    /// With a backup.
    #[must_use]
    pub fn with_backup(self) -> Self {
        Self { backup: true, ..self }
    }

    /// With `limits.memory`, in MiB.
    #[must_use]
    pub fn memory(self, mebibytes: u32) -> Self {
        Self { memory: Some(mebibytes), ..self }
    }

    /// Not running.
    #[must_use]
    pub fn stopped(self) -> Self {
        Self { running: false, ..self }
    }
}

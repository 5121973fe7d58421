//! What a simulated site is made of.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::incus::{ClusterPlan, InstancePlan};

/// A site to simulate.
#[derive(Debug, Clone)]
pub struct SitePlan {
    /// Its members. They take the place of those in `cluster`.
    pub members: Vec<MemberPlan>,
    /// The cluster on them: pools, instances, times, leases. Its `sockets` is taken as it is.
    pub cluster: ClusterPlan,
    /// The projects that the worker's client certificate is restricted to; none: it is not restricted.
    pub restricted_to: Option<Vec<String>>,
    /// Where the worker's files are written. It is made if it is not there.
    pub folder: PathBuf,
}

/// A machine and its member.
#[derive(Debug, Clone)]
pub struct MemberPlan {
    /// Name of the member.
    pub name: String,
    /// How its power is reached.
    pub bmc: BmcKind,
    /// Whether the BMC has no power of its own: when the machine loses mains power, it is gone too. Otherwise it then
    /// reads off.
    pub bmc_needs_mains: bool,
}

impl MemberPlan {
    /// A machine whose BMC survives a loss of mains power.
    #[must_use]
    pub fn new(name: &str, bmc: BmcKind) -> Self {
        Self { name: name.to_owned(), bmc, bmc_needs_mains: false }
    }
}

/// The kind of a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BmcKind {
    /// Redfish over HTTPS.
    Redfish,
    /// IPMI 2.0 over UDP.
    Ipmi,
}

impl SitePlan {
    /// A site of these members, Redfish and IPMI in turn, without instances, with an offline threshold of 20 s.
    #[must_use]
    pub fn new(members: &[&str], folder: &Path) -> Self {
        let kinds = [BmcKind::Redfish, BmcKind::Ipmi].into_iter().cycle();
        Self {
            members: members.iter().zip(kinds).map(|(name, bmc)| MemberPlan::new(name, bmc)).collect(),
            cluster: ClusterPlan::new(members),
            restricted_to: None,
            folder: folder.to_owned(),
        }
    }

    /// The demo's site: `s1` to `s4`, ten instances in two projects that show each way in which an instance can be
    /// restarted elsewhere or has to stay, and the shortest offline threshold that Incus accepts, so that nobody waits
    /// longer than needed.
    #[must_use]
    pub fn demo(folder: &Path) -> Self {
        let mut plan = Self::new(&["s1", "s2", "s3", "s4"], folder);
        plan.cluster.offline_threshold = Duration::from_secs(11);
        plan.cluster.instances = vec![
            InstancePlan::new("default", "web1", "s1").memory(1024),
            InstancePlan::new("default", "web2", "s2").memory(1024),
            InstancePlan::new("shop", "db1", "s1").virtual_machine().autostart(true).memory(4096),
            InstancePlan::new("shop", "db2", "s3").virtual_machine().autostart(true).memory(4096),
            InstancePlan::new("shop", "queue", "s3").memory(512),
            InstancePlan::new("default", "batch", "s3").autostart(false).memory(2048),
            InstancePlan::new("default", "cache", "s3").on_pool("local").memory(512),
            InstancePlan::new("default", "licence", "s3").virtual_machine().with_local_device().memory(512),
            InstancePlan::new("default", "build", "s3").ephemeral().memory(512),
            InstancePlan::new("shop", "reports", "s4").evacuate("stop").memory(1024),
        ];
        plan
    }

    /// With these instances.
    #[must_use]
    pub fn with_instances(mut self, instances: &[InstancePlan]) -> Self {
        self.cluster.instances = instances.to_vec();
        self
    }

    /// With this kind of BMC for all members.
    #[must_use]
    pub fn all_with(mut self, bmc: BmcKind) -> Self {
        for member in &mut self.members {
            member.bmc = bmc;
        }
        self
    }
}

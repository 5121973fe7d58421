//! The demo's fleet: a dozen nodes of three projects, why some of them are out of service, and the cluster's servers.

use apelora_maintenance::registry::{HARDWARE_FAILURE, OPERATOR_HOLD};
use apelora_maintenance::{Authority, CONDUCTOR, FaultKind, Operation, Scope};

/// A node of the demo.
pub(crate) struct DemoNode {
    pub(crate) name: &'static str,
    pub(crate) resource_class: &'static str,
    pub(crate) owner: Option<&'static str>,
    pub(crate) lessee: Option<&'static str>,
    pub(crate) description: &'static str,
}

const fn node(
    name: &'static str,
    resource_class: &'static str,
    owner: &'static str,
    lessee: Option<&'static str>,
    description: &'static str,
) -> DemoNode {
    DemoNode { name, resource_class, owner: Some(owner), lessee, description }
}

const fn spare(name: &'static str, resource_class: &'static str, description: &'static str) -> DemoNode {
    DemoNode { name, resource_class, owner: None, lessee: None, description }
}

/// The fleet.
pub(crate) static NODES: &[DemoNode] = &[
    node("rack1-n1", "compute", "finance", Some("payments"), "payments, primary"),
    node("rack1-n2", "compute", "finance", Some("payments"), "payments, standby"),
    node("rack1-n3", "compute", "finance", None, "month-end batch"),
    node("rack1-n4", "compute", "finance", None, "month-end batch"),
    node("rack2-n1", "gpu", "research", Some("vision"), "training"),
    node("rack2-n2", "gpu", "research", Some("vision"), "training"),
    node("rack2-n3", "gpu", "research", Some("speech"), "training"),
    node("rack2-n4", "gpu", "research", None, "free for booking"),
    node("rack3-n1", "storage", "platform", None, "object store"),
    node("rack3-n2", "storage", "platform", None, "object store"),
    spare("rack3-n3", "storage", "spare"),
    spare("rack3-n4", "compute", "spare"),
    // The servers of the cluster, by their names in it.
    node("s1", "cluster", "platform", None, "server of the cluster"),
    node("s2", "cluster", "platform", None, "server of the cluster"),
    node("s3", "cluster", "platform", None, "server of the cluster"),
    node("s4", "cluster", "platform", None, "server of the cluster"),
];

/// The servers of the cluster.
pub(crate) const MEMBERS: [&str; 4] = ["s1", "s2", "s3", "s4"];

/// Somebody who asserts: which rank, whose name, which project.
fn by(scope: Scope, user: &str, project: &str) -> Authority {
    Authority { scope: Some(scope), user: user.to_owned(), project: project.to_owned() }
}

fn hold(entry_type: &str, reason: &str) -> Operation {
    Operation::Add { entry_type: entry_type.to_owned(), reason: Some(reason.to_owned()), extra: None }
}

/// Why nodes are out of service: the node, how many hours ago, what, and by whom. Oldest first for each node.
pub(crate) fn entries() -> Vec<(&'static str, i64, Operation, Authority)> {
    let operator = || by(Scope::System, "dc-operator", "operations");
    let finance = || by(Scope::Owner, "finance-admin", "finance");
    let research = || by(Scope::Owner, "research-admin", "research");
    let vision = || by(Scope::Lessee, "vision-member", "vision");
    vec![
        // A script that knows nothing but the boolean.
        (
            "rack1-n1",
            2,
            Operation::Set { reason: Some("rebalancing rack".to_owned()) },
            by(Scope::System, "fleet-script", "operations"),
        ),
        // Two parties, two reasons, each with its own release.
        (
            "rack1-n2",
            75,
            hold(HARDWARE_FAILURE, "Disk 3 has bad sectors, scheduled for replacement, see HW-3743"),
            finance(),
        ),
        ("rack1-n2", 3, hold(OPERATOR_HOLD, "Row C power work, change window CHG-2211"), operator()),
        // A fault that the service found itself.
        (
            "rack1-n4",
            1,
            Operation::AssertFault {
                kind: FaultKind::PowerFailure,
                reason: Some("the management controller has not answered for 10 minutes".to_owned()),
                extra: serde_json::Map::new(),
            },
            Authority::service(CONDUCTOR),
        ),
        // A lessee's own hold, and all three ranks on one node.
        ("rack2-n1", 26, hold(OPERATOR_HOLD, "benchmark until Friday, do not reboot"), vision()),
        ("rack2-n2", 50, hold(OPERATOR_HOLD, "driver rollout"), vision()),
        ("rack2-n2", 30, hold(OPERATOR_HOLD, "waiting for the licence server"), research()),
        (
            "rack2-n2",
            4,
            hold(HARDWARE_FAILURE, "GPU 5 falls off the bus under load, see HW-3801"),
            operator(),
        ),
        ("rack3-n2", 12, hold(HARDWARE_FAILURE, "fan 2 at 40 % speed"), operator()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_its_node_and_nobody_acts_without_standing() {
        assert_eq!(NODES.len(), 12 + MEMBERS.len());
        assert!(MEMBERS.iter().all(|member| NODES.iter().any(|n| n.name == *member)));
        for (name, _, _, by) in entries() {
            let node = NODES.iter().find(|n| n.name == name).expect(name);
            match by.scope.expect(name) {
                Scope::System => {}
                Scope::Owner => assert_eq!(node.owner, Some(by.project.as_str()), "{name}"),
                Scope::Lessee => assert_eq!(node.lessee, Some(by.project.as_str()), "{name}"),
            }
        }
    }
}

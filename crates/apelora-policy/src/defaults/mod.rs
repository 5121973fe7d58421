//! The rules that hold unless a file says otherwise.
//!
//! Names, texts and deprecated predecessors are those of the reference service (Ironic 39.0), so that its policy files
//! work unchanged. On top come rules for typed maintenance entries, for their list over all nodes, for hardware types, and for the cluster.

mod actions;
mod cluster;
mod helpers;
mod maintenance;
mod nodes;

use crate::rules::{Deprecated, Registered, ScopeTypes};

/// All built-in rules: helpers first, then by what they are about.
pub fn all() -> impl Iterator<Item = Registered<'static>> {
    groups().flat_map(|(_, rules)| rules.iter().copied())
}

/// The built-in rules with a heading for each group.
pub(crate) fn groups() -> impl Iterator<Item = (&'static str, &'static [Registered<'static>])> {
    [
        ("Helpers that other rules refer to", helpers::HELPERS),
        ("Maintenance", maintenance::MAINTENANCE),
        ("Nodes", nodes::NODES),
        ("Actions on nodes, and agents", actions::ACTIONS),
        ("The cluster: members, audit, settings", cluster::CLUSTER),
    ]
    .into_iter()
}

/// A rule for tokens of system or project scope, without a predecessor.
const fn rule(
    name: &'static str,
    check: &'static str,
    description: &'static str,
    operations: &'static [(&'static str, &'static str)],
) -> Registered<'static> {
    let scopes = ScopeTypes::SYSTEM_OR_PROJECT;
    Registered { name, check, scopes, deprecated: None, description, operations }
}

impl Registered<'static> {
    /// The rule that this one has taken the place of.
    const fn after(self, name: &'static str, check: &'static str) -> Self {
        Self { deprecated: Some(Deprecated { name, check }), ..self }
    }

    const fn scoped(self, scopes: ScopeTypes) -> Self {
        Self { scopes, ..self }
    }
}

// Who is let pass, from few to many. Operators are callers with a system-scoped token; `service_role` stands for the
// services of one trusted project, while that is switched on.

const SYSTEM_ADMIN: &str = "role:admin and system_scope:all";

const SYSTEM_MEMBER: &str = "(role:member and system_scope:all) or rule:service_role";

const SYSTEM_READER: &str =
    "(role:reader and system_scope:all) or (role:service and system_scope:all) or rule:service_role";

const NODE_CREATOR: &str = "(role:admin and system_scope:all) or (role:service and system_scope:all)";

const PROJECT_ADMIN: &str = "role:admin and project_id:%(node.owner)s";

const SYSTEM_MEMBER_OR_OWNER_ADMIN: &str = "((role:member and system_scope:all) or rule:service_role) \
    or (role:service and system_scope:all) or (role:admin and project_id:%(node.owner)s) \
    or (role:manager and project_id:%(node.owner)s) or (role:service and project_id:%(node.owner)s)";

const SYSTEM_MEMBER_OR_OWNER_MEMBER: &str = "((role:member and system_scope:all) or rule:service_role) \
    or (role:service and system_scope:all) or (role:member and project_id:%(node.owner)s) \
    or (role:service and project_id:%(node.owner)s)";

const SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN: &str = "((role:member and system_scope:all) or rule:service_role) \
    or (role:service and system_scope:all) or (role:member and project_id:%(node.owner)s) \
    or (role:admin and project_id:%(node.lessee)s) or (role:manager and project_id:%(node.lessee)s) \
    or (role:service and project_id:%(node.owner)s)";

const SYSTEM_OR_PROJECT_MEMBER: &str = "((role:member and system_scope:all) or rule:service_role) \
    or (role:member and (project_id:%(node.owner)s or project_id:%(node.lessee)s)) \
    or (role:service and system_scope:all)";

const SYSTEM_OR_OWNER_READER: &str = "((role:reader and system_scope:all) or (role:service and system_scope:all) \
    or rule:service_role) or (role:service and system_scope:all) or (role:reader and project_id:%(node.owner)s) \
    or (role:service and project_id:%(node.owner)s)";

const SYSTEM_OR_PROJECT_READER: &str = "((role:reader and system_scope:all) or (role:service and system_scope:all) \
    or rule:service_role) or (role:reader and (project_id:%(node.owner)s or project_id:%(node.lessee)s)) \
    or (role:service and project_id:%(node.owner)s)";

const ADMIN_OR_SERVICE: &str = "(role:admin) or (role:service)";

const API_READER: &str = "(role:reader) or (role:service)";

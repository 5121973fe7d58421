//! Rules that no request asks for, but that other rules name.

use super::rule;
use crate::rules::{Registered, ScopeTypes};

const fn helper(name: &'static str, check: &'static str, description: &'static str) -> Registered<'static> {
    rule(name, check, description, &[]).scoped(ScopeTypes::ANY)
}

/// The rules of this group.
pub(super) const HELPERS: &[Registered<'static>] = &[
    helper(
        "service_role",
        "role:service and project_name:%(config.service_project_name)s",
        "A service of the trusted project. Holds only while APELORA_SERVICE_ROLE_ELEVATED is on.",
    ),
    helper("public_api", "is_public_api:True", "A request to a path that needs no authentication."),
    helper(
        "show_password",
        "!",
        "See the secrets among the driver settings. Nobody, unless a file says otherwise.",
    ),
    helper(
        "show_instance_secrets",
        "!",
        "See the secrets among the instance settings. Nobody, unless a file says otherwise.",
    ),
    helper(
        "is_admin",
        "rule:admin_api or (rule:is_member and role:baremetal_admin)",
        "An administrator of the time before scopes. Counts while APELORA_ENFORCE_NEW_DEFAULTS is off.",
    ),
    helper("admin_api", "role:admin or role:administrator", "Older helper of is_admin."),
    helper(
        "is_member",
        "(project_domain_id:default or project_domain_id:None) and (project_name:demo or project_name:baremetal)",
        "Older helper: a member of one of the two projects of the time before scopes.",
    ),
    helper(
        "is_observer",
        "rule:is_member and (role:observer or role:baremetal_observer)",
        "Older helper: an observer of the time before scopes.",
    ),
    helper("is_node_owner", "project_id:%(node.owner)s", "Older helper: the node's owner."),
    helper("is_node_lessee", "project_id:%(node.lessee)s", "Older helper: the node's lessee."),
    helper("is_allocation_owner", "project_id:%(allocation.owner)s", "Older helper, without use here."),
];

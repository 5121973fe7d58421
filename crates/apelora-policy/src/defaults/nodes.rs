//! Nodes as records: creating, reading, changing and deleting them.

use super::{
    ADMIN_OR_SERVICE, API_READER, NODE_CREATOR, PROJECT_ADMIN, SYSTEM_ADMIN, SYSTEM_MEMBER,
    SYSTEM_MEMBER_OR_OWNER_ADMIN, SYSTEM_MEMBER_OR_OWNER_MEMBER, SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
    SYSTEM_OR_OWNER_READER, SYSTEM_OR_PROJECT_MEMBER, SYSTEM_OR_PROJECT_READER, SYSTEM_READER, rule,
};
use crate::rules::{Registered, ScopeTypes};

/// The rules of this group.
pub(super) const NODES: &[Registered<'static>] = &[
    rule("baremetal:node:create", NODE_CREATOR, "Create a node, with any owner.", &[("POST", "/nodes")])
        .after("baremetal:node:create", "rule:is_admin"),
    rule(
        "baremetal:node:create:self_owned_node",
        ADMIN_OR_SERVICE,
        "Create a node that belongs to the caller's own project.",
        &[("POST", "/nodes")],
    ),
    rule(
        "baremetal:node:list",
        API_READER,
        "List the nodes of the caller's own project, owned or leased.",
        &[("GET", "/nodes"), ("GET", "/nodes/detail")],
    )
    .after("baremetal:node:list", "rule:baremetal:node:get"),
    rule(
        "baremetal:node:list_all",
        SYSTEM_READER,
        "List all nodes.",
        &[("GET", "/nodes"), ("GET", "/nodes/detail")],
    )
    .after("baremetal:node:list_all", "rule:baremetal:node:get"),
    rule(
        "baremetal:node:get",
        SYSTEM_OR_PROJECT_READER,
        "See a node. Whoever may not is told that it does not exist.",
        &[("GET", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:get:filter_threshold",
        SYSTEM_READER,
        "See a node whole; everybody else is asked field by field.",
        &[("GET", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:get:last_error",
        SYSTEM_OR_OWNER_READER,
        "See a node's last error.",
        &[("GET", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:get:reservation",
        SYSTEM_OR_OWNER_READER,
        "See which service holds a node's lock.",
        &[("GET", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:get:driver_internal_info",
        SYSTEM_OR_OWNER_READER,
        "See what the driver of a node has noted for itself.",
        &[("GET", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:get:driver_info",
        SYSTEM_OR_OWNER_READER,
        "See the driver settings of a node; secrets stay masked.",
        &[("GET", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:update:driver_info",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Change the driver settings of a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:properties",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Change the properties of a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:chassis_uuid",
        SYSTEM_ADMIN,
        "Move a node to another chassis.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:instance_uuid",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Say which instance uses a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:lessee",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Lease a node to a project.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:owner",
        SYSTEM_MEMBER,
        "Give a node to a project.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:driver_interfaces",
        SYSTEM_MEMBER_OR_OWNER_ADMIN,
        "Change the driver of a node or its interfaces.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:network_data",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Change the network data of a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:conductor_group",
        SYSTEM_MEMBER,
        "Move a node to another group of conductors.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:name",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Rename a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update:retired",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Retire a node, or take it back into service.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update",
        SYSTEM_OR_PROJECT_MEMBER,
        "Change the fields of a node that have no rule of their own.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update", "rule:is_admin"),
    rule(
        "baremetal:node:update_extra",
        SYSTEM_OR_PROJECT_MEMBER,
        "Change the extra metadata of a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update_extra", "rule:baremetal:node:update"),
    rule(
        "baremetal:node:update_instance_info",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Change the instance settings of a node.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update_instance_info", "rule:baremetal:node:update"),
    rule(
        "baremetal:node:update_owner_provisioned",
        SYSTEM_ADMIN,
        "Change the owner of a node that is in use.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:update_owner_provisioned", "rule:is_admin")
    .scoped(ScopeTypes { system: true, ..ScopeTypes::ANY }),
    rule("baremetal:node:delete", SYSTEM_ADMIN, "Delete a node.", &[("DELETE", "/nodes/{node_ident}")])
        .after("baremetal:node:delete", "rule:is_admin"),
    rule(
        "baremetal:node:delete:self_owned_node",
        PROJECT_ADMIN,
        "Delete a node that belongs to the caller's own project.",
        &[("DELETE", "/nodes/{node_ident}")],
    ),
    rule(
        "baremetal:node:disable_cleaning",
        SYSTEM_ADMIN,
        "Switch cleaning of a node off.",
        &[("PATCH", "/nodes/{node_ident}")],
    )
    .after("baremetal:node:disable_cleaning", "rule:baremetal:node:update"),
    rule(
        "baremetal:node:history:get",
        SYSTEM_OR_OWNER_READER,
        "Read the history of a node.",
        &[("GET", "/nodes/{node_ident}/history"), ("GET", "/nodes/{node_ident}/history/{event_ident}")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:inventory:get",
        SYSTEM_OR_OWNER_READER,
        "Read the inventory of a node.",
        &[("GET", "/nodes/{node_ident}/inventory")],
    )
    .after("baremetal:node:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:update:shard",
        SYSTEM_ADMIN,
        "Move a node to another shard.",
        &[("PATCH", "/nodes/{node_ident}")],
    ),
    rule(
        "baremetal:node:update:parent_node",
        SYSTEM_MEMBER,
        "Say which node a node is a part of.",
        &[("PATCH", "/nodes/{node_ident}")],
    ),
    rule(
        "baremetal:node:update:disable_power_off",
        SYSTEM_ADMIN,
        "Forbid switching a node off.",
        &[("PATCH", "/nodes/{node_ident}")],
    ),
];

//! Taking nodes out of service and putting them back.

use super::{
    API_READER, SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN, SYSTEM_OR_PROJECT_READER, SYSTEM_READER, rule,
};
use crate::rules::Registered;

/// The rules of this group.
pub(super) const MAINTENANCE: &[Registered<'static>] = &[
    rule(
        "baremetal:node:set_maintenance",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Take a node out of service through the maintenance flag.",
        &[("PUT", "/nodes/{node_ident}/maintenance")],
    )
    .after("baremetal:node:set_maintenance", "rule:is_admin"),
    rule(
        "baremetal:node:clear_maintenance",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Put a node back into service: release every maintenance entry.",
        &[("DELETE", "/nodes/{node_ident}/maintenance")],
    )
    .after("baremetal:node:clear_maintenance", "rule:is_admin"),
    // Texts of their own, not references: changing an older rule must not silently change these.
    rule(
        "baremetal:node:maintenance:get",
        SYSTEM_OR_PROJECT_READER,
        "List the maintenance entries of a node.",
        &[
            ("GET", "/nodes/{node_ident}/maintenance"),
            ("GET", "/nodes/{node_ident}/maintenance/{entry_uuid}"),
        ],
    )
    .after("baremetal:node:maintenance:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:maintenance:add",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Add a typed maintenance entry to a node, which takes it out of service.",
        &[("POST", "/nodes/{node_ident}/maintenance")],
    )
    .after("baremetal:node:maintenance:add", "rule:is_admin"),
    rule(
        "baremetal:node:maintenance:remove",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Release a maintenance entry. It never reaches beyond the caller's own authority.",
        &[
            ("DELETE", "/nodes/{node_ident}/maintenance/{entry_uuid}"),
            ("DELETE", "/nodes/{node_ident}/maintenance"),
        ],
    )
    .after("baremetal:node:maintenance:remove", "rule:is_admin"),
    rule(
        "apelora:maintenance:list",
        API_READER,
        "List the maintenance entries of the nodes of the caller's own project, owned or leased.",
        &[("GET", "/apelora/v1/maintenance")],
    ),
    rule(
        "apelora:maintenance:list_all",
        SYSTEM_READER,
        "List the maintenance entries of all nodes.",
        &[("GET", "/apelora/v1/maintenance")],
    )
    .after("apelora:maintenance:list_all", "rule:is_admin or rule:is_observer"),
];

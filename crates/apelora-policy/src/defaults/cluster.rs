//! Rules of the cluster API: members and their fencing, the audit trail, the settings. What they tell is about the whole
//! deployment, so owners and lessees of nodes pass none of them.

use super::{SYSTEM_ADMIN, SYSTEM_READER, rule};
use crate::rules::Registered;

/// Whom these rules let pass before there were scopes.
const OLDER_READER: &str = "rule:is_admin or rule:is_observer";
const OLDER_ADMIN: &str = "rule:is_admin";

/// The rules of this group.
pub(super) const CLUSTER: &[Registered<'static>] = &[
    rule(
        "apelora:member:get",
        SYSTEM_READER,
        "See the cluster's members: what was decided about them, their proofs and their fence records.",
        &[
            ("GET", "/apelora/v1/members"),
            ("GET", "/apelora/v1/members/{member}"),
            ("GET", "/apelora/v1/members/{member}/explain"),
            ("GET", "/apelora/v1/fence/records"),
            ("GET", "/apelora/v1/fence/records/{record}"),
        ],
    )
    .after("apelora:member:get", OLDER_READER),
    rule(
        "apelora:member:confirm_off",
        SYSTEM_ADMIN,
        "Give one's word that a member is off, upon which its instances start elsewhere.",
        &[("POST", "/apelora/v1/members/{member}/confirm-off")],
    )
    .after("apelora:member:confirm_off", OLDER_ADMIN),
    rule(
        "apelora:member:trust",
        SYSTEM_ADMIN,
        "Trust a member's entry of the BMC map again, upon which it may be switched off.",
        &[("POST", "/apelora/v1/members/{member}/trust")],
    )
    .after("apelora:member:trust", OLDER_ADMIN),
    rule("apelora:audit:get", SYSTEM_READER, "Read the audit trail.", &[("GET", "/apelora/v1/audit")])
        .after("apelora:audit:get", OLDER_READER),
    rule(
        "apelora:settings:get",
        SYSTEM_READER,
        "See the settings in force and the BMC map, without any secret.",
        &[("GET", "/apelora/v1/settings")],
    )
    .after("apelora:settings:get", OLDER_READER),
];

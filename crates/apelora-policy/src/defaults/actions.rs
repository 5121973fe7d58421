//! What is done with a node: power, boot, provisioning, console, media; and the agents' own requests.

// This service serves few of these requests. The rules are here so that the policy files of an existing deployment load
// without remarks, and so that nothing is open by default when a request is added.

use super::{
    SYSTEM_ADMIN, SYSTEM_MEMBER_OR_OWNER_ADMIN, SYSTEM_MEMBER_OR_OWNER_MEMBER,
    SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN, SYSTEM_OR_PROJECT_MEMBER, SYSTEM_OR_PROJECT_READER,
    SYSTEM_READER, rule,
};
use crate::rules::{Registered, ScopeTypes};

/// The rules of this group.
pub(super) const ACTIONS: &[Registered<'static>] = &[
    rule(
        "baremetal:node:validate",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Check the settings of a node.",
        &[("GET", "/nodes/{node_ident}/validate")],
    )
    .after("baremetal:node:validate", "rule:is_admin"),
    rule(
        "baremetal:node:get_boot_device",
        SYSTEM_MEMBER_OR_OWNER_ADMIN,
        "See the boot device of a node.",
        &[
            ("GET", "/nodes/{node_ident}/management/boot_device"),
            ("GET", "/nodes/{node_ident}/management/boot_device/supported"),
        ],
    )
    .after("baremetal:node:get_boot_device", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:set_boot_device",
        SYSTEM_MEMBER_OR_OWNER_ADMIN,
        "Choose the boot device of a node.",
        &[("PUT", "/nodes/{node_ident}/management/boot_device")],
    )
    .after("baremetal:node:set_maintenance", "rule:is_admin"),
    rule(
        "baremetal:node:get_indicator_state",
        SYSTEM_OR_PROJECT_READER,
        "See the indicator lights of a node.",
        &[
            ("GET", "/nodes/{node_ident}/management/indicators/{component}/{indicator}"),
            ("GET", "/nodes/{node_ident}/management/indicators"),
        ],
    )
    .after("baremetal:node:get_indicator_state", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:set_indicator_state",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Switch the indicator lights of a node.",
        &[("PUT", "/nodes/{node_ident}/management/indicators/{component}/{indicator}")],
    )
    .after("baremetal:node:set_indicator_state", "rule:is_admin"),
    rule(
        "baremetal:node:inject_nmi",
        SYSTEM_MEMBER_OR_OWNER_ADMIN,
        "Send a non-maskable interrupt to a node.",
        &[("PUT", "/nodes/{node_ident}/management/inject_nmi")],
    )
    .after("baremetal:node:inject_nmi", "rule:is_admin"),
    rule(
        "baremetal:node:get_states",
        SYSTEM_OR_PROJECT_READER,
        "See the states of a node.",
        &[("GET", "/nodes/{node_ident}/states")],
    )
    .after("baremetal:node:get_states", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:set_power_state",
        SYSTEM_OR_PROJECT_MEMBER,
        "Switch a node on or off.",
        &[("PUT", "/nodes/{node_ident}/states/power")],
    )
    .after("baremetal:node:set_power_state", "rule:is_admin"),
    rule(
        "baremetal:node:set_boot_mode",
        SYSTEM_OR_PROJECT_MEMBER,
        "Choose the boot mode of a node.",
        &[("PUT", "/nodes/{node_ident}/states/boot_mode")],
    )
    .after("baremetal:node:set_power_state", "rule:is_admin"),
    rule(
        "baremetal:node:set_secure_boot",
        SYSTEM_OR_PROJECT_MEMBER,
        "Switch secure boot of a node on or off.",
        &[("PUT", "/nodes/{node_ident}/states/secure_boot")],
    )
    .after("baremetal:node:set_power_state", "rule:is_admin"),
    rule(
        "baremetal:node:set_provision_state",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Change the provision state of a node.",
        &[("PUT", "/nodes/{node_ident}/states/provision")],
    )
    .after("baremetal:node:set_provision_state", "rule:is_admin"),
    rule(
        "baremetal:node:set_provision_state:clean_steps",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Clean a node with steps of the caller's choice.",
        &[("PUT", "/nodes/{node_ident}/states/provision")],
    ),
    rule(
        "baremetal:node:set_provision_state:service_steps",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Service a node with steps of the caller's choice.",
        &[("PUT", "/nodes/{node_ident}/states/provision")],
    ),
    rule(
        "baremetal:node:set_raid_state",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Choose the RAID layout of a node.",
        &[("PUT", "/nodes/{node_ident}/states/raid")],
    )
    .after("baremetal:node:set_raid_state", "rule:is_admin"),
    rule(
        "baremetal:node:get_console",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "See how to reach the console of a node.",
        &[("GET", "/nodes/{node_ident}/states/console")],
    )
    .after("baremetal:node:get_console", "rule:is_admin"),
    rule(
        "baremetal:node:set_console_state",
        SYSTEM_MEMBER_OR_OWNER_MEMBER,
        "Switch the console of a node on or off.",
        &[("PUT", "/nodes/{node_ident}/states/console")],
    )
    .after("baremetal:node:set_console_state", "rule:is_admin"),
    rule(
        "baremetal:node:vif:list",
        SYSTEM_OR_PROJECT_READER,
        "See the virtual interfaces attached to a node.",
        &[("GET", "/nodes/{node_ident}/vifs")],
    )
    .after("baremetal:node:vif:list", "rule:is_admin"),
    rule(
        "baremetal:node:vif:attach",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Attach a virtual interface to a node.",
        &[("POST", "/nodes/{node_ident}/vifs")],
    )
    .after("baremetal:node:vif:attach", "rule:is_admin"),
    rule(
        "baremetal:node:vif:detach",
        SYSTEM_OR_OWNER_MEMBER_AND_LESSEE_ADMIN,
        "Detach a virtual interface from a node.",
        &[("DELETE", "/nodes/{node_ident}/vifs/{node_vif_ident}")],
    )
    .after("baremetal:node:vif:detach", "rule:is_admin"),
    rule(
        "baremetal:node:traits:list",
        SYSTEM_OR_PROJECT_READER,
        "See the traits of a node.",
        &[("GET", "/nodes/{node_ident}/traits")],
    )
    .after("baremetal:node:traits:list", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:node:traits:set",
        SYSTEM_MEMBER_OR_OWNER_ADMIN,
        "Set traits of a node.",
        &[("PUT", "/nodes/{node_ident}/traits"), ("PUT", "/nodes/{node_ident}/traits/{trait}")],
    )
    .after("baremetal:node:traits:set", "rule:is_admin"),
    rule(
        "baremetal:node:traits:delete",
        SYSTEM_MEMBER_OR_OWNER_ADMIN,
        "Remove traits from a node.",
        &[("DELETE", "/nodes/{node_ident}/traits"), ("DELETE", "/nodes/{node_ident}/traits/{trait}")],
    )
    .after("baremetal:node:traits:delete", "rule:is_admin"),
    rule(
        "baremetal:node:bios:get",
        SYSTEM_OR_PROJECT_READER,
        "See the BIOS settings of a node.",
        &[("GET", "/nodes/{node_ident}/bios"), ("GET", "/nodes/{node_ident}/bios/{setting}")],
    )
    .after("baremetal:node:bios:get", "rule:is_admin or rule:is_observer"),
    rule(
        "baremetal:shards:get",
        SYSTEM_READER,
        "See the shards and how many nodes they hold.",
        &[("GET", "/shards")],
    ),
    rule(
        "baremetal:node:firmware:get",
        SYSTEM_OR_PROJECT_READER,
        "See the firmware versions of a node.",
        &[("GET", "/nodes/{node_ident}/firmware")],
    ),
    rule(
        "baremetal:node:vmedia:attach",
        SYSTEM_OR_PROJECT_MEMBER,
        "Attach virtual media to a node.",
        &[("POST", "/nodes/{node_ident}/vmedia")],
    ),
    rule(
        "baremetal:node:vmedia:detach",
        SYSTEM_OR_PROJECT_MEMBER,
        "Detach virtual media from a node.",
        &[("DELETE", "/nodes/{node_ident}/vmedia")],
    ),
    rule(
        "baremetal:node:vmedia:get",
        SYSTEM_OR_PROJECT_READER,
        "See the virtual media attached to a node.",
        &[("GET", "/nodes/{node_ident}/vmedia")],
    ),
    rule(
        "baremetal:node:vendor_passthru",
        SYSTEM_ADMIN,
        "Call functions of a node's driver that the API does not define.",
        &[
            ("GET", "/nodes/{node_ident}/vendor_passthru/methods"),
            ("GET", "/nodes/{node_ident}/vendor_passthru?method={method_name}"),
            ("PUT", "/nodes/{node_ident}/vendor_passthru?method={method_name}"),
            ("POST", "/nodes/{node_ident}/vendor_passthru?method={method_name}"),
            ("PATCH", "/nodes/{node_ident}/vendor_passthru?method={method_name}"),
            ("DELETE", "/nodes/{node_ident}/vendor_passthru?method={method_name}"),
        ],
    )
    .after("baremetal:node:vendor_passthru", "rule:is_admin"),
    rule(
        "baremetal:node:ipa_heartbeat",
        "",
        "Report a heartbeat of a node's agent; the agent has no credentials.",
        &[("POST", "/heartbeat/{node_ident}")],
    )
    .after("baremetal:node:ipa_heartbeat", "rule:public_api")
    .scoped(ScopeTypes::ANY),
    rule(
        "baremetal:driver:ipa_lookup",
        "",
        "Find the node an agent runs on; the agent has no credentials.",
        &[("GET", "/lookup")],
    )
    .after("baremetal:driver:ipa_lookup", "rule:public_api")
    .scoped(ScopeTypes::ANY),
    rule(
        "baremetal:driver:ipa_continue_inspection",
        "",
        "Report what an agent found on its node; the agent has no credentials.",
        &[("POST", "/continue_inspection")],
    )
    .scoped(ScopeTypes::ANY),
    rule(
        "baremetal:driver:get",
        SYSTEM_READER,
        "See the hardware types.",
        &[("GET", "/drivers"), ("GET", "/drivers/{driver_name}")],
    )
    .after("baremetal:driver:get", "rule:is_admin or rule:is_observer")
    .scoped(ScopeTypes { system: true, ..ScopeTypes::ANY }),
    rule(
        "baremetal:conductor:get",
        SYSTEM_READER,
        "See the conductors.",
        &[("GET", "/conductors"), ("GET", "/conductors/{hostname}")],
    )
    .after("baremetal:conductor:get", "rule:is_admin or rule:is_observer"),
];

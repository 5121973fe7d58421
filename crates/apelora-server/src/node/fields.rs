//! The one table of node fields.
//!
//! It drives what a node looks like at each microversion, what `fields=` and `sort_key=` may name, and what POST and
//! PATCH take. A new field of a new microversion is one entry here: `docs/adding-a-microversion.md`.
//! Source: tests/data/ironic/README.md section 3.2.

use apelora_store::NodeColumn;

use crate::Microversion;

/// Where a field's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A column of `nodes`.
    Column(NodeColumn),
    /// Links to the node itself.
    Links,
    /// Links to a part of the node, of this name.
    PartLinks(&'static str),
    /// The name of the service that serves the node.
    Conductor,
    /// Something that nodes of this service never have.
    Absent(&'static str),
}

/// The form of a value in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A text or null.
    Text,
    /// A truth value; null in the database reads as false.
    Bool,
    /// A truth value or null.
    OptionalBool,
    /// A time or null.
    Time,
    /// An object, never null.
    Object,
    /// An object whose password-like members are masked.
    SecretObject,
    /// An object of which some members are masked.
    InstanceInfo,
    /// The provision state, which older versions know by other words.
    ProvisionState,
    /// Not a value of a column.
    Computed,
}

/// Whether and how a client may write a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Only the service does.
    Never,
    /// At creation only.
    Create,
    /// By PATCH only.
    Patch,
    /// Both.
    Both,
}

/// What a written text must be like, beyond its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nothing.
    None,
    /// At most this many characters.
    MaxChars(usize),
    /// At least one character, at most this many.
    NonEmpty(usize),
    /// Not null, at most this many characters.
    Required(usize),
    /// A uuid.
    Uuid,
}

/// A field of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name in JSON, in `fields=` and in paths of PATCH.
    pub(crate) name: &'static str,
    /// The first version that has it.
    pub(crate) since: Microversion,
    pub(crate) source: Source,
    pub(crate) form: Form,
    pub(crate) write: Write,
    pub(crate) rule: Rule,
}

use Form::{Bool, InstanceInfo, Object, OptionalBool, ProvisionState, SecretObject, Text, Time};
use NodeColumn as C;
use Rule::{MaxChars, NonEmpty, Required};
use Source::{Absent, PartLinks};
use Write::{Both, Create, Never, Patch};

impl Field {
    /// The column behind it.
    pub(crate) fn column(&self) -> Option<NodeColumn> {
        match self.source {
            Source::Column(column) => Some(column),
            _ => None,
        }
    }

    /// Whether it stands behind the links of a node, in the order of the table.
    pub(crate) fn after_links(&self) -> bool {
        matches!(self.source, Source::Conductor | PartLinks(_))
            || matches!(self.name, "allocation_uuid" | "chassis_uuid")
    }

    /// Whether `fields=` may name it. Times and links of the node itself come as they come.
    pub(crate) fn selectable(&self) -> bool {
        !matches!(self.name, "created_at" | "updated_at")
            && !matches!(self.source, Source::Links | PartLinks(_))
    }

    /// Whether a list can be sorted by it.
    pub(crate) fn sortable(&self) -> bool {
        self.column().is_some() && !self.is_object()
    }

    /// Whether its value is an object.
    pub(crate) fn is_object(&self) -> bool {
        matches!(self.form, Object | SecretObject | InstanceInfo)
    }

    /// What stands in its place for readers whom policy does not let see it.
    pub(crate) fn redacted(&self) -> Option<&'static Redacted> {
        REDACTED.iter().find(|redacted| redacted.field == self.name)
    }

    pub(crate) fn creatable(&self) -> bool {
        matches!(self.write, Create | Both)
    }

    pub(crate) fn patchable(&self) -> bool {
        matches!(self.write, Patch | Both)
    }
}

const fn column(
    name: &'static str,
    since: u16,
    column: NodeColumn,
    form: Form,
    write: Write,
    rule: Rule,
) -> Field {
    Field { name, since: Microversion::new(since), source: Source::Column(column), form, write, rule }
}

const fn computed(name: &'static str, since: u16, source: Source) -> Field {
    Field {
        name,
        since: Microversion::new(since),
        source,
        form: Form::Computed,
        write: Never,
        rule: Rule::None,
    }
}

/// A field that names an interface of the hardware type.
const fn interface(name: &'static str, since: u16, of: NodeColumn) -> Field {
    column(name, since, of, Text, Both, MaxChars(255))
}

/// The longest `description`, in characters.
pub(crate) const DESCRIPTION_MAX: usize = 4_096;

/// Every field, in the order in which a node has them.
pub(crate) static FIELDS: &[Field] = &[
    column("uuid", 1, C::Uuid, Text, Create, Rule::Uuid),
    column("created_at", 1, C::CreatedAt, Time, Never, Rule::None),
    column("updated_at", 1, C::UpdatedAt, Time, Never, Rule::None),
    column("automated_clean", 47, C::AutomatedClean, OptionalBool, Both, Rule::None),
    interface("bios_interface", 40, C::BiosInterface),
    interface("boot_interface", 31, C::BootInterface),
    column("boot_mode", 75, C::BootMode, Text, Never, Rule::None),
    column("clean_step", 7, C::CleanStep, Object, Never, Rule::None),
    column("conductor_group", 46, C::ConductorGroup, Text, Both, MaxChars(255)),
    column("console_enabled", 1, C::ConsoleEnabled, Bool, Never, Rule::None),
    interface("console_interface", 31, C::ConsoleInterface),
    column("disable_power_off", 95, C::DisablePowerOff, Bool, Both, Rule::None),
    interface("deploy_interface", 31, C::DeployInterface),
    column("deploy_step", 44, C::DeployStep, Object, Never, Rule::None),
    column("description", 51, C::Description, Text, Both, MaxChars(DESCRIPTION_MAX)),
    column("driver", 1, C::Driver, Text, Both, Required(255)),
    column("driver_info", 1, C::DriverInfo, SecretObject, Both, Rule::None),
    column("driver_internal_info", 3, C::DriverInternalInfo, SecretObject, Never, Rule::None),
    column("extra", 1, C::Extra, Object, Both, Rule::None),
    column("fault", 42, C::Fault, Text, Never, Rule::None),
    interface("firmware_interface", 86, C::FirmwareInterface),
    column("health", 109, C::Health, Text, Never, Rule::None),
    column("inspection_finished_at", 6, C::InspectionFinishedAt, Time, Never, Rule::None),
    column("inspection_started_at", 6, C::InspectionStartedAt, Time, Never, Rule::None),
    interface("inspect_interface", 31, C::InspectInterface),
    column("instance_info", 1, C::InstanceInfo, InstanceInfo, Both, Rule::None),
    column("instance_name", 104, C::InstanceName, Text, Both, NonEmpty(255)),
    column("instance_uuid", 1, C::InstanceUuid, Text, Both, Rule::Uuid),
    column("last_error", 1, C::LastError, Text, Never, Rule::None),
    column("lessee", 65, C::Lessee, Text, Both, MaxChars(255)),
    column("maintenance", 1, C::Maintenance, Bool, Both, Rule::None),
    column("maintenance_reason", 1, C::MaintenanceReason, Text, Never, Rule::None),
    interface("management_interface", 31, C::ManagementInterface),
    column("name", 5, C::Name, Text, Both, Rule::None),
    column("network_data", 66, C::NetworkData, Object, Both, Rule::None),
    interface("network_interface", 20, C::NetworkInterface),
    column("owner", 50, C::Owner, Text, Both, MaxChars(255)),
    column("parent_node", 83, C::ParentNode, Text, Both, MaxChars(36)),
    interface("power_interface", 31, C::PowerInterface),
    column("power_state", 1, C::PowerState, Text, Never, Rule::None),
    column("properties", 1, C::Properties, Object, Both, Rule::None),
    column("protected", 48, C::Protected, Bool, Patch, Rule::None),
    column("protected_reason", 48, C::ProtectedReason, Text, Patch, Rule::None),
    column("provision_state", 1, C::ProvisionState, ProvisionState, Never, Rule::None),
    column("provision_updated_at", 1, C::ProvisionUpdatedAt, Time, Never, Rule::None),
    column("raid_config", 12, C::RaidConfig, Object, Never, Rule::None),
    interface("raid_interface", 31, C::RaidInterface),
    interface("rescue_interface", 38, C::RescueInterface),
    column("reservation", 1, C::Reservation, Text, Never, Rule::None),
    column("resource_class", 21, C::ResourceClass, Text, Both, MaxChars(80)),
    column("retired", 61, C::Retired, Bool, Both, Rule::None),
    column("retired_reason", 61, C::RetiredReason, Text, Both, Rule::None),
    column("secure_boot", 75, C::SecureBoot, OptionalBool, Never, Rule::None),
    column("service_step", 87, C::ServiceStep, Object, Never, Rule::None),
    column("shard", 82, C::Shard, Text, Both, MaxChars(255)),
    interface("storage_interface", 33, C::StorageInterface),
    column("target_power_state", 1, C::TargetPowerState, Text, Never, Rule::None),
    column("target_provision_state", 1, C::TargetProvisionState, Text, Never, Rule::None),
    column("target_raid_config", 12, C::TargetRaidConfig, Object, Never, Rule::None),
    computed("traits", 37, Absent("[]")),
    interface("vendor_interface", 31, C::VendorInterface),
    computed("links", 1, Source::Links),
    computed("conductor", 49, Source::Conductor),
    computed("allocation_uuid", 52, Absent("null")),
    Field { write: Both, rule: Rule::Uuid, ..computed("chassis_uuid", 1, Absent("null")) },
    computed("ports", 1, PartLinks("ports")),
    computed("states", 14, PartLinks("states")),
    computed("portgroups", 24, PartLinks("portgroups")),
    computed("volume", 32, PartLinks("volume")),
];

/// A field that not everybody who sees a node may see.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redacted {
    field: &'static str,
    /// The rule that lets a reader see it.
    pub(crate) rule: &'static str,
    /// What others see.
    pub(crate) json: &'static str,
}

/// Source: tests/data/policy/README.md section 2.3; the texts are the reference's.
static REDACTED: &[Redacted] = &[
    Redacted {
        field: "last_error",
        rule: "baremetal:node:get:last_error",
        json: r#""** Value Redacted - Requires baremetal:node:get:last_error permission. **""#,
    },
    Redacted {
        field: "reservation",
        rule: "baremetal:node:get:reservation",
        json: r#""** Redacted - requires baremetal:node:get:reservation permission. **""#,
    },
    Redacted {
        field: "driver_internal_info",
        rule: "baremetal:node:get:driver_internal_info",
        json: r#"{"content": "** Redacted - Requires baremetal:node:get:driver_internal_info permission. **"}"#,
    },
    Redacted {
        field: "driver_info",
        rule: "baremetal:node:get:driver_info",
        json: r#"{"content": "** Redacted - requires baremetal:node:get:driver_info permission. **"}"#,
    },
];

/// The field of this name.
pub(crate) fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|f| f.name == name)
}

/// What GET `…/states` shows, in its order.
pub(crate) const STATES: [&str; 11] = [
    "console_enabled",
    "last_error",
    "power_state",
    "provision_state",
    "target_power_state",
    "target_provision_state",
    "provision_updated_at",
    "raid_config",
    "target_raid_config",
    "boot_mode",
    "secure_boot",
];

/// What a list shows of each node unless it is asked for more, in the order in which links to the next page name them.
pub(crate) const LISTED: [&str; 6] =
    ["instance_uuid", "maintenance", "power_state", "provision_state", "uuid", "name"];

/// The names that PATCH takes, as its refusal lists them: by name, and two later ones behind the others.
pub(crate) fn patchable_names() -> Vec<&'static str> {
    let late = |name: &str| match name {
        "parent_node" => 1,
        "firmware_interface" => 2,
        _ => 0,
    };
    let mut names: Vec<_> = FIELDS.iter().filter(|f| f.patchable()).map(|f| f.name).collect();
    names.sort_by_key(|name| (late(name), *name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, field) in FIELDS.iter().enumerate() {
            assert!(FIELDS[..i].iter().all(|f| f.name != field.name), "{}", field.name);
        }
        for name in STATES.iter().chain(&LISTED) {
            assert!(find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_column_has_the_name_of_its_field() {
        for field in FIELDS {
            if let Some(column) = field.column() {
                assert_eq!(column.name(), field.name);
            }
        }
    }

    #[test]
    fn the_number_of_fields_at_each_recorded_version() {
        for (minor, keys) in [(1, 22), (5, 24), (31, 41), (50, 54), (61, 58), (78, 62), (94, 66), (115, 69)] {
            let version = Microversion::new(minor);
            assert_eq!(FIELDS.iter().filter(|f| f.since <= version).count(), keys, "1.{minor}");
        }
    }

    #[test]
    fn the_list_of_patchable_names_is_the_recorded_one() {
        assert_eq!(
            patchable_names().join(", "),
            "automated_clean, bios_interface, boot_interface, chassis_uuid, conductor_group, console_interface, \
             deploy_interface, description, disable_power_off, driver, driver_info, extra, inspect_interface, \
             instance_info, instance_name, instance_uuid, lessee, maintenance, management_interface, name, \
             network_data, network_interface, owner, power_interface, properties, protected, protected_reason, \
             raid_interface, rescue_interface, resource_class, retired, retired_reason, shard, storage_interface, \
             vendor_interface, parent_node, firmware_interface"
        );
    }
}

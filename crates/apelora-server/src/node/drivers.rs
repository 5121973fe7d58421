//! The hardware types that nodes may have, with the interfaces of each.
//!
//! This service drives no hardware. It keeps nodes for services that do, so it takes the interfaces that those have
//! and computes the same defaults: the first one of each list. Source: tests/data/ironic/README.md sections 3.1, 3.2; the
//! reference's default configuration.

use apelora_store::NodeColumn;

/// A hardware type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) name: &'static str,
    /// Each interface with its valid names, the default first.
    pub(crate) interfaces: &'static [Interface],
}

/// An interface of a hardware type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    /// `power`, `boot`, ...
    pub(crate) kind: &'static str,
    pub(crate) column: NodeColumn,
    /// Its valid names, the default first.
    pub(crate) valid: &'static [&'static str],
}

const fn interface(kind: &'static str, column: NodeColumn, valid: &'static [&'static str]) -> Interface {
    Interface { kind, column, valid }
}

use NodeColumn as C;

const FAKE: &[Interface] = &[
    interface("bios", C::BiosInterface, &["fake"]),
    interface("boot", C::BootInterface, &["fake"]),
    interface("console", C::ConsoleInterface, &["fake"]),
    interface("deploy", C::DeployInterface, &["fake"]),
    interface("firmware", C::FirmwareInterface, &["fake"]),
    interface("inspect", C::InspectInterface, &["fake"]),
    interface("management", C::ManagementInterface, &["fake"]),
    interface("network", C::NetworkInterface, &["noop"]),
    interface("power", C::PowerInterface, &["fake"]),
    interface("raid", C::RaidInterface, &["fake"]),
    interface("rescue", C::RescueInterface, &["fake"]),
    interface("storage", C::StorageInterface, &["noop"]),
    interface("vendor", C::VendorInterface, &["fake"]),
];

const NETWORK: &[&str] = &["flat", "noop", "neutron"];
const DEPLOY: &[&str] = &["direct", "ansible", "anaconda", "bootc", "custom-agent", "ramdisk"];
const STORAGE: &[&str] = &["noop", "cinder", "external"];
const RESCUE: &[&str] = &["no-rescue", "agent"];

const REDFISH: &[Interface] = &[
    interface("bios", C::BiosInterface, &["redfish", "no-bios"]),
    interface(
        "boot",
        C::BootInterface,
        &["ipxe", "pxe", "redfish-virtual-media", "redfish-https", "http", "http-ipxe"],
    ),
    interface("console", C::ConsoleInterface, &["no-console", "redfish-graphical"]),
    interface("deploy", C::DeployInterface, DEPLOY),
    interface("firmware", C::FirmwareInterface, &["redfish", "no-firmware"]),
    interface("inspect", C::InspectInterface, &["redfish", "agent", "no-inspect"]),
    interface("management", C::ManagementInterface, &["redfish"]),
    interface("network", C::NetworkInterface, NETWORK),
    interface("power", C::PowerInterface, &["redfish"]),
    interface("raid", C::RaidInterface, &["redfish", "no-raid", "agent"]),
    interface("rescue", C::RescueInterface, RESCUE),
    interface("storage", C::StorageInterface, STORAGE),
    interface("vendor", C::VendorInterface, &["redfish", "no-vendor"]),
];

const IPMI: &[Interface] = &[
    interface("bios", C::BiosInterface, &["no-bios"]),
    interface("boot", C::BootInterface, &["ipxe", "pxe", "http", "http-ipxe"]),
    interface("console", C::ConsoleInterface, &["no-console", "ipmitool-socat", "ipmitool-shellinabox"]),
    interface("deploy", C::DeployInterface, DEPLOY),
    interface("firmware", C::FirmwareInterface, &["no-firmware"]),
    interface("inspect", C::InspectInterface, &["agent", "no-inspect"]),
    interface("management", C::ManagementInterface, &["ipmitool", "intel-ipmitool", "noop"]),
    interface("network", C::NetworkInterface, NETWORK),
    interface("power", C::PowerInterface, &["ipmitool"]),
    interface("raid", C::RaidInterface, &["no-raid", "agent"]),
    interface("rescue", C::RescueInterface, RESCUE),
    interface("storage", C::StorageInterface, STORAGE),
    interface("vendor", C::VendorInterface, &["ipmitool", "no-vendor"]),
];

/// Every hardware type, by name.
pub(crate) static DRIVERS: &[Driver] = &[
    Driver { name: "fake-hardware", interfaces: FAKE },
    Driver { name: "ipmi", interfaces: IPMI },
    Driver { name: "redfish", interfaces: REDFISH },
];

/// The hardware type of this name.
pub(crate) fn find(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|d| d.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_every_interface() {
        for driver in DRIVERS {
            assert_eq!(driver.interfaces.len(), 13, "{}", driver.name);
            for (interface, fake) in driver.interfaces.iter().zip(FAKE) {
                assert_eq!(interface.column, fake.column, "{}", driver.name);
                assert_eq!(interface.column.name(), format!("{}_interface", interface.kind));
                assert!(!interface.valid.is_empty());
            }
        }
    }
}

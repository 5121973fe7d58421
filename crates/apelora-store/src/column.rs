//! The columns of `nodes`, as data: the one table from which statements, widths and row layouts follow.

use std::fmt;
use std::str::FromStr;

/// What a cell of a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Int,
    /// Text.
    Text,
    /// True or false; null reads as the caller decides.
    Bool,
    /// A UTC time without a zone.
    Time,
    /// Text that holds a JSON value, passed through as it is.
    Json,
}

/// How wide a text may be, on every engine alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// At most this many characters.
    Chars(usize),
    /// At most this many bytes of UTF-8.
    Bytes(usize),
}

/// The types that the reference's tables use, from which each engine's own word follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqlType {
    Int,
    BigInt,
    Varchar(usize),
    Text,
    LongText,
    JsonText,
    JsonLongText,
    Bool,
    DateTime,
}

/// A TEXT column of MariaDB; the other engines are held to the same width.
const TEXT_BYTES: usize = 65_535;
/// A LONGTEXT column would take 4 GiB; nothing that comes through the API is larger than this.
const LONG_TEXT_BYTES: usize = 16 << 20;

macro_rules! node_columns {
    ($($variant:ident $name:literal $sql_type:expr;)*) => {
        /// A column of `nodes`. Source of names and types: the reference service's schema at revision `9fb44677ef15`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum NodeColumn {
            $(#[doc = concat!("`nodes.", $name, "`")] $variant,)*
        }

        impl NodeColumn {
            /// Every column, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The column's name in the database.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub(crate) const fn sql_type(self) -> SqlType {
                match self { $(Self::$variant => $sql_type,)* }
            }
        }
    };
}

use SqlType::{BigInt, Bool, DateTime, Int, JsonLongText, JsonText, LongText, Text, Varchar};

node_columns! {
    Id "id" Int;
    Uuid "uuid" Varchar(36);
    InstanceUuid "instance_uuid" Varchar(36);
    InstanceName "instance_name" Varchar(255);
    Name "name" Varchar(255);
    ChassisId "chassis_id" Int;
    PowerState "power_state" Varchar(15);
    TargetPowerState "target_power_state" Varchar(15);
    ProvisionState "provision_state" Varchar(15);
    TargetProvisionState "target_provision_state" Varchar(15);
    ProvisionUpdatedAt "provision_updated_at" DateTime;
    LastError "last_error" Text;
    InstanceInfo "instance_info" JsonLongText;
    Properties "properties" JsonText;
    Driver "driver" Varchar(255);
    DriverInfo "driver_info" JsonText;
    DriverInternalInfo "driver_internal_info" JsonText;
    CleanStep "clean_step" JsonText;
    DeployStep "deploy_step" JsonText;
    ResourceClass "resource_class" Varchar(80);
    RaidConfig "raid_config" JsonText;
    TargetRaidConfig "target_raid_config" JsonText;
    Reservation "reservation" Varchar(255);
    ConductorAffinity "conductor_affinity" Int;
    ConductorGroup "conductor_group" Varchar(255);
    Maintenance "maintenance" Bool;
    MaintenanceReason "maintenance_reason" Text;
    Fault "fault" Varchar(255);
    ConsoleEnabled "console_enabled" Bool;
    InspectionFinishedAt "inspection_finished_at" DateTime;
    InspectionStartedAt "inspection_started_at" DateTime;
    Extra "extra" JsonText;
    AutomatedClean "automated_clean" Bool;
    Protected "protected" Bool;
    ProtectedReason "protected_reason" Text;
    Owner "owner" Varchar(255);
    Lessee "lessee" Varchar(255);
    AllocationId "allocation_id" Int;
    Description "description" Text;
    BiosInterface "bios_interface" Varchar(255);
    BootInterface "boot_interface" Varchar(255);
    ConsoleInterface "console_interface" Varchar(255);
    DeployInterface "deploy_interface" Varchar(255);
    FirmwareInterface "firmware_interface" Varchar(255);
    InspectInterface "inspect_interface" Varchar(255);
    ManagementInterface "management_interface" Varchar(255);
    NetworkInterface "network_interface" Varchar(255);
    RaidInterface "raid_interface" Varchar(255);
    RescueInterface "rescue_interface" Varchar(255);
    Retired "retired" Bool;
    RetiredReason "retired_reason" Text;
    NetworkData "network_data" JsonText;
    StorageInterface "storage_interface" Varchar(255);
    PowerInterface "power_interface" Varchar(255);
    VendorInterface "vendor_interface" Varchar(255);
    BootMode "boot_mode" Varchar(16);
    SecureBoot "secure_boot" Bool;
    Shard "shard" Varchar(255);
    ParentNode "parent_node" Varchar(36);
    ServiceStep "service_step" JsonText;
    DisablePowerOff "disable_power_off" Bool;
    Health "health" Varchar(32);
    Version "version" Varchar(15);
    CreatedAt "created_at" DateTime;
    UpdatedAt "updated_at" DateTime;
}

impl NodeColumn {
    /// What its cells hold.
    pub const fn kind(self) -> Kind {
        self.sql_type().kind()
    }

    /// How wide its text may be; `None` for columns that hold no text.
    pub const fn width(self) -> Option<Width> {
        match self.sql_type() {
            Varchar(n) => Some(Width::Chars(n)),
            Text | JsonText => Some(Width::Bytes(TEXT_BYTES)),
            LongText | JsonLongText => Some(Width::Bytes(LONG_TEXT_BYTES)),
            Int | BigInt | Bool | DateTime => None,
        }
    }
}

impl SqlType {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Int | Self::BigInt => Kind::Int,
            Self::Varchar(_) | Self::Text | Self::LongText => Kind::Text,
            Self::JsonText | Self::JsonLongText => Kind::Json,
            Self::Bool => Kind::Bool,
            Self::DateTime => Kind::Time,
        }
    }
}

impl fmt::Display for NodeColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no column of `nodes`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nodes have no column '{0}'")]
pub struct UnknownColumn(pub String);

impl FromStr for NodeColumn {
    type Err = UnknownColumn;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|c| c.name() == name).ok_or_else(|| UnknownColumn(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_name_and_stands_at_its_place() {
        assert_eq!(NodeColumn::ALL.len(), 65);
        for (i, column) in NodeColumn::ALL.iter().enumerate() {
            assert_eq!(*column as usize, i);
            assert_eq!(column.name().parse(), Ok(*column));
        }
        assert!("traits".parse::<NodeColumn>().is_err());
    }
}

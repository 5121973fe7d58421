//! The BMC map: the allowlist of members that may be switched off, and through which BMC.
//!
//! One doubt about one entry makes the whole map invalid, and with an invalid map nothing is ever sent: a map that was
//! half read is a map with a wrong idea of who is whose neighbour.

mod address;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

pub use address::{Address, AddressError};

use crate::identity::MappedIdentity;
use crate::name::MemberName;

/// The SHA-256 of the map file's bytes: names one snapshot of the map in records and evidence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapSha([u8; 32]);

impl MapSha {
    /// The digest with these bytes, as read from a record.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for MapSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for MapSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a member's power is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// DMTF Redfish over HTTPS.
    Redfish,
    /// IPMI 2.0 over LAN.
    Ipmi,
    /// A Lima VM; lab only.
    Lima,
}

impl Provider {
    /// The word used in the map, in audit rows and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Redfish => "redfish",
            Self::Ipmi => "ipmi",
            Self::Lima => "lima",
        }
    }
}

/// One cipher suite of IPMI 2.0 that is allowed at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CipherSuite {
    /// HMAC-SHA1, AES-128.
    Suite3,
    /// HMAC-SHA256, AES-128.
    Suite17,
}

/// The name of an environment variable that holds a secret; never the secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// The name of the variable.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a provider needs to reach a BMC, beside the identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Redfish.
    Redfish {
        /// Host and port, 443 unless given.
        address: Address,
        /// Path of the system, `/redfish/v1/Systems/<one segment>`; looked for by UUID when absent.
        system: Option<String>,
        /// User name on the BMC.
        user: String,
        /// Where the password is.
        secret: SecretName,
        /// The only certificates that are trusted for this BMC; the system's roots when absent.
        ca_file: Option<String>,
    },
    /// IPMI.
    Ipmi {
        /// Host and port, 623 unless given.
        address: Address,
        /// User name on the BMC, at most 16 bytes.
        user: String,
        /// Where the password is.
        secret: SecretName,
        /// Where the BMC key (Kg) is, when the BMC has one.
        kg_secret: Option<SecretName>,
        /// The suites that may be used, in the order they are tried.
        cipher_suites: Vec<CipherSuite>,
    },
    /// Lima: the VM's name.
    Lima {
        /// Begins with `apelora-`.
        vm: String,
    },
}

impl Access {
    /// The names of the secrets that it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretName> {
        let (first, second) = match self {
            Self::Redfish { secret, .. } => (Some(secret), None),
            Self::Ipmi { secret, kg_secret, .. } => (Some(secret), kg_secret.as_ref()),
            Self::Lima { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// One member of the map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapEntry {
    /// How its power is reached.
    pub access: Access,
    /// Who must answer there.
    pub identity: MappedIdentity,
}

impl MapEntry {
    /// The provider of this entry.
    pub const fn provider(&self) -> Provider {
        match self.access {
            Access::Redfish { .. } => Provider::Redfish,
            Access::Ipmi { .. } => Provider::Ipmi,
            Access::Lima { .. } => Provider::Lima,
        }
    }

    /// Where the BMC is, without the user: fit for records and audit rows.
    pub fn target(&self) -> String {
        match &self.access {
            Access::Redfish { address, system: Some(system), .. } => format!("{address}{system}"),
            Access::Redfish { address, .. } | Access::Ipmi { address, .. } => address.to_string(),
            Access::Lima { vm } => vm.clone(),
        }
    }
}

/// A map that passed every check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BmcMap {
    sha: MapSha,
    members: BTreeMap<MemberName, Arc<MapEntry>>,
}

impl BmcMap {
    /// Reads and checks the file's bytes. `never_stop` are the VMs that the lab provider must not be able to name
    /// (`APELORA_LAB_SAN_VMS`).
    ///
    /// # Errors
    /// The first thing that is wrong, naming member and key. The whole map is invalid then.
    pub fn parse(bytes: &[u8], never_stop: &[String]) -> Result<Self, MapError> {
        parse::parse(bytes, never_stop)
    }

    /// Names this snapshot.
    pub const fn sha(&self) -> MapSha {
        self.sha
    }

    /// The entry of `member`.
    pub fn get(&self, member: &MemberName) -> Option<&Arc<MapEntry>> {
        self.members.get(member)
    }

    /// All entries, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&MemberName, &Arc<MapEntry>)> {
        self.members.iter()
    }

    /// How many members are mapped.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the map names nobody, which is valid.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// What is known of the map in a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MapState {
    /// `APELORA_BMC_MAP` is not set.
    Absent,
    /// The file cannot be read or breaks a rule: nothing is sent.
    Invalid,
    /// The snapshot.
    Valid(Arc<BmcMap>),
}

impl MapState {
    /// The entry of `member` in a valid map.
    pub fn entry(&self, member: &MemberName) -> Option<&Arc<MapEntry>> {
        match self {
            Self::Valid(map) => map.get(member),
            Self::Absent | Self::Invalid => None,
        }
    }

    /// The digest of a valid map.
    pub fn sha(&self) -> Option<MapSha> {
        match self {
            Self::Valid(map) => Some(map.sha()),
            Self::Absent | Self::Invalid => None,
        }
    }
}

/// Why a map is invalid as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Larger than any map can be.
    #[error("the BMC map has {0} bytes; more than 4 MiB is not read")]
    TooLarge(usize),
    /// No JSON, a key twice, an unknown key, or a value of another type.
    #[error("the BMC map is not readable: {0}")]
    Json(String),
    /// One key of one member.
    #[error("member `{member}`, `{key}`: {problem}")]
    Entry {
        /// The member's name.
        member: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Two members that could be one machine, or lead to one.
    #[error("members `{a}` and `{b}` {problem}; correct one of them")]
    Twins {
        /// One of them.
        a: String,
        /// The other.
        b: String,
        /// In which way.
        problem: &'static str,
    },
}

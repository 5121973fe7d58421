//! Whether a BMC belongs to the server that the map names.
//!
//! Adapters report what they saw ([`RawIdentity`]); whether that is the mapped server is decided here and nowhere else
//! (tests/data/ipmi/README.md section 7, tests/data/redfish/README.md section 2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::reason::ReasonCode;

/// A server's hardware UUID (SMBIOS type 1), never the UUID of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemUuid([u8; 16]);

/// How a BMC lays the sixteen bytes of its system GUID out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteOrder {
    /// As printed (RFC 4122).
    Rfc4122,
    /// The first three fields byte-swapped (SMBIOS 2.6).
    Smbios,
    /// All sixteen bytes reversed (IPMI 2.0 section 20.8).
    Reversed,
}

impl ByteOrder {
    /// The three orders that BMCs use; there is no fourth.
    pub const ALL: [Self; 3] = [Self::Rfc4122, Self::Smbios, Self::Reversed];

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rfc4122 => "rfc4122",
            Self::Smbios => "smbios",
            Self::Reversed => "reversed",
        }
    }
}

/// UUIDs that firmware prints when it knows none. A server with one of these cannot be told from the next.
const PLACEHOLDERS: [&str; 7] = [
    "03000200-0400-0500-0006-000700080009",
    "00020003-0004-0005-0006-000700080009",
    "12345678-1234-1234-1234-123456789abc",
    "8a95d198-7f46-11e5-bf8b-08002704d48e",
    "38947555-7742-3448-3784-823347823834",
    "01020304-0506-0708-090a-0b0c0d0e0f10",
    "100f0e0d-0c0b-0a09-0807-060504030201",
];

/// A text that is no UUID of the form 8-4-4-4-12.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a UUID of the form 8-4-4-4-12 hexadecimal digits")]
pub struct NotAUuid;

impl SystemUuid {
    /// The UUID whose printed form has these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes as a BMC of this server sends them in `order`.
    pub const fn encoded(self, order: ByteOrder) -> [u8; 16] {
        let b = self.0;
        match order {
            ByteOrder::Rfc4122 => b,
            ByteOrder::Smbios => [
                b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15],
            ],
            ByteOrder::Reversed => [
                b[15], b[14], b[13], b[12], b[11], b[10], b[9], b[8], b[7], b[6], b[5], b[4], b[3], b[2],
                b[1], b[0],
            ],
        }
    }

    /// Whether this is one of the values that stand for "unknown", in any byte order.
    pub fn is_placeholder(self) -> bool {
        self.0.iter().all(|b| *b == self.0[0])
            || PLACEHOLDERS
                .iter()
                .filter_map(|p| p.parse::<Self>().ok())
                .any(|p| ByteOrder::ALL.iter().any(|o| p.encoded(*o) == self.0))
    }

    /// Whether some answer of a BMC could mean this server as well as `other`.
    pub fn could_be(self, other: Self) -> bool {
        ByteOrder::ALL.iter().any(|o| ByteOrder::ALL.iter().any(|p| self.encoded(*o) == other.encoded(*p)))
    }
}

impl FromStr for SystemUuid {
    type Err = NotAUuid;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let text = s.as_bytes();
        if text.len() != 36 {
            return Err(NotAUuid);
        }
        let mut bytes = [0; 16];
        let mut digits = 0;
        for (i, c) in text.iter().enumerate() {
            if matches!(i, 8 | 13 | 18 | 23) {
                if *c != b'-' {
                    return Err(NotAUuid);
                }
                continue;
            }
            let value = (*c as char).to_digit(16).ok_or(NotAUuid)? as u8;
            bytes[digits / 2] = bytes[digits / 2] << 4 | value;
            digits += 1;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for SystemUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SystemUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity that a BMC reported, as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RawIdentity {
    /// The text of a Redfish `UUID` property.
    Text(String),
    /// The bytes of IPMI's Get System GUID.
    Guid([u8; 16]),
    /// The name of a lab VM.
    LabName(String),
    /// The BMC reports none.
    Missing,
}

/// The identity that the map demands, with the comparison that its provider needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MappedIdentity {
    /// Redfish: the printed UUID, in any case, in no other byte order.
    Exact(SystemUuid),
    /// IPMI: the UUID's bytes in one of the three orders.
    AnyOrder(SystemUuid),
    /// Lab only: the VM's name.
    LabName(String),
}

/// How a reported identity matched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Matched {
    /// The UUID, and the byte order it was reported in.
    Uuid(SystemUuid, ByteOrder),
    /// The lab VM's name.
    LabName(String),
}

/// Why a reported identity is not the mapped one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
pub enum IdentityError {
    /// The BMC reports no UUID.
    #[error("the BMC reports no system UUID")]
    Missing,
    /// What the BMC reports is no UUID, or of another kind than its provider reports.
    #[error("the BMC reports a system UUID that is none")]
    Invalid,
    /// The BMC reports a value that firmware prints when it knows none.
    #[error("the BMC reports the placeholder {0}")]
    Placeholder(SystemUuid),
    /// Another server's.
    #[error("the BMC reports {reported}, the map says {mapped}")]
    Mismatch {
        /// As reported, read as printed.
        reported: String,
        /// As mapped.
        mapped: String,
    },
    /// The mapped UUID in another byte order, where only the printed one counts.
    #[error(
        "the BMC reports {reported}, which is the mapped {mapped} with its bytes in another order; configure {reported}"
    )]
    Swapped {
        /// As reported.
        reported: SystemUuid,
        /// As mapped.
        mapped: SystemUuid,
    },
}

impl IdentityError {
    /// The reason code of this error.
    pub const fn reason(&self) -> ReasonCode {
        match self {
            Self::Missing => ReasonCode::UuidMissing,
            Self::Invalid | Self::Placeholder(_) => ReasonCode::UuidInvalid,
            Self::Mismatch { .. } | Self::Swapped { .. } => ReasonCode::UuidMismatch,
        }
    }
}

impl MappedIdentity {
    /// The hardware UUID; `None` for a lab VM.
    pub const fn uuid(&self) -> Option<SystemUuid> {
        match self {
            Self::Exact(uuid) | Self::AnyOrder(uuid) => Some(*uuid),
            Self::LabName(_) => None,
        }
    }

    /// Whether one machine could answer to both identities.
    pub fn could_be(&self, other: &Self) -> bool {
        match (self.uuid(), other.uuid()) {
            (Some(a), Some(b)) => a.could_be(b),
            (None, None) => self == other,
            _ => false,
        }
    }

    /// Compares what the BMC reported with what the map demands.
    ///
    /// # Errors
    /// Says in which way it is not the mapped server.
    pub fn check(&self, reported: &RawIdentity) -> Result<Matched, IdentityError> {
        match (self, reported) {
            (_, RawIdentity::Missing) => Err(IdentityError::Missing),
            (Self::Exact(_), RawIdentity::Text(text)) if text.is_empty() => Err(IdentityError::Missing),
            (Self::Exact(mapped), RawIdentity::Text(text)) => {
                let seen: SystemUuid = text.parse().map_err(|_| IdentityError::Invalid)?;
                if seen.is_placeholder() {
                    Err(IdentityError::Placeholder(seen))
                } else if seen == *mapped {
                    Ok(Matched::Uuid(seen, ByteOrder::Rfc4122))
                } else if ByteOrder::ALL.iter().any(|o| mapped.encoded(*o) == seen.0) {
                    Err(IdentityError::Swapped { reported: seen, mapped: *mapped })
                } else {
                    Err(IdentityError::Mismatch { reported: seen.to_string(), mapped: mapped.to_string() })
                }
            }
            (Self::AnyOrder(mapped), RawIdentity::Guid(bytes)) => {
                let seen = SystemUuid(*bytes);
                if seen.is_placeholder() {
                    return Err(IdentityError::Placeholder(seen));
                }
                match ByteOrder::ALL.into_iter().find(|o| mapped.encoded(*o) == *bytes) {
                    Some(order) => Ok(Matched::Uuid(*mapped, order)),
                    None => Err(IdentityError::Mismatch {
                        reported: seen.to_string(),
                        mapped: mapped.to_string(),
                    }),
                }
            }
            (Self::LabName(mapped), RawIdentity::LabName(seen)) if mapped == seen => {
                Ok(Matched::LabName(seen.clone()))
            }
            (Self::LabName(mapped), RawIdentity::LabName(seen)) => {
                Err(IdentityError::Mismatch { reported: seen.clone(), mapped: mapped.clone() })
            }
            _ => Err(IdentityError::Invalid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4c4c4544-0042-4a10-8038-b4c04f5a3332";
    const A_SWAPPED: &str = "44454c4c-4200-104a-8038-b4c04f5a3332";
    const A_REVERSED: &str = "32335a4f-c0b4-3880-104a-420044454c4c";

    fn uuid(s: &str) -> SystemUuid {
        s.parse().unwrap()
    }

    #[test]
    fn redfish_is_exact_but_for_case() {
        let mapped = MappedIdentity::Exact(uuid(A));
        assert!(mapped.check(&RawIdentity::Text(A.to_uppercase())).is_ok());
        let swapped = mapped.check(&RawIdentity::Text(A_SWAPPED.into()));
        assert!(matches!(&swapped, Err(IdentityError::Swapped { .. })));
        assert!(swapped.unwrap_err().to_string().ends_with(&format!("configure {A_SWAPPED}")));
        for (text, reason) in [
            ("", ReasonCode::UuidMissing),
            ("4c4c454400424a108038b4c04f5a3332", ReasonCode::UuidInvalid),
            ("{4c4c4544-0042-4a10-8038-b4c04f5a333}", ReasonCode::UuidInvalid),
            ("4c4c4544-0042-4a10-8038-b4c04f5a333g", ReasonCode::UuidInvalid),
            ("4c4c4544-0042-4a10-8038-b4c04f5a3333", ReasonCode::UuidMismatch),
            ("03000200-0400-0500-0006-000700080009", ReasonCode::UuidInvalid),
        ] {
            let got = mapped.check(&RawIdentity::Text(text.into())).unwrap_err().reason();
            assert_eq!(got, reason, "{text}");
        }
        assert_eq!(mapped.check(&RawIdentity::Missing).unwrap_err().reason(), ReasonCode::UuidMissing);
        assert_eq!(
            mapped.check(&RawIdentity::Guid(uuid(A).0)).unwrap_err().reason(),
            ReasonCode::UuidInvalid
        );
    }

    #[test]
    fn ipmi_takes_three_orders_and_no_fourth() {
        let mapped = MappedIdentity::AnyOrder(uuid(A));
        for order in ByteOrder::ALL {
            let bytes = uuid(A).encoded(order);
            assert_eq!(mapped.check(&RawIdentity::Guid(bytes)), Ok(Matched::Uuid(uuid(A), order)));
        }
        let mut fourth = uuid(A).encoded(ByteOrder::Smbios);
        fourth[8..].reverse();
        assert_eq!(mapped.check(&RawIdentity::Guid(fourth)).unwrap_err().reason(), ReasonCode::UuidMismatch);
        assert_eq!(
            mapped.check(&RawIdentity::Guid([0xff; 16])).unwrap_err().reason(),
            ReasonCode::UuidInvalid
        );
    }

    #[test]
    fn twins_could_be_one_machine() {
        for twin in [A, A_SWAPPED, A_REVERSED] {
            assert!(uuid(A).could_be(uuid(twin)), "{twin}");
        }
        assert!(!uuid(A).could_be(uuid("61a39523-78f2-11e5-9862-e6402cfc3223")));
        let both = (MappedIdentity::Exact(uuid(A)), MappedIdentity::AnyOrder(uuid(A_REVERSED)));
        assert!(both.0.could_be(&both.1));
    }

    #[test]
    fn placeholders_in_every_order() {
        for text in PLACEHOLDERS {
            for order in ByteOrder::ALL {
                assert!(SystemUuid(uuid(text).encoded(order)).is_placeholder(), "{text} {order:?}");
            }
        }
        assert!(SystemUuid([0; 16]).is_placeholder());
        assert!(
            !uuid("00000000-0000-0000-0000-0cc47a123456").is_placeholder(),
            "a MAC after zeros is an identity"
        );
    }
}

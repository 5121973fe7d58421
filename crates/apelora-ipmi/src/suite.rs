//! Cipher suites: the two that are spoken, the pin, and the names of all the others.

use std::fmt;

/// A cipher suite that this client speaks (IPMI 2.0, table 22-20). There is no variant for any other suite, so none
/// can be proposed or continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CipherSuite {
    /// Suite 3: RAKP-HMAC-SHA1, HMAC-SHA1-96, AES-CBC-128.
    Three,
    /// Suite 17: RAKP-HMAC-SHA256, HMAC-SHA256-128, AES-CBC-128.
    Seventeen,
}

impl CipherSuite {
    /// The suite's number as operators and other tools write it: 3 or 17.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::Three => 3,
            Self::Seventeen => 17,
        }
    }

    pub(crate) const fn algorithms(self) -> Algorithms {
        match self {
            Self::Three => Algorithms { authentication: 1, integrity: 1, confidentiality: 1 },
            Self::Seventeen => Algorithms { authentication: 3, integrity: 4, confidentiality: 1 },
        }
    }

    /// Length in bytes of an untruncated code (RAKP 2 and RAKP 3) and of every key.
    pub(crate) const fn hash_len(self) -> usize {
        match self {
            Self::Three => 20,
            Self::Seventeen => 32,
        }
    }

    /// Length in bytes of a truncated code (RAKP 4 and every packet in a session).
    pub(crate) const fn code_len(self) -> usize {
        match self {
            Self::Three => 12,
            Self::Seventeen => 16,
        }
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cipher suite {}", self.id())
    }
}

/// Which suites a member may use: the map's `cipher_suites`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suites {
    /// `[17]`: recommended wherever the read-only check succeeded with 17.
    Only17,
    /// `[3]`: for a BMC that offers 17 and then computes it wrongly.
    Only3,
    /// `[17, 3]`, the default: 3 only after the BMC itself refused 17.
    #[default]
    Prefer17,
}

/// The map names suites that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cipher_suites {given:?} cannot be used: write [17], [3] or [17, 3] (suites without authentication, integrity or \
     AES encryption are never spoken)"
)]
pub struct SuitesError {
    /// What the map said.
    pub given: Vec<u8>,
}

impl Suites {
    /// Reads the map's list.
    ///
    /// # Errors
    /// Anything but `[17]`, `[3]` and `[17, 3]`.
    pub fn from_ids(ids: &[u8]) -> Result<Self, SuitesError> {
        match ids {
            [17] => Ok(Self::Only17),
            [3] => Ok(Self::Only3),
            [17, 3] => Ok(Self::Prefer17),
            _ => Err(SuitesError { given: ids.to_vec() }),
        }
    }

    /// The list to use from now on for a member that once spoke `suite`: a member that spoke 17 is not allowed to fall
    /// back to 3 any more, because nothing authenticates a BMC's refusal of 17.
    #[must_use]
    pub const fn after_speaking(self, suite: CipherSuite) -> Self {
        match (self, suite) {
            (Self::Prefer17, CipherSuite::Seventeen) => Self::Only17,
            (kept, _) => kept,
        }
    }

    pub(crate) const fn first(self) -> CipherSuite {
        match self {
            Self::Only3 => CipherSuite::Three,
            Self::Only17 | Self::Prefer17 => CipherSuite::Seventeen,
        }
    }

    pub(crate) const fn after_refusal_of(self, suite: CipherSuite) -> Option<CipherSuite> {
        match (self, suite) {
            (Self::Prefer17, CipherSuite::Seventeen) => Some(CipherSuite::Three),
            _ => None,
        }
    }
}

/// The three algorithm numbers of an Open Session message (IPMI 2.0, section 13.28), whatever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithms {
    /// Authentication algorithm number.
    pub authentication: u8,
    /// Integrity algorithm number.
    pub integrity: u8,
    /// Confidentiality algorithm number.
    pub confidentiality: u8,
}

impl Algorithms {
    /// The number of the cipher suite that consists of these algorithms, if there is one.
    fn suite_id(self) -> Option<u8> {
        let suite = match (self.authentication, self.integrity, self.confidentiality) {
            (0, 0, 0) => 0,
            (1, 0, 0) => 1,
            (1, 1, 0) => 2,
            (1, 1, 1) => 3,
            (1, 1, 2) => 4,
            (1, 1, 3) => 5,
            (2, 0, 0) => 6,
            (2, 2, 0) => 7,
            (2, 2, 1) => 8,
            (2, 2, 2) => 9,
            (2, 2, 3) => 10,
            (2, 3, 0) => 11,
            (2, 3, 1) => 12,
            (2, 3, 2) => 13,
            (2, 3, 3) => 14,
            (3, 0, 0) => 15,
            (3, 4, 0) => 16,
            (3, 4, 1) => 17,
            (3, 4, 2) => 18,
            (3, 4, 3) => 19,
            _ => return None,
        };
        Some(suite)
    }
}

impl fmt::Display for Algorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authentication = match self.authentication {
            0 => "no authentication",
            1 => "RAKP-HMAC-SHA1",
            2 => "RAKP-HMAC-MD5",
            3 => "RAKP-HMAC-SHA256",
            _ => "an unknown authentication algorithm",
        };
        let integrity = match self.integrity {
            0 => "no integrity",
            1 => "HMAC-SHA1-96",
            2 => "HMAC-MD5-128",
            3 => "MD5-128",
            4 => "HMAC-SHA256-128",
            _ => "an unknown integrity algorithm",
        };
        let confidentiality = match self.confidentiality {
            0 => "no encryption",
            1 => "AES-CBC-128",
            2 => "xRC4-128",
            3 => "xRC4-40",
            _ => "an unknown confidentiality algorithm",
        };
        match self.suite_id() {
            Some(id) => write!(f, "cipher suite {id} ({authentication}, {integrity}, {confidentiality})"),
            None => write!(f, "no known cipher suite ({authentication}, {integrity}, {confidentiality})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_lists_are_accepted() {
        assert_eq!(Suites::from_ids(&[17]), Ok(Suites::Only17));
        assert_eq!(Suites::from_ids(&[3]), Ok(Suites::Only3));
        assert_eq!(Suites::from_ids(&[17, 3]), Ok(Suites::Prefer17));
        for list in [&[][..], &[0], &[2], &[3, 17], &[17, 17], &[17, 3, 0], &[1], &[16], &[8]] {
            let error = Suites::from_ids(list).unwrap_err();
            assert!(error.to_string().contains("write [17], [3] or [17, 3]"), "{error}");
        }
    }

    #[test]
    fn a_member_that_spoke_17_never_falls_back_again() {
        let narrowed = Suites::Prefer17.after_speaking(CipherSuite::Seventeen);
        assert_eq!(narrowed, Suites::Only17);
        assert_eq!(narrowed.after_refusal_of(CipherSuite::Seventeen), None);
        assert_eq!(Suites::Prefer17.after_speaking(CipherSuite::Three), Suites::Prefer17);
        assert_eq!(Suites::Only3.after_speaking(CipherSuite::Seventeen), Suites::Only3);
    }

    #[test]
    fn a_fall_back_leads_from_17_to_3_and_nowhere_else() {
        for suites in [Suites::Only17, Suites::Only3, Suites::Prefer17] {
            assert_eq!(suites.after_refusal_of(CipherSuite::Three), None);
        }
        assert_eq!(Suites::Prefer17.after_refusal_of(CipherSuite::Seventeen), Some(CipherSuite::Three));
        assert_eq!(Suites::Only17.after_refusal_of(CipherSuite::Seventeen), None);
    }

    #[test]
    fn algorithms_are_named() {
        let none = Algorithms { authentication: 0, integrity: 0, confidentiality: 0 };
        assert_eq!(none.to_string(), "cipher suite 0 (no authentication, no integrity, no encryption)");
        let plain = Algorithms { authentication: 3, integrity: 4, confidentiality: 0 };
        assert_eq!(plain.to_string(), "cipher suite 16 (RAKP-HMAC-SHA256, HMAC-SHA256-128, no encryption)");
        let mixed = Algorithms { authentication: 3, integrity: 1, confidentiality: 1 };
        assert_eq!(mixed.to_string(), "no known cipher suite (RAKP-HMAC-SHA256, HMAC-SHA1-96, AES-CBC-128)");
    }
}

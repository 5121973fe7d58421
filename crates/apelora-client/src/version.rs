//! Microversions of the Bare Metal API. Source: OpenStack API-WG, *Microversion Specification*.

use std::fmt;

use apelora_http::header::HeaderValue;

use crate::ClientError;

/// A version `1.N` of the Bare Metal API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u16);

impl Version {
    /// The first one with typed maintenance entries.
    pub const TYPED_MAINTENANCE: Self = Self(116);
    /// The highest one that this client speaks.
    pub const MAX: Self = Self::TYPED_MAINTENANCE;

    /// The version `1.minor`.
    #[must_use]
    pub const fn new(minor: u16) -> Self {
        Self(minor)
    }

    /// The number after the point.
    #[must_use]
    pub const fn minor(self) -> u16 {
        self.0
    }

    /// As the value of the header that asks for it.
    pub(crate) fn header(self) -> Result<HeaderValue, ClientError> {
        HeaderValue::try_from(self.to_string()).map_err(|why| ClientError::Input(why.to_string()))
    }

    /// Reads `1.N`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix("1.")?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok().map(Self))?
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_the_first_major_are_read() {
        assert_eq!(Version::read(" 1.115 "), Some(Version::new(115)));
        for text in ["", "1.", "2.1", "1.x", "1.-1", "1.+1", "1.99999999", "latest"] {
            assert_eq!(Version::read(text), None, "{text}");
        }
        assert_eq!(Version::MAX.to_string(), "1.116");
    }
}

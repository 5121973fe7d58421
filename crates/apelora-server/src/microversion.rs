//! Microversions of the Bare Metal API: what is served, and what a request asks for.
//!
//! Source: tests/data/ironic/README.md section 1.6; OpenStack API-WG, *Microversion Specification*.

use std::fmt;

use http::HeaderMap;

use crate::python;

/// The header that the reference service introduced, and which every client sends.
pub const LEGACY_HEADER: &str = "x-openstack-ironic-api-version";
/// The header that all OpenStack services share.
pub const STANDARD_HEADER: &str = "openstack-api-version";
/// Carries the lowest version that is served.
pub const MINIMUM_HEADER: &str = "x-openstack-ironic-api-minimum-version";
/// Carries the highest version that is served.
pub const MAXIMUM_HEADER: &str = "x-openstack-ironic-api-maximum-version";
/// The name of the service in the shared header.
const SERVICE: &str = "baremetal";

/// A version `1.N` of the Bare Metal API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microversion(u16);

impl Microversion {
    /// The lowest version that is served, and the one of a request that names none.
    pub const MIN: Self = Self(1);
    /// The first version with typed maintenance entries; the only constant that holds its number.
    pub const TYPED_MAINTENANCE: Self = Self(116);
    /// The highest version that this code knows.
    pub const MAX: Self = Self::TYPED_MAINTENANCE;

    /// The version `1.minor`.
    pub const fn new(minor: u16) -> Self {
        Self(minor)
    }

    /// The number after the point.
    pub const fn minor(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// Why a version header is refused (406).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadVersion {
    /// Not of the form `major.minor`.
    #[error("Invalid value for X-OpenStack-Ironic-API-Version header")]
    Malformed,
    /// A version `1.N` outside the served range.
    #[error(
        "Version {asked} was requested but the minor version is not supported by this service. The supported version range is: [{}, {max}].",
        Microversion::MIN
    )]
    Minor {
        /// What was asked for, normalised.
        asked: String,
        /// The highest served version.
        max: Microversion,
    },
    /// Another major version.
    #[error(
        "Mutually exclusive versions requested. Version {asked} requested but not supported by this service. The supported version range is: [{}, {max}].",
        Microversion::MIN
    )]
    Major {
        /// What was asked for, normalised.
        asked: String,
        /// The highest served version.
        max: Microversion,
    },
}

impl BadVersion {
    /// Whether the answer tells the served range: clients need it to negotiate.
    pub fn tells_range(&self) -> bool {
        !matches!(self, Self::Malformed)
    }
}

/// The version that a request asks for, where `max` is the highest that is served.
///
/// The shared header wins where it names this service; of a repeated header the last one counts.
///
/// # Errors
/// The answer is a 406.
pub fn negotiate(headers: &HeaderMap, max: Microversion) -> Result<Microversion, BadVersion> {
    let asked = match standard(headers) {
        Some(version) => version,
        None => legacy(headers).unwrap_or_default(),
    };
    parse(&asked, max)
}

/// Whether the request is of the time when a trailing `.json` of a path was cut off: its own legacy header names a
/// version below 1.91. Neither the shared header nor `latest` counts. Source: tests/data/ironic/README.md section 1.5.
pub fn strips_json_suffix(headers: &HeaderMap) -> bool {
    legacy(headers)
        .filter(|v| !v.trim().is_empty())
        .and_then(|v| parse(&v, Microversion::MAX).ok().filter(|_| !v.trim().eq_ignore_ascii_case("latest")))
        .is_some_and(|v| v < Microversion::new(91))
}

fn parse(asked: &str, max: Microversion) -> Result<Microversion, BadVersion> {
    let asked = asked.trim();
    if asked.is_empty() {
        return Ok(Microversion::MIN);
    }
    if asked.eq_ignore_ascii_case("latest") {
        return Ok(max);
    }
    let mut parts = asked.split('.').map(python::integer);
    let (Some(Some(major)), Some(Some(minor)), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(BadVersion::Malformed);
    };
    let asked = format!("{major}.{minor}");
    if major != "1" {
        return Err(BadVersion::Major { asked, max });
    }
    match minor.parse().map(Microversion) {
        Ok(version) if (Microversion::MIN..=max).contains(&version) => Ok(version),
        _ => Err(BadVersion::Minor { asked, max }),
    }
}

fn legacy(headers: &HeaderMap) -> Option<String> {
    headers
        .get_all(LEGACY_HEADER)
        .iter()
        .next_back()
        .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
}

/// The last element of the shared header that names this service and a version.
fn standard(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(STANDARD_HEADER);
    values.iter().rev().find_map(|value| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        value.rsplit(',').find_map(|element| {
            let (service, version) = element.trim().split_once(char::is_whitespace)?;
            service.eq_ignore_ascii_case(SERVICE).then(|| version.trim().to_owned())
        })
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_str(v).unwrap())).collect()
    }

    fn asked(of: &[(&'static str, &str)]) -> Result<u16, String> {
        negotiate(&headers(of), Microversion::MAX).map(Microversion::minor).map_err(|e| e.to_string())
    }

    #[test]
    fn legacy_header() {
        assert_eq!(asked(&[]), Ok(1));
        for (value, minor) in
            [("", 1), (" 1.78 ", 78), ("1.078", 78), ("latest", 116), ("LATEST", 116), ("1.1", 1)]
        {
            assert_eq!(asked(&[(LEGACY_HEADER, value)]), Ok(minor), "{value}");
        }
        assert_eq!(asked(&[(LEGACY_HEADER, "1.61"), (LEGACY_HEADER, "1.78")]), Ok(78));
        for value in ["1", "1.1.1", "abc", "v1.78", "1.x", "1,78", ".", "1."] {
            let refused = asked(&[(LEGACY_HEADER, value)]);
            assert_eq!(
                refused.unwrap_err(),
                "Invalid value for X-OpenStack-Ironic-API-Version header",
                "{value}"
            );
        }
        assert_eq!(
            asked(&[(LEGACY_HEADER, "1.117")]).unwrap_err(),
            "Version 1.117 was requested but the minor version is not supported by this service. \
             The supported version range is: [1.1, 1.116]."
        );
        assert!(
            asked(&[(LEGACY_HEADER, "1.99999999999999999999")]).unwrap_err().starts_with("Version 1.9999")
        );
        for value in ["2.1", "0.1", "-1.1"] {
            let text = asked(&[(LEGACY_HEADER, value)]).unwrap_err();
            assert!(
                text.starts_with(&format!("Mutually exclusive versions requested. Version {value} ")),
                "{text}"
            );
        }
    }

    #[test]
    fn standard_header_wins_where_it_names_the_service() {
        for (value, minor) in [
            ("baremetal 1.78", 78),
            ("Baremetal 1.61", 61),
            ("compute 2.1, baremetal 1.61", 61),
            ("baremetal latest", 116),
            ("1.78", 50),
            ("compute 2.1", 50),
            ("baremetal1.61", 50),
            ("baremetal", 50),
        ] {
            assert_eq!(asked(&[(STANDARD_HEADER, value), (LEGACY_HEADER, "1.50")]), Ok(minor), "{value}");
        }
        for value in ["baremetal bogus", "baremetal 1.61 x"] {
            assert!(asked(&[(STANDARD_HEADER, value), (LEGACY_HEADER, "1.78")]).is_err(), "{value}");
        }
    }

    #[test]
    fn a_pin_lowers_latest_and_the_range() {
        let max = Microversion::new(115);
        assert_eq!(negotiate(&headers(&[(LEGACY_HEADER, "latest")]), max), Ok(max));
        assert!(
            negotiate(&headers(&[(LEGACY_HEADER, "1.116")]), max)
                .unwrap_err()
                .to_string()
                .ends_with("[1.1, 1.115].")
        );
    }

    #[test]
    fn json_suffix_is_of_old_versions_only() {
        assert!(strips_json_suffix(&headers(&[(LEGACY_HEADER, "1.90")])));
        for of in [&[][..], &[(LEGACY_HEADER, "1.91")], &[(LEGACY_HEADER, "latest")], &[(LEGACY_HEADER, "x")]]
        {
            assert!(!strips_json_suffix(&headers(of)));
        }
        assert!(!strips_json_suffix(&headers(&[(STANDARD_HEADER, "baremetal 1.78")])));
    }
}

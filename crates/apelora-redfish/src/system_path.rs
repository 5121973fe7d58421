//! The path of one computer system.

/// The collection of computer systems: the same on every Redfish service (DSP0266 section 6.4).
pub(crate) const SYSTEMS: &str = "/redfish/v1/Systems";

/// Below a system, its reset action.
const RESET: &str = "/Actions/ComputerSystem.Reset";

/// `/redfish/v1/Systems/<one segment>`, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SystemPath(String);

/// A text is not the path of a computer system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a system's path is /redfish/v1/Systems/ and one more segment, for example /redfish/v1/Systems/1")]
pub struct SystemPathError;

impl SystemPath {
    /// Reads a path; one trailing slash is dropped.
    ///
    /// # Errors
    /// Everything that is not exactly one plain segment below the collection: other paths, absolute URIs, queries,
    /// escapes, dot segments.
    pub fn parse(text: &str) -> Result<Self, SystemPathError> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let id = path.strip_prefix(SYSTEMS).and_then(|rest| rest.strip_prefix('/')).ok_or(SystemPathError)?;
        // RFC 3986 `pchar` without escapes, and short enough to be quoted in an error.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&b);
        if id.is_empty() || id.len() > 128 || id == "." || id == ".." || !id.bytes().all(plain) {
            return Err(SystemPathError);
        }
        Ok(Self(path.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a resource's link is this system, up to one trailing slash.
    pub(crate) fn is(&self, link: &str) -> bool {
        link.strip_suffix('/').unwrap_or(link) == self.0
    }

    /// Whether an action's target is this system's own reset, up to one trailing slash. Every recorded BMC has it
    /// there; anything else could be another server, another origin or another action.
    pub(crate) fn owns_reset(&self, target: &str) -> bool {
        let target = target.strip_suffix('/').unwrap_or(target);
        target.strip_prefix(self.0.as_str()) == Some(RESET)
    }
}

impl std::fmt::Display for SystemPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_segment_below_the_collection() {
        for good in [
            "/redfish/v1/Systems/1",
            "/redfish/v1/Systems/System.Embedded.1",
            "/redfish/v1/Systems/HGX_Baseboard_0/",
        ] {
            assert!(SystemPath::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/",
            "/redfish/v1/Systems",
            "/redfish/v1/Systems/",
            "/redfish/v1/Systems//",
            "/redfish/v1/Systems//1",
            "/redfish/v1/Systems/1//",
            "/redfish/v1/Systems/1/x",
            "/redfish/v1/Systems/..",
            "/redfish/v1/Systems/.",
            "/redfish/v1/Systems/%31",
            "/redfish/v1/Systems/1?a",
            "/redfish/v1/Systems/1#a",
            "/redfish/v1/Chassis/1",
            "https://host/redfish/v1/Systems/1",
            "//host/redfish/v1/Systems/1",
            "redfish/v1/Systems/1",
            "/redfish/v1/Systems/a b",
            "/redfish/v1/SystemsX/1",
        ] {
            assert_eq!(SystemPath::parse(bad), Err(SystemPathError), "{bad}");
        }
    }

    #[test]
    fn only_its_own_reset() {
        let one = SystemPath::parse("/redfish/v1/Systems/1").unwrap();
        assert!(one.owns_reset("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"));
        assert!(one.owns_reset("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset/"));
        for foreign in [
            "",
            "/",
            "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset",
            "/redfish/v1/Systems/11/Actions/ComputerSystem.Reset",
            "https://bmc/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "//bmc/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset//",
            "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset?x",
            "/redfish/v1/Systems/1/../2/Actions/ComputerSystem.Reset",
            "/redfish/v1/Systems/1/Actions/Manager.Reset",
            "/redfish/v1/Systems/1//Actions/ComputerSystem.Reset",
            "/redfish/v1/Chassis/1/Actions/Chassis.Reset",
        ] {
            assert!(!one.owns_reset(foreign), "{foreign}");
        }
    }
}

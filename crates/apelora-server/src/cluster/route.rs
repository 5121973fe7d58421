//! The paths of the cluster API.
//!
//! Unlike those of the Bare Metal API they are cut at their slashes before they are decoded, so that a name stays one
//! segment whatever it holds.

use percent_encoding::percent_decode_str;

/// What a path below `/apelora/v1` names, apart from the maintenance entries of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterRoute {
    /// `/apelora/v1/members`
    Members,
    /// `/apelora/v1/members/{member}`
    Member(String),
    /// `/apelora/v1/members/{member}/explain`
    Explain(String),
    /// `/apelora/v1/members/{member}/confirm-off`
    ConfirmOff(String),
    /// `/apelora/v1/members/{member}/trust`
    Trust(String),
    /// `/apelora/v1/fence/records`
    Records,
    /// `/apelora/v1/fence/records/{record}`
    Record(String),
    /// `/apelora/v1/audit`
    Audit,
    /// `/apelora/v1/settings`
    Settings,
}

/// Reads a path as it came, still encoded; `None` for every other one.
pub(crate) fn parse(path: &str) -> Option<ClusterRoute> {
    let rest = path.strip_prefix("/apelora/v1/")?;
    // One slash at the end means nothing.
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let segments: Vec<&str> = rest.split('/').collect();
    Some(match *segments.as_slice() {
        ["members"] => ClusterRoute::Members,
        ["members", name] => ClusterRoute::Member(decoded(name)?),
        ["members", name, "explain"] => ClusterRoute::Explain(decoded(name)?),
        ["members", name, "confirm-off"] => ClusterRoute::ConfirmOff(decoded(name)?),
        ["members", name, "trust"] => ClusterRoute::Trust(decoded(name)?),
        ["fence", "records"] => ClusterRoute::Records,
        ["fence", "records", id] => ClusterRoute::Record(decoded(id)?),
        ["audit"] => ClusterRoute::Audit,
        ["settings"] => ClusterRoute::Settings,
        _ => return None,
    })
}

/// A segment as text; `None` when it is empty or no text.
fn decoded(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    (!text.is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        let member = |name: &str| Some(ClusterRoute::Member(name.to_owned()));
        for (path, route) in [
            ("/apelora/v1/members", Some(ClusterRoute::Members)),
            ("/apelora/v1/members/", Some(ClusterRoute::Members)),
            ("/apelora/v1/members/s1", member("s1")),
            ("/apelora/v1/members/s%31/", member("s1")),
            ("/apelora/v1/members/a%2Fb", member("a/b")),
            ("/apelora/v1/members/..", member("..")),
            ("/apelora/v1/members/a%2Fconfirm-off", member("a/confirm-off")),
            ("/apelora/v1/members/%C3%A9", member("\u{e9}")),
            ("/apelora/v1/members/a+b", member("a+b")),
            ("/apelora/v1/members/s1.json", member("s1.json")),
            ("/apelora/v1/members/explain", member("explain")),
            ("/apelora/v1/members/s1/explain", Some(ClusterRoute::Explain("s1".into()))),
            ("/apelora/v1/members/%73%31/confirm-off", Some(ClusterRoute::ConfirmOff("s1".into()))),
            ("/apelora/v1/members/s1/trust/", Some(ClusterRoute::Trust("s1".into()))),
            ("/apelora/v1/fence/records/x", Some(ClusterRoute::Record("x".into()))),
            ("/apelora/v1/audit", Some(ClusterRoute::Audit)),
            ("/apelora/v1/settings", Some(ClusterRoute::Settings)),
            ("/apelora/v1/members//", None),
            ("/apelora/v1/members//trust", None),
            ("/apelora/v1/members/%FF", None),
            ("/apelora/v1/members/s1/confirm-off/x", None),
            ("/apelora/v1/members/s1/nope", None),
            ("/apelora/v1/%6Dembers", None),
            ("/apelora/v1/fence", None),
            ("/apelora/v1/", None),
            ("/apelora/v1", None),
            ("/v1/apelora/v1/members", None),
        ] {
            assert_eq!(parse(path), route, "{path}");
        }
    }
}

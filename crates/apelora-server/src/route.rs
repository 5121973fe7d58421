//! From the bytes of a path to a typed route.
//!
//! The grammar is the reference's own, so no router library reads it: an optional `v1`, one trailing slash, a `.json`
//! that old clients append, and errors of the router apart from errors of a resource.
//! Source: tests/data/ironic/README.md section 1.5.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::cluster::{ClusterRoute, route as cluster};

/// What a path of the Bare Metal API names. Idents are as the client wrote them, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/`, and `//` as well
    Root,
    /// `/v1`
    V1,
    /// `/v1/nodes`
    Nodes,
    /// `/v1/nodes/detail`
    NodesDetail,
    /// `/v1/nodes//` and `/v1/nodes//...`
    MissingIdent,
    /// `/v1/nodes/{ident}`
    Node(Ident),
    /// `/v1/nodes/{ident}/maintenance`
    Maintenance(Ident),
    /// `/v1/nodes/{ident}/maintenance/{entry}`
    MaintenanceEntry(Ident, String),
    /// `/v1/nodes/{ident}/history`
    History(Ident),
    /// `/v1/nodes/{ident}/history/{record}`
    HistoryRecord(Ident, String),
    /// `/v1/nodes/{ident}/states`
    States(Ident),
    /// `/v1/nodes/{ident}/states/{what}`: changes of power, provisioning and the like
    StateChange(Ident, String),
    /// A part of a node that the reference has and this service does not: ports, traits, ...
    NodePart(Ident, String),
    /// Deeper than a known route goes, where the reference crashes.
    TooDeep(Ident),
    /// `/v1/nodes/{ident}/{anything else}`, which the reference looks up as the node itself.
    NodeRest(Ident),
    /// `/apelora/v1/maintenance`
    AllEntries,
    /// Everything else below `/apelora/v1`.
    Cluster(ClusterRoute),
    /// `/v1/drivers`
    Drivers,
    /// `/v1/drivers/{name}`
    Driver(String),
    /// A resource of the reference that this service does not have: ports, chassis, ...
    Elsewhere(&'static str),
}

/// An ident in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ident {
    /// The ident.
    pub(crate) text: String,
    /// Whether a `.json` was cut off its end; then the longer name is looked up as well.
    pub(crate) json_suffix: bool,
}

/// Why a path has no route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// 404.
    Unknown,
    /// 400: the ident cannot be one.
    BadIdent(String),
    /// 404 of a resource: `/v1/nodes/detail/`.
    NoResource,
}

/// Resources of the reference at the top that are not here.
const ELSEWHERE: [&str; 16] = [
    "allocations",
    "chassis",
    "conductors",
    "continue_inspection",
    "deploy_templates",
    "events",
    "heartbeat",
    "inspection_rules",
    "lookup",
    "portgroups",
    "ports",
    "ramdisk",
    "runbooks",
    "shards",
    "volume",
    "volumes",
];

/// Parts of a node that the reference has and that are not here.
const NODE_PARTS: [&str; 14] = [
    "allocation",
    "bios",
    "boot_devices",
    "children",
    "firmware",
    "inventory",
    "management",
    "portgroups",
    "ports",
    "traits",
    "validate",
    "vendor_passthru",
    "vifs",
    "vmedia",
];

/// A path as it is read: without percent signs.
pub(crate) fn decoded(path: &str) -> Cow<'_, str> {
    percent_decode_str(path).decode_utf8_lossy()
}

/// Reads a path. `strip_json` is whether the request is of the time when a `.json` at the end meant nothing.
pub(crate) fn parse(path: &str, strip_json: bool) -> Result<Route, NoRoute> {
    if let Some(route) = cluster::parse(path) {
        return Ok(Route::Cluster(route));
    }
    let decoded = decoded(path);
    let stripped = if strip_json { decoded.strip_suffix(".json") } else { None };
    let json_suffix = stripped.is_some();
    let path = stripped.unwrap_or(&decoded);
    let mut segments: Vec<&str> = path.strip_prefix('/').ok_or(NoRoute::Unknown)?.split('/').collect();
    if segments == [""] || segments == ["", ""] {
        return Ok(Route::Root);
    }
    if let ["apelora", "v1", "maintenance"] | ["apelora", "v1", "maintenance", ""] = segments.as_slice() {
        return Ok(Route::AllEntries);
    }
    if segments.first() == Some(&"v1") {
        segments.remove(0);
        if segments.is_empty() || segments == [""] {
            return Ok(Route::V1);
        }
    }
    match segments.split_first() {
        Some((&"nodes", rest)) => nodes(rest, json_suffix),
        Some((&"drivers", [] | [""])) => Ok(Route::Drivers),
        Some((&"drivers", [name] | [name, ""])) => Ok(Route::Driver((*name).to_owned())),
        Some((&"drivers", _)) => Ok(Route::Elsewhere("drivers")),
        Some((top, _)) => {
            ELSEWHERE.iter().find(|e| *e == top).map(|e| Route::Elsewhere(e)).ok_or(NoRoute::Unknown)
        }
        None => Err(NoRoute::Unknown),
    }
}

/// What follows `nodes`.
fn nodes(segments: &[&str], json_suffix: bool) -> Result<Route, NoRoute> {
    let (ident, rest) = match segments {
        [] | [""] => return Ok(Route::Nodes),
        ["detail"] => return Ok(Route::NodesDetail),
        ["detail", ""] => return Err(NoRoute::NoResource),
        ["validate"] | ["validate", ""] => return Ok(Route::Elsewhere("nodes/validate")),
        ["", ..] => return Ok(Route::MissingIdent),
        [part] | [part, ""] if is_part(part) => return Err(NoRoute::Unknown),
        [ident, rest @ ..] => (*ident, rest),
    };
    if !crate::ident::is_path_ident(ident) {
        return Err(NoRoute::BadIdent(ident.to_owned()));
    }
    // One slash at the end means nothing.
    let rest = if let [inner @ .., ""] = rest { inner } else { rest };
    let ident = Ident { text: ident.to_owned(), json_suffix: json_suffix && rest.is_empty() };
    Ok(match *rest {
        [] => Route::Node(ident),
        ["maintenance"] => Route::Maintenance(ident),
        ["maintenance", entry] => Route::MaintenanceEntry(ident, entry.to_owned()),
        ["history"] => Route::History(ident),
        ["history", record] => Route::HistoryRecord(ident, record.to_owned()),
        ["states"] => Route::States(ident),
        ["states", what] if STATE_CHANGES.contains(&what) => Route::StateChange(ident, what.to_owned()),
        ["maintenance" | "history" | "states", ..] => Route::TooDeep(ident),
        [part, ..] if NODE_PARTS.contains(&part) || part == "volume" => {
            Route::NodePart(ident, part.to_owned())
        }
        [..] => Route::NodeRest(ident),
    })
}

/// Changes of state that the reference offers under `states`.
const STATE_CHANGES: [&str; 8] =
    ["boot_mode", "console", "indicators", "power", "provision", "raid", "secure_boot", "service"];

/// Words that the reference's router takes for a part of a node even where an ident stands. The reserved names are not
/// among them, apart from those that are such parts.
fn is_part(word: &str) -> bool {
    matches!(word, "history" | "maintenance" | "states" | "volume") || NODE_PARTS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(text: &str) -> Ident {
        Ident { text: text.to_owned(), json_suffix: false }
    }

    #[test]
    fn recorded_paths() {
        for (path, route) in [
            ("/", Route::Root),
            ("//", Route::Root),
            ("/v1", Route::V1),
            ("/v1/", Route::V1),
            ("/nodes", Route::Nodes),
            ("/v1/nodes/", Route::Nodes),
            ("/v1/nodes/detail", Route::NodesDetail),
            ("/v1/nodes//", Route::MissingIdent),
            ("/v1/nodes/x/", Route::Node(ident("x"))),
            ("/v1/nodes/n%31", Route::Node(ident("n1"))),
            ("/v1/nodes/x/maintenance/", Route::Maintenance(ident("x"))),
            ("/v1/nodes/x/maintenance/e", Route::MaintenanceEntry(ident("x"), "e".into())),
            ("/v1/nodes/x/maintenance/e/", Route::MaintenanceEntry(ident("x"), "e".into())),
            ("/v1/nodes/x/maintenance/e/f", Route::TooDeep(ident("x"))),
            ("/v1/nodes/x/history/detail", Route::HistoryRecord(ident("x"), "detail".into())),
            ("/v1/nodes/x/states/power", Route::StateChange(ident("x"), "power".into())),
            ("/v1/nodes/x/states/nope", Route::TooDeep(ident("x"))),
            ("/v1/nodes/x/nope", Route::NodeRest(ident("x"))),
            ("/v1/nodes/x/maintenance.json", Route::NodeRest(ident("x"))),
            ("/v1/nodes/srv.json", Route::Node(ident("srv.json"))),
            ("/v1/ports", Route::Elsewhere("ports")),
            ("/apelora/v1/maintenance", Route::AllEntries),
            ("/apelora/v1/members/n%2F1", Route::Cluster(ClusterRoute::Member("n/1".into()))),
        ] {
            assert_eq!(parse(path, false), Ok(route), "{path}");
        }
        for (path, error) in [
            ("/v2", NoRoute::Unknown),
            ("/nope/", NoRoute::Unknown),
            ("/apelora/v1", NoRoute::Unknown),
            ("/v1/apelora/v1/maintenance", NoRoute::Unknown),
            ("/v1/v1/nodes", NoRoute::Unknown),
            ("/v1.json", NoRoute::Unknown),
            ("/v1/nodes.json", NoRoute::Unknown),
            ("///", NoRoute::Unknown),
            ("", NoRoute::Unknown),
            ("/v1/nodes/ports", NoRoute::Unknown),
            ("/v1/nodes/history", NoRoute::Unknown),
            ("/v1/nodes/detail/", NoRoute::NoResource),
            ("/v1/nodes/bad%20name", NoRoute::BadIdent("bad name".into())),
            ("/v1/nodes/%C3%A9", NoRoute::BadIdent("\u{e9}".into())),
            ("/v1/nodes/%FF", NoRoute::BadIdent("\u{fffd}".into())),
        ] {
            assert_eq!(parse(path, false), Err(error), "{path}");
        }
    }

    #[test]
    fn the_suffix_of_old_clients() {
        assert_eq!(parse("/v1.json", true), Ok(Route::V1));
        assert_eq!(parse("/v1/nodes.json", true), Ok(Route::Nodes));
        let cut = |text: &str| Route::Node(Ident { text: text.to_owned(), json_suffix: true });
        assert_eq!(parse("/v1/nodes/a.b.c.json", true), Ok(cut("a.b.c")));
        assert_eq!(parse("/v1/nodes/srv.json.json", true), Ok(cut("srv.json")));
        assert_eq!(parse("/v1/nodes/n/maintenance.json", true), Ok(Route::Maintenance(ident("n"))));
        assert_eq!(parse("/v1/nodes/n.json/maintenance", true), Ok(Route::Maintenance(ident("n.json"))));
    }

    proptest::proptest! {
        #[test]
        fn no_path_panics(path in "[/a-z0-9.%\u{0}-\u{ff}]{0,60}", strip in proptest::bool::ANY) {
            let _ = parse(&path, strip);
            let _ = parse(&format!("/v1/nodes/{path}"), strip);
        }
    }
}

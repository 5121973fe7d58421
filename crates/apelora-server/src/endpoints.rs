//! The table of what the Bare Metal API serves: method and path, since when, under which policy, open to whom.
//!
//! Whatever is reached over the Bare Metal API is reached through this table; the document at `/openapi.json` and the
//! test that walks every endpoint are made from it as well.

use http::Method;

use crate::Microversion;
use crate::authorise::{self, Rule};
use crate::cluster::ClusterRoute;
use crate::error::ApiError;
use crate::reply;
use crate::route::Route;

/// What an endpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    ShowRoot,
    ShowVersion,
    ListNodes,
    ListNodesInDetail,
    CreateNode,
    ShowNode,
    UpdateNode,
    DeleteNode,
    SetMaintenance,
    ClearMaintenance,
    ListEntries,
    AddEntry,
    ShowEntry,
    ReleaseEntry,
    ListAllEntries,
    ListHistory,
    ShowHistoryRecord,
    ShowStates,
    ChangeState,
    ListDrivers,
    ShowDriver,
    ListMembers,
    ShowMember,
    ExplainMember,
    ConfirmMemberOff,
    TrustMember,
    ListFenceRecords,
    ShowFenceRecord,
    ListAudit,
    ShowSettings,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) operation: Operation,
    pub(crate) method: &'static str,
    /// The path, with names for its variable parts.
    pub(crate) template: &'static str,
    /// The first version that has it.
    pub(crate) since: Microversion,
    /// The rule that policy must grant; `None` for what is open to all.
    pub(crate) rule: Option<Rule>,
    /// One line for the document.
    pub(crate) summary: &'static str,
}

const ROOT: &str = "/";
const V1: &str = "/v1";
const NODES: &str = "/v1/nodes";
const NODES_DETAIL: &str = "/v1/nodes/detail";
const NODE: &str = "/v1/nodes/{node_ident}";
pub(crate) const MAINTENANCE: &str = "/v1/nodes/{node_ident}/maintenance";
pub(crate) const MAINTENANCE_ENTRY: &str = "/v1/nodes/{node_ident}/maintenance/{entry_uuid}";
pub(crate) const ALL_ENTRIES: &str = "/apelora/v1/maintenance";
pub(crate) const MEMBERS: &str = "/apelora/v1/members";
pub(crate) const MEMBER: &str = "/apelora/v1/members/{member}";
pub(crate) const MEMBER_EXPLAIN: &str = "/apelora/v1/members/{member}/explain";
pub(crate) const MEMBER_CONFIRM_OFF: &str = "/apelora/v1/members/{member}/confirm-off";
pub(crate) const MEMBER_TRUST: &str = "/apelora/v1/members/{member}/trust";
pub(crate) const FENCE_RECORDS: &str = "/apelora/v1/fence/records";
pub(crate) const FENCE_RECORD: &str = "/apelora/v1/fence/records/{record}";
pub(crate) const AUDIT: &str = "/apelora/v1/audit";
pub(crate) const SETTINGS: &str = "/apelora/v1/settings";
const HISTORY: &str = "/v1/nodes/{node_ident}/history";
const HISTORY_RECORD: &str = "/v1/nodes/{node_ident}/history/{record_uuid}";
const STATES: &str = "/v1/nodes/{node_ident}/states";
const STATE: &str = "/v1/nodes/{node_ident}/states/{state}";
const DRIVERS: &str = "/v1/drivers";
const DRIVER: &str = "/v1/drivers/{driver_name}";

const fn endpoint(
    method: &'static str,
    template: &'static str,
    since: Microversion,
    operation: Operation,
    rule: Option<Rule>,
    summary: &'static str,
) -> Endpoint {
    Endpoint { operation, method, template, since, rule, summary }
}

const MIN: Microversion = Microversion::MIN;
const HISTORY_SINCE: Microversion = Microversion::new(78);
const TYPED: Microversion = Microversion::TYPED_MAINTENANCE;

use Operation as Op;

/// Every endpoint of the Bare Metal API.
pub(crate) static ENDPOINTS: &[Endpoint] = &[
    endpoint("GET", ROOT, MIN, Op::ShowRoot, None, "The versions of the API"),
    endpoint("GET", V1, MIN, Op::ShowVersion, None, "The resources of version 1"),
    endpoint("GET", NODES, MIN, Op::ListNodes, Some(authorise::NODE_LIST_ALL), "List nodes"),
    endpoint("POST", NODES, MIN, Op::CreateNode, Some(authorise::NODE_CREATE), "Create a node"),
    endpoint(
        "GET",
        NODES_DETAIL,
        MIN,
        Op::ListNodesInDetail,
        Some(authorise::NODE_LIST_ALL),
        "List nodes with all their fields",
    ),
    endpoint("GET", NODE, MIN, Op::ShowNode, Some(authorise::NODE_GET), "Show a node"),
    endpoint("PATCH", NODE, MIN, Op::UpdateNode, Some(authorise::NODE_UPDATE), "Change fields of a node"),
    endpoint("DELETE", NODE, MIN, Op::DeleteNode, Some(authorise::NODE_DELETE), "Delete a node"),
    endpoint(
        "PUT",
        MAINTENANCE,
        MIN,
        Op::SetMaintenance,
        Some(authorise::MAINTENANCE_SET),
        "Set the maintenance flag: make the node's legacy entry, or replace its reason",
    ),
    endpoint(
        "DELETE",
        MAINTENANCE,
        MIN,
        Op::ClearMaintenance,
        Some(authorise::MAINTENANCE_CLEAR),
        "Release every maintenance entry of the node, or none",
    ),
    endpoint(
        "GET",
        MAINTENANCE,
        TYPED,
        Op::ListEntries,
        Some(authorise::ENTRY_GET),
        "List the node's active maintenance entries",
    ),
    endpoint(
        "POST",
        MAINTENANCE,
        TYPED,
        Op::AddEntry,
        Some(authorise::ENTRY_ADD),
        "Assert a maintenance entry",
    ),
    endpoint(
        "GET",
        MAINTENANCE_ENTRY,
        TYPED,
        Op::ShowEntry,
        Some(authorise::ENTRY_GET),
        "Show one active maintenance entry",
    ),
    endpoint(
        "DELETE",
        MAINTENANCE_ENTRY,
        TYPED,
        Op::ReleaseEntry,
        Some(authorise::ENTRY_REMOVE),
        "Release one maintenance entry",
    ),
    endpoint(
        "GET",
        ALL_ENTRIES,
        MIN,
        Op::ListAllEntries,
        Some(authorise::ENTRIES_LIST_ALL),
        "List the active maintenance entries of all nodes that the caller may see",
    ),
    endpoint(
        "GET",
        HISTORY,
        HISTORY_SINCE,
        Op::ListHistory,
        Some(authorise::HISTORY_GET),
        "List a node's history",
    ),
    endpoint(
        "GET",
        HISTORY_RECORD,
        HISTORY_SINCE,
        Op::ShowHistoryRecord,
        Some(authorise::HISTORY_GET),
        "Show one record of a node's history",
    ),
    endpoint(
        "GET",
        STATES,
        MIN,
        Op::ShowStates,
        Some(authorise::NODE_STATES_GET),
        "Show the states of a node",
    ),
    endpoint(
        "PUT",
        STATE,
        MIN,
        Op::ChangeState,
        Some(authorise::NODE_SET_POWER),
        "Refused: this service changes no power or provision state",
    ),
    endpoint(
        "GET",
        DRIVERS,
        MIN,
        Op::ListDrivers,
        Some(authorise::DRIVER_GET),
        "List the known hardware types",
    ),
    endpoint("GET", DRIVER, MIN, Op::ShowDriver, Some(authorise::DRIVER_GET), "Show a known hardware type"),
    endpoint(
        "GET",
        MEMBERS,
        MIN,
        Op::ListMembers,
        Some(authorise::MEMBER_GET),
        "List the cluster's members: status, proof, verdict",
    ),
    endpoint(
        "GET",
        MEMBER,
        MIN,
        Op::ShowMember,
        Some(authorise::MEMBER_GET),
        "Show a member: every guard, its proof, its latest fence records, its instances",
    ),
    endpoint(
        "GET",
        MEMBER_EXPLAIN,
        MIN,
        Op::ExplainMember,
        Some(authorise::MEMBER_GET),
        "Show the world as it was last judged, to be judged again",
    ),
    endpoint(
        "POST",
        MEMBER_CONFIRM_OFF,
        MIN,
        Op::ConfirmMemberOff,
        Some(authorise::MEMBER_CONFIRM_OFF),
        "Give one's word that a member is off",
    ),
    endpoint(
        "POST",
        MEMBER_TRUST,
        MIN,
        Op::TrustMember,
        Some(authorise::MEMBER_TRUST),
        "Trust a member's entry of the BMC map again",
    ),
    endpoint(
        "GET",
        FENCE_RECORDS,
        MIN,
        Op::ListFenceRecords,
        Some(authorise::MEMBER_GET),
        "List fence records, newest first",
    ),
    endpoint(
        "GET",
        FENCE_RECORD,
        MIN,
        Op::ShowFenceRecord,
        Some(authorise::MEMBER_GET),
        "Show a fence record with its evidence",
    ),
    endpoint("GET", AUDIT, MIN, Op::ListAudit, Some(authorise::AUDIT_GET), "Read the audit trail"),
    endpoint(
        "GET",
        SETTINGS,
        MIN,
        Op::ShowSettings,
        Some(authorise::SETTINGS_GET),
        "Show the settings in force and the BMC map",
    ),
];

/// The path of a route with names for its variable parts, for logs and metrics.
pub(crate) fn template(route: &Route) -> &'static str {
    match route {
        Route::Root => ROOT,
        Route::V1 => V1,
        Route::Nodes | Route::MissingIdent => NODES,
        Route::NodesDetail => NODES_DETAIL,
        Route::Node(_) => NODE,
        Route::Maintenance(_) => MAINTENANCE,
        Route::MaintenanceEntry(..) => MAINTENANCE_ENTRY,
        Route::AllEntries => ALL_ENTRIES,
        Route::Cluster(route) => match route {
            ClusterRoute::Members => MEMBERS,
            ClusterRoute::Member(_) => MEMBER,
            ClusterRoute::Explain(_) => MEMBER_EXPLAIN,
            ClusterRoute::ConfirmOff(_) => MEMBER_CONFIRM_OFF,
            ClusterRoute::Trust(_) => MEMBER_TRUST,
            ClusterRoute::Records => FENCE_RECORDS,
            ClusterRoute::Record(_) => FENCE_RECORD,
            ClusterRoute::Audit => AUDIT,
            ClusterRoute::Settings => SETTINGS,
        },
        Route::History(_) => HISTORY,
        Route::HistoryRecord(..) => HISTORY_RECORD,
        Route::States(_) => STATES,
        Route::StateChange(..) => STATE,
        Route::NodePart(..) | Route::TooDeep(_) | Route::NodeRest(_) => "/v1/nodes/{node_ident}/{other}",
        Route::Drivers => DRIVERS,
        Route::Driver(_) => DRIVER,
        Route::Elsewhere(_) => "/v1/{other}",
    }
}

/// The endpoint that a request names; `None` for the routes that only refuse.
///
/// # Errors
/// 404 and 405 in the reference's forms.
pub(crate) fn find(
    route: &Route,
    method: &Method,
    version: Microversion,
) -> Result<Option<&'static Endpoint>, ApiError> {
    let typed = version >= TYPED;
    let template = template(route);
    let wanted = match route {
        // The root answers whatever it is asked.
        Route::Root => "GET",
        Route::V1 if method == Method::HEAD => "GET",
        _ => method.as_str(),
    };
    let found = ENDPOINTS.iter().find(|e| e.template == template && e.method == wanted);
    match route {
        Route::Root => Ok(found),
        Route::V1 => found.map(Some).ok_or_else(reply::v1_method_not_allowed),
        Route::History(_) | Route::HistoryRecord(..) if version < HISTORY_SINCE => Err(ApiError::no_route()),
        Route::History(_) | Route::HistoryRecord(..) | Route::States(_) | Route::NodesDetail => {
            found.map(Some).ok_or_else(|| ApiError::method_not_allowed("GET"))
        }
        Route::StateChange(..) => match method.as_str() {
            "PUT" => Ok(found),
            "GET" => Err(ApiError::no_resource()),
            _ => Err(ApiError::method_not_allowed("GET")),
        },
        Route::Maintenance(_) => match found {
            Some(endpoint) if endpoint.since <= version => Ok(Some(endpoint)),
            // Typed routes do not exist below their version.
            _ if !typed && ["GET", "HEAD", "POST"].contains(&wanted) => Err(ApiError::no_resource()),
            _ if typed => Err(ApiError::method_not_allowed("DELETE, GET, POST, PUT")),
            _ => Err(ApiError::method_not_allowed("DELETE, PUT")),
        },
        Route::MaintenanceEntry(..) => match found {
            Some(endpoint) if typed => Ok(Some(endpoint)),
            _ if !typed || wanted == "PUT" => Err(ApiError::no_resource()),
            _ => Err(ApiError::method_not_allowed("DELETE, GET")),
        },
        Route::AllEntries | Route::Drivers | Route::Driver(_) => {
            found.map(Some).ok_or_else(|| ApiError::method_not_allowed("GET"))
        }
        Route::Cluster(ClusterRoute::ConfirmOff(_) | ClusterRoute::Trust(_)) => {
            found.map(Some).ok_or_else(|| ApiError::method_not_allowed("POST"))
        }
        Route::Cluster(_) => found.map(Some).ok_or_else(|| ApiError::method_not_allowed("GET")),
        // One controller of the reference serves the list and the node: which of its methods fit is its own business.
        Route::Nodes | Route::MissingIdent | Route::Node(_) | Route::NodePart(..) | Route::NodeRest(_) => {
            match wanted {
                "GET" | "POST" | "PATCH" | "DELETE" => Ok(found),
                _ if matches!(route, Route::NodePart(..)) => Ok(None),
                _ => Err(ApiError::method_not_allowed("DELETE, GET, PATCH, POST")),
            }
        }
        Route::TooDeep(_) | Route::Elsewhere(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route;

    fn outcome(method: &str, path: &str, minor: u16) -> Result<Option<Operation>, u16> {
        let route = route::parse(path, false).unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        find(&route, &method, Microversion::new(minor))
            .map(|e| e.map(|e| e.operation))
            .map_err(|e| e.status().as_u16())
    }

    #[test]
    fn typed_routes_exist_from_their_version_on() {
        for (method, path, operation) in [
            ("GET", "/v1/nodes/n/maintenance", Op::ListEntries),
            ("POST", "/v1/nodes/n/maintenance", Op::AddEntry),
            ("GET", "/v1/nodes/n/maintenance/e", Op::ShowEntry),
            ("DELETE", "/v1/nodes/n/maintenance/e", Op::ReleaseEntry),
        ] {
            assert_eq!(outcome(method, path, 115), Err(404), "{method} {path}");
            assert_eq!(outcome(method, path, 116), Ok(Some(operation)), "{method} {path}");
        }
        assert_eq!(outcome("PUT", "/v1/nodes/n/maintenance/e", 1), Err(404));
        assert_eq!(outcome("PUT", "/v1/nodes/n/maintenance/e", 116), Err(404));
        assert_eq!(outcome("PATCH", "/v1/nodes/n/maintenance", 115), Err(405));
        assert_eq!(outcome("PATCH", "/v1/nodes/n/maintenance", 116), Err(405));
        assert_eq!(outcome("PUT", "/v1/nodes/n/maintenance", 1), Ok(Some(Op::SetMaintenance)));
    }

    #[test]
    fn recorded_methods() {
        assert_eq!(outcome("POST", "/", 1), Ok(Some(Op::ShowRoot)));
        assert_eq!(outcome("HEAD", "/v1", 1), Ok(Some(Op::ShowVersion)));
        assert_eq!(outcome("PUT", "/v1", 1), Err(405));
        assert_eq!(outcome("HEAD", "/v1/nodes", 1), Err(405));
        assert_eq!(outcome("FOO", "/v1/nodes/x", 115), Err(405));
        assert_eq!(outcome("DELETE", "/v1/nodes", 115), Ok(None));
        assert_eq!(outcome("GET", "/v1/nodes/x/history", 77), Err(404));
        assert_eq!(outcome("POST", "/v1/nodes/x/history", 115), Err(405));
        assert_eq!(outcome("POST", "/v1/nodes/x/states/power", 115), Err(405));
        assert_eq!(outcome("PUT", "/v1/nodes/a.b.c/maintenance.json", 91), Err(405));
    }

    #[test]
    fn every_endpoint_is_found_and_only_the_documents_are_open_to_all() {
        for endpoint in ENDPOINTS {
            let path = endpoint.template.replace(['{', '}'], "");
            let path = path.replace("states/state", "states/power");
            let found = outcome(endpoint.method, &path, Microversion::MAX.minor());
            assert_eq!(found, Ok(Some(endpoint.operation)), "{path}");
            assert_eq!(endpoint.rule.is_none(), matches!(endpoint.template, ROOT | V1), "{path}");
        }
    }
}

//! The recorded answers of the reference service, as far as the rules alone decide them.

use std::collections::BTreeMap;

use apelora_policy::{Creds, Identity, Rules, Settings, Target};
use serde_json::Value;

use crate::support::{built_in, json};

const GET: &str = "baremetal:node:get";

/// The rules that a request asks for after the node was found and may be seen, one of which must pass; `None` for
/// requests that decide on something else than rules as well.
fn asked(method: &str, path: &str, body: &Value) -> Option<Vec<&'static str>> {
    Some(match (method, path) {
        ("GET", "/v1/nodes/{N}") => vec![GET],
        ("DELETE", "/v1/nodes/{N}") => vec!["baremetal:node:delete", "baremetal:node:delete:self_owned_node"],
        ("PUT", "/v1/nodes/{N}/maintenance") => vec!["baremetal:node:set_maintenance"],
        ("DELETE", "/v1/nodes/{N}/maintenance") => vec!["baremetal:node:clear_maintenance"],
        ("GET", "/v1/nodes/{N}/history" | "/v1/nodes/{N}/history/{H}") => vec!["baremetal:node:history:get"],
        ("GET", "/v1/nodes/{N}/states") => vec!["baremetal:node:get_states"],
        ("PUT", "/v1/nodes/{N}/states/power") => vec!["baremetal:node:set_power_state"],
        ("PATCH", "/v1/nodes/{N}") => match body[0]["path"].as_str()? {
            "/extra" => vec!["baremetal:node:update_extra"],
            "/lessee" => vec!["baremetal:node:update:lessee"],
            "/owner" => vec!["baremetal:node:update:owner"],
            "/name" => vec!["baremetal:node:update:name"],
            "/driver_info" => vec!["baremetal:node:update:driver_info"],
            "/maintenance" => vec!["baremetal:node:update"],
            _ => return None,
        },
        _ => return None,
    })
}

fn caller(row: &Value) -> Identity {
    let text = |name: &str| row[name].as_str().map(str::to_owned);
    Identity {
        user_id: Some("u".to_owned()),
        system_scope: text("system_scope"),
        domain_id: text("domain"),
        project_id: text("project"),
        project_name: text("project_name"),
        project_domain_id: text("project").map(|_| "default".to_owned()),
        roles: row["roles"]
            .as_array()
            .unwrap()
            .iter()
            .map(|role| role.as_str().unwrap().to_owned())
            .collect(),
        ..Identity::default()
    }
}

/// What the rules say about a row: 404, 403 or passed.
fn judged(rules: &Rules, row: &Value, names: &[&str]) -> u16 {
    let elevated = row["config"]["rbac_service_role_elevated_access"] == true;
    let creds = Creds::of(&caller(row), elevated.then_some("service"));
    let (owner, lessee) = match row["node"].as_str().unwrap() {
        "unowned" => (None, None),
        "owned" => (Some("OWNER"), None),
        "leased" => (Some("OWNER"), Some("LESSEE")),
        "same" => (Some("OWNER"), Some("OWNER")),
        _ => return 404,
    };
    let target = Target::node(&creds, owner, lessee);
    if !rules.enforce(GET, &creds, &target).allowed {
        return 404;
    }
    let allowed = names.iter().any(|name| rules.enforce(name, &creds, &target).allowed);
    if allowed { 200 } else { 403 }
}

/// What the rules say about a list: all nodes, those of the caller's project, or nothing.
fn judged_list(rules: &Rules, row: &Value) -> u16 {
    let elevated = row["config"]["rbac_service_role_elevated_access"] == true;
    let creds = Creds::of(&caller(row), elevated.then_some("service"));
    let passes = |name| rules.enforce(name, &creds, &Target::caller(&creds)).allowed;
    let own = creds.text("project_id").is_some() && passes("baremetal:node:list");
    if passes("baremetal:node:list_all") || own { 200 } else { 403 }
}

#[test]
fn contract_rbac_rows_by_rules() {
    let current = built_in();
    let legacy =
        Rules::compile(&[], &Settings { enforce_new_defaults: false, ..Settings::default() }).unwrap();
    let data = json("rbac-matrix.json");
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in data["rows"].as_array().unwrap().iter().filter(|row| row["source"] == "measured") {
        let (method, path) = (row["method"].as_str().unwrap(), row["path"].as_str().unwrap());
        let is_list = method == "GET"
            && (path == "/v1/nodes" || path.starts_with("/v1/nodes?") || path == "/v1/nodes/detail");
        let names = asked(method, path, &row["body"]);
        if names.is_none() && !is_list {
            continue;
        }
        let is_legacy = row["config"]["oslo_policy.enforce_new_defaults"] == false;
        let status = u16::try_from(row["expected_status"].as_u64().unwrap()).unwrap();
        // The reference fails on tokens of a domain instead of refusing them.
        let wanted = match status {
            200..=299 | 409 => 200,
            500 if row["domain"].is_string() => {
                if is_list {
                    403
                } else {
                    404
                }
            }
            other => other,
        };
        let rules = if is_legacy { &legacy } else { &current };
        let judged = names.map_or_else(|| judged_list(rules, row), |names| judged(rules, row, &names));
        let group = path.split('?').next().unwrap_or(path);
        *ran.entry(format!("{method} {group}")).or_default() += 1;
        if judged != wanted {
            wrong.push(format!("{judged} instead of {status}: {row}"));
        }
    }
    let total: usize = ran.values().sum();
    println!("{total} rows: {ran:?}");
    assert!(total > 1_500, "only {total} rows");
    assert!(wrong.is_empty(), "{} of {total} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}

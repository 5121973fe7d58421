//! The table of ranks, release floors and masks, asked of the running server with policies that let everything pass.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cloud::{Cloud, data, varied};
use crate::lab::new_id;

/// Lets everybody pass, so that what is left is the floor.
const OPEN: &str = r#"
"baremetal:node:get": "@"
"baremetal:node:clear_maintenance": "@"
"baremetal:node:maintenance:get": "@"
"baremetal:node:maintenance:add": "@"
"baremetal:node:maintenance:remove": "@"
"baremetal:node:history:get": "@"
"#;

/// Whom nothing below a rule's scope helps: a token of a domain sees no node at all.
fn is_domain(case: &Value) -> bool {
    case["creds"]["domain_id"].is_string()
}

fn body(case: &Value) -> Value {
    let creds = &case["creds"];
    let roles: Vec<_> =
        creds["roles"].as_array().unwrap().iter().map(|role| role.as_str().unwrap()).collect();
    let user = case["persona"].as_str().unwrap();
    if creds["system_scope"] == "all" {
        return varied("system-admin", user, None, &roles);
    }
    if is_domain(case) {
        return varied("domain-admin", user, None, &roles);
    }
    match creds["project_id"].as_str() {
        Some(id) => {
            let name = creds["project_name"].as_str().unwrap_or("some project");
            varied("owner-a-member", user, Some((id, name)), &roles)
        }
        None => varied("unscoped", user, None, &roles),
    }
}

async fn open_cloud(folder: &tempfile::TempDir, legacy: bool, elevated: bool) -> Cloud {
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, OPEN).unwrap();
    Cloud::configured(
        |_| {},
        |server| {
            server.policy.file = Some(file);
            server.policy.authority.project_admin_is_system = legacy;
            server.policy.authority.elevated_service_project = elevated.then(|| "service".to_owned());
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contract_authority_cases() {
    let data = data("authority-cases.json");
    let folder = tempfile::tempdir().unwrap();
    let mut by_settings: BTreeMap<(bool, bool), Vec<&Value>> = BTreeMap::new();
    for case in data["authority"].as_array().unwrap() {
        let flag = |name: &str| case[name].as_bool().unwrap();
        by_settings
            .entry((flag("legacy_project_admin_is_system"), flag("service_role_elevated")))
            .or_default()
            .push(case);
    }
    let mut ran = 0;
    for ((legacy, elevated), cases) in by_settings {
        let cloud = open_cloud(&folder, legacy, elevated).await;
        let operator = cloud.persona("system-admin");
        let mut nodes: BTreeMap<String, String> = BTreeMap::new();
        let mut tokens: BTreeMap<String, String> = BTreeMap::new();
        for case in cases {
            let name = case["node"].as_str().unwrap().replace('_', "-");
            if !nodes.contains_key(&name) {
                let (owner, lessee) = (case["owner"].as_str(), case["lessee"].as_str());
                let uuid = cloud.node(&operator, &name, owner, lessee).await;
                if owner == Some("") {
                    let sql = format!("UPDATE nodes SET owner = '', lessee = '' WHERE uuid = '{uuid}'");
                    cloud.lab.sql(&sql).await;
                }
                nodes.insert(name.clone(), uuid);
            }
            let persona = case["persona"].as_str().unwrap().to_owned();
            let token = tokens.entry(persona).or_insert_with(|| cloud.know(body(case))).clone();
            let path = format!("/v1/nodes/{}/maintenance", nodes[&name]);
            let new = json!({"type": "operator_hold", "reason": "r"});
            let answer = cloud.call(&token, "POST", &path, Some(new)).await;
            match case["authority"].as_str().unwrap() {
                "none" if is_domain(case) => assert_eq!(answer.status, 404, "{case} {}", answer.body),
                "none" => {
                    assert_eq!(answer.status, 403, "{case} {}", answer.body);
                    assert!(answer.fault().starts_with("Cannot add a maintenance entry"), "{}", answer.body);
                }
                scope => {
                    let entry = answer.expect(201).json();
                    assert_eq!(entry["scope"], scope, "{case}");
                    assert_eq!(entry["asserted_by"], case["persona"], "{case}");
                    let project = case["creds"]["project_id"].as_str().unwrap_or_default();
                    assert_eq!(entry["asserted_by_project"], project, "{case}");
                    let path = format!("{path}/{}", entry["uuid"].as_str().unwrap());
                    cloud.call(&operator, "DELETE", &path, None).await.expect(204);
                }
            }
            ran += 1;
        }
        cloud.lab.stop().await;
    }
    println!("{ran} cases");
    assert!(ran > 400, "only {ran} cases");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contract_release_cases() {
    let data = data("authority-cases.json");
    let folder = tempfile::tempdir().unwrap();
    let cloud = open_cloud(&folder, false, false).await;
    let operator = cloud.persona("system-admin");
    let ranked = data["authority"].as_array().unwrap();
    let cases = data["release"].as_array().unwrap();
    let node = cloud.node(&operator, "leased", Some("A"), Some("L")).await;
    let path = format!("/v1/nodes/{node}/maintenance");
    let history = format!("/v1/nodes/{node}/history?detail=True&limit=1&sort_dir=desc&sort_key=id");
    let mut tokens: BTreeMap<String, String> = BTreeMap::new();
    for case in cases {
        assert_eq!(case["node"], "leased");
        let persona = case["persona"].as_str().unwrap();
        let row = ranked.iter().find(|row| row["persona"] == persona && row["node"] == "leased").unwrap();
        let token = tokens.entry(persona.to_owned()).or_insert_with(|| cloud.know(body(row))).clone();
        let uuid = new_id().to_string();
        let text = |name: &str| case["entry"][name].as_str().unwrap();
        let (kind, scope, project) = (text("type"), text("scope"), text("asserted_by_project"));
        cloud
            .lab
            .sql(&format!(
                "UPDATE nodes SET maintenance = 1, maintenance_reason = NULL, fault = 'power failure' WHERE uuid = '{node}';
                 INSERT INTO node_maintenance (uuid, node_id, type, scope, asserted_by, asserted_by_project, asserted_at, extra, version)
                 SELECT '{uuid}', id, '{kind}', '{scope}', 'somebody', '{project}', '2026-07-01 08:00:00',
                        '{{\"fault\": \"power failure\"}}', '1.0' FROM nodes WHERE uuid = '{node}'"
            ))
            .await;
        let single = format!("{path}/{uuid}");
        if is_domain(row) {
            cloud.call(&token, "GET", &single, None).await.expect(404);
            cloud.call(&token, "DELETE", &single, None).await.expect(404);
            cloud.call(&operator, "DELETE", &path, None).await.expect(204);
            continue;
        }
        let seen = cloud.call(&token, "GET", &single, None).await.expect(200).json();
        let masked = case["mask_asserter"].as_bool().unwrap();
        assert_eq!(seen["asserted_by"].is_null(), masked, "{case} {seen}");
        assert_eq!(seen["asserted_by_project"].is_null(), masked, "{case} {seen}");
        assert_eq!(seen["scope"], scope, "{case}");

        let rank = case["authority"].as_str().unwrap();
        let refusal = format!("Cannot release maintenance entry {uuid} (type {kind}, scope {scope}");
        let reason = match case["floor"].as_str().unwrap() {
            "allow" | "policy_only" => None,
            "deny_scope" if rank == "none" => {
                Some("): not permitted without owner or lessee standing on the node".to_owned())
            }
            "deny_scope" => Some(format!("): not permitted at {rank} scope")),
            "deny_project" => Some(format!(", asserted by project {project}): not asserted by your project")),
            other => panic!("{other}"),
        };
        match reason {
            // All of them at once, and one by its id: the same words.
            Some(reason) => {
                for target in [&single, &path] {
                    let refused = cloud.call(&token, "DELETE", target, None).await.expect(403);
                    assert_eq!(refused.fault(), format!("{refusal}{reason}"), "{case}");
                    assert!(!refused.body.contains("somebody"), "{case}");
                }
                cloud.call(&operator, "DELETE", &path, None).await.expect(204);
            }
            None => drop(cloud.call(&token, "DELETE", &single, None).await.expect(204)),
        }
        // The record of the release: its author is hidden from whom the entry or the author outranks.
        let releaser = if case["floor"].as_str().unwrap().starts_with("deny") { "system" } else { rank };
        let order = ["none", "lessee", "owner", "system"];
        let place = |word: &str| order.iter().position(|other| *other == word).unwrap();
        let hidden = rank == "none" || place(rank) < place(scope).max(place(releaser));
        let record = cloud.call(&token, "GET", &history, None).await.expect(200).json();
        let record = &record["history"][0];
        assert!(record["event"].as_str().unwrap().contains(&uuid), "{case} {record}");
        assert_eq!(record["user"].is_null(), hidden, "{case} {record}");
    }
    println!("{} cases", cases.len());
    assert!(cases.len() > 100, "only {} cases", cases.len());
}

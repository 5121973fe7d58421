//! Each persona's recorded body, and what the real middleware made of that very token for the real service.

use std::fs;

use apelora_keystone::Identity;
use serde_json::{Value, json};

use crate::support::{Lab, body, data, json};

/// The credentials that policy gets, in the names and forms of the reference service.
fn credentials(identity: &Identity) -> Value {
    let service = identity.service.as_ref();
    json!({
        "user_id": identity.user_id,
        "user_domain_id": identity.user_domain_id,
        "system_scope": identity.system_scope,
        "domain_id": identity.domain_id,
        "project_id": identity.project_id,
        "project_name": identity.project_name,
        "project_domain_id": identity.project_domain_id,
        "roles": sorted(&json!(identity.roles)),
        "is_admin_project": identity.is_admin_project,
        "service_user_id": service.map(|s| &s.user_id),
        "service_user_domain_id": service.map(|s| &s.user_domain_id),
        "service_project_id": service.map(|s| &s.project_id),
        "service_project_domain_id": service.map(|s| &s.project_domain_id),
        "service_roles": service.map_or_else(|| json!([]), |s| sorted(&json!(s.roles))),
    })
}

/// Keystone gives roles in any order.
fn sorted(roles: &Value) -> Value {
    let mut roles: Vec<String> =
        roles.as_array().unwrap().iter().map(|r| r.as_str().unwrap().to_owned()).collect();
    roles.sort();
    json!(roles)
}

/// The recorded credentials of a row of the real service.
fn recorded(case: &str) -> Option<Value> {
    let live = json(&data("ironic-live.json"));
    let row = live["rows"].as_array().unwrap().iter().find(|row| row["case"] == case)?;
    let mut wanted = row["context"]["creds"].clone();
    wanted.as_object_mut()?.shift_remove("is_public_api");
    for roles in ["roles", "service_roles"] {
        wanted[roles] = sorted(&wanted[roles]);
    }
    Some(wanted)
}

#[tokio::test(start_paused = true)]
async fn contract_keystone_personas() {
    let lab = Lab::new();
    let mut ran = 0;
    for entry in fs::read_dir(data("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(persona) = name.strip_prefix("token-").and_then(|rest| rest.strip_suffix(".json")) else {
            continue;
        };
        lab.keystone().know(persona, body(persona));
        let identity = lab.ask(persona).await.unwrap();
        let wanted =
            recorded(&format!("list:{persona}")).unwrap_or_else(|| panic!("no live row of {persona}"));
        assert_eq!(same_keys(&credentials(&identity), &wanted), wanted, "{persona}");
        assert_eq!(identity.user_name, body(persona)["token"]["user"]["name"], "{persona}");
        assert_eq!(identity.access_rules, None, "{persona}");
        ran += 1;
    }
    println!("{ran} personas");
    assert!(ran >= 24);
}

/// The same value with its keys in the order of `like`; fails if the keys differ.
fn same_keys(value: &Value, like: &Value) -> Value {
    let (value, like) = (value.as_object().unwrap(), like.as_object().unwrap());
    assert_eq!(value.len(), like.len(), "{value:?} {like:?}");
    like.keys().map(|key| (key.clone(), value[key].clone())).collect::<serde_json::Map<_, _>>().into()
}

/// What a service token adds, and what it does not: the reference lets its system scope become the user's.
#[tokio::test(start_paused = true)]
async fn contract_keystone_service_tokens() {
    let lab = Lab::new();
    let cases = [
        ("service-token-project", "owner-a-member", "nova"),
        ("service-token-system", "owner-a-admin", "system-service"),
        ("service-token-system-list", "outsider-member", "system-service"),
    ];
    for (case, user, service) in cases {
        lab.keystone().know(user, body(user));
        lab.keystone().know(service, body(service));
        let mut wanted = recorded(case).unwrap();
        // Overruled: system scope comes from the user's token alone (contract, section 5.3).
        wanted["system_scope"] = Value::Null;
        let identity = lab.ask_with(user, service).await.unwrap();
        let given = credentials(&identity);
        // The recorded service is another user of the same kind.
        for key in
            ["user_id", "project_id", "system_scope", "roles", "service_roles", "service_project_domain_id"]
        {
            assert_eq!(given[key], wanted[key], "{case} {key}");
        }
        assert_eq!(given["service_user_id"], body(service)["token"]["user"]["id"], "{case}");
    }
    println!("{} cases", cases.len());
}

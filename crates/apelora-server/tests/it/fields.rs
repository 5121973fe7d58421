//! Generated from what is known of the fields: each at each version, each path of PATCH with each operation.

use serde_json::{Value, json};

use crate::lab::Lab;

/// Every key of a node in its order with its first version, as the contract lists them. Kept apart from the server's
/// own table, which is judged by it.
const KEYS: &str = "uuid created_at updated_at automated_clean(47) bios_interface(40) boot_interface(31) boot_mode(75) \
    clean_step(7) conductor_group(46) console_enabled console_interface(31) disable_power_off(95) deploy_interface(31) \
    deploy_step(44) description(51) driver driver_info driver_internal_info(3) extra fault(42) firmware_interface(86) \
    health(109) inspection_finished_at(6) inspection_started_at(6) inspect_interface(31) instance_info \
    instance_name(104) instance_uuid last_error lessee(65) maintenance maintenance_reason management_interface(31) \
    name(5) network_data(66) network_interface(20) owner(50) parent_node(83) power_interface(31) power_state \
    properties protected(48) protected_reason(48) provision_state provision_updated_at raid_config(12) \
    raid_interface(31) rescue_interface(38) reservation resource_class(21) retired(61) retired_reason(61) \
    secure_boot(75) service_step(87) shard(82) storage_interface(33) target_power_state target_provision_state \
    target_raid_config(12) traits(37) vendor_interface(31) links conductor(49) allocation_uuid(52) chassis_uuid ports \
    states(14) portgroups(24) volume(32)";

/// The paths that PATCH takes. Source: the recorded refusal of others.
const PATCHABLE: &str = "automated_clean, bios_interface, boot_interface, chassis_uuid, conductor_group, \
    console_interface, deploy_interface, description, disable_power_off, driver, driver_info, extra, inspect_interface, \
    instance_info, instance_name, instance_uuid, lessee, maintenance, management_interface, name, network_data, \
    network_interface, owner, power_interface, properties, protected, protected_reason, raid_interface, \
    rescue_interface, resource_class, retired, retired_reason, shard, storage_interface, vendor_interface, parent_node, \
    firmware_interface";

fn keys() -> Vec<(&'static str, u16)> {
    let split = |word: &'static str| match word.split_once('(') {
        Some((name, since)) => (name, since.trim_end_matches(')').parse().unwrap()),
        None => (word, 1),
    };
    KEYS.split_whitespace().map(split).collect()
}

#[tokio::test]
async fn every_field_at_every_version() {
    let lab = Lab::sqlite().await;
    let node = lab.node("n1").await;
    for minor in 1..=116_u16 {
        let version = format!("1.{minor}");
        let expected: Vec<_> =
            keys().into_iter().filter(|(_, since)| *since <= minor).map(|(name, _)| name).collect();
        for path in [format!("/v1/nodes/{node}"), "/v1/nodes/detail".to_owned()] {
            let mut shown = lab.at(&version, "GET", &path, None).await.expect(200).json();
            if let Some(first) = shown.get("nodes") {
                shown = first[0].clone();
            }
            let found: Vec<_> = shown.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(found, expected, "{version} {path}");
        }
        // One by one.
        for (name, since) in keys() {
            let answer = lab.at(&version, "GET", &format!("/v1/nodes/{node}?fields={name}"), None).await;
            let whole = ["created_at", "updated_at", "links", "ports", "states", "portgroups", "volume"];
            let status = match name {
                _ if minor < 8 => 406,
                name if whole.contains(&name) => 400,
                _ if since > minor => 406,
                _ => 200,
            };
            assert_eq!(answer.status, status, "{version} {name} {}", answer.body);
            if status == 200 {
                let shown = answer.json();
                assert_eq!(shown.as_object().unwrap().len(), 2, "{version} {name}");
                assert!(shown.get(name).is_some() && shown.get("links").is_some());
            }
            let status = match (name, since > minor) {
                ("id", _) => 200,
                (
                    "traits" | "links" | "conductor" | "allocation_uuid" | "chassis_uuid" | "ports"
                    | "states" | "portgroups" | "volume",
                    false,
                ) => 400,
                (_, true) => 406,
                (name, _) if is_object(name) => 400,
                _ => 200,
            };
            let sorted = lab.at(&version, "GET", &format!("/v1/nodes?sort_key={name}"), None).await;
            assert_eq!(sorted.status, status, "{version} sort_key={name} {}", sorted.body);
        }
    }
}

fn is_object(name: &str) -> bool {
    [
        "driver_info",
        "driver_internal_info",
        "extra",
        "instance_info",
        "properties",
        "clean_step",
        "deploy_step",
        "service_step",
        "raid_config",
        "target_raid_config",
        "network_data",
    ]
    .contains(&name)
}

fn is_bool(name: &str) -> bool {
    ["automated_clean", "disable_power_off", "maintenance", "protected", "retired"].contains(&name)
}

/// A value that a field takes, and that the node of the test has already where another one would be refused.
fn value(name: &str) -> Value {
    match name {
        name if is_object(name) => json!({"a": 1}),
        name if is_bool(name) => json!("no"),
        "driver" => json!("fake-hardware"),
        "network_interface" | "storage_interface" => json!("noop"),
        name if name.ends_with("_interface") => json!("fake"),
        "instance_uuid" => json!("0000004d-0000-4000-8000-00000000004d"),
        "chassis_uuid" | "parent_node" | "protected_reason" | "retired_reason" => json!(null),
        "conductor_group" => json!(""),
        name => json!(format!("a-{}", name.replace('_', "-"))),
    }
}

#[tokio::test]
async fn every_path_of_patch_with_every_operation() {
    let lab = Lab::sqlite().await;
    let patchable: Vec<_> = PATCHABLE.split(", ").map(str::trim).collect();
    for (name, since) in keys() {
        let node = lab.node(&format!("node-{}", name.replace('_', "-"))).await;
        let path = format!("/v1/nodes/{node}");
        let patch = async |minor: u16, op: &str, path_of: &str, value: Option<Value>| {
            let mut operation = json!({"op": op, "path": path_of});
            if let Some(value) = value {
                operation["value"] = value;
            }
            let answer = lab.at(&format!("1.{minor}"), "PATCH", &path, Some(json!([operation]))).await;
            (answer.status, answer.body)
        };
        let whole = format!("/{name}");
        if !patchable.contains(&name) {
            for op in ["add", "replace", "remove"] {
                let (status, body) = patch(116, op, &whole, Some(json!("x"))).await;
                assert_eq!(status, 400, "{op} {name}");
                assert!(body.contains(&format!("Cannot patch /{name}. Only the following")), "{body}");
            }
            continue;
        }
        for op in ["add", "replace"] {
            let (status, body) = patch(116, op, &whole, Some(value(name))).await;
            assert_eq!(status, 200, "{op} {name} {body}");
            // A value of another type.
            let (status, body) = patch(116, op, &whole, Some(json!([1]))).await;
            assert_eq!(status, 400, "{op} {name}");
            assert!(body.contains("Schema error for patch: [1] is not of type"), "{body}");
            let (status, body) = patch(116, op, &whole, None).await;
            assert_eq!(status, 400, "{op} {name}");
            assert!(body.contains("does not contain a 'value' member"), "{body}");
            if since > 1 {
                let (status, body) = patch(since - 1, op, &whole, Some(value(name))).await;
                assert_eq!(status, 406, "{op} {name} 1.{} {body}", since - 1);
            }
        }
        let (status, body) = patch(116, "remove", &whole, None).await;
        let expected = if matches!(name, "driver" | "maintenance") { 400 } else { 200 };
        assert_eq!(status, expected, "remove {name} {body}");
        // Below its version a field may be taken away all the same; nodes have names from 1.5 on.
        if since > 5 && expected == 200 {
            let (status, body) = patch(since - 1, "remove", &whole, None).await;
            assert_eq!(status, 200, "remove {name} 1.{} {body}", since - 1);
        }
        let (status, body) = patch(116, "remove", &format!("/{name}/nosuch"), None).await;
        assert_eq!(status, 400, "{name} {body}");
        assert!(body.contains("Couldn't apply patch"), "{body}");
        let (status, body) = patch(116, "add", &format!("/{name}/deep"), Some(json!(1))).await;
        assert_eq!(status, if is_object(name) { 200 } else { 400 }, "{name} {body}");
    }
}

#[tokio::test]
async fn every_field_at_creation() {
    let lab = Lab::sqlite().await;
    let not_settable = [
        "maintenance_reason",
        "fault",
        "protected",
        "protected_reason",
        "provision_state",
        "power_state",
        "traits",
    ];
    let patchable: Vec<_> = PATCHABLE.split(", ").map(str::trim).collect();
    for (name, since) in keys() {
        let mut body = json!({"driver": "fake-hardware"});
        body[name] = if name == "uuid" { json!("0000007d-0000-4000-8000-00000000007d") } else { value(name) };
        let answer = lab.at("1.116", "POST", "/v1/nodes", Some(body.clone())).await;
        let settable = name == "uuid" || (patchable.contains(&name) && !not_settable.contains(&name));
        let status = match name {
            // Without a project nobody creates for an owner.
            "owner" => 400,
            _ if settable => 201,
            _ => 400,
        };
        assert_eq!(answer.status, status, "{name} {}", answer.body);
        if !settable {
            assert!(answer.fault().contains(&format!("('{name}' was unexpected)")), "{name} {}", answer.body);
        } else if since > 1 && !body[name].is_null() && body[name] != "" {
            let older = lab.at(&format!("1.{}", since - 1), "POST", "/v1/nodes", Some(body)).await;
            assert_eq!(older.status, 406, "{name} 1.{} {}", since - 1, older.body);
        }
        if let Some(uuid) = (status == 201).then(|| answer.json()["uuid"].as_str().unwrap().to_owned()) {
            lab.call("DELETE", &format!("/v1/nodes/{uuid}/maintenance"), None).await;
            lab.sql("UPDATE nodes SET instance_uuid=NULL").await;
            lab.call("DELETE", &format!("/v1/nodes/{uuid}"), None).await.expect(204);
        }
    }
}

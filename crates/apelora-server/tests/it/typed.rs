//! The typed endpoints: what they refuse, and how they meet the boolean.

use apelora_maintenance::{Authority, CONDUCTOR, FaultKind, Operation, Stamp, plan};
use apelora_store::NodeKey;
use serde_json::{Map, Value, json};
use time::macros::datetime;
use uuid::Uuid;

use crate::lab::{HOST, Lab, engines};

/// What the worker does when it finds a fault.
pub(crate) async fn assert_fault(lab: &Lab, node: &str) {
    let id = |n: u128| Uuid::from_u128(0xfa_0000 + n);
    let stamp =
        Stamp { change: id(1), entry: id(2), at: datetime!(2026-07-02 00:00:00), host: HOST.to_owned() };
    let operation = Operation::AssertFault {
        kind: FaultKind::PowerFailure,
        reason: Some("no power".to_owned()),
        extra: Map::new(),
    };
    lab.store
        .change_node(&NodeKey::Uuid(node.to_owned()), &stamp, |locked| {
            plan(&operation, &locked.node, &Authority::service(CONDUCTOR), &mut |_| true, &stamp)
                .map(Into::into)
        })
        .await
        .unwrap();
}

const PATH: &str = "/v1/nodes/n1/maintenance";

#[tokio::test]
async fn bodies_that_are_refused() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        let long = "x".repeat(65_536);
        for (body, part) in [
            (json!({}), "Missing mandatory parameter: type"),
            (json!({"reason": "x"}), "Missing mandatory parameter: type"),
            (json!({"type": null}), "Expected string for type: None"),
            (json!({"type": 5}), "Expected string for type: 5"),
            (json!({"type": "legacy"}), "Maintenance type 'legacy' is reserved"),
            (json!({"type": "fault"}), "Maintenance type 'fault' is reserved"),
            (
                json!({"type": "nosuch"}),
                "Unknown maintenance type 'nosuch'. Known types are: hardware_failure, operator_hold",
            ),
            (json!({"type": "Operator_Hold"}), "Unknown maintenance type"),
            (json!({"type": "operator_hold", "reason": 5}), "Expected string for reason: 5"),
            (json!({"type": "operator_hold", "reason": ["a"]}), "Expected string for reason: ['a']"),
            (json!({"type": "operator_hold", "extra": []}), "Expected object for extra: []"),
            (json!({"type": "operator_hold", "extra": "x"}), "Expected object for extra: x"),
            (json!({"type": "operator_hold", "scope": "lessee"}), "Unexpected arguments: scope"),
            (
                json!({"type": "operator_hold", "asserted_by": "me", "x": 1}),
                "Unexpected arguments: asserted_by, x",
            ),
            (json!({"type": "operator_hold", "reason": long}), "reason is too long"),
            (json!({"type": "operator_hold", "extra": {"a": long}}), "extra is too long"),
            (
                json!({"type": "operator_hold", "reason": "a\u{0}b"}),
                "reason must not contain the character U+0000",
            ),
            (json!([]), "The request body must be an object"),
            (json!(null), "The request body must be an object"),
        ] {
            let refused = lab.call("POST", PATH, Some(body)).await.expect(400).fault();
            assert!(refused.contains(part), "{engine}: {refused}");
        }
        let refused = lab
            .call("POST", &format!("{PATH}?type=operator_hold"), Some(json!({})))
            .await
            .expect(400)
            .fault();
        assert_eq!(refused, "Unexpected arguments: type");
        assert_eq!(lab.get(PATH).await, json!({"maintenance": []}), "{engine}");
        assert_eq!(lab.get("/v1/nodes/n1").await["maintenance"], false, "{engine}");
        // The longest that fits.
        let body = json!({"type": "operator_hold", "reason": "x".repeat(65_535)});
        lab.call("POST", PATH, Some(body)).await.expect(201);
    }
}

#[tokio::test]
async fn texts_and_numbers_come_back_as_they_were() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        let body = r#"{"type": "operator_hold", "reason": "\ud83d\ude00 \u00fc '; DROP TABLE nodes; -- \"\\", "extra": {"big": 123456789012345678901234567890, "f": 0.1, "e": 1e2, "s": "\u0000\ud83d\ude00", "n": null, "z": {"b": 1, "a": 2}}}"#;
        let headers = [("X-OpenStack-Ironic-API-Version", "1.116"), ("Content-Type", "application/json")];
        let made =
            crate::client::send(lab.address, "POST", PATH, &headers, Some(body.as_bytes())).await.expect(201);
        for part in [
            r#""reason": "\ud83d\ude00 \u00fc '; DROP TABLE nodes; -- \"\\", "#,
            r#""extra": {"big": 123456789012345678901234567890, "f": 0.1, "e": 100.0, "s": "\u0000\ud83d\ude00", "n": null, "z": {"b": 1, "a": 2}}, "#,
        ] {
            assert!(made.body.contains(part), "{engine}: {}", made.body);
        }
        let listed = lab.call("GET", PATH, None).await.expect(200).body;
        assert_eq!(listed, format!(r#"{{"maintenance": [{}]}}"#, made.body), "{engine}");
    }
}

#[tokio::test]
async fn who_is_not_found() {
    let lab = Lab::sqlite().await;
    let n1 = lab.node("n1").await;
    lab.node("n2").await;
    let entry = lab.entry("n1", "operator_hold", "x").await;
    for (method, path, text) in [
        ("GET", "/v1/nodes/nosuch/maintenance".to_owned(), "Node nosuch could not be found.".to_owned()),
        ("DELETE", "/v1/nodes/nosuch/maintenance/x".to_owned(), "Node nosuch could not be found.".to_owned()),
        ("GET", format!("{PATH}/nosuch"), "Maintenance entry nosuch could not be found.".to_owned()),
        ("DELETE", format!("{PATH}/nosuch"), "Maintenance entry nosuch could not be found.".to_owned()),
        // Another node's entry.
        (
            "GET",
            format!("/v1/nodes/n2/maintenance/{entry}"),
            format!("Maintenance entry {entry} could not be found."),
        ),
        (
            "DELETE",
            format!("/v1/nodes/n2/maintenance/{entry}"),
            format!("Maintenance entry {entry} could not be found."),
        ),
    ] {
        assert_eq!(lab.call(method, &path, None).await.expect(404).fault(), text, "{method} {path}");
    }
    let body = json!({"type": "operator_hold"});
    let refused = lab.call("POST", "/v1/nodes/nosuch/maintenance", Some(body)).await.expect(404).fault();
    assert_eq!(refused, "Node nosuch could not be found.");
    // By uuid in capital letters as well.
    lab.call("GET", &format!("/v1/nodes/{}/maintenance/{}", n1.to_uppercase(), entry.to_uppercase()), None)
        .await
        .expect(200);
}

#[tokio::test]
async fn below_its_version_the_typed_api_does_not_exist() {
    let lab = Lab::sqlite().await;
    lab.node("n1").await;
    let entry = lab.entry("n1", "operator_hold", "x").await;
    for version in ["1.5", "1.115"] {
        for (method, path) in [
            ("GET", PATH.to_owned()),
            ("POST", PATH.to_owned()),
            ("GET", format!("{PATH}/{entry}")),
            ("DELETE", format!("{PATH}/{entry}")),
        ] {
            let body = (method == "POST").then(|| json!({"type": "operator_hold"}));
            let refused = lab.at(version, method, &path, body).await.expect(404);
            assert_eq!(refused.fault(), "Resource could not be found.");
        }
    }
    assert_eq!(lab.get(PATH).await["maintenance"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_pinned_server_neither_offers_nor_serves_it() {
    let lab =
        Lab::configured(|config| config.max_microversion = apelora_server::Microversion::new(115)).await;
    lab.node("n1").await;
    let root = lab.call("GET", "/", None).await.expect(200);
    assert_eq!(root.header("x-openstack-ironic-api-maximum-version"), Some("1.115"));
    assert_eq!(root.json()["default_version"]["version"], "1.115");
    lab.at("1.116", "GET", PATH, None).await.expect(406);
    lab.call("GET", PATH, None).await.expect(404);
    lab.call("DELETE", PATH, None).await.expect(202);
}

#[tokio::test]
async fn the_flag_by_every_door_is_the_legacy_entry() {
    for (engine, lab) in engines().await {
        let legacy = async |node: &str| -> Vec<Value> {
            let listed = lab.get(&format!("/v1/nodes/{node}/maintenance")).await;
            listed["maintenance"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|e| e["type"] == "legacy")
                .cloned()
                .collect()
        };
        let body = json!({"driver": "fake-hardware", "name": "n1", "maintenance": true});
        lab.call("POST", "/v1/nodes", Some(body)).await.expect(201);
        let made = legacy("n1").await;
        assert_eq!(made.len(), 1, "{engine}");
        assert!(made[0]["reason"].is_null());
        // PUT changes the reason, and neither author nor time nor id.
        lab.call("PUT", PATH, Some(json!({"reason": "r"}))).await.expect(202);
        let after = legacy("n1").await;
        assert_eq!(after[0]["reason"], "r", "{engine}");
        for key in ["uuid", "asserted_by", "asserted_at", "scope"] {
            assert_eq!(after[0][key], made[0][key], "{engine} {key}");
        }
        // PATCH true keeps an existing one as it is.
        let patch = |value: bool| Some(json!([{"op": "replace", "path": "/maintenance", "value": value}]));
        lab.call("PATCH", "/v1/nodes/n1", patch(true)).await.expect(200);
        assert_eq!(legacy("n1").await, after, "{engine}");
        // PATCH false ends everything.
        lab.entry("n1", "operator_hold", "x").await;
        let shown = lab.call("PATCH", "/v1/nodes/n1", patch(false)).await.expect(200).json();
        assert_eq!(
            (&shown["maintenance"], &shown["maintenance_reason"]),
            (&json!(false), &json!(null)),
            "{engine}"
        );
        assert_eq!(lab.get(PATH).await, json!({"maintenance": []}), "{engine}");
        // PATCH true with a change of another field, in one step.
        let both = json!([
            {"op": "add", "path": "/extra/a", "value": 1},
            {"op": "replace", "path": "/maintenance", "value": true},
        ]);
        lab.call("PATCH", "/v1/nodes/n1", Some(both)).await.expect(200);
        assert_eq!(legacy("n1").await.len(), 1, "{engine}");
    }
}

#[tokio::test]
async fn an_older_service_changes_the_flag() {
    for (engine, lab) in engines().await {
        let node = lab.node("n1").await;
        let on = if engine == "PostgreSQL" { "true" } else { "1" };
        let off = if engine == "PostgreSQL" { "false" } else { "0" };
        lab.sql(&format!(
            "UPDATE nodes SET maintenance={on}, maintenance_reason='theirs' WHERE uuid='{node}'"
        ))
        .await;
        lab.entry("n1", "operator_hold", "ours").await;
        let listed = lab.get(PATH).await;
        let types: Vec<_> =
            listed["maintenance"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["legacy", "operator_hold"], "{engine}");
        assert_eq!(listed["maintenance"][0]["asserted_by"], "migration", "{engine}");
        lab.sql(&format!("UPDATE nodes SET maintenance={off}, maintenance_reason=NULL WHERE uuid='{node}'"))
            .await;
        // Typed entries put the flag back with the next change; the legacy one is gone.
        lab.entry("n1", "hardware_failure", "disk").await;
        let shown = lab.get("/v1/nodes/n1").await;
        assert_eq!(shown["maintenance"], true, "{engine}");
        assert_eq!(shown["maintenance_reason"], "operator_hold: ours; hardware_failure: disk", "{engine}");
    }
}

#[tokio::test]
async fn entries_of_a_newer_version_are_shown_and_end_with_all() {
    for (engine, lab) in engines().await {
        let node = lab.node("n1").await;
        let id = "0000000e-0000-4000-8000-00000000000e";
        let time =
            if engine == "PostgreSQL" { "TIMESTAMP '2026-07-01 00:00:00'" } else { "'2026-07-01 00:00:00'" };
        lab.sql(&format!(
            "INSERT INTO node_maintenance (uuid, node_id, type, reason, scope, asserted_by, asserted_by_project, \
             asserted_at, extra, version, created_at) SELECT '{id}', id, 'scheduled_window', 'later', 'system', 'u', '', \
             {time}, '{{\"ends_at\": 1}}', '1.0', {time} FROM nodes WHERE uuid='{node}'"
        ))
        .await;
        let listed = lab.get(PATH).await;
        assert_eq!(listed["maintenance"][0]["type"], "scheduled_window", "{engine}");
        assert_eq!(listed["maintenance"][0]["extra"], json!({"ends_at": 1}), "{engine}");
        lab.call("DELETE", PATH, None).await.expect(204);
        assert_eq!(lab.get(PATH).await, json!({"maintenance": []}), "{engine}");
    }
}

#[tokio::test]
async fn a_node_of_an_unknown_hardware_type_can_be_held_and_released() {
    for (engine, lab) in engines().await {
        let node = lab.node("n1").await;
        lab.sql(&format!("UPDATE nodes SET driver='ilo5', power_interface='ilo5' WHERE uuid='{node}'")).await;
        let refused = json!({"type": "operator_hold", "reason": "x".repeat(65_536)});
        lab.call("POST", PATH, Some(refused)).await.expect(400);
        assert_eq!(lab.get("/v1/nodes/n1").await["maintenance"], false, "{engine}");
        let entry = lab.entry("n1", "operator_hold", "x").await;
        lab.call("DELETE", &format!("{PATH}/{entry}"), None).await.expect(204);
        lab.call("PUT", PATH, Some(json!({"reason": "r"}))).await.expect(202);
        let patch = json!([{"op": "replace", "path": "/owner", "value": "p"}]);
        lab.call("PATCH", "/v1/nodes/n1", Some(patch)).await.expect(200);
    }
}

#[tokio::test]
async fn deleting_a_node_ends_its_entries() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        lab.entry("n1", "operator_hold", "x").await;
        lab.call("DELETE", "/v1/nodes/n1", None).await.expect(204);
        lab.call("GET", "/v1/nodes/n1", None).await.expect(404);
        // A new node of the same name starts without them.
        lab.node("n1").await;
        assert_eq!(lab.get(PATH).await, json!({"maintenance": []}), "{engine}");
        assert_eq!(lab.get("/v1/nodes/n1/history").await, json!({"history": []}), "{engine}");
        let audit =
            lab.store.audit(&apelora_store::AuditQuery { limit: 100, ..Default::default() }).await.unwrap();
        assert!(audit.iter().any(|row| row.action == "node.deleted"), "{engine}");
    }
}

#[tokio::test]
async fn sixty_four_at_once_make_one_entry() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        let body = || Some(json!({"type": "operator_hold", "reason": "x"}));
        let answers = futures_util::future::join_all((0..64).map(|_| lab.call("POST", PATH, body()))).await;
        let made = answers.iter().filter(|a| a.status == 201).count();
        let refused =
            answers.iter().filter(|a| a.status == 409 && a.fault().contains("already exists")).count();
        assert_eq!((made, refused), (1, 63), "{engine}");
    }
}

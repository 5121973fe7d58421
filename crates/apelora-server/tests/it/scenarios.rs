//! The scenarios of the requirement, end to end over HTTP, on every engine.

use serde_json::json;

use crate::lab::{HOST, engines};

const REASON: &str =
    "Disk 3 has bad sectors, scheduled for replacement, see ticket https://myjira/CIDTEAM-3743";

#[tokio::test]
async fn scenario_1_a_typed_hold() {
    for (engine, lab) in engines().await {
        let node = lab.node("myNode").await;
        let body = json!({"type": "hardware_failure", "reason": REASON});
        let answer = lab.call("POST", "/v1/nodes/myNode/maintenance", Some(body)).await.expect(201);
        let entry = answer.json();
        let uuid = entry["uuid"].as_str().unwrap();
        let link = format!("http://{}/v1/nodes/{node}/maintenance/{uuid}", lab.address);
        assert_eq!(answer.header("location"), Some(link.as_str()), "{engine}");
        assert_eq!(
            entry,
            json!({
                "uuid": uuid,
                "type": "hardware_failure",
                "reason": REASON,
                "scope": "system",
                "asserted_by": "noauth",
                "asserted_by_project": "",
                "asserted_at": entry["asserted_at"],
                "extra": {},
                "links": [{"href": link, "rel": "self"}],
            }),
            "{engine}"
        );
        let keys: Vec<_> = entry.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "uuid",
                "type",
                "reason",
                "scope",
                "asserted_by",
                "asserted_by_project",
                "asserted_at",
                "extra",
                "links"
            ]
        );
        assert!(entry["asserted_at"].as_str().unwrap().ends_with("+00:00"));
        assert_eq!(lab.get(&format!("/v1/nodes/myNode/maintenance/{uuid}")).await, entry, "{engine}");
        // A client of an older version sees the flag and a reason made from the entry.
        let old = lab.at("1.1", "GET", &format!("/v1/nodes/{node}"), None).await.expect(200).json();
        assert_eq!(old["maintenance"], true, "{engine}");
        assert_eq!(old["maintenance_reason"], format!("hardware_failure: {REASON}"), "{engine}");
    }
}

#[tokio::test]
async fn scenarios_2_and_3_two_holds_released_one_at_a_time() {
    for (engine, lab) in engines().await {
        lab.node("myNode").await;
        let disk = lab.entry("myNode", "hardware_failure", "Disk 3").await;
        let power = lab.entry("myNode", "operator_hold", "Row C power work, change window CHG-2211").await;
        let listed = lab.get("/v1/nodes/myNode/maintenance").await;
        let uuids: Vec<_> = listed["maintenance"].as_array().unwrap().iter().map(|e| &e["uuid"]).collect();
        assert_eq!(uuids, [&json!(disk), &json!(power)], "{engine}");
        let node = lab.get("/v1/nodes/myNode?fields=maintenance_reason").await;
        assert_eq!(
            node["maintenance_reason"],
            "hardware_failure: Disk 3; operator_hold: Row C power work, change window CHG-2211",
            "{engine}"
        );
        // The same type at the same scope from the same project is one logical entry.
        let again = json!({"type": "operator_hold", "reason": "other"});
        let refused = lab.call("POST", "/v1/nodes/myNode/maintenance", Some(again)).await.expect(409).fault();
        assert!(
            refused.contains(&power) && refused.contains("already exists") && refused.contains("by noauth"),
            "{refused}"
        );
        let released =
            lab.call("DELETE", &format!("/v1/nodes/myNode/maintenance/{power}"), None).await.expect(204);
        assert_eq!(released.body, "", "{engine}");
        let node = lab.get("/v1/nodes/myNode?fields=maintenance,maintenance_reason").await;
        assert_eq!(node["maintenance"], true, "{engine}");
        assert_eq!(node["maintenance_reason"], "hardware_failure: Disk 3", "{engine}");
        let refused =
            lab.call("DELETE", &format!("/v1/nodes/myNode/maintenance/{power}"), None).await.expect(404);
        assert_eq!(refused.fault(), format!("Maintenance entry {power} could not be found."));
        // Who released what, and why it had been there.
        let history = lab.get("/v1/nodes/myNode/history?detail=True").await;
        let events = history["history"].as_array().unwrap();
        assert_eq!(events.len(), 3, "{engine} {history}");
        let last = &events[2];
        assert_eq!(last["event_type"], "maintenance");
        assert_eq!(last["severity"], "INFO");
        assert_eq!(last["user"], "noauth");
        assert_eq!(last["conductor"], HOST);
        let event = last["event"].as_str().unwrap();
        assert!(
            event.contains("operator_hold") && event.contains("Row C power work") && event.contains(&power),
            "{event}"
        );
    }
}

#[tokio::test]
async fn scenario_4_everything_at_once() {
    for (engine, lab) in engines().await {
        lab.node("myNode").await;
        lab.entry("myNode", "hardware_failure", "a").await;
        lab.entry("myNode", "operator_hold", "b").await;
        lab.call("PUT", "/v1/nodes/myNode/maintenance", Some(json!({"reason": "c"}))).await.expect(202);
        lab.call("DELETE", "/v1/nodes/myNode/maintenance", None).await.expect(204);
        let node = lab.get("/v1/nodes/myNode").await;
        assert_eq!(
            (&node["maintenance"], &node["maintenance_reason"]),
            (&json!(false), &json!(null)),
            "{engine}"
        );
        assert_eq!(lab.get("/v1/nodes/myNode/maintenance").await, json!({"maintenance": []}), "{engine}");
        // Again, with nothing to release.
        lab.call("DELETE", "/v1/nodes/myNode/maintenance", None).await.expect(204);
    }
}

#[tokio::test]
async fn scenario_7_legacy_automation_at_every_version() {
    for (engine, lab) in engines().await {
        let node = lab.node("myNode").await;
        for version in ["1.1", "1.31", "1.78", "1.115"] {
            let path = format!("/v1/nodes/{node}/maintenance");
            let put =
                lab.at(version, "PUT", &path, Some(json!({"reason": "rebalancing rack"}))).await.expect(202);
            assert_eq!(put.body, "");
            let read = lab.at(version, "GET", &format!("/v1/nodes/{node}"), None).await.expect(200).json();
            assert_eq!(read["maintenance"], true, "{engine}");
            assert_eq!(read["maintenance_reason"], "rebalancing rack", "{engine}");
            let delete = lab.at(version, "DELETE", &path, None).await.expect(202);
            assert_eq!(delete.body, "");
            let read = lab.at(version, "GET", &format!("/v1/nodes/{node}"), None).await.expect(200).json();
            assert_eq!(read["maintenance"], false, "{engine}");
            assert!(read["maintenance_reason"].is_null(), "{engine}");
        }
        // A typed entry beside it: the script reads both, and its unset releases both in this trust domain.
        lab.entry("myNode", "operator_hold", "x").await;
        lab.call("PUT", "/v1/nodes/myNode/maintenance", Some(json!({"reason": "y"}))).await.expect(202);
        let read = lab.get("/v1/nodes/myNode").await;
        assert_eq!(read["maintenance_reason"], "operator_hold: x; legacy: y", "{engine}");
    }
}

#[tokio::test]
async fn the_others_stay_byte_for_byte_when_one_of_three_is_released() {
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        lab.call("PUT", "/v1/nodes/n1/maintenance", Some(json!({"reason": "legacy \u{1f4a5}"})))
            .await
            .expect(202);
        let body = json!({"type": "operator_hold", "reason": null, "extra": {"b": 1.50, "a": ["x", null]}});
        lab.call("POST", "/v1/nodes/n1/maintenance", Some(body)).await.expect(201);
        let third = lab.entry("n1", "hardware_failure", "disk").await;
        let before = lab.call("GET", "/v1/nodes/n1/maintenance", None).await.expect(200).body;
        lab.call("DELETE", &format!("/v1/nodes/n1/maintenance/{third}"), None).await.expect(204);
        let after = lab.call("GET", "/v1/nodes/n1/maintenance", None).await.expect(200).body;
        assert!(before.starts_with(after.strip_suffix("]}").unwrap()), "{engine}\n{before}\n{after}");
        assert_eq!(lab.get("/v1/nodes/n1").await["maintenance"], true, "{engine}");
    }
}

#[tokio::test]
async fn a_fault_counts_in_the_figures_and_reads_zero_afterwards() {
    for (engine, lab) in engines().await {
        let node = lab.node("n1").await;
        let figure = async || {
            let text = lab.call("GET", "/metrics", None).await.expect(200).body;
            let line = r#"apelora_maintenance_entries{type="fault",scope="system"} "#;
            text.lines().find_map(|l| l.strip_prefix(line)).map(str::to_owned)
        };
        assert_eq!(figure().await.as_deref(), Some("0"), "{engine}");
        crate::typed::assert_fault(&lab, &node).await;
        assert_eq!(figure().await.as_deref(), Some("1"), "{engine}");
        let shown = lab.get("/v1/nodes/n1").await;
        assert_eq!(shown["fault"], "power failure", "{engine}");
        lab.call("DELETE", "/v1/nodes/n1/maintenance", None).await.expect(204);
        assert_eq!(figure().await.as_deref(), Some("0"), "{engine}");
        assert!(lab.get("/v1/nodes/n1").await["fault"].is_null(), "{engine}");
    }
}

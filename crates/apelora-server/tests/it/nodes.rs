//! Nodes: what the recordings do not show.

use serde_json::{Value, json};

use crate::lab::{Lab, engines};

#[tokio::test]
async fn a_node_from_its_creation_to_its_end() {
    for (engine, lab) in engines().await {
        let body = json!({
            "driver": "redfish", "name": "n1", "lessee": "p2", "resource_class": "big", "description": "Row \u{1f980}",
            "driver_info": {"redfish_address": "https://bmc", "redfish_password": "s3cr3t"},
            "extra": {"n": 1.10, "text": "\u{e9}"},
        });
        let made = lab.call("POST", "/v1/nodes", Some(body)).await.expect(201).json();
        assert_eq!(made["power_interface"], "redfish", "{engine}");
        assert_eq!(made["boot_interface"], "ipxe");
        assert_eq!(made["driver_info"]["redfish_password"], "******");
        assert_eq!(made["description"], "Row \u{1f980}");
        let shown = lab.get("/v1/nodes/n1").await;
        assert_eq!(shown, made, "{engine}");
        let patch = json!([
            {"op": "add", "path": "/owner", "value": "p1"},
            {"op": "add", "path": "/extra/more", "value": [1, {"a": null}]},
            {"op": "remove", "path": "/lessee"},
            {"op": "replace", "path": "/driver", "value": "ipmi"},
        ]);
        // Another hardware type has other interfaces.
        let refused = lab.call("PATCH", "/v1/nodes/n1", Some(patch.clone())).await.expect(400).fault();
        assert!(refused.starts_with("Could not find the following interface"), "{refused}");
        let shown =
            lab.call("PATCH", "/v1/nodes/n1?reset_interfaces=true", Some(patch)).await.expect(200).json();
        assert_eq!(shown["owner"], "p1", "{engine}");
        assert_eq!(shown["extra"]["more"], json!([1, {"a": null}]));
        assert_eq!(shown["power_interface"], "ipmitool");
        assert!(shown["lessee"].is_null());
        lab.call("DELETE", "/v1/nodes/n1", None).await.expect(204);
        lab.call("GET", "/v1/nodes/n1", None).await.expect(404);
    }
}

#[tokio::test]
async fn what_is_taken_by_another_node() {
    for (engine, lab) in engines().await {
        let one = json!({"driver": "fake-hardware", "name": "n1", "instance_uuid": "0000004d-0000-4000-8000-00000000004d"});
        lab.call("POST", "/v1/nodes", Some(one)).await.expect(201);
        let n2 = lab.node("n2").await;
        let patch =
            json!([{"op": "add", "path": "/instance_uuid", "value": "0000004d-0000-4000-8000-00000000004d"}]);
        assert_eq!(
            lab.call("PATCH", "/v1/nodes/n2", Some(patch)).await.expect(409).fault(),
            format!(
                "Instance 0000004d-0000-4000-8000-00000000004d is already associated with a node, it cannot be \
                 associated with this other node {n2}"
            ),
            "{engine}"
        );
        let patch = json!([{"op": "replace", "path": "/name", "value": "n1"}]);
        let refused = lab.call("PATCH", "/v1/nodes/n2", Some(patch)).await.expect(409).fault();
        assert_eq!(refused, "A node with name n1 already exists.", "{engine}");
        // Names are told apart by the case of their letters, on every engine.
        lab.call("GET", "/v1/nodes/N1", None).await.expect(404);
        lab.node("N1").await;
    }
}

#[tokio::test]
async fn pages_of_a_list_hold_every_node_once() {
    for (engine, lab) in engines().await {
        for i in 0..7 {
            let body = json!({"driver": "fake-hardware", "name": format!("n{i}"), "resource_class": if i % 2 == 0 { json!("a") } else { json!(null) }});
            lab.call("POST", "/v1/nodes", Some(body)).await.expect(201);
        }
        for order in [
            "",
            "&sort_key=resource_class",
            "&sort_key=resource_class&sort_dir=desc",
            "&sort_key=name&sort_dir=desc",
            "&sort_key=maintenance",
        ] {
            let mut path = format!("/v1/nodes?limit=2{order}");
            let mut names = Vec::new();
            loop {
                let page = lab.get(&path).await;
                names.extend(
                    page["nodes"].as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap().to_owned()),
                );
                let Some(next) = page["next"].as_str() else { break };
                path = next.strip_prefix(&format!("http://{}", lab.address)).unwrap().to_owned();
                assert!(names.len() < 20, "{engine} {order}");
            }
            names.sort();
            assert_eq!(names, ["n0", "n1", "n2", "n3", "n4", "n5", "n6"], "{engine} {order}");
        }
        let names = async |query: &str| -> Vec<Value> {
            let page = lab.get(&format!("/v1/nodes?fields=name&{query}")).await;
            page["nodes"].as_array().unwrap().iter().map(|n| n["name"].clone()).collect()
        };
        // Nulls come first when ascending, everywhere.
        assert_eq!(names("sort_key=resource_class").await[..3], ["n1", "n3", "n5"], "{engine}");
        assert_eq!(names("sort_key=resource_class&sort_dir=desc").await[..2], ["n6", "n4"], "{engine}");
        let missing =
            lab.call("GET", "/v1/nodes?marker=0000004d-0000-4000-8000-00000000004d", None).await.expect(404);
        assert_eq!(missing.fault(), "Node 0000004d-0000-4000-8000-00000000004d could not be found.");
        for (query, found) in [
            ("conductor=lab-conductor", 7),
            ("conductor=other", 0),
            ("description_contains=%25", 0),
            ("resource_class=a", 4),
            ("resource_class=A", 0),
            ("shard=x,y", 0),
            ("project=nobody", 0),
        ] {
            assert_eq!(names(query).await.len(), found, "{engine} {query}");
        }
    }
}

#[tokio::test]
async fn children_are_hidden_and_need_a_parent() {
    let lab = Lab::sqlite().await;
    let parent = lab.node("parent").await;
    let child = json!({"driver": "fake-hardware", "name": "child", "parent_node": "parent"});
    let made = lab.call("POST", "/v1/nodes", Some(child)).await.expect(201).json();
    assert_eq!(made["parent_node"], json!(parent));
    let count =
        async |query: &str| lab.get(&format!("/v1/nodes?{query}")).await["nodes"].as_array().unwrap().len();
    assert_eq!(count("").await, 1);
    assert_eq!(count("include_children=true").await, 2);
    assert_eq!(count(&format!("parent_node={parent}")).await, 1);
    let orphan = json!([{"op": "add", "path": "/parent_node", "value": "nosuch"}]);
    let refused = lab.call("PATCH", "/v1/nodes/child", Some(orphan)).await.expect(400).fault();
    assert_eq!(refused, "Unable to apply the requested parent_node 'nosuch'. Requested value was invalid.");
}

#[tokio::test]
async fn what_this_service_does_not_do_is_said_clearly() {
    let lab = Lab::sqlite().await;
    lab.node("n1").await;
    for (method, path, body, status, part) in [
        (
            "PUT",
            "/v1/nodes/n1/states/power",
            Some(json!({"target": "power on"})),
            400,
            "does not change the power state",
        ),
        (
            "PUT",
            "/v1/nodes/n1/states/provision",
            Some(json!({"target": "manage"})),
            400,
            "does not change the provision state",
        ),
        ("GET", "/v1/nodes/n1/ports", None, 404, "no ports"),
        ("GET", "/v1/nodes/n1/traits", None, 404, "no traits"),
        ("POST", "/v1/nodes/n1/vifs", Some(json!({})), 404, "no vifs"),
        ("GET", "/v1/ports", None, 404, "no ports"),
        ("GET", "/v1/chassis", None, 404, "no chassis"),
        ("GET", "/v1/nodes/nosuch/ports", None, 404, "Node nosuch could not be found."),
    ] {
        let refused = lab.call(method, path, body).await.expect(status).fault();
        assert!(refused.contains(part), "{method} {path}: {refused}");
    }
    let drivers = lab.get("/v1/drivers").await;
    let names: Vec<_> =
        drivers["drivers"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fake-hardware", "ipmi", "redfish"]);
    assert_eq!(lab.get("/v1/drivers/redfish").await["default_power_interface"], "redfish");
    // Nothing was changed by what only looks like a change.
    for (method, path) in
        [("DELETE", "/v1/nodes/n1/nope"), ("PATCH", "/v1/nodes/n1/nope"), ("DELETE", "/v1/nodes/n1/ports")]
    {
        lab.call(method, path, Some(json!([{"op": "remove", "path": "/name"}]))).await.expect(404);
    }
    assert_eq!(lab.get("/v1/nodes/n1").await["name"], "n1");
}

#[tokio::test]
async fn a_reservation_of_another_service_is_waited_for_a_little() {
    let lab = Lab::sqlite().await;
    let node = lab.node("n1").await;
    lab.sql(&format!("UPDATE nodes SET reservation='other' WHERE uuid='{node}'")).await;
    let path = "/v1/nodes/n1/maintenance";
    // Released between two tries.
    let (answer, ()) = tokio::join!(lab.call("PUT", path, Some(json!({"reason": "r"}))), async {
        lab.sql(&format!("UPDATE nodes SET reservation=NULL WHERE uuid='{node}'")).await;
    });
    answer.expect(202);
    lab.sql(&format!("UPDATE nodes SET reservation='other' WHERE uuid='{node}'")).await;
    let body = json!({"type": "operator_hold"});
    let refused = lab.call("POST", path, Some(body)).await.expect(409).fault();
    assert_eq!(
        refused,
        format!(
            "Node {node} is locked by host other, please retry after the current operation is completed."
        )
    );
    // Readers do not wait.
    assert_eq!(lab.get("/v1/nodes/n1").await["reservation"], "other");
}

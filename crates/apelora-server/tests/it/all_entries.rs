//! The entries of all nodes.

use serde_json::{Value, json};

use crate::cloud::{Cloud, project};
use crate::lab::engines;

async fn list(cloud: &Cloud, token: &str, query: &str) -> Value {
    cloud.call(token, "GET", &format!("/apelora/v1/maintenance{query}"), None).await.expect(200).json()
}

fn names(listed: &Value) -> Vec<&str> {
    listed["maintenance"].as_array().unwrap().iter().map(|p| p["node"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn everybody_sees_the_entries_of_their_nodes_masked_like_those_of_one_node() {
    let cloud = Cloud::start().await;
    let operator = cloud.persona("system-admin");
    let (owner, lessee) = (project("owner-a-member"), project("lessee-a-admin"));
    let member = cloud.persona("owner-a-member");
    cloud.node(&operator, "leased", Some(&owner), Some(&lessee)).await;
    cloud.node(&operator, "owned", Some(&owner), None).await;
    cloud.node(&operator, "unowned", None, None).await;
    for (who, node) in
        [(&operator, "unowned"), (&operator, "leased"), (&member, "leased"), (&member, "owned")]
    {
        let path = format!("/v1/nodes/{node}/maintenance");
        let new = json!({"type": "operator_hold", "reason": node, "extra": {"a": [1]}});
        cloud.call(who, "POST", &path, Some(new)).await.expect(201);
    }
    for (persona, sees) in [
        ("system-admin", vec!["unowned", "leased", "leased", "owned"]),
        ("system-reader", vec!["unowned", "leased", "leased", "owned"]),
        ("owner-a-reader", vec!["leased", "leased", "owned"]),
        ("lessee-a-reader", vec!["leased", "leased"]),
        ("outsider-member", vec![]),
        // It passes the rule of the list, and may see no node.
        ("lessee-a-service", vec![]),
    ] {
        let token = cloud.persona(persona);
        let listed = list(&cloud, &token, "").await;
        assert_eq!(names(&listed), sees, "{persona}");
        for placed in listed["maintenance"].as_array().unwrap() {
            let name = placed["node"]["name"].as_str().unwrap();
            let path = format!("/v1/nodes/{name}/maintenance");
            let of_node = cloud.call(&token, "GET", &path, None).await.expect(200).json();
            assert!(
                of_node["maintenance"].as_array().unwrap().contains(&placed["entry"]),
                "{persona} {placed}"
            );
            assert_eq!(placed["stale"], false);
        }
    }
    for (persona, rule) in [("unscoped", "list_all"), ("domain-admin", "list_all")] {
        let token = cloud.persona(persona);
        let refused = cloud.call(&token, "GET", "/apelora/v1/maintenance", None).await.expect(403).fault();
        assert_eq!(
            refused,
            format!("Access was denied to the following resource: apelora:maintenance:{rule}")
        );
    }
    cloud.call(&operator, "POST", "/apelora/v1/maintenance", None).await.expect(405);
    for query in
        ["?bogus=1", "?stale=maybe", "?limit=0", "?marker=x", "?marker=00000000-0000-4000-8000-000000000001"]
    {
        cloud.call(&operator, "GET", &format!("/apelora/v1/maintenance{query}"), None).await.expect(400);
    }
}

#[tokio::test]
async fn pages_hold_what_their_reader_may_see_and_miss_nothing() {
    for (engine, lab) in engines().await {
        // Times tie, so that the order among equals shows.
        for node in 0..7 {
            let name = format!("n{node}");
            lab.node(&name).await;
            for kind in ["operator_hold", "hardware_failure"] {
                lab.entry(&name, kind, "r").await;
            }
        }
        lab.sql("UPDATE node_maintenance SET asserted_at = '2026-07-01 08:00:00.000000'").await;
        // Two of the nodes belonged to somebody else when their entries were asserted.
        lab.sql(
            "UPDATE node_maintenance SET scope = 'owner', asserted_by_project = 'former' WHERE node_id IN
             (SELECT id FROM nodes WHERE name IN ('n2', 'n5'))",
        )
        .await;
        lab.sql("UPDATE nodes SET owner = 'former' WHERE name = 'n5'").await;
        let all = lab.get("/apelora/v1/maintenance").await;
        assert!(all["next"].is_null());
        let all = all["maintenance"].as_array().unwrap().clone();
        assert_eq!(all.len(), 14, "{engine}");
        for (query, wanted) in [("", 14), ("stale=true&", 2)] {
            let mut path = format!("/apelora/v1/maintenance?{query}limit=3");
            let mut read: Vec<Value> = Vec::new();
            loop {
                let page = lab.get(&path).await;
                read.extend(page["maintenance"].as_array().unwrap().iter().cloned());
                let Some(next) = page["next"].as_str() else { break };
                assert_eq!(page["maintenance"].as_array().unwrap().len(), 3, "{engine}");
                path = next.strip_prefix(&format!("http://{}", lab.address)).unwrap().to_owned();
                assert!(read.len() <= 14, "{engine}");
            }
            let expected: Vec<_> =
                all.iter().filter(|placed| query.is_empty() || placed["stale"] == true).cloned().collect();
            assert_eq!(read, expected, "{engine}");
            assert_eq!(read.len(), wanted, "{engine}");
        }
        let stale = lab.get("/apelora/v1/maintenance?stale=true").await;
        assert!(
            stale["maintenance"].as_array().unwrap().iter().all(|p| p["node"]["name"] == "n2"),
            "{engine}"
        );
    }
}

//! Operators, owners and lessees, each with their own holds, over HTTP.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::cloud::{Cloud, project, user, varied};

const PATH: &str = "/v1/nodes/myNode/maintenance";

/// The people of the scenarios around one leased node.
struct People {
    cloud: Cloud,
    operator: String,
    operator2: String,
    owner: String,
    owner2: String,
    lessee_a: String,
    lessee_b: String,
    outsider: String,
}

const LESSEE_B: &str = "b0b0b0b0b0b04f0ba5a1b9c4d7f0a911";

impl People {
    async fn new() -> Self {
        let cloud = Cloud::start().await;
        let roles = ["admin", "manager", "member", "reader"];
        let people = Self {
            operator: cloud.persona("system-admin"),
            operator2: cloud.know(varied("system-admin", "operator2", None, &roles)),
            owner: cloud.persona("owner-a-member"),
            owner2: cloud.persona("owner-a-member2"),
            lessee_a: cloud.persona("lessee-a-admin"),
            lessee_b: cloud.know(varied("lessee-a-admin", "lessee-b", Some((LESSEE_B, "lessee-b")), &roles)),
            outsider: cloud.persona("outsider-member"),
            cloud,
        };
        let (owner, lessee) = (project("owner-a-member"), project("lessee-a-admin"));
        people.cloud.node(&people.operator, "myNode", Some(&owner), Some(&lessee)).await;
        people
    }

    async fn add(&self, who: &str, kind: &str) -> Answer {
        self.cloud.call(who, "POST", PATH, Some(json!({"type": kind, "reason": "r"}))).await
    }

    async fn release(&self, who: &str, entry: &Value) -> Answer {
        let path = format!("{PATH}/{}", entry["uuid"].as_str().unwrap());
        self.cloud.call(who, "DELETE", &path, None).await
    }

    async fn entries(&self, who: &str) -> Vec<Value> {
        let listed = self.cloud.call(who, "GET", PATH, None).await.expect(200).json();
        listed["maintenance"].as_array().unwrap().clone()
    }

    async fn lease_to(&self, lessee: Option<&str>) {
        let patch = json!([{"op": "replace", "path": "/lessee", "value": lessee}]);
        self.cloud.call(&self.owner, "PATCH", "/v1/nodes/myNode", Some(patch)).await.expect(200);
    }
}

fn id(entry: &Value) -> &str {
    entry["uuid"].as_str().unwrap()
}

#[tokio::test]
async fn scenario_5_scoped_holds_and_denials() {
    let people = People::new().await;
    let system = people.add(&people.operator, "hardware_failure").await.expect(201).json();
    let lessee = people.add(&people.lessee_a, "operator_hold").await.expect(201).json();
    assert_eq!((&system["scope"], &lessee["scope"]), (&json!("system"), &json!("lessee")));
    let refused = people.cloud.call(&people.lessee_a, "DELETE", PATH, None).await.expect(403).fault();
    assert_eq!(
        refused,
        format!(
            "Cannot release maintenance entry {} (type hardware_failure, scope system): not permitted at lessee scope",
            id(&system)
        )
    );
    // Nothing was released, at an older version neither, and an older client reads the same sentence.
    let old = people
        .cloud
        .at("1.115", &[("X-Auth-Token", &people.lessee_a)], "DELETE", PATH, None)
        .await
        .expect(403);
    assert_eq!(old.fault(), refused);
    assert_eq!(people.entries(&people.lessee_a).await.len(), 2);
    // The lessee sees that the operator's hold is there and why, and not whose it is.
    let seen = people.entries(&people.lessee_a).await;
    assert_eq!(seen[0]["reason"], "r");
    assert_eq!((&seen[0]["asserted_by"], &seen[0]["asserted_by_project"]), (&Value::Null, &Value::Null));
    assert_eq!(seen[1]["asserted_by"], user("lessee-a-admin").as_str());
    people.release(&people.lessee_a, &lessee).await.expect(204);
    let node = people.cloud.call(&people.owner, "GET", "/v1/nodes/myNode", None).await.expect(200).json();
    assert_eq!(
        (&node["maintenance"], &node["maintenance_reason"]),
        (&json!(true), &json!("hardware_failure: r"))
    );
    people.release(&people.operator, &system).await.expect(204);
}

#[tokio::test]
async fn scenario_6_holds_across_a_lease_change() {
    let people = People::new().await;
    let lessee_a = project("lessee-a-admin");
    let hold = people.add(&people.lessee_a, "operator_hold").await.expect(201).json();
    people.lease_to(Some(LESSEE_B)).await;
    // The former lessee's standing has ended with the lease.
    people.release(&people.lessee_a, &hold).await.expect(404);
    let refused = people.cloud.call(&people.lessee_b, "DELETE", PATH, None).await.expect(403).fault();
    assert_eq!(
        refused,
        format!(
            "Cannot release maintenance entry {} (type operator_hold, scope lessee, asserted by project {lessee_a}): \
             not asserted by your project",
            id(&hold)
        )
    );
    people.release(&people.lessee_b, &hold).await.expect(403);
    // At equal scope the project is no secret.
    assert_eq!(people.entries(&people.lessee_b).await[0]["asserted_by_project"], lessee_a.as_str());
    // The runbook's list names it, to those who can do something about it.
    for (who, sees) in [
        (&people.operator, true),
        (&people.owner, true),
        (&people.lessee_b, true),
        (&people.lessee_a, false),
        (&people.outsider, false),
    ] {
        let path = "/apelora/v1/maintenance?stale=true";
        let listed = people.cloud.call(who, "GET", path, None).await.expect(200).json();
        let found = listed["maintenance"].as_array().unwrap();
        assert_eq!(found.len(), usize::from(sees));
        assert!(found.iter().all(|placed| placed["entry"]["uuid"] == id(&hold) && placed["stale"] == true));
    }
    people.release(&people.owner, &hold).await.expect(204);
    // One rank up: an owner's hold after a transfer is the operators' to release.
    let hold = people.add(&people.owner, "operator_hold").await.expect(201).json();
    let patch = json!([{"op": "replace", "path": "/owner", "value": LESSEE_B}]);
    people.cloud.call(&people.owner, "PATCH", "/v1/nodes/myNode", Some(patch.clone())).await.expect(403);
    people.cloud.call(&people.operator, "PATCH", "/v1/nodes/myNode", Some(patch)).await.expect(200);
    let refused = people.release(&people.lessee_b, &hold).await.expect(403).fault();
    assert!(refused.ends_with("not asserted by your project"), "{refused}");
    people.release(&people.operator2, &hold).await.expect(204);
}

#[tokio::test]
async fn every_blocking_entry_is_named_in_order() {
    let people = People::new().await;
    let system = people.add(&people.operator, "hardware_failure").await.expect(201).json();
    let owner = people.add(&people.owner, "operator_hold").await.expect(201).json();
    people.add(&people.lessee_a, "operator_hold").await.expect(201);
    people.cloud.call(&people.lessee_a, "PUT", PATH, Some(json!({"reason": "x"}))).await.expect(202);
    people.lease_to(Some(LESSEE_B)).await;
    people.add(&people.lessee_b, "operator_hold").await.expect(201);
    let refused = people.cloud.call(&people.lessee_b, "DELETE", PATH, None).await.expect(403).fault();
    let parts: Vec<_> = refused.split("; ").collect();
    assert_eq!(parts.len(), 3, "{refused}");
    assert!(
        parts[0].contains(id(&system)) && parts[0].ends_with("not permitted at lessee scope"),
        "{refused}"
    );
    assert!(
        parts[1].contains(id(&owner)) && parts[1].ends_with("not permitted at lessee scope"),
        "{refused}"
    );
    assert!(parts[2].ends_with("not asserted by your project"), "{refused}");
    assert_eq!(people.entries(&people.operator).await.len(), 5);
    // By the other doors of the boolean and of the node, too.
    let patch = json!([{"op": "replace", "path": "/maintenance", "value": false}]);
    let by_patch =
        people.cloud.call(&people.lessee_b, "PATCH", "/v1/nodes/myNode", Some(patch)).await.expect(403);
    assert_eq!(by_patch.fault(), refused);
}

#[tokio::test]
async fn an_automation_that_may_not_release_leaves_no_trace_of_its_tries() {
    let people = People::new().await;
    let hold = people.add(&people.operator, "operator_hold").await.expect(201).json();
    let history = || async {
        let path = "/v1/nodes/myNode/history";
        people.cloud.call(&people.operator, "GET", path, None).await.expect(200).body
    };
    let before = history().await;
    for _ in 0..1_000 {
        let refused = people.cloud.call(&people.owner, "DELETE", PATH, None).await.expect(403).fault();
        assert!(refused.contains(id(&hold)), "{refused}");
    }
    assert_eq!(history().await, before);
    assert_eq!(people.entries(&people.operator).await, [hold]);
}

#[tokio::test]
async fn a_higher_hold_evicts_nothing() {
    let people = People::new().await;
    let lower = people.add(&people.lessee_a, "operator_hold").await.expect(201).json();
    let before = people.entries(&people.operator).await;
    people.add(&people.owner, "operator_hold").await.expect(201);
    people.add(&people.operator, "operator_hold").await.expect(201);
    let entries = people.entries(&people.operator).await;
    assert_eq!(entries.len(), 3);
    assert_eq!(entries[0], before[0]);
    people.release(&people.lessee_a, &lower).await.expect(204);
}

#[tokio::test]
async fn a_project_has_one_hold_of_a_type_and_so_have_all_operators() {
    let people = People::new().await;
    for (first, second, asserter, project) in [
        (&people.owner, &people.owner2, user("owner-a-member"), Some(project("owner-a-member"))),
        (&people.operator, &people.operator2, user("system-admin"), None),
    ] {
        let entry = people.add(first, "operator_hold").await.expect(201).json();
        let refused = people.add(second, "operator_hold").await.expect(409).fault();
        assert!(refused.contains(id(&entry)) && refused.contains(&format!("by {asserter}")), "{refused}");
        assert_eq!(refused.contains("of project"), project.is_some(), "{refused}");
        assert_eq!(people.add(first, "operator_hold").await.expect(409).fault(), refused);
        // A team mate may release it.
        people.release(second, &entry).await.expect(204);
    }
}

#[tokio::test]
async fn history_never_shows_an_operator_to_those_below() {
    // Let lessees read the history, to see what they would see.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "\"baremetal:node:history:get\": \"role:reader\"\n").unwrap();
    let cloud = Cloud::configured(|_| {}, |server| server.policy.file = Some(file)).await;
    let operator = cloud.persona("system-admin");
    let (owner, lessee) = (cloud.persona("owner-a-member"), cloud.persona("lessee-a-admin"));
    cloud.node(&operator, "myNode", Some(&project("owner-a-member")), Some(&project("lessee-a-admin"))).await;
    let people = [("system", &operator), ("owner", &owner), ("lessee", &lessee)];
    let rank = |who: usize| 2 - who;
    // Everybody asserts, and everybody who can releases.
    let mut expected = Vec::new();
    for (asserter, (_, token)) in people.iter().enumerate() {
        for (releaser, (_, other)) in people.iter().enumerate() {
            if rank(releaser) < rank(asserter) {
                continue;
            }
            let new = Some(json!({"type": "operator_hold"}));
            let entry = cloud.call(token, "POST", PATH, new).await.expect(201).json();
            cloud.call(other, "DELETE", &format!("{PATH}/{}", id(&entry)), None).await.expect(204);
            expected.push((rank(asserter), user_of(asserter)));
            expected.push((rank(asserter).max(rank(releaser)), user_of(releaser)));
        }
    }
    for (reader, (name, token)) in people.iter().enumerate() {
        let path = "/v1/nodes/myNode/history?detail=True&sort_key=id";
        let listed = cloud.call(token, "GET", path, None).await.expect(200).json();
        let records = listed["history"].as_array().unwrap();
        assert_eq!(records.len(), expected.len());
        for (record, (visible_from, author)) in records.iter().zip(&expected) {
            let hidden = rank(reader) < *visible_from;
            let author = if hidden { Value::Null } else { json!(author) };
            assert_eq!(record["user"], author, "read by {name}: {record}");
            let single = format!("/v1/nodes/myNode/history/{}", id(record));
            let single = cloud.call(token, "GET", &single, None).await.expect(200);
            assert_eq!(single.json()["user"], author, "read by {name}");
            if hidden {
                assert!(!single.body.contains(&user("system-admin")), "read by {name}: {}", single.body);
            }
        }
    }
}

fn user_of(person: usize) -> String {
    user(["system-admin", "owner-a-member", "lessee-a-admin"][person])
}

#[tokio::test]
async fn the_flag_of_others_by_patch_and_at_creation() {
    let people = People::new().await;
    let cloud = &people.cloud;
    let member = cloud.persona("lessee-a-member");
    // As in the reference: whoever may update the node may set the flag this way.
    let flag = |value: bool| Some(json!([{"op": "replace", "path": "/maintenance", "value": value}]));
    cloud.call(&member, "PUT", PATH, None).await.expect(403);
    cloud.call(&member, "PATCH", "/v1/nodes/myNode", flag(true)).await.expect(200);
    let legacy = &people.entries(&people.operator).await[0];
    assert_eq!((&legacy["type"], &legacy["scope"]), (&json!("legacy"), &json!("lessee")));
    cloud.call(&member, "PATCH", "/v1/nodes/myNode", flag(false)).await.expect(200);
    // A typed entry needs the policy of typed entries, which a lessee's member does not pass.
    let hold = people.add(&people.lessee_a, "operator_hold").await.expect(201).json();
    let refused = cloud.call(&member, "PATCH", "/v1/nodes/myNode", flag(false)).await.expect(403).fault();
    assert!(refused.contains(id(&hold)) && refused.ends_with("not permitted by policy"), "{refused}");
    people.release(&people.lessee_a, &hold).await.expect(204);

    // An administrator of a project creates for it alone.
    let admin = cloud.persona("owner-a-admin");
    let own = project("owner-a-admin");
    let new = |owner: Value| Some(json!({"driver": "fake-hardware", "owner": owner, "maintenance": true}));
    let refused = cloud.call(&admin, "POST", "/v1/nodes", new(json!(LESSEE_B))).await.expect(400).fault();
    assert!(refused.starts_with("Cannot create a node as a project scoped admin"), "{refused}");
    for owner in [Value::Null, json!(own)] {
        let node = cloud.call(&admin, "POST", "/v1/nodes", new(owner)).await.expect(201).json();
        assert_eq!(node["owner"], own.as_str());
        let path = format!("/v1/nodes/{}/maintenance", id(&node));
        let entries = cloud.call(&admin, "GET", &path, None).await.expect(200).json();
        assert_eq!(entries["maintenance"][0]["scope"], "owner");
        cloud.call(&admin, "DELETE", &format!("/v1/nodes/{}", id(&node)), None).await.expect(204);
    }
    for other in [&people.owner, &member, &people.outsider] {
        let refused = cloud.call(other, "POST", "/v1/nodes", new(Value::Null)).await.expect(403).fault();
        assert_eq!(refused, "Access was denied to the following resource: baremetal:node:create");
    }
}

#[tokio::test]
async fn a_node_in_use_keeps_its_owner_unless_policy_says_otherwise() {
    let people = People::new().await;
    people.cloud.lab.sql("UPDATE nodes SET provision_state = 'active'").await;
    let patch = || Some(json!([{"op": "replace", "path": "/owner", "value": LESSEE_B}]));
    let manager = people.cloud.persona("system-member");
    let refused = people.cloud.call(&manager, "PATCH", "/v1/nodes/myNode", patch()).await.expect(409).fault();
    assert!(
        refused.starts_with("Cannot update owner of node") && refused.ends_with("\"active\"."),
        "{refused}"
    );
    people.cloud.call(&people.operator, "PATCH", "/v1/nodes/myNode", patch()).await.expect(200);
}

#[tokio::test]
async fn unknown_entries_and_those_of_other_nodes() {
    let people = People::new().await;
    let cloud = &people.cloud;
    cloud.node(&people.operator, "other", Some(&project("owner-a-member")), None).await;
    let hold = people.add(&people.owner, "operator_hold").await.expect(201).json();
    let nothing = "00000000-0000-4000-8000-000000000001";
    for (who, path, status) in [
        (&people.owner, format!("/v1/nodes/other/maintenance/{}", id(&hold)), 404),
        (&people.owner, format!("{PATH}/{nothing}"), 404),
        (&people.owner, format!("{PATH}/nonsense"), 404),
        // The node is hidden, and with it whether the entry exists.
        (&people.outsider, format!("{PATH}/{}", id(&hold)), 404),
        (&people.outsider, format!("{PATH}/{nothing}"), 404),
    ] {
        for method in ["GET", "DELETE"] {
            let answer = cloud.call(who, method, &path, None).await.expect(status);
            let hidden = answer.fault() == "Node myNode could not be found.";
            assert_eq!(hidden, who == &people.outsider, "{}", answer.body);
        }
    }
}

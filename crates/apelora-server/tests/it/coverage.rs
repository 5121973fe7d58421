//! Every endpoint there is, walked by the document that is made from the table of endpoints: each is governed by a rule
//! or stands on the short list of those open to all, refuses callers whom nothing allows it, and leaves an audit trace if
//! it changes something. A new endpoint fails here until it has a line.

use apelora_fencing::ReasonCode;
use apelora_fencing::write::Found;
use apelora_policy::defaults;
use apelora_store::AuditQuery;
use serde_json::{Value, json};

use crate::client;
use crate::cloud::{Cloud, varied};
use crate::night::Night;

/// What is open to all: the documents that every client reads before it has a token.
const OPEN: [(&str, &str); 2] = [("GET", "/"), ("GET", "/v1")];
/// The pages of the service itself, which tell nothing about nodes or callers.
const PAGES: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/openapi.json"];

/// How an endpoint is called.
struct Walk {
    body: Value,
    /// The audit trace of a call that is allowed: its actions; none for one that changes nothing.
    actions: &'static [&'static str],
}

/// `None`: the endpoint has no line yet.
fn walk(operation: &str) -> Option<Walk> {
    let reads = Walk { body: Value::Null, actions: &[] };
    let changes = |body: Value, actions| Walk { body, actions };
    Some(match operation {
        "ShowRoot" | "ShowVersion" | "ListNodes" | "ListNodesInDetail" | "ShowNode" | "ListEntries"
        | "ShowEntry" | "ListAllEntries" | "ListHistory" | "ShowHistoryRecord" | "ShowStates"
        | "ListDrivers" | "ShowDriver" | "ListMembers" | "ShowMember" | "ExplainMember"
        | "ListFenceRecords" | "ShowFenceRecord" | "ListAudit" | "ShowSettings" => reads,
        "ConfirmMemberOff" => {
            let body = json!({"member": "s2", "incarnation": 1, "reason": "r"});
            changes(body, &["cluster.member.confirmed_off", "cluster.member.fenced"])
        }
        "TrustMember" => changes(json!({"reason": "r"}), &["cluster.bmc.trusted"]),
        // Refused to everybody, after policy.
        "ChangeState" => Walk { body: json!({"target": "power on"}), actions: &[] },
        "CreateNode" => {
            changes(json!({"driver": "fake-hardware", "maintenance": true}), &["maintenance.asserted"])
        }
        "UpdateNode" => {
            let flag = json!([{"op": "replace", "path": "/maintenance", "value": true}]);
            changes(flag, &["maintenance.asserted"])
        }
        "SetMaintenance" => changes(json!({"reason": "r"}), &["maintenance.asserted"]),
        "AddEntry" => changes(json!({"type": "hardware_failure"}), &["maintenance.asserted"]),
        "ClearMaintenance" | "ReleaseEntry" => changes(Value::Null, &["maintenance.released"]),
        "DeleteNode" => changes(Value::Null, &["node.deleted"]),
        _ => return None,
    })
}

struct Endpoint {
    method: String,
    template: String,
    operation: String,
    description: String,
}

async fn endpoints(cloud: &Cloud) -> Vec<Endpoint> {
    let document =
        client::send(cloud.lab.address, "GET", "/openapi.json", &[], None).await.expect(200).json();
    let mut endpoints = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        if PAGES.contains(&template.as_str()) {
            continue;
        }
        for (method, operation) in item.as_object().unwrap() {
            let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
            endpoints.push(Endpoint {
                method: method.to_uppercase(),
                template: template.clone(),
                operation: text("operationId"),
                description: text("description"),
            });
        }
    }
    endpoints
}

/// A node with an entry and a record of history, and the path of an endpoint on it.
async fn place(cloud: &Cloud, operator: &str, template: &str, fenced: &str) -> String {
    let name = format!("n{}", crate::lab::new_id());
    let node = cloud.node(operator, &name, None, None).await;
    let new = Some(json!({"type": "operator_hold"}));
    let path = format!("/v1/nodes/{node}/maintenance");
    let entry = cloud.call(operator, "POST", &path, new).await.expect(201).json();
    let path = format!("/v1/nodes/{node}/history");
    let record =
        cloud.call(operator, "GET", &path, None).await.expect(200).json()["history"][0]["uuid"].clone();
    template
        .replace("{node_ident}", &node)
        .replace("{entry_uuid}", entry["uuid"].as_str().unwrap())
        .replace("{record_uuid}", record.as_str().unwrap())
        .replace("{state}", "power")
        .replace("{driver_name}", "fake-hardware")
        .replace("{member}", "s2")
        .replace("{record}", fenced)
}

async fn audited(cloud: &Cloud) -> Vec<String> {
    let rows = cloud.lab.store.audit(&AuditQuery { limit: 10_000, ..AuditQuery::default() }).await.unwrap();
    rows.into_iter().map(|row| row.action).collect()
}

#[tokio::test]
async fn every_endpoint_is_governed_refuses_and_leaves_its_trace() {
    let cloud = Cloud::start().await;
    let operator = cloud.persona("system-admin");
    // Somebody whom Keystone knows and nothing allows anything.
    let nobody = cloud.know(varied("outsider-member", "nobody", None, &[]));
    // A member that was lost, and a record of it.
    let night = Night::begin(&cloud.lab.store).await;
    night.lose(&["s2"]).await;
    let fenced = night.refuse("s2", ReasonCode::BmcUnreachable).await;
    night.checked("s2", Found::Contradiction).await;
    night.checked("s2", Found::Good).await;
    let endpoints = endpoints(&cloud).await;
    assert!(endpoints.len() >= 30, "only {} endpoints", endpoints.len());
    for Endpoint { method, template, operation, description } in &endpoints {
        let at = format!("{method} {template}");
        let Some(Walk { body, actions }) = walk(operation) else {
            panic!("{at}: {operation} has no line in this test")
        };
        let body = Some(&body).filter(|body| !body.is_null());
        let path = place(&cloud, &operator, template, &fenced).await;
        let before = audited(&cloud).await;

        // Governed by a rule that exists, or on the short list.
        let open = OPEN.contains(&(method.as_str(), template.as_str()));
        let rule = description.split('`').nth(1);
        assert_eq!(rule.is_none(), open, "{at}: {description}");
        if let Some(rule) = rule {
            assert!(defaults::all().any(|known| known.name == rule), "{at}: {rule} is not registered");
        }

        // Refused without a token, and with one that nothing is allowed to.
        let status = cloud.send(&[], method, &path, body).await.status;
        assert_eq!(status, if open { 200 } else { 401 }, "{at}");
        let answer = cloud.send(&[("X-Auth-Token", &nobody)], method, &path, body).await;
        let refused = [403, 404].contains(&answer.status);
        assert_eq!(refused, !open, "{at}: {} {}", answer.status, answer.body);
        assert_eq!(audited(&cloud).await, before, "{at}: a refused call left a trace");

        // Allowed to an operator, and written down if something changed.
        let answer = cloud.send(&[("X-Auth-Token", &operator)], method, &path, body).await;
        let fits = if operation == "ChangeState" { answer.status == 400 } else { answer.status < 300 };
        assert!(fits, "{at}: {} {}", answer.status, answer.body);
        let after = audited(&cloud).await;
        let new: Vec<_> = after[before.len()..].iter().map(String::as_str).collect();
        assert_eq!(new, actions, "{at}");
        assert!(
            method == "GET" || !actions.is_empty() || operation == "ChangeState",
            "{at} changes nothing?"
        );
    }
    for page in PAGES {
        let answer = client::send(cloud.lab.address, "GET", page, &[], None).await.expect(200);
        assert!(!answer.body.contains("operator_hold\", \"reason"), "{page}");
        client::send(cloud.lab.address, "POST", page, &[("Content-Length", "0")], None).await.expect(405);
    }
}

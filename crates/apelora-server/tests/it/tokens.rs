//! Tokens of Keystone over HTTP: what is let in, what is told to the others, and what does not impress anybody.

use std::time::Duration;

use apelora_lab::keystone::Call;
use apelora_lab::redfish::{Reply, Whole};
use serde_json::{Value, json};

use crate::client::{self, Answer};
use crate::cloud::{Cloud, project, recorded, user, varied};

/// Headers by which a client might pass for somebody else.
const FORGED: [(&str, &str); 9] = [
    ("X-User-Id", "root"),
    ("X-User-Name", "root"),
    ("X-Roles", "admin,service"),
    ("X-Project-Id", "p"),
    ("X-Project-Name", "service"),
    ("X-Domain-Id", "default"),
    ("OpenStack-System-Scope", "all"),
    ("X-Is-Admin-Project", "True"),
    ("X-Identity-Status", "Confirmed"),
];

fn names(answer: &Answer) -> Vec<String> {
    let nodes = answer.json()["nodes"].as_array().unwrap().clone();
    nodes.iter().map(|node| node["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[track_caller]
fn is_challenge(answer: &Answer, url: &str) {
    assert_eq!(answer.status, 401, "{}", answer.body);
    assert_eq!(answer.header("www-authenticate"), Some(format!("Keystone uri=\"{url}\"").as_str()));
    assert_eq!(
        answer.json(),
        json!({"error": {"code": 401, "title": "Unauthorized",
                         "message": "The request you have made requires authentication."}})
    );
    assert!(answer.header("x-openstack-request-id").is_some());
}

#[tokio::test]
async fn without_a_token_that_counts_there_is_a_challenge() {
    let cloud = Cloud::start().await;
    let good = cloud.persona("system-admin");
    let revoked = cloud.persona("system-admin");
    cloud.keystone.service().forget(&revoked);
    let long = "a".repeat(8 * 1024 + 1);
    for headers in [
        vec![],
        vec![("X-Auth-Token", "")],
        vec![("X-Auth-Token", "garbage")],
        vec![("X-Auth-Token", revoked.as_str())],
        vec![("X-Auth-Token", long.as_str())],
        vec![("X-Auth-Token", "two words")],
        // Which of two would count is nobody's to guess.
        vec![("X-Auth-Token", good.as_str()), ("X-Auth-Token", "garbage")],
        vec![("X-Auth-Token", good.as_str()), ("X-Service-Token", "garbage")],
        vec![("X-Auth-Token", good.as_str()), ("X-Service-Token", long.as_str())],
        vec![("X-Auth-Token", "garbage"), ("X-Storage-Token", good.as_str())],
        vec![("Authorization", "Bearer garbage")],
        FORGED.to_vec(),
    ] {
        let answer = cloud.send(&headers, "GET", "/v1/nodes", None).await;
        is_challenge(&answer, &cloud.url);
        assert!(!answer.body.contains("garbage"));
    }
    // Refused before anything of the request is looked at.
    for (method, path) in [("GET", "/nope"), ("POST", "/v1/nodes"), ("GET", "/apelora/v1/maintenance")] {
        is_challenge(&cloud.send(&[], method, path, None).await, &cloud.url);
    }
    for headers in [
        vec![("X-Auth-Token", good.as_str())],
        vec![("X-Storage-Token", good.as_str())],
        vec![("X-Auth-Token", good.as_str()), ("X-Service-Token", "")],
    ] {
        cloud.send(&headers, "GET", "/v1/nodes", None).await.expect(200);
    }
    let spaced = format!("  {good}  ");
    cloud.send(&[("X-Auth-Token", &spaced)], "GET", "/v1/nodes", None).await.expect(200);
}

#[tokio::test]
async fn the_documents_are_open_to_all_and_nothing_else_is() {
    let cloud = Cloud::start().await;
    for path in ["/", "/v1", "/v1/"] {
        for headers in [vec![], vec![("X-Auth-Token", "garbage")], FORGED.to_vec()] {
            cloud.send(&headers, "GET", path, None).await.expect(200);
        }
    }
    assert_eq!(cloud.keystone.service().count(Call::Validate), 0, "Keystone was asked about an open path");
    for path in
        ["/v1/nodes", "/nodes", "/v1/heartbeat/ABC", "/v1%2F", "/v1/nodes/..%2f..%2fv1", "/v1/drivers"]
    {
        is_challenge(&cloud.send(&[], "GET", path, None).await, &cloud.url);
    }
    // The agents' paths are open in the reference; there is nothing behind them here.
    for path in ["/v1/lookup", "/v1/heartbeat/abc"] {
        cloud.send(&[], "GET", path, None).await.expect(404);
    }
}

#[tokio::test]
async fn identity_headers_beside_a_token_change_nothing() {
    let cloud = Cloud::start().await;
    let operator = cloud.persona("system-admin");
    let owner = project("owner-a-member");
    cloud.node(&operator, "n1", Some(&owner), None).await;
    let outsider = cloud.persona("outsider-member");
    let member = cloud.persona("owner-a-member");
    let with = |token| {
        let mut headers = vec![("X-Auth-Token", token)];
        headers.extend_from_slice(&FORGED);
        headers
    };
    let listed = cloud.send(&with(&outsider), "GET", "/v1/nodes", None).await.expect(200);
    assert_eq!(names(&listed), Vec::<String>::new());
    cloud.send(&with(&outsider), "GET", "/v1/nodes/n1", None).await.expect(404);
    let new = json!({"type": "operator_hold"});
    let entry = cloud.send(&with(&member), "POST", "/v1/nodes/n1/maintenance", Some(&new)).await.expect(201);
    let entry = entry.json();
    assert_eq!(entry["asserted_by"], user("owner-a-member").as_str());
    assert_eq!(entry["asserted_by_project"], owner.as_str());
    assert_eq!(entry["scope"], "owner");
}

#[tokio::test]
async fn a_service_token_gives_the_user_neither_scope_nor_role() {
    let cloud = Cloud::start().await;
    let operator = cloud.persona("system-admin");
    cloud.node(&operator, "n1", Some(&project("owner-a-member")), None).await;
    let outsider = cloud.persona("outsider-member");
    let services = [
        cloud.persona("system-service"),
        cloud.know(varied("system-admin", "s", None, &["admin", "service"])),
    ];
    for service in &services {
        let headers = [("X-Auth-Token", outsider.as_str()), ("X-Service-Token", service.as_str())];
        let listed = cloud.send(&headers, "GET", "/v1/nodes", None).await.expect(200);
        assert_eq!(names(&listed), Vec::<String>::new());
        cloud.send(&headers, "GET", "/v1/nodes/n1", None).await.expect(404);
    }
    // What is asserted through a service is the user's.
    let member = cloud.persona("owner-a-member");
    let headers = [("X-Auth-Token", member.as_str()), ("X-Service-Token", services[0].as_str())];
    let new = json!({"type": "operator_hold"});
    let entry = cloud.send(&headers, "POST", "/v1/nodes/n1/maintenance", Some(&new)).await.expect(201).json();
    assert_eq!(entry["asserted_by"], user("owner-a-member").as_str());
    assert_eq!(entry["scope"], "owner");
    // A token of nobody's service is none.
    let reader = cloud.persona("system-reader");
    let headers = [("X-Auth-Token", member.as_str()), ("X-Service-Token", reader.as_str())];
    is_challenge(&cloud.send(&headers, "GET", "/v1/nodes", None).await, &cloud.url);
}

#[tokio::test]
async fn roles_are_compared_without_regard_to_case_and_projects_with_it() {
    let cloud = Cloud::start().await;
    let operator = cloud.persona("system-admin");
    cloud.node(&operator, "n1", Some("ProjectA"), None).await;
    cloud.node(&operator, "unowned", None, None).await;
    cloud.node(&operator, "none", Some("None"), None).await;
    let shouting = cloud.know(varied("owner-a-member", "u", Some(("ProjectA", "a")), &["MEMBER", "Reader"]));
    let new = || Some(json!({"type": "operator_hold"}));
    cloud.call(&shouting, "POST", "/v1/nodes/n1/maintenance", new()).await.expect(201);
    let other = cloud.know(varied("owner-a-member", "u", Some(("projecta", "a")), &["member", "reader"]));
    cloud.call(&other, "GET", "/v1/nodes/n1", None).await.expect(404);
    // No owner is nobody's project, and a caller without a project is no owner, whatever roles its token names.
    let unscoped = cloud.know(varied("unscoped", "u", None, &["admin", "member", "reader"]));
    for node in ["unowned", "none", "n1"] {
        let path = format!("/v1/nodes/{node}/maintenance");
        for (method, body) in [("POST", new()), ("PUT", None), ("DELETE", None)] {
            cloud.call(&unscoped, method, &path, body).await.expect(404);
        }
    }
    // In the language of rules null has the text `None`; it gives no standing.
    let none = cloud.know(varied("owner-a-member", "u", Some(("None", "a")), &["member", "reader"]));
    let refused = cloud.call(&none, "POST", "/v1/nodes/unowned/maintenance", new()).await.expect(403);
    assert!(refused.fault().starts_with("Cannot add a maintenance entry"), "{}", refused.body);
    let entry = cloud.call(&none, "POST", "/v1/nodes/none/maintenance", new()).await.expect(201).json();
    assert_eq!(entry["scope"], "owner");
}

#[tokio::test]
async fn names_of_the_service_itself_let_nobody_in() {
    let cloud = Cloud::start().await;
    let long = "u".repeat(256);
    for id in ["conductor", "migration", "noauth", long.as_str()] {
        let token = cloud.know(varied("system-admin", id, None, &["admin", "member", "reader"]));
        is_challenge(&cloud.send(&[("X-Auth-Token", &token)], "GET", "/v1/nodes", None).await, &cloud.url);
    }
}

#[tokio::test]
async fn without_a_decision_the_answer_is_503_and_the_next_one_a_decision() {
    let cloud = Cloud::configured(
        |limits| {
            limits.cache = Duration::ZERO;
            limits.decision = Duration::from_secs(3);
            limits.connect = Duration::from_secs(2);
            limits.login_pause = Duration::ZERO;
        },
        |_| {},
    )
    .await;
    let token = cloud.persona("system-admin");
    cloud.call(&token, "GET", "/v1/nodes", None).await.expect(200);
    let keystone = cloud.keystone.service();
    let page = |status| Reply::Whole(Whole::json(status, &json!({"error": {"message": token}})));
    let hung = Reply::Later(Duration::from_secs(3_600), Box::new(Reply::Drop));
    let nonsense = Reply::Whole(Whole::json(200, &json!({})));
    for instead in [hung, Reply::Drop, page(500), page(503), page(403), nonsense] {
        keystone.set_instead(Call::Validate, Some(instead));
        let answer = cloud.call(&token, "GET", "/v1/nodes", None).await.expect(503);
        let after: u64 = answer.header("retry-after").expect("Retry-After").parse().unwrap();
        assert!(after >= 1);
        assert_eq!(
            answer.json(),
            json!({"error": {"code": 503, "title": "Service Unavailable",
                             "message": "The Keystone service is temporarily unavailable."}})
        );
        assert!(!answer.body.contains(&token), "the token stands in the answer");
        // Whoever has no token at all is told so meanwhile, and the documents are there.
        cloud.send(&[], "GET", "/v1/nodes", None).await.expect(401);
        cloud.send(&[], "GET", "/v1", None).await.expect(200);
        keystone.set_instead(Call::Validate, None);
        cloud.call(&token, "GET", "/v1/nodes", None).await.expect(200);
    }
    let figures = client::send(cloud.lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
    let line = figures
        .lines()
        .find(|line| line.starts_with("apelora_auth_undecided_total{why=\"keystone_unavailable\"}"));
    assert!(line.is_some_and(|line| !line.ends_with(" 0")), "{figures}");
}

#[tokio::test]
async fn access_rules_are_about_the_path_that_is_served() {
    let cloud = Cloud::start().await;
    let operator = cloud.persona("system-admin");
    let owner = project("owner-a-member");
    cloud.node(&operator, "n1", Some(&owner), None).await;
    let mut body = recorded("owner-a-appcred");
    body["token"]["project"]["id"] = Value::from(owner);
    body["token"]["application_credential"]["access_rules"] =
        json!([{"service": "baremetal", "method": "GET", "path": "/v1/nodes/*"}]);
    let token = cloud.know(body);
    let headers = [("X-Auth-Token", token.as_str())];
    for path in ["/v1/nodes/n1", "/v1/nodes/n%31"] {
        cloud.send(&headers, "GET", path, None).await.expect(200);
    }
    for (method, path) in [
        ("GET", "/v1/nodes"),
        ("GET", "/v1/nodes/n1/maintenance"),
        // Served as the path above it.
        ("GET", "/v1/nodes/n1%2Fmaintenance"),
        ("GET", "/nodes/n1"),
        ("DELETE", "/v1/nodes/n1"),
    ] {
        is_challenge(&cloud.send(&headers, method, path, None).await, &cloud.url);
    }
}

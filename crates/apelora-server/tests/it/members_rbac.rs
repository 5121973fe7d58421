//! Who may do what to members, the audit trail and the settings: every route for every recorded persona.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cloud::{Cloud, project};
use crate::lab;
use crate::night::{Night, report};

/// What a persona may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum May {
    Nothing,
    Read,
    Speak,
}

/// Every recorded persona.
const PERSONAS: [(&str, May); 24] = [
    ("system-admin", May::Speak),
    ("system-manager", May::Read),
    ("system-member", May::Read),
    ("system-reader", May::Read),
    ("system-service", May::Read),
    ("domain-admin", May::Nothing),
    ("cloud-admin", May::Nothing),
    ("unscoped", May::Nothing),
    ("owner-a-admin", May::Nothing),
    ("owner-a-manager", May::Nothing),
    ("owner-a-member", May::Nothing),
    ("owner-a-member2", May::Nothing),
    ("owner-a-reader", May::Nothing),
    ("owner-a-service", May::Nothing),
    ("owner-a-appcred", May::Nothing),
    ("lessee-a-admin", May::Nothing),
    ("lessee-a-manager", May::Nothing),
    ("lessee-a-member", May::Nothing),
    ("lessee-a-reader", May::Nothing),
    ("lessee-a-service", May::Nothing),
    ("both-member", May::Nothing),
    ("outsider-member", May::Nothing),
    ("ironic", May::Nothing),
    ("nova", May::Nothing),
];

/// Every route: method, path, body, rule, and what it takes.
fn routes(record: &str) -> Vec<(&'static str, String, Value, &'static str, May)> {
    let get = |path: &str, rule| ("GET", format!("/apelora/v1/{path}"), Value::Null, rule, May::Read);
    vec![
        get("members", "apelora:member:get"),
        get("members/s2", "apelora:member:get"),
        get("members/s2/explain", "apelora:member:get"),
        get("fence/records", "apelora:member:get"),
        get(&format!("fence/records/{record}"), "apelora:member:get"),
        get("audit", "apelora:audit:get"),
        get("audit?format=csv", "apelora:audit:get"),
        get("settings", "apelora:settings:get"),
        (
            "POST",
            "/apelora/v1/members/s2/confirm-off".to_owned(),
            json!({"member": "s2", "incarnation": 1, "reason": "r"}),
            "apelora:member:confirm_off",
            May::Speak,
        ),
        (
            "POST",
            "/apelora/v1/members/s2/trust".to_owned(),
            json!({"reason": "r"}),
            "apelora:member:trust",
            May::Speak,
        ),
    ]
}

async fn scene(cloud: &Cloud) -> String {
    // The lessee of the server itself sees nothing of its fencing either.
    let operator = cloud.persona("system-admin");
    let (owner, lessee) = (project("owner-a-member"), project("lessee-a-admin"));
    cloud.node(&operator, "s2", Some(&owner), Some(&lessee)).await;
    let night = Night::begin(&cloud.lab.store).await;
    night.lose(&["s2"]).await;
    let record = night.refuse("s2", apelora_fencing::ReasonCode::BmcUnreachable).await;
    night.publish(&report(&[("s1", "Online"), ("s2", "Offline"), ("s3", "Online")])).await;
    record
}

#[tokio::test]
async fn every_route_for_every_persona() {
    let folder = lab::root().join("tests/data/policy/keystone");
    let recorded: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            Some(name.strip_prefix("token-")?.strip_suffix(".json")?.to_owned())
        })
        .collect();
    assert_eq!(
        recorded,
        PERSONAS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        "every persona has a line"
    );

    let cloud = Cloud::start().await;
    let record = scene(&cloud).await;
    let before = audit_rows(&cloud).await;
    let mut cases = 0;
    for (persona, may) in PERSONAS.iter().filter(|(_, may)| *may != May::Speak) {
        let token = cloud.persona(persona);
        for (method, path, body, rule, takes) in routes(&record) {
            let answer = cloud.call(&token, method, &path, Some(body).filter(|body| !body.is_null())).await;
            let at = format!("{persona} {method} {path}: {} {}", answer.status, answer.body);
            if *may >= takes {
                assert_eq!(answer.status, 200, "{at}");
            } else {
                assert_eq!(answer.status, 403, "{at}");
                assert_eq!(
                    answer.fault(),
                    format!("Access was denied to the following resource: {rule}"),
                    "{at}"
                );
                // Whether there is such a member is not told either.
                let other = path.replace("s2", "s9").replace(&record, "x");
                let other = cloud.call(&token, method, &other, None).await;
                assert_eq!((other.status, other.fault()), (403, answer.fault()), "{at}");
            }
            cases += 1;
        }
    }
    assert_eq!(audit_rows(&cloud).await, before, "nobody of these changed anything");
    let operator = cloud.persona("system-admin");
    for (method, path, body, _, _) in routes(&record) {
        let body = Some(body).filter(|body| !body.is_null());
        cloud.call(&operator, method, &path, body.clone()).await.expect(200);
        let answer = cloud.send(&[], method, &path, body.as_ref()).await;
        assert_eq!(answer.status, 401, "{method} {path}");
        let answer = cloud.send(&[("X-Auth-Token", "unknown")], method, &path, body.as_ref()).await;
        assert_eq!(answer.status, 401, "{method} {path}");
        cases += 3;
    }
    // What the operator said stands under the operator's name.
    let rows =
        cloud.call(&operator, "GET", "/apelora/v1/audit?action=cluster.member.confirmed_off", None).await;
    assert_eq!(rows.expect(200).json()["audit"][0]["user"], crate::cloud::user("system-admin"));
    println!("{cases} cases");
    assert!(cases >= 260, "only {cases} cases");
}

async fn audit_rows(cloud: &Cloud) -> usize {
    let all = apelora_store::AuditQuery { limit: 10_000, ..apelora_store::AuditQuery::default() };
    cloud.lab.store.audit(&all).await.unwrap().len()
}

#[tokio::test]
async fn in_an_older_deployment_project_admins_are_operators_here_too() {
    let cloud = Cloud::configured(
        |_| {},
        |server| {
            server.policy.settings.enforce_new_defaults = false;
            server.policy.authority.project_admin_is_system = true;
        },
    )
    .await;
    let record = scene(&cloud).await;
    for (persona, may) in [("owner-a-admin", true), ("owner-a-member", false), ("lessee-a-reader", false)] {
        let token = cloud.persona(persona);
        for (method, path, body, _, _) in routes(&record) {
            let answer = cloud.call(&token, method, &path, Some(body).filter(|body| !body.is_null())).await;
            assert_eq!(
                answer.status,
                if may { 200 } else { 403 },
                "{persona} {method} {path}: {}",
                answer.body
            );
        }
    }
}

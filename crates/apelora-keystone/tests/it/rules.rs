//! Access rules, service tokens, and tokens that are refused before anybody is asked.

use apelora_keystone::{Identity, Invalid, LONGEST_TOKEN, Question, Refusal, Token};
use apelora_lab::keystone::Call;
use serde_json::json;

use crate::support::{Lab, NOW, body, far, token};

fn with_rules(rules: &serde_json::Value) -> serde_json::Value {
    let mut body = body("owner-a-appcred");
    body["token"]["application_credential"]["access_rules"] = rules.clone();
    body
}

async fn ask(lab: &Lab, raw: &str, method: &str, path: &str) -> Result<Identity, Refusal> {
    let token = token(raw);
    let question = Question { token: &token, service_token: None, method, path };
    lab.validator.validate(&question, NOW, far()).await
}

#[tokio::test(start_paused = true)]
async fn rules_are_enforced_on_remembered_answers_too() {
    let lab = Lab::new();
    lab.keystone().know(
        "ruled",
        with_rules(&json!([
            {"id": "1", "service": "baremetal", "method": "GET", "path": "/v1/nodes/**"},
            {"id": "2", "service": "baremetal", "method": "PUT", "path": "/v1/nodes/{node}/maintenance"},
            {"id": "3", "service": "compute", "method": "DELETE", "path": "/v1/nodes/**"},
        ])),
    );
    for (method, path, allowed) in [
        ("GET", "/v1/nodes/a", true),
        ("GET", "/v1/nodes/a/maintenance", true),
        ("GET", "/v1/nodes", false),
        ("GET", "/v1/chassis", false),
        ("PUT", "/v1/nodes/a/maintenance", true),
        ("PUT", "/v1/nodes/a/states/power", false),
        ("POST", "/v1/nodes/a/maintenance", false),
        ("DELETE", "/v1/nodes/a", false),
    ] {
        let outcome = ask(&lab, "ruled", method, path).await;
        if allowed {
            assert_eq!(outcome.unwrap().access_rules.unwrap().len(), 3, "{method} {path}");
        } else {
            assert_eq!(outcome, Err(Refusal::Invalid(Invalid::AccessRules)), "{method} {path}");
        }
    }
    assert_eq!(lab.asked().0, 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_rules_allows_nothing() {
    let lab = Lab::new();
    lab.keystone().know("ruled", with_rules(&json!([])));
    let refused = Err(Refusal::Invalid(Invalid::AccessRules));
    assert_eq!(ask(&lab, "ruled", "GET", "/v1/nodes").await, refused);
}

/// The rules are about the user's request to the service that passes it on.
#[tokio::test(start_paused = true)]
async fn a_service_may_pass_on_what_the_rules_do_not_name() {
    let lab = Lab::new();
    let rules = json!([{"service": "compute", "method": "POST", "path": "/v2.1/servers"}]);
    lab.keystone().know("ruled", with_rules(&rules));
    lab.keystone().know("service", body("nova"));
    assert!(lab.ask_with("ruled", "service").await.is_ok());
    assert_eq!(lab.ask("ruled").await, Err(Refusal::Invalid(Invalid::AccessRules)));
    lab.keystone().know("no-service", body("outsider-member"));
    assert_eq!(lab.ask_with("ruled", "no-service").await, Err(Refusal::Invalid(Invalid::ServiceRole)));
}

#[tokio::test(start_paused = true)]
async fn a_service_token_must_be_valid_and_a_service() {
    let lab = Lab::new();
    lab.keystone().know("user", body("owner-a-member"));
    lab.keystone().know("admin", body("system-admin"));
    assert_eq!(lab.ask_with("user", "garbage").await, Err(Refusal::Invalid(Invalid::ServiceToken)));
    assert_eq!(lab.ask_with("user", "admin").await, Err(Refusal::Invalid(Invalid::ServiceRole)));
    // The user's own token is not even looked at then.
    assert!(lab.keystone().last(Call::Validate).unwrap().header("x-subject-token") == Some("admin"));
    lab.keystone().know("service", body("nova"));
    let identity = lab.ask_with("user", "service").await.unwrap();
    assert_eq!(identity.service.unwrap().roles, ["service"]);
    assert!(identity.roles.contains(&"member".to_owned()));
    assert!(!identity.roles.contains(&"service".to_owned()));
    assert_eq!(lab.ask("user").await.unwrap().service, None);
}

#[tokio::test(start_paused = true)]
async fn a_system_service_token_gives_its_scope_to_nobody() {
    let lab = Lab::new();
    lab.keystone().know("service", body("system-service"));
    for user in ["outsider-member", "owner-a-admin", "domain-admin", "unscoped"] {
        lab.keystone().know(user, body(user));
        assert_eq!(lab.ask_with(user, "service").await.unwrap().system_scope, None, "{user}");
    }
    lab.keystone().know("system-reader", body("system-reader"));
    let own = lab.ask_with("system-reader", "service").await.unwrap();
    assert_eq!(own.system_scope.as_deref(), Some("all"));
    assert_eq!(own.roles, ["reader"]);
}

#[tokio::test(start_paused = true)]
async fn only_a_service_may_bring_an_expired_token() {
    let lab = Lab::new();
    lab.keystone().know("service", body("nova"));
    let mut old = body("owner-a-member");
    old["token"]["expires_at"] = json!("2026-11-29T20:00:00.000000Z");
    lab.keystone().know_expired("old", old);
    assert_eq!(lab.ask("old").await, Err(Refusal::Invalid(Invalid::Unknown)));
    assert!(lab.ask_with("old", "service").await.is_ok());
    let seen = lab.keystone().last(Call::Validate).unwrap();
    assert_eq!(seen.path, "/v3/auth/tokens?nocatalog&allow_expired=1");
    // Remembered for the service, and for nobody else.
    let asked = lab.asked().0;
    assert!(lab.ask_with("old", "service").await.is_ok());
    assert_eq!(lab.ask("old").await, Err(Refusal::Invalid(Invalid::Unknown)));
    assert_eq!(lab.asked().0, asked);
}

#[tokio::test(start_paused = true)]
async fn what_counts_for_anybody_also_counts_for_a_service() {
    let lab = Lab::new();
    lab.keystone().know("service", body("nova"));
    lab.keystone().know("user", body("owner-a-member"));
    assert!(lab.ask("user").await.is_ok());
    assert!(lab.ask_with("user", "service").await.is_ok());
    assert_eq!(lab.asked().0, 2, "the user's token was remembered");
    // Once it has expired it is another question.
    let (user, service) = (token("user"), token("service"));
    let question = Question { token: &user, service_token: Some(&service), method: "GET", path: "/v1/nodes" };
    let after = lab.ask("user").await.unwrap().expires_at;
    let refused = lab.validator.validate(&question, after, far()).await;
    assert_eq!(refused, Err(Refusal::Invalid(Invalid::ServiceToken)), "the service's own has expired too");
}

#[tokio::test(start_paused = true)]
async fn keystone_is_not_asked_about_what_can_be_no_token() {
    let lab = Lab::new();
    for raw in
        [String::new(), "x".repeat(LONGEST_TOKEN + 1), "two words".into(), "a\r\nX-Roles: admin".into()]
    {
        assert!(Token::read(raw.as_bytes()).is_err());
    }
    assert_eq!(lab.ask(&"x".repeat(LONGEST_TOKEN)).await, Err(Refusal::Invalid(Invalid::Unknown)));
    assert_eq!(lab.asked().0, 1);
}

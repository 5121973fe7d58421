//! Against a real Keystone, which `scripts/suites/keystone` installs and starts.

mod lab;

use std::time::Duration;

use apelora_http::Method;
use apelora_keystone::{Invalid, OwnTrouble, Refusal, Trouble, Validator};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use lab::{Real, ask, ask_for, decision, now};

const UNKNOWN: Refusal = Refusal::Invalid(Invalid::Unknown);

/// The server must have answered 503 after six seconds; a second of them is its own.
const AT_LAST: Duration = Duration::from_secs(6);

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_every_persona_is_who_it_is() {
    let real = Real::take();
    let validator = real.validator("ironic");
    for one in real.personas() {
        let name = one["persona"].as_str().unwrap();
        let token = real.token(name).await;
        let identity = decision(&validator, &token).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(identity.user_id, one["user_id"], "{name}");
        assert_eq!(identity.user_domain_id.as_deref(), Some("default"), "{name}");
        let scope = one["scope"].as_str().unwrap();
        let project = if scope == "application_credential" || scope == "project" {
            one["project_id"].as_str()
        } else {
            None
        };
        assert_eq!(identity.project_id.as_deref(), project, "{name}");
        assert_eq!(identity.system_scope.as_deref(), (scope == "system").then_some("all"), "{name}");
        assert_eq!(identity.domain_id.as_deref(), (scope == "domain").then_some("default"), "{name}");
        let mut roles = identity.roles.clone();
        roles.sort();
        let implied: &[&str] = match (scope, one["role"].as_str().unwrap()) {
            ("none", _) => &[],
            (_, "admin") => &["admin", "manager", "member", "reader"],
            (_, "manager") => &["manager", "member", "reader"],
            (_, "member") => &["member", "reader"],
            (_, "reader") => &["reader"],
            (_, "service") => &["service"],
            other => panic!("{other:?}"),
        };
        assert_eq!(roles, implied, "{name}");
        assert!(identity.expires_at > now(), "{name}");
        assert_eq!(identity.access_rules.is_some(), name.ends_with("-rules"), "{name}");
    }
    println!("{} personas", real.personas().len());
    assert!(real.personas().len() >= 35);
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_tokens_that_do_not_count_any_more() {
    let real = Real::take();
    let validator = real.validator("ironic");
    let token = real.token("outsider-member").await;
    assert!(decision(&validator, &token).await.is_ok());
    assert!(decision(&validator, &format!("{token}==")).await.is_ok(), "padding");
    for bad in ["garbage", &token[..token.len() - 9], &token.replacen('A', "B", 20), &"x".repeat(8 * 1024)] {
        let refused = decision(&validator, bad).await;
        assert_eq!(refused, Err(UNKNOWN), "{} bytes", bad.len());
    }

    real.revoke(&token).await;
    assert_eq!(decision(&validator, &token).await, Err(UNKNOWN), "revoked");

    let token = real.token("outsider-member").await;
    let user = real.persona("outsider-member")["user_id"].as_str().unwrap();
    let role = format!(
        "/v3/projects/{}/users/{user}/roles/{}",
        real.id("projects", "outsider"),
        real.id("roles", "member")
    );
    real.admin(Method::Delete, &role, &Value::Null).await;
    assert_eq!(decision(&validator, &token).await, Err(UNKNOWN), "role taken away");
    real.admin(Method::Put, &role, &Value::Null).await;
    assert!(decision(&validator, &token).await.is_ok(), "role given back");

    let enabled = |enabled: bool| json!({"user": {"enabled": enabled}});
    let path = format!("/v3/users/{user}");
    real.admin(Method::Patch, &path, &enabled(false)).await;
    assert_eq!(decision(&validator, &token).await, Err(UNKNOWN), "user disabled");
    real.admin(Method::Patch, &path, &enabled(true)).await;
    assert_eq!(decision(&validator, &token).await, Err(UNKNOWN), "an old token does not come back");
    // Keystone revokes what was issued up to the end of this second.
    sleep(Duration::from_millis(1_500)).await;
    let token = real.token("outsider-member").await;
    assert!(decision(&validator, &token).await.is_ok());
}

/// With the cache a revocation counts when the cache time is over (`docs/keystone.md`); without it, at once.
#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_a_remembered_token_outlives_its_revocation() {
    let real = Real::take();
    let validator = Validator::new(real.config("ironic")).unwrap();
    let token = real.token("outsider-member").await;
    assert!(decision(&validator, &token).await.is_ok());
    real.revoke(&token).await;
    assert!(ask(&validator, &token).await.is_ok());
    assert_eq!(decision(&real.validator("ironic"), &token).await, Err(UNKNOWN));
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_access_rules_and_service_tokens() {
    let real = Real::take();
    let validator = Validator::new(real.config("ironic")).unwrap();
    let token = real.token("owner-a-appcred-rules").await;
    assert_eq!(decision(&validator, &token).await.unwrap().access_rules.unwrap().len(), 2);
    for (method, path, allowed) in [
        ("GET", "/v1/nodes", true),
        ("GET", "/v1/nodes/a/maintenance", true),
        ("POST", "/v1/nodes", false),
        ("PUT", "/v1/nodes/a/maintenance", false),
        ("GET", "/v1/chassis", false),
    ] {
        let refused = Err(Refusal::Invalid(Invalid::AccessRules));
        let outcome = ask_for(&validator, &token, None, method, path).await;
        assert_eq!(outcome.map(drop), if allowed { Ok(()) } else { refused }, "{method} {path}");
    }

    let (user, nova) = (real.token("owner-a-admin").await, real.token("nova").await);
    let system = real.token("system-service").await;
    let reader = real.token("owner-a-reader").await;
    for known in [&user, &nova, &system, &reader] {
        assert!(decision(&validator, known).await.is_ok());
    }
    let passed_on = ask_for(&validator, &user, Some(&nova), "GET", "/v1/nodes").await.unwrap();
    assert_eq!(passed_on.service.unwrap().user_id, real.persona("nova")["user_id"]);
    let passed_on = ask_for(&validator, &user, Some(&system), "GET", "/v1/nodes").await.unwrap();
    assert_eq!(passed_on.system_scope, None);
    let refused = ask_for(&validator, &user, Some(&reader), "GET", "/v1/nodes").await;
    assert_eq!(refused, Err(Refusal::Invalid(Invalid::ServiceRole)));
    let refused = ask_for(&validator, &user, Some("garbage"), "GET", "/v1/nodes").await;
    assert_eq!(refused, Err(Refusal::Invalid(Invalid::ServiceToken)));
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_an_account_that_does_not_work_is_told_apart() {
    let real = Real::take();
    let token = real.token("owner-a-reader").await;

    let mut config = real.config("ironic");
    config.credentials.password = "wrong".into();
    let refused = decision(&Validator::new(config).unwrap(), &token).await;
    assert!(
        matches!(refused, Err(Refusal::OwnCredentials { why: OwnTrouble::Login(401), .. })),
        "wrong password: {refused:?}"
    );

    let mut config = real.config("ironic");
    config.credentials.project_name = "owner-a".to_owned();
    let refused = decision(&Validator::new(config).unwrap(), &token).await;
    assert!(
        matches!(refused, Err(Refusal::OwnCredentials { why: OwnTrouble::Login(401), .. })),
        "no role in the project: {refused:?}"
    );

    let refused = decision(&real.validator("outsider-member"), &token).await;
    assert!(
        matches!(refused, Err(Refusal::OwnCredentials { why: OwnTrouble::Forbidden, .. })),
        "no right to validate: {refused:?}"
    );
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_our_own_token_is_replaced_when_it_was_revoked() {
    let real = Real::take();
    let validator = real.validator("ironic");
    let token = real.token("owner-a-member").await;
    assert!(decision(&validator, &token).await.is_ok());
    // Disabling a user revokes its tokens for good.
    let path = format!("/v3/users/{}", real.persona("ironic")["user_id"].as_str().unwrap());
    real.admin(Method::Patch, &path, &json!({"user": {"enabled": false}})).await;
    real.admin(Method::Patch, &path, &json!({"user": {"enabled": true}})).await;
    // Keystone revokes what was issued up to the end of this second.
    sleep(Duration::from_millis(1_500)).await;
    assert!(decision(&validator, &token).await.is_ok());
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_expired_tokens_and_our_own_short_one() {
    let real = Real::take();
    real.stop();
    real.start(10);
    let validator = real.validator("ironic");
    let old = real.token("owner-a-member").await;
    assert!(decision(&validator, &old).await.is_ok());
    let expires = decision(&validator, &old).await.map(|known| known.expires_at);
    // A real clock cannot be moved; our own token ends in this time, too.
    sleep(Duration::from_secs(11)).await;
    assert!(expires.is_ok_and(|at| at < now()));
    assert_eq!(decision(&validator, &old).await, Err(UNKNOWN));
    let nova = real.token("nova").await;
    let passed_on = ask_for(&validator, &old, Some(&nova), "GET", "/v1/nodes").await;
    assert_eq!(passed_on.unwrap().user_id, real.persona("owner-a-member")["user_id"]);
    let fresh = real.token("owner-a-member").await;
    assert!(decision(&validator, &fresh).await.is_ok());
    real.stop();
    real.start(3600);
}

async fn no_decision_in_time(validator: &Validator, token: &str) -> Trouble {
    let outcome = timeout(AT_LAST, ask(validator, token)).await.expect("an answer within six seconds");
    match outcome {
        Err(Refusal::Unavailable { why, retry_after }) => {
            assert!(!retry_after.is_zero());
            why
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_keystone_stopped_and_back() {
    let real = Real::take();
    let validator = real.validator("ironic");
    let token = real.token("owner-a-member").await;
    assert!(decision(&validator, &token).await.is_ok());
    real.stop();
    for _ in 0..3 {
        let why = no_decision_in_time(&validator, &token).await;
        assert!(matches!(why, Trouble::Unreachable(_)), "{why:?}");
    }
    // One that was never reached yet is no worse off.
    let another = real.validator("ironic");
    no_decision_in_time(&another, &token).await;
    real.start(3600);
    assert!(decision(&validator, &token).await.is_ok());
    assert!(decision(&another, &token).await.is_ok());
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_keystone_hung_and_back() {
    let real = Real::take();
    let validator = real.validator("ironic");
    let token = real.token("owner-a-member").await;
    assert!(decision(&validator, &token).await.is_ok());
    let frozen = real.freeze();
    for _ in 0..2 {
        assert_eq!(no_decision_in_time(&validator, &token).await, Trouble::Deadline);
    }
    let another = real.validator("ironic");
    assert_eq!(no_decision_in_time(&another, &token).await, Trouble::Deadline);
    drop(frozen);
    assert!(decision(&validator, &token).await.is_ok());
    assert!(decision(&another, &token).await.is_ok());
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_keystone_slow() {
    let real = Real::take();
    let validator = real.validator("ironic");
    let token = real.token("owner-a-member").await;
    assert!(decision(&validator, &token).await.is_ok());
    let frozen = real.freeze();
    let asking = tokio::spawn({
        let (validator, token) = (validator.clone(), token.clone());
        async move { ask(&validator, &token).await }
    });
    sleep(Duration::from_secs(2)).await;
    drop(frozen);
    // On a machine that is busy enough it comes too late; wrong it never is.
    match asking.await.unwrap() {
        Ok(identity) => assert_eq!(identity.user_id, real.persona("owner-a-member")["user_id"]),
        Err(why) => assert!(matches!(why, Refusal::Unavailable { why: Trouble::Deadline, .. }), "{why:?}"),
    }
    assert!(decision(&validator, &token).await.is_ok());
}

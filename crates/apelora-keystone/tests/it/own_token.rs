//! The service's own token: got, renewed, replaced, refused.

use std::time::Duration;

use apelora_keystone::{OwnTrouble, Refusal};
use apelora_lab::keystone::{Call, Keystone};
use apelora_lab::redfish::{Reply, Whole};
use tokio::task::JoinSet;
use tokio::time::{advance, sleep};

use crate::support::{Lab, PASSWORD, body};

fn lab() -> Lab {
    let lab = Lab::with(|l| l.cache = Duration::ZERO);
    lab.keystone().know("the-token", body("nova"));
    lab
}

async fn own_trouble(lab: &Lab) -> (OwnTrouble, Duration) {
    match lab.ask("the-token").await {
        Err(Refusal::OwnCredentials { why, retry_after }) => (why, retry_after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_got_once_and_sent_as_the_service() {
    let lab = lab();
    assert_eq!(lab.validator.log_in().await, Ok(()));
    for _ in 0..5 {
        assert!(lab.ask("the-token").await.is_ok());
    }
    assert_eq!(lab.asked(), (5, 1));
    let seen = lab.keystone().last(Call::Validate).unwrap();
    assert_eq!(seen.path, "/v3/auth/tokens?nocatalog");
    assert_eq!(seen.header("x-auth-token"), Some("own-token-1"));
    assert_eq!(seen.header("x-subject-token"), Some("the-token"));
    assert_eq!(seen.header("openstack-identity-access-rules"), Some("1.0"));
    assert_eq!(lab.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_early_and_beside_the_requests() {
    let lab = lab();
    lab.keystone().set_life("2026-11-30T00:00:00Z", "2026-11-30T00:01:40Z");
    assert!(lab.ask("the-token").await.is_ok());
    advance(Duration::from_secs(79)).await;
    assert!(lab.ask("the-token").await.is_ok());
    assert_eq!(lab.asked().1, 1);

    // The request does not wait for the renewal, even if it hangs.
    lab.keystone()
        .set_instead(Call::LogIn, Some(Reply::Later(Duration::from_secs(60), Box::new(Reply::Drop))));
    advance(Duration::from_secs(1)).await;
    assert!(lab.ask("the-token").await.is_ok());
    sleep(Duration::from_millis(10)).await;
    assert_eq!(lab.asked().1, 2);
    assert!(lab.ask("the-token").await.is_ok());
    assert_eq!(lab.asked().1, 2, "one renewal at a time");

    lab.keystone().set_instead(Call::LogIn, None);
    sleep(Duration::from_secs(6)).await;
    assert!(lab.ask("the-token").await.is_ok());
    sleep(Duration::from_millis(10)).await;
    assert!(lab.ask("the-token").await.is_ok());
    assert_eq!(lab.asked().1, 3);
    assert_eq!(lab.keystone().last(Call::Validate).unwrap().header("x-auth-token"), Some("own-token-2"));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_no_trouble_before_the_old_one_dies() {
    let lab = lab();
    lab.keystone().set_life("2026-11-30T00:00:00Z", "2026-11-30T00:01:40Z");
    assert!(lab.ask("the-token").await.is_ok());
    lab.keystone().set_instead(Call::LogIn, Some(Reply::Whole(Whole::empty(500))));
    for _ in 0..19 {
        // Unlike `advance`, this lets the renewal come to its end.
        sleep(Duration::from_secs(5)).await;
        for _ in 0..3 {
            assert!(lab.ask("the-token").await.is_ok());
            sleep(Duration::from_millis(1)).await;
        }
    }
    let renewals = lab.asked().1 - 1;
    assert!((3..=4).contains(&renewals), "{renewals} tries in the last 20 s");
    sleep(Duration::from_secs(6)).await;
    assert!(matches!(lab.ask("the-token").await, Err(Refusal::Unavailable { .. })));
    lab.keystone().set_instead(Call::LogIn, None);
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_refused_one_is_replaced_once_for_all() {
    let lab = lab();
    assert!(lab.ask("the-token").await.is_ok());
    lab.keystone().forget_own();
    let mut all = JoinSet::new();
    for n in 0..30 {
        let token = format!("token-{n}");
        lab.keystone().know(&token, body("nova"));
        let lab = lab.clone();
        all.spawn(async move { lab.ask(&token).await.unwrap().user_name });
    }
    assert_eq!(all.join_all().await.len(), 30);
    assert_eq!(lab.asked().1, 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_one_that_is_refused_too_is_our_trouble() {
    let lab = lab();
    let refused = Whole::json(401, &serde_json::json!({"error": {"code": 401, "message": "-"}}));
    lab.keystone().set_instead(Call::Validate, Some(Reply::Whole(refused)));
    assert_eq!(own_trouble(&lab).await, (OwnTrouble::TokenRefused, Duration::from_secs(5)));
    assert_eq!(lab.asked(), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_account_without_the_role_is_our_trouble() {
    let lab = lab();
    let refused = Whole::json(403, &serde_json::json!({"error": {"code": 403, "message": "-"}}));
    lab.keystone().set_instead(Call::Validate, Some(Reply::Whole(refused)));
    assert_eq!(own_trouble(&lab).await.0, OwnTrouble::Forbidden);
    lab.keystone().set_instead(Call::Validate, None);
    assert!(lab.ask("the-token").await.is_ok(), "once it has the role");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_not_tried_again_at_once() {
    let lab = lab();
    lab.keystone().set_account(Keystone::account("apelora", "another", "service", "Default"));
    assert_eq!(own_trouble(&lab).await, (OwnTrouble::Login(401), Duration::from_secs(30)));
    advance(Duration::from_secs(20)).await;
    for _ in 0..10 {
        let (why, retry_after) = own_trouble(&lab).await;
        assert_eq!(why, OwnTrouble::Login(401));
        assert!((9..=10).contains(&retry_after.as_secs()), "{retry_after:?}");
    }
    assert_eq!(lab.asked(), (0, 1));

    // The operator repairs it in Keystone: no restart is needed.
    lab.keystone().set_account(Keystone::account("apelora", PASSWORD, "service", "Default"));
    advance(Duration::from_secs(11)).await;
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_log_in_that_tells_too_little_is_no_log_in() {
    let lab = lab();
    let times = |issued: &str, expires: &str| serde_json::json!({"token": {"issued_at": issued, "expires_at": expires}});
    let good = times("2026-11-30T00:00:00.000000Z", "2026-11-30T01:00:00.000000Z");
    let with =
        |body: &serde_json::Value, token: &str| Whole::json(201, body).with_header("X-Subject-Token", token);
    for answer in [
        Whole::json(201, &good),
        with(&good, ""),
        with(&good, "two words"),
        with(&good, &"x".repeat(9_000)),
        with(&serde_json::json!({}), "t"),
        with(&times("now", "later"), "t"),
        with(&times("2026-11-30T01:00:00Z", "2026-11-30T00:00:00Z"), "t"),
        with(&times("2026-11-30T01:00:00Z", "2026-11-30T01:00:00Z"), "t"),
        Whole::empty(201),
        Whole::empty(200),
    ] {
        lab.keystone().set_instead(Call::LogIn, Some(Reply::Whole(answer.clone())));
        let refused = lab.ask("the-token").await;
        assert!(matches!(refused, Err(Refusal::Unavailable { .. })), "{answer:?} {refused:?}");
    }
    assert_eq!(lab.asked().0, 0);
    // A life beyond all reason is not believed, and breaks nothing.
    let ages = with(&times("0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z"), "own-token-x");
    lab.keystone().set_instead(Call::LogIn, Some(Reply::Whole(ages)));
    assert_eq!(lab.validator.log_in().await, Ok(()));
}

//! One request per token, what is remembered, and for how long.

use std::time::Duration;

use apelora_keystone::{Invalid, Refusal, Trouble};
use apelora_lab::keystone::Call;
use apelora_lab::redfish::{Reply, Whole};
use time::macros::datetime;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};

use crate::support::{Lab, NOW, body};

const UNKNOWN: Refusal = Refusal::Invalid(Invalid::Unknown);

fn slowly(seconds: u64, persona: &str) -> Option<Reply> {
    let answer = Reply::Whole(Whole::json(200, &body(persona)));
    Some(Reply::Later(Duration::from_secs(seconds), Box::new(answer)))
}

#[tokio::test(start_paused = true)]
async fn a_hundred_who_ask_at_once_are_one_request() {
    for limits in [Duration::from_secs(300), Duration::ZERO] {
        let lab = Lab::with(|l| l.cache = limits);
        lab.keystone().set_instead(Call::Validate, slowly(1, "nova"));
        let mut all = JoinSet::new();
        for _ in 0..100 {
            let lab = lab.clone();
            all.spawn(async move { lab.ask("the-token").await.unwrap().user_name });
        }
        assert_eq!(all.join_all().await, vec!["nova"; 100]);
        assert_eq!(lab.asked(), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_on_several_threads_are_one_request() {
    let lab = Lab::new();
    lab.keystone().know("the-token", body("nova"));
    let mut all = JoinSet::new();
    for _ in 0..100 {
        let lab = lab.clone();
        all.spawn(async move { lab.ask("the-token").await.unwrap().user_name });
    }
    assert_eq!(all.join_all().await, vec!["nova"; 100]);
    assert_eq!(lab.asked(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_question_goes_on_when_the_first_asker_leaves() {
    let lab = Lab::new();
    lab.keystone().set_instead(Call::Validate, slowly(2, "nova"));
    let first = tokio::spawn({
        let lab = lab.clone();
        async move { lab.ask("the-token").await }
    });
    sleep(Duration::from_millis(500)).await;
    let second = tokio::spawn({
        let lab = lab.clone();
        async move { lab.ask("the-token").await }
    });
    sleep(Duration::from_millis(500)).await;
    first.abort();
    assert_eq!(second.await.unwrap().unwrap().user_name, "nova");
    assert_eq!(lab.asked(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_joins_late_has_all_of_its_time() {
    let lab = Lab::new();
    lab.keystone().set_instead(Call::Validate, slowly(3600, "nova"));
    let first = tokio::spawn({
        let lab = lab.clone();
        async move { lab.ask("the-token").await }
    });
    sleep(Duration::from_millis(4_900)).await;
    lab.keystone().set_instead(Call::Validate, slowly(3, "nova"));
    assert_eq!(lab.ask("the-token").await.unwrap().user_name, "nova");
    assert!(first.await.unwrap().is_err());
    assert_eq!(lab.asked(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_valid_token_is_remembered_for_the_cache_time() {
    let lab = Lab::new();
    lab.keystone().know("the-token", body("nova"));
    for _ in 0..3 {
        assert!(lab.ask("the-token").await.is_ok());
    }
    assert_eq!(lab.asked().0, 1);

    // Revoked: it works until the cache time is over, and no longer.
    lab.keystone().forget("the-token");
    advance(Duration::from_secs(299)).await;
    assert!(lab.ask("the-token").await.is_ok());
    advance(Duration::from_secs(2)).await;
    assert_eq!(lab.ask("the-token").await, Err(UNKNOWN));
    assert_eq!(lab.asked().0, 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_a_revocation_counts_at_once() {
    let lab = Lab::with(|l| (l.cache, l.refusal_cache) = (Duration::ZERO, Duration::ZERO));
    lab.keystone().know("the-token", body("nova"));
    assert!(lab.ask("the-token").await.is_ok());
    lab.keystone().forget("the-token");
    assert_eq!(lab.ask("the-token").await, Err(UNKNOWN));
    lab.keystone().know("the-token", body("nova"));
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_remembered_token_ends_when_it_expires() {
    let lab = Lab::new();
    lab.keystone().know("the-token", body("nova"));
    let expires = lab.ask("the-token").await.unwrap().expires_at;
    assert!(expires > NOW);
    assert!(lab.ask_at("the-token", expires - Duration::from_micros(1)).await.is_ok());
    assert_eq!(lab.ask_at("the-token", expires).await, Err(Refusal::Invalid(Invalid::Expired)));
    assert_eq!(lab.asked().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_expired_here_does_not_count_whatever_keystone_says() {
    let lab = Lab::new();
    lab.keystone().know("the-token", body("nova"));
    let late = datetime!(2026-11-30 09:00 UTC);
    assert_eq!(lab.ask_at("the-token", late).await, Err(Refusal::Invalid(Invalid::Expired)));
    // Time passes while Keystone is asked, too.
    let lab = Lab::new();
    let expires = {
        lab.keystone().know("other", body("nova"));
        lab.ask("other").await.unwrap().expires_at
    };
    lab.keystone().set_instead(Call::Validate, slowly(3, "nova"));
    let just_before = expires - Duration::from_secs(2);
    assert_eq!(lab.ask_at("the-token", just_before).await, Err(Refusal::Invalid(Invalid::Expired)));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_token_is_remembered_for_a_moment() {
    let lab = Lab::new();
    for _ in 0..10 {
        assert_eq!(lab.ask("the-token").await, Err(UNKNOWN));
    }
    assert_eq!(lab.asked().0, 1);
    // Such as one whose role was given back.
    lab.keystone().know("the-token", body("nova"));
    advance(Duration::from_secs(5)).await;
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_decision_is_not_remembered() {
    let lab = Lab::new();
    lab.keystone().set_instead(Call::Validate, Some(Reply::Whole(Whole::empty(500))));
    assert!(matches!(lab.ask("the-token").await, Err(Refusal::Unavailable { .. })));
    lab.keystone().set_instead(Call::Validate, None);
    lab.keystone().know("the-token", body("nova"));
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_garbage_drives_out_garbage_only() {
    let lab = Lab::with(|l| (l.cache_entries, l.refusal_cache_entries) = (2, 2));
    for token in ["a", "b", "c"] {
        lab.keystone().know(token, body("nova"));
        assert!(lab.ask(token).await.is_ok());
    }
    for n in 0..50 {
        assert_eq!(lab.ask(&format!("garbage-{n}")).await, Err(UNKNOWN));
    }
    assert_eq!(lab.asked().0, 53);
    assert!(lab.ask("b").await.is_ok());
    assert!(lab.ask("c").await.is_ok());
    assert_eq!(lab.asked().0, 53);
    assert!(lab.ask("a").await.is_ok());
    assert_eq!(lab.ask("garbage-0").await, Err(UNKNOWN));
    assert_eq!(lab.asked().0, 55);
}

#[tokio::test(start_paused = true)]
async fn requests_at_one_time_are_bounded_and_connections_are_used_again() {
    let lab = Lab::with(|l| l.concurrent = 10);
    lab.keystone().set_instead(Call::Validate, slowly(1, "nova"));
    let mut all = JoinSet::new();
    let start = Instant::now();
    for n in 0..40 {
        let lab = lab.clone();
        all.spawn(async move { lab.ask(&format!("token-{n}")).await.unwrap().user_name });
    }
    assert_eq!(all.join_all().await.len(), 40);
    assert_eq!(start.elapsed().as_secs(), 4, "ten at a time, one second each");
    assert_eq!(lab.asked(), (40, 1));
    assert_eq!(lab.connections(), 10);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_waiting_ones_there_is_no_decision_at_once() {
    let lab = Lab::with(|l| (l.concurrent, l.waiting) = (2, 5));
    lab.keystone().set_instead(Call::Validate, slowly(60, "nova"));
    let mut all = JoinSet::new();
    for n in 0..5 {
        let lab = lab.clone();
        all.spawn(async move { lab.ask(&format!("token-{n}")).await });
    }
    sleep(Duration::from_secs(1)).await;
    let start = Instant::now();
    let overloaded = lab.ask("one-more").await;
    assert!(
        matches!(overloaded, Err(Refusal::Unavailable { why: Trouble::Overloaded, .. })),
        "{overloaded:?}"
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
    for outcome in all.join_all().await {
        assert!(matches!(outcome, Err(Refusal::Unavailable { why: Trouble::Deadline, .. })), "{outcome:?}");
    }
    // Their places are free again.
    lab.keystone().set_instead(Call::Validate, None);
    lab.keystone().know("one-more", body("nova"));
    assert!(lab.ask("one-more").await.is_ok());
}

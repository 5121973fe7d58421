//! A Keystone that hangs, drips, lies, or is not there: there is no decision, in time, and it goes on by itself.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use apelora_keystone::{Invalid, Question, Refusal, Trouble, Trust, Validator};
use apelora_lab::keystone::Call;
use apelora_lab::redfish::{After, Authority, Framing, Reply, Whole};
use serde_json::json;
use tokio::time::{Instant, advance};

use crate::support::{Lab, NOW, body, ca_file, config, far, server, token};

fn lab() -> Lab {
    let lab = Lab::with(|l| l.cache = Duration::ZERO);
    lab.keystone().know("the-token", body("nova"));
    lab
}

async fn unavailable(lab: &Lab) -> (Trouble, Duration) {
    let start = Instant::now();
    let outcome = lab.ask("the-token").await;
    let took = start.elapsed();
    assert!(took <= Duration::from_millis(5_001), "{took:?}");
    match outcome {
        Err(Refusal::Unavailable { why, retry_after }) => (why, retry_after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_keystone_does_there_is_an_answer_in_time() {
    let hang = Reply::Later(Duration::from_secs(3600), Box::new(Reply::Drop));
    let valid = Whole::json(200, &body("nova"));
    let drip = Whole { pace: Some(Duration::from_millis(100)), ..valid.clone() };
    let huge_length = Whole { body: vec![b' '; 1 << 20], ..valid.clone() };
    let huge_chunked = Whole { framing: Framing::Chunked, ..huge_length.clone() };
    let huge_head = valid.clone().with_header("X-Filler", &"x".repeat(100_000));
    let chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let endless = Reply::Endless(chunk, b"4\r\n    \r\n".to_vec());
    let endless_head = Reply::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-More: x\r\n".to_vec());
    let text = |status: u16, text: &str| Whole { body: text.as_bytes().to_vec(), ..Whole::empty(status) };
    let replies = [
        ("hang", hang),
        ("drip", Reply::Whole(drip)),
        ("huge", Reply::Whole(huge_length)),
        ("huge in chunks", Reply::Whole(huge_chunked)),
        ("huge head", Reply::Whole(huge_head)),
        ("endless", endless),
        ("endless head", endless_head),
        ("closed", Reply::Drop),
        ("not HTTP", Reply::Endless(b"SSH-2.0-x\r\n".to_vec(), b"x".to_vec())),
        ("500", Reply::Whole(text(500, "{\"error\": {\"code\": 500}}"))),
        ("502", Reply::Whole(text(502, "<html>"))),
        ("503", Reply::Whole(text(503, ""))),
        ("400", Reply::Whole(text(400, "{\"error\": {\"code\": 400}}"))),
        ("404 of a proxy", Reply::Whole(text(404, "<html>"))),
        ("404 with another code", Reply::Whole(text(404, "{\"error\": {\"code\": 500}}"))),
        ("302", Reply::Whole(Whole::empty(302).with_header("Location", "https://192.0.2.99/v3"))),
        ("204", Reply::Whole(Whole::empty(204))),
        ("empty", Reply::Whole(text(200, ""))),
        ("garbage", Reply::Whole(text(200, "garbage"))),
        ("another document", Reply::Whole(text(200, "{\"version\": {\"id\": \"v3.14\"}}"))),
        ("half", Reply::Whole(text(200, "{\"token\": {\"user\": {\"id\": \"u\""))),
        ("deep", Reply::Whole(text(200, &"[".repeat(100_000)))),
        ("null", Reply::Whole(Whole::json(200, &json!({"token": null})))),
    ];
    let lab = lab();
    for (name, reply) in replies {
        for call in [Call::LogIn, Call::Validate] {
            lab.keystone().forget_own();
            // Our own token is over, so that the log-in comes first.
            advance(Duration::from_secs(3601)).await;
            lab.keystone().set_instead(call, Some(reply.clone()));
            if call == Call::LogIn && name == "400" {
                assert!(matches!(lab.ask("the-token").await, Err(Refusal::OwnCredentials { .. })));
                advance(Duration::from_secs(30)).await;
            } else {
                let (_, retry_after) = unavailable(&lab).await;
                assert_eq!(retry_after, Duration::from_secs(5), "{name}");
            }
            lab.keystone().set_instead(call, None);
            assert_eq!(lab.ask("the-token").await.unwrap().user_name, "nova", "after {name} at {call:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_caller_may_want_it_sooner() {
    let lab = lab();
    let hang = Reply::Later(Duration::from_secs(3600), Box::new(Reply::Drop));
    lab.keystone().set_instead(Call::Validate, Some(hang));
    let token = token("the-token");
    let question = Question { token: &token, service_token: None, method: "GET", path: "/v1/nodes" };
    let start = Instant::now();
    let by = start + Duration::from_secs(2);
    let outcome = lab.validator.validate(&question, NOW, by).await;
    assert!(matches!(outcome, Err(Refusal::Unavailable { why: Trouble::Deadline, .. })));
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn user_and_service_token_together_are_decided_in_time() {
    let lab = lab();
    lab.keystone().know("service", body("nova"));
    let slow = Reply::Later(Duration::from_secs(3), Box::new(Reply::Whole(Whole::json(200, &body("nova")))));
    lab.keystone().set_instead(Call::Validate, Some(slow));
    let start = Instant::now();
    let outcome = lab.ask_with("the-token", "service").await;
    assert!(matches!(outcome, Err(Refusal::Unavailable { why: Trouble::Deadline, .. })), "{outcome:?}");
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn keystone_may_say_when_to_come_again_within_reason() {
    let lab = lab();
    for (status, says, waits) in [
        (503, "17", 17),
        (429, "2", 2),
        (503, "0", 1),
        (503, "86400", 60),
        (503, "-1", 5),
        (503, "Fri, 31 Dec 2027 23:59:59 GMT", 5),
    ] {
        let answer = Whole::empty(status).with_header("Retry-After", says);
        lab.keystone().set_instead(Call::Validate, Some(Reply::Whole(answer)));
        let (why, retry_after) = unavailable(&lab).await;
        assert!(matches!(why, Trouble::Status { status: with, .. } if with == status));
        assert_eq!(retry_after, Duration::from_secs(waits), "{says}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_refused_connect_is_tried_again_and_two_are_not() {
    let lab = lab();
    lab.refuse(1);
    assert!(lab.ask("the-token").await.is_ok());
    let lab = self::lab();
    lab.refuse(2);
    let (why, _) = unavailable(&lab).await;
    assert!(matches!(&why, Trouble::Unreachable(text) if text.contains("check address")), "{why:?}");
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_swallows_everything_is_given_up_in_time() {
    let lab = lab();
    lab.refuse(u32::MAX);
    assert_eq!(unavailable(&lab).await.0, Trouble::Deadline);
    lab.refuse(0);
    assert!(lab.ask("the-token").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_meanwhile_is_not_noticed_by_the_caller() {
    let lab = lab();
    assert!(lab.ask("the-token").await.is_ok());
    let last = Whole { after: After::Vanish, ..Whole::json(200, &body("nova")) };
    lab.keystone().set_instead(Call::Validate, Some(Reply::Whole(last)));
    for _ in 0..3 {
        assert!(lab.ask("the-token").await.is_ok());
    }
    assert_eq!(lab.connections(), 3, "one for the log-in and two answers, then one for each");
    // Closed in the middle of the request: sent once more on a new connection, and not again.
    lab.keystone().set_instead(Call::Validate, None);
    assert!(lab.ask("the-token").await.is_ok());
    let asked = lab.asked().0;
    lab.keystone().set_instead(Call::Validate, Some(Reply::Drop));
    assert!(matches!(unavailable(&lab).await.0, Trouble::Broken(_)));
    assert_eq!(lab.asked().0, asked + 2);
}

#[tokio::test(start_paused = true)]
async fn an_old_idle_connection_is_not_used() {
    let lab = lab();
    assert!(lab.ask("the-token").await.is_ok());
    advance(Duration::from_secs(29)).await;
    assert!(lab.ask("the-token").await.is_ok());
    assert_eq!(lab.connections(), 1);
    advance(Duration::from_secs(31)).await;
    assert!(lab.ask("the-token").await.is_ok());
    assert_eq!(lab.connections(), 2);
}

/// Over real sockets: the operator's CA file is believed, another is not, and no secret goes to the wrong host.
#[tokio::test]
async fn the_certificate_must_be_one_of_the_operators() {
    let server = server(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let listening = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let url = format!("https://{}/v3", listening.address());
    server.service().know("the-token", body("nova"));
    let token = token("the-token");
    let question = Question { token: &token, service_token: None, method: "GET", path: "/v1/nodes" };

    let good = Validator::new(config(&url)).unwrap();
    assert_eq!(good.validate(&question, NOW, far()).await.unwrap().user_name, "nova");
    assert_eq!(good.url(), url);

    let requests = server.stats().requests();
    let other = Authority::new("Another authority").unwrap();
    let mut wrong = config(&url);
    wrong.trust = Trust::OnlyFile(ca_file(other.pem()));
    let refused = Validator::new(wrong).unwrap().validate(&question, NOW, far()).await.unwrap_err();
    assert!(matches!(refused, Refusal::Unavailable { why: Trouble::Tls(_), .. }), "{refused:?}");
    assert!(refused.to_string().contains("CA file"), "{refused}");
    assert_eq!(server.stats().requests(), requests);
    assert_eq!(good.validate(&question, NOW, far()).await.unwrap().user_name, "nova");
    assert_eq!(Refusal::Invalid(Invalid::Unknown).retry_after(), None);
}

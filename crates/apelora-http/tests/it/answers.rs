//! What an answer may cost, and what an error says about the request.

use std::time::Duration;

use apelora_http::header::{AUTHORIZATION, HeaderValue};
use apelora_http::{Cause, Connection, Endpoint, HttpError, Part, Step, Trust, connect_through};
use apelora_lab::redfish::{After, Framing, Reply, Seen, Server, Service, TlsVersion, Whole};
use tokio::time::{Instant, timeout};

use crate::{LIMITS, Pipe, get, later, trusted};

/// Does what the path says.
struct Obedient;

impl Service for Obedient {
    fn answer(&self, request: &Seen) -> Reply {
        let sized = |size: usize| Whole { body: vec![b'x'; size], ..Whole::empty(200) };
        Reply::Whole(match request.path.as_str() {
            "/drop" => return Reply::Drop,
            "/never" => return Reply::Later(Duration::from_secs(3600), Box::new(Reply::Drop)),
            "/vanish" => Whole { after: After::Vanish, ..sized(1) },
            "/close" => Whole { after: After::Close, ..sized(1) },
            "/half" => Whole { pace: Some(Duration::from_secs(3600)), ..sized(2) },
            "/short" => return Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec()),
            "/chunks" => Whole { framing: Framing::Chunked, ..sized(LIMITS.body + 1) },
            "/head" => sized(1).with_header("X-Filler", &"x".repeat(LIMITS.head)),
            "/redirect" => Whole::empty(302).with_header("Location", "/1").with_header("Set-Cookie", "a=b"),
            number => sized(number.trim_start_matches('/').parse().unwrap()),
        })
    }
}

async fn connected() -> Connection {
    connected_by(later()).await.unwrap()
}

async fn connected_by(by: Instant) -> Result<Connection, HttpError> {
    let (ca, identity) = trusted();
    let pipe = Pipe(Server::new(Obedient, identity.server(TlsVersion::V13).unwrap()));
    let endpoint = Endpoint::https("localhost").unwrap();
    connect_through(&pipe, &endpoint, &Trust::OnlyFile(ca), &LIMITS, by).await
}

#[tokio::test]
async fn bodies_up_to_the_limit_are_read() {
    let mut connection = connected().await;
    for size in [0, 1, LIMITS.body] {
        let answer = connection.send(get(&format!("/{size}")), later()).await.unwrap();
        assert_eq!(answer.body.len(), size);
    }
    let before = connection.received();
    let too_large = connection.send(get(&format!("/{}", LIMITS.body + 1)), later()).await.unwrap_err();
    match too_large {
        HttpError::TooLarge { part: Part::Body, limit, status: Some(200) } => assert_eq!(limit, LIMITS.body),
        other => panic!("{other}"),
    }
    assert!(
        connection.received() - before < LIMITS.body as u64 / 2,
        "an announced length is enough to refuse"
    );
    // What comes after it on this connection cannot be told from the body.
    let after = connection.send(get("/1"), later()).await.unwrap_err();
    assert!(matches!(after, HttpError::NotSent(Cause::Abandoned)), "{after}");
}

/// One byte more than the limit, where no length announces it, and a head of its own limit.
#[tokio::test]
async fn each_part_has_its_own_limit() {
    for (path, expected, status) in [("/chunks", Part::Body, Some(200)), ("/head", Part::Head, None)] {
        let mut connection = connected().await;
        match connection.send(get(path), later()).await {
            Err(HttpError::TooLarge { part, status: seen, .. }) => {
                assert_eq!((part, seen), (expected, status));
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_may_have_a_smaller_limit() {
    let mut connection = connected().await;
    assert!(connection.send(get("/10").answer_at_most(10), later()).await.is_ok());
    let refused = connection.send(get("/11").answer_at_most(10), later()).await.unwrap_err();
    assert!(matches!(refused, HttpError::TooLarge { limit: 10, .. }), "{refused}");
}

#[tokio::test]
async fn redirects_and_cookies_are_only_told() {
    let mut connection = connected().await;
    let answer = connection.send(get("/redirect"), later()).await.unwrap();
    assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (302, "/1"));
    assert_eq!(connection.send(get("/1"), later()).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_request_without_an_answer_may_have_been_sent() {
    let mut connection = connected().await;
    let lost = connection.send(get("/drop"), later()).await.unwrap_err();
    assert!(matches!(lost, HttpError::MaybeSent { status: None, .. }), "{lost}");
    assert!(lost.may_have_been_sent());

    let mut connection = connected().await;
    let broken = connection.send(get("/short"), later()).await.unwrap_err();
    assert!(matches!(broken, HttpError::MaybeSent { status: Some(200), .. }), "{broken}");
}

#[tokio::test]
async fn a_request_on_a_closed_connection_was_not_sent() {
    for path in ["/close", "/vanish"] {
        let mut connection = connected().await;
        assert!(connection.ready(later()).await);
        assert_eq!(connection.send(get(path), later()).await.unwrap().status, 200);
        assert!(!connection.ready(later()).await, "{path}");
        for now in [true, false] {
            let refused = if now {
                connection.send_now(get("/1"), later()).await.unwrap_err()
            } else {
                connection.send(get("/1"), later()).await.unwrap_err()
            };
            assert!(matches!(refused, HttpError::NotSent(_)), "{path}: {refused}");
            assert!(!refused.may_have_been_sent());
        }
    }
}

#[tokio::test]
async fn an_invalid_request_is_never_sent() {
    let mut connection = connected().await;
    for path in ["", "x", "https://elsewhere/x", "/a b", "/a\r\nX: y"] {
        let refused = connection.send(get(path), later()).await.unwrap_err();
        assert!(matches!(refused, HttpError::NotSent(Cause::Request(_))), "{path:?}: {refused}");
    }
    assert!(connection.send(get("/1"), later()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn deadlines_say_what_was_waited_for() {
    let late = connected_by(Instant::now()).await.unwrap_err();
    assert!(matches!(late, HttpError::Deadline { sent: false, .. }), "{late}");

    let mut connection = connected().await;
    for now in [true, false] {
        let over = Instant::now();
        let late = if now {
            connection.send_now(get("/1"), over).await
        } else {
            connection.send(get("/1"), over).await
        };
        assert!(
            matches!(late, Err(HttpError::Deadline { during: Step::Ready, sent: false, .. })),
            "{late:?}"
        );
    }
    assert!(connection.send(get("/1"), later()).await.is_ok(), "nothing was sent, so it can still be used");

    for (path, expected) in [("/never", Step::Head), ("/half", Step::Body)] {
        let mut connection = connected().await;
        let by = Instant::now() + Duration::from_secs(7);
        match connection.send(get(path), by).await.unwrap_err() {
            HttpError::Deadline { during, sent: true, status } => {
                assert_eq!((during, status.is_some()), (expected, expected == Step::Body));
            }
            other => panic!("{path}: {other}"),
        }
        assert_eq!(Instant::now(), by);
    }
}

/// A call that is given up leaves its connection unusable: the next answer could be the old one.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_ends_the_connection() {
    let mut connection = connected().await;
    let given_up = timeout(Duration::from_secs(7), connection.send(get("/never"), later())).await;
    assert!(given_up.is_err());
    assert!(!connection.ready(later()).await);
    let refused = connection.send(get("/1"), later()).await.unwrap_err();
    assert!(matches!(refused, HttpError::NotSent(Cause::Abandoned)), "{refused}");
}

#[tokio::test]
async fn debug_output_has_no_contents() {
    let mut connection = connected().await;
    let request = get("/3").header(AUTHORIZATION, HeaderValue::from_static("Basic c2VjcmV0")).body("secret");
    assert_eq!(format!("{request:?}"), r#"Request { method: Get, path: "/3", .. }"#);
    let answer = connection.send(request, later()).await.unwrap();
    assert_eq!(format!("{answer:?}"), "Answer { status: 200, bytes: 3, .. }");
}

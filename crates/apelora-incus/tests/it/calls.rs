//! What is sent, and over which connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_http::{Cause, Dial, Dialed, Dialing, Endpoint, HttpError, Step, Trust};
use apelora_incus::{Client, OperationId, Problem};
use serde_json::json;
use tokio::time::Instant;

use crate::bodies::{OPERATION, accepted_body, envelope, member};
use crate::peer::{Peer, Reply, answer, error, piped, sync, whole};
use crate::{later, listed};

fn accepted() -> Reply {
    answer(202, &accepted_body(OPERATION))
}

#[tokio::test]
async fn exactly_these_requests_are_sent() {
    let peer = Peer::new(|seen| match seen.method.as_str() {
        "GET" => error(404, "not here"),
        _ => accepted(),
    });
    let client = piped(&peer);
    let by = later();
    let operation = OperationId::parse(OPERATION).unwrap();
    assert!(client.server(by).await.is_err());
    assert!(client.members(by).await.is_err());
    assert!(client.member_state("m 1", by).await.is_err());
    assert!(client.instances(by).await.is_err());
    assert!(client.instances_in_full(by).await.is_err());
    assert!(client.instance("web", "s/1", by).await.is_err());
    assert!(client.pools(by).await.is_err());
    client.move_instance("web", "s1", "m2", by).await.unwrap();
    client.start_instance("web", "s1", by).await.unwrap();
    client.wait(&operation, by).await.unwrap();

    let seen = peer.seen();
    let sent: Vec<_> = seen.iter().map(|s| (s.method.as_str(), s.path.as_str(), s.body.as_str())).collect();
    let wait = format!("{OPERATION}/wait?timeout=30");
    assert_eq!(
        sent,
        [
            ("GET", "/1.0", ""),
            ("GET", "/1.0/cluster/members?recursion=1", ""),
            ("GET", "/1.0/cluster/members/m%201/state", ""),
            ("GET", "/1.0/instances?recursion=1&all-projects=true", ""),
            ("GET", "/1.0/instances?recursion=2&all-projects=true", ""),
            ("GET", "/1.0/instances/s%2F1?project=web", ""),
            ("GET", "/1.0/storage-pools?recursion=1", ""),
            ("POST", "/1.0/instances/s1?project=web&target=m2", r#"{"migration":true}"#),
            ("PUT", "/1.0/instances/s1/state?project=web", r#"{"action":"start","timeout":-1}"#),
            ("GET", wait.as_str(), ""),
            ("GET", OPERATION, ""),
        ]
    );
    assert_eq!(seen[0].head, "GET /1.0 HTTP/1.1\r\naccept: application/json\r\nhost: localhost\r\n\r\n");
    assert!(seen[7].head.contains("content-type: application/json\r\n"), "{}", seen[7].head);
    assert_eq!(peer.connections(), 1, "all over one connection");
}

#[tokio::test]
async fn a_name_that_could_mean_something_else_is_not_sent() {
    let peer = Peer::new(|_| accepted());
    let client = piped(&peer);
    for refused in [
        client.move_instance("default", "s1", "@rack1", later()).await.unwrap_err(),
        client.move_instance("default", "..", "m1", later()).await.unwrap_err(),
        client.start_instance("", "s1", later()).await.unwrap_err(),
    ] {
        assert!(matches!(refused.problem, Problem::Name { .. }), "{refused}");
        assert!(!refused.may_have_been_sent());
    }
    assert!(peer.seen().is_empty());
}

#[tokio::test]
async fn a_connection_that_the_peer_has_closed_is_opened_again() {
    let peer = Peer::new(|seen| {
        let reply = if seen.method == "GET" { envelope(&json!([])) } else { accepted_body(OPERATION) };
        let status = if seen.method == "GET" { 200 } else { 202 };
        Reply::Close(whole(status, "application/json", reply.to_string().as_bytes()))
    });
    let client = piped(&peer);
    for _ in 0..2 {
        client.members(later()).await.unwrap();
        client.move_instance("default", "s1", "m1", later()).await.unwrap();
    }
    assert_eq!((peer.seen().len(), peer.connections()), (4, 4), "nothing was sent twice");
}

/// The peer takes the request on a kept connection and closes it without a word.
#[tokio::test]
async fn only_reads_are_repeated_once() {
    let vanishing = || {
        Peer::new(|seen| match (seen.path.as_str(), seen.connection) {
            ("/1.0/storage-pools?recursion=1", _) | (_, 2) if seen.method == "GET" => sync(&json!([])),
            _ => Reply::Close(Vec::new()),
        })
    };
    let peer = vanishing();
    let client = piped(&peer);
    client.pools(later()).await.unwrap();
    client.members(later()).await.unwrap();
    assert_eq!((peer.seen().len(), peer.connections()), (3, 2));

    let peer = vanishing();
    let client = piped(&peer);
    client.pools(later()).await.unwrap();
    let lost = client.start_instance("default", "s1", later()).await.unwrap_err();
    assert!(matches!(lost.problem, Problem::Http(HttpError::MaybeSent { .. })), "{lost}");
    assert!(lost.may_have_been_sent());
    assert_eq!((peer.seen().len(), peer.connections()), (2, 1), "{:?}", peer.lines());

    // Not even a read is repeated on a fresh connection, or more than once.
    let silent = Peer::new(|_| Reply::Close(Vec::new()));
    let client = piped(&silent);
    assert!(client.members(later()).await.is_err());
    assert_eq!(silent.seen().len(), 1);
    let always = Peer::new(|seen| match seen.path.as_str() {
        "/1.0/storage-pools?recursion=1" => sync(&json!([])),
        _ => Reply::Close(Vec::new()),
    });
    let client = piped(&always);
    client.pools(later()).await.unwrap();
    assert!(client.members(later()).await.is_err());
    assert_eq!(always.seen().len(), 3);
}

/// A network that is never there.
struct Nowhere(AtomicU64);

impl Dial for Nowhere {
    fn dial<'a>(&'a self, to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let why = std::io::ErrorKind::ConnectionRefused.into();
            Err::<Dialed, _>(Cause::Connect { to: to.to_string(), why })
        })
    }
}

#[tokio::test]
async fn what_was_not_sent_says_so() {
    let dial = Arc::new(Nowhere(AtomicU64::new(0)));
    let client = Client::through(dial.clone(), Endpoint::unix("/x".as_ref()), Trust::SystemRoots, None);
    let refused = client.move_instance("default", "s1", "m1", later()).await.unwrap_err();
    assert!(!refused.may_have_been_sent(), "{refused}");
    assert_eq!(refused.remedy(), Some("check that incusd runs"));
    assert_eq!(dial.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_each_other_within_their_own_deadlines() {
    let peer = Peer::new(|seen| match seen.path.as_str() {
        "/1.0/cluster/members?recursion=1" => sync(&json!([member("m1", "Online")])),
        _ => Reply::Never,
    });
    let client = Arc::new(piped(&peer));
    let start = Instant::now();
    let by = |seconds| start + Duration::from_secs(seconds);
    let (slow, late, own) = tokio::join!(
        client.instances(by(35)),
        async {
            let late = client.members(by(5)).await;
            (late, start.elapsed())
        },
        async { client.another().members(by(5)).await }
    );
    let slow = slow.unwrap_err();
    assert!(matches!(slow.problem, Problem::Http(HttpError::Deadline { sent: true, .. })), "{slow}");
    let (late, after) = (late.0.unwrap_err(), late.1);
    let waiting = Problem::Http(HttpError::Deadline { during: Step::Ready, sent: false, status: None });
    assert_eq!(format!("{:?}", late.problem), format!("{waiting:?}"));
    assert_eq!(after, Duration::from_secs(5));
    assert_eq!(listed::members(&own.unwrap()), "m1 Online");
    assert_eq!(start.elapsed(), Duration::from_secs(35));
    // The connection that was given up is not used again.
    assert_eq!(listed::members(&client.members(later()).await.unwrap()), "m1 Online");
    assert_eq!(peer.connections(), 3);
}

//! Bounds: of bodies, of time, of numbers; and the orderly end.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::json;
use time::macros::datetime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use apelora_server::Sources;

use crate::client::{self, Answer};
use crate::lab::{self, Lab};

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_the_answer_arrives() {
    let lab = Lab::sqlite().await;
    lab.node("n1").await;
    let json = [("Content-Type", "application/json")];
    for size in [(1 << 20) + 1, 5 << 20] {
        let body = vec![b' '; size];
        let refused = client::send(lab.address, "PUT", "/v1/nodes/n1/maintenance", &json, Some(&body))
            .await
            .expect(413);
        assert_eq!(refused.reason, "Request Entity Too Large");
        assert_eq!(
            refused.body,
            r#"{"faultcode": "Client", "faultstring": "Request body is too large. Please contact the service administrator."}"#
        );
    }
    let body = format!("{{\"reason\": \"{}\"}}", "x".repeat((1 << 20) - 14));
    client::send(lab.address, "PUT", "/v1/nodes/n1/maintenance", &json, Some(body.as_bytes()))
        .await
        .expect(404);
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let lab = Lab::configured(|config| {
        config.limits.head_timeout = Duration::from_millis(50);
        config.limits.body_timeout = Duration::from_millis(50);
    })
    .await;
    let begin = async |bytes: &[u8]| {
        let mut stream = TcpStream::connect(lab.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::read(&answer)
    };
    // Half a head: the connection ends. Half a body: an answer, then the connection ends. Nothing at all: it ends.
    assert!(begin(b"GET /v1/nodes HTTP/1.1\r\nHost: h\r\n").await.is_none_or(|a| a.status == 408));
    let slow = begin(b"PUT /v1/nodes/n/maintenance HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{\"re")
        .await
        .unwrap();
    assert_eq!(slow.status, 408);
    assert!(begin(b"").await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn when_there_is_too_much_to_do_the_rest_is_told_to_come_again() {
    // A clock that keeps whoever looks at it, until it is let go.
    let gate = Arc::new((Mutex::new(true), Condvar::new()));
    let arrived = Arc::new(Notify::new());
    let (at_gate, arrival) = (Arc::clone(&gate), Arc::clone(&arrived));
    let clock = move || {
        arrival.notify_one();
        let closed = at_gate.0.lock().unwrap();
        drop(at_gate.1.wait_while(closed, |closed| *closed).unwrap());
        datetime!(2026-07-01 09:00:00)
    };
    let folder = tempfile::tempdir().unwrap();
    let store = lab::sqlite_store(&folder.path().join("a.db")).await;
    let sources = Sources::new(clock, lab::new_id);
    let lab = Lab::start_with("127.0.0.1:0".parse().unwrap(), store, sources, |config| {
        config.limits.in_flight = 1;
        config.limits.queued = 0;
    })
    .await;
    let body = json!({"driver": "fake-hardware", "name": "n1"});
    let (held, refused) = tokio::join!(lab.call("POST", "/v1/nodes", Some(body)), async {
        arrived.notified().await;
        let refused = lab.call("GET", "/v1/nodes", None).await;
        // The service's own pages are answered all the time.
        let figures = client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
        assert!(figures.contains("apelora_http_requests_in_flight 1\n"), "{figures}");
        assert!(figures.contains("apelora_http_turned_away_total{why=\"queue_full\"} 1\n"), "{figures}");
        *gate.0.lock().unwrap() = false;
        gate.1.notify_all();
        refused
    });
    let refused = refused.expect(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.fault().contains("too much to do"));
    held.expect(201);
    lab.call("GET", "/v1/nodes", None).await.expect(200);
}

#[tokio::test]
async fn whoever_waits_for_another_service_takes_nobodys_turn() {
    let lab = Lab::configured(|config| {
        config.limits.in_flight = 1;
        config.limits.queued = 1;
    })
    .await;
    let node = lab.node("n1").await;
    lab.sql(&format!("UPDATE nodes SET reservation='other' WHERE uuid='{node}'")).await;
    let waiting = tokio::spawn(client::send_owned(lab.address, "PUT", "/v1/nodes/n1/maintenance"));
    // While it waits, others are served one after the other.
    let mut served = 0;
    while !waiting.is_finished() {
        lab.call("GET", "/v1/nodes", None).await.expect(200);
        served += 1;
    }
    waiting.await.unwrap().expect(409);
    assert!(served > 1, "{served}");
}

#[tokio::test]
async fn a_stop_lets_what_is_at_work_finish() {
    let lab = Lab::sqlite().await;
    let node = lab.node("n1").await;
    lab.sql(&format!("UPDATE nodes SET reservation='other' WHERE uuid='{node}'")).await;
    let address = lab.address;
    let idle = TcpStream::connect(address).await.unwrap();
    let working = tokio::spawn(client::send_owned(address, "PUT", "/v1/nodes/n1/maintenance"));
    // At work: the request has been counted as such.
    while !client::send(address, "GET", "/metrics", &[], None).await.body.contains("requests_in_flight 1") {
        tokio::task::yield_now().await;
    }
    lab.stop().await;
    working.await.unwrap().expect(409);
    assert!(TcpStream::connect(address).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn without_a_database_reads_and_changes_say_so() {
    let lab = Lab::sqlite().await;
    lab.node("n1").await;
    lab.sql("ALTER TABLE nodes RENAME TO gone").await;
    for (method, path) in [("GET", "/v1/nodes/n1"), ("PUT", "/v1/nodes/n1/maintenance"), ("GET", "/v1/nodes")]
    {
        let answer = lab.call(method, path, None).await;
        assert!(answer.status == 500 || answer.status == 503, "{}", answer.body);
        let text = answer.body.to_lowercase();
        for leak in ["select", "no such table", "sqlite", "nodes where"] {
            assert!(!text.contains(leak), "{text}");
        }
    }
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let lab = Lab::configured(|config| config.limits.connections = 1).await;
    let mut first = TcpStream::connect(lab.address).await.unwrap();
    first.write_all(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
    let mut begun = [0; 12];
    first.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let second = tokio::spawn(client::send_owned(lab.address, "GET", "/v1/nodes"));
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(first);
    second.await.unwrap().expect(200);
}

#[tokio::test]
async fn a_fault_of_the_service_ends_its_own_request_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = lab::sqlite_store(&folder.path().join("a.db")).await;
    let broken_clock = Sources::new(|| panic!("the clock of this test has secrets"), lab::new_id);
    let lab = Lab::start_with("127.0.0.1:0".parse().unwrap(), store, broken_clock, |_| {}).await;
    let body = json!({"driver": "fake-hardware", "name": "n1"});
    let failed = lab.call("POST", "/v1/nodes", Some(body)).await.expect(500);
    assert_eq!(
        failed.fault(),
        "The service failed to answer this request. Its log tells more under the request id."
    );
    assert!(failed.header("x-openstack-request-id").is_some());
    lab.call("GET", "/v1/nodes", None).await.expect(200);
    let figures = client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
    assert!(figures.contains("apelora_http_panics_total 1\n"), "{figures}");
    assert!(figures.contains("apelora_http_requests_in_flight 0\n"), "{figures}");
}

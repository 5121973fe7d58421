//! The service's own pages, and the log.

use std::cell::RefCell;
use std::io::Write;

use serde_json::json;

use crate::client;
use crate::lab::{Lab, engines};

#[tokio::test]
async fn health_and_figures() {
    for (engine, lab) in engines().await {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(
                client::send(lab.address, "GET", path, &[], None).await.expect(200).body,
                "ok\n",
                "{engine}"
            );
        }
        lab.node("n1").await;
        lab.entry("n1", "operator_hold", "x").await;
        client::send(lab.address, "BREW", "/v1/nodes", &[], None).await.expect(405);
        let answer = client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200);
        assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
        for line in [
            r#"apelora_maintenance_entries{type="operator_hold",scope="system"} 1"#,
            r#"apelora_maintenance_entries{type="operator_hold",scope="lessee"} 0"#,
            r#"apelora_maintenance_entries{type="legacy",scope="owner"} 0"#,
            r#"apelora_http_requests_total{route="/v1/nodes/{node_ident}/maintenance",method="POST",status="2xx"} 1"#,
            r#"apelora_http_requests_total{route="/v1/nodes",method="other",status="4xx"} 1"#,
            r#"apelora_http_requests_in_flight 0"#,
            r#"apelora_store_retries_total{why="deadlock"} 0"#,
            r#"apelora_http_turned_away_total{why="queue_full"} 0"#,
        ] {
            assert!(answer.body.contains(&format!("{line}\n")), "{engine}: {line} in\n{}", answer.body);
        }
        assert!(answer.body.ends_with("# EOF\n"));
    }
}

#[tokio::test]
async fn the_document() {
    let lab = Lab::sqlite().await;
    let document = client::send(lab.address, "GET", "/openapi.json", &[], None).await.expect(200).json();
    let entry = &document["components"]["schemas"]["MaintenanceEntry"]["properties"];
    // What the document says of an entry is what an entry has.
    lab.node("n1").await;
    lab.entry("n1", "operator_hold", "x").await;
    let shown = lab.get("/v1/nodes/n1/maintenance").await["maintenance"][0].clone();
    let mut keys: Vec<_> = shown.as_object().unwrap().keys().collect();
    let mut documented: Vec<_> = entry.as_object().unwrap().keys().collect();
    keys.sort();
    documented.sort();
    assert_eq!(keys, documented);
}

thread_local! {
    /// What is logged on the thread of a test, with the server on the same one.
    static LOGGED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// On one thread, so that the log of the test's own thread is the server's.
#[tokio::test(flavor = "current_thread")]
async fn one_line_for_each_request_without_bodies_and_secrets() {
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let lab = Lab::sqlite().await;
    let secret = json!({"driver": "fake-hardware", "name": "n1", "driver_info": {"password": "s3cr3t-body"}});
    let made = lab.call("POST", "/v1/nodes?x=s3cr3t-query", Some(secret.clone())).await.expect(400);
    lab.call("POST", "/v1/nodes", Some(secret)).await.expect(201);
    let token = [("X-Auth-Token", "s3cr3t-token"), ("Authorization", "Basic s3cr3t")];
    client::send(lab.address, "GET", "/v1/nodes/a%0Ab%1B%5B31m", &token, None).await.expect(400);
    let text = String::from_utf8(LOGGED.take()).unwrap();
    let lines: Vec<_> = text.lines().filter(|l| l.contains("answered")).collect();
    assert_eq!(lines.len(), 3, "{text}");
    let id = made.header("x-openstack-request-id").unwrap();
    assert!(
        lines[0].contains(id) && lines[0].contains("route=\"/v1/nodes\"") && lines[0].contains("status=400"),
        "{text}"
    );
    assert!(lines[1].contains("status=201") && lines[1].contains("caller=\"noauth\""), "{text}");
    assert!(!text.contains("s3cr3t") && !text.contains('\u{1b}'), "{text}");
}

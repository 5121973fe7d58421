//! Input that is meant to hurt: no panic, no 500, no text of a statement in an answer.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use crate::client::{self, Answer};
use crate::lab::{Lab, engines};

/// What an answer may never be or hold.
#[track_caller]
fn harmless(answer: Option<&Answer>, to: &str) {
    // A connection may end without an answer where what came was no request.
    let Some(answer) = answer else { return };
    assert!(answer.status < 500, "{to}: {} {}", answer.status, answer.body);
    let text = answer.body.to_lowercase();
    for leak in
        ["select ", "insert into", "sqlite", "sqlx", "sea_query", "panicked", "/crates/", "syntax error"]
    {
        assert!(!text.contains(leak) || to.to_lowercase().contains(leak), "{to}: {text}");
    }
}

/// The same cases on every run.
fn cases<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[tokio::test]
async fn paths() {
    let names = prop_oneof![
        "[a-z0-9._~%-]{0,20}",
        "[ -~]{0,40}".prop_map(|s| s.replace([' ', '#'], "%20")),
        Just("%00".to_owned()),
        Just("%F0%9F%A6%80".to_owned()),
        Just("%FF%FE".to_owned()),
        Just("n1'%20OR%20'1'='1".to_owned()),
        Just("n1;DROP%20TABLE%20nodes".to_owned()),
        Just("..%2F..%2Fetc%2Fpasswd".to_owned()),
    ];
    let parts = prop_oneof![
        "maintenance",
        "history",
        "states",
        "states/power",
        "ports",
        "",
        "detail",
        "[a-z%0-9]{0,12}"
    ];
    let queries = prop_oneof![
        Just(String::new()),
        "\\?(limit|marker|fields|sort_key|sort_dir|owner|maintenance|shard|project|detail|fault|description_contains|parent_node|instance_name|conductor)=[ -~]{0,20}"
            .prop_map(|s| s.replace([' ', '#'], "+")),
        "\\?(owner|lessee|shard|driver|resource_class|project|description_contains|instance_name|reason)=(%00|%F0%9F%A6%80|%FF|%25%27|')",
        "\\?(limit|marker|fields)=1&(limit|marker|fields)=2",
    ];
    let methods = prop_oneof!["GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"];
    let versions = prop_oneof!["1\\.(1|5|10|31|50|78|90|91|115|116)", "latest", "[ -~]{0,10}"];
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        let mut silent = Vec::new();
        for (method, name, part, tail, query, version) in cases(
            &(
                methods.clone(),
                names.clone(),
                parts.clone(),
                names.clone(),
                queries.clone(),
                versions.clone(),
            ),
            1_500,
        ) {
            let path = format!("/v1/nodes/{name}/{part}/{tail}{query}");
            for path in [path, format!("/v1/nodes{query}"), format!("/{name}/{part}")] {
                let bytes = format!(
                    "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-OpenStack-Ironic-API-Version: {version}\r\n\r\n"
                );
                let answer = client::raw(lab.address, bytes.as_bytes()).await;
                let what = format!("{engine} {method} {path} {version}");
                harmless(answer.as_ref(), &what);
                if answer.is_none() {
                    silent.push(what);
                }
            }
        }
        assert!(silent.is_empty(), "{} requests without an answer: {:?}", silent.len(), silent.first());
        // Whatever was deleted, the server serves.
        lab.call("GET", "/v1/nodes", None).await.expect(200);
    }
}

#[tokio::test]
async fn heads() {
    let lab = Lab::sqlite().await;
    let bytes = prop::collection::vec(
        prop_oneof![any::<u8>(), Just(b' '), Just(b','), Just(b'/'), Just(b';')],
        0..60,
    );
    let names = prop_oneof![
        Just("Accept"),
        Just("Host"),
        Just("Content-Type"),
        Just("Authorization"),
        Just("X-OpenStack-Ironic-API-Version"),
        Just("OpenStack-API-Version"),
        Just("X-Auth-Token"),
        Just("Transfer-Encoding"),
        Just("Expect"),
        Just("Content-Length"),
    ];
    for (name, value) in cases(&(names, bytes), 1_500) {
        let mut request = b"GET /v1/nodes HTTP/1.1\r\nConnection: close\r\nHost: h\r\n".to_vec();
        request.extend_from_slice(format!("{name}: ").as_bytes());
        request.extend(value.iter().filter(|b| **b != b'\n' && **b != b'\r'));
        request.extend_from_slice(b"\r\n\r\n");
        let answer = client::raw_then_close(lab.address, &request).await;
        harmless(answer.as_ref(), &format!("{name}: {}", String::from_utf8_lossy(&value)));
    }
    // No request at all.
    for bytes in cases(&prop::collection::vec(any::<u8>(), 0..200), 300) {
        harmless(client::raw_then_close(lab.address, &bytes).await.as_ref(), "noise");
    }
    let huge = format!("GET /v1/nodes HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(300_000));
    harmless(client::raw_then_close(lab.address, huge.as_bytes()).await.as_ref(), "a huge head");
    lab.call("GET", "/v1/nodes", None).await.expect(200);
}

#[tokio::test]
async fn bodies() {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        "[\u{0}-\u{2ff}\u{1f980}\u{fffd}]{0,20}".prop_map(|s| json!(s)),
        Just(json!("x".repeat(70_000))),
        Just(json!("'; DROP TABLE nodes; --")),
    ];
    let value = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|v| json!(v)),
            prop::collection::btree_map("[a-z_/~'\u{0}-\u{2}\u{e9}]{0,12}", inner, 0..5)
                .prop_map(|m| json!(m)),
        ]
    });
    let names: Vec<&str> = vec![
        "uuid",
        "name",
        "driver",
        "owner",
        "lessee",
        "extra",
        "properties",
        "driver_info",
        "instance_info",
        "description",
        "maintenance",
        "retired",
        "retired_reason",
        "shard",
        "parent_node",
        "network_data",
        "resource_class",
        "instance_uuid",
        "instance_name",
        "chassis_uuid",
        "conductor_group",
        "power_interface",
        "automated_clean",
        "type",
        "reason",
        "traits",
    ];
    let name = prop::sample::select(names);
    let node = prop::collection::vec((name.clone(), value.clone()), 0..4).prop_map(|fields| {
        let mut body = json!({"driver": "fake-hardware"});
        for (name, value) in fields {
            body[name] = value;
        }
        body
    });
    let path = (name.clone(), prop_oneof![Just(String::new()), "(/[a-z0-9_-]{1,3}){1,3}"])
        .prop_map(|(n, rest)| format!("/{n}{rest}"));
    let patch = prop::collection::vec(
        (prop_oneof!["add", "replace", "remove"], path, value.clone())
            .prop_map(|(op, path, value)| json!({"op": op, "path": path, "value": value})),
        0..3,
    )
    .prop_map(|operations| json!(operations));
    let entry =
        (prop_oneof!["operator_hold", "hardware_failure", "[a-z\u{0}]{0,80}"], value.clone(), value.clone())
            .prop_map(|(t, reason, extra)| json!({"type": t, "reason": reason, "extra": extra}));
    for (engine, lab) in engines().await {
        lab.node("n1").await;
        for (node, patch, entry, any) in
            cases(&(node.clone(), patch.clone(), entry.clone(), value.clone()), 60)
        {
            for (method, path, body) in [
                ("POST", "/v1/nodes", &node),
                ("PATCH", "/v1/nodes/n1", &patch),
                ("POST", "/v1/nodes/n1/maintenance", &entry),
                ("PUT", "/v1/nodes/n1/maintenance", &any),
                ("PUT", "/v1/nodes/n1/maintenance", &json!({"reason": any})),
                ("PATCH", "/v1/nodes/n1", &any),
                ("POST", "/v1/nodes", &any),
                ("DELETE", "/v1/nodes/n1/maintenance", &any),
            ] {
                let answer = lab.call(method, path, Some(body.clone())).await;
                harmless(Some(&answer), &format!("{engine} {method} {path} {body}"));
            }
            let shown = lab.call("GET", "/v1/nodes/n1", None).await;
            // The name may have been changed; then the node is looked for no more.
            if shown.status != 200 {
                lab.node("n1").await;
            }
            lab.call("GET", "/v1/nodes/detail?limit=20&sort_dir=desc", None).await.expect(200).json();
        }
        for bytes in [
            &b"\xff\xfe"[..],
            b"{\"reason\": \"\xff\"}",
            b"{\"reason\": \"\\ud800\"}",
            b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
            b"{\"a\":",
            b"\0",
            b"1e999999",
        ] {
            for (method, path) in [
                ("POST", "/v1/nodes"),
                ("PATCH", "/v1/nodes/n1"),
                ("PUT", "/v1/nodes/n1/maintenance"),
                ("POST", "/v1/nodes/n1/maintenance"),
            ] {
                for content_type in [
                    "application/json",
                    "text/plain",
                    "application/x-www-form-urlencoded",
                    "multipart/form-data",
                ] {
                    let headers =
                        [("Content-Type", content_type), ("X-OpenStack-Ironic-API-Version", "latest")];
                    let answer = client::send(lab.address, method, path, &headers, Some(bytes)).await;
                    harmless(Some(&answer), &format!("{engine} {method} {path} {content_type} {bytes:?}"));
                }
            }
        }
    }
}

#[tokio::test]
async fn a_thousand_entries_on_one_node() {
    for (engine, lab) in engines().await {
        let node = lab.node("n1").await;
        let time =
            if engine == "PostgreSQL" { "TIMESTAMP '2026-07-01 00:00:00'" } else { "'2026-07-01 00:00:00'" };
        let rows: Vec<_> = (0..1_000)
            .map(|i| {
                format!(
                    "SELECT '0000{i:04}-0000-4000-8000-000000000000', id, 'operator_hold', 'reason {i} {}', 'lessee', \
                     'u{i}', 'p{i}', {time}, '1.0', {time} FROM nodes WHERE uuid='{node}'",
                    "r".repeat(80)
                )
            })
            .collect();
        for rows in rows.chunks(100) {
            lab.sql(&format!(
                "INSERT INTO node_maintenance (uuid, node_id, type, reason, scope, asserted_by, asserted_by_project, \
                 asserted_at, version, created_at) {}",
                rows.join(" UNION ALL ")
            ))
            .await;
        }
        let listed = lab.get("/v1/nodes/n1/maintenance").await;
        assert_eq!(listed["maintenance"].as_array().unwrap().len(), 1_000, "{engine}");
        let one = lab.entry("n1", "operator_hold", "one more").await;
        let shown = lab.get("/v1/nodes/n1").await;
        assert!(shown["maintenance_reason"].as_str().unwrap().len() <= 65_535, "{engine}");
        lab.call("DELETE", &format!("/v1/nodes/n1/maintenance/{one}"), None).await.expect(204);
        lab.call("DELETE", "/v1/nodes/n1/maintenance", None).await.expect(204);
        assert_eq!(lab.get("/v1/nodes/n1/maintenance").await, json!({"maintenance": []}), "{engine}");
    }
}

//! A hundred thousand nodes: every one of them is on exactly one page, and a page deep in the list is like the first.

use std::time::{Duration, Instant};

use crate::lab::{Lab, on};

const NODES: usize = 100_000;

async fn seed(engine: &str, lab: &Lab) {
    let (number, hex, rows, time) = match engine {
        "PostgreSQL" => (
            "i",
            "to_hex(i)",
            format!("generate_series(1, {NODES}) AS s(i)"),
            "TIMESTAMP '2026-07-01 00:00:00'",
        ),
        "MariaDB" => ("seq", "lower(hex(seq))", format!("seq_1_to_{NODES}"), "'2026-07-01 00:00:00'"),
        _ => (
            "i",
            "printf('%x', i)",
            format!(
                "(WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {NODES}) SELECT i FROM s)"
            ),
            "'2026-07-01 00:00:00'",
        ),
    };
    let padded = if engine == "SQLite" {
        format!("substr('00000000' || {hex}, -8)")
    } else {
        format!("lpad({hex}, 8, '0')")
    };
    let text = |parts: &[&str]| {
        if engine == "MariaDB" { format!("concat({})", parts.join(", ")) } else { parts.join(" || ") }
    };
    let uuid = text(&[&padded, "'-0000-4000-8000-000000000000'"]);
    let name = text(&["'node-'", number]);
    let owner = text(&["'p'", &format!("({number} % 1000)")]);
    let no = if engine == "PostgreSQL" { "false" } else { "0" };
    lab.sql(&format!(
        "INSERT INTO nodes (uuid, name, owner, driver, provision_state, conductor_group, maintenance, protected, version, \
         created_at, extra) SELECT {uuid}, {name}, {owner}, 'fake-hardware', 'enroll', '', {no}, {no}, '1.44', {time}, \
         '{{\"a\": 1}}' FROM {rows}"
    ))
    .await;
    let analyse = match engine {
        "MariaDB" => "ANALYZE TABLE nodes",
        "PostgreSQL" => "ANALYZE nodes",
        _ => "ANALYZE",
    };
    lab.sql(analyse).await;
}

/// The whole list in pages of a thousand: how many nodes, and how long the first and the last pages took.
async fn walk(lab: &Lab, order: &str) -> (usize, Duration, Duration) {
    let mut path = format!("/v1/nodes?fields=uuid,name,extra&limit=1000{order}");
    let mut seen = std::collections::HashSet::new();
    let mut took = Vec::new();
    loop {
        let began = Instant::now();
        let page = lab.get(&path).await;
        took.push(began.elapsed());
        for node in page["nodes"].as_array().unwrap() {
            assert!(seen.insert(node["uuid"].as_str().unwrap().to_owned()), "{order}: twice");
        }
        let Some(next) = page["next"].as_str() else { break };
        path = next.strip_prefix(&format!("http://{}", lab.address)).unwrap().to_owned();
    }
    // The last page is empty: the one before it was full.
    let pages = took.len() - 1;
    let mean = |of: &[Duration]| of.iter().sum::<Duration>() / u32::try_from(of.len()).unwrap();
    (seen.len(), mean(&took[..10]), mean(&took[pages - 10..pages]))
}

async fn hundred_thousand(engine: &str) {
    let lab = on(engine).await.expect("the server of this engine is given");
    seed(engine, &lab).await;
    for order in ["", "&sort_key=name", "&sort_key=owner&sort_dir=desc"] {
        let (nodes, first, last) = walk(&lab, order).await;
        assert_eq!(nodes, NODES, "{engine} {order}");
        println!("{engine} {order:32} first pages {first:>9.1?}, last pages {last:>9.1?}");
    }
    let began = Instant::now();
    let owned = lab.get("/v1/nodes?owner=p7&fields=name").await;
    assert_eq!(owned["nodes"].as_array().unwrap().len(), NODES / 1_000, "{engine}");
    println!("{engine} of one owner: {:.1?}", began.elapsed());
    let shown = lab.get("/v1/nodes/node-77777").await;
    assert_eq!(shown["owner"], "p777", "{engine}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a hundred thousand nodes: scripts/suites/large"]
async fn a_hundred_thousand_nodes_on_sqlite() {
    hundred_thousand("SQLite").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a hundred thousand nodes: scripts/suites/large"]
async fn a_hundred_thousand_nodes_on_postgresql() {
    hundred_thousand("PostgreSQL").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a hundred thousand nodes: scripts/suites/large"]
async fn a_hundred_thousand_nodes_on_mariadb() {
    hundred_thousand("MariaDB").await;
}

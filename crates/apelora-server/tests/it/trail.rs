//! The audit trail over HTTP.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{self, Answer};
use crate::lab::{Lab, engines};

const AUDIT: &str = "/apelora/v1/audit";

/// Rows of every kind, as if they had been written over a year.
async fn fill(engine: &str, lab: &Lab, rows: u32) {
    let user = if engine == "MariaDB" { "`user`" } else { "\"user\"" };
    let rows: Vec<u32> = (0..rows).collect();
    for chunk in rows.chunks(1_000) {
        let values: Vec<String> = chunk
            .iter()
            .map(|row| {
                let action = ["cluster.member.power_off", "cluster.member.fenced", "maintenance.asserted"][*row as usize % 3];
                let outcome = ["success", "failed", "refused", "success"][*row as usize % 4];
                format!(
                    "('{:08x}-0000-4000-8000-000000000000', '2026-{:02}-{:02} 0{}:00:00.000000', 'u{}', '', 'system', '{action}', \
                     '{outcome}', 's{}', 'row {row}', '{{\"row\": {row}}}')",
                    row,
                    row / 900 % 12 + 1,
                    row / 30 % 28 + 1,
                    row % 10,
                    row % 7,
                    row % 5,
                )
            })
            .collect();
        let columns = format!("uuid, at, {user}, project, scope, action, outcome, member, summary, evidence");
        lab.sql(&format!("INSERT INTO apelora_audit ({columns}) VALUES {}", values.join(", "))).await;
    }
}

fn rows(page: &Value) -> &Vec<Value> {
    page["audit"].as_array().unwrap()
}

/// Every row, page by page, by the addresses that the server gives.
async fn all(lab: &Lab, query: &str) -> Vec<Value> {
    let mut path = format!("{AUDIT}{query}");
    let mut read = Vec::new();
    loop {
        let page = lab.get(&path).await;
        read.extend(rows(&page).iter().cloned());
        let Some(next) = page["next"].as_str() else { return read };
        path = next.strip_prefix(&format!("http://{}", lab.address)).unwrap().to_owned();
        assert!(read.len() <= 20_000, "the pages do not end");
    }
}

#[tokio::test]
async fn ten_thousand_rows_are_read_whole_in_both_orders() {
    for (engine, lab) in engines().await {
        fill(engine, &lab, 10_001).await;
        let oldest = all(&lab, "").await;
        assert_eq!(oldest.len(), 10_001, "{engine}");
        let seqs: Vec<i64> = oldest.iter().map(|row| row["seq"].as_i64().unwrap()).collect();
        assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{engine}");
        let mut newest = all(&lab, "?sort_dir=desc&limit=777").await;
        newest.reverse();
        assert!(newest == oldest, "{engine}");
        // A filter stays over the pages.
        let some = all(&lab, "?member=s3&outcome=failed&limit=100").await;
        let wanted = |row: &&Value| row["member"] == "s3" && row["outcome"] == "failed";
        assert!(some == oldest.iter().filter(wanted).cloned().collect::<Vec<_>>(), "{engine}");
        assert!(some.len() > 100, "{engine}");
        for (query, wanted) in [
            (
                "?action=cluster.member.fenced",
                (&|row: &Value| row["action"] == "cluster.member.fenced") as &dyn Fn(&Value) -> bool,
            ),
            ("?actor=u3", &|row| row["user"] == "u3"),
            ("?from=2026-03-01&until=2026-04-01T00:00:00Z", &|row| {
                row["at"].as_str().unwrap().starts_with("2026-03")
            }),
            ("?member=s3&actor=u1&outcome=success", &|row| {
                row["member"] == "s3" && row["user"] == "u1" && row["outcome"] == "success"
            }),
            ("?member=S3", &|_| false),
            ("?member=nobody", &|_| false),
        ] {
            let found = all(&lab, query).await;
            let expected: Vec<_> = oldest.iter().filter(|row| wanted(row)).cloned().collect();
            assert!(found == expected, "{engine} {query}: {} of {}", found.len(), expected.len());
        }
    }
}

#[tokio::test]
async fn rows_are_found_by_the_node_they_are_about() {
    for (engine, lab) in engines().await {
        let uuid = lab.node("n1").await;
        lab.node("n2").await;
        for node in ["n1", "n2"] {
            lab.entry(node, "operator_hold", "r").await;
        }
        for node in ["n1", uuid.as_str()] {
            let page = lab.get(&format!("{AUDIT}?node={node}")).await;
            assert_eq!(rows(&page).len(), 1, "{engine} {page}");
            let row = &rows(&page)[0];
            assert_eq!(
                (&row["action"], &row["node_uuid"]),
                (&json!("maintenance.asserted"), &json!(uuid)),
                "{engine}"
            );
            assert!(row["evidence"].is_object(), "{engine} {row}");
        }
        assert_eq!(rows(&lab.get(&format!("{AUDIT}?node=n3")).await).len(), 0, "{engine}");
    }
}

async fn asked(lab: &Lab, query: &str, accept: &str) -> Answer {
    client::send(lab.address, "GET", &format!("{AUDIT}{query}"), &[("Accept", accept)], None).await
}

#[tokio::test]
async fn a_page_comes_in_the_form_that_is_wanted() {
    let lab = Lab::sqlite().await;
    fill("SQLite", &lab, 5).await;
    let json = lab.get(&format!("{AUDIT}?limit=3")).await;
    for (query, accept) in [
        ("?limit=3&format=jsonl", "*/*"),
        ("?limit=3", "application/jsonl"),
        ("?limit=3", "application/x-ndjson"),
    ] {
        let lines = asked(&lab, query, accept).await.expect(200);
        assert_eq!(lines.header("content-type"), Some("application/jsonl"));
        let read: Vec<Value> = lines.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, *rows(&json), "{query}");
        let link = lines.header("link").unwrap();
        assert!(link.contains("marker=3") && link.ends_with("; rel=\"next\""), "{link}");
    }
    for (query, accept) in
        [("?limit=3&format=csv", "application/json"), ("?limit=3", "text/csv, application/json;q=0.9")]
    {
        let csv = asked(&lab, query, accept).await.expect(200);
        assert!(csv.header("content-type").unwrap().starts_with("text/csv"), "{query}");
        let lines: Vec<_> = csv.body.split("\r\n").collect();
        assert_eq!(lines.len(), 5, "{}", csv.body);
        assert!(lines[0].starts_with("seq,uuid,at,user,"), "{}", lines[0]);
        assert!(
            lines[1].starts_with("1,00000000-0000-4000-8000-000000000000,2026-01-01T00:00:00+00:00,u0,"),
            "{}",
            lines[1]
        );
        assert!(csv.header("link").is_some());
    }
    // The last page names no other.
    let last = asked(&lab, "?limit=3&marker=3", "text/csv").await.expect(200);
    assert_eq!(last.header("link"), None);
    asked(&lab, "", "text/html").await.expect(406);
    asked(&lab, "?format=xml", "*/*").await.expect(400);
    // Other addresses go on to have JSON only.
    let other =
        client::send(lab.address, "GET", "/apelora/v1/members", &[("Accept", "text/csv")], None).await;
    other.expect(406);
}

#[tokio::test]
async fn no_text_of_others_breaks_out_of_its_cell() {
    let lab = Lab::sqlite().await;
    lab.node("n1").await;
    let hostile = ["=HYPERLINK(\"http://x\",\"y\")", "+1", "-1", "@SUM(A1)", "a,\"b\"\r\n9,9", "\u{1b}[2J"];
    for (row, text) in hostile.iter().enumerate() {
        let text = text.replace('\'', "''");
        lab.sql(&format!(
            "INSERT INTO apelora_audit (uuid, at, user, project, scope, action, outcome, summary, evidence) VALUES \
             ('u{row}', '2026-01-01 00:00:00.000000', '{text}', '', 'system', 'a', 'success', '{text}', '{{}}')"
        ))
        .await;
    }
    let lines = asked(&lab, "", "application/jsonl").await.expect(200).body;
    assert_eq!(lines.lines().count(), hostile.len());
    assert!(lines.is_ascii() && !lines.contains('\u{1b}'), "escaped in JSON");
    for (line, text) in lines.lines().zip(hostile) {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["summary"], text);
    }
    let csv = asked(&lab, "", "text/csv").await.expect(200).body;
    // As a reader of CSV takes it apart.
    let mut cells = Vec::new();
    let (mut cell, mut quoted) = (String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' | '\n' if !quoted => cells.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            c => cell.push(c),
        }
    }
    assert_eq!(cells.len(), 16 * (hostile.len() + 1), "{csv}");
    let users: BTreeSet<&str> = cells.chunks(16).skip(1).map(|row| row[3].as_str()).collect();
    for text in hostile {
        let guarded = format!("'{text}");
        let shown = if text.starts_with(['=', '+', '-', '@']) { guarded.as_str() } else { text };
        assert!(users.contains(shown), "{shown:?} in {users:?}");
    }
}

#[tokio::test]
async fn questions_that_cannot_be_asked_are_refused_with_the_argument() {
    let lab = Lab::sqlite().await;
    for (query, words) in [
        ("?bogus=1", "Unexpected arguments: bogus"),
        ("?from=yesterday", "from"),
        ("?until=2026-02-30", "until"),
        ("?marker=x", "marker"),
        ("?limit=0", "Limit must be positive"),
        ("?sort_dir=up", "Invalid sort direction: up"),
        ("?member=%00", "member"),
        ("?member=a&member=b", "member"),
    ] {
        let fault = lab.call("GET", &format!("{AUDIT}{query}"), None).await.expect(400).fault();
        assert!(fault.contains(words), "{query}: {fault}");
    }
    for query in [
        "?marker=-5",
        "?marker=9223372036854775807",
        "?from=0001-01-01",
        "?until=9999-12-31",
        "?limit=99999999999",
    ] {
        lab.get(&format!("{AUDIT}{query}")).await;
    }
}

//! Peers that want to cost time or memory, or to be taken for something else; over a real Unix socket and over TLS.

use std::time::Duration;

use apelora_http::{HttpError, Part, Step};
use apelora_incus::{IncusError, Problem};
use serde_json::json;
use tokio::time::Instant;

use crate::bodies::envelope;
use crate::listed;
use crate::peer::{Peer, Reply, Seen, piped_tls, socket, whole};

const JSON: &str = "application/json";

/// Longest time that a call may take here.
const LIMIT: Duration = Duration::from_secs(5);

/// What a peer's answer to the member list (limit 8 MiB) comes to, and how much of it was taken.
struct Outcome {
    how: &'static str,
    error: IncusError,
    took: Duration,
    written: u64,
}

async fn outcomes(script: impl Fn(&Seen) -> Reply + Clone + Send + Sync + 'static) -> [Outcome; 2] {
    let unix = async |script| {
        let peer = Peer::new(script);
        let socket = socket(&peer);
        let start = Instant::now();
        let error = socket.client().members(start + LIMIT).await.unwrap_err();
        Outcome { how: "unix", error, took: start.elapsed(), written: peer.written() }
    };
    let tls = async |script| {
        let peer = Peer::new(script);
        let start = Instant::now();
        let error = piped_tls(&peer).members(start + LIMIT).await.unwrap_err();
        Outcome { how: "tls", error, took: start.elapsed(), written: peer.written() }
    };
    [unix(script.clone()).await, tls(script).await]
}

#[tokio::test(start_paused = true)]
async fn slowness_ends_at_the_deadline() {
    let body = envelope(&json!([])).to_string().into_bytes();
    let all = whole(200, JSON, &body);
    let head = all[..all.len() - body.len()].to_vec();
    let pause = Duration::from_millis(700);
    let (of_head, of_body) = (all.clone(), head.clone());
    let slow: [(Box<dyn Fn() -> Reply + Send + Sync>, Step); 4] = [
        (Box::new(|| Reply::Never), Step::Head),
        (Box::new(move || Reply::Drip(Vec::new(), of_head.clone(), pause)), Step::Head),
        (Box::new(move || Reply::Drip(of_body.clone(), body.clone(), pause)), Step::Body),
        (Box::new(move || Reply::Keep(head.clone())), Step::Body),
    ];
    for (reply, expected) in slow {
        let reply = std::sync::Arc::new(reply);
        for Outcome { how, error, took, .. } in outcomes(move |_| reply()).await {
            match &error.problem {
                Problem::Http(HttpError::Deadline { during, sent: true, .. }) => {
                    assert_eq!(*during, expected, "{how}");
                }
                _ => panic!("{how}: {error}"),
            }
            assert_eq!(took, LIMIT, "{how}, {expected}");
        }
    }
}

const ALLOWED: u64 = 8 << 20;

#[tokio::test]
async fn too_much_is_refused_and_not_taken() {
    // 100 MB, announced; then without an end, in chunks; then until the connection closes; then a head without an end.
    let piece = [b'a'; 16 << 10];
    let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
    let start = |rest: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\n{rest}").into_bytes();
    for (first, again, part) in [
        (start("Content-Length: 100000000\r\n\r\n"), piece.to_vec(), Part::Body),
        (start("Transfer-Encoding: chunked\r\n\r\n"), chunk, Part::Body),
        (start("\r\n"), piece.to_vec(), Part::Body),
        (start("X-Filler: "), piece.to_vec(), Part::Head),
    ] {
        let script = move |_: &Seen| Reply::Endless(first.clone(), again.clone());
        for Outcome { how, error, written, .. } in outcomes(script).await {
            match &error.problem {
                Problem::Http(HttpError::TooLarge { part: told, .. }) => assert_eq!(*told, part, "{how}"),
                _ => panic!("{how}: {error}"),
            }
            assert!(written < ALLOWED + (1 << 20), "{how}: {written}");
        }
    }
}

/// The largest limit of all holds too, and what was read is given back.
#[tokio::test]
async fn a_list_of_instances_has_its_limit() {
    let piece = vec![b' '; 1 << 20];
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\n\r\n").into_bytes();
    let peer = Peer::new(move |_| Reply::Endless(head.clone(), piece.clone()));
    let socket = socket(&peer);
    let refused = socket.client().instances(Instant::now() + Duration::from_secs(600)).await.unwrap_err();
    match refused.problem {
        Problem::Http(HttpError::TooLarge { part: Part::Body, limit, .. }) => assert_eq!(limit, 64 << 20),
        other => panic!("{other}"),
    }
    assert!(peer.written() < 66 << 20, "{}", peer.written());
}

#[tokio::test]
async fn nonsense_is_named() {
    let list = envelope(&json!([])).to_string();
    let nested = |open: &str, close: &str| {
        let metadata = format!("{}{}", open.repeat(500_000), close.repeat(500_000));
        list.replace("[]", &metadata)
    };
    let cut = &list[..list.len() / 2];
    let twice = format!("{list}{list}");
    for (reply, expected) in [
        (
            whole(200, "text/html", b"<html>"),
            "not understood: content-type: text/html with status 200 is not JSON",
        ),
        (
            whole(502, "text/html; charset=utf-8", b"<html>"),
            "not understood: content-type: text/html with status 502",
        ),
        // What would be an answer.
        (whole(200, "text/plain", list.as_bytes()), "not understood: content-type: text/plain"),
        (whole(200, "", list.as_bytes()), "not understood: content-type: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".to_vec(), "not understood: content-type: nothing"),
        (whole(200, JSON, b""), "not understood: body: EOF"),
        (whole(204, JSON, b""), "not understood: body: EOF"),
        (whole(200, JSON, cut.as_bytes()), "not understood: body: EOF"),
        (whole(200, JSON, twice.as_bytes()), "not understood: body: trailing characters"),
        (whole(200, JSON, b"\xff\xfe{}"), "not understood: body: invalid utf-8"),
        (whole(200, JSON, nested("[", "]").as_bytes()), "not understood: metadata[0]: invalid type"),
        (
            whole(200, JSON, nested(r#"{"a":"#, "}").replacen(":}", ":1}", 1).as_bytes()),
            "not understood: metadata: invalid type",
        ),
        (whole(200, JSON, "[".repeat(1_000_000).as_bytes()), "not understood: body: "),
        (whole(301, JSON, list.as_bytes()), "the server answers with a redirect (301)"),
        (
            b"HTTP/1.1 302 -\r\nLocation: https://10.0.0.1:8443/1.0\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "the server answers with a redirect (302)",
        ),
    ] {
        for Outcome { how, error, .. } in outcomes(move |_| Reply::Keep(reply.clone())).await {
            let told = listed::error(&error);
            assert!(told.starts_with(expected), "{how}: {}", told.chars().take(300).collect::<String>());
            assert!(error.to_string().len() < 3000, "{how}");
        }
    }
}

/// Deep nesting where it is skipped, inside a member, and where it is read.
#[tokio::test]
async fn deep_nesting_is_skipped_or_refused() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let member = r#"[{"server_name":"m1","status":"Online","message":"","roles":ROLES,"url":"u","database":true,
        "failure_domain":"default","architecture":"x86_64","config":CONFIG}]"#;
    let body = |roles: &str, config: &str| {
        let list = member.replace("ROLES", roles).replace("CONFIG", config);
        envelope(&json!("LIST")).to_string().replace("\"LIST\"", &list)
    };
    for (body, fine) in [(body("[]", &deep), true), (body(&deep, "{}"), false)] {
        let bytes = whole(200, JSON, body.as_bytes());
        let peer = Peer::new(move |_| Reply::Keep(bytes.clone()));
        let read = piped_tls(&peer).members(Instant::now() + LIMIT).await;
        assert_eq!(read.is_ok(), fine, "{read:?}");
    }
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let list = envelope(&json!([])).to_string();
    let all = whole(200, JSON, list.as_bytes());
    let head_only = all[..20].to_vec();
    let body_half = all[..all.len() - 5].to_vec();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{list}\r\n",
        list.len()
    );
    for (bytes, status) in
        [(Vec::new(), None), (head_only, None), (body_half, Some(200)), (chunked.into_bytes(), Some(200))]
    {
        for Outcome { how, error, .. } in outcomes(move |_| Reply::Close(bytes.clone())).await {
            match &error.problem {
                Problem::Http(HttpError::MaybeSent { status: told, .. }) => {
                    assert_eq!(*told, status, "{how}");
                }
                _ => panic!("{how}: {error}"),
            }
        }
    }
    for Outcome { how, error, .. } in outcomes(|_| Reply::Close(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())).await {
        assert!(error.to_string().contains("does not speak HTTP/1.1"), "{how}: {error}");
    }
}

/// An answer that nobody asked for must not become the answer to the next request.
#[tokio::test]
async fn an_answer_too_many_is_not_the_next_one() {
    let fine = whole(200, JSON, envelope(&json!([])).to_string().as_bytes());
    let forged = whole(200, JSON, br#"{"type":"sync","operation":"","error_code":0,"error":"","metadata":[{"name":"p","driver":"ceph","status":"Created"}]}"#);
    let both = [fine.clone(), forged].concat();
    let peer =
        Peer::new(move |seen| Reply::Keep(if seen.connection == 1 { both.clone() } else { fine.clone() }));
    let client = piped_tls(&peer);
    client.members(Instant::now() + LIMIT).await.unwrap();
    assert!(client.pools(Instant::now() + LIMIT).await.unwrap().is_empty());
    assert_eq!(peer.connections(), 2);
}

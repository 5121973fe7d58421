//! Reaching a peer: names, addresses, ports, Unix sockets.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use apelora_http::{Cause, Endpoint, HttpError, Method, Request, Trust, connect};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use crate::{LIMITS, LOOPBACK, Mirror, file, get, later, listen, trusted};

#[tokio::test]
async fn a_name_is_resolved_and_one_connection_serves_all_requests() {
    let (ca, identity) = trusted();
    let (server, listening, _) = listen(Mirror, &identity).await;
    let endpoint = Endpoint::https(&format!("localhost:{}", listening.address().port())).unwrap();
    let trust = Trust::OnlyFile(ca);
    let mut connection = connect(&endpoint, &trust, &LIMITS, later()).await.unwrap();
    let id = connection.id();
    for number in 0..3 {
        let answer = connection.send(get(&format!("/{number}?q=1")), later()).await.unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let host = format!("host: localhost:{}", listening.address().port());
        assert_eq!(text, format!("GET /{number}?q=1\n{host}\n"), "nothing is sent but what was asked for");
    }
    let post = Request::new(Method::Post, "/act").body("{}");
    let answer = connection.send(post, later()).await.unwrap();
    assert!(answer.body.ends_with(b"content-length: 2\n{}"), "{answer:?}");
    assert_eq!(connection.id(), id);
    assert_eq!(connection.peer(), Some(listening.address()));
    assert_eq!((server.stats().handshakes(), server.stats().requests()), (1, 4));
    connection.close(later()).await;

    let other = connect(&endpoint, &trust, &LIMITS, later()).await.unwrap();
    assert_ne!(other.id(), id);
}

#[tokio::test]
async fn an_endpoint_can_be_held_to_one_address() {
    let (ca, identity) = trusted();
    let (_server, listening, _) = listen(Mirror, &identity).await;
    // The name is not resolved, and still it is the name that the certificate must carry.
    let right = Endpoint::https("localhost").unwrap().only_at(listening.address());
    assert!(connect(&right, &Trust::OnlyFile(ca.clone()), &LIMITS, later()).await.is_ok());
    let wrong = Endpoint::https("bmc1.invalid").unwrap().only_at(listening.address());
    let refused = connect(&wrong, &Trust::OnlyFile(ca), &LIMITS, later()).await.unwrap_err();
    assert!(matches!(refused, HttpError::Tls(_)), "{refused}");
}

#[tokio::test]
async fn a_peer_that_is_not_there_was_sent_nothing() {
    let (ca, _) = trusted();
    let trust = Trust::OnlyFile(ca);
    // A port that was free a moment ago.
    let free = TcpListener::bind(SocketAddr::new(LOOPBACK, 0)).unwrap().local_addr().unwrap();
    let closed = Endpoint::https(&free.to_string()).unwrap();
    match connect(&closed, &trust, &LIMITS, later()).await.unwrap_err() {
        HttpError::NotSent(Cause::Connect { to, why }) => {
            assert_eq!((to, why.kind()), (free.to_string(), ErrorKind::ConnectionRefused));
        }
        other => panic!("{other}"),
    }
    // RFC 6761: `.invalid` never resolves.
    let unknown = Endpoint::https("bmc1.invalid").unwrap();
    match connect(&unknown, &trust, &LIMITS, later()).await.unwrap_err() {
        HttpError::NotSent(Cause::Resolve { host, .. }) => assert_eq!(host, "bmc1.invalid"),
        other => panic!("{other}"),
    }
    let socket = Endpoint::unix(&file("no socket"));
    let refused = connect(&socket, &trust, &LIMITS, later()).await.unwrap_err();
    assert!(matches!(refused, HttpError::NotSent(Cause::Connect { .. })), "{refused}");
}

#[tokio::test]
async fn a_unix_socket_is_spoken_to_without_tls() {
    let path = file("");
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            let mut piece = [0; 256];
            let read = stream.read(&mut piece).await.unwrap();
            assert_ne!(read, 0);
            seen.extend_from_slice(&piece[..read]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        String::from_utf8(seen).unwrap()
    });
    let endpoint = Endpoint::unix(&path);
    // No certificate is involved, so an unusable file does not matter.
    let trust = Trust::OnlyFile("/nowhere".into());
    let mut connection = connect(&endpoint, &trust, &LIMITS, later()).await.unwrap();
    let answer = connection.send(get("/1.0"), later()).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (200, b"ok".as_slice()));
    assert_eq!(serving.await.unwrap(), "GET /1.0 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!((connection.leaf(), connection.peer()), (None, None));
}

//! An HTTP client that sends exactly what it is told to, bytes included.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A bound on every exchange, so that a hanging server fails a test instead of stopping it. Nothing waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Reads a response; `None` when there is none, as after a closed connection.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let at = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
        let mut lines = head.split("\r\n");
        let mut status = lines.next()?.splitn(3, ' ');
        assert_eq!(status.next(), Some("HTTP/1.1"));
        let code = status.next()?.parse().unwrap();
        let reason = status.next().unwrap_or_default().to_owned();
        let headers = lines
            .map(|l| l.split_once(": ").unwrap_or((l, "")))
            .map(|(k, v)| (k.to_lowercase(), v.to_owned()));
        let body = String::from_utf8(bytes[at + 4..].to_vec()).expect("answers are text");
        Some(Self { status: code, reason, headers: headers.collect(), body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e} in {}", self.body))
    }

    /// The text of a refusal of shape 1.
    pub(crate) fn fault(&self) -> String {
        let inner = self.json()["error_message"].as_str().expect("a refusal").to_owned();
        let inner: Value = serde_json::from_str(&inner).unwrap();
        inner["faultstring"].as_str().expect("shape 1").to_owned()
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} {}", self.reason, self.body);
        self
    }
}

/// Sends these bytes on a connection of their own and reads until the server closes it.
pub(crate) async fn raw(to: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(to).await.unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        Answer::read(&answer)
    };
    tokio::time::timeout(PATIENCE, exchange).await.expect("the server does not answer")
}

/// As [`raw`], and then says that nothing more will come, for a server that would wait for more.
pub(crate) async fn raw_then_close(to: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        Answer::read(&answer)
    };
    tokio::time::timeout(PATIENCE, exchange).await.expect("the server does not let go")
}

/// Sends one request; `Host`, `Content-Length` and `Connection: close` are added.
pub(crate) async fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Answer {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if let Some(body) = body {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.unwrap_or_default());
    raw(to, &bytes).await.unwrap_or_else(|| panic!("no answer to {method} {path}"))
}

/// [`send`] without headers and body, for a task of its own.
pub(crate) async fn send_owned(to: SocketAddr, method: &'static str, path: &'static str) -> Answer {
    send(to, method, path, &[("X-OpenStack-Ironic-API-Version", "latest")], None).await
}

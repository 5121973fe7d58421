//! The server's side of HTTP/1.1, small, and able to be wrong on purpose.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;

/// Largest request that is read, in bytes.
const REQUEST_LIMIT: usize = 64 * 1024;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The path, query included.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Which of the server's connections, from 1.
    pub connection: u64,
}

impl Seen {
    /// The value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What a server does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answers it.
    Whole(Whole),
    /// Sends these bytes as they are, then the second ones again and again, until the client has enough.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends these bytes as they are and closes the connection.
    Raw(Vec<u8>),
    /// Closes the connection without an answer.
    Drop,
    /// Waits before it does something.
    Later(Duration, Box<Reply>),
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Whole {
    /// The status.
    pub status: u16,
    /// Headers beside those that frame the body.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the body comes one byte at a time, this far apart.
    pub pace: Option<Duration>,
    /// What happens to the connection.
    pub after: After,
}

/// How a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// With its length.
    Length,
    /// In chunks.
    Chunked,
    /// As HTTP/1.0, which closes the connection.
    Http10,
}

/// What happens to the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It is kept.
    Keep,
    /// It is closed, and the answer says so.
    Close,
    /// It is closed without notice.
    Vanish,
}

impl Whole {
    /// An answer without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            framing: Framing::Length,
            pace: None,
            after: After::Keep,
        }
    }

    /// An answer with a JSON body.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        let mut whole = Self::empty(status).with_header("Content-Type", "application/json");
        whole.body = body.to_string().into_bytes();
        whole
    }

    /// With another header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Reads one request. `None` at the end of the connection.
pub(crate) async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    kept: &mut Vec<u8>,
    connection: u64,
) -> io::Result<Option<Seen>> {
    let end = loop {
        if let Some(end) = kept.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if kept.len() > REQUEST_LIMIT || !more(stream, kept).await? {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&kept[..end]).into_owned();
    kept.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) =
        (first.next().unwrap_or_default().to_owned(), first.next().unwrap_or_default().to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(Ok(0), |(_, text)| text.parse());
    let length: usize = length.map_err(|_| io::ErrorKind::InvalidData)?;
    while kept.len() < length {
        if length > REQUEST_LIMIT || !more(stream, kept).await? {
            return Ok(None);
        }
    }
    let body = kept.drain(..length).collect();
    Ok(Some(Seen { method, path, headers, body, connection }))
}

async fn more<S: AsyncRead + Unpin>(stream: &mut S, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 4096];
    let read = stream.read(&mut piece).await?;
    kept.extend_from_slice(&piece[..read]);
    Ok(read > 0)
}

/// Writes a reply. `true` when the connection is kept.
pub(crate) async fn write_reply<S: AsyncWrite + Unpin>(
    stream: &mut S,
    reply: &Reply,
    written: &mut (dyn FnMut(usize) + Send),
) -> io::Result<bool> {
    match reply {
        Reply::Later(delay, reply) => {
            sleep(*delay).await;
            Box::pin(write_reply(stream, reply, written)).await
        }
        Reply::Drop => Ok(false),
        Reply::Raw(bytes) => {
            stream.write_all(bytes).await?;
            written(bytes.len());
            Ok(false)
        }
        Reply::Endless(first, again) => {
            stream.write_all(first).await?;
            written(first.len());
            loop {
                stream.write_all(again).await?;
                written(again.len());
            }
        }
        Reply::Whole(whole) => write_whole(stream, whole, written).await,
    }
}

async fn write_whole<S: AsyncWrite + Unpin>(
    stream: &mut S,
    whole: &Whole,
    written: &mut (dyn FnMut(usize) + Send),
) -> io::Result<bool> {
    let version = if whole.framing == Framing::Http10 { "HTTP/1.0" } else { "HTTP/1.1" };
    let mut head = format!("{version} {} -\r\n", whole.status);
    for (name, value) in &whole.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    // RFC 9110 section 8.6: an answer that never has a body has no length either.
    let bodiless = whole.status == 204 || whole.status == 304;
    match whole.framing {
        Framing::Length if bodiless => {}
        Framing::Length => head.push_str(&format!("Content-Length: {}\r\n", whole.body.len())),
        Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        Framing::Http10 => {}
    }
    if whole.after == After::Close {
        head.push_str("Connection: close\r\n");
    }
    head.push_str("\r\n");

    let payload = framed(whole);
    let mut wire = head.into_bytes();
    let slowly = if let Some(pace) = whole.pace {
        Some((pace, payload))
    } else {
        wire.extend_from_slice(&payload);
        None
    };
    stream.write_all(&wire).await?;
    stream.flush().await?;
    written(wire.len());
    if let Some((pace, payload)) = slowly {
        for byte in payload {
            sleep(pace).await;
            stream.write_all(&[byte]).await?;
            stream.flush().await?;
            written(1);
        }
    }
    Ok(whole.after == After::Keep && whole.framing != Framing::Http10)
}

fn framed(whole: &Whole) -> Vec<u8> {
    if whole.framing != Framing::Chunked {
        return whole.body.clone();
    }
    let mut framed = Vec::new();
    for chunk in whole.body.chunks(100) {
        framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    framed
}

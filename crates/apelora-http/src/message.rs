//! A request and its answer.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The methods that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Act or create.
    Post,
    /// Replace.
    Put,
    /// Change.
    Patch,
    /// Remove.
    Delete,
}

/// One request. The `Host` and `Content-Length` headers are made from the connection and the body; nothing else is
/// added.
#[derive(Clone)]
pub struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) body_limit: Option<usize>,
}

impl Request {
    /// A request for `path`: the path and query as written on the request line.
    #[must_use]
    pub fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            body_limit: None,
        }
    }

    /// With a header. Mark values that are secret as sensitive.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With a body, sent with a `Content-Length`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With a limit of its own for the answer's body, in bytes, below the connection's.
    #[must_use]
    pub fn answer_at_most(mut self, bytes: usize) -> Self {
        self.body_limit = Some(bytes);
        self
    }
}

/// Without headers and body: they may hold secrets that nobody marked.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl From<Method> for hyper::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Get => Self::GET,
            Method::Post => Self::POST,
            Method::Put => Self::PUT,
            Method::Patch => Self::PATCH,
            Method::Delete => Self::DELETE,
        }
    }
}

/// A whole answer: it arrived within the deadline and the limits.
pub struct Answer {
    /// The status, 200 to 599 as a rule; informational answers are skipped.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as sent: nothing is decompressed.
    pub body: Bytes,
}

/// Without headers and body: peers repeat what they were sent.
impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

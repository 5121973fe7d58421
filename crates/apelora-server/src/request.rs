//! A request of the Bare Metal API, read whole, and what its body says.

use std::fmt;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, StatusCode, Uri, request};
use http_body_util::BodyExt;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::args::Args;
use crate::error::ApiError;

/// The largest body, in bytes.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// The deepest nesting of a JSON body.
const DEPTH_MAX: usize = 25;
/// How much of a body that is too large is read before the answer, so that a client that sends first and reads then
/// finds it.
const DRAIN_MAX: usize = 8 << 20;

/// A request, read whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is refused.
    Refused(ApiError),
    /// The client went away, or sent something that is no body.
    Gone,
}

impl Request {
    /// Reads the body, until `by` at the latest.
    ///
    /// # Errors
    /// A body that is too large, too deep or too slow.
    pub(crate) async fn read<B>(parts: request::Parts, mut body: B, by: Instant) -> Result<Self, Unread>
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        let request::Parts { method, uri, headers, .. } = parts;
        let mut read = BytesMut::new();
        let mut seen = 0_usize;
        let slow = |_| {
            let message = "The request body did not arrive in time.";
            Unread::Refused(ApiError::Body { status: StatusCode::REQUEST_TIMEOUT, message })
        };
        while let Some(frame) = timeout_at(by, body.frame()).await.map_err(slow)? {
            let Ok(data) = frame.map_err(|_| Unread::Gone)?.into_data() else { continue };
            seen = seen.saturating_add(data.len());
            if seen > DRAIN_MAX {
                break;
            }
            if seen <= BODY_MAX {
                read.extend_from_slice(&data);
            }
        }
        if seen > BODY_MAX {
            let message = "Request body is too large. Please contact the service administrator.";
            return Err(Unread::Refused(ApiError::Body { status: StatusCode::PAYLOAD_TOO_LARGE, message }));
        }
        let request = Self { method, uri, headers, body: read.freeze() };
        if request.content_type_is_json() && is_too_deep(&request.body) {
            let message = "Request body JSON is nested too deeply. Please contact the service administrator.";
            return Err(Unread::Refused(ApiError::Body { status: StatusCode::BAD_REQUEST, message }));
        }
        Ok(request)
    }

    /// `scheme://host:port` as the client called this service.
    pub(crate) fn base(&self, scheme: &str, local: SocketAddr) -> String {
        let host = self.headers.get(HOST).and_then(|h| h.to_str().ok()).filter(|h| !h.is_empty());
        match (host, self.uri.authority()) {
            (Some(host), _) => format!("{scheme}://{host}"),
            (None, Some(authority)) => format!("{scheme}://{authority}"),
            (None, None) => format!("{scheme}://{local}"),
        }
    }

    /// The arguments of the query.
    pub(crate) fn query(&self) -> Args {
        Args::parse(self.uri.query().unwrap_or_default())
    }

    /// The arguments of query, form and JSON body together. A body that is no object has none, and whether it is JSON
    /// at all is not asked: that is how the reference reads bodies of small requests.
    ///
    /// # Errors
    /// 400 for text that is no Unicode: dropped without a word it would lose what somebody wrote.
    pub(crate) fn arguments(&self) -> Result<Args, ApiError> {
        let mut args = self.form_arguments();
        if !self.content_type_is_json() {
            return Ok(args);
        }
        let not_unicode = || ApiError::bad_request("The request body is not valid Unicode text");
        let text = std::str::from_utf8(&self.body).map_err(|_| not_unicode())?;
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => args.merge(members),
            Err(error) if error.to_string().contains("hex escape") => return Err(not_unicode()),
            Ok(_) | Err(_) => {}
        }
        Ok(args)
    }

    /// The arguments of query and form. A POST without a content type is a form.
    pub(crate) fn form_arguments(&self) -> Args {
        let mut args = self.query();
        let content_type = self.content_type();
        let is_form = content_type.starts_with("application/x-www-form-urlencoded")
            || (content_type.is_empty() && self.method == Method::POST);
        if is_form && !self.body.is_empty() {
            let form = String::from_utf8_lossy(&self.body);
            args.merge(
                form_urlencoded::parse(form.as_bytes()).map(|(k, v)| (k.into_owned(), Value::from(v))),
            );
        }
        args
    }

    /// The body as JSON whatever its content type; an empty one is an empty object.
    ///
    /// # Errors
    /// 400.
    pub(crate) fn json(&self) -> Result<Value, ApiError> {
        if self.body.is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        serde_json::from_slice(&self.body)
            .map_err(|e| ApiError::bad_request(format!("The request body is not valid JSON: {e}")))
    }

    /// The body as a JSON object whose names stand once each, sent as `application/json`; an empty body is an empty
    /// object.
    ///
    /// A page of a stranger can make a browser send every type that forms have without the service being asked first, and
    /// a name that stands twice means what its reader makes of it: both are refused where much depends on one request.
    ///
    /// # Errors
    /// 415 for another type, 400 for what is no such object.
    pub(crate) fn strict_object(&self) -> Result<Map<String, Value>, ApiError> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        if self.content_type().split(';').next().map(str::trim) != Some("application/json") {
            return Err(ApiError::resource(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Send the request body as JSON, with the header Content-Type: application/json",
            ));
        }
        let read = serde_json::from_slice::<Object>(&self.body);
        read.map(|object| object.0)
            .map_err(|e| ApiError::bad_request(format!("The request body must be a JSON object: {e}")))
    }

    fn content_type(&self) -> String {
        let value = self.headers.get(CONTENT_TYPE).map(|v| String::from_utf8_lossy(v.as_bytes()));
        value.map(|v| v.trim().to_ascii_lowercase()).unwrap_or_default()
    }

    fn content_type_is_json(&self) -> bool {
        self.content_type().contains("json")
    }
}

/// A JSON object whose names stand once each.
struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Object, A::Error> {
        let mut read = Map::new();
        while let Some((name, value)) = members.next_entry::<String, Value>()? {
            if read.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{name} stands there twice")));
            }
            read.insert(name, value);
        }
        Ok(Object(read))
    }
}

/// Whether brackets nest deeper than is looked at, by counting alone.
fn is_too_deep(body: &[u8]) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn request(
        method: &str,
        uri: &str,
        content_type: Option<&str>,
        body: &[u8],
    ) -> Result<Request, Unread> {
        let mut builder = http::Request::builder().method(method).uri(uri).header(HOST, "h:1");
        if let Some(content_type) = content_type {
            builder = builder.header(CONTENT_TYPE, content_type);
        }
        let (parts, ()) = builder.body(()).unwrap().into_parts();
        Request::read(parts, Full::new(Bytes::copy_from_slice(body)), Instant::now()).await
    }

    #[tokio::test]
    async fn guards_of_bodies() {
        let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
        let json = Some("application/json");
        assert!(request("POST", "/", json, &nested(25)).await.is_ok());
        for (content_type, body, status) in [
            (json, nested(26), Some(400)),
            (None, nested(26), None),
            (None, vec![b' '; BODY_MAX + 1], Some(413)),
        ] {
            let status_of = |unread| match unread {
                Unread::Refused(error) => error.status().as_u16(),
                Unread::Gone => 0,
            };
            let outcome = request("POST", "/", content_type, &body).await.map_err(status_of);
            assert_eq!(outcome.err(), status);
        }
        assert!(!is_too_deep(br#"{"a": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[[[[["}"#));
    }

    #[tokio::test]
    async fn where_arguments_come_from() {
        let names = |request: Result<Request, Unread>| {
            let args = request.unwrap().arguments().unwrap();
            (args.get("reason").cloned(), args.only(&["reason"]).is_ok())
        };
        let json = Some("application/json");
        let text = |t: &str| Some(Value::from(t));
        let form = Some("application/x-www-form-urlencoded");
        assert_eq!(names(request("PUT", "/x?reason=q", None, b"").await), (text("q"), true));
        assert_eq!(names(request("PUT", "/x", json, br#"{"reason": "b"}"#).await), (text("b"), true));
        assert_eq!(names(request("PUT", "/x", form, b"reason=f").await), (text("f"), true));
        for body in ["[]", "\"str\"", "null", "{bad", ""] {
            assert_eq!(names(request("PUT", "/x", json, body.as_bytes()).await), (None, true), "{body}");
        }
        for content_type in [None, Some("text/plain")] {
            assert_eq!(names(request("PUT", "/x", content_type, br#"{"reason": "b"}"#).await), (None, true));
        }
        assert_eq!(names(request("POST", "/x", None, br#"{"reason": "b"}"#).await), (None, false));
        for body in [&br#"{"reason": "\ud800"}"#[..], b"{\"reason\": \"\xff\"}"] {
            assert!(request("PUT", "/x", json, body).await.unwrap().arguments().is_err());
        }
    }
}

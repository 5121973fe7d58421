//! Answers of the Bare Metal API as bytes: body, header set, reason phrase.
//!
//! Source: tests/data/ironic/README.md sections 1.1 to 1.3.

use apelora_maintenance::json;
use bytes::Bytes;
use http::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LINK, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use serde::Serialize;

use crate::Microversion;
use crate::accept::{Accept, ErrorText};
use crate::error::{ApiError, Refusal};
use crate::microversion::{LEGACY_HEADER, MAXIMUM_HEADER, MINIMUM_HEADER};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REALM: HeaderValue = HeaderValue::from_static("Basic realm=\"Baremetal API\"");
/// What the reference's router declares for an error whose body it then does not send.
const HEAD_ERROR_BODY: &[u8] = b"{\"error_message\": \"\"}";
const MALFORMED: &str =
    "The server could not comply with the request since it is either malformed or otherwise incorrect.";

/// A granted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Success {
    status: StatusCode,
    /// `None`: no body at all.
    body: Option<Bytes>,
    content_type: HeaderValue,
    location: Option<String>,
    /// The address of the next page, where the body has no place for it.
    next: Option<String>,
    /// Without version headers and request ids, as for OPTIONS.
    bare: bool,
}

impl Success {
    /// 200 with this JSON text.
    pub(crate) fn json(body: impl Into<Bytes>) -> Self {
        Self::content(JSON, body)
    }

    /// 200 with a body of another type.
    pub(crate) fn content(content_type: HeaderValue, body: impl Into<Bytes>) -> Self {
        Self { body: Some(body.into()), content_type, ..Self::empty(StatusCode::OK) }
    }

    /// Names the next page in a header. Source: RFC 8288.
    pub(crate) fn followed_by(self, next: Option<String>) -> Self {
        Self { next, ..self }
    }

    /// 201 with this JSON text.
    pub(crate) fn created(location: String, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::CREATED, location: Some(location), ..Self::json(body) }
    }

    /// 202 or 204 without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { status, body: None, content_type: JSON, location: None, next: None, bare: false }
    }

    /// The answer to OPTIONS.
    pub(crate) fn options() -> Self {
        Self { bare: true, ..Self::empty(StatusCode::OK) }
    }
}

/// What an answer is rendered for.
#[derive(Debug)]
pub(crate) struct Rendering<'a> {
    pub(crate) method: &'a Method,
    /// Whether the path is `/`.
    pub(crate) at_root: bool,
    pub(crate) accept: &'a Accept,
    /// The negotiated version, once it is known.
    pub(crate) version: Option<Microversion>,
    /// The highest served version.
    pub(crate) max: Microversion,
    /// `req-<uuid>`.
    pub(crate) request_id: &'a str,
}

/// How many of the three version headers an answer has.
enum Versions {
    None,
    Range,
    All,
}

impl Rendering<'_> {
    /// The response for the outcome of a request.
    pub(crate) fn response(&self, outcome: &Result<Success, ApiError>) -> Response<Full<Bytes>> {
        match outcome {
            Ok(success) => self.success(success),
            Err(error) => self.error(error),
        }
    }

    fn success(&self, success: &Success) -> Response<Full<Bytes>> {
        let mut headers = HeaderMap::new();
        if success.body.is_none() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if success.bare {
            return respond(success.status, headers, Bytes::new());
        }
        self.put_versions(&mut headers, &Versions::All);
        if let Some(location) = success.location.as_deref().and_then(|l| HeaderValue::from_str(l).ok()) {
            headers.insert(LOCATION, location);
        }
        let next = success.next.as_deref().map(|next| format!("<{next}>; rel=\"next\""));
        if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
            headers.insert(LINK, next);
        }
        let body = success.body.clone().unwrap_or_default();
        if success.body.is_some() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
            headers.insert(CONTENT_TYPE, success.content_type.clone());
        }
        self.put_request_id(&mut headers);
        respond(success.status, headers, body)
    }

    fn error(&self, error: &ApiError) -> Response<Full<Bytes>> {
        let (versions, body) = match error {
            ApiError::Resource(refusal) => (Versions::All, resource_body(error.status(), &refusal.text)),
            ApiError::Reserved { uuid, by } => {
                let text = format!(
                    "Node {uuid} is locked by host {by}, please retry after the current operation is completed."
                );
                (Versions::All, resource_body(error.status(), &text))
            }
            ApiError::Router { status, description, .. } => {
                (Versions::None, self.router_body(*status, description))
            }
            ApiError::NotAcceptable => (Versions::None, self.router_body(error.status(), "")),
            ApiError::Version(bad) => {
                let body = if self.at_root {
                    resource_body(error.status(), &bad.to_string())
                } else {
                    self.router_body(error.status(), &bad.to_string())
                };
                (if bad.tells_range() { Versions::Range } else { Versions::None }, body)
            }
            ApiError::Authentication { status, message } => (
                Versions::None,
                format!("{{\"error\":{{\"message\":{},\"code\":{}}}}}", text(message), status.as_u16()),
            ),
            ApiError::TokenRequired { .. } => (
                Versions::None,
                keystone_body(error.status(), "The request you have made requires authentication."),
            ),
            ApiError::NoDecision { .. } => (
                Versions::None,
                keystone_body(error.status(), "The Keystone service is temporarily unavailable."),
            ),
            ApiError::Body { message, .. } => {
                (Versions::None, text(&Fault { faultcode: "Client", faultstring: message }))
            }
        };
        let mut headers = HeaderMap::new();
        self.put_versions(&mut headers, &versions);
        match error {
            ApiError::Resource(Refusal { retry_after: Some(seconds), .. }) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*seconds));
            }
            ApiError::NoDecision { retry_after } => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*retry_after));
            }
            ApiError::TokenRequired { uri } => {
                let challenge = HeaderValue::try_from(format!("Keystone uri=\"{uri}\""));
                headers.insert(WWW_AUTHENTICATE, challenge.unwrap_or(HeaderValue::from_static("Keystone")));
            }
            ApiError::Router { allow: Some(allow), .. }
            | ApiError::Resource(Refusal { allow: Some(allow), .. }) => {
                headers.insert(ALLOW, HeaderValue::from_static(allow));
            }
            ApiError::Authentication { status, .. } if *status == StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, REALM);
            }
            ApiError::Body { status, .. } if *status == StatusCode::PAYLOAD_TOO_LARGE => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        let body = if *self.method == Method::HEAD {
            Bytes::from_static(HEAD_ERROR_BODY)
        } else {
            Bytes::from(body)
        };
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        self.put_request_id(&mut headers);
        respond(error.status(), headers, body)
    }

    fn put_versions(&self, headers: &mut HeaderMap, versions: &Versions) {
        if matches!(versions, Versions::None) {
            return;
        }
        headers.insert(HeaderName::from_static(MINIMUM_HEADER), version_value(Microversion::MIN));
        headers.insert(HeaderName::from_static(MAXIMUM_HEADER), version_value(self.max));
        if let (Versions::All, Some(version)) = (versions, self.version) {
            headers.insert(HeaderName::from_static(LEGACY_HEADER), version_value(version));
        }
    }

    fn put_request_id(&self, headers: &mut HeaderMap) {
        if let Ok(id) = HeaderValue::from_str(self.request_id) {
            headers.insert(HeaderName::from_static("x-openstack-request-id"), id.clone());
            headers.insert(HeaderName::from_static("openstack-request-id"), id);
        }
    }

    /// Shape 2: a status page inside `error_message`, in the form that `Accept` asks for.
    fn router_body(&self, status: StatusCode, description: &str) -> String {
        let title = reason(status);
        let code = status.as_u16();
        let page = match self.accept.error_text() {
            ErrorText::Json => text(&StatusPage { code, title, description }),
            ErrorText::Html => {
                let (before, after) = self.explanation(status, "\n");
                let body = format!("{}<br /><br />\n{}{after}", escape(&before), escape(description));
                format!(
                    "<html>\n <head>\n  <title>{code} {title}</title>\n </head>\n <body>\n  <h1>{code} {title}</h1>\n  {body}\n </body>\n</html>"
                )
            }
            ErrorText::Plain => {
                let (before, after) = self.explanation(status, " ");
                format!("{code} {title}\n\n{before}\n\n {description}{}", after.replace('\n', " "))
            }
        };
        text(&ErrorMessage { error_message: &page })
    }

    /// What stands before and after the description on a status page.
    fn explanation(&self, status: StatusCode, line_break: &str) -> (String, &'static str) {
        match status {
            StatusCode::NOT_FOUND => ("The resource could not be found.".to_owned(), "\n\n"),
            StatusCode::METHOD_NOT_ALLOWED => {
                (format!("The method {} is not allowed for this resource. ", self.method), "")
            }
            StatusCode::NOT_ACCEPTABLE => (
                format!(
                    "The resource could not be generated that was acceptable to your browser{line_break}(content of type {}. ",
                    self.accept.text()
                ),
                "",
            ),
            _ => (MALFORMED.to_owned(), "\n\n"),
        }
    }
}

/// The text of the reference's 405 on `/v1`.
pub(crate) fn v1_method_not_allowed() -> ApiError {
    ApiError::resource(StatusCode::METHOD_NOT_ALLOWED, MALFORMED)
}

/// Shape 1: JSON text inside `error_message`.
fn resource_body(status: StatusCode, faultstring: &str) -> String {
    let faultcode = if status.is_server_error() { "Server" } else { "Client" };
    let fault = text(&FaultWithDebug { faultcode, faultstring, debuginfo: () });
    text(&ErrorMessage { error_message: &fault })
}

/// The shape of Keystone's own refusals, in which clients of every service expect those about tokens.
fn keystone_body(status: StatusCode, message: &str) -> String {
    text(&KeystoneError { error: KeystoneFault { code: status.as_u16(), title: reason(status), message } })
}

#[derive(Serialize)]
struct KeystoneError<'a> {
    error: KeystoneFault<'a>,
}

#[derive(Serialize)]
struct KeystoneFault<'a> {
    code: u16,
    title: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct ErrorMessage<'a> {
    error_message: &'a str,
}

#[derive(Serialize)]
struct FaultWithDebug<'a> {
    faultcode: &'a str,
    faultstring: &'a str,
    debuginfo: (),
}

#[derive(Serialize)]
struct Fault<'a> {
    faultcode: &'a str,
    faultstring: &'a str,
}

#[derive(Serialize)]
struct StatusPage<'a> {
    code: u16,
    title: &'a str,
    description: &'a str,
}

/// JSON text of a value that always has one.
fn text<T: Serialize + ?Sized>(value: &T) -> String {
    json::to_string(value).unwrap_or_default()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#x27;")
}

/// The reference's phrase, which differs from today's registry for 413.
fn reason(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Request Entity Too Large",
        other => other.canonical_reason().unwrap_or("Error"),
    }
}

fn version_value(version: Microversion) -> HeaderValue {
    HeaderValue::try_from(version.to_string()).unwrap_or(HeaderValue::from_static("1.1"))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        response.extensions_mut().insert(ReasonPhrase::from_static(b"Request Entity Too Large"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_of(accept: &str, error: &ApiError) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, HeaderValue::from_str(accept).unwrap());
        let accept = Accept::of(&headers);
        let rendering = Rendering {
            method: &Method::GET,
            at_root: false,
            accept: &accept,
            version: None,
            max: Microversion::new(115),
            request_id: "req-x",
        };
        match error {
            ApiError::Router { status, description, .. } => rendering.router_body(*status, description),
            ApiError::Version(bad) => rendering.router_body(error.status(), &bad.to_string()),
            other => rendering.router_body(other.status(), ""),
        }
    }

    #[test]
    fn status_pages() {
        assert_eq!(
            body_of("text/html", &ApiError::no_route()),
            r#"{"error_message": "<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>"}"#
        );
        assert_eq!(
            body_of("text/plain", &ApiError::no_route()),
            r#"{"error_message": "404 Not Found\n\nThe resource could not be found.\n\n   "}"#
        );
        assert_eq!(
            body_of("text/plain", &ApiError::NotAcceptable),
            r#"{"error_message": "406 Not Acceptable\n\nThe resource could not be generated that was acceptable to your browser (content of type text/plain. \n\n "}"#
        );
        assert_eq!(
            body_of("*/*", &ApiError::no_route()),
            r#"{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"\"}"}"#
        );
        let hostile =
            ApiError::Router { status: StatusCode::BAD_REQUEST, description: "<script>".into(), allow: None };
        assert!(body_of("text/html", &hostile).contains("&lt;script&gt;"));
    }

    #[test]
    fn texts_of_clients_are_escaped_twice() {
        assert_eq!(
            resource_body(StatusCode::NOT_FOUND, "Node \"\u{e9}\u{0}\" could not be found."),
            r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node \\\"\\u00e9\\u0000\\\" could not be found.\", \"debuginfo\": null}"}"#
        );
    }
}

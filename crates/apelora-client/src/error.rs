//! Why something was not done.

use std::fmt;
use std::time::Duration;

use apelora_http::header::{HeaderMap, HeaderName, RETRY_AFTER};
use apelora_http::{Answer, HttpError};
use serde_json::Value;

use crate::Version;

const REQUEST_ID: HeaderName = HeaderName::from_static("openstack-request-id");
const OLD_REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// A message of a server is cut here, in characters: a 403 may name many entries, a broken proxy sends pages.
const MESSAGE_MAX: usize = 16 * 1024;

/// Why something was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused it.
    #[error("{0}")]
    Refused(Refusal),
    /// No request was sent.
    #[error("{url} was not reached: {why}")]
    NotReached {
        /// Whom.
        url: String,
        /// What stood in the way.
        #[source]
        why: HttpError,
    },
    /// A question was sent, and there is no whole answer. Nothing was changed.
    #[error("{url} did not answer: {why}")]
    Unanswered {
        /// Who.
        url: String,
        /// What happened.
        #[source]
        why: HttpError,
    },
    /// A change was sent, and there is no whole answer: it may have been made.
    #[error("{url} did not confirm the change, which may have been made: look before you try again ({why})")]
    Unknown {
        /// Who.
        url: String,
        /// What happened.
        #[source]
        why: HttpError,
    },
    /// The server is too old for it, or is held at an older version. Nothing was sent.
    #[error(
        "{what} needs version {needed} of the Bare Metal API, and this server has {served} at most; upgrade it, or remove \
         its APELORA_PIN_MAX_MICROVERSION"
    )]
    Version {
        /// What was asked for.
        what: &'static str,
        /// The version from which on it exists.
        needed: Version,
        /// The highest version of the server.
        served: Version,
    },
    /// No version of the API is common to both.
    #[error(
        "this client speaks version {max} of the Bare Metal API at most, and the server only {lowest} and later ones",
        max = Version::MAX
    )]
    TooNew {
        /// The lowest version of the server.
        lowest: Version,
    },
    /// The server has no such resource, at no version.
    #[error("this server does not have {what}; upgrade it, or check that the endpoint is an Apelora server")]
    Lacks {
        /// What was asked for.
        what: &'static str,
    },
    /// The answer is not one of the Bare Metal API.
    #[error("the answer is not as expected ({0}); check that the endpoint is a Bare Metal API")]
    Answer(String),
    /// Keystone did not let the user in.
    #[error("{0}")]
    LogIn(String),
    /// The request cannot be made out of what was given.
    #[error("{0}")]
    Input(String),
    /// A setting cannot be used; which one, and the remedy.
    #[error("{0}")]
    Setting(String),
}

/// A request that the server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The server's words: the `faultstring`.
    pub message: String,
    /// Under which the server's log tells more.
    pub request_id: Option<String>,
    /// After which time the server asks to be tried again; then it has done nothing.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    pub(crate) fn of(answer: &Answer) -> Self {
        Self {
            status: answer.status,
            message: message(answer),
            request_id: request_id(&answer.headers),
            retry_after: answer
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.trim().parse().ok())
                .map(Duration::from_secs),
        }
    }

    /// Whether somebody else is working on the node at the moment, in the words that Bare Metal services share. A conflict of
    /// any other kind, such as a duplicate, does not pass by itself.
    #[must_use]
    pub fn is_lock(&self) -> bool {
        self.status == 409 && self.message.contains(" is locked by host ")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HTTP {})", self.message, self.status)?;
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

/// The id under which the server's log has a request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(REQUEST_ID).or_else(|| headers.get(OLD_REQUEST_ID))?.to_str().ok()?;
    Some(value.chars().filter(char::is_ascii_graphic).take(64).collect())
}

/// The server's words. `error_message` is an object, or a text that holds one, or a text; what stands before the service
/// (authentication, a proxy) has other forms. Source: tests/data/ironic/README.md section 1.3.
fn message(answer: &Answer) -> String {
    let text = match serde_json::from_slice::<Value>(&answer.body) {
        Ok(body) => words(&body),
        Err(_) if is_text(&answer.headers) => Some(String::from_utf8_lossy(&answer.body).trim().to_owned()),
        Err(_) => None,
    };
    let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| by_status(answer.status).to_owned());
    match text.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn words(body: &Value) -> Option<String> {
    let found = [&body["error_message"], &body["error"], body].into_iter().find_map(|place| match place {
        Value::String(text) => Some(match serde_json::from_str::<Value>(text) {
            Ok(inner) if inner.is_object() => fault(&inner).unwrap_or_default(),
            _ => text.clone(),
        }),
        Value::Object(_) => fault(place),
        _ => None,
    });
    found.map(|text| text.trim().to_owned())
}

fn fault(of: &Value) -> Option<String> {
    ["faultstring", "message", "description", "title"]
        .iter()
        .filter_map(|name| of[name].as_str())
        .find(|text| !text.trim().is_empty())
        .map(str::to_owned)
}

fn is_text(headers: &HeaderMap) -> bool {
    let of = headers.get(apelora_http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    of.is_some_and(|of| of.starts_with("text/plain"))
}

/// Where the server says nothing.
const fn by_status(status: u16) -> &'static str {
    match status {
        401 => "The server does not know who asks; check user, password or token",
        403 => "The server does not allow this",
        404 => "The server has nothing at this address; check the endpoint",
        406 => "The server does not have the version of the API that was asked for",
        502..=504 => "The server is not available",
        300..=399 => "The server sends to another address, which is not followed; correct the endpoint",
        _ => "The server refused this without a word",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, content_type: &str, body: &str) -> Refusal {
        let mut headers = HeaderMap::new();
        headers.insert(apelora_http::header::CONTENT_TYPE, content_type.parse().unwrap());
        headers.insert(REQUEST_ID, "req-1".parse().unwrap());
        Refusal::of(&Answer { status, headers, body: body.to_owned().into() })
    }

    #[test]
    fn the_servers_words_are_found_in_every_shape() {
        for (body, wanted) in [
            (
                r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node x is bad.\", \"debuginfo\": null}"}"#,
                "Node x is bad.",
            ),
            (r#"{"error_message": {"faultstring": "Node x is bad."}}"#, "Node x is bad."),
            (r#"{"error_message": "Node x is bad."}"#, "Node x is bad."),
            (
                r#"{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"\"}"}"#,
                "Not Found",
            ),
            (r#"{"error": {"code": 401, "message": "Who?", "title": "Unauthorized"}}"#, "Who?"),
            (r#"{"message": "Who?", "code": 503}"#, "Who?"),
            (r#"{"error_message": ""}"#, "The server refused this without a word"),
            ("{}", "The server refused this without a word"),
            ("[1]", "The server refused this without a word"),
            ("", "The server refused this without a word"),
        ] {
            assert_eq!(of(400, "application/json", body).message, wanted, "{body}");
        }
        assert_eq!(of(503, "text/plain", "busy\n").message, "busy");
        assert_eq!(of(502, "text/html", "<html>bad gateway").message, "The server is not available");
        assert_eq!(of(403, "text/plain", "no").to_string(), "no (HTTP 403) (request req-1)");
        assert!(of(400, "text/plain", &"ä".repeat(20_000)).message.chars().count() <= MESSAGE_MAX + 1);
    }

    #[test]
    fn a_lock_is_not_a_duplicate() {
        let lock = "Node 1 is locked by host c1, please retry after the current operation is completed.";
        assert!(of(409, "text/plain", lock).is_lock());
        assert!(!of(400, "text/plain", lock).is_lock());
        assert!(!of(409, "text/plain", "A node with name n1 already exists.").is_lock());
    }
}

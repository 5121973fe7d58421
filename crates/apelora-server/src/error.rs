//! Refusals, in the words and the four shapes of the Bare Metal API.
//!
//! Source: tests/data/ironic/README.md section 1.3. The text of a refusal names the field and the remedy; nothing of the inside
//! (statements, paths, back traces) ever stands in one.

use apelora_maintenance::Denial;
use http::StatusCode;

use crate::BadVersion;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// Shape 1: an error of a resource. Carries all version headers.
    Resource(Refusal),
    /// Another service holds the node's reservation: shape 1, a 409 once that has been waited for.
    Reserved { uuid: String, by: String },
    /// Shape 2: an error of the router; its text follows the `Accept` header. No version headers.
    Router {
        status: StatusCode,
        description: String,
        /// For 405.
        allow: Option<&'static str>,
    },
    /// The version header is refused (406): shape 1 at the root, shape 2 elsewhere.
    Version(BadVersion),
    /// The type that the client wants is not JSON (406).
    NotAcceptable,
    /// Shape 3: who are you (401, 400).
    Authentication { status: StatusCode, message: String },
    /// As Keystone says it (401): no token that counts. `uri` is where to get one.
    TokenRequired { uri: String },
    /// As Keystone says it (503): nobody knows whose token it is. Seconds after which to come again.
    NoDecision { retry_after: u16 },
    /// Shape 4: the body is not looked at.
    Body { status: StatusCode, message: &'static str },
}

/// Status and text of an error of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The `faultstring`.
    pub(crate) text: String,
    /// Seconds after which a retry makes sense.
    pub(crate) retry_after: Option<u16>,
    /// For the reference's own 405 on `/v1`, which has no `Allow`.
    pub(crate) allow: Option<&'static str>,
}

/// The reference's text for requests that ask more than their version has.
const NOT_IN_VERSION: &str = "Request not acceptable.";

impl ApiError {
    pub(crate) fn resource(status: StatusCode, text: impl Into<String>) -> Self {
        Self::Resource(Refusal { status, text: text.into(), retry_after: None, allow: None })
    }

    /// 400.
    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::resource(StatusCode::BAD_REQUEST, text)
    }

    /// 403.
    pub(crate) fn forbidden(text: impl Into<String>) -> Self {
        Self::resource(StatusCode::FORBIDDEN, text)
    }

    /// 404.
    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Self::resource(StatusCode::NOT_FOUND, text)
    }

    /// 409.
    pub(crate) fn conflict(text: impl Into<String>) -> Self {
        Self::resource(StatusCode::CONFLICT, text)
    }

    /// 404 for a node, by the ident that the client wrote.
    pub(crate) fn no_node(ident: &str) -> Self {
        Self::not_found(format!("Node {ident} could not be found."))
    }

    /// 404 for something that this version does not have.
    pub(crate) fn no_resource() -> Self {
        Self::not_found("Resource could not be found.")
    }

    /// 406: something that is newer than the version of the request.
    pub(crate) fn newer() -> Self {
        Self::resource(StatusCode::NOT_ACCEPTABLE, NOT_IN_VERSION)
    }

    /// 406, telling the version from which on it exists.
    pub(crate) fn newer_than(since: crate::Microversion) -> Self {
        let text = format!("{NOT_IN_VERSION} The minimal required API version should be {since}");
        Self::resource(StatusCode::NOT_ACCEPTABLE, text)
    }

    /// 404 of the router.
    pub(crate) fn no_route() -> Self {
        Self::Router { status: StatusCode::NOT_FOUND, description: String::new(), allow: None }
    }

    /// 405 of the router.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        Self::Router {
            status: StatusCode::METHOD_NOT_ALLOWED,
            description: String::new(),
            allow: Some(allow),
        }
    }

    /// 503: nothing was changed, a retry is safe.
    pub(crate) fn unavailable(text: impl Into<String>, retry_after: u16) -> Self {
        Self::Resource(Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            text: text.into(),
            retry_after: Some(retry_after),
            allow: None,
        })
    }

    /// 500: a fault of this service. The log has the details, the answer has none.
    pub(crate) fn internal() -> Self {
        Self::resource(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The service failed to answer this request. Its log tells more under the request id.",
        )
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Resource(refusal) => refusal.status,
            Self::Router { status, .. } | Self::Authentication { status, .. } | Self::Body { status, .. } => {
                *status
            }
            Self::TokenRequired { .. } => StatusCode::UNAUTHORIZED,
            Self::NoDecision { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Version(_) | Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::Reserved { .. } => StatusCode::CONFLICT,
        }
    }
}

impl From<Denial> for ApiError {
    fn from(denial: Denial) -> Self {
        let status = match &denial {
            Denial::UnknownType(_) | Denial::ReservedType(_) | Denial::BadText { .. } => {
                StatusCode::BAD_REQUEST
            }
            Denial::NoStanding | Denial::Blocked(_) => StatusCode::FORBIDDEN,
            Denial::NoSuchEntry(_) => StatusCode::NOT_FOUND,
            Denial::Duplicate { .. } => StatusCode::CONFLICT,
        };
        Self::resource(status, denial.to_string())
    }
}

//! Why there is no identity: the token's fault, Keystone's, or our own.

use std::time::Duration;

use apelora_http::{HttpError, TlsRefusal};

/// When a client should come again after no decision, unless Keystone says more.
pub(crate) const COME_AGAIN: Duration = Duration::from_secs(5);

/// Why a request has no identity. No text repeats a token, a password or what Keystone wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The token does not count: HTTP 401.
    #[error("{0}")]
    Invalid(Invalid),
    /// Keystone gave no decision: HTTP 503 with `Retry-After`. Never a 401, and never an older success.
    #[error("Keystone gives no decision: {why}")]
    Unavailable {
        /// What happened.
        why: Trouble,
        /// When to come again.
        retry_after: Duration,
    },
    /// The service's own account does not work, so nobody can be identified until the operator repairs it: HTTP 503
    /// for the client, an alarm for the operator.
    #[error("the service's own Keystone account does not work: {why}")]
    OwnCredentials {
        /// What is wrong.
        why: OwnTrouble,
        /// When to come again.
        retry_after: Duration,
    },
}

impl Refusal {
    pub(crate) fn unavailable(why: Trouble) -> Self {
        let retry_after = match &why {
            Trouble::Status { retry_after: Some(asked), .. } => *asked,
            _ => COME_AGAIN,
        };
        Self::Unavailable { why, retry_after }
    }

    /// A stable word for logs and counters.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(why) => why.code(),
            Self::Unavailable { .. } => "keystone_unavailable",
            Self::OwnCredentials { .. } => "keystone_own_credentials",
        }
    }

    /// When to come again, for the refusals that say nothing about the token.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Invalid(_) => None,
            Self::Unavailable { retry_after, .. } | Self::OwnCredentials { retry_after, .. } => {
                Some(*retry_after)
            }
        }
    }
}

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// There is none.
    #[error("there is no token")]
    Missing,
    /// It is longer than [`LONGEST_TOKEN`](crate::LONGEST_TOKEN).
    #[error("the token is too long")]
    TooLong,
    /// It holds bytes that no token has.
    #[error("the token is malformed")]
    Malformed,
    /// Keystone does not know it: never issued, expired, revoked, or its user, project or role is gone.
    #[error("Keystone does not accept the token")]
    Unknown,
    /// It expired.
    #[error("the token expired")]
    Expired,
    /// It belongs to an application credential whose access rules do not allow this request.
    #[error("the access rules of the application credential do not allow this request")]
    AccessRules,
    /// The service token beside it is not accepted.
    #[error("the service token is not accepted")]
    ServiceToken,
    /// The service token beside it has none of the roles of a service.
    #[error("the service token has no service role")]
    ServiceRole,
}

impl Invalid {
    fn code(self) -> &'static str {
        match self {
            Self::Missing => "token_missing",
            Self::TooLong => "token_too_long",
            Self::Malformed => "token_malformed",
            Self::Unknown => "token_unknown",
            Self::Expired => "token_expired",
            Self::AccessRules => "token_access_rules",
            Self::ServiceToken => "service_token_invalid",
            Self::ServiceRole => "service_token_role",
        }
    }
}

/// Why Keystone gave no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// No connection.
    #[error("it cannot be reached ({0})")]
    Unreachable(String),
    /// Its certificate, or its TLS, was refused.
    #[error("{0}")]
    Tls(TlsRefusal),
    /// The time was over.
    #[error("it did not answer in time")]
    Deadline,
    /// The connection broke, or what came over it is not HTTP.
    #[error("the connection broke ({0})")]
    Broken(String),
    /// The answer is larger than any answer of Keystone.
    #[error("its answer is larger than {0} bytes")]
    TooLarge(usize),
    /// A status that decides nothing.
    #[error("it answers with HTTP status {status}")]
    Status {
        /// The status.
        status: u16,
        /// What its `Retry-After` says, between one second and a minute.
        retry_after: Option<Duration>,
    },
    /// The answer comes from something else.
    #[error("the answer with HTTP status {0} is not Keystone's: check the Keystone URL")]
    NotKeystone(u16),
    /// The answer cannot be understood.
    #[error("its answer cannot be used ({0})")]
    Answer(&'static str),
    /// Too many tokens wait already.
    #[error("too many tokens wait for it already")]
    Overloaded,
    /// The task that asked ended without an answer: the process is going down.
    #[error("the question was given up")]
    GivenUp,
}

impl From<HttpError> for Trouble {
    fn from(why: HttpError) -> Self {
        match why {
            HttpError::NotSent(cause) => Self::Unreachable(cause.to_string()),
            HttpError::MaybeSent { cause, .. } => Self::Broken(cause.to_string()),
            HttpError::TooLarge { limit, .. } => Self::TooLarge(limit),
            HttpError::Tls(why) => Self::Tls(why),
            HttpError::Deadline { .. } => Self::Deadline,
        }
    }
}

/// What is wrong with the service's own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OwnTrouble {
    /// Keystone refuses the log-in. It does not say which part is wrong.
    #[error(
        "Keystone refuses its log-in with HTTP status {0}: check user, password, project, both domains, and that the \
         user is enabled and has a role in the project"
    )]
    Login(u16),
    /// Keystone issues a token and then does not accept it.
    #[error(
        "Keystone does not accept the token that it has just issued: check that all its hosts share their keys and \
         the time"
    )]
    TokenRefused,
    /// The account may not validate tokens.
    #[error("it may not validate tokens: give it the role `service` in its project")]
    Forbidden,
}

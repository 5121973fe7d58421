//! The two requests: `POST` and `GET /v3/auth/tokens` (Identity API v3, "Authentication and token management").

use std::time::Duration;

use apelora_http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use apelora_http::{Answer, Method, Request};
use bytes::Bytes;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::pool::Pool;
use crate::{Credentials, Identity, Token, Trouble};

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const X_SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
/// Says that this service enforces access rules; without it Keystone does not validate a token that has some.
const ACCESS_RULES: HeaderName = HeaderName::from_static("openstack-identity-access-rules");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("apelora/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Longest life of our own token that is believed.
const LONGEST_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Whether a token that has expired counts. Only a service may vouch for one, so that a long operation that it carries
/// on for a user does not end with the user's token. Keystone limits for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lapsed {
    Refused,
    Accepted,
}

/// What Keystone says about a token.
pub(crate) enum Verdict {
    Valid(Box<Identity>),
    Unknown,
    /// Our own token does not count (any more).
    OwnTokenRefused,
    /// Our own token counts, and is not enough.
    OwnTokenForbidden,
}

/// What Keystone says to a log-in.
pub(crate) enum Login {
    In {
        token: Token,
        life: Duration,
    },
    /// With the status.
    Refused(u16),
}

pub(crate) struct Api {
    pool: Pool,
    tokens: String,
    credentials: Credentials,
}

impl Api {
    /// `base` is the path with the version, as in `/v3`.
    pub(crate) fn new(pool: Pool, base: &str, credentials: Credentials) -> Self {
        Self { pool, tokens: format!("{base}/auth/tokens?nocatalog"), credentials }
    }

    /// Asks whose token `subject` is.
    pub(crate) async fn validate(
        &self,
        own: &Token,
        subject: &Token,
        lapsed: Lapsed,
        by: Instant,
    ) -> Result<Verdict, Trouble> {
        let path = match lapsed {
            Lapsed::Refused => self.tokens.clone(),
            Lapsed::Accepted => format!("{}&allow_expired=1", self.tokens),
        };
        let request = Request::new(Method::Get, &path)
            .header(X_AUTH_TOKEN, own.header())
            .header(X_SUBJECT_TOKEN, subject.header())
            .header(ACCESS_RULES, HeaderValue::from_static("1.0"))
            .header(ACCEPT, JSON)
            .header(USER_AGENT, AGENT);
        let answer = self.pool.send(request, by).await?;
        match answer.status {
            200 => Ok(Verdict::Valid(Box::new(Identity::read(&answer.body)?))),
            // A 404 of something else than Keystone says nothing about the token.
            404 if is_keystones(&answer) => Ok(Verdict::Unknown),
            401 => Ok(Verdict::OwnTokenRefused),
            403 => Ok(Verdict::OwnTokenForbidden),
            _ => Err(no_decision(&answer)),
        }
    }

    /// Gets a token for this service.
    pub(crate) async fn log_in(&self, by: Instant) -> Result<Login, Trouble> {
        let request = Request::new(Method::Post, &self.tokens)
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, JSON)
            .header(USER_AGENT, AGENT)
            .body(login_body(&self.credentials)?);
        let answer = self.pool.send(request, by).await?;
        match answer.status {
            201 => logged_in(&answer),
            401 => Ok(Login::Refused(401)),
            400 | 403 | 404 if is_keystones(&answer) => Ok(Login::Refused(answer.status)),
            _ => Err(no_decision(&answer)),
        }
    }
}

fn logged_in(answer: &Answer) -> Result<Login, Trouble> {
    let token = answer.headers.get(X_SUBJECT_TOKEN).and_then(|value| Token::read(value.as_bytes()).ok());
    let token = token.ok_or(Trouble::Answer("the log-in gives no token"))?;
    // Only the difference counts, so the clocks of the two hosts need not agree.
    let life = serde_json::from_slice::<LoginBody>(&answer.body)
        .ok()
        .and_then(|LoginBody { token: LifeFields { issued_at, expires_at } }| {
            let issued = OffsetDateTime::parse(&issued_at, &Rfc3339).ok()?;
            Duration::try_from(OffsetDateTime::parse(&expires_at, &Rfc3339).ok()? - issued).ok()
        })
        .filter(|life| !life.is_zero())
        .ok_or(Trouble::Answer("the log-in gives no lifetime"))?;
    Ok(Login::In { token, life: life.min(LONGEST_LIFE) })
}

/// What an answer means that is none of those that decide.
fn no_decision(answer: &Answer) -> Trouble {
    let status = answer.status;
    if matches!(status, 300..=399 | 404 | 405) {
        return Trouble::NotKeystone(status);
    }
    let asked = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Trouble::Status {
        status,
        retry_after: asked.map(|seconds: u64| Duration::from_secs(seconds.clamp(1, 60))),
    }
}

/// Whether an error's body is one of Keystone's, as far as its code goes. Its message is not read: it may repeat the token.
fn is_keystones(answer: &Answer) -> bool {
    serde_json::from_slice::<ErrorBody>(&answer.body).is_ok_and(|body| body.error.code == answer.status)
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorCode,
}

#[derive(Deserialize)]
struct ErrorCode {
    code: u16,
}

#[derive(Deserialize)]
struct LoginBody {
    token: LifeFields,
}

#[derive(Deserialize)]
struct LifeFields {
    issued_at: String,
    expires_at: String,
}

/// The body of the log-in, in memory that is overwritten when it is dropped.
fn login_body(own: &Credentials) -> Result<Bytes, Trouble> {
    #[derive(Serialize)]
    struct Named<'a> {
        name: &'a str,
    }
    #[derive(Serialize)]
    struct User<'a> {
        name: &'a str,
        domain: Named<'a>,
        password: &'a str,
    }
    #[derive(Serialize)]
    struct Password<'a> {
        user: User<'a>,
    }
    #[derive(Serialize)]
    struct Identity<'a> {
        methods: [&'a str; 1],
        password: Password<'a>,
    }
    #[derive(Serialize)]
    struct Project<'a> {
        name: &'a str,
        domain: Named<'a>,
    }
    #[derive(Serialize)]
    struct Scope<'a> {
        project: Project<'a>,
    }
    #[derive(Serialize)]
    struct Auth<'a> {
        identity: Identity<'a>,
        scope: Scope<'a>,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        auth: Auth<'a>,
    }

    let password = own.password.expose_secret();
    let body = Body {
        auth: Auth {
            identity: Identity {
                methods: ["password"],
                password: Password {
                    user: User {
                        name: &own.username,
                        domain: Named { name: &own.user_domain_name },
                        password,
                    },
                },
            },
            scope: Scope {
                project: Project {
                    name: &own.project_name,
                    domain: Named { name: &own.project_domain_name },
                },
            },
        },
    };
    let texts = [&own.username, &own.user_domain_name, &own.project_name, &own.project_domain_name];
    let longest = 6 * (texts.iter().map(|text| text.len()).sum::<usize>() + password.len());
    // Large enough for the longest escapes, so that growing leaves no copy behind.
    let mut written = Zeroizing::new(Vec::with_capacity(longest + 512));
    serde_json::to_writer(&mut *written, &body)
        .map_err(|_| Trouble::Answer("the log-in cannot be written"))?;
    Ok(Bytes::from_owner(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_in_is_scoped_and_written_without_growing() {
        let own = Credentials {
            username: "apelora".into(),
            password: "p\"\u{1}\\ß".into(),
            user_domain_name: "Default".into(),
            project_name: "service".into(),
            project_domain_name: "Default".into(),
        };
        let written: serde_json::Value = serde_json::from_slice(&login_body(&own).unwrap()).unwrap();
        let wanted = serde_json::json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": "apelora", "domain": {"name": "Default"}, "password": "p\"\u{1}\\ß"}}},
            "scope": {"project": {"name": "service", "domain": {"name": "Default"}}}}});
        assert_eq!(written, wanted);
    }
}

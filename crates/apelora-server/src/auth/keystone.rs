//! Tokens of Keystone.
//!
//! Who calls is what Keystone says about `X-Auth-Token`, and nothing else: identity headers of clients are never read, and
//! a service token adds neither role nor scope. Source: tests/data/policy/README.md section 5.

use apelora_keystone::{Identity, Question, Refusal, Token, Validator};
use http::header::HeaderName;
use http::{HeaderMap, request};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::config::{KeystoneAuth, StartError};
use crate::error::ApiError;
use crate::route;

const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// The name under which the token of an object store's client comes, which the reference takes as well.
const STORAGE_TOKEN: HeaderName = HeaderName::from_static("x-storage-token");
const SERVICE_TOKEN: HeaderName = HeaderName::from_static("x-service-token");

/// The longest time for a decision, in seconds: above what the validation allows itself.
const DECISION_SECS: u64 = 60;

/// Validates the tokens of requests.
#[derive(Debug)]
pub(crate) struct TokenAuth {
    validator: Validator,
    /// Where clients get a token.
    public_url: String,
}

/// Why a request is not let in.
#[derive(Debug)]
pub(crate) enum NotLetIn {
    /// The token does not count.
    Token,
    /// Nobody knows: a word for the figures.
    Undecided(&'static str),
}

impl TokenAuth {
    pub(crate) fn new(config: &KeystoneAuth) -> Result<Self, StartError> {
        let validator = Validator::new(config.validation.clone())?;
        let public_url = config.public_url.clone().unwrap_or_else(|| validator.url());
        Ok(Self { validator, public_url })
    }

    /// Logs the service in ahead of the first request, so that what is wrong with its account shows in the log at once.
    pub(crate) async fn log_in(&self) {
        // Told in the log; Keystone may come later.
        let _ = self.validator.log_in().await;
    }

    /// 401, with where to get a token.
    pub(crate) fn refusal(&self) -> ApiError {
        ApiError::TokenRequired { uri: self.public_url.clone() }
    }

    /// Who sends this request.
    pub(crate) async fn authenticate(
        &self,
        parts: &request::Parts,
        now: OffsetDateTime,
    ) -> Result<Identity, (NotLetIn, ApiError)> {
        let refused = || (NotLetIn::Token, self.refusal());
        let raw = if parts.headers.contains_key(TOKEN) { TOKEN } else { STORAGE_TOKEN };
        let token = header(&parts.headers, &raw).ok_or_else(refused)?;
        let token = Token::read(token).map_err(|_| refused())?;
        // An empty one is none.
        let service_token = if parts.headers.get_all(SERVICE_TOKEN).iter().all(http::HeaderValue::is_empty) {
            None
        } else {
            let value = header(&parts.headers, &SERVICE_TOKEN).ok_or_else(refused)?;
            Some(Token::read(value).map_err(|_| refused())?)
        };
        // The path by which the request is routed, so that no other spelling gets past an access rule.
        let path = route::decoded(parts.uri.path());
        let question = Question {
            token: &token,
            service_token: service_token.as_ref(),
            method: parts.method.as_str(),
            path: &path,
        };
        let by = Instant::now() + std::time::Duration::from_secs(DECISION_SECS);
        self.validator.validate(&question, now, by).await.map_err(|why| match &why {
            Refusal::Invalid(_) => refused(),
            Refusal::Unavailable { .. } | Refusal::OwnCredentials { .. } => {
                let seconds = why.retry_after().map_or(1, |after| after.as_secs().max(1));
                let retry_after = u16::try_from(seconds).unwrap_or(u16::MAX);
                (NotLetIn::Undecided(why.code()), ApiError::NoDecision { retry_after })
            }
        })
    }
}

/// The value of a header that came once. Two values would leave open which one counts.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

//! User and password in an `Authorization` header.
//!
//! A check of a bcrypt hash takes tens of milliseconds of a core: checks run apart from the threads that serve, a few
//! at a time, and a password that was right is remembered for a minute as a keyed digest.
//! Source: tests/data/ironic/README.md section 1.8.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use ring::hmac;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::htpasswd::{self, Users};
use crate::config::Sources;
use crate::error::ApiError;
use crate::files;

/// bcrypt looks at no more bytes than this; what is longer is refused instead of cut.
const PASSWORD_MAX: usize = 72;
/// Checks at the same time.
const CHECKS: usize = 4;
/// How long a check waits for its turn.
const CHECK_WAIT: Duration = Duration::from_secs(5);
/// How long a password that was right needs no check.
const REMEMBER: Duration = Duration::from_secs(60);
/// Remembered passwords.
const REMEMBER_MAX: usize = 1_024;

/// The users of a file.
pub(crate) struct BasicAuth {
    path: PathBuf,
    users: RwLock<Arc<Users>>,
    key: hmac::Key,
    remembered: RwLock<HashMap<[u8; 32], Instant>>,
    checks: Semaphore,
}

/// What an `Authorization` header holds.
struct Credentials {
    user: String,
    password: Zeroizing<Vec<u8>>,
}

impl BasicAuth {
    pub(crate) fn open(path: &Path, sources: &Sources) -> Result<Self, String> {
        let key: Vec<u8> = (0..4).flat_map(|_| sources.new_id().into_bytes()).collect();
        Ok(Self {
            users: RwLock::new(Arc::new(read(path)?)),
            path: path.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            remembered: RwLock::default(),
            checks: Semaphore::new(CHECKS),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn reload(&self) -> Result<(), String> {
        let users = Arc::new(read(&self.path)?);
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
        Ok(())
    }

    /// The user who sends these headers.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        let Credentials { user, password } = credentials(headers)?;
        let users = Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner));
        // A user who does not exist takes as long as one who does.
        let known = users.get(&user);
        let Some(hash) = known.or_else(|| users.values().next()).cloned() else { return Err(wrong()) };
        if password.len() > PASSWORD_MAX || password.contains(&0) {
            return Err(wrong());
        }
        let digest = self.digest(&user, &hash, &password);
        if known.is_some() && self.remembers(&digest) {
            return Ok(user);
        }
        let busy = || ApiError::unavailable("Too many passwords wait to be checked. Please retry", 2);
        let turn = tokio::time::timeout(CHECK_WAIT, self.checks.acquire()).await.map_err(|_| busy())?;
        let _turn = turn.map_err(|_| busy())?;
        let right =
            tokio::task::spawn_blocking(move || bcrypt::verify(password.as_slice(), &hash).unwrap_or(false))
                .await;
        if known.is_none() || !right.unwrap_or(false) {
            return Err(wrong());
        }
        self.remember(digest);
        Ok(user)
    }

    /// Of the hash as well, so that a changed password is not remembered.
    fn digest(&self, user: &str, hash: &str, password: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [user.as_bytes(), hash.as_bytes(), password] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    fn remembers(&self, digest: &[u8; 32]) -> bool {
        let remembered = self.remembered.read().unwrap_or_else(PoisonError::into_inner);
        remembered.get(digest).is_some_and(|until| Instant::now() < *until)
    }

    fn remember(&self, digest: [u8; 32]) {
        let now = Instant::now();
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBER_MAX {
            remembered.retain(|_, until| now < *until);
        }
        if remembered.len() < REMEMBER_MAX {
            remembered.insert(digest, now + REMEMBER);
        }
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth").field("path", &self.path).finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Users, String> {
    let text = String::from_utf8(files::read(path)?)
        .map_err(|_| format!("{}: it is no UTF-8 text", path.display()))?;
    htpasswd::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn credentials(headers: &HeaderMap) -> Result<Credentials, ApiError> {
    let bad = |message: String| ApiError::Authentication { status: StatusCode::BAD_REQUEST, message };
    let Some(header) = headers.get(AUTHORIZATION) else {
        let message = "Authorization required".to_owned();
        return Err(ApiError::Authentication { status: StatusCode::UNAUTHORIZED, message });
    };
    let header = String::from_utf8_lossy(header.as_bytes());
    let Some((scheme, token)) = header.trim().split_once(char::is_whitespace) else {
        return Err(bad("Could not parse Authorization header".to_owned()));
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(bad(format!("Unsupported authorization type \"{scheme}\"")));
    }
    let decoded = STANDARD.decode(token.trim()).ok().map(Zeroizing::new);
    let parts = decoded.and_then(|bytes| {
        let colon = bytes.iter().position(|b| *b == b':')?;
        let user = std::str::from_utf8(bytes.get(..colon)?).ok()?.to_owned();
        Some(Credentials { user, password: Zeroizing::new(bytes.get(colon + 1..)?.to_vec()) })
    });
    parts.ok_or_else(|| bad("Could not decode authorization token".to_owned()))
}

fn wrong() -> ApiError {
    let message = "Incorrect username or password".to_owned();
    ApiError::Authentication { status: StatusCode::UNAUTHORIZED, message }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn outcome(value: Option<&str>) -> Result<String, (u16, String)> {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        credentials(&headers).map(|c| c.user).map_err(|e| match e {
            ApiError::Authentication { status, message } => (status.as_u16(), message),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn recorded_headers() {
        let refused = |status: u16, text: &str| Err((status, text.to_owned()));
        let cannot_parse = "Could not parse Authorization header";
        let cannot_decode = "Could not decode authorization token";
        for (header, expected) in [
            (None, refused(401, "Authorization required")),
            (Some(""), refused(400, cannot_parse)),
            (Some("Basic"), refused(400, cannot_parse)),
            (Some("Bearer abc"), refused(400, "Unsupported authorization type \"Bearer\"")),
            (Some("Basic !!!"), refused(400, cannot_decode)),
            (Some("Basic YWRtaW4="), refused(400, cannot_decode)),
            (Some("Basic YWRtaW46c2VjcmV0 x"), refused(400, cannot_decode)),
            (Some("basic YWRtaW46c2VjcmV0"), Ok("admin".to_owned())),
            (Some("Basic Og=="), Ok(String::new())),
        ] {
            assert_eq!(outcome(header), expected, "{header:?}");
        }
    }
}

//! Who calls. The outcome is a [`Caller`], made from credentials alone: identity headers of clients are never read.

mod basic;
mod htpasswd;

use std::path::Path;

use http::HeaderMap;

use crate::config::{AuthStrategy, Sources, StartError};
use crate::error::ApiError;

/// A recognised caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The user, as it stands in `asserted_by` and in the history.
    pub(crate) user: String,
    /// How far policy lets callers of this kind go.
    pub(crate) kind: CallerKind,
}

/// How a caller was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// Nobody was asked: one trust domain with system authority.
    NoAuth,
    /// User and password: one trust domain with system authority.
    HttpBasic,
    /// Nobody, on a path that is open to all.
    Public,
}

/// The user of all requests where nobody is asked.
pub(crate) const NOAUTH_USER: &str = "noauth";

/// Names that no user may have: the service's own.
const RESERVED_USERS: [&str; 3] =
    [apelora_maintenance::CONDUCTOR, apelora_maintenance::MIGRATION, NOAUTH_USER];

/// Recognises callers.
#[derive(Debug)]
pub(crate) enum Authenticator {
    NoAuth,
    HttpBasic(Box<basic::BasicAuth>),
}

impl Authenticator {
    /// # Errors
    /// A file of users that cannot be used.
    pub(crate) fn new(strategy: &AuthStrategy, sources: &Sources) -> Result<Self, StartError> {
        match strategy {
            AuthStrategy::NoAuth => Ok(Self::NoAuth),
            AuthStrategy::HttpBasic { user_file } => {
                let users = basic::BasicAuth::open(user_file, sources).map_err(StartError::Users)?;
                Ok(Self::HttpBasic(Box::new(users)))
            }
        }
    }

    /// Who sends these headers; `public` is whether the path is open to all.
    ///
    /// # Errors
    /// 401 and 400 of shape 3; 503 when too many passwords wait to be checked.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap, public: bool) -> Result<Caller, ApiError> {
        match self {
            Self::NoAuth => Ok(Caller { user: NOAUTH_USER.to_owned(), kind: CallerKind::NoAuth }),
            Self::HttpBasic(_) if public => Ok(Caller { user: String::new(), kind: CallerKind::Public }),
            Self::HttpBasic(basic) => {
                let user = basic.authenticate(headers).await?;
                Ok(Caller { user, kind: CallerKind::HttpBasic })
            }
        }
    }

    /// The file to watch for changes.
    pub(crate) fn watched(&self) -> Option<&Path> {
        match self {
            Self::NoAuth => None,
            Self::HttpBasic(basic) => Some(basic.path()),
        }
    }

    /// Reads the file again; what cannot be read leaves the users as they are.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn reload(&self) -> Result<(), String> {
        match self {
            Self::NoAuth => Ok(()),
            Self::HttpBasic(basic) => basic.reload(),
        }
    }
}

/// Whether a path of the Bare Metal API is open to all. Source: contracts/policy section 6.
pub(crate) fn is_public(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return false };
    let rest = ["/", ".json", ".xml"].iter().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest);
    let Some(rest) = rest.strip_prefix("v1") else { return rest.is_empty() };
    match rest.split('/').collect::<Vec<_>>().as_slice() {
        [""] | ["", "lookup" | "continue_inspection"] => true,
        ["", "heartbeat", id] => {
            !id.is_empty() && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_paths() {
        for path in
            ["/", "/v1", "/v1/", "/v1.json", "/v1/lookup", "/v1/heartbeat/a-1", "/v1/continue_inspection/"]
        {
            assert!(is_public(path), "{path}");
        }
        for path in [
            "/v1/nodes",
            "/nope",
            "/v1/nope",
            "/v1/heartbeat/A",
            "/v1/heartbeat",
            "",
            "/v1/lookup/x",
            "/v1nodes",
            "/v1//",
        ] {
            assert!(!is_public(path), "{path}");
        }
    }
}

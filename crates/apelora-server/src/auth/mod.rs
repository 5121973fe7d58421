//! Who calls. The outcome is a [`Caller`], made from credentials alone: identity headers of clients are never read.

mod basic;
mod htpasswd;
mod keystone;

use std::path::Path;
use std::sync::Arc;

use apelora_keystone::ServiceIdentity;
use apelora_policy::{AuthoritySettings, Creds, Identity, Rules};
use http::request;
use time::PrimitiveDateTime;

use crate::config::{AuthStrategy, Sources, StartError};
use crate::error::ApiError;
use crate::policy::Policy;
pub(crate) use keystone::NotLetIn;

/// A recognised caller, with the rules that were in force when the request came.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The user, as it stands in `asserted_by` and in the history.
    pub(crate) user: String,
    /// The user's project; empty for callers without one.
    pub(crate) project: String,
    /// How the caller was recognised.
    pub(crate) kind: CallerKind,
    /// What rules are judged on.
    pub(crate) creds: Creds,
    pub(crate) rules: Arc<Rules>,
    /// Who counts as an operator.
    pub(crate) operators: Arc<AuthoritySettings>,
}

/// How a caller was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerKind {
    /// Nobody was asked: one trust domain with system authority.
    NoAuth,
    /// User and password: one trust domain with system authority.
    HttpBasic,
    /// A token of Keystone: the rules are asked.
    Keystone,
    /// Nobody, on a path that is open to all.
    Public,
}

impl Caller {
    fn new(kind: CallerKind, who: &Identity, policy: &Policy) -> Self {
        let operators = policy.authority();
        Self {
            user: who.user_id.clone().unwrap_or_default(),
            project: who.project_id.clone().unwrap_or_default(),
            kind,
            creds: Creds::of(who, operators.elevated_service_project.as_deref()),
            rules: policy.rules(),
            operators,
        }
    }

    /// A caller of a trust domain in which everybody may do everything.
    fn named(kind: CallerKind, user: &str, policy: &Policy) -> Self {
        Self::new(kind, &Identity { user_id: Some(user.to_owned()), ..Identity::default() }, policy)
    }

    /// Somebody who may do everything.
    #[cfg(test)]
    pub(crate) fn operator() -> Self {
        let policy = Policy::load(crate::PolicyFiles::default(), true).unwrap();
        Self::named(CallerKind::NoAuth, NOAUTH_USER, &policy)
    }

    fn public(policy: &Policy) -> Self {
        Self::new(CallerKind::Public, &Identity { is_public_api: true, ..Identity::default() }, policy)
    }
}

/// The user of all requests where nobody is asked.
pub(crate) const NOAUTH_USER: &str = "noauth";

/// Names that no user may have: the service's own.
const RESERVED_USERS: [&str; 3] =
    [apelora_maintenance::CONDUCTOR, apelora_maintenance::MIGRATION, NOAUTH_USER];

/// The longest user or project id that can be written down, in characters.
const ID_MAX: usize = 255;

/// Recognises callers.
#[derive(Debug)]
pub(crate) enum Authenticator {
    NoAuth,
    HttpBasic(Box<basic::BasicAuth>),
    Keystone(Box<keystone::TokenAuth>),
}

impl Authenticator {
    /// # Errors
    /// A file of users, or an address of Keystone, that cannot be used.
    pub(crate) fn new(strategy: &AuthStrategy, sources: &Sources) -> Result<Self, StartError> {
        match strategy {
            AuthStrategy::NoAuth => Ok(Self::NoAuth),
            AuthStrategy::HttpBasic { user_file } => {
                let users = basic::BasicAuth::open(user_file, sources).map_err(StartError::Users)?;
                Ok(Self::HttpBasic(Box::new(users)))
            }
            AuthStrategy::Keystone(config) => Ok(Self::Keystone(Box::new(keystone::TokenAuth::new(config)?))),
        }
    }

    /// Whether there is one kind of caller only, who may do everything.
    pub(crate) fn is_one_trust_domain(&self) -> bool {
        matches!(self, Self::NoAuth | Self::HttpBasic(_))
    }

    /// What can be done before the first request.
    pub(crate) async fn prepare(&self) {
        if let Self::Keystone(tokens) = self {
            tokens.log_in().await;
        }
    }

    /// Who sends this request, by the rules in force now; `now` is the time in UTC.
    ///
    /// # Errors
    /// 401 and 400; 503 when there is no decision, with a word about why.
    pub(crate) async fn authenticate(
        &self,
        parts: &request::Parts,
        now: impl FnOnce() -> PrimitiveDateTime,
        policy: &Policy,
    ) -> Result<Caller, (NotLetIn, ApiError)> {
        match self {
            Self::NoAuth => Ok(Caller::named(CallerKind::NoAuth, NOAUTH_USER, policy)),
            Self::HttpBasic(_) | Self::Keystone(_) if is_public(parts.uri.path()) => {
                Ok(Caller::public(policy))
            }
            Self::HttpBasic(basic) => {
                let user = basic.authenticate(&parts.headers).await.map_err(|why| (NotLetIn::Token, why))?;
                Ok(Caller::named(CallerKind::HttpBasic, &user, policy))
            }
            Self::Keystone(tokens) => {
                let who = tokens.authenticate(parts, now().assume_utc()).await?;
                let id = who.user_id.as_str();
                let too_long = |id: &str| id.chars().count() > ID_MAX;
                if RESERVED_USERS.contains(&id)
                    || too_long(id)
                    || who.project_id.as_deref().is_some_and(too_long)
                {
                    return Err((NotLetIn::Token, tokens.refusal()));
                }
                Ok(Caller::new(CallerKind::Keystone, &identity(who), policy))
            }
        }
    }

    /// The file to watch for changes.
    pub(crate) fn watched(&self) -> Option<&Path> {
        match self {
            Self::NoAuth | Self::Keystone(_) => None,
            Self::HttpBasic(basic) => Some(basic.path()),
        }
    }

    /// Reads the file again; what cannot be read leaves the users as they are.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(crate) fn reload(&self) -> Result<(), String> {
        match self {
            Self::NoAuth | Self::Keystone(_) => Ok(()),
            Self::HttpBasic(basic) => basic.reload(),
        }
    }
}

/// What Keystone says about a caller, in the words of the rules.
fn identity(who: apelora_keystone::Identity) -> Identity {
    // Keystone gives no roles without a scope. Should it ever, they would count where a node has no owner, because in
    // the language of rules nothing equals nothing.
    let scoped = who.system_scope.is_some() || who.domain_id.is_some() || who.project_id.is_some();
    let service = who.service;
    let of_service = |field: fn(&ServiceIdentity) -> Option<String>| service.as_ref().and_then(field);
    Identity {
        user_id: Some(who.user_id),
        user_domain_id: who.user_domain_id,
        system_scope: who.system_scope,
        domain_id: who.domain_id,
        project_id: who.project_id,
        project_name: who.project_name,
        project_domain_id: who.project_domain_id,
        roles: if scoped { who.roles } else { Vec::new() },
        is_admin_project: who.is_admin_project,
        is_public_api: false,
        service_user_id: of_service(|service| Some(service.user_id.clone())),
        service_user_domain_id: of_service(|service| service.user_domain_id.clone()),
        service_project_id: of_service(|service| service.project_id.clone()),
        service_project_domain_id: of_service(|service| service.project_domain_id.clone()),
        service_roles: service.as_ref().map(|service| service.roles.clone()).unwrap_or_default(),
    }
}

/// Whether a path of the Bare Metal API is open to all. Source: tests/data/policy/README.md section 6.
fn is_public(path: &str) -> bool {
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

//! Who a token belongs to.

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::{AccessRule, Trouble};

/// The caller: everything that policy and authority are decided on, taken from Keystone's answer and from no header
/// of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user's id.
    pub user_id: String,
    /// The user's name; empty when Keystone gives none.
    pub user_name: String,
    /// The id of the user's domain.
    pub user_domain_id: Option<String>,
    /// `all` for a token that is scoped to the system. It never comes from a service token.
    pub system_scope: Option<String>,
    /// The domain, for a token that is scoped to one.
    pub domain_id: Option<String>,
    /// The project, for a token that is scoped to one.
    pub project_id: Option<String>,
    /// Its name.
    pub project_name: Option<String>,
    /// The id of its domain.
    pub project_domain_id: Option<String>,
    /// The names of the roles in that scope, in Keystone's order and spelling.
    pub roles: Vec<String>,
    /// True unless the token says otherwise.
    pub is_admin_project: bool,
    /// The service that passed the request on, when it presented a token of its own.
    pub service: Option<ServiceIdentity>,
    /// When the token expires.
    pub expires_at: OffsetDateTime,
    /// The requests that the token is for; `None` is all. They are enforced already.
    pub access_rules: Option<Vec<AccessRule>>,
}

/// The service that passed a request on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceIdentity {
    /// The service user's id.
    pub user_id: String,
    /// The id of its domain.
    pub user_domain_id: Option<String>,
    /// The project of its token.
    pub project_id: Option<String>,
    /// The id of that project's domain.
    pub project_domain_id: Option<String>,
    /// The names of its roles.
    pub roles: Vec<String>,
}

impl From<&Identity> for ServiceIdentity {
    fn from(service: &Identity) -> Self {
        Self {
            user_id: service.user_id.clone(),
            user_domain_id: service.user_domain_id.clone(),
            project_id: service.project_id.clone(),
            project_domain_id: service.project_domain_id.clone(),
            roles: service.roles.clone(),
        }
    }
}

impl Identity {
    /// Reads the body of `GET /v3/auth/tokens`. A body that leaves the scope or the user open is no answer.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Trouble> {
        // serde's words repeat what it stumbles over, so they are not passed on.
        let TokenBody { token } =
            serde_json::from_slice(body).map_err(|_| Trouble::Answer("the body is not a token's"))?;
        let user_id = named(token.user.id).ok_or(Trouble::Answer("the user has no id"))?;
        let expires_at = OffsetDateTime::parse(&token.expires_at, &Rfc3339)
            .map_err(|_| Trouble::Answer("expires_at is not a time"))?;
        let system_scope = token.system.is_some_and(|system| system.all).then(|| "all".to_owned());

        let domain_id = match token.domain {
            Some(domain) => Some(named(domain.id).ok_or(Trouble::Answer("the domain has no id"))?),
            None => None,
        };
        let (project_id, project_name, project_domain_id) = match token.project {
            Some(project) => (
                Some(named(project.id).ok_or(Trouble::Answer("the project has no id"))?),
                project.name,
                project.domain.and_then(|domain| named(domain.id)),
            ),
            None => (None, None, None),
        };
        let scopes = [system_scope.is_some(), domain_id.is_some(), project_id.is_some()];
        if scopes.into_iter().filter(|&scoped| scoped).count() > 1 {
            return Err(Trouble::Answer("the token has more than one scope"));
        }

        Ok(Self {
            user_id,
            user_name: token.user.name.unwrap_or_default(),
            user_domain_id: token.user.domain.and_then(|domain| named(domain.id)),
            system_scope,
            domain_id,
            project_id,
            project_name,
            project_domain_id,
            roles: token.roles.unwrap_or_default().into_iter().map(|role| role.name).collect(),
            is_admin_project: token.is_admin_project.unwrap_or(true),
            service: None,
            expires_at,
            access_rules: token.application_credential.and_then(|credential| credential.access_rules),
        })
    }

    /// Whether the token's access rules allow a request.
    pub(crate) fn allows(&self, service: &str, method: &str, path: &str) -> bool {
        self.access_rules
            .as_ref()
            .is_none_or(|rules| rules.iter().any(|rule| rule.allows(service, method, path)))
    }
}

/// An empty id names nothing.
fn named(id: Option<String>) -> Option<String> {
    id.filter(|id| !id.is_empty())
}

#[derive(Deserialize)]
struct TokenBody {
    token: TokenFields,
}

#[derive(Deserialize)]
struct TokenFields {
    user: Entity,
    expires_at: String,
    system: Option<System>,
    domain: Option<Entity>,
    project: Option<Entity>,
    roles: Option<Vec<Role>>,
    is_admin_project: Option<bool>,
    application_credential: Option<ApplicationCredential>,
}

/// A user, a project or a domain.
#[derive(Deserialize)]
struct Entity {
    id: Option<String>,
    name: Option<String>,
    domain: Option<Box<Entity>>,
}

#[derive(Deserialize)]
struct System {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
struct Role {
    name: String,
}

#[derive(Deserialize)]
struct ApplicationCredential {
    access_rules: Option<Vec<AccessRule>>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Result<Identity, Trouble> {
        let mut body = json!({"token": {
            "methods": ["password"], "expires_at": "2026-11-30T00:50:45.000000Z",
            "user": {"id": "u1", "name": "ann", "domain": {"id": "default", "name": "Default"}}}});
        change(&mut body["token"]);
        Identity::read(body.to_string().as_bytes())
    }

    #[test]
    fn an_unscoped_token_has_no_roles() {
        let unscoped = read(|_| ()).unwrap();
        assert_eq!(unscoped.roles, Vec::<String>::new());
        assert_eq!(
            (&unscoped.project_id, &unscoped.domain_id, &unscoped.system_scope),
            (&None, &None, &None)
        );
        assert!(unscoped.is_admin_project);
    }

    #[test]
    fn only_a_system_scope_over_all_is_one() {
        assert_eq!(
            read(|t| t["system"] = json!({"all": true})).unwrap().system_scope.as_deref(),
            Some("all")
        );
        assert_eq!(read(|t| t["system"] = json!({"all": false})).unwrap().system_scope, None);
        assert_eq!(read(|t| t["system"] = json!({})).unwrap().system_scope, None);
        assert_eq!(read(|t| t["system"] = json!(null)).unwrap().system_scope, None);
        assert!(read(|t| t["system"] = json!({"all": "true"})).is_err());
    }

    #[test]
    fn the_admin_project_is_taken_from_the_token() {
        assert!(!read(|t| t["is_admin_project"] = json!(false)).unwrap().is_admin_project);
        assert!(read(|t| t["is_admin_project"] = json!("False")).is_err());
    }

    #[test]
    fn an_answer_that_leaves_something_open_is_none() {
        let project = json!({"id": "p1", "name": "p", "domain": {"id": "default"}});
        for (name, change) in [
            ("user without id", json!({"user": {"name": "ann"}})),
            ("user with an empty id", json!({"user": {"id": ""}})),
            ("null user", json!({"user": null})),
            ("no time", json!({"expires_at": null})),
            ("another time", json!({"expires_at": "tomorrow"})),
            ("project without id", json!({"project": {"name": "p"}})),
            ("project with an empty id", json!({"project": {"id": ""}})),
            ("domain with an empty id", json!({"domain": {"id": ""}})),
            ("two scopes", json!({"project": project, "domain": {"id": "d1"}})),
            ("project and system", json!({"project": project, "system": {"all": true}})),
            ("roles as text", json!({"roles": "admin"})),
            ("role as text", json!({"roles": ["admin"]})),
            ("nameless role", json!({"roles": [{"id": "r1"}]})),
            ("rules as text", json!({"application_credential": {"access_rules": "GET /"}})),
            ("half a rule", json!({"application_credential": {"access_rules": [{"method": "GET"}]}})),
        ] {
            let read = read(|token| {
                for (key, value) in change.as_object().unwrap() {
                    token[key] = value.clone();
                }
            });
            assert!(matches!(read, Err(Trouble::Answer(_))), "{name}: {read:?}");
        }
        for body in ["", "null", "[]", "{}", "{\"token\": null}", "<html>", "{\"token\": {}}"] {
            assert!(Identity::read(body.as_bytes()).is_err(), "{body}");
        }
        assert!(Identity::read(format!("{}1{}", "[".repeat(9_999), "]".repeat(9_999)).as_bytes()).is_err());
    }

    #[test]
    fn no_rules_allow_all_and_an_empty_list_allows_nothing() {
        let all = read(|t| t["application_credential"] = json!({"id": "a"})).unwrap();
        assert!(all.allows("baremetal", "DELETE", "/v1/nodes/a"));
        let none = read(|t| t["application_credential"] = json!({"access_rules": []})).unwrap();
        assert!(!none.allows("baremetal", "GET", "/v1/nodes"));
    }
}

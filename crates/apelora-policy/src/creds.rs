//! Who asks: the credentials that rules are judged on.

use serde_json::{Map, Value};

use crate::text;

/// What kind of token a caller holds, as far as rules distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenScope {
    /// `system_scope` is set.
    System,
    /// No system scope, `domain_id` is set.
    Domain,
    /// Everything else, also a token without any scope.
    Project,
}

impl TokenScope {
    /// The word used in rule files' documentation and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Domain => "domain",
            Self::Project => "project",
        }
    }
}

/// A caller, as the authentication saw it. Never filled from headers that a client sent.
///
/// The fields are those which the reference service gives its rules (`docs/policy.md`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the rule language's own names of these credentials")]
pub struct Identity {
    pub user_id: Option<String>,
    pub user_domain_id: Option<String>,
    /// `all` for a system-scoped token. From the user's token only, never from a service token.
    pub system_scope: Option<String>,
    pub domain_id: Option<String>,
    pub project_id: Option<String>,
    pub project_name: Option<String>,
    pub project_domain_id: Option<String>,
    pub roles: Vec<String>,
    /// True unless the token says otherwise.
    pub is_admin_project: bool,
    /// Whether the request goes to a public path.
    pub is_public_api: bool,
    pub service_user_id: Option<String>,
    pub service_user_domain_id: Option<String>,
    pub service_project_id: Option<String>,
    pub service_project_domain_id: Option<String>,
    pub service_roles: Vec<String>,
}

impl Default for Identity {
    /// Nobody: no user, no scope, no role.
    fn default() -> Self {
        Self {
            user_id: None,
            user_domain_id: None,
            system_scope: None,
            domain_id: None,
            project_id: None,
            project_name: None,
            project_domain_id: None,
            roles: Vec::new(),
            is_admin_project: true,
            is_public_api: false,
            service_user_id: None,
            service_user_domain_id: None,
            service_project_id: None,
            service_project_domain_id: None,
            service_roles: Vec::new(),
        }
    }
}

/// The credential that names the project of trusted services; only there while such services are elevated.
pub(crate) const SERVICE_PROJECT_KEY: &str = "config.service_project_name";

/// The names of all credentials that [`Identity`] can carry: what a rule can ask for.
pub(crate) const NAMES: [&str; 17] = [
    "user_id",
    "user_domain_id",
    "system_scope",
    "domain_id",
    "project_id",
    "project_name",
    "project_domain_id",
    "roles",
    "is_admin_project",
    "is_public_api",
    "service_user_id",
    "service_user_domain_id",
    "service_project_id",
    "service_project_domain_id",
    "service_roles",
    "system",
    SERVICE_PROJECT_KEY,
];

/// Credentials in the form that rules are judged on. Made once per request.
#[derive(Debug, Clone)]
pub struct Creds {
    values: Map<String, Value>,
    roles: Roles,
}

/// The roles, lower-cased once, because role names are compared without regard to case.
#[derive(Debug, Clone)]
pub(crate) enum Roles {
    /// There is no key `roles`.
    Absent,
    /// The lower-cased names.
    Names(Vec<String>),
    /// Something that is no list of texts. A role check on it cannot be decided.
    Unusable,
}

impl Creds {
    /// The credentials of a caller. `elevated_service_project` is the project whose services count as system members
    /// while `APELORA_SERVICE_ROLE_ELEVATED` is on, and `None` while it is off.
    pub fn of(who: &Identity, elevated_service_project: Option<&str>) -> Self {
        let text = |value: &Option<String>| value.clone().map_or(Value::Null, Value::String);
        let texts = |values: &[String]| values.iter().cloned().map(Value::String).collect::<Value>();
        let mut values = Map::new();
        for (name, value) in [
            ("user_id", text(&who.user_id)),
            ("user_domain_id", text(&who.user_domain_id)),
            ("system_scope", text(&who.system_scope)),
            ("domain_id", text(&who.domain_id)),
            ("project_id", text(&who.project_id)),
            ("project_name", text(&who.project_name)),
            ("project_domain_id", text(&who.project_domain_id)),
            ("roles", texts(&who.roles)),
            ("is_admin_project", Value::Bool(who.is_admin_project)),
            ("is_public_api", Value::Bool(who.is_public_api)),
            ("service_user_id", text(&who.service_user_id)),
            ("service_user_domain_id", text(&who.service_user_domain_id)),
            ("service_project_id", text(&who.service_project_id)),
            ("service_project_domain_id", text(&who.service_project_domain_id)),
            ("service_roles", texts(&who.service_roles)),
        ] {
            values.insert(name.to_owned(), value);
        }
        if let Some(project) = elevated_service_project {
            values.insert(SERVICE_PROJECT_KEY.to_owned(), Value::String(project.to_owned()));
        }
        Self::from_map(values)
    }

    /// Credentials as a plain mapping, whatever it holds. A set `system_scope` also appears as `system`.
    pub fn from_map(mut values: Map<String, Value>) -> Self {
        if let Some(scope) = values.get("system_scope").filter(|scope| text::is_truthy(scope)).cloned() {
            values.insert("system".to_owned(), scope);
        }
        let roles = Roles::read(values.get("roles"));
        Self { values, roles }
    }

    /// What kind of token this is.
    pub fn token_scope(&self) -> TokenScope {
        let is_set = |name| self.values.get(name).is_some_and(text::is_truthy);
        if is_set("system_scope") {
            TokenScope::System
        } else if is_set("domain_id") {
            TokenScope::Domain
        } else {
            TokenScope::Project
        }
    }

    /// A credential that is a non-empty text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Whether the caller has the role; role names are compared without regard to case.
    pub fn has_role(&self, role: &str) -> bool {
        let wanted = role.to_lowercase();
        matches!(&self.roles, Roles::Names(names) if names.contains(&wanted))
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub(crate) const fn roles(&self) -> &Roles {
        &self.roles
    }
}

impl Roles {
    /// Reads whatever stands under `roles` the way the language iterates it: a list by element, a mapping by key, a
    /// text by character.
    fn read(value: Option<&Value>) -> Self {
        match value {
            None => Self::Absent,
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_lowercase))
                .collect::<Option<_>>()
                .map_or(Self::Unusable, Self::Names),
            Some(Value::Object(fields)) => Self::Names(fields.keys().map(|key| key.to_lowercase()).collect()),
            Some(Value::String(text)) => {
                Self::Names(text.chars().map(|c| c.to_lowercase().collect()).collect())
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_)) => Self::Unusable,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn creds(values: Value) -> Creds {
        let Value::Object(values) = values else { panic!("not a mapping") };
        Creds::from_map(values)
    }

    #[test]
    fn every_name_of_an_identity_is_listed() {
        let who = Identity { system_scope: Some("all".to_owned()), ..Identity::default() };
        let all = Creds::of(&who, Some("service"));
        let mut names: Vec<_> = all.values.keys().map(String::as_str).collect();
        let mut listed = NAMES.to_vec();
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }

    #[test]
    fn a_system_scope_outranks_a_domain() {
        assert_eq!(creds(json!({"system_scope": "all", "domain_id": "d"})).token_scope(), TokenScope::System);
        assert_eq!(creds(json!({"system_scope": "", "domain_id": "d"})).token_scope(), TokenScope::Domain);
        assert_eq!(creds(json!({"system_scope": null, "domain_id": ""})).token_scope(), TokenScope::Project);
        assert_eq!(creds(json!({})).token_scope(), TokenScope::Project);
    }

    #[test]
    fn roles_of_odd_types_are_no_roles() {
        assert!(creds(json!({"roles": ["ADMIN"]})).has_role("Admin"));
        for odd in [json!({"roles": null}), json!({"roles": ["admin", 1]}), json!({"roles": true}), json!({})]
        {
            assert!(!creds(odd).has_role("admin"));
        }
    }
}

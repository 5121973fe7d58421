//! The `OS_*` variables that the `openstack` command reads. Source: keystoneauth, *Plugin options*; python-openstackclient,
//! *Authentication*.

use std::path::PathBuf;

use secrecy::SecretString;

use crate::auth::Domain;
use crate::{Auth, ClientError, Interface, LogIn, Named, Proof, Scope};

/// What the variables say.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// `OS_ENDPOINT`: the address of the API.
    pub endpoint: Option<String>,
    /// `OS_AUTH_TYPE` and what belongs to it.
    pub auth: Auth,
    /// `OS_CACERT`: the certificates to believe.
    pub ca_file: Option<PathBuf>,
}

/// Reads the variables; `get` gives the value of one. An empty one counts as none.
///
/// `OS_AUTH_TYPE` is `none`, `http_basic`, `password` (or `v3password`), `token` (or `v3token`),
/// `v3applicationcredential`, or `admin_token`: a token that is sent as it is. Without it, it is `password` or `token` where there is an `OS_AUTH_URL`, `admin_token` where there is only a
/// token, and `none` where there is neither.
///
/// # Errors
/// The variable that is missing or contradicts another.
pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Variables, ClientError> {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    let endpoint = get("OS_ENDPOINT").or_else(|| get("OS_ENDPOINT_OVERRIDE"));
    let found = get("OS_AUTH_TYPE");
    let kind = match found.as_deref() {
        Some(kind) => kind,
        None => match (get("OS_AUTH_URL").is_some(), get("OS_TOKEN").is_some(), get("OS_USERNAME").is_some())
        {
            (true, true, _) => "token",
            (true, false, _) => "password",
            (false, true, _) => "admin_token",
            (false, false, false) => "none",
            (false, false, true) => {
                return Err(ClientError::Setting(
                    "OS_USERNAME: is set without OS_AUTH_URL; set that to Keystone's address, or OS_AUTH_TYPE to http_basic or none"
                        .to_owned(),
                ));
            }
        },
    };
    let needed = |name: &str| {
        get(name)
            .ok_or_else(|| ClientError::Setting(format!("{name}: not set, and OS_AUTH_TYPE {kind} needs it")))
    };
    let secret = |name: &str| needed(name).map(SecretString::from);
    let auth = match kind {
        "none" => Auth::None,
        "http_basic" => Auth::HttpBasic { user: needed("OS_USERNAME")?, password: secret("OS_PASSWORD")? },
        "admin_token" | "token_endpoint" => Auth::Token(secret("OS_TOKEN")?),
        "token" | "v3token" => log_in(&get, needed("OS_AUTH_URL")?, Proof::Token(secret("OS_TOKEN")?))?,
        "password" | "v3password" => {
            let url = needed("OS_AUTH_URL")?;
            let user = named(&get, "OS_USERNAME", "OS_USER_ID", "OS_USER_DOMAIN").ok_or_else(|| {
                ClientError::Setting(format!("OS_USERNAME: not set, and OS_AUTH_TYPE {kind} needs it"))
            })?;
            log_in(&get, url, Proof::Password { user, password: secret("OS_PASSWORD")? })?
        }
        "v3applicationcredential" => {
            let url = needed("OS_AUTH_URL")?;
            let id = needed("OS_APPLICATION_CREDENTIAL_ID")?;
            let secret = secret("OS_APPLICATION_CREDENTIAL_SECRET")?;
            log_in(&get, url, Proof::ApplicationCredential { id, secret })?
        }
        other => {
            return Err(ClientError::Setting(format!(
                "OS_AUTH_TYPE: `{other}` is not known; give none, http_basic, password, token, v3applicationcredential or \
                 admin_token"
            )));
        }
    };
    Ok(Variables { endpoint, auth, ca_file: get("OS_CACERT").map(PathBuf::from) })
}

fn log_in(get: &dyn Fn(&str) -> Option<String>, url: String, proof: Proof) -> Result<Auth, ClientError> {
    let project = named(get, "OS_PROJECT_NAME", "OS_PROJECT_ID", "OS_PROJECT_DOMAIN");
    let scope = match (get("OS_SYSTEM_SCOPE").as_deref(), project) {
        // Keystone refuses one that is told.
        _ if matches!(proof, Proof::ApplicationCredential { .. }) => Scope::OfProof,
        (None, Some(project)) => Scope::Project(project),
        (Some("all"), None) => Scope::System,
        (Some("all"), Some(_)) => {
            return Err(ClientError::Setting(
                "OS_SYSTEM_SCOPE: is set together with OS_PROJECT_NAME or OS_PROJECT_ID; unset one of them"
                    .to_owned(),
            ));
        }
        (Some(other), _) => {
            return Err(ClientError::Setting(format!("OS_SYSTEM_SCOPE: `{other}` is not known; give all")));
        }
        (None, None) => {
            return Err(ClientError::Setting(
                "OS_PROJECT_NAME: not set, and neither is OS_SYSTEM_SCOPE; set the one that you have a role in".to_owned(),
            ));
        }
    };
    let interface = match get("OS_INTERFACE").or_else(|| get("OS_ENDPOINT_TYPE")) {
        None => Interface::default(),
        Some(text) => Interface::read(&text).ok_or_else(|| {
            ClientError::Setting(format!(
                "OS_INTERFACE: `{text}` is not known; give public, internal or admin"
            ))
        })?,
    };
    Ok(Auth::Keystone(Box::new(LogIn { url, proof, scope, interface, region: get("OS_REGION_NAME") })))
}

/// A user or project by its variables; the id counts before the name.
fn named(get: &dyn Fn(&str) -> Option<String>, name: &str, id: &str, domain: &str) -> Option<Named> {
    if let Some(id) = get(id) {
        return Some(Named::Id(id));
    }
    let name = get(name)?;
    let by_name = get(&format!("{domain}_NAME")).map(Domain::Name);
    let by_id = get(&format!("{domain}_ID")).map(Domain::Id);
    let domain = by_id.or(by_name).or_else(|| get("OS_DEFAULT_DOMAIN").map(Domain::Id));
    // What the openstack command assumes.
    Some(Named::Name { name, domain: domain.unwrap_or_else(|| Domain::Id("default".to_owned())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Variables, String> {
        let get =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        from_variables(&get).map_err(|why| why.to_string())
    }

    fn login(variables: &[(&str, &str)]) -> LogIn {
        match read(variables).unwrap().auth {
            Auth::Keystone(login) => *login,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_kind_is_told_or_found_out() {
        assert!(matches!(read(&[]).unwrap().auth, Auth::None));
        assert!(matches!(read(&[("OS_AUTH_TYPE", ""), ("OS_PASSWORD", "x")]).unwrap().auth, Auth::None));
        let none =
            read(&[("OS_AUTH_TYPE", "none"), ("OS_ENDPOINT", "http://h"), ("OS_USERNAME", "u")]).unwrap();
        assert!(matches!(none.auth, Auth::None));
        assert_eq!(none.endpoint.as_deref(), Some("http://h"));
        let basic = [("OS_AUTH_TYPE", "http_basic"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "p")];
        assert!(matches!(read(&basic).unwrap().auth, Auth::HttpBasic { user, .. } if user == "u"));
        assert!(matches!(read(&[("OS_TOKEN", "t")]).unwrap().auth, Auth::Token(_)));
        let token = login(&[("OS_TOKEN", "t"), ("OS_AUTH_URL", "https://k"), ("OS_PROJECT_ID", "p")]);
        assert!(matches!(token.proof, Proof::Token(_)));
        let credential = login(&[
            ("OS_AUTH_TYPE", "v3applicationcredential"),
            ("OS_AUTH_URL", "https://k"),
            ("OS_APPLICATION_CREDENTIAL_ID", "c"),
            ("OS_APPLICATION_CREDENTIAL_SECRET", "s"),
        ]);
        assert!(matches!(&credential.proof, Proof::ApplicationCredential { id, .. } if id == "c"));
        assert_eq!(credential.scope, Scope::OfProof);
    }

    #[test]
    fn users_and_projects_are_named_as_the_openstack_command_names_them() {
        let base = [("OS_AUTH_URL", "https://k/v3"), ("OS_USERNAME", "alice"), ("OS_PASSWORD", "p")];
        let user = |login: LogIn| match login.proof {
            Proof::Password { user, .. } => user,
            other => panic!("{other:?}"),
        };
        let with = |more: &[(&'static str, &'static str)]| login(&[&base[..], more].concat());
        let alice = |domain| Named::Name { name: "alice".into(), domain };
        let system = ("OS_SYSTEM_SCOPE", "all");
        assert_eq!(user(with(&[system])), alice(Domain::Id("default".into())));
        assert_eq!(user(with(&[system, ("OS_DEFAULT_DOMAIN", "d")])), alice(Domain::Id("d".into())));
        assert_eq!(user(with(&[system, ("OS_USER_DOMAIN_NAME", "D")])), alice(Domain::Name("D".into())));
        assert_eq!(user(with(&[system, ("OS_USER_ID", "u1")])), Named::Id("u1".into()));
        assert_eq!(with(&[system]).scope, Scope::System);
        assert_eq!(with(&[("OS_PROJECT_ID", "p1")]).scope, Scope::Project(Named::Id("p1".into())));
        let named = with(&[
            ("OS_PROJECT_NAME", "p"),
            ("OS_PROJECT_DOMAIN_ID", "d1"),
            ("OS_INTERFACE", "internalURL"),
        ]);
        assert_eq!(
            named.scope,
            Scope::Project(Named::Name { name: "p".into(), domain: Domain::Id("d1".into()) })
        );
        assert_eq!(named.interface, Interface::Internal);
    }

    #[test]
    fn what_is_missing_or_contradicts_is_named() {
        let base = [("OS_AUTH_URL", "https://k"), ("OS_USERNAME", "alice"), ("OS_PASSWORD", "hunter2")];
        for (variables, named) in [
            (&[("OS_AUTH_TYPE", "kerberos")][..], "OS_AUTH_TYPE"),
            (&[("OS_AUTH_TYPE", "http_basic")], "OS_USERNAME"),
            (&[("OS_AUTH_TYPE", "http_basic"), ("OS_USERNAME", "u")], "OS_PASSWORD"),
            (&[("OS_AUTH_TYPE", "password")], "OS_AUTH_URL"),
            (&[("OS_AUTH_TYPE", "token"), ("OS_AUTH_URL", "https://k")], "OS_TOKEN"),
            (&[("OS_USERNAME", "u")], "OS_USERNAME"),
            (&[("OS_AUTH_URL", "https://k")], "OS_USERNAME"),
            (&base[..], "OS_PROJECT_NAME"),
            (&[base[0], base[1], base[2], ("OS_SYSTEM_SCOPE", "some")], "OS_SYSTEM_SCOPE"),
            (
                &[base[0], base[1], base[2], ("OS_SYSTEM_SCOPE", "all"), ("OS_PROJECT_NAME", "p")],
                "OS_SYSTEM_SCOPE",
            ),
            (&[base[0], base[1], base[2], ("OS_SYSTEM_SCOPE", "all"), ("OS_INTERFACE", "x")], "OS_INTERFACE"),
        ] {
            let why = read(variables).unwrap_err();
            assert!(why.starts_with(named) && !why.contains("hunter2"), "{variables:?}: {why}");
        }
    }
}

//! The log-in of a user at Keystone, and the address of the Bare Metal API in its answer.
//!
//! Source: Identity API v3, *Authentication and token management* and *Service catalog*.

use apelora_http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use apelora_http::{Answer, Method, Request};
use bytes::Bytes;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::ClientError;
use crate::address::Address;
use crate::auth::{Domain, LogIn, Named, Proof, Scope, token_header};
use crate::error::request_id;

const X_SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The types under which catalogues have the service.
const SERVICE_TYPES: [&str; 2] = ["baremetal", "bare-metal"];

/// What a log-in gives.
pub(crate) struct LoggedIn {
    /// The header for requests.
    pub(crate) credential: (HeaderName, HeaderValue),
    catalogue: Vec<Service>,
}

/// Where Keystone is.
pub(crate) fn address(login: &LogIn, plain_http: bool) -> Result<Address, ClientError> {
    Ok(Address::read("OS_AUTH_URL", &login.url, plain_http)?.without("v3"))
}

/// The request, whose body is overwritten when it is dropped.
pub(crate) fn request(at: &Address, login: &LogIn) -> Result<Request, ClientError> {
    let body = Envelope { auth: AuthBody { identity: identity(&login.proof), scope: scope(&login.scope) } };
    let secret = match &login.proof {
        Proof::Password { password, .. } => password.expose_secret(),
        Proof::Token(token) => token.expose_secret(),
        Proof::ApplicationCredential { secret, .. } => secret.expose_secret(),
    };
    // Room for the longest escapes and for the names, so that growing leaves no copy of the secret behind.
    let mut written = Zeroizing::new(Vec::with_capacity(6 * secret.len() + 16 * 1024));
    serde_json::to_writer(&mut *written, &body)
        .map_err(|_| ClientError::LogIn("the log-in cannot be written".to_owned()))?;
    let path = format!("{}/v3/auth/tokens", at.base);
    Ok(Request::new(Method::Post, &path)
        .header(CONTENT_TYPE, JSON)
        .header(ACCEPT, JSON)
        .body(Bytes::from_owner(written)))
}

/// Reads the answer. Its words are not repeated: some repeat what was sent.
pub(crate) fn read(answer: &Answer, at: &Address) -> Result<LoggedIn, ClientError> {
    let id = request_id(&answer.headers).map(|id| format!(" (request {id})")).unwrap_or_default();
    let status = answer.status;
    let refused = |why: &str| Err(ClientError::LogIn(format!("{why} (HTTP {status}){id}")));
    match status {
        201 => {}
        401 => {
            return refused(
                "Keystone does not accept user, password or scope; check OS_USERNAME, OS_PASSWORD, the domains, and that \
                 the user has a role in OS_PROJECT_NAME or OS_SYSTEM_SCOPE",
            );
        }
        404 if is_keystones(answer) => {
            return refused(
                "Keystone does not know the application credential; check OS_APPLICATION_CREDENTIAL_ID",
            );
        }
        400 | 403 => return refused("Keystone refuses the log-in as it is; check the OS_ variables"),
        500..=599 => return refused("Keystone is not available; try again later"),
        _ => return refused(&format!("{at} does not answer like Keystone; check OS_AUTH_URL")),
    }
    let not_keystone =
        || ClientError::LogIn(format!("{at} does not answer like Keystone; check OS_AUTH_URL"));
    let token = answer.headers.get(X_SUBJECT_TOKEN).ok_or_else(not_keystone)?;
    let credential = token_header(token.as_bytes()).map_err(|_| not_keystone())?;
    let body: LogInAnswer = serde_json::from_slice(&answer.body).map_err(|_| not_keystone())?;
    Ok(LoggedIn { credential, catalogue: body.token.catalog })
}

/// Whether an error is Keystone's own, rather than that of something else at this address.
fn is_keystones(answer: &Answer) -> bool {
    let body = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
    body["error"]["code"] == u64::from(answer.status)
}

impl LoggedIn {
    /// The address of the Bare Metal API in the catalogue.
    pub(crate) fn endpoint(&self, login: &LogIn) -> Result<&str, ClientError> {
        let interface = login.interface.as_str();
        let endpoints = self
            .catalogue
            .iter()
            .filter(|service| SERVICE_TYPES.contains(&service.service_type.as_str()))
            .flat_map(|service| &service.endpoints);
        let in_region = |endpoint: &&CatalogueEndpoint| {
            login.region.as_deref().is_none_or(|wanted| {
                [&endpoint.region, &endpoint.region_id]
                    .into_iter()
                    .any(|region| region.as_deref() == Some(wanted))
            })
        };
        let found = endpoints.filter(in_region).find(|endpoint| endpoint.interface == interface);
        found.map(|endpoint| endpoint.url.as_str()).ok_or_else(|| {
            let region = login.region.as_ref().map(|region| format!(" in region {region}")).unwrap_or_default();
            ClientError::LogIn(format!(
                "Keystone's catalogue has no {interface} address of the service `baremetal`{region}; give it with \
                 --endpoint, or correct OS_INTERFACE or OS_REGION_NAME"
            ))
        })
    }
}

#[derive(Deserialize)]
struct LogInAnswer {
    token: TokenAnswer,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    service_type: String,
    endpoints: Vec<CatalogueEndpoint>,
}

#[derive(Deserialize)]
struct CatalogueEndpoint {
    interface: String,
    url: String,
    region: Option<String>,
    region_id: Option<String>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    auth: AuthBody<'a>,
}

#[derive(Serialize)]
struct AuthBody<'a> {
    identity: IdentityBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<ScopeBody<'a>>,
}

#[derive(Serialize)]
struct IdentityBody<'a> {
    methods: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<PasswordBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Reference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    application_credential: Option<CredentialBody<'a>>,
}

#[derive(Serialize)]
struct CredentialBody<'a> {
    id: &'a str,
    secret: &'a str,
}

#[derive(Serialize)]
struct PasswordBody<'a> {
    user: UserBody<'a>,
}

#[derive(Serialize)]
struct UserBody<'a> {
    #[serde(flatten)]
    who: NamedBody<'a>,
    password: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ScopeBody<'a> {
    Project(NamedBody<'a>),
    System { all: bool },
}

/// A user or a project.
#[derive(Serialize)]
#[serde(untagged)]
enum NamedBody<'a> {
    Id { id: &'a str },
    Name { name: &'a str, domain: Reference<'a> },
}

/// A domain, or a token.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Reference<'a> {
    Id(&'a str),
    Name(&'a str),
}

fn identity(proof: &Proof) -> IdentityBody<'_> {
    let none = |method| IdentityBody {
        methods: [method],
        password: None,
        token: None,
        application_credential: None,
    };
    match proof {
        Proof::Password { user, password } => {
            let user = UserBody { who: named(user), password: password.expose_secret() };
            IdentityBody { password: Some(PasswordBody { user }), ..none("password") }
        }
        Proof::Token(token) => {
            IdentityBody { token: Some(Reference::Id(token.expose_secret())), ..none("token") }
        }
        Proof::ApplicationCredential { id, secret } => {
            let credential = CredentialBody { id, secret: secret.expose_secret() };
            IdentityBody { application_credential: Some(credential), ..none("application_credential") }
        }
    }
}

fn scope(scope: &Scope) -> Option<ScopeBody<'_>> {
    match scope {
        Scope::Project(project) => Some(ScopeBody::Project(named(project))),
        Scope::System => Some(ScopeBody::System { all: true }),
        Scope::OfProof => None,
    }
}

fn named(of: &Named) -> NamedBody<'_> {
    match of {
        Named::Id(id) => NamedBody::Id { id },
        Named::Name { name, domain } => NamedBody::Name {
            name,
            domain: match domain {
                Domain::Id(id) => Reference::Id(id),
                Domain::Name(name) => Reference::Name(name),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Interface;

    fn body(proof: &Proof, of: &Scope) -> Value {
        serde_json::to_value(Envelope { auth: AuthBody { identity: identity(proof), scope: scope(of) } })
            .unwrap()
    }

    #[test]
    fn every_form_of_log_in_is_as_the_api_wants_it() {
        let user = Named::Name { name: "alice".into(), domain: Domain::Name("Default".into()) };
        let by_password = Proof::Password { user, password: "s\"cret".into() };
        assert_eq!(
            body(&by_password, &Scope::System),
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": {
                    "name": "alice", "domain": {"name": "Default"}, "password": "s\"cret"}}},
                "scope": {"system": {"all": true}}}})
        );
        let by_id = Proof::Password { user: Named::Id("u1".into()), password: "p".into() };
        let project = Named::Name { name: "rack".into(), domain: Domain::Id("default".into()) };
        assert_eq!(
            body(&by_id, &Scope::Project(project)),
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": {"id": "u1", "password": "p"}}},
                "scope": {"project": {"name": "rack", "domain": {"id": "default"}}}}})
        );
        assert_eq!(
            body(&Proof::Token("t1".into()), &Scope::Project(Named::Id("p1".into()))),
            json!({"auth": {
                "identity": {"methods": ["token"], "token": {"id": "t1"}},
                "scope": {"project": {"id": "p1"}}}})
        );
    }

    #[test]
    fn the_catalogue_is_searched_by_type_interface_and_region() {
        let answer: TokenAnswer = serde_json::from_value(json!({"catalog": [
            {"type": "compute", "endpoints": [{"interface": "public", "url": "http://nova", "region": "a"}]},
            {"type": "baremetal", "endpoints": [
                {"interface": "internal", "url": "http://inner", "region": "a", "region_id": "a"},
                {"interface": "public", "url": "http://outer-a", "region": "a", "region_id": "a"},
                {"interface": "public", "url": "http://outer-b", "region_id": "b"}]}]}))
        .unwrap();
        let found = LoggedIn { credential: token_header(b"t").unwrap(), catalogue: answer.catalog };
        let login = |interface, region: Option<&str>| LogIn {
            url: "https://k".into(),
            proof: Proof::Token("t".into()),
            scope: Scope::System,
            interface,
            region: region.map(str::to_owned),
        };
        let endpoint =
            |interface, region| found.endpoint(&login(interface, region)).map_err(|why| why.to_string());
        assert_eq!(endpoint(Interface::Public, None), Ok("http://outer-a"));
        assert_eq!(endpoint(Interface::Public, Some("b")), Ok("http://outer-b"));
        assert_eq!(endpoint(Interface::Internal, None), Ok("http://inner"));
        for (interface, region) in [(Interface::Admin, None), (Interface::Public, Some("c"))] {
            assert!(endpoint(interface, region).unwrap_err().contains("--endpoint"));
        }
    }
}

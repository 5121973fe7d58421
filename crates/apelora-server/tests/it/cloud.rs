//! A server whose callers a simulated Keystone knows, with the recorded answers of a real one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use apelora_keystone::{Config, Credentials, Limits, Trust};
use apelora_lab::keystone::Keystone;
use apelora_lab::redfish::{Authority, CertificatePlan, Listening, Server as Https, TlsVersion};
use apelora_server::{AuthStrategy, KeystoneAuth, ServerConfig};
use serde_json::{Value, json};

use crate::client::{self, Answer};
use crate::lab::{self, Lab};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PASSWORD: &str = "keystone-password-marker";

/// A server and its Keystone.
pub(crate) struct Cloud {
    pub(crate) lab: Lab,
    pub(crate) keystone: Arc<Https<Keystone>>,
    pub(crate) url: String,
    _listening: Listening,
    _folder: tempfile::TempDir,
}

/// A file of the recorded data of policy.
pub(crate) fn data(name: &str) -> Value {
    let folder =
        lab::variable_of("APELORA_TEST_DATA").map_or_else(|| lab::root().join("tests/data"), PathBuf::from);
    let path = folder.join("policy").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What the real Keystone answered about this persona's token.
pub(crate) fn recorded(persona: &str) -> Value {
    data(&format!("keystone/token-{persona}.json"))["validate"]["response"]["body"].clone()
}

/// The project of a recorded persona.
pub(crate) fn project(persona: &str) -> String {
    recorded(persona)["token"]["project"]["id"].as_str().expect("a project-scoped persona").to_owned()
}

/// The user of a recorded persona.
pub(crate) fn user(persona: &str) -> String {
    recorded(persona)["token"]["user"]["id"].as_str().unwrap().to_owned()
}

/// The recorded answer, for somebody of another name, project and roles.
pub(crate) fn varied(persona: &str, user: &str, project: Option<(&str, &str)>, roles: &[&str]) -> Value {
    let mut body = recorded(persona);
    let token = &mut body["token"];
    token["user"]["id"] = user.into();
    if let Some((id, name)) = project {
        token["project"]["id"] = id.into();
        token["project"]["name"] = name.into();
    }
    token["roles"] = roles.iter().map(|name| json!({"id": format!("role-{name}"), "name": name})).collect();
    body
}

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("Test authority").unwrap())
}

impl Cloud {
    /// With the usual configuration.
    pub(crate) async fn start() -> Self {
        Self::configured(|_| {}, |_| {}).await
    }

    /// With changed limits of the validation, and a changed configuration of the server.
    pub(crate) async fn configured(
        limits: impl FnOnce(&mut Limits),
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let identity = authority().issue(&CertificatePlan::for_address(LOOPBACK)).unwrap();
        let account = Keystone::account("apelora", PASSWORD, "service", "Default");
        let keystone = Https::new(Keystone::new(account), identity.server(TlsVersion::V13).unwrap());
        let listening = keystone.listen(SocketAddr::new(LOOPBACK, 0)).await.unwrap();
        let url = format!("https://{}/v3", listening.address());
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, authority().pem()).unwrap();
        let mut validation = Config {
            url: url.clone(),
            trust: Trust::OnlyFile(ca_file),
            allow_plain_http: false,
            credentials: Credentials {
                username: "apelora".to_owned(),
                password: PASSWORD.into(),
                user_domain_name: "Default".to_owned(),
                project_name: "service".to_owned(),
                project_domain_name: "Default".to_owned(),
            },
            service_type: "baremetal".to_owned(),
            service_token_roles: vec!["service".to_owned()],
            limits: Limits::default(),
        };
        limits(&mut validation.limits);
        let lab = Lab::configured(|config| {
            config.auth = AuthStrategy::Keystone(Box::new(KeystoneAuth { validation, public_url: None }));
            change(config);
        })
        .await;
        Self { lab, keystone, url, _listening: listening, _folder: folder }
    }

    /// Makes a token with this answer known; the token.
    pub(crate) fn know(&self, body: Value) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let token = format!("token-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.keystone.service().know(&token, body);
        token
    }

    /// A token of a recorded persona.
    pub(crate) fn persona(&self, name: &str) -> String {
        self.know(recorded(name))
    }

    /// A request at 1.116 with these headers.
    pub(crate) async fn send(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        self.at("1.116", headers, method, path, body).await
    }

    pub(crate) async fn at(
        &self,
        version: &str,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut all = vec![("X-OpenStack-Ironic-API-Version", version), ("Content-Type", "application/json")];
        all.extend_from_slice(headers);
        let body = body.map(Value::to_string);
        client::send(self.lab.address, method, path, &all, body.as_deref().map(str::as_bytes)).await
    }

    /// A request at 1.116 with this token.
    pub(crate) async fn call(&self, token: &str, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.send(&[("X-Auth-Token", token)], method, path, body.as_ref()).await
    }

    /// Makes a node as an operator; its uuid.
    pub(crate) async fn node(
        &self,
        operator: &str,
        name: &str,
        owner: Option<&str>,
        lessee: Option<&str>,
    ) -> String {
        let body = json!({"driver": "fake-hardware", "name": name, "owner": owner, "lessee": lessee});
        let node = self.call(operator, "POST", "/v1/nodes", Some(body)).await.expect(201).json();
        node["uuid"].as_str().unwrap().to_owned()
    }
}

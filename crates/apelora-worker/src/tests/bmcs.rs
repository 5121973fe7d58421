//! Simulated BMCs, and the map and the secrets that lead to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::Target;
use apelora_fencing::map::BmcMap;
use apelora_lab::ipmi::{self, Account, Level};
use apelora_lab::redfish::{
    Authority, Bmc, CertificatePlan, Listening, Personality, Server, Service, TlsVersion,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::secret::EnvironmentSecrets;
use crate::{ProviderSettings, Providers};

pub(crate) const USER: &str = "apelora";
pub(crate) const PASSWORD: &str = "S3cr3t-\"marker\"";
pub(crate) const UUID: &str = "5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27";
pub(crate) const OTHER_UUID: &str = "61a39523-78f2-11e5-9862-e6402cfc3223";
pub(crate) const SECRET: &str = "APELORA_BMC_SECRET_S1";

/// The bytes of [`UUID`] as printed.
pub(crate) const UUID_BYTES: [u8; 16] =
    [0x5d, 0x1c, 0x0f, 0x6e, 0x3b, 0x7a, 0x4c, 0x02, 0x9a, 0x41, 0x0c, 0x4d, 0xe9, 0x9a, 0x1b, 0x27];

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(crate) struct Site {
    folder: TempDir,
    authority: Authority,
}

/// A Redfish BMC on loopback.
pub(crate) struct Redfish<S = Bmc> {
    pub(crate) server: Arc<Server<S>>,
    /// Its entry in the map.
    pub(crate) entry: Value,
    _listening: Listening,
}

/// An IPMI BMC on loopback.
pub(crate) struct Ipmi {
    pub(crate) bmc: Arc<ipmi::Bmc>,
    /// Its entry in the map.
    pub(crate) entry: Value,
    _listening: ipmi::Listening,
}

impl Redfish {
    pub(crate) fn bmc(&self) -> &Bmc {
        self.server.service()
    }
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::of("Test authority")
    }

    pub(crate) fn of(authority: &str) -> Self {
        let authority = Authority::new(authority).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        Self { folder, authority }
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A BMC of a Dell server that runs, with a good certificate.
    pub(crate) async fn redfish(&self) -> Redfish {
        let bmc = Bmc::new(Personality::named("dell-idrac9-r750").unwrap(), USER, PASSWORD);
        bmc.set_uuid(0, UUID);
        bmc.set_power(0, apelora_lab::redfish::Power::On);
        let path = bmc.path(0).unwrap();
        self.serve(bmc, &path, &CertificatePlan::for_address([127, 0, 0, 1].into())).await
    }

    pub(crate) async fn serve<S: Service>(
        &self,
        service: S,
        path: &str,
        plan: &CertificatePlan,
    ) -> Redfish<S> {
        let identity = self.authority.issue(plan).unwrap();
        let server = Server::new(service, identity.server(TlsVersion::V13).unwrap());
        let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let entry = json!({"provider": "redfish", "address": listening.address().to_string(), "system": path,
            "user": USER, "secret": SECRET, "ca_file": self.ca_file(), "uuid": UUID});
        Redfish { server, entry, _listening: listening }
    }
}

pub(crate) fn account() -> Account {
    Account { name: USER.to_owned(), password: PASSWORD.to_owned(), level: Level::Operator }
}

/// An IPMI BMC of a server that runs.
pub(crate) async fn ipmi() -> Ipmi {
    ipmi_like(ipmi::Bmc::new(UUID_BYTES, account(), [7; 32])).await
}

pub(crate) async fn ipmi_like(bmc: ipmi::Bmc) -> Ipmi {
    let bmc = Arc::new(bmc);
    let listening = ipmi::Server::listen(Arc::clone(&bmc), ([127, 0, 0, 1], 0).into()).await.unwrap();
    let entry = json!({"provider": "ipmi", "address": listening.address().to_string(), "user": USER,
        "secret": SECRET, "uuid": UUID});
    Ipmi { bmc, entry, _listening: listening }
}

/// Changes one key of an entry.
pub(crate) fn with(entry: &Value, key: &str, value: impl Into<Value>) -> Value {
    let mut entry = entry.clone();
    entry[key] = value.into();
    entry
}

/// Without one key.
pub(crate) fn without(entry: &Value, key: &str) -> Value {
    let mut entry = entry.clone();
    entry.as_object_mut().unwrap().shift_remove(key);
    entry
}

/// A map of these members.
pub(crate) fn map_of<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Arc<BmcMap> {
    let members: BTreeMap<_, _> = entries.into_iter().collect();
    let text = json!({ "members": members }).to_string();
    Arc::new(BmcMap::parse(text.as_bytes(), &["apelora-san".to_owned()]).unwrap())
}

/// The target of the member `s1` with this entry.
pub(crate) fn target(entry: &Value) -> Target {
    let map = map_of([("s1", entry.clone())]);
    Target { member: "s1".into(), entry: Arc::clone(map.get(&"s1".into()).unwrap()), map: map.sha() }
}

pub(crate) fn providers() -> Providers {
    providers_with(&[(SECRET, PASSWORD)])
}

pub(crate) fn providers_with(secrets: &[(&str, &str)]) -> Providers {
    let secrets = EnvironmentSecrets::new(secrets.iter().copied());
    Providers::new(ProviderSettings::default(), Arc::new(secrets))
}

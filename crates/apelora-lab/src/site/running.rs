//! A running site.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde_json::{Map, Value, json};

use crate::https::{Authority, CertificatePlan, Identity, PkiError, Server, TlsVersion};
use crate::ident::{hex, uuid, uuid_text};
use crate::incus::{Cluster, ClusterError, Happening};
use crate::ipmi::{self, Account, Level};
use crate::redfish::{self, Personality, PersonalityError};
use crate::site::bmc::{Kind, MemberBmc};
use crate::site::files::{USER, derive, secret_name, write};
use crate::site::plan::{BmcKind, SitePlan};

/// The recorded BMC in whose guise the Redfish BMCs of a site appear.
const GUISE: &str = "dell-idrac9-r750";

/// A site that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A certificate.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The recorded BMC.
    #[error(transparent)]
    Personality(#[from] PersonalityError),
    /// Two members would share the variable of their BMC's password.
    #[error("two members have the variable {0}: give them names that differ in letters and digits")]
    Secret(String),
    /// A BMC cannot listen.
    #[error("the BMC of {member} cannot listen on loopback: {why}")]
    Listen {
        /// Whose BMC.
        member: String,
        /// Why not.
        why: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
}

/// A running site. Everything in it ends when it is dropped; the files stay.
pub struct Site {
    cluster: Cluster,
    bmcs: BTreeMap<String, MemberBmc>,
    secrets: BTreeMap<String, String>,
    folder: PathBuf,
}

impl Site {
    /// Starts one and writes its files.
    ///
    /// # Errors
    /// When the plan contradicts itself, a listener cannot be made or a file cannot be written.
    pub async fn start(mut plan: SitePlan) -> Result<Self, SiteError> {
        let file = |path: &Path, why| SiteError::File { path: path.to_owned(), why };
        fs::create_dir_all(&plan.folder).map_err(|why| file(&plan.folder, why))?;
        // The map holds absolute paths only.
        let folder = plan.folder.canonicalize().map_err(|why| file(&plan.folder, why))?;
        plan.cluster.members = plan.members.iter().map(|member| member.name.clone()).collect();
        let seed = plan.cluster.seed;
        let cluster = Cluster::start(plan.cluster).await?;

        let authority = Authority::new("Simulated BMCs")?;
        let ca_file = folder.join("bmc-ca.pem");
        let (mut bmcs, mut secrets, mut map) = (BTreeMap::new(), BTreeMap::new(), Map::new());
        for member in &plan.members {
            let name = member.name.as_str();
            let password = hex(&derive(seed, "password", name)[..8]);
            let secret = secret_name(name);
            if secrets.insert(secret.clone(), password.clone()).is_some() {
                return Err(SiteError::Secret(secret));
            }
            let uuid = uuid(&[b"machine", &seed.to_be_bytes(), name.as_bytes()]);
            let listen = |why| SiteError::Listen { member: name.to_owned(), why };
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let switch = cluster.switch(name)?;
            let (kind, entry) = match member.bmc {
                BmcKind::Redfish => {
                    let bmc =
                        redfish::Bmc::new(Personality::named(GUISE)?, USER, &password).wired_to(0, switch);
                    bmc.set_uuid(0, &uuid_text(uuid));
                    let system = bmc.path(0).unwrap_or_default();
                    let plan = CertificatePlan::for_address(IpAddr::V4(Ipv4Addr::LOCALHOST));
                    let server = Server::new(bmc, authority.issue(&plan)?.server(TlsVersion::V12)?);
                    let listening = server.listen(at).await.map_err(listen)?;
                    let entry = json!({
                        "provider": "redfish", "address": listening.address().to_string(), "system": system,
                        "user": USER, "secret": secret, "ca_file": ca_file.display().to_string(),
                        "uuid": uuid_text(uuid),
                    });
                    (Kind::Redfish(server, listening), entry)
                }
                BmcKind::Ipmi => {
                    let account = Account { name: USER.to_owned(), password, level: Level::Operator };
                    let bmc = ipmi::Bmc::new(uuid, account, derive(seed, "ipmi", name)).wired_to(switch);
                    let bmc = Arc::new(bmc);
                    let listening = ipmi::Server::listen(Arc::clone(&bmc), at).await.map_err(listen)?;
                    let entry = json!({
                        "provider": "ipmi", "address": listening.address().to_string(), "user": USER,
                        "secret": secret, "cipher_suites": [17], "uuid": uuid_text(uuid),
                    });
                    (Kind::Ipmi(bmc, listening), entry)
                }
            };
            map.insert(name.to_owned(), entry);
            let needs_mains = member.bmc_needs_mains;
            bmcs.insert(name.to_owned(), MemberBmc { kind, needs_mains, uuid: uuid_text(uuid) });
        }

        let client = Identity::client("apelora")?;
        let projects: Option<Vec<&str>> =
            plan.restricted_to.as_ref().map(|all| all.iter().map(String::as_str).collect());
        cluster.trust(client.der(), projects.as_deref());
        let site = Self { cluster, bmcs, secrets, folder };
        let map = json!({ "members": Value::Object(map) });
        for (path, text) in [
            (ca_file, authority.pem()),
            (site.bmc_map(), &format!("{map:#}\n")),
            (site.client_cert(), client.pem()),
            (site.client_key(), &client.key_pem()),
            (site.server_cert(), site.cluster.certificate_pem()),
        ] {
            write(&path, text).map_err(|why| file(&path, why))?;
        }
        Ok(site)
    }

    /// The BMC map: what `APELORA_BMC_MAP` names.
    #[must_use]
    pub fn bmc_map(&self) -> PathBuf {
        self.folder.join("bmc-map.json")
    }

    /// The worker's client certificate: what `APELORA_INCUS_CLIENT_CERT` names.
    #[must_use]
    pub fn client_cert(&self) -> PathBuf {
        self.folder.join("incus-client.crt")
    }

    /// Its key: what `APELORA_INCUS_CLIENT_KEY` names.
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.folder.join("incus-client.key")
    }

    /// The cluster's certificate: what `APELORA_INCUS_SERVER_CERT` names.
    #[must_use]
    pub fn server_cert(&self) -> PathBuf {
        self.folder.join("incus-cluster.crt")
    }

    /// Where the members' APIs are, in the order of the plan: what `APELORA_INCUS_URL` holds.
    #[must_use]
    pub fn incus_urls(&self) -> Vec<String> {
        self.cluster.urls().to_vec()
    }

    /// The passwords of the BMCs, by the variable that the map names.
    #[must_use]
    pub fn secrets(&self) -> &BTreeMap<String, String> {
        &self.secrets
    }

    /// Names of the members, in the order of the plan.
    #[must_use]
    pub fn members(&self) -> &[String] {
        self.cluster.members()
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The BMC of a member.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn bmc(&self, member: &str) -> Result<&MemberBmc, SiteError> {
        let unknown = || ClusterError::UnknownMember(member.to_owned());
        Ok(self.bmcs.get(member).ok_or_else(unknown)?)
    }
}

/// What breaks it. Each returns an error when no member has the name.
impl Site {
    /// The operating system of a machine dies, and its instances with it; power stays on. Nothing happens to a machine
    /// that is off.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn crash(&self, member: &str) -> Result<(), SiteError> {
        Ok(self.cluster.crash(member)?)
    }

    /// A machine stands still: power is on, nothing answers, nothing is lost. Nothing happens to a machine whose
    /// operating system does not run.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn hang(&self, member: &str) -> Result<(), SiteError> {
        Ok(self.cluster.hang(member)?)
    }

    /// A machine loses the cluster's network: its instances run on, its BMC answers, and its API too, to those outside
    /// the cluster.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn cut(&self, member: &str) -> Result<(), SiteError> {
        Ok(self.cluster.cut(member)?)
    }

    /// As [`cut`](Self::cut), and its API does not answer.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn cut_off(&self, member: &str) -> Result<(), SiteError> {
        Ok(self.cluster.cut_off(member)?)
    }

    /// A machine loses mains power. Its BMC reads off, or is gone too if it has no power of its own.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn lose_power(&self, member: &str) -> Result<(), SiteError> {
        let bmc = self.bmc(member)?;
        bmc.set_dark(bmc.needs_mains);
        Ok(self.cluster.lose_power(member)?)
    }

    /// Repairs a machine and its BMC. It boots if it is off or crashed and runs on if it stood still.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn heal(&self, member: &str) -> Result<(), SiteError> {
        let bmc = self.bmc(member)?;
        bmc.set_dark(false);
        bmc.set_trouble(None);
        Ok(self.cluster.heal(member)?)
    }
}

/// The truth, whatever the cluster and the BMCs say.
impl Site {
    /// Whether a machine has power.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn has_power(&self, member: &str) -> Result<bool, SiteError> {
        Ok(self.cluster.has_power(member)?)
    }

    /// Whether a machine's operating system runs.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn is_alive(&self, member: &str) -> Result<bool, SiteError> {
        Ok(self.cluster.is_alive(member)?)
    }

    /// Whether a machine is on the cluster's network.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn is_connected(&self, member: &str) -> Result<bool, SiteError> {
        Ok(self.cluster.is_connected(member)?)
    }

    /// The machines on which an instance really runs.
    #[must_use]
    pub fn running(&self, project: &str, instance: &str) -> Vec<String> {
        self.cluster.running(project, instance)
    }

    /// Everything that has happened so far.
    #[must_use]
    pub fn happenings(&self) -> Vec<Happening> {
        self.cluster.happenings()
    }

    /// Every time that an instance began to run on a second machine. Anything here is a disaster.
    #[must_use]
    pub fn ran_twice(&self) -> Vec<Happening> {
        self.cluster.ran_twice()
    }

    /// Power-offs that were sent, over all BMCs.
    #[must_use]
    pub fn power_offs(&self) -> u32 {
        self.bmcs.values().map(MemberBmc::power_offs).sum()
    }
}

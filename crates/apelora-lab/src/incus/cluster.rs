//! A running simulated cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

use rustls::ServerConfig;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use crate::https::{CertificatePlan, Identity, Life, PkiError, Seen, TlsVersion};
use crate::ident::hex;
use crate::incus::call::Caller;
use crate::incus::clock::At;
use crate::incus::front::{Door, Reaction, Shared};
use crate::incus::plan::ClusterPlan;
use crate::incus::truth::InstanceName;
use crate::incus::world::World;

/// A cluster that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It has no member.
    #[error("a cluster has at least one member: name one in `members`")]
    NoMember,
    /// Two things have one name.
    #[error("`{0}` is there twice: give each member, pool and instance a name of its own")]
    Twice(String),
    /// No member of this name.
    #[error("no member is called `{0}`")]
    UnknownMember(String),
    /// An instance is on a pool that is not planned.
    #[error("instance `{instance}` is on pool `{pool}`, which is not in `pools`")]
    UnknownPool {
        /// The instance.
        instance: InstanceName,
        /// The pool.
        pool: String,
    },
    /// A certificate could not be made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// A listener could not be made.
    #[error("a member cannot listen on {at}: {why}")]
    Listen {
        /// Where.
        at: String,
        /// Why not.
        why: io::Error,
    },
}

/// A running simulated cluster. Its listeners end when it is dropped.
pub struct Cluster {
    pub(super) shared: Arc<Shared>,
    certificate: Identity,
    tls: Arc<ServerConfig>,
    members: Vec<String>,
    urls: Vec<String>,
    sockets: Vec<PathBuf>,
    listening: Vec<JoinHandle<()>>,
}

impl Cluster {
    /// Starts one.
    ///
    /// # Errors
    /// When the plan contradicts itself, or a listener cannot be made.
    pub async fn start(plan: ClusterPlan) -> Result<Self, ClusterError> {
        check(&plan)?;
        // As Incus makes it: one for all members, for a name that none of them is reached by.
        let certificate = Identity::self_signed_p384(&CertificatePlan {
            common_name: "root@vm0".to_owned(),
            dns_names: vec!["vm0".to_owned()],
            addresses: Vec::new(),
            life: Life::Valid,
            is_authority: false,
        })?;
        let tls = certificate.server_asking_clients(TlsVersion::V13)?;
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for _ in &plan.members {
            let at = "127.0.0.1:0";
            let failed = |why| ClusterError::Listen { at: at.to_owned(), why };
            let listener = TcpListener::bind(at).await.map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?.to_string());
            listeners.push(listener);
        }
        let members = plan.members.clone();
        let socket =
            |name: &String| plan.sockets.as_ref().map(|folder| folder.join(format!("{name}.socket")));
        let sockets: Vec<PathBuf> = members.iter().filter_map(socket).collect();
        let fingerprint = hex(&Sha256::digest(certificate.der()));
        let world = World::new(plan, &addresses, (certificate.pem().to_owned(), fingerprint));
        let shared = Shared::new(world);
        let door = |member, local| Door { shared: Arc::clone(&shared), member, local };
        let mut listening = Vec::new();
        for (member, listener) in listeners.into_iter().enumerate() {
            listening.push(tokio::spawn(door(member, false).listen(listener, Arc::clone(&tls))));
        }
        for (member, path) in sockets.iter().enumerate() {
            let failed = |why| ClusterError::Listen { at: path.display().to_string(), why };
            if path.exists() {
                fs::remove_file(path).map_err(failed)?;
            }
            let listener = UnixListener::bind(path).map_err(failed)?;
            listening.push(tokio::spawn(door(member, true).listen_local(listener)));
        }
        let urls = addresses.iter().map(|address| format!("https://{address}")).collect();
        Ok(Self { shared, certificate, tls, members, urls, sockets, listening })
    }

    /// Names of the members, in the order of the plan.
    #[must_use]
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Where each member's API is: `https://127.0.0.1:PORT`, in the order of the plan.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The members' Unix sockets, in the order of the plan; none when none were planned.
    #[must_use]
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// The cluster certificate, in PEM form.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        self.certificate.pem()
    }

    /// The cluster certificate, in DER form.
    #[must_use]
    pub fn certificate_der(&self) -> &[u8] {
        self.certificate.der()
    }

    /// Trusts a client certificate (DER form), in all projects or restricted to some.
    pub fn trust(&self, der: &[u8], restricted_to: Option<&[&str]>) {
        let projects = restricted_to.map(|all| all.iter().map(|name| (*name).to_owned()).collect());
        self.shared.now().0.trusted.insert(hex(&Sha256::digest(der)), projects);
    }

    /// No longer trusts a client certificate (DER form).
    pub fn distrust(&self, der: &[u8]) {
        self.shared.now().0.trusted.remove(&hex(&Sha256::digest(der)));
    }

    /// Serves a connection that somebody else has made, with TLS: for tests that keep off the network.
    ///
    /// # Errors
    /// When no member has this name, the handshake fails or the connection breaks.
    pub async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(&self, member: &str, io: IO) -> io::Result<()> {
        let member = self.index(member).map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))?;
        self.door(member, false).serve_tls(io, Arc::clone(&self.tls)).await
    }

    /// Asks a member as somebody on its machine does through its Unix socket, without the socket: HTTP status and body.
    /// `None` when the connection ends without an answer; no answer at all for as long as the machine gives none.
    ///
    /// # Errors
    /// When no member has this name.
    pub async fn ask(
        &self,
        member: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Option<(u16, Value)>, ClusterError> {
        let door = self.door(self.index(member)?, true);
        let seen = Seen {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            connection: 0,
        };
        Ok(match door.answer(&Caller::Socket, &seen).await {
            None => None,
            Some(Reaction::Whole(answer)) => Some((answer.status, answer.body)),
            Some(Reaction::Garbage(status)) => Some((status, Value::Null)),
            Some(reaction) => door.follow(&Caller::Socket, &reaction).await.map(|body| (200, body)),
        })
    }

    fn door(&self, member: usize, local: bool) -> Door {
        Door { shared: Arc::clone(&self.shared), member, local }
    }

    fn index(&self, member: &str) -> Result<usize, ClusterError> {
        let found = self.members.iter().position(|name| name == member);
        found.ok_or_else(|| ClusterError::UnknownMember(member.to_owned()))
    }

    pub(super) fn change<T>(
        &self,
        member: &str,
        change: impl FnOnce(&mut World, usize, At) -> T,
    ) -> Result<T, ClusterError> {
        let index = self.index(member)?;
        let (mut world, now) = self.shared.now();
        Ok(change(&mut world, index, now))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for listening in &self.listening {
            listening.abort();
        }
        for path in &self.sockets {
            drop(fs::remove_file(path));
        }
    }
}

fn check(plan: &ClusterPlan) -> Result<(), ClusterError> {
    if plan.members.is_empty() {
        return Err(ClusterError::NoMember);
    }
    let mut seen = BTreeSet::new();
    let members = plan.members.iter().map(|name| format!("member {name}"));
    let pools = plan.pools.iter().map(|pool| format!("pool {}", pool.name));
    let instances = plan.instances.iter().map(|i| format!("instance {}/{}", i.project, i.name));
    for name in members.chain(pools).chain(instances) {
        if !seen.insert(name.clone()) {
            return Err(ClusterError::Twice(name));
        }
    }
    for instance in &plan.instances {
        if !plan.members.contains(&instance.member) {
            return Err(ClusterError::UnknownMember(instance.member.clone()));
        }
        if !plan.pools.iter().any(|pool| pool.name == instance.pool) {
            let name = InstanceName { project: instance.project.clone(), name: instance.name.clone() };
            return Err(ClusterError::UnknownPool { instance: name, pool: instance.pool.clone() });
        }
    }
    Ok(())
}

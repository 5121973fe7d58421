//! A worker, the simulated cluster behind streams in memory, and machines that the cluster lives on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apelora_fencing::proof::PowerWord;
use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::status::InstanceStatus;
use apelora_fencing::{Clock, MemberName};
use apelora_http::{ClientIdentity, Dial, Dialed, Dialing, Endpoint, Trust};
use apelora_lab::https::Identity;
use apelora_lab::incus::{self, ClusterPlan, InstancePlan, What};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::task::AbortHandle;

use crate::config::{IncusConfig, Reach};
use crate::shell::tests::rig::{MEMBERS, Rig, Running, pass};
use crate::shell::{Cluster, Endpoints};

pub(super) struct Lab {
    pub(super) rig: Rig,
    pub(super) cluster: Arc<incus::Cluster>,
    trust: Trust,
    identity: Arc<ClientIdentity>,
    client: Vec<u8>,
    _folder: TempDir,
}

impl Lab {
    pub(super) async fn new(instances: &[InstancePlan]) -> Self {
        Self::with(instances, |_| {}).await
    }

    pub(super) async fn with(instances: &[InstancePlan], change: impl FnOnce(&mut ClusterPlan)) -> Self {
        let mut plan = ClusterPlan::new(&MEMBERS);
        plan.offline_threshold = Duration::from_secs(11);
        plan.instances = instances.to_vec();
        change(&mut plan);
        let cluster = Arc::new(incus::Cluster::start(plan).await.unwrap());
        let client = Identity::client("apelora").unwrap();
        cluster.trust(client.der(), None);
        let folder = tempfile::tempdir().unwrap();
        let pinned = folder.path().join("cluster.crt");
        std::fs::write(&pinned, cluster.certificate_pem()).unwrap();
        let identity =
            ClientIdentity::from_pem(client.pem().as_bytes(), client.key_pem().as_bytes()).unwrap();
        let rig = Rig::new();
        let wired = Arc::clone(&cluster);
        *rig.machines.wired.lock().unwrap() =
            Some(Box::new(move |member: &MemberName| wired.lose_power(member.as_str()).unwrap()));
        let trust = Trust::pinned_leaf_file(&pinned).unwrap();
        Self {
            rig,
            cluster,
            trust,
            identity: Arc::new(identity),
            client: client.der().to_vec(),
            _folder: folder,
        }
    }

    pub(super) fn endpoints(&self) -> Cluster {
        let config =
            IncusConfig { urls: self.cluster.urls().to_vec(), healing_off: true, ..IncusConfig::default() };
        let endpoint = |url: &String| apelora_incus::endpoint(url).unwrap();
        let endpoints = config.urls.iter().map(endpoint).collect();
        let reach =
            Reach { endpoints, trust: self.trust.clone(), identity: Some(Arc::clone(&self.identity)) };
        let dial = Arc::new(Streams(Arc::clone(&self.cluster)));
        Cluster::Incus(Endpoints::through(dial, &config, reach, vec!["worker".into()]))
    }

    /// A worker.
    pub(super) fn worker(&self) -> Running {
        self.rig.start_through(|outside| outside.cluster = self.endpoints())
    }

    /// A worker that leads and has stored what runs where.
    pub(super) async fn settled(&self) -> Running {
        let worker = self.worker();
        self.rig
            .wait(60, "the inventory", |rig| rig.base.inventory.lock().unwrap().len() == MEMBERS.len())
            .await;
        pass(5).await;
        worker
    }

    /// A machine's operating system dies, and the machine is switched off for it.
    pub(super) async fn fence(&self, member: &str) {
        self.cluster.crash(member).unwrap();
        self.rig.wait(120, "the proof", |rig| rig.is_fenced(member)).await;
    }

    /// A person confirms that it is off.
    pub(super) fn person_says_off(&self, member: &str) {
        let mut store = self.rig.base.store.lock().unwrap();
        let now = self.rig.clock.boot().since_boot();
        let shown = store.read(now).members[&member.into()].incarnation;
        store.confirm_off(now, &member.into(), shown).unwrap();
    }

    /// The worker's certificate is restricted to these projects.
    pub(super) fn restrict(&self, projects: &[&str]) {
        self.cluster.trust(&self.client, Some(projects));
    }

    /// A machine gets its power back and boots.
    pub(super) fn heal(&self, member: &str) {
        self.rig.machines.power.lock().unwrap().insert(member.into(), PowerWord::On);
        self.cluster.heal(member).unwrap();
    }

    /// Every restart that is stored.
    pub(super) fn rows(&self) -> Vec<RecoveryRow> {
        self.rig.base.recoveries.lock().unwrap().clone()
    }

    /// The restart of an instance, the latest that was stored.
    pub(super) fn row(&self, project: &str, name: &str) -> RecoveryRow {
        let rows = self.rows();
        let row =
            rows.iter().rev().find(|row| (row.project.as_str(), row.instance.as_str()) == (project, name));
        row.unwrap_or_else(|| panic!("{project}/{name} in {rows:?}")).clone()
    }

    pub(super) async fn ended(&self, secs: u64, count: usize) {
        let is = |rig: &Rig| {
            let rows = rig.base.recoveries.lock().unwrap();
            rows.iter().filter(|row| row.step.is_end()).count() >= count
        };
        for _ in 0..secs * 10 {
            if is(&self.rig) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not ended within {secs} s: {:?}", self.rows());
    }

    /// Where an instance really runs.
    pub(super) fn runs(&self, project: &str, name: &str) -> Vec<String> {
        self.cluster.running(project, name)
    }

    /// How often an instance was moved and started, in truth.
    pub(super) fn times(&self, project: &str, name: &str) -> (usize, usize) {
        let (mut moved, mut started) = (0, 0);
        for happening in self.cluster.happenings() {
            match happening.what {
                What::Moved { instance, .. }
                    if (instance.project.as_str(), instance.name.as_str()) == (project, name) =>
                {
                    moved += 1;
                }
                What::Started { instance, .. }
                    if (instance.project.as_str(), instance.name.as_str()) == (project, name) =>
                {
                    started += 1;
                }
                _ => {}
            }
        }
        (moved, started)
    }

    /// Nothing ever ran twice.
    pub(super) fn assert_never_twice(&self) {
        assert_eq!(self.cluster.ran_twice(), []);
    }

    /// What the status document tells about an instance.
    pub(super) fn told(&self, member: &str, project: &str, name: &str) -> InstanceStatus {
        let status = self.rig.status();
        let of = status.members.iter().find(|m| m.member.as_str() == member).unwrap();
        let found = of.instances.iter().find(|i| (i.project.as_str(), i.name.as_str()) == (project, name));
        found.unwrap_or_else(|| panic!("{project}/{name} in {:?}", of.instances)).clone()
    }

    /// It was moved once and runs elsewhere.
    pub(super) fn assert_restarted(&self, project: &str, name: &str, from: &str) {
        let row = self.row(project, name);
        assert_eq!((row.step, row.start), (Step::Done, true), "{row:?}");
        let target = row.target.unwrap().as_str().to_owned();
        assert_ne!(target, from);
        assert_eq!(self.runs(project, name), [target], "{project}/{name}");
        self.assert_never_twice();
    }
}

/// Opens streams to the cluster's members in memory.
struct Streams(Arc<incus::Cluster>);

impl Dial for Streams {
    fn dial<'a>(&'a self, to: &'a Endpoint, _by: tokio::time::Instant) -> Dialing<'a> {
        let at = format!("https://{}", to.to_string().trim_start_matches("https://"));
        let place = self.0.urls().iter().position(|url| *url == at).unwrap_or_else(|| panic!("{at}"));
        let (cluster, member) = (Arc::clone(&self.0), self.0.members()[place].clone());
        let (near, far) = duplex(1 << 16);
        let serving = tokio::spawn(async move { drop(cluster.serve(&member, far).await) });
        let io = Box::new(Stream(near, serving.abort_handle()));
        Box::pin(async move { Ok(Dialed { io, peer: None }) })
    }
}

/// Its other end is gone with it.
struct Stream(DuplexStream, AbortHandle);

impl Drop for Stream {
    fn drop(&mut self) {
        self.1.abort();
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

//! A worker with everything around it, on a time that runs faster than the real one.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apelora_fencing::record::ProofKind;
use apelora_fencing::status::Status;
use apelora_fencing::{BootTime, Clock};
use apelora_lab::site::{Site, SitePlan};
use apelora_maintenance::{Authority, Scope, Stamp};
use apelora_store::{AuditQuery, ConfirmError, DatabaseUrl, PersonsWord, Store, StoreConfig};
use apelora_worker::secret::EnvironmentSecrets;
use apelora_worker::{IncusConfig, Notice, Parts, WorkerConfig, bind};
use serde_json::Value;
use tempfile::TempDir;
use time::macros::datetime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing_subscriber::fmt::MakeWriter;
use uuid::Uuid;

/// Tokio's time as the boot clock.
struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_secs(5_000) + self.0.elapsed())
    }
}

/// Lets tokio's paused time run so many times as fast as the real one. Sockets and the database do real work, which
/// a time that jumps by itself would overtake.
pub(crate) struct Pace(Arc<AtomicU32>, JoinHandle<()>);

pub(crate) fn at_pace(times: u32) -> Pace {
    let pace = Arc::new(AtomicU32::new(times));
    let times = Arc::clone(&pace);
    let running = tokio::spawn(async move {
        loop {
            // The time does not jump by itself while a blocking task is at work.
            let began = std::time::Instant::now();
            tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await.unwrap();
            let real = began.elapsed().min(Duration::from_millis(10));
            tokio::time::advance(real * times.load(Ordering::Relaxed)).await;
        }
    });
    Pace(pace, running)
}

impl Pace {
    pub(crate) fn set(&self, times: u32) {
        self.0.store(times, Ordering::Relaxed);
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.1.abort();
    }
}

/// Everything that is logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A site, a database, and workers on them.
pub(crate) struct Whole {
    pub(crate) site: Site,
    pub(crate) store: Store,
    /// What the worker's environment holds.
    pub(crate) secrets: BTreeMap<String, String>,
    _folder: TempDir,
    clock: Arc<VirtualClock>,
}

/// A worker that runs.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) told: Vec<Notice>,
    heard: mpsc::UnboundedReceiver<Notice>,
    stop: oneshot::Sender<()>,
    life: JoinHandle<()>,
}

pub(crate) async fn sqlite(path: &Path) -> Store {
    let url = DatabaseUrl::parse(&format!("sqlite://{}", path.display())).unwrap();
    Store::connect(&StoreConfig::new(url)).await.unwrap()
}

pub(crate) fn new_id() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u64_pair(u64::from(std::process::id()), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn anna() -> Authority {
    Authority { scope: Some(Scope::System), user: "anna".into(), project: "ops".into() }
}

fn stamp() -> Stamp {
    Stamp::new(new_id(), new_id(), datetime!(2026-06-01 02:00:00), "server-1".into())
}

impl Whole {
    pub(crate) async fn start(change: impl FnOnce(&mut SitePlan)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = SitePlan::new(&["s1", "s2", "s3", "s4"], &folder.path().join("site"));
        plan.cluster.offline_threshold = Duration::from_secs(11);
        change(&mut plan);
        let site = Site::start(plan).await.unwrap();
        let store = sqlite(&folder.path().join("apelora.db")).await;
        let secrets = site.secrets().clone();
        Self { site, store, secrets, _folder: folder, clock: Arc::new(VirtualClock(Instant::now())) }
    }

    pub(crate) fn config(&self) -> WorkerConfig {
        let mut config = WorkerConfig::new("worker-1");
        config.listen = SocketAddr::from(([127, 0, 0, 1], 0));
        config.incus = IncusConfig {
            urls: self.site.incus_urls(),
            client_cert: Some(self.site.client_cert()),
            client_key: Some(self.site.client_key()),
            server_cert: Some(self.site.server_cert()),
            ..IncusConfig::default()
        };
        config.bmc_map = Some(self.site.bmc_map());
        config
    }

    /// Changes the BMC map, of which this is `members`.
    pub(crate) fn edit_map(&self, change: impl FnOnce(&mut Value)) {
        let path = self.site.bmc_map();
        let mut map: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut map["members"]);
        std::fs::write(path, map.to_string()).unwrap();
    }

    /// The document that the leader published last.
    pub(crate) async fn published(&self) -> Option<Status> {
        let row = self.store.leader_status().await.unwrap()?;
        Some(serde_json::from_str(&row.text).unwrap())
    }

    /// Waits, for ten minutes at most, until the document says something.
    pub(crate) async fn shown(&self, what: &str, is: impl Fn(&Status) -> bool) -> Status {
        let shown = async {
            loop {
                if let Some(status) = self.published().await.filter(&is) {
                    return status;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), shown)
            .await
            .unwrap_or_else(|_| panic!("never shown: {what}"))
    }

    /// The audit rows of a member with this action, oldest first: outcome and reason code.
    pub(crate) async fn audited(&self, member: &str, action: &str) -> Vec<(String, String)> {
        let query = AuditQuery {
            limit: 1_000,
            member: Some(member.into()),
            action: Some(action.into()),
            ..AuditQuery::default()
        };
        let rows = self.store.audit(&query).await.unwrap();
        rows.into_iter().map(|row| (row.outcome, row.reason_code.unwrap_or_default())).collect()
    }

    /// Power-offs that reached a BMC, carried out or not.
    pub(crate) fn asked(&self) -> u32 {
        self.site.members().iter().map(|member| self.site.bmc(member).unwrap().power_offs_asked()).sum()
    }

    /// A person says that a member is off.
    pub(crate) async fn confirm_off(&self, member: &str) {
        let stored = self.store.stored_members().await.unwrap();
        let shown = stored.iter().find(|stored| stored.member.as_str() == member).unwrap().row.incarnation;
        let word = PersonsWord { member: member.into(), shown, reason: "cables pulled".into(), by: anna() };
        self.store.confirm_off(&word, &stamp()).await.unwrap();
    }

    /// A person asks for a member's mapping to be trusted again.
    pub(crate) async fn trust(&self, member: &str) -> Result<bool, ConfirmError> {
        self.store.trust(&member.into(), &anna(), "recabled", &stamp()).await
    }

    /// What proves a member off, if it is proven off.
    pub(crate) async fn proof(&self, member: &str) -> Option<ProofKind> {
        let stored = self.store.stored_members().await.unwrap();
        let row = &stored.iter().find(|stored| stored.member.as_str() == member)?.row;
        row.standing_proof().map(|proof| proof.kind)
    }

    /// Starts a worker.
    pub(crate) async fn work(&self, config: WorkerConfig) -> Running {
        let (sender, heard) = mpsc::unbounded_channel();
        let parts = Parts {
            store: self.store.clone(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            wall: Arc::new(|| Duration::from_secs(1_800_000_000)),
            ids: Arc::new(new_id),
            secrets: Arc::new(EnvironmentSecrets::new(self.secrets.clone())),
            notices: Some(sender),
        };
        let worker = bind(config, parts).await.unwrap();
        let url = worker.url();
        let (stop, stopped) = oneshot::channel::<()>();
        let life = tokio::spawn(worker.serve(async {
            let _ = stopped.await;
        }));
        Running { url, told: Vec::new(), heard, stop, life }
    }
}

impl Running {
    /// Waits until something is told, for ten minutes at most.
    pub(crate) async fn hear(&mut self, what: &str, is: impl Fn(&Notice) -> bool) -> Notice {
        let heard = tokio::time::timeout(Duration::from_secs(600), async {
            loop {
                let notice = self.heard.recv().await.expect("the worker is gone");
                self.told.push(notice.clone());
                if is(&notice) {
                    return notice;
                }
            }
        });
        match heard.await {
            Ok(notice) => notice,
            Err(_) => panic!("never told: {what}\n{}", self.story()),
        }
    }

    /// Waits until a notice with this word is told.
    pub(crate) async fn hear_word(&mut self, word: &str) -> Notice {
        self.hear(word, |notice| notice.word() == word).await
    }

    pub(crate) fn story(&self) -> String {
        self.told.iter().map(|notice| format!("{notice}\n")).collect()
    }

    /// `GET` of one of its pages: the status and the body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: worker\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.life.await.unwrap();
    }
}

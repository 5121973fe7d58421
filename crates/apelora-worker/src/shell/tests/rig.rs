//! A worker, its outside, and what a test looks at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apelora_fencing::map::{BmcMap, MapState};
use apelora_fencing::proof::PowerWord;
use apelora_fencing::record::{MemberRow, RecordStatus};
use apelora_fencing::status;
use apelora_fencing::view::Status;
use apelora_fencing::write::{AuditAction, Outcome};
use apelora_fencing::{Clock, MemberName};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use crate::bmc_map::LoadedMap;
use crate::config::WorkerConfig;
use crate::health::Health;
use crate::leases::LeaseSource;
use crate::metrics::Metrics;
use crate::notice::{Notice, Notices};
use crate::shell::scripted::{Base, Machines, Site, VirtualClock};
use crate::shell::{Bmcs, Cluster, Database, Maps, Outside, live};

pub(crate) const MEMBERS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];

/// Everything around one or two workers.
pub(crate) struct Rig {
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) base: Arc<Base>,
    pub(crate) site: Arc<Site>,
    pub(crate) machines: Arc<Machines>,
    ids: Arc<AtomicU64>,
}

/// A worker that lives.
pub(crate) struct Running {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: JoinHandle<()>,
    pub(crate) stop: watch::Sender<bool>,
    heard: mpsc::UnboundedReceiver<Notice>,
    pub(crate) told: Vec<Notice>,
}

pub(crate) fn map(members: &[&str]) -> LoadedMap {
    let entries: Vec<_> = members
        .iter()
        .map(|m| format!(r#""{m}": {{"provider": "lima", "address": "apelora-{m}"}}"#))
        .collect();
    let text = format!(r#"{{"members": {{{}}}}}"#, entries.join(", "));
    let state = MapState::Valid(Arc::new(BmcMap::parse(text.as_bytes(), &[]).unwrap()));
    LoadedMap { state, problem: None, warnings: Vec::new() }
}

impl Rig {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let limits = WorkerConfig::new("w").limits;
        Self {
            base: Arc::new(Base::new(Arc::clone(&clock), limits)),
            site: Arc::new(Site::new(&MEMBERS)),
            machines: Arc::new(Machines::new(&MEMBERS, Arc::clone(&clock))),
            ids: Arc::new(AtomicU64::new(1)),
            clock,
        }
    }

    pub(crate) fn outside(
        &self,
        change: impl FnOnce(&mut Outside),
    ) -> (Arc<Outside>, mpsc::UnboundedReceiver<Notice>) {
        let mut config = WorkerConfig::new("worker");
        config.providers.allow_lab = true;
        let (sender, heard) = mpsc::unbounded_channel();
        let ids = Arc::clone(&self.ids);
        let mut outside = Outside {
            config,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            wall: Arc::new(|| Duration::from_secs(1_800_000_000)),
            ids: Arc::new(move || Uuid::from_u128(u128::from(ids.fetch_add(1, Ordering::Relaxed)))),
            database: Database::Scripted(Arc::clone(&self.base)),
            cluster: Cluster::Scripted(Arc::clone(&self.site)),
            bmcs: Bmcs::Scripted(Arc::clone(&self.machines)),
            map: Maps::Scripted(Mutex::new(map(&MEMBERS))),
            leases: LeaseSource::None,
            notices: Notices::new(Some(sender)),
            metrics: Metrics::new(),
            health: Health::default(),
        };
        change(&mut outside);
        (Arc::new(outside), heard)
    }

    /// Starts a worker.
    pub(crate) fn start(&self) -> Running {
        self.start_through(|_| {})
    }

    /// Starts a worker with another outside.
    pub(crate) fn start_through(&self, change: impl FnOnce(&mut Outside)) -> Running {
        let (outside, heard) = self.outside(change);
        let (stop, stopped) = watch::channel(false);
        let life = tokio::spawn(live(Arc::clone(&outside), stopped));
        Running { outside, life, stop, heard, told: Vec::new() }
    }

    /// Waits for something, for so many seconds at most.
    pub(crate) async fn wait(&self, secs: u64, what: &str, is: impl Fn(&Self) -> bool) {
        for _ in 0..secs * 10 {
            if is(self) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("not within {secs} s: {what}");
    }

    /// How many members are stored as Online.
    pub(crate) fn known_online(&self) -> usize {
        self.base.store.lock().unwrap().members.values().filter(|m| m.online).count()
    }

    /// The member fails: the cluster says so.
    pub(crate) fn fail(&self, member: &str) {
        self.site.set(member, Status::Offline);
    }

    /// The member is back.
    pub(crate) fn heal(&self, member: &str) {
        self.machines.power.lock().unwrap().insert(member.into(), PowerWord::On);
        self.site.set(member, Status::Online);
    }

    pub(crate) fn sends(&self) -> usize {
        self.machines.sends.lock().unwrap().len()
    }

    pub(crate) fn is_fenced(&self, member: &str) -> bool {
        let now = Duration::from_secs(0);
        let member: MemberName = member.into();
        self.base.store.lock().unwrap().read(now).members.get(&member).is_some_and(MemberRow::is_fenced)
    }

    pub(crate) fn open_records(&self) -> usize {
        let store = self.base.store.lock().unwrap();
        store.records.iter().filter(|r| matches!(r.status, RecordStatus::Intent | RecordStatus::Sent)).count()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.base.store.lock().unwrap().lease.epoch.0
    }

    /// The latest published status.
    pub(crate) fn status(&self) -> status::Status {
        let statuses = self.base.statuses.lock().unwrap();
        serde_json::from_str(statuses.last().expect("nothing was published")).unwrap()
    }

    /// How many audit rows of `cluster.member.power_off` have this outcome.
    pub(crate) fn audited(&self, outcome: Outcome) -> usize {
        let rows = self.base.audit.lock().unwrap();
        rows.iter().filter(|r| r.action == AuditAction::PowerOff && r.outcome == Some(outcome)).count()
    }
}

impl Running {
    /// What was told since the start.
    pub(crate) fn told(&mut self) -> &[Notice] {
        while let Ok(notice) = self.heard.try_recv() {
            self.told.push(notice);
        }
        &self.told
    }

    pub(crate) fn words(&mut self) -> Vec<&'static str> {
        self.told().iter().map(Notice::word).collect()
    }

    /// The value of a series in the figures.
    pub(crate) fn figure(&self, series: &str) -> u64 {
        let text = self.outside.metrics.text();
        let line = text.lines().find(|l| l.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("no {series}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Figures and audit tell the same (METRIC-MATCH).
    pub(crate) fn assert_figures_match(&self, rig: &Rig) {
        for outcome in [Outcome::Success, Outcome::Failed, Outcome::Refused] {
            let series = format!("apelora_bmc_power_offs_total{{outcome=\"{}\"}}", outcome.as_str());
            assert_eq!(self.figure(&series), rig.audited(outcome) as u64, "{series}");
        }
    }

    /// Gone without a word, like a process that was killed.
    pub(crate) async fn kill(self) -> Vec<Notice> {
        self.life.abort();
        let _ = self.life.await;
        self.told
    }
}

/// Lets the virtual time run while sockets do real work, which it would overtake otherwise.
pub(crate) struct Pace(Arc<AtomicU64>, JoinHandle<()>);

/// So many times as fast as real time.
pub(crate) fn at_pace(times: u64) -> Pace {
    let pace = Arc::new(AtomicU64::new(times));
    let times = Arc::clone(&pace);
    let running = tokio::spawn(async move {
        loop {
            // The virtual time does not jump by itself while a blocking task is at work.
            let began = std::time::Instant::now();
            tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await.unwrap();
            let times = u32::try_from(times.load(Ordering::Relaxed)).unwrap();
            tokio::time::advance(began.elapsed().min(Duration::from_millis(10)) * times).await;
        }
    });
    Pace(pace, running)
}

impl Pace {
    pub(crate) fn set(&self, times: u64) {
        self.0.store(times, Ordering::Relaxed);
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.1.abort();
    }
}

/// Lets this much virtual time pass.
pub(crate) async fn pass(secs: u64) {
    sleep(Duration::from_secs(secs)).await;
}

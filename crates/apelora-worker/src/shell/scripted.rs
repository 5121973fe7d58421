//! An outside for tests: the database in memory, a cluster and machines that do what the test says, on a virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::memory::MemoryStore;
use apelora_fencing::proof::{
    PermitRequest, PowerWord, Reading, Reported, SendAnswer, SendPermit, SendReport,
};
use apelora_fencing::record::Persisted;
use apelora_fencing::recovery::RecoveryRow;
use apelora_fencing::restart::Instance;
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status, ViewError};
use apelora_fencing::write::{AuditRow, CommitError, Committed, Write};
use apelora_fencing::{BootTime, Clock, Epoch, HolderId, Limits, MemberName, ReasonCode, Ticket};
use tokio::time::{Instant, sleep};

use super::cluster::Running;
use super::database::Written;
use crate::observe::Sight;

/// The boot clock of the tests: tokio's virtual time, and the time that was spent suspended.
pub(crate) struct VirtualClock {
    start: Instant,
    suspended_ms: AtomicU64,
}

impl VirtualClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), suspended_ms: AtomicU64::new(0) }
    }

    /// The machine was suspended for this long: timers stood still.
    pub(crate) fn suspend(&self, secs: u64) {
        self.suspended_ms.fetch_add(secs * 1_000, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn boot(&self) -> BootTime {
        let suspended = Duration::from_millis(self.suspended_ms.load(Ordering::Relaxed));
        BootTime::new(Duration::from_secs(1_000) + self.start.elapsed() + suspended)
    }
}

/// What is wrong with the database.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseFaults {
    /// Every answer takes this long.
    pub(crate) delay: Duration,
    /// It takes nothing.
    pub(crate) away: bool,
    /// The next so many answers to writes of a record are lost after the write was made.
    pub(crate) lose_answers: u32,
    /// The next so many writes of a record hang before they are made.
    pub(crate) hang_writes: u32,
    /// Permits are written, and then the task that waits for one panics.
    pub(crate) panic_at_permit: bool,
}

/// The database.
pub(crate) struct Base {
    pub(crate) store: Mutex<MemoryStore>,
    pub(crate) faults: Mutex<BaseFaults>,
    /// Every audit row that was committed.
    pub(crate) audit: Mutex<Vec<AuditRow>>,
    pub(crate) statuses: Mutex<Vec<String>>,
    pub(crate) inventory: Mutex<BTreeMap<MemberName, Vec<Instance>>>,
    pub(crate) recoveries: Mutex<Vec<RecoveryRow>>,
    /// Every state of a restart that was stored, in this order.
    pub(crate) noted: Mutex<Vec<RecoveryRow>>,
    pub(crate) in_maintenance: Mutex<BTreeSet<MemberName>>,
    pub(crate) renewals: AtomicU64,
    /// How far the database's own clock was set forward.
    pub(crate) ahead_secs: AtomicU64,
    clock: Arc<VirtualClock>,
    limits: Limits,
}

impl Base {
    pub(crate) fn new(clock: Arc<VirtualClock>, limits: Limits) -> Self {
        Self {
            store: Mutex::new(MemoryStore::new(&limits)),
            faults: Mutex::default(),
            audit: Mutex::default(),
            statuses: Mutex::default(),
            inventory: Mutex::default(),
            recoveries: Mutex::default(),
            noted: Mutex::default(),
            in_maintenance: Mutex::default(),
            renewals: AtomicU64::new(0),
            ahead_secs: AtomicU64::new(0),
            clock,
            limits,
        }
    }

    fn now(&self) -> Duration {
        self.clock.boot().since_boot() + Duration::from_secs(self.ahead_secs.load(Ordering::Relaxed))
    }

    async fn answer(&self) -> Result<(), String> {
        let BaseFaults { delay, away, .. } = self.faults.lock().unwrap().clone();
        sleep(delay.max(Duration::from_millis(2))).await;
        if away { Err("connection refused".into()) } else { Ok(()) }
    }

    fn deadline(&self, before: BootTime) -> BootTime {
        before + (self.limits.lease_ttl - self.limits.lease_margin)
    }

    pub(crate) async fn campaign(
        self: &Arc<Self>,
        me: HolderId,
        clock: Arc<dyn Clock>,
    ) -> Result<Option<Term>, String> {
        let before = clock.boot();
        self.answer().await?;
        let epoch = self.store.lock().unwrap().campaign(self.now(), me);
        let base = Arc::clone(self);
        let deadline = Mutex::new(self.deadline(before));
        Ok(epoch.map(|epoch| Term { base, epoch, holder: me, deadline }))
    }

    pub(crate) async fn persisted(&self) -> Result<Persisted, String> {
        self.answer().await?;
        Ok(self.store.lock().unwrap().read(self.now()))
    }

    pub(crate) async fn recoveries(&self) -> Result<Vec<RecoveryRow>, String> {
        self.answer().await?;
        Ok(self.recoveries.lock().unwrap().clone())
    }

    pub(crate) async fn inventory(&self) -> Result<Vec<Instance>, String> {
        self.answer().await?;
        Ok(self.inventory.lock().unwrap().values().flatten().cloned().collect())
    }

    pub(crate) async fn in_maintenance(
        &self,
        members: &BTreeSet<MemberName>,
    ) -> Result<BTreeSet<MemberName>, String> {
        self.answer().await?;
        Ok(self.in_maintenance.lock().unwrap().intersection(members).cloned().collect())
    }
}

/// A leadership in it.
pub(crate) struct Term {
    base: Arc<Base>,
    epoch: Epoch,
    holder: HolderId,
    deadline: Mutex<BootTime>,
}

impl Term {
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(crate) fn deadline(&self) -> BootTime {
        *self.deadline.lock().unwrap()
    }

    pub(crate) async fn commit(&self, write: Write) -> Written<Committed> {
        let hangs = {
            let mut faults = self.base.faults.lock().unwrap();
            let hangs = faults.hang_writes > 0 && write.record().is_some();
            faults.hang_writes -= u32::from(hangs);
            hangs
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        if self.base.answer().await.is_err() {
            return (Err(CommitError::Unavailable), Vec::new());
        }
        let (result, rows) =
            self.base.store.lock().unwrap().commit(self.base.now(), (self.epoch, self.holder), &write);
        self.base.audit.lock().unwrap().extend(rows.iter().cloned());
        let mut faults = self.base.faults.lock().unwrap();
        if write.record().is_some() && !matches!(write, Write::ReadBack(_)) && faults.lose_answers > 0 {
            faults.lose_answers -= 1;
            return (Err(CommitError::Unknown), Vec::new());
        }
        (result, rows)
    }

    pub(crate) async fn permit(&self, request: PermitRequest) -> Written<SendPermit> {
        let (result, rows) = self.commit(Write::Permit(request.clone())).await;
        assert!(!self.base.faults.lock().unwrap().panic_at_permit, "scripted");
        #[expect(clippy::disallowed_methods, reason = "this is the leader of these tests")]
        let permit = result.map(|_| request.committed());
        (permit, rows)
    }

    pub(crate) async fn renew(&self) -> Result<BootTime, CommitError> {
        let before = self.base.clock.boot();
        self.base.answer().await.map_err(|_| CommitError::Unavailable)?;
        self.base.store.lock().unwrap().renew(self.base.now(), self.epoch, self.holder)?;
        self.base.renewals.fetch_add(1, Ordering::Relaxed);
        let deadline = self.base.deadline(before);
        *self.deadline.lock().unwrap() = deadline;
        Ok(deadline)
    }

    pub(crate) async fn publish(&self, status: &str) -> Result<(), CommitError> {
        self.base.answer().await.map_err(|_| CommitError::Unavailable)?;
        self.base.statuses.lock().unwrap().push(status.to_owned());
        Ok(())
    }

    pub(crate) async fn note_inventory(
        &self,
        member: &MemberName,
        instances: &[Instance],
    ) -> Result<(), CommitError> {
        self.base.answer().await.map_err(|_| CommitError::Unavailable)?;
        self.base.inventory.lock().unwrap().insert(member.clone(), instances.to_vec());
        Ok(())
    }

    pub(crate) async fn note_recovery(&self, row: &RecoveryRow) -> Result<(), CommitError> {
        self.base.answer().await.map_err(|_| CommitError::Unavailable)?;
        let lease = self.base.store.lock().unwrap().lease;
        if (lease.epoch, lease.holder) != (self.epoch, Some(self.holder)) {
            return Err(CommitError::Deposed);
        }
        self.base.noted.lock().unwrap().push(row.clone());
        let mut rows = self.base.recoveries.lock().unwrap();
        let key = |row: &RecoveryRow| {
            (row.member.clone(), row.incarnation, row.project.clone(), row.instance.clone())
        };
        match rows.iter_mut().find(|stored| key(stored) == key(row)) {
            Some(stored) => *stored = row.clone(),
            None => rows.push(row.clone()),
        }
        Ok(())
    }

    pub(crate) async fn resign(&self) {
        if self.base.answer().await.is_ok() {
            let mut store = self.base.store.lock().unwrap();
            if store.lease.epoch == self.epoch && store.lease.holder == Some(self.holder) {
                store.lease.expires_at = self.base.now().saturating_sub(Duration::from_millis(1));
            }
        }
    }
}

/// The cluster.
pub(crate) struct Site {
    pub(crate) members: Mutex<BTreeMap<MemberName, Status>>,
    /// Nobody answers.
    pub(crate) hangs: Mutex<bool>,
    /// What runs where is not told.
    pub(crate) hides_instances: Mutex<bool>,
    /// What the second member says of one of them instead.
    pub(crate) second_says: Mutex<Option<(MemberName, Status)>>,
    /// The member that this worker runs on, as the list would tell.
    pub(crate) own_host: Mutex<Option<MemberName>>,
    pub(crate) looks: AtomicU64,
}

impl Site {
    pub(crate) fn new(members: &[&str]) -> Self {
        Self {
            members: Mutex::new(members.iter().map(|m| ((*m).into(), Status::Online)).collect()),
            hangs: Mutex::new(false),
            hides_instances: Mutex::new(false),
            second_says: Mutex::new(None),
            own_host: Mutex::new(None),
            looks: AtomicU64::new(0),
        }
    }

    pub(crate) fn set(&self, member: &str, status: Status) {
        self.members.lock().unwrap().insert(member.into(), status);
    }

    pub(crate) async fn look(&self, clock: &dyn Clock) -> Sight {
        let asked = clock.boot();
        self.looks.fetch_add(1, Ordering::Relaxed);
        if *self.hangs.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(20)).await;
        let members = self.members.lock().unwrap().clone();
        let online: Vec<_> =
            members.iter().filter(|(_, s)| **s == Status::Online).map(|(m, _)| m.clone()).collect();
        let listed: Vec<_> =
            members.into_iter().map(|(name, status)| Listed { name, status, failure_domain: None }).collect();
        let view = |responder: &MemberName, listed: Vec<Listed>| {
            ClusterView::new(asked, responder.clone(), online.first().cloned(), listed)
        };
        let Some(first) = online.first() else {
            return Sight::unreadable(ViewError::Unreadable("nobody is there".into()));
        };
        let mut by_second = listed.clone();
        if let Some((member, status)) = self.second_says.lock().unwrap().clone() {
            by_second.iter_mut().filter(|l| l.name == member).for_each(|l| l.status = status.clone());
        }
        let second = online.get(1).and_then(|m| view(m, by_second).ok());
        let second = second.map_or(SecondView::Missing, SecondView::Seen);
        let own_host = self.own_host.lock().unwrap().clone();
        Sight { view: view(first, listed), second, healing: Healing::Off, own_host }
    }

    pub(crate) async fn running(&self) -> Result<Running, String> {
        sleep(Duration::from_millis(50)).await;
        if *self.hides_instances.lock().unwrap() {
            return Err("the answer is too large".into());
        }
        Ok(Running { instances: Vec::new(), shared: BTreeSet::new() })
    }
}

/// What is wrong with a BMC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BmcFault {
    #[default]
    None,
    HangsAtOpen,
    HangsAtRead,
    HangsAtSend,
    Refuses,
}

/// Goes off with a machine.
pub(crate) type Wire = Box<dyn Fn(&MemberName) + Send>;

/// The machines and their BMCs.
pub(crate) struct Machines {
    pub(crate) power: Mutex<BTreeMap<MemberName, PowerWord>>,
    pub(crate) faults: Mutex<BTreeMap<MemberName, BmcFault>>,
    /// Every power-off that left, and when.
    pub(crate) sends: Mutex<Vec<(BootTime, MemberName)>>,
    /// What else lives on the power of these machines: told which one goes off.
    pub(crate) wired: Mutex<Option<Wire>>,
    clock: Arc<VirtualClock>,
}

impl Machines {
    pub(crate) fn new(members: &[&str], clock: Arc<VirtualClock>) -> Self {
        Self {
            power: Mutex::new(members.iter().map(|m| ((*m).into(), PowerWord::On)).collect()),
            faults: Mutex::default(),
            sends: Mutex::default(),
            wired: Mutex::default(),
            clock,
        }
    }

    fn fault(&self, member: &MemberName) -> BmcFault {
        self.faults.lock().unwrap().get(member).copied().unwrap_or_default()
    }

    async fn meet(&self, member: &MemberName, hangs: BmcFault) {
        if self.fault(member) == hangs {
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(100)).await;
    }

    pub(crate) async fn open(self: &Arc<Self>, id: Ticket, target: &Target) -> Result<Talk, BmcError> {
        self.meet(&target.member, BmcFault::HangsAtOpen).await;
        if self.fault(&target.member) == BmcFault::Refuses {
            let detail = "connection refused".into();
            return Err(BmcError { reason: ReasonCode::BmcUnreachable, transient: true, detail });
        }
        Ok(Talk { machines: Arc::clone(self), id, target: target.clone() })
    }
}

/// A conversation with one of them.
pub(crate) struct Talk {
    machines: Arc<Machines>,
    id: Ticket,
    target: Target,
}

impl Talk {
    pub(crate) async fn read(&mut self) -> Result<Reported, BmcError> {
        let member = &self.target.member;
        self.machines.meet(member, BmcFault::HangsAtRead).await;
        let power = self.machines.power.lock().unwrap()[member];
        let identity = RawIdentity::LabName(format!("apelora-{member}"));
        Ok(Reported { identity, power, detail: String::new() })
    }

    pub(crate) async fn force_off(
        &mut self,
        permit: &SendPermit,
        fresh: &Reading,
        clock: &dyn Clock,
        _by: Instant,
    ) -> SendReport {
        let began = clock.boot();
        let member = &self.target.member;
        assert_eq!(fresh.conversation(), self.id, "a reading of another conversation");
        assert_eq!(permit.map(), self.target.map, "a permit for another map");
        if !permit.allows(began) {
            let answer = SendAnswer::NotSent(ReasonCode::PermitExpired);
            return SendReport { began, ended: began, answer };
        }
        self.machines.sends.lock().unwrap().push((self.machines.clock.boot(), member.clone()));
        self.machines.meet(member, BmcFault::HangsAtSend).await;
        self.machines.power.lock().unwrap().insert(member.clone(), PowerWord::Off);
        if let Some(wire) = &*self.machines.wired.lock().unwrap() {
            wire(member);
        }
        SendReport { began, ended: clock.boot(), answer: SendAnswer::Accepted }
    }
}

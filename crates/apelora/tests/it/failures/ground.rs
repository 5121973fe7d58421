//! What a course takes place on: a simulated site, a database, and two real workers.

use std::path::Path;
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_lab::incus::{ApiFault, InstancePlan, Lease};
use apelora_lab::site::{BmcKind, MemberPlan, Site, SitePlan, Trouble};
use apelora_maintenance::Stamp;
use apelora_store::{
    AuditQuery, AuditRecord, Engine, FenceRecord, NodeColumn, NodeKey, NodePatch, RecordQuery, Store,
    StoredMember,
};
use rustix::process::Signal;
use time::macros::datetime;
use tokio::time::sleep;
use uuid::Uuid;

use super::database::Database;
use super::process::{Process, until};
use super::wire::Wire;
use crate::command::apelora;

/// The member that fails.
pub(crate) const VICTIM: &str = "s3";
/// All members.
pub(crate) const MEMBERS: [&str; 4] = ["s1", "s2", "s3", "s4"];
/// Instances of the victim that have to run elsewhere in the end.
pub(crate) const MOVING: [(&str, &str); 2] = [("shop", "db"), ("default", "queue")];
/// How long each answer of the victim's BMC takes, so that each step lasts long enough to be hit.
const PACE: Duration = Duration::from_millis(700);
/// How long switching off takes.
const SWITCHING: Duration = Duration::from_secs(4);

/// The ground of one course.
pub(crate) struct Ground {
    pub(crate) site: Site,
    pub(crate) database: Database,
    pub(crate) store: Store,
    /// The one that leads at first, and the other.
    pub(crate) workers: [Process; 2],
    /// Their ways to the database.
    pub(crate) wires: Vec<Wire>,
    folder: tempfile::TempDir,
}

impl Ground {
    /// Starts it: the first worker leads, the second follows, all members were seen Online.
    pub(crate) async fn start(engine: Engine, bmc: BmcKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::new(engine, folder.path()).await;
        Self::over(database, folder, bmc).await
    }

    /// The same over this database.
    pub(crate) async fn over(database: Database, folder: tempfile::TempDir, bmc: BmcKind) -> Self {
        let site = Site::start(plan(&folder.path().join("site"), bmc)).await.unwrap();
        let victim = site.bmc(VICTIM).unwrap();
        victim.set_trouble(Some(&Trouble::Slow(PACE)));
        victim.set_delay(SWITCHING);
        let store = database.store().await;
        let node = NodePatch::new()
            .with(NodeColumn::Uuid, Uuid::nil().to_string())
            .with(NodeColumn::Name, VICTIM)
            .with(NodeColumn::Driver, "fake-hardware");
        let at = datetime!(2026-11-30 04:00:00);
        let stamp = Stamp { change: Uuid::nil(), entry: Uuid::max(), at, host: "ground".to_owned() };
        store.create_node(&stamp, node, None).await.unwrap();
        let mut wires = Vec::new();
        if let Some(server) = database.server() {
            wires = vec![Wire::to(server).await, Wire::to(server).await];
        }
        let url = |number: usize| {
            wires.get(number).map_or_else(|| database.url().to_owned(), |wire| database.url_by(&wire.address))
        };
        let first = worker("w1", folder.path(), &site, &url(0), "info");
        first.says("This worker leads").await;
        let second = worker("w2", folder.path(), &site, &url(1), "info");
        let ground = Self { site, database, store, workers: [first, second], wires, folder };
        until("all members to be stored as Online", async || {
            let members = ground.store.stored_members().await.unwrap();
            (members.len() == MEMBERS.len() && members.iter().all(|m| m.row.online)).then_some(())
        })
        .await;
        until("what runs where to be stored", async || {
            let stored = ground.store.inventory().await.unwrap();
            let of_victim = stored.iter().filter(|i| i.instance.member.as_str() == VICTIM).count();
            (of_victim == MOVING.len()).then_some(())
        })
        .await;
        ground.workers[1].says("worker's health").await;
        ground
    }

    /// Records of power-offs, the first one first.
    pub(crate) async fn records(&self) -> Vec<FenceRecord> {
        let query = RecordQuery { limit: 100, ..RecordQuery::default() };
        let mut records = self.store.fence_records(&query).await.unwrap();
        records.reverse();
        records
    }

    pub(crate) async fn audit(&self, action: &str) -> Vec<AuditRecord> {
        let action = (!action.is_empty()).then(|| action.to_owned());
        self.store.audit(&AuditQuery { action, limit: 1_000, ..AuditQuery::default() }).await.unwrap()
    }

    /// The victim as it is stored.
    pub(crate) async fn victim(&self) -> StoredMember {
        let members = self.store.stored_members().await.unwrap();
        members.into_iter().find(|m| m.member == MemberName::from(VICTIM)).unwrap()
    }

    /// Whether a proof stands for the victim's present life. What is proven off must be off.
    pub(crate) async fn is_proven_off(&self) -> bool {
        let victim = self.victim().await;
        let proven = victim.row.proof.as_ref().is_some_and(|p| p.incarnation == victim.row.incarnation);
        assert!(!(proven && self.site.has_power(VICTIM).unwrap()), "proven off, and it has power");
        proven
    }

    /// Power-offs that reached the victim's BMC.
    pub(crate) fn asked(&self) -> u32 {
        self.site.bmc(VICTIM).unwrap().power_offs_asked()
    }

    /// Types of the maintenance entries on the victim's node.
    pub(crate) async fn entries(&self) -> Vec<String> {
        let node = self.store.entries(&NodeKey::Name(VICTIM.to_owned())).await.unwrap().unwrap();
        node.entries.iter().map(|entry| entry.entry_type.clone()).collect()
    }

    /// Breaks the API of every member, or repairs it.
    pub(crate) fn cluster_answers(&self, fault: Option<&ApiFault>) {
        for member in MEMBERS {
            self.site.cluster().set_api_fault(member, fault.cloned()).unwrap();
        }
    }

    /// Has a worker stand still, but not in the middle of a write: on SQLite nobody else could write before it goes on,
    /// and so nobody could lead. A server of a database ends such a transaction after a while.
    pub(crate) async fn stop_between_writes(&self, worker: &Process) {
        loop {
            worker.signal(Signal::STOP);
            if self.database.engine != Engine::Sqlite || self.database.may_be_written().await {
                return;
            }
            worker.signal(Signal::CONT);
            sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn remove(self) {
        self.store.close().await;
        let Self { database, workers, wires, site, folder, .. } = self;
        drop((workers, wires, site, folder));
        database.drop().await;
    }
}

fn plan(folder: &Path, bmc: BmcKind) -> SitePlan {
    let mut plan = SitePlan::new(&MEMBERS, folder);
    plan.members = MEMBERS.iter().map(|name| MemberPlan::new(name, bmc)).collect();
    // The shortest that Incus accepts.
    plan.cluster.offline_threshold = Duration::from_secs(11);
    plan.cluster.boot_time = Duration::from_secs(2);
    // Storage that guards nothing: whatever is started twice does run twice.
    plan.cluster.lease = Lease::Shared;
    plan.cluster.instances = MOVING
        .iter()
        .map(|(project, name)| InstancePlan::new(project, name, VICTIM).autostart(true).memory(512))
        .collect();
    plan
}

/// Starts a worker for a site.
pub(crate) fn worker(name: &'static str, folder: &Path, site: &Site, database: &str, log: &str) -> Process {
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let mut environment: Vec<(String, String)> = [
        ("APELORA_HOST", name.to_owned()),
        ("APELORA_DATABASE_URL", database.to_owned()),
        ("APELORA_WORKER_LISTEN", "127.0.0.1:0".to_owned()),
        ("APELORA_BMC_FENCE_AFTER_SECS", "20".to_owned()),
        ("APELORA_INCUS_URL", site.incus_urls().join(",")),
        ("APELORA_INCUS_CLIENT_CERT", path(site.client_cert())),
        ("APELORA_INCUS_CLIENT_KEY", path(site.client_key())),
        ("APELORA_INCUS_SERVER_CERT", path(site.server_cert())),
        ("APELORA_BMC_MAP", path(site.bmc_map())),
        ("APELORA_LOG", log.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    environment.extend(site.secrets().iter().map(|(name, value)| (name.clone(), value.clone())));
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Process::start(name, &mut apelora(folder, &environment, &["worker"]))
}

//! Time that is lost: a worker that stands still, a cluster that hangs, a database that answers in ten seconds, a server
//! of it that is restarted. Nothing is sent meanwhile, and nobody has to restart a worker afterwards.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use apelora_fencing::record::RecordStatus;
use apelora_lab::incus::ApiFault;
use apelora_lab::site::BmcKind;
use apelora_store::Engine;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::course::{Missed, Step, reached};
use super::database::Database;
use super::ends::{check, come_back, settle_whatever};
use super::ground::{Ground, VICTIM};
use super::process::until;
use super::wire::Mode;

/// The shortest grace that can be set: how long the member must be Offline without interruption.
const GRACE: Duration = Duration::from_secs(20);

/// How late a database answers that crawls.
const LATE: Duration = Duration::from_secs(10);
/// For how long it crawls.
const CRAWLS: Duration = Duration::from_secs(60);

/// The power-off succeeds in the end, and everything else holds.
async fn ends_well(ground: Ground, life: u64) -> String {
    let told = settle_whatever(&ground).await;
    let records = ground.records().await;
    assert_eq!(records.last().map(|record| record.status), Some(RecordStatus::Fenced), "{told}");
    assert_eq!(ground.asked(), 1, "{told}");
    come_back(&ground, life).await;
    check(&ground, false).await;
    ground.remove().await;
    told
}

/// Stands still in the grace, alone, for so long; the count of the grace begins again.
pub(super) async fn alone(engine: Engine, still: Duration, loses_its_lease: bool) -> Result<String, Missed> {
    let ground = Ground::start(engine, BmcKind::Redfish).await;
    let [only, other] = &ground.workers;
    assert_eq!(other.end().await, Some(0));
    let life = ground.victim().await.row.incarnation.0;
    ground.site.crash(VICTIM).unwrap();
    reached(&ground, Step::Grace).await?;
    ground.stop_between_writes(only).await;
    sleep(still).await;
    let woken = (only.now(), Instant::now());
    only.signal(Signal::CONT);
    if loses_its_lease {
        only.says_after(woken.0, "This worker leads no more").await;
        only.says_after(woken.0, "This worker leads (epoch ").await;
    }
    only.says_after(woken.0, "the intent to switch s3 off is recorded").await;
    // Seven seconds of it had passed before; without a new beginning the intent would have come at once.
    assert!(woken.1.elapsed() > GRACE, "only {:?} after it went on", woken.1.elapsed());
    assert!(ground.records().await[0].offline_for < woken.1.elapsed());
    if !loses_its_lease && only.with("This worker leads (epoch ").len() > 1 {
        // It was stopped in the middle of a renewal, or the machine has too much to do.
        return Err(Missed);
    }
    let told = settle_whatever(&ground).await;
    assert_eq!(ground.asked(), 1, "{told}");
    come_back(&ground, life).await;
    assert!(ground.site.ran_twice().is_empty());
    assert_eq!(only.end().await, Some(0));
    ground.remove().await;
    Ok(told)
}

/// The cluster's API hangs in the grace, for so long; then the grace begins again.
pub(super) async fn cluster_hangs(engine: Engine, fault: &ApiFault) -> Result<String, Missed> {
    let ground = Ground::start(engine, BmcKind::Ipmi).await;
    let life = ground.victim().await.row.incarnation.0;
    ground.site.crash(VICTIM).unwrap();
    reached(&ground, Step::Grace).await?;
    ground.cluster_answers(Some(fault));
    let leader = &ground.workers[0];
    leader.says("The cluster's answer cannot be used, so nothing is decided").await;
    sleep(Duration::from_secs(40)).await;
    assert!(ground.records().await.is_empty(), "something was decided");
    // Whoever leads goes on leading.
    assert_eq!(leader.with("This worker leads no more"), Vec::<String>::new());
    let since = Instant::now();
    ground.cluster_answers(None);
    leader.says("the intent to switch s3 off is recorded").await;
    assert!(since.elapsed() > GRACE - Duration::from_secs(1), "only {:?}", since.elapsed());
    Ok(ends_well(ground, life).await)
}

/// The database answers each statement ten seconds late.
pub(super) async fn database_crawls(engine: Engine, step: Step) -> Result<String, Missed> {
    let ground = Ground::start(engine, BmcKind::Redfish).await;
    let life = ground.victim().await.row.incarnation.0;
    ground.site.crash(VICTIM).unwrap();
    let held = reached(&ground, step).await?;
    assert!(held.is_none());
    // SQLite is not free to be written at all: in the instants between, a worker would do what it may.
    let locked = if engine == Engine::Sqlite { Some(ground.database.hold_writes().await) } else { None };
    ground.wires.iter().for_each(|wire| wire.set(Mode::Late(LATE)));
    let before = ground.asked();
    sleep(CRAWLS).await;
    assert_eq!(ground.asked(), before, "sent while the database crawled");
    if let Some(locked) = locked {
        locked.release().await;
    }
    ground.wires.iter().for_each(|wire| wire.set(Mode::Whole));
    assert!(ground.workers.iter().all(super::process::Process::runs));
    Ok(ends_well(ground, life).await)
}

/// The database's server is restarted at this step.
pub(super) async fn server_restarts(engine: Engine, step: Step) -> Result<String, Missed> {
    let folder = tempfile::tempdir().unwrap();
    // The server runs as a user of its own, who has to get there.
    let lab = folder.path().join("server");
    let url = lab_server(engine, "start", &lab).await;
    open_to_all(folder.path());
    let database = Database::on(engine, folder.path(), Some(url)).await;
    let ground = Ground::over(database, folder, BmcKind::Ipmi).await;
    let life = ground.victim().await.row.incarnation.0;
    ground.site.crash(VICTIM).unwrap();
    let held = reached(&ground, step).await?;
    lab_server(engine, "stop", &lab).await;
    drop(held);
    sleep(Duration::from_secs(3)).await;
    lab_server(engine, "start", &lab).await;
    let told = settle_whatever(&ground).await;
    assert!(ground.asked() <= 1);
    let proven = ground.is_proven_off().await;
    assert_eq!(proven, ground.asked() == 1);
    assert!(proven || step == Step::Permit);
    come_back(&ground, life).await;
    check(&ground, false).await;
    lab_server(engine, "stop", &lab).await;
    Ok(told)
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts or stops a server of its own; its URL.
async fn lab_server(engine: Engine, verb: &str, folder: &Path) -> String {
    let script = match engine {
        Engine::Postgres => "postgres.sh",
        _ => "mariadb.sh",
    };
    let script = format!("{}/../../tests/labs/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(script);
    command.arg(verb).arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    if let Some(parent) = folder.parent() {
        open_to_all(parent);
    }
    let mut running = command.spawn().unwrap();
    let ended = until(&format!("{verb} of the server"), async || running.try_wait().unwrap()).await;
    assert!(ended.success(), "{verb}: {ended}");
    let url = std::fs::read_to_string(folder.join("url")).unwrap_or_default();
    url.trim().to_owned()
}

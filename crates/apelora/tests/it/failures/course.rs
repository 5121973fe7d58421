//! One course: a server dies, its power-off begins, something fails at one step of it, and all must end well.

use std::collections::BTreeMap;
use std::time::Duration;

use apelora_fencing::record::RecordStatus;
use apelora_lab::incus::ApiFault;
use apelora_lab::site::BmcKind;
use apelora_store::{Engine, FenceRecord};
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::database::Held;
use super::ground::{Ground, MEMBERS, MOVING, VICTIM};
use super::process::{PATIENCE, until};
use super::wire::Mode;
use crate::running::request;

/// Where a power-off stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The member is Offline, and the grace runs.
    Grace,
    /// The intent is committed, and the conversation is being opened.
    Intent,
    /// The conversation is open, and the cluster is looked at once more.
    Open,
    /// The permit is committed, and identity and power are being read.
    Permit,
    /// The request was answered, and the power still reads On.
    Sent,
    /// One Off was read.
    Off,
    /// Two Offs were read, and the final is not committed.
    Final,
    /// The final is committed, and instances are being restarted.
    Recovery,
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The leader is killed.
    Kill,
    /// The leader stands still until another one leads, and then goes on.
    Stop,
    /// The database is away for a while, for both workers.
    Cut,
    /// The leader's database takes what is asked and does not answer, until another one leads.
    Mute,
}

/// The step was over before the fault came.
pub(crate) struct Missed;

/// How long the database is away.
const AWAY: Duration = Duration::from_secs(12);
/// How long SQLite is held, where no worker can be shut out alone: longer than a lease.
const HELD: Duration = Duration::from_secs(40);
/// How often a step is tried before it counts as one that cannot be hit.
const TRIES: u32 = 3;

/// Runs it, again if its step was missed.
pub(crate) async fn run(engine: Engine, fault: Fault, step: Step, number: u32) {
    // Both kinds of BMC have their turn at each step, over the faults and the engines.
    let turn = number + fault as u32 + step as u32 + engine as u32;
    let bmc = if turn.is_multiple_of(2) { BmcKind::Redfish } else { BmcKind::Ipmi };
    for _ in 0..TRIES {
        let began = Instant::now();
        if let Ok(told) = once(engine, fault, step, bmc).await {
            let took = began.elapsed().as_secs();
            println!("{engine} {fault:?} at {step:?} over {bmc:?}, {took} s: {told}");
            return;
        }
        println!("{engine} {fault:?} at {step:?} over {bmc:?}: the step was missed");
    }
    panic!("{engine} {fault:?} at {step:?} over {bmc:?}: the step was missed {TRIES} times");
}

async fn once(engine: Engine, fault: Fault, step: Step, bmc: BmcKind) -> Result<String, Missed> {
    let ground = Ground::start(engine, bmc).await;
    let [first, second] = &ground.workers;
    let life = ground.victim().await.row.incarnation;
    ground.site.crash(VICTIM).unwrap();
    let held = reach(&ground, step).await;
    match fault {
        Fault::Kill => {
            first.signal(Signal::KILL);
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
        }
        Fault::Stop => {
            first.signal(Signal::STOP);
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
            second.says("This worker leads").await;
            let woken = first.now();
            first.signal(Signal::CONT);
            first.says_after(woken, "This worker leads no more").await;
        }
        Fault::Cut => {
            let since = first.now();
            let locked = if engine == Engine::Sqlite { Some(ground.database.hold_writes().await) } else { None };
            ground.wires.iter().for_each(|wire| wire.set(Mode::Cut));
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
            sleep(AWAY).await;
            ground.wires.iter().for_each(|wire| wire.set(Mode::Whole));
            let_go(&ground, locked).await;
            drop(since);
        }
        Fault::Mute => {
            let locked = if engine == Engine::Sqlite { Some(ground.database.hold_writes().await) } else { None };
            ground.wires.iter().take(1).for_each(|wire| wire.set(Mode::Mute));
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
            if engine == Engine::Sqlite {
                sleep(HELD).await;
            } else {
                second.says("This worker leads").await;
            }
            first.says("This worker leads no more").await;
            ground.wires.iter().for_each(|wire| wire.set(Mode::Whole));
            let_go(&ground, locked).await;
        }
    }
    let told = settle(&ground, fault, step).await;
    come_back(&ground, life.0).await;
    check(&ground, fault).await;
    ground.remove().await;
    Ok(told)
}

/// Waits until the power-off is at this step. What it returns is held in the database.
async fn reach(ground: &Ground, step: Step) -> Option<Held> {
    let leader = &ground.workers[0];
    leader.says("s3 is Offline; if it stays so").await;
    match step {
        Step::Grace => {
            sleep(Duration::from_secs(7)).await;
            return None;
        }
        Step::Intent => drop(leader.says("the intent to switch s3 off is recorded").await),
        Step::Open => {
            leader.says("the intent to switch s3 off is recorded").await;
            ground.cluster_answers(Some(&ApiFault::Slow(Duration::from_millis(1_500))));
            let bmc = ground.site.bmc(VICTIM).unwrap();
            let (mut before, mut since) = (0, Instant::now());
            // Nothing is asked any more: the conversation is open.
            while before == 0 || since.elapsed() < Duration::from_millis(900) {
                if bmc.requests() != before {
                    (before, since) = (bmc.requests(), Instant::now());
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
        Step::Permit => drop(leader.says("The power-off of s3 is permitted").await),
        Step::Sent => drop(leader.says("s3's BMC accepted the power-off").await),
        Step::Off => drop(leader.says("s3's BMC reads Off").await),
        Step::Final => {
            leader.says("s3's BMC reads Off").await;
            let held = ground.database.hold_record().await;
            sleep(Duration::from_millis(3_500)).await;
            return Some(held);
        }
        Step::Recovery => drop(leader.says("s3 is proven off by its power").await),
    }
    None
}

/// Whether the power-off is at this step, by the database and the BMC.
async fn hit(ground: &Ground, step: Step) -> Result<(), Missed> {
    // What was on its way to the BMC has arrived.
    sleep(Duration::from_millis(300)).await;
    let records = ground.records().await;
    let status = records.last().map(|record| record.status);
    let is_hit = match step {
        Step::Grace => status.is_none(),
        Step::Intent | Step::Open => status == Some(RecordStatus::Intent),
        Step::Permit => status == Some(RecordStatus::Sent) && ground.asked() == 0,
        Step::Sent => {
            status == Some(RecordStatus::Sent) && ground.asked() == 1 && ground.site.has_power(VICTIM).unwrap()
        }
        Step::Off | Step::Final => {
            status == Some(RecordStatus::Sent) && !ground.site.has_power(VICTIM).unwrap()
        }
        Step::Recovery => status == Some(RecordStatus::Fenced),
    };
    if is_hit { Ok(()) } else { Err(Missed) }
}

async fn let_go(ground: &Ground, held: Option<Held>) {
    if let Some(held) = held {
        held.release().await;
    }
    ground.cluster_answers(None);
}

/// Waits until the failure has ended in one of the two ways in which it may, and says in which.
async fn settle(ground: &Ground, fault: Fault, step: Step) -> String {
    let ended = until("the end of the power-off", async || {
        let proven = ground.is_proven_off().await;
        let records = ground.records().await;
        let open = records.iter().any(|record| record.status.is_open());
        let failed = records.last().is_some_and(|record| record.status == RecordStatus::Failed);
        (!open && (proven || failed)).then_some((proven, records))
    });
    let (proven, records) = ended.await;
    let deposes = matches!(fault, Fault::Kill | Fault::Stop);
    let asked = ground.asked();
    let statuses: Vec<_> = records.iter().map(|record| record.status).collect();
    let last = records.last().unwrap();
    let told = format!(
        "{} ({})",
        statuses.iter().map(|status| format!("{status:?}")).collect::<Vec<_>>().join(", "),
        last.reason.as_deref().unwrap_or("no reason")
    );
    if step == Step::Permit {
        if deposes {
            // Something may have been sent; nothing was, and so nothing is proven.
            assert_eq!((statuses.as_slice(), asked), ([RecordStatus::Failed].as_slice(), 0), "{told}");
            assert_eq!(last.reason.as_deref(), Some("leader_changed"));
        }
    } else {
        assert!(proven, "{told}");
    }
    assert_eq!(proven, asked == 1, "{told}");
    if deposes {
        let epochs: Vec<_> =
            records.iter().map(|r| (r.made_by.0.0, r.adopted_by.map(|(epoch, _)| epoch.0))).collect();
        let adopted = (1, Some(2));
        match step {
            Step::Grace => assert_eq!(epochs, [(2, None)], "{told}"),
            Step::Intent | Step::Open => {
                assert_eq!(statuses, [RecordStatus::Refused, RecordStatus::Fenced], "{told}");
                assert_eq!(epochs, [adopted, (2, None)], "{told}");
                assert_eq!((records[0].sent, records[0].reason.as_deref()), (Some(false), Some("leader_changed")));
            }
            Step::Permit | Step::Sent | Step::Off | Step::Final => {
                assert_eq!(epochs, [adopted], "{told}");
                let (_, evidence) = ground.store.fence_record(last.id).await.unwrap().unwrap();
                // The one who adopted it has only read.
                assert!(evidence.iter().all(|row| row.kind != "send"), "{evidence:?}");
            }
            Step::Recovery => assert_eq!(epochs, [(1, None)], "{told}"),
        }
    }
    if proven {
        assert!(ground.entries().await.iter().any(|entry| entry == "fault"), "its node has no fault entry");
        restarted(ground).await;
    } else {
        // Within ten minutes nothing more is sent.
        let guarded = async || {
            let refusals = ground.audit("cluster.member.power_off").await;
            refusals.iter().any(|row| row.evidence.contains("powered_off_recently")).then_some(())
        };
        until("the loop guard", guarded).await;
    }
    told
}

/// What the victim ran runs elsewhere, once.
async fn restarted(ground: &Ground) {
    for (project, name) in MOVING {
        let runs = async || {
            let on = ground.site.running(project, name);
            (on.len() == 1 && on[0] != VICTIM).then_some(())
        };
        until(&format!("{project}/{name} to run elsewhere"), runs).await;
    }
}

/// The victim is repaired, and its next life is known.
async fn come_back(ground: &Ground, life: u64) {
    ground.site.heal(VICTIM).unwrap();
    until("the victim to be stored as Online", async || {
        let row = ground.victim().await.row;
        (row.online && row.incarnation.0 > life).then_some(())
    })
    .await;
    until("its fault entry to be released", async || ground.entries().await.is_empty().then_some(())).await;
}

/// What must hold after every course.
async fn check(ground: &Ground, fault: Fault) {
    let records = ground.records().await;
    each_record_ended_once(ground, &records).await;
    assert!(ground.asked() <= 1, "{} power-offs", ground.asked());
    for member in MEMBERS.iter().filter(|member| **member != VICTIM) {
        assert_eq!(ground.site.bmc(member).unwrap().power_offs_asked(), 0, "{member} was to be switched off");
    }
    assert!(ground.site.ran_twice().is_empty(), "{:?}", ground.site.ran_twice());

    // Nothing of an earlier leader was written after a later one had begun.
    let rows = ground.audit("").await;
    let epochs: Vec<i64> = rows.iter().filter_map(|row| row.epoch).collect();
    assert!(epochs.is_sorted(), "{epochs:?}");
    let proofs = rows.iter().filter(|row| row.action == "cluster.member.fenced").count();
    let fenced = records.iter().filter(|record| record.status == RecordStatus::Fenced).count();
    assert_eq!(proofs, fenced);

    // No epoch was anybody else's.
    let mut led: BTreeMap<String, usize> = BTreeMap::new();
    for line in ground.workers.iter().flat_map(|worker| worker.with("This worker leads (epoch ")) {
        let (_, epoch) = line.split_once("(epoch ").unwrap();
        *led.entry(epoch.split(')').next().unwrap().to_owned()).or_default() += 1;
    }
    assert!(led.values().all(|times| *times == 1), "{led:?}");
    let panics: Vec<_> = ground.workers.iter().flat_map(|worker| worker.with("panicked")).collect();
    assert!(panics.is_empty(), "{panics:?}");

    let living: Vec<_> =
        ground.workers.iter().skip(usize::from(fault == Fault::Kill)).collect();
    let end = Instant::now() + PATIENCE;
    loop {
        let mut roles = Vec::new();
        for worker in &living {
            assert!(worker.runs(), "{} has ended", worker.name);
            let address = worker.address().await;
            let asked = tokio::task::spawn_blocking(move || request(&address, "GET", "/readyz", ""));
            roles.push(asked.await.unwrap());
        }
        let leaders = roles.iter().filter(|(_, role)| role.starts_with("leading")).count();
        if leaders == 1 && roles.iter().all(|(status, _)| *status == 200) {
            break;
        }
        assert!(Instant::now() < end, "{roles:?}");
        sleep(Duration::from_millis(500)).await;
    }
    for worker in living {
        assert_eq!(worker.end().await, Some(0), "{}", worker.name);
    }
}

/// Each record has one row in the trail that ends it, by the leader that ended it; and what is proven was read twice.
async fn each_record_ended_once(ground: &Ground, records: &[FenceRecord]) {
    let mut ends: BTreeMap<String, Vec<(String, Option<i64>)>> = BTreeMap::new();
    for row in ground.audit("cluster.member.power_off").await {
        let evidence: Value = serde_json::from_str(&row.evidence).unwrap();
        if let Some(record) = evidence["record"].as_str() {
            ends.entry(record.to_owned()).or_default().push((row.outcome, row.epoch));
        }
    }
    assert_eq!(ends.len(), records.len(), "{ends:?}");
    for record in records {
        let outcome = match record.status {
            RecordStatus::Fenced => "success",
            RecordStatus::Failed => "failed",
            RecordStatus::Refused => "refused",
            status => panic!("{status:?} is no end of {record:?}"),
        };
        let by = record.adopted_by.unwrap_or(record.made_by).0.0;
        let wanted = vec![(outcome.to_owned(), i64::try_from(by).ok())];
        assert_eq!(ends[&record.id.0.to_string()], wanted, "{record:?}");
        if record.status == RecordStatus::Fenced {
            assert!(record.permit_at.is_some() && record.readings.0 >= 2, "{record:?}");
            let (_, evidence) = ground.store.fence_record(record.id).await.unwrap().unwrap();
            let off: Vec<_> = evidence.iter().filter(|row| row.outcome == "Off").collect();
            assert!(off.len() >= 2 && off[off.len() - 1].at > off[off.len() - 2].at, "{evidence:?}");
            let sends = evidence.iter().filter(|row| row.kind == "send").count();
            assert!(sends <= 1, "{evidence:?}");
        }
    }
}

//! One course: a server dies, its power-off begins, something fails at one step of it, and all must end well.

use std::time::Duration;

use apelora_fencing::record::RecordStatus;
use apelora_lab::incus::ApiFault;
use apelora_lab::site::BmcKind;
use apelora_store::Engine;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::database::Held;
use super::ends::{check, come_back, settle};
use super::ground::{Ground, VICTIM};
use super::wire::Mode;

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
    /// What the leader asks of its database arrives when another one leads, and not before.
    Deaf,
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
    let name = format!("{engine} {fault:?} at {step:?} over {bmc:?}");
    hit_it(&name, async || once(engine, fault, step, bmc).await).await;
}

/// Runs a course until its step is hit.
pub(super) async fn hit_it(name: &str, course: impl AsyncFn() -> Result<String, Missed>) {
    for _ in 0..TRIES {
        let began = Instant::now();
        if let Ok(told) = course().await {
            println!("{name}, {} s: {told}", began.elapsed().as_secs());
            return;
        }
        println!("{name}: the step was missed");
    }
    panic!("{name}: the step was missed {TRIES} times");
}

/// Reaches the step, unless the leader loses its role before that: on a machine that has too much to do.
pub(super) async fn reached(ground: &Ground, step: Step) -> Result<Option<Held>, Missed> {
    tokio::select! {
        held = reach(ground, step) => Ok(held),
        _ = ground.workers[0].says("This worker leads no more") => Err(Missed),
    }
}

async fn once(engine: Engine, fault: Fault, step: Step, bmc: BmcKind) -> Result<String, Missed> {
    let ground = Ground::start(engine, bmc).await;
    let [first, second] = &ground.workers;
    let life = ground.victim().await.row.incarnation;
    ground.site.crash(VICTIM).unwrap();
    let held = reached(&ground, step).await?;
    match fault {
        Fault::Kill => {
            first.signal(Signal::KILL);
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
        }
        Fault::Stop => {
            if held.is_none() {
                ground.stop_between_writes(first).await;
            } else {
                first.signal(Signal::STOP);
            }
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
            second.says("This worker leads").await;
            let woken = first.now();
            first.signal(Signal::CONT);
            first.says_after(woken, "This worker leads no more").await;
        }
        Fault::Cut => {
            let (held, locked) = lock_out(&ground, held).await;
            ground.wires.iter().for_each(|wire| wire.set(Mode::Cut));
            let hit = hit(&ground, step).await;
            let_go(&ground, held).await;
            hit?;
            sleep(AWAY).await;
            ground.wires.iter().for_each(|wire| wire.set(Mode::Whole));
            let_go(&ground, locked).await;
        }
        Fault::Mute | Fault::Deaf => {
            let mode = if fault == Fault::Mute { Mode::Mute } else { Mode::Deaf };
            let (held, locked) = lock_out(&ground, held).await;
            ground.wires.iter().take(1).for_each(|wire| wire.set(mode));
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
    check(&ground, fault == Fault::Kill).await;
    ground.remove().await;
    Ok(told)
}

/// Waits until the power-off is at this step. What it returns is held in the database.
async fn reach(ground: &Ground, step: Step) -> Option<Held> {
    let leader = &ground.workers[0];
    leader.says("The cluster reports s3 as Offline; if it stays so").await;
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
            status == Some(RecordStatus::Sent)
                && ground.asked() == 1
                && ground.site.has_power(VICTIM).unwrap()
        }
        Step::Off | Step::Final => {
            status == Some(RecordStatus::Sent) && !ground.site.has_power(VICTIM).unwrap()
        }
        Step::Recovery => status == Some(RecordStatus::Fenced),
    };
    if is_hit { Ok(()) } else { Err(Missed) }
}

/// What SQLite has in place of a wire: its write lock, held. It may be held already.
async fn lock_out(ground: &Ground, held: Option<Held>) -> (Option<Held>, Option<Held>) {
    if ground.database.engine != Engine::Sqlite {
        return (held, None);
    }
    match held {
        Some(held) => (None, Some(held)),
        None => (None, Some(ground.database.hold_writes().await)),
    }
}

async fn let_go(ground: &Ground, held: Option<Held>) {
    if let Some(held) = held {
        held.release().await;
    }
    ground.cluster_answers(None);
}

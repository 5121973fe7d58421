//! How a course ends, and what must hold then.

use std::collections::BTreeMap;
use std::time::Duration;

use apelora_fencing::record::RecordStatus;
use apelora_store::FenceRecord;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::course::{Fault, Step};
use super::ground::{Ground, MEMBERS, MOVING, VICTIM};
use super::process::{PATIENCE, Process, until};
use crate::running::request;

/// Waits until the failure has ended in one of the two ways in which it may: proven, or failed.
async fn ended(ground: &Ground) -> (bool, Vec<FenceRecord>) {
    until("the end of the power-off", async || {
        let proven = ground.is_proven_off().await;
        let records = ground.records().await;
        let open = records.iter().any(|record| record.status.is_open());
        let failed = records.last().is_some_and(|record| record.status == RecordStatus::Failed);
        (!open && (proven || failed)).then_some((proven, records))
    })
    .await
}

/// What became of the records, in one line.
fn in_short(records: &[FenceRecord]) -> String {
    let statuses: Vec<_> = records.iter().map(|record| format!("{:?}", record.status)).collect();
    let reason = records.last().and_then(|record| record.reason.as_deref());
    format!("{} ({})", statuses.join(", "), reason.unwrap_or("no reason"))
}

/// Waits until the failure has ended, and says how.
pub(super) async fn settle_whatever(ground: &Ground) -> String {
    let (proven, records) = ended(ground).await;
    finish(ground, proven).await;
    in_short(&records)
}

/// As [`settle_whatever`], and checks that it has ended as it must after this fault at this step.
pub(super) async fn settle(ground: &Ground, fault: Fault, step: Step) -> String {
    let (proven, records) = ended(ground).await;
    let deposes = matches!(fault, Fault::Kill | Fault::Stop);
    let asked = ground.asked();
    let told = in_short(&records);
    let (last, before) = records.split_last().unwrap();
    // On a busy machine a record may be refused more than once before it comes to a send.
    assert!(before.iter().all(|record| record.status == RecordStatus::Refused), "{told}");
    assert!(proven || step == Step::Permit, "{told}");
    assert_eq!(proven, asked == 1, "{told}");
    if !deposes {
        finish(ground, proven).await;
        return told;
    }
    let made = |record: &FenceRecord| record.made_by.0.0;
    let is_adopted =
        |record: &FenceRecord| made(record) == 1 && record.adopted_by.is_some_and(|(epoch, _)| epoch.0 > 1);
    let leader_changed =
        |record: &FenceRecord| is_adopted(record) && record.reason.as_deref() == Some("leader_changed");
    match step {
        Step::Grace => assert!(records.iter().all(|record| made(record) > 1), "{records:?}"),
        Step::Intent | Step::Open => {
            // What had no permit is closed by the next leader, unread.
            let closed = before.iter().find(|record| leader_changed(record));
            assert_eq!(closed.map(|record| record.sent), Some(Some(false)), "{records:?}");
            assert!(made(last) > 1, "{records:?}");
        }
        Step::Permit => {
            // Something may have been sent; nothing was, and so nothing is proven.
            assert!(!proven && leader_changed(last), "{records:?}");
            only_read(ground, last).await;
        }
        Step::Sent | Step::Off | Step::Final => {
            assert!(is_adopted(last), "{records:?}");
            only_read(ground, last).await;
        }
        Step::Recovery => assert!(made(last) == 1 && last.adopted_by.is_none(), "{records:?}"),
    }
    finish(ground, proven).await;
    told
}

/// The one who adopted it has sent nothing.
async fn only_read(ground: &Ground, record: &FenceRecord) {
    let (_, evidence) = ground.store.fence_record(record.id).await.unwrap().unwrap();
    assert!(evidence.iter().all(|row| row.kind != "send"), "{evidence:?}");
}

/// What follows from a proof, or from a power-off that may have been sent and proved nothing.
async fn finish(ground: &Ground, proven: bool) {
    if proven {
        let marked = async || ground.entries().await.iter().any(|entry| entry == "fault").then_some(());
        until("the fault entry on its node", marked).await;
        restarted(ground).await;
    } else {
        // Within ten minutes nothing more is sent.
        let guarded = async || {
            let refusals = ground.audit("cluster.member.power_off").await;
            refusals.iter().any(|row| row.evidence.contains("powered_off_recently")).then_some(())
        };
        until("the loop guard", guarded).await;
    }
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
pub(super) async fn come_back(ground: &Ground, life: u64) {
    ground.site.heal(VICTIM).unwrap();
    until("the victim to be stored as Online", async || {
        let row = ground.victim().await.row;
        (row.online && row.incarnation.0 > life).then_some(())
    })
    .await;
    until("its fault entry to be released", async || ground.entries().await.is_empty().then_some(())).await;
}

/// What must hold after every course.
pub(super) async fn check(ground: &Ground, first_is_dead: bool) {
    let records = ground.records().await;
    each_record_ended_once(ground, &records).await;
    assert!(ground.asked() <= 1, "{} power-offs", ground.asked());
    // Nobody was seen Online between two that may have been sent.
    assert!(records.iter().filter(|record| record.sent == Some(true)).count() <= 1, "{records:?}");
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

    let living: Vec<_> = ground.workers.iter().skip(usize::from(first_is_dead)).collect();
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
    for worker in &living {
        counts_what_it_wrote(ground, worker).await;
    }
    for worker in living {
        assert_eq!(worker.end().await, Some(0), "{}", worker.name);
    }
}

/// The counter of power-offs by outcome is the number of this worker's rows in the trail. One that lost its role may not
/// know of the last that it wrote.
async fn counts_what_it_wrote(ground: &Ground, worker: &Process) {
    let address = worker.address().await;
    let asked = tokio::task::spawn_blocking(move || request(&address, "GET", "/metrics", "").1);
    let figures = asked.await.unwrap();
    let rows = ground.audit("cluster.member.power_off").await;
    for outcome in ["success", "failed", "refused"] {
        let name = format!("apelora_bmc_power_offs_total{{outcome=\"{outcome}\"}} ");
        let counted =
            figures.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_else(|| panic!("{figures}"));
        let counted: usize = counted.parse().unwrap();
        let by = format!("\"host\":\"{}\"", worker.name);
        let written = rows.iter().filter(|row| row.outcome == outcome && row.evidence.contains(&by)).count();
        let lost_its_role = !worker.with("This worker leads no more").is_empty();
        assert!(
            counted == written || lost_its_role && counted < written,
            "{} counts {counted} {outcome} and wrote {written}",
            worker.name
        );
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

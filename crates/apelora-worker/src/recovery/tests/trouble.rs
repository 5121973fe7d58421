//! What goes wrong: locked storage, members that come back, targets and clusters that go away.

use std::time::Duration;

use apelora_fencing::recovery::Step;
use apelora_lab::incus::{ApiFault, InstancePlan, Lease};

use super::lab::Lab;
use crate::notice::Notice;
use crate::shell::scripted::BmcFault;
use crate::shell::tests::rig::{MEMBERS, Rig, pass};

fn plan(name: &str, member: &str) -> InstancePlan {
    InstancePlan::new("default", name, member)
}

#[tokio::test(start_paused = true)]
async fn a_start_is_tried_until_the_storage_lets_the_dead_host_go() {
    let lease = Lease::Exclusive(Duration::from_secs(140));
    let lab = Lab::with(&[plan("db", "s3")], |plan| plan.lease = lease).await;
    let mut worker = lab.settled().await;
    lab.fence("s3").await;
    let waits = |rig: &Rig| rig.base.recoveries.lock().unwrap().iter().any(|row| row.attempts >= 3);
    lab.rig.wait(120, "failed starts", waits).await;
    let row = lab.row("default", "db");
    assert_eq!(row.step, Step::Starting);
    assert!(row.detail.contains("lvchange"), "{}", row.detail);
    pass(6).await;
    let told = lab.told("s3", "default", "db").sentence;
    assert!(told.contains("Failed attempts") && told.contains("lvchange"), "{told}");
    lab.ended(300, 1).await;
    lab.assert_restarted("default", "db", "s3");
    let row = lab.row("default", "db");
    assert!(row.detail.contains("starts that failed before") && row.detail.contains("lvchange"), "{row:?}");
    let refused = worker.told().iter().filter(|n| matches!(n, Notice::StartRefused { .. })).count();
    assert_eq!(refused, 1, "each text is told once");
    assert_eq!(lab.times("default", "db"), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_returns_while_its_storage_is_locked_ends_the_recovery_loudly() {
    let lease = Lease::Exclusive(Duration::from_secs(1_000));
    let lab =
        Lab::with(&[plan("db", "s3"), plan("local", "s3").on_pool("local")], |plan| plan.lease = lease).await;
    let mut worker = lab.settled().await;
    lab.fence("s3").await;
    lab.rig
        .wait(120, "failed starts", |rig| rig.base.recoveries.lock().unwrap().iter().any(|r| r.attempts >= 2))
        .await;
    lab.heal("s3");
    lab.ended(120, 2).await;
    pass(30).await;
    let row = lab.row("default", "db");
    assert_eq!(row.step, Step::GaveUp);
    assert!(row.detail.contains("may run on s3 still"), "{}", row.detail);
    let gave_up = worker.told().iter().find(|n| matches!(n, Notice::GaveUp { doubtful: true, .. }));
    assert!(gave_up.is_some_and(|n| n.to_string().starts_with("DANGER: ")));
    let started = lab.times("default", "db").1;
    pass(1_200).await;
    assert_eq!(lab.times("default", "db").1, started, "nothing is started any more");
    assert_eq!(lab.runs("default", "local"), ["s3"], "what stayed runs where it was");
    lab.assert_never_twice();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_returns_at_any_moment_runs_nothing_twice() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut outcomes = std::collections::BTreeMap::new();
    for delay in [0, 300, 900, 2_000] {
        let plans: Vec<_> = names.iter().map(|name| plan(name, "s3")).collect();
        let lab = Lab::with(&plans, |plan| plan.boot_time = Duration::from_secs(2)).await;
        let worker = lab.settled().await;
        lab.fence("s3").await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        lab.heal("s3");
        pass(120).await;
        lab.assert_never_twice();
        assert!(lab.rows().iter().all(|row| row.step.is_end()), "{:?}", lab.rows());
        for name in names {
            let runs = lab.runs("default", name);
            assert!(runs.len() <= 1, "{name} runs on {runs:?}");
            let gave_up = lab.rows().iter().any(|row| row.instance == name && row.step == Step::GaveUp);
            assert!(runs.len() == 1 || gave_up, "{name} is forgotten after {delay} ms: {:?}", lab.rows());
            *outcomes.entry((runs == ["s3"], gave_up)).or_insert(0) += 1;
        }
        drop(worker);
    }
    println!("(runs on s3 again, given up): times: {outcomes:?}");
    assert!(outcomes.len() >= 2, "the moments differ: {outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_person_who_was_wrong_is_told_loudly_when_the_member_is_back() {
    // Shared locks let an instance run twice, as the contract measured.
    let lab = Lab::with(&[plan("db", "s3")], |plan| plan.lease = Lease::Shared).await;
    let mut worker = lab.settled().await;
    lab.rig.machines.faults.lock().unwrap().insert("s3".into(), BmcFault::Refuses);
    lab.cluster.cut("s3").unwrap();
    pass(90).await;
    assert!(!lab.rig.is_fenced("s3") && lab.rows().is_empty(), "nothing without a proof");
    lab.person_says_off("s3");
    lab.ended(60, 1).await;
    assert_eq!(lab.runs("default", "db").len(), 2, "the person was wrong");
    lab.heal("s3");
    pass(60).await;
    let told: Vec<_> = worker
        .told()
        .iter()
        .filter(|n| matches!(n, Notice::MayRunTwice { .. }))
        .map(ToString::to_string)
        .collect();
    assert_eq!(told.len(), 1, "told once: {told:?}");
    assert!(told[0].starts_with("DANGER: s3 is back") && told[0].ends_with("default/db."), "{}", told[0]);
    assert_eq!(lab.runs("default", "db").len(), 2, "told, and never acted on");
}

#[tokio::test(start_paused = true)]
async fn a_suspend_in_the_middle_starts_nothing_on_old_knowledge() {
    let lab =
        Lab::with(&[plan("a", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(60))).await;
    let _worker = lab.settled().await;
    lab.fence("s3").await;
    lab.rig
        .wait(60, "moved", |rig| rig.base.recoveries.lock().unwrap().iter().any(|r| r.step == Step::Starting))
        .await;
    lab.rig.clock.suspend(90);
    lab.ended(240, 1).await;
    assert!(lab.rig.epoch() > 1, "the lease was lost in the suspend");
    lab.assert_restarted("default", "a", "s3");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_read_delays_and_nothing_more() {
    let lease = Lease::Exclusive(Duration::from_secs(40));
    let lab = Lab::with(&[plan("a", "s3"), plan("b", "s3")], |plan| plan.lease = lease).await;
    let _worker = lab.settled().await;
    lab.fence("s3").await;
    lab.rig
        .wait(60, "moved", |rig| rig.base.recoveries.lock().unwrap().iter().any(|r| r.step == Step::Starting))
        .await;
    for member in MEMBERS {
        lab.cluster.set_api_fault(member, Some(ApiFault::Garbage(503))).unwrap();
    }
    pass(600).await;
    assert!(lab.rows().iter().all(|row| !row.step.is_end()), "{:?}", lab.rows());
    assert!(lab.rows().iter().all(|row| row.attempts < 10), "its absence uses up no attempt");
    for member in MEMBERS {
        lab.cluster.set_api_fault(member, None).unwrap();
    }
    lab.ended(120, 2).await;
    for name in ["a", "b"] {
        lab.assert_restarted("default", name, "s3");
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_stops_everything_until_it_is_back() {
    let lab =
        Lab::with(&[plan("a", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(30))).await;
    let _worker = lab.settled().await;
    lab.fence("s3").await;
    lab.rig
        .wait(60, "moved", |rig| rig.base.recoveries.lock().unwrap().iter().any(|r| r.step == Step::Starting))
        .await;
    lab.rig.base.faults.lock().unwrap().away = true;
    pass(12).await;
    let stored = lab.rows();
    pass(300).await;
    assert_eq!((lab.rows(), lab.runs("default", "a").len()), (stored, 0), "nothing without the lease");
    lab.rig.base.faults.lock().unwrap().away = false;
    lab.ended(180, 1).await;
    lab.assert_restarted("default", "a", "s3");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_dies_is_recovered_too() {
    let lease = Lease::Exclusive(Duration::from_secs(60));
    let names = ["a", "b", "c", "d"];
    for wait in [0, 3, 90] {
        let plans: Vec<_> = names.iter().map(|name| plan(name, "s3")).collect();
        let lab = Lab::with(&plans, |plan| plan.lease = lease).await;
        let worker = lab.settled().await;
        lab.fence("s3").await;
        lab.rig.wait(60, "a plan", |rig| !rig.base.recoveries.lock().unwrap().is_empty()).await;
        pass(wait).await;
        let target = lab.row("default", "a").target.unwrap();
        lab.cluster.crash(target.as_str()).unwrap();
        let all_run = |lab: &Lab| {
            names.iter().all(|name| {
                let runs = lab.runs("default", name);
                runs.len() == 1 && !["s3", target.as_str()].contains(&runs[0].as_str())
            })
        };
        for _ in 0..600 {
            if all_run(&lab) {
                break;
            }
            pass(1).await;
        }
        assert!(all_run(&lab), "after {wait} s: {:?}", lab.rows());
        pass(60).await;
        assert!(lab.rows().iter().all(|row| row.step.is_end()), "{:?}", lab.rows());
        lab.assert_never_twice();
        drop(worker);
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_moved_by_hand_is_left() {
    let lab =
        Lab::with(&[plan("a", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(300))).await;
    let _worker = lab.settled().await;
    lab.fence("s3").await;
    lab.rig
        .wait(60, "moved", |rig| rig.base.recoveries.lock().unwrap().iter().any(|r| r.step == Step::Starting))
        .await;
    let elsewhere = if lab.row("default", "a").target.unwrap().as_str() == "s5" { "s4" } else { "s5" };
    let path = format!("/1.0/instances/a?project=default&target={elsewhere}");
    let body = serde_json::json!({"migration": true});
    lab.cluster.ask("s1", "POST", &path, Some(&body)).await.unwrap();
    lab.ended(120, 1).await;
    let row = lab.row("default", "a");
    assert!(row.step == Step::GaveUp && row.detail.contains("left to them"), "{row:?}");
    pass(400).await;
    assert_eq!(lab.runs("default", "a"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_nobody_knows_is_told_and_left() {
    let lab = Lab::new(&[plan("a", "s3"), plan("late", "s3")]).await;
    let _worker = lab.settled().await;
    // As if it had been made after the latest inventory.
    lab.rig.base.inventory.lock().unwrap().get_mut(&"s3".into()).unwrap().retain(|i| i.name != "late");
    lab.fence("s3").await;
    lab.ended(60, 2).await;
    lab.assert_restarted("default", "a", "s3");
    let row = lab.row("default", "late");
    assert!(row.step == Step::Stays && row.detail.contains("by hand"), "{row:?}");
}

//! Answers that are wrong, late or missing at the worst moment, and people who do things meanwhile.

use std::time::Duration;

use apelora_fencing::recovery::Step;
use apelora_lab::incus::{InstancePlan, Lease};

use super::lab::Lab;
use crate::notice::Notice;
use crate::shell::tests::rig::{Rig, pass};

fn plan(name: &str, member: &str) -> InstancePlan {
    InstancePlan::new("default", name, member)
}

/// A lab whose storage keeps the dead host's lease for so long, with restarts that wait for it.
async fn starting(lab: &Lab) {
    lab.fence("s3").await;
    let is = |rig: &Rig| rig.base.recoveries.lock().unwrap().iter().any(|r| r.step == Step::Starting);
    lab.rig.wait(60, "a start", is).await;
}

fn waits(told: &[Notice]) -> Vec<String> {
    told.iter().filter(|n| matches!(n, Notice::RecoveryWaits { .. })).map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn pools_that_cannot_be_read_for_a_moment_make_no_volume_local() {
    let lab = Lab::new(&[plan("db", "s3")]).await;
    let _worker = lab.settled().await;
    lab.cluster.set_failing_path(Some("storage-pools"));
    pass(130).await;
    lab.fence("s3").await;
    lab.ended(60, 1).await;
    lab.assert_restarted("default", "db", "s3");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_removed_in_the_middle_leaves_nobody_in_the_dark() {
    let lab =
        Lab::with(&[plan("db", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(100))).await;
    let mut worker = lab.settled().await;
    starting(&lab).await;
    lab.cluster.remove("s3").unwrap();
    pass(300).await;
    let told = waits(worker.told());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("1 instances that s3 ran") && told[0].contains("not list s3 any more"),
        "{}",
        told[0]
    );
    assert_eq!((lab.row("default", "db").step, lab.runs("default", "db").len()), (Step::Starting, 0));
}

#[tokio::test(start_paused = true)]
async fn healing_that_is_switched_on_in_the_middle_is_told_and_waited_out() {
    let lab =
        Lab::with(&[plan("db", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(60))).await;
    let mut worker = lab.settled().await;
    starting(&lab).await;
    lab.cluster.set_healing_threshold(Some(30));
    pass(300).await;
    let told = waits(worker.told());
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("cluster.healing_threshold=0"), "{}", told[0]);
    assert_eq!(lab.runs("default", "db").len(), 0);
    lab.cluster.set_healing_threshold(None);
    lab.ended(60, 1).await;
    lab.assert_restarted("default", "db", "s3");
}

#[tokio::test(start_paused = true)]
async fn what_goes_on_from_a_second_dead_member_is_not_called_left_to_somebody() {
    let lab =
        Lab::with(&[plan("db", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(90))).await;
    let mut worker = lab.settled().await;
    starting(&lab).await;
    let target = lab.row("default", "db").target.unwrap();
    lab.fence(target.as_str()).await;
    lab.ended(300, 2).await;
    pass(30).await;
    assert_eq!(lab.runs("default", "db").len(), 1);
    let told: Vec<_> =
        worker.told().iter().filter(|n| n.word() == "gave_up").map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("failed too; its restart goes on from there"), "{}", told[0]);
    lab.assert_never_twice();
}

#[tokio::test(start_paused = true)]
async fn what_had_no_place_and_was_moved_by_hand_ends() {
    let lab = Lab::new(&[plan("huge", "s3").memory(1 << 20)]).await;
    let mut worker = lab.settled().await;
    lab.fence("s3").await;
    lab.rig.wait(60, "a row", |rig| !rig.base.recoveries.lock().unwrap().is_empty()).await;
    pass(20).await;
    assert_eq!(lab.row("default", "huge").step, Step::Planned);
    let body = serde_json::json!({"migration": true});
    let path = "/1.0/instances/huge?project=default&target=s4";
    lab.cluster.ask("s1", "POST", path, Some(&body)).await.unwrap();
    lab.ended(120, 1).await;
    let row = lab.row("default", "huge");
    assert!(row.step == Step::GaveUp && row.detail.contains("somebody moved it to s4"), "{row:?}");
    assert!(worker.words().contains(&"recovered"));
}

/// Incus asks for shared locks, so the storage stops nobody, and the others list a member that boots as Offline until the next
/// round of heartbeats, while it has started its instances long since.
#[tokio::test(start_paused = true)]
async fn a_member_that_boots_and_is_still_listed_offline_runs_nothing_twice() {
    let names: Vec<_> = (0..24).map(|number| format!("i{number:02}")).collect();
    let mut outcomes = std::collections::BTreeMap::new();
    for delay in (0..4_000).step_by(800) {
        let plans: Vec<_> = names.iter().map(|name| plan(name, "s3").memory(64)).collect();
        let lab = Lab::with(&plans, |plan| {
            plan.boot_time = Duration::from_secs(1);
            plan.lease = Lease::Shared;
        })
        .await;
        let _worker = lab.settled().await;
        lab.fence("s3").await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        lab.heal("s3");
        pass(120).await;
        lab.assert_never_twice();
        for name in &names {
            let runs = lab.runs("default", name);
            let gave_up = lab.rows().iter().any(|row| row.instance == *name && row.step == Step::GaveUp);
            assert!(runs.len() == 1 || gave_up, "{name} is forgotten after {delay} ms: {:?}", lab.rows());
            *outcomes.entry((runs == ["s3"], gave_up)).or_insert(0) += 1;
        }
    }
    println!("(runs on s3 again, given up): times: {outcomes:?}");
}

/// It boots, is seen by the worker, and is gone again before anybody lists it as Online.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_back_for_a_moment_holds_its_restarts_until_a_person_says_that_it_is_off() {
    let mut held = 0;
    for delay in (0..5_000).step_by(1_000) {
        let lab = Lab::with(&[plan("db", "s3"), plan("web", "s3")], |plan| {
            plan.boot_time = Duration::from_secs(1);
            plan.lease = Lease::Exclusive(Duration::from_secs(30));
        })
        .await;
        let mut worker = lab.settled().await;
        starting(&lab).await;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        lab.heal("s3");
        let mut answered = false;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            answered |= waits(worker.told()).iter().any(|told| told.contains("answers at its own address"));
            if answered {
                break;
            }
        }
        lab.cluster.cut_off("s3").unwrap();
        pass(300).await;
        lab.assert_never_twice();
        // Nobody asked it in that time, or it was listed as Online all the same.
        if !answered || lab.rows().iter().any(|row| row.step == Step::GaveUp) {
            continue;
        }
        held += 1;
        let told = waits(worker.told());
        assert!(told.iter().any(|told| told.contains("was seen alive after it was proven off")), "{told:?}");
        // What had its start behind it runs; nothing else does.
        let open: Vec<_> = lab.rows().into_iter().filter(|row| row.step != Step::Done).collect();
        assert!(!open.is_empty() && open.iter().all(|row| row.step < Step::Done), "{open:?}");
        for row in &open {
            assert_eq!(lab.runs("default", &row.instance).len(), 0, "{row:?}");
        }

        // Somebody pulls its cables, and says so.
        lab.cluster.lose_power("s3").unwrap();
        lab.person_says_off("s3");
        lab.ended(120, 2).await;
        for name in ["db", "web"] {
            lab.assert_restarted("default", name, "s3");
        }
        lab.assert_never_twice();
    }
    assert!(held > 0, "nobody asked it in the moment that it was back");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_tells_nothing_of_its_instances_is_told_of_by_day() {
    let lab = Lab::new(&[plan("db", "s3")]).await;
    let mut worker = lab.settled().await;
    lab.cluster.set_mute("s3", true).unwrap();
    pass(250).await;
    let told: Vec<_> = worker.told().iter().filter(|n| n.word() == "instances_unreadable").collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains("s3 is Online and does not tell"), "{}", told[0]);
    lab.cluster.set_mute("s3", false).unwrap();
    pass(70).await;
    assert!(worker.words().contains(&"instances_readable"));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_back_and_evacuated_is_left_and_told_of() {
    let lab =
        Lab::with(&[plan("db", "s3")], |plan| plan.lease = Lease::Exclusive(Duration::from_secs(600))).await;
    let first = lab.settled().await;
    starting(&lab).await;
    let _ = first.kill().await;
    // Nobody looks while it returns and is evacuated.
    lab.heal("s3");
    pass(60).await;
    lab.cluster.set_status("s3", Some("Evacuated")).unwrap();
    let started = lab.times("default", "db").1;
    let mut worker = lab.worker();
    pass(200).await;
    assert_eq!(lab.times("default", "db").1, started, "nothing is started for a member that may be back");
    let told = waits(worker.told());
    assert!(told.len() == 1 && told[0].contains("s3 as Evacuated"), "{told:?}");
    lab.cluster.set_status("s3", None).unwrap();
    lab.ended(60, 1).await;
    assert_eq!(lab.row("default", "db").step, Step::GaveUp);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_the_certificate_does_not_show_any_more_is_told_of() {
    let plans = [InstancePlan::new("team", "db", "s3")];
    let lab = Lab::with(&plans, |plan| plan.lease = Lease::Exclusive(Duration::from_secs(600))).await;
    let mut worker = lab.settled().await;
    starting(&lab).await;
    lab.restrict(&["default"]);
    pass(200).await;
    let row = lab.row("team", "db");
    assert!(row.step == Step::Starting && row.detail.contains("restricted"), "{row:?}");
    // The start that was under way may have been refused, and told, before.
    let told: Vec<_> = worker.told().iter().map(ToString::to_string).collect();
    let unread =
        |line: &&String| line.contains("GET /1.0/instances") && line.contains("certificate is restricted");
    assert_eq!(told.iter().filter(unread).count(), 1, "{told:?}");
}

//! What goes well: moved, started, left, and told.

use apelora_fencing::MemberName;
use apelora_fencing::recovery::Step;
use apelora_fencing::restart::Stays;
use apelora_lab::incus::InstancePlan;

use super::lab::Lab;
use crate::notice::Notice;
use crate::shell::tests::rig::pass;

fn plan(name: &str, member: &str) -> InstancePlan {
    InstancePlan::new("default", name, member)
}

#[tokio::test(start_paused = true)]
async fn what_a_crashed_member_ran_runs_elsewhere_exactly_once() {
    let lab = Lab::new(&[plan("db", "s3"), plan("web", "s3"), plan("other", "s1")]).await;
    let mut worker = lab.settled().await;
    pass(35).await;
    let beforehand = lab.told("s3", "default", "db");
    assert_eq!(beforehand.plan, "restart");
    assert!(beforehand.target.is_some_and(|target| target.as_str() != "s3"));
    assert!(beforehand.sentence.starts_with("It would be moved to "), "{}", beforehand.sentence);
    lab.fence("s3").await;
    assert_eq!(lab.runs("default", "db"), [""; 0]);
    lab.ended(60, 2).await;
    for name in ["db", "web"] {
        lab.assert_restarted("default", name, "s3");
        assert_eq!(lab.times("default", name), (1, 1));
    }
    assert_eq!(lab.runs("default", "other"), ["s1"]);
    assert_eq!(lab.rows().len(), 2);
    let targets = [lab.row("default", "db").target, lab.row("default", "web").target];
    assert_ne!(targets[0], targets[1], "spread");
    pass(11).await;
    let afterwards = lab.told("s3", "default", "db");
    assert!(afterwards.sentence.starts_with("It runs on s"), "{}", afterwards.sentence);
    let words = worker.words();
    let order = ["fenced", "moved", "started", "recovered"];
    let places: Vec<_> = order.iter().map(|w| words.iter().position(|x| x == w).expect(w)).collect();
    assert!(places.is_sorted(), "{words:?}");
    let recovered = Notice::Recovered { member: "s3".into(), restarted: 2, moved: 0, stayed: 0, gave_up: 0 };
    assert_eq!(worker.told().iter().filter(|n| **n == recovered).count(), 1);
    assert_eq!(worker.figure("apelora_recovery_instances_total{outcome=\"restarted\"}"), 2);
    assert_eq!(worker.figure("apelora_recovery_restart_duration_seconds_count"), 2);
    // It goes on for long, and nothing more happens.
    pass(400).await;
    assert_eq!((lab.rows().len(), lab.times("default", "db")), (2, (1, 1)));
    assert!(!worker.words().contains(&"gave_up"));
}

#[tokio::test(start_paused = true)]
async fn what_is_tied_to_its_server_stays_and_says_why() {
    let lab = Lab::new(&[
        plan("local", "s3").on_pool("local"),
        plan("key", "s3").with_local_device(),
        plan("short", "s3").ephemeral(),
        plan("stop", "s3").evacuate("stop"),
        plan("saved", "s3").with_backup(),
        plan("huge", "s3").memory(1 << 20),
        plan("quiet", "s3").autostart(false),
        plan("idle", "s3").stopped(),
        plan("eager", "s3").stopped().autostart(true),
    ])
    .await;
    let mut worker = lab.settled().await;
    lab.fence("s3").await;
    lab.ended(60, 8).await;
    for (name, stays) in [
        ("local", Stays::LocalStorage),
        ("key", Stays::LocalDevice),
        ("short", Stays::Ephemeral),
        ("stop", Stays::Evacuate),
        ("saved", Stays::Backups),
    ] {
        let row = lab.row("default", name);
        assert_eq!((row.step, row.target), (Step::Stays, None), "{name}");
        assert_eq!(row.detail, stays.sentence());
        assert_eq!(lab.cluster.location("default", name).as_deref(), Some("s3"));
    }
    for name in ["quiet", "idle"] {
        let row = lab.row("default", name);
        assert_eq!((row.step, row.start), (Step::Done, false), "{name}");
        assert_eq!(lab.runs("default", name), [""; 0]);
        assert_eq!(
            lab.cluster.location("default", name).as_deref(),
            row.target.as_ref().map(MemberName::as_str)
        );
    }
    lab.assert_restarted("default", "eager", "s3");
    let huge = lab.row("default", "huge");
    assert_eq!(
        (huge.step, huge.target, huge.detail.as_str()),
        (Step::Planned, None, Stays::NoRoom.sentence())
    );
    pass(15).await;
    assert!(lab.told("s3", "default", "huge").sentence.contains("enough free memory"));
    let noted = lab.rig.base.noted.lock().unwrap().clone();
    for name in ["local", "huge"] {
        assert_eq!(noted.iter().filter(|row| row.instance == name).count(), 1, "{name} is stored once");
    }
    assert_eq!(worker.figure("apelora_recovery_instances_total{outcome=\"stayed\"}"), 5);
    assert_eq!(worker.words().iter().filter(|w| **w == "stays").count(), 5);
    assert!(!worker.words().contains(&"recovered"), "one has no place yet");
}

#[tokio::test(start_paused = true)]
async fn projects_and_odd_names_are_kept_apart() {
    let odd = ["a-b.c", "x", "UPPER-case-0", "n0-0"];
    let mut instances: Vec<_> = odd.iter().map(|name| plan(name, "s3")).collect();
    instances
        .extend(["team a", "tëam&b?c=d", "p%2f..#"].map(|project| InstancePlan::new(project, "x", "s3")));
    let lab = Lab::new(&instances).await;
    let _worker = lab.settled().await;
    lab.fence("s3").await;
    lab.ended(120, instances.len()).await;
    for instance in &instances {
        lab.assert_restarted(&instance.project, &instance.name, "s3");
    }
}

#[tokio::test(start_paused = true)]
async fn members_in_maintenance_get_nothing() {
    let lab = Lab::new(&[plan("a", "s3"), plan("b", "s3"), plan("c", "s3"), plan("d", "s3")]).await;
    let maintained = ["s1", "s2", "s5"].map(Into::into);
    *lab.rig.base.in_maintenance.lock().unwrap() = maintained.into();
    let _worker = lab.settled().await;
    lab.fence("s3").await;
    lab.ended(60, 4).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(lab.runs("default", name), ["s4"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_plans_and_touches_nothing() {
    let lab = Lab::new(&[plan("a", "s3")]).await;
    let _worker = lab.rig.start_through(|outside| {
        outside.cluster = lab.endpoints();
        outside.config.dry_run = true;
    });
    pass(40).await;
    lab.cluster.lose_power("s3").unwrap();
    pass(60).await;
    lab.person_says_off("s3");
    pass(120).await;
    assert_eq!((lab.rows().len(), lab.times("default", "a")), (0, (0, 0)));
    assert_eq!(lab.told("s3", "default", "a").plan, "restart");
}

#[tokio::test(start_paused = true)]
async fn two_hundred_instances_a_few_at_a_time() {
    let names: Vec<_> = (0..200).map(|n| format!("i{n:03}")).collect();
    let plans: Vec<_> = names.iter().map(|name| plan(name, "s3").memory(64)).collect();
    let lab = Lab::new(&plans).await;
    let worker = lab.settled().await;
    lab.fence("s3").await;
    let began = tokio::time::Instant::now();
    lab.ended(1_800, 200).await;
    let took = began.elapsed();
    println!("200 instances restarted in {:.1} s of virtual time", took.as_secs_f64());
    for name in &names {
        lab.assert_restarted("default", name, "s3");
        assert_eq!(lab.times("default", name), (1, 1), "{name}");
    }
    let noted = lab.rig.base.noted.lock().unwrap().clone();
    let mut busy = std::collections::BTreeSet::new();
    let mut most = 0;
    for row in &noted {
        match row.step {
            Step::Moving => drop(busy.insert(row.instance.clone())),
            Step::Done => drop(busy.remove(&row.instance)),
            _ => {}
        }
        most = most.max(busy.len());
    }
    assert!((2..=4).contains(&most), "{most} at once");
    drop(worker);
}

//! What goes well: leading, fencing, returning, stopping.

use apelora_fencing::MemberName;
use apelora_fencing::recovery::Permission;
use apelora_fencing::status::MapCondition;
use apelora_fencing::view::Status;
use apelora_fencing::write::Outcome;

use super::rig::{Rig, map, pass};
use crate::bmc_map::LoadedMap;
use crate::shell::Maps;

#[tokio::test(start_paused = true)]
async fn a_failed_member_is_switched_off_once_and_proven_off() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    assert_eq!(worker.outside.health.ready(worker.outside.clock.boot()), Ok("leading, epoch 1".into()));
    rig.fail("s3");
    pass(60).await;
    assert!(rig.is_fenced("s3"));
    assert_eq!((rig.sends(), rig.open_records(), rig.epoch()), (1, 0, 1));
    let words = worker.words();
    let order = ["elected", "grace", "intent", "permitted", "sent", "ended", "fenced"];
    let places: Vec<_> = order.iter().map(|w| words.iter().position(|x| x == w).expect(w)).collect();
    assert!(places.is_sorted(), "{words:?}");
    worker.assert_figures_match(&rig);
    assert_eq!(rig.audited(Outcome::Success), 1);
    assert_eq!(worker.figure("apelora_fence_proofs_total{kind=\"power-off\"}"), 1);
    assert_eq!(worker.figure("apelora_bmc_power_off_duration_seconds_count"), 1);
    assert_eq!(worker.figure("apelora_supervisor_leader"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_status_row_tells_every_member_every_guard_and_the_map() {
    let rig = Rig::new();
    let worker = rig.start();
    pass(12).await;
    let early = rig.status();
    assert_eq!((early.worker.as_str(), early.map.condition), ("worker", MapCondition::Valid));
    assert_eq!(early.members.len(), 5);
    assert!(early.members.iter().all(|m| m.guards.len() == 20 && m.action == "refuse"));
    assert_eq!(early.pass.as_ref().and_then(|p| p.responder.as_ref()).map(MemberName::as_str), Some("s1"));
    assert_eq!(early.pass.and_then(|p| p.second).map(|m| m.as_str().to_owned()).as_deref(), Some("s2"));
    let quiet = rig.base.statuses.lock().unwrap().len();
    pass(100).await;
    let published = rig.base.statuses.lock().unwrap().len() - quiet;
    assert!((8..=25).contains(&published), "every 10 s and at news, but {published} in 100 s");
    assert!(rig.status().members.iter().all(|m| m.check.is_some()), "the drill reads every BMC");
    rig.fail("s3");
    pass(70).await;
    let row = rig.status();
    let s3 = row.members.iter().find(|m| m.member.as_str() == "s3").unwrap();
    assert!(s3.guards.iter().any(|g| g.reason.as_deref() == Some("already_fenced")), "{s3:?}");
    drop(worker);
}

#[tokio::test(start_paused = true)]
async fn a_returned_member_is_told_and_its_restarts_end() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    pass(60).await;
    assert!(rig.is_fenced("s3"));
    rig.heal("s3");
    pass(15).await;
    assert!(!rig.is_fenced("s3"));
    assert!(worker.words().contains(&"returned"));
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_persons_word_is_told_once() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    pass(10).await;
    {
        let now = worker.outside.clock.boot().since_boot();
        let mut store = rig.base.store.lock().unwrap();
        let shown = store.members[&"s3".into()].incarnation;
        store.confirm_off(now, &"s3".into(), shown).unwrap();
    }
    pass(60).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3")), (0, true));
    let told =
        worker.told().iter().filter(|n| n.to_string().contains("proven off by a person's word")).count();
    assert_eq!(told, 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopped_lets_the_lease_go() {
    let rig = Rig::new();
    let mut first = rig.start();
    pass(10).await;
    let second = rig.start();
    pass(10).await;
    assert_eq!(second.outside.health.ready(second.outside.clock.boot()), Ok("following".into()));
    first.stop.send_replace(true);
    pass(6).await;
    assert!(first.life.is_finished());
    assert_eq!(first.words().last(), Some(&"stepped_down"));
    assert_eq!(rig.epoch(), 2, "the second one leads without waiting for the lease's end");
    assert_eq!(first.figure("apelora_supervisor_leader"), 0);
    assert_eq!(second.figure("apelora_supervisor_leader"), 1);
    assert_eq!(second.figure("apelora_supervisor_lease_epoch"), 2);
}

#[tokio::test(start_paused = true)]
async fn dry_run_stops_before_the_permit() {
    let rig = Rig::new();
    let mut worker = rig.start_through(|outside| outside.config.dry_run = true);
    pass(20).await;
    rig.fail("s3");
    pass(120).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3")), (0, false));
    let words = worker.words();
    assert!(words.contains(&"intent") && !words.contains(&"permitted"), "{words:?}");
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_map_switches_nothing_off_and_says_why() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    let set = |loaded: LoadedMap| match &worker.outside.map {
        Maps::Scripted(map) => *map.lock().unwrap() = loaded,
        Maps::File(_) => unreachable!(),
    };
    let invalid = apelora_fencing::map::MapState::Invalid;
    set(LoadedMap { state: invalid, problem: Some("member `s1` is odd".into()), warnings: vec![] });
    rig.fail("s3");
    pass(90).await;
    assert_eq!(rig.sends(), 0);
    assert_eq!(worker.figure("apelora_fence_mapping_valid"), 0);
    assert_eq!(rig.status().map.problem.as_deref(), Some("member `s1` is odd"));
    set(map(&["s1", "s2", "s3", "s4", "s5"]));
    pass(30).await;
    assert!(rig.is_fenced("s3"));
    assert!(worker.words().contains(&"map_invalid"));
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn the_member_that_the_worker_runs_on_is_never_its_own_victim() {
    let rig = Rig::new();
    *rig.site.hangs.lock().unwrap() = true;
    let mut worker = rig.start();
    pass(20).await;
    *rig.site.own_host.lock().unwrap() = Some("s3".into());
    *rig.site.hangs.lock().unwrap() = false;
    pass(30).await;
    assert!(worker.words().contains(&"own_host"), "learnt from the first list");
    let epoch = rig.epoch();
    rig.fail("s3");
    pass(120).await;
    assert_eq!((rig.sends(), rig.epoch()), (0, epoch), "it steps down and does not campaign");
    let ready = worker.outside.health.ready(worker.outside.clock.boot());
    assert!(ready.is_err_and(|why| why.contains("Offline")));
    rig.site.set("s3", Status::Online);
    pass(20).await;
    assert_eq!(rig.epoch(), epoch + 1, "it campaigns again");
    assert!(
        worker.told().iter().any(|n| n.to_string().contains("reports the host that it runs on as Offline"))
    );
}

#[tokio::test(start_paused = true)]
async fn restarts_are_permitted_by_the_loop_alone() {
    let rig = Rig::new();
    let worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    pass(60).await;
    assert!(rig.is_fenced("s3"));
    let stored = rig.base.store.lock().unwrap().read(std::time::Duration::ZERO);
    let incarnation = stored.members[&"s3".into()].incarnation;
    // Nobody answers any more.
    let (answers, heard) = crate::shell::Answers::channel();
    drop(heard);
    assert_eq!(answers.may_recover(&"s3".into(), incarnation).await, Permission::NotNow);
    drop(worker);
}

//! What goes wrong: nothing is sent that should not be, nothing is lost, and nobody has to restart anything.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use apelora_fencing::HolderId;
use apelora_fencing::view::Status;
use apelora_fencing::write::Outcome;
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use super::rig::{Rig, Running, pass};
use crate::shell::lead::Lead;
use crate::shell::scripted::BmcFault;
use crate::shell::story::Story;

#[tokio::test(start_paused = true)]
async fn a_suspend_ends_the_leadership_and_starts_every_series_again() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    // The grace is nearly over when the machine is suspended.
    pass(27).await;
    rig.clock.suspend(90);
    pass(2).await;
    let words = worker.words();
    assert!(words.contains(&"stepped_down"), "noticed within a second or two: {words:?}");
    pass(28).await;
    assert_eq!(rig.sends(), 0, "the series starts again with the new leadership");
    pass(40).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3"), rig.epoch()), (1, true, 2));
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_suspend_in_the_middle_of_a_power_off_leaves_a_record_that_is_read_to_its_end() {
    let rig = Rig::new();
    rig.machines.faults.lock().unwrap().insert("s3".into(), BmcFault::HangsAtSend);
    let mut worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    rig.wait(120, "a send", |rig| rig.sends() == 1).await;
    rig.clock.suspend(90);
    rig.machines.faults.lock().unwrap().clear();
    pass(120).await;
    assert!(worker.words().contains(&"adopted"));
    assert_eq!((rig.sends(), rig.open_records()), (1, 0), "adopted by reading only");
    assert_eq!(rig.audited(Outcome::Failed), 1);
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_databases_clock_costs_the_lease_and_nothing_else() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    pass(20).await;
    rig.base.ahead_secs.fetch_add(3_600, Ordering::Relaxed);
    pass(25).await;
    assert_eq!(rig.sends(), 0, "the series starts again with the new leadership");
    assert!(worker.words().contains(&"stepped_down"));
    pass(60).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3"), rig.epoch()), (1, true, 2));
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_answers_late_or_never_stops_everything_until_it_is_well() {
    for delay in [10, 3_600] {
        let rig = Rig::new();
        let mut worker = rig.start();
        pass(20).await;
        rig.fail("s3");
        pass(10).await;
        rig.base.faults.lock().unwrap().delay = Duration::from_secs(delay);
        pass(120).await;
        assert_eq!((rig.sends(), rig.is_fenced("s3")), (0, false));
        let words = worker.words();
        assert!(words.contains(&"stepped_down") && words.contains(&"store_unreadable"), "{words:?}");
        let ready = worker.outside.health.ready(worker.outside.clock.boot());
        assert!(ready.is_err_and(|why| why.contains("database")));
        rig.base.faults.lock().unwrap().delay = Duration::ZERO;
        pass(100).await;
        assert_eq!((rig.sends(), rig.is_fenced("s3")), (1, true), "{delay}");
        worker.assert_figures_match(&rig);
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_goes_silent_in_the_middle_of_a_power_off_costs_no_second_one() {
    let rig = Rig::new();
    let worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    rig.wait(120, "a send", |rig| rig.sends() == 1).await;
    // The final commit gets no answer, and neither does anything else.
    rig.base.faults.lock().unwrap().delay = Duration::from_secs(3_600);
    pass(60).await;
    rig.base.faults.lock().unwrap().delay = Duration::ZERO;
    pass(100).await;
    assert_eq!(
        (rig.sends(), rig.open_records(), rig.is_fenced("s3")),
        (1, 0, true),
        "adopted and read to its end"
    );
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_gone_between_send_and_end_loses_nothing() {
    let rig = Rig::new();
    let worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    rig.wait(120, "a send", |rig| rig.sends() == 1).await;
    rig.base.faults.lock().unwrap().away = true;
    pass(12).await;
    assert!(!rig.is_fenced("s3"), "nobody is fenced by what is not written");
    rig.base.faults.lock().unwrap().away = false;
    pass(15).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3"), rig.epoch()), (1, true, 1), "held in memory, then written");
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn lost_answers_are_read_back_before_anything_else() {
    for lost in 1..=4 {
        let rig = Rig::new();
        let worker = rig.start();
        pass(20).await;
        rig.base.faults.lock().unwrap().lose_answers = lost;
        rig.fail("s3");
        pass(200).await;
        assert_eq!(rig.open_records(), 0, "{lost} lost");
        assert!(rig.sends() <= 1, "{lost} lost");
        drop(worker);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_alone_is_given_up_and_read_back() {
    for hangs in 1..=3 {
        let rig = Rig::new();
        let worker = rig.start();
        pass(20).await;
        rig.base.faults.lock().unwrap().hang_writes = hangs;
        rig.fail("s3");
        pass(200).await;
        assert_eq!((rig.open_records(), rig.epoch()), (0, 1), "{hangs}: the lease is renewed meanwhile");
        assert_eq!((rig.sends(), rig.is_fenced("s3")), (1, true), "{hangs}: decided again");
        worker.assert_figures_match(&rig);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_hangs_is_no_reason_to_act_and_none_to_leave() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    pass(20).await;
    *rig.site.hangs.lock().unwrap() = true;
    pass(100).await;
    assert_eq!((rig.sends(), rig.epoch()), (0, 1), "it leads on and waits");
    assert!(worker.words().contains(&"cluster_unreadable"));
    *rig.site.hangs.lock().unwrap() = false;
    pass(25).await;
    assert_eq!(rig.sends(), 0, "the series was broken");
    pass(45).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3"), rig.epoch()), (1, true, 1));
    worker.assert_figures_match(&rig);
}

#[tokio::test(start_paused = true)]
async fn a_second_view_that_contradicts_refuses_whatever_is_attested() {
    for attested in [false, true] {
        let rig = Rig::new();
        *rig.site.second_says.lock().unwrap() = Some(("s3".into(), Status::Online));
        let worker = rig.start_through(|outside| outside.config.incus.single_view = attested);
        pass(20).await;
        rig.fail("s3");
        pass(90).await;
        assert_eq!((rig.sends(), rig.is_fenced("s3")), (0, false), "{attested}");
        *rig.site.second_says.lock().unwrap() = None;
        pass(40).await;
        assert_eq!((rig.sends(), rig.is_fenced("s3")), (1, true), "{attested}");
        worker.assert_figures_match(&rig);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_bmc_delays_neither_looks_nor_renewals_nor_the_next_victim() {
    for fault in [BmcFault::HangsAtOpen, BmcFault::HangsAtRead, BmcFault::HangsAtSend, BmcFault::Refuses] {
        let rig = Rig::new();
        rig.machines.faults.lock().unwrap().insert("s3".into(), fault);
        let worker = rig.start();
        pass(20).await;
        let (looks, renewals) =
            (rig.site.looks.load(Ordering::Relaxed), rig.base.renewals.load(Ordering::Relaxed));
        rig.fail("s3");
        rig.fail("s4");
        pass(200).await;
        let looked = rig.site.looks.load(Ordering::Relaxed) - looks;
        let renewed = rig.base.renewals.load(Ordering::Relaxed) - renewals;
        assert!(looked >= 38, "{fault:?}: a pass every 5 s, but {looked} in 200 s");
        assert!(renewed >= 18, "{fault:?}: a renewal every 10 s, but {renewed} in 200 s");
        assert!(rig.is_fenced("s4") && !rig.is_fenced("s3"), "{fault:?}");
        assert_eq!(rig.epoch(), 1, "{fault:?}");
        let to_s3 = rig.machines.sends.lock().unwrap().iter().filter(|(_, m)| m.as_str() == "s3").count();
        assert_eq!(to_s3, usize::from(fault == BmcFault::HangsAtSend), "{fault:?}");
        worker.assert_figures_match(&rig);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_move_loses_the_lease() {
    let rig = Rig::new();
    let (outside, _heard) = rig.outside(|_| {});
    let holder = HolderId(Uuid::from_u128(77));
    let term = outside.database.campaign(holder, Arc::clone(&outside.clock)).await.unwrap().unwrap();
    let (_stop, mut stopped) = watch::channel(false);
    let lead = Lead::new(Arc::clone(&outside), term, holder, None, Story::default());
    let mut led = pin!(lead.run(&mut stopped));
    assert!(timeout(Duration::from_secs(60), &mut led).await.is_err(), "it leads");
    assert!(rig.base.renewals.load(Ordering::Relaxed) >= 5);
    // From here on nobody drives the loop, while its renewal task runs.
    pass(60).await;
    let lease = rig.base.store.lock().unwrap().lease;
    assert!(
        lease.expires_at < outside.clock.boot().since_boot(),
        "the lease ends although somebody could renew it"
    );
    assert!(outside.metrics.text().contains("apelora_supervisor_lease_renewals_total{result=\"withheld\"}"));
    // It wakes up and finds that its time is over.
    let left = timeout(Duration::from_secs(10), &mut led).await.expect("it leaves");
    assert_eq!(left.why.to_string(), "its lease could not be renewed in time");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_ends_the_leadership_and_the_next_one_finishes() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(20).await;
    rig.base.faults.lock().unwrap().panic_at_permit = true;
    rig.fail("s3");
    rig.wait(120, "an intent", |rig| rig.open_records() == 1).await;
    pass(5).await;
    rig.base.faults.lock().unwrap().panic_at_permit = false;
    pass(100).await;
    assert_eq!(
        (rig.sends(), rig.open_records()),
        (0, 0),
        "a permit that may have been used is not used again"
    );
    assert!(rig.epoch() > 1);
    let words = worker.words();
    assert!(words.contains(&"adopted") && words.contains(&"ended"), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn a_killed_leaders_record_is_adopted_by_reading() {
    let rig = Rig::new();
    rig.machines.faults.lock().unwrap().insert("s3".into(), BmcFault::HangsAtSend);
    let first = rig.start();
    pass(20).await;
    let mut second = rig.start();
    rig.fail("s3");
    rig.wait(120, "a send", |rig| rig.sends() == 1).await;
    let _ = first.kill().await;
    rig.machines.faults.lock().unwrap().clear();
    rig.machines.power.lock().unwrap().insert("s3".into(), apelora_fencing::proof::PowerWord::Off);
    pass(90).await;
    assert_eq!((rig.sends(), rig.is_fenced("s3"), rig.epoch()), (1, true, 2));
    assert!(second.words().contains(&"adopted"));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_returns_while_the_request_is_on_its_way_is_recorded_as_sent_to() {
    let rig = Rig::new();
    rig.machines.faults.lock().unwrap().insert("s3".into(), BmcFault::HangsAtSend);
    let worker = rig.start();
    pass(20).await;
    rig.fail("s3");
    rig.wait(120, "a send", |rig| rig.sends() == 1).await;
    rig.heal("s3");
    pass(120).await;
    let audit = rig.base.audit.lock().unwrap().clone();
    let ends: Vec<_> = audit.iter().filter(|r| r.outcome.is_some() && r.record.is_some()).collect();
    assert!(matches!(&ends[..], [end] if end.sent && end.outcome == Some(Outcome::Failed)), "{ends:?}");
    assert!(!rig.is_fenced("s3"));
    worker.assert_figures_match(&rig);
}

/// What would not be restarted in the night must be known by day.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_tell_what_runs_where_is_told_once_and_when_it_does_again() {
    let rig = Rig::new();
    let mut worker = rig.start();
    pass(100).await;
    *rig.site.hides_instances.lock().unwrap() = true;
    pass(125).await;
    assert!(!worker.words().contains(&"instances_unreadable"), "one or two failures are a member that dies");
    pass(1_000).await;
    let count = |worker: &mut Running, word| worker.words().iter().filter(|w| **w == word).count();
    assert_eq!(count(&mut worker, "instances_unreadable"), 1);
    assert_eq!(count(&mut worker, "instances_readable"), 0);
    let told = worker.told().iter().find(|n| n.word() == "instances_unreadable").unwrap().to_string();
    assert!(told.contains("too large") && told.contains("is not restarted"), "{told}");
    *rig.site.hides_instances.lock().unwrap() = false;
    pass(100).await;
    assert_eq!(count(&mut worker, "instances_readable"), 1);
    assert_eq!(rig.epoch(), 1);
}

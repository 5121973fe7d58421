//! A leader that is killed in the middle of a recovery, and another one that finishes it.

use std::time::Duration;

use apelora_lab::incus::{InstancePlan, Lease};

use super::lab::Lab;
use crate::shell::tests::rig::pass;

const NAMES: [&str; 2] = ["a", "b"];

async fn lab() -> Lab {
    let plans: Vec<_> = NAMES.iter().map(|name| InstancePlan::new("default", name, "s3")).collect();
    Lab::with(&plans, |plan| plan.lease = Lease::Exclusive(Duration::from_secs(8))).await
}

async fn finished(lab: &Lab) {
    lab.ended(240, NAMES.len()).await;
    for name in NAMES {
        lab.assert_restarted("default", name, "s3");
        assert_eq!(lab.times("default", name), (1, 1), "{name}: moved once, started once");
    }
}

/// After each row that is stored.
#[tokio::test(start_paused = true)]
async fn killed_after_each_stored_step() {
    let whole = lab().await;
    let worker = whole.settled().await;
    whole.fence("s3").await;
    finished(&whole).await;
    let steps = whole.rig.base.noted.lock().unwrap().len();
    drop(worker);
    println!("{steps} stored steps");
    for step in 1..=steps {
        let lab = lab().await;
        let first = lab.settled().await;
        let second = lab.worker();
        lab.cluster.crash("s3").unwrap();
        while lab.rig.base.noted.lock().unwrap().len() < step {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let _ = first.kill().await;
        finished(&lab).await;
        drop(second);
    }
}

/// At moments in between: while a move or a start is on its way.
#[tokio::test(start_paused = true)]
async fn killed_at_any_moment() {
    for moment in 0..8 {
        let lab = lab().await;
        let first = lab.settled().await;
        let second = lab.worker();
        lab.fence("s3").await;
        tokio::time::sleep(Duration::from_millis(moment * 353)).await;
        let _ = first.kill().await;
        finished(&lab).await;
        // And once more, by the next one.
        let third = lab.worker();
        let _ = second.kill().await;
        pass(60).await;
        finished(&lab).await;
        drop(third);
    }
}

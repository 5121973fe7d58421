//! Random nights: members, daemons, networks, APIs, workers and the cluster's healing fail and return in any order, on storage
//! whose locks stop nobody. Nothing runs twice, and when everything is well again nothing was forgotten.

use std::time::Duration;

use apelora_fencing::recovery::Step;
use apelora_lab::incus::{ApiFault, InstancePlan, Lease};

use super::lab::Lab;
use crate::notice::Notice;
use crate::shell::tests::rig::{MEMBERS, pass};

/// More of them were run when they were written.
const NIGHTS: u64 = 3;

/// The same numbers for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

async fn night(seed: u64) {
    let mut dice = Dice(seed);
    let plans: Vec<_> = (0..15)
        .map(|n| InstancePlan::new(["default", "team"][n % 2], &format!("i{n}"), MEMBERS[n % 5]).memory(64))
        .collect();
    let lease = if dice.below(2) == 0 {
        Lease::Shared
    } else {
        Lease::Exclusive(Duration::from_secs(dice.below(60)))
    };
    let lab = Lab::with(&plans, |plan| {
        plan.lease = lease;
        plan.boot_time = Duration::from_secs(1 + dice.below(20));
    })
    .await;
    let mut workers = vec![lab.settled().await];
    let mut story = Vec::new();
    for _ in 0..14 {
        let member = MEMBERS[usize::try_from(dice.below(5)).unwrap()];
        let what = dice.below(13);
        story.push((what, member));
        match what {
            0 | 1 => lab.cluster.crash(member).unwrap(),
            2 => lab.cluster.cut(member).unwrap(),
            3 => lab.cluster.cut_off(member).unwrap(),
            4 => lab.cluster.kill_daemon(member).unwrap(),
            5 => lab.cluster.hang(member).unwrap(),
            6..=8 => lab.heal(member),
            9 => {
                let faults =
                    [ApiFault::Silent, ApiFault::Slow(Duration::from_secs(4)), ApiFault::Garbage(200)];
                let fault = faults[usize::try_from(dice.below(3)).unwrap()].clone();
                lab.cluster.set_api_fault(member, Some(fault)).unwrap();
            }
            10 => lab.cluster.set_healing_threshold(Some(60).filter(|_| dice.below(2) == 0)),
            11 => {
                let next = lab.worker();
                let _ = workers.pop().unwrap().kill().await;
                workers.push(next);
            }
            _ => lab.rig.base.faults.lock().unwrap().away ^= true,
        }
        let millis = [300, 3_000, 30_000, 60_000][usize::try_from(dice.below(4)).unwrap()];
        tokio::time::sleep(Duration::from_millis(1 + dice.below(millis))).await;
        assert_eq!(lab.cluster.ran_twice(), [], "seed {seed}: {story:?}");
    }
    lab.rig.base.faults.lock().unwrap().away = false;
    lab.cluster.set_healing_threshold(None);
    for member in MEMBERS {
        lab.heal(member);
    }
    pass(900).await;
    assert_eq!(lab.cluster.ran_twice(), [], "seed {seed}: {story:?}");
    let rows = lab.rows();
    assert!(rows.iter().all(|row| row.step.is_end()), "seed {seed}: {story:?}: {rows:?}");
    for plan in &plans {
        let runs = lab.runs(&plan.project, &plan.name);
        let told = rows.iter().any(|row| row.instance == plan.name && row.step == Step::GaveUp);
        assert!(
            runs.len() == 1 || (runs.is_empty() && told),
            "seed {seed}: {} runs on {runs:?}: {story:?}: {rows:?}",
            plan.name
        );
    }
    for worker in &mut workers {
        let twice = worker.told().iter().any(|n| matches!(n, Notice::MayRunTwice { .. }));
        assert!(!twice, "seed {seed}: a false alarm");
    }
}

#[tokio::test(start_paused = true)]
async fn random_nights() {
    for seed in 1..=NIGHTS {
        night(seed).await;
    }
}

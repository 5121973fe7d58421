//! How long a decision takes: every guard of every member, with its numbers.
#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use apelora_fencing::view::{Healing, Status};
use apelora_fencing::world::{LeaseFacts, MemberFacts, ViewFacts, World};
use apelora_fencing::{Limits, decide};

fn world(members: usize) -> World {
    let member = |i: usize| MemberFacts {
        failure_domain: Some(format!("rack-{}", i % 20)),
        offline_for: (i.is_multiple_of(10)).then_some(Duration::from_secs(40)),
        second_view_agrees: true,
        mapped: true,
        ever_online: true,
        ..MemberFacts::new(
            format!("server-{i:04}").as_str().into(),
            Some(if i.is_multiple_of(10) { Status::Offline } else { Status::Online }),
        )
    };
    World {
        fence_after: Duration::from_secs(30),
        view: ViewFacts {
            readable: true,
            responder_online: true,
            leader_online: true,
            healing: Healing::Off,
        },
        lease: LeaseFacts { held: true, remaining: Duration::from_secs(20) },
        mapping_valid: true,
        open: None,
        history_gap: None,
        failure_domain_rule: true,
        single_view: false,
        members: (0..members).map(member).collect(),
    }
}

fn main() {
    for members in [3, 50, 1_000] {
        let world = world(members);
        let mut times: Vec<_> = (0..500)
            .map(|_| {
                let start = Instant::now();
                black_box(decide(black_box(&world), &Limits::PRODUCTION));
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("decide, {members:>4} members: median {:?}, 99 % {:?}", times[250], times[495]);
    }
}

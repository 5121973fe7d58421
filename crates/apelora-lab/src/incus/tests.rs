//! Random nights: whatever breaks in whatever order, the world stays one that can be.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use crate::https::Seen;
use crate::incus::api::{Asked, Step};
use crate::incus::call::{Call, Caller};
use crate::incus::clock::At;
use crate::incus::machine::Os;
use crate::incus::plan::{ClusterPlan, InstancePlan, Lease};
use crate::incus::truth::What;
use crate::incus::world::World;

const MEMBERS: [&str; 4] = ["s1", "s2", "s3", "s4"];
const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];

/// Something that somebody does. Instances are moved and started by asking the leader, if there is one, and the first
/// member otherwise.
#[derive(Debug, Clone)]
enum Act {
    Crash(usize),
    Freeze(usize, bool),
    Cut(usize, bool),
    Daemon(usize, bool),
    Off(usize, u64),
    On(usize),
    Reset(usize),
    Move { instance: usize, to: usize },
    Start(usize),
    Stop(usize),
}

fn act() -> impl Strategy<Value = Act> {
    let machine = || 0..MEMBERS.len();
    let instance = || 0..INSTANCES.len();
    prop_oneof![
        2 => machine().prop_map(Act::Crash),
        2 => (machine(), any::<bool>()).prop_map(|(machine, yes)| Act::Freeze(machine, yes)),
        3 => (machine(), any::<bool>()).prop_map(|(machine, yes)| Act::Cut(machine, yes)),
        2 => (machine(), any::<bool>()).prop_map(|(machine, yes)| Act::Daemon(machine, yes)),
        2 => (machine(), 0..20_u64).prop_map(|(machine, after)| Act::Off(machine, after)),
        3 => machine().prop_map(Act::On),
        2 => machine().prop_map(Act::Reset),
        8 => (instance(), machine()).prop_map(|(instance, to)| Act::Move { instance, to }),
        8 => instance().prop_map(Act::Start),
        1 => instance().prop_map(Act::Stop),
    ]
}

fn world(lease: Lease) -> World {
    let mut plan = ClusterPlan::new(&MEMBERS);
    plan.offline_threshold = Duration::from_secs(11);
    plan.boot_time = Duration::from_secs(3);
    plan.lease = lease;
    plan.instances = INSTANCES
        .iter()
        .zip(MEMBERS)
        .map(|(name, member)| InstancePlan::new("default", name, member))
        .collect();
    plan.instances[3] = plan.instances[3].clone().on_pool("local");
    let addresses = MEMBERS.map(|name| format!("{name}:8443"));
    World::new(plan, &addresses, (String::new(), String::new()))
}

fn ask(world: &mut World, now: At, method: &str, path: &str, body: &Value) {
    let member = world.database.leader.unwrap_or_default();
    // A machine that does not answer is not asked.
    if !world.machines[member].serves() {
        return;
    }
    let seen = Seen {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
        connection: 0,
    };
    let call = Call::read(&seen).unwrap();
    let step = world.go_on(&Asked { member, caller: &Caller::Socket, call: &call, at: now }, now);
    assert!(!matches!(step, Step::Follow(..)));
}

fn perform(world: &mut World, act: &Act) {
    let now = world.settle();
    let state = |name: usize| format!("/1.0/instances/{}/state", INSTANCES[name]);
    match *act {
        Act::Crash(machine) => world.crash(now, machine),
        Act::Freeze(machine, yes) => world.set_frozen(now, machine, yes),
        Act::Cut(machine, yes) => world.set_cut(now, machine, yes),
        Act::Daemon(machine, yes) => world.set_daemon(now, machine, yes),
        Act::Off(machine, after) => {
            world.machines[machine].switch.off(Instant::now(), Duration::from_secs(after));
        }
        Act::On(machine) => world.machines[machine].switch.on(Instant::now()),
        Act::Reset(machine) if world.machines[machine].os == Os::Crashed => world.reset(now, machine),
        Act::Reset(_) => {}
        Act::Move { instance, to } => {
            let path = format!("/1.0/instances/{}?target={}", INSTANCES[instance], MEMBERS[to]);
            ask(world, now, "POST", &path, &json!({"migration": true}));
        }
        Act::Start(instance) => {
            ask(world, now, "PUT", &state(instance), &json!({"action": "start"}));
        }
        Act::Stop(instance) => {
            ask(world, now, "PUT", &state(instance), &json!({"action": "stop"}));
        }
    }
}

fn check(world: &World, exclusive: bool) {
    for instance in &world.instances {
        for on in &instance.runs_on {
            let os = world.machines[*on].os;
            assert!(
                matches!(os, Os::Up | Os::Frozen),
                "{} runs on a machine that is {os:?}",
                instance.name()
            );
            if exclusive && world.is_shared(&instance.plan.pool) {
                assert_eq!(instance.lease, Some(*on), "{} runs without its lease", instance.name());
            }
        }
    }
    for machine in &world.machines {
        assert_eq!(machine.off_since.is_some(), machine.os == Os::Off, "{}", machine.name);
    }
    if let Some(leader) = world.database.leader {
        assert!(world.machines[leader].connected(), "a leader that nobody reaches");
    }
    if exclusive {
        assert!(!world.happenings.iter().any(|happening| matches!(happening.what, What::RanTwice { .. })));
    }
}

/// A night, looked at each time that something is done and `looks` times in between.
async fn night(acts: &[(u64, Act)], lease: Lease, looks: u32) -> Vec<(Duration, What)> {
    let begun = Instant::now();
    let mut world = world(lease);
    for (pause, act) in acts {
        perform(&mut world, act);
        check(&world, lease != Lease::Shared);
        let pause = Duration::from_millis(*pause);
        for _ in 0..looks {
            advance(pause / (looks + 1)).await;
            world.settle();
            check(&world, lease != Lease::Shared);
        }
        advance(pause - pause / (looks + 1) * looks).await;
    }
    advance(Duration::from_secs(60)).await;
    world.settle();
    world.happenings.into_iter().map(|happening| (happening.at - begun, happening.what)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_impossible_happens_and_looking_changes_nothing(
        acts in proptest::collection::vec((0..20_000_u64, act()), 1..60),
        outlives in 0..60_u64,
        shared in any::<bool>(),
    ) {
        let lease = if shared { Lease::Shared } else { Lease::Exclusive(Duration::from_secs(outlives)) };
        let runtime = || {
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
        };
        let rarely = runtime().block_on(night(&acts, lease, 0));
        let often = runtime().block_on(night(&acts, lease, 7));
        prop_assert_eq!(rarely, often);
    }
}

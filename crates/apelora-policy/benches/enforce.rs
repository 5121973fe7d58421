//! How long decisions take. `cargo bench -p apelora-policy` prints the figures and fails beyond the bounds that
//! `docs/policy.md` promises.

// A bench has nobody else to tell.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use apelora_policy::{Creds, Identity, Rules, Settings, Source, Target, sample};

const ROUNDS: u32 = 100_000;

fn caller(system: bool, project: &str, roles: &[&str]) -> Creds {
    let who = Identity {
        user_id: Some("0123456789abcdef0123456789abcdef".to_owned()),
        system_scope: system.then(|| "all".to_owned()),
        project_id: (!system).then(|| project.to_owned()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..Identity::default()
    };
    Creds::of(&who, None)
}

fn each(rounds: u32, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        work();
    }
    start.elapsed() / rounds
}

fn main() -> ExitCode {
    let rules = Rules::compile(&[], &Settings::default()).expect("the built-in rules can be loaded");
    let callers = [
        ("operator", caller(true, "", &["admin", "manager", "member", "reader"])),
        ("owner's member", caller(false, "project-of-the-owner", &["member", "reader"])),
        ("lessee's reader", caller(false, "project-of-the-lessee", &["reader"])),
        ("outsider", caller(false, "project-of-somebody-else", &["admin", "manager", "member", "reader"])),
    ];
    let names = ["baremetal:node:get", "baremetal:node:set_maintenance", "baremetal:node:maintenance:remove"];
    let mut slowest = Duration::ZERO;
    for (who, creds) in &callers {
        for name in names {
            let target = Target::node(creds, Some("project-of-the-owner"), Some("project-of-the-lessee"));
            let time = each(ROUNDS, || {
                black_box(rules.enforce(black_box(name), creds, &target).allowed);
            });
            println!("{:>9} ns  {name} for the {who}", time.as_nanos());
            slowest = slowest.max(time);
        }
    }
    let nodes: Vec<String> = (0..1_000).map(|i| format!("project-{}", i % 7)).collect();
    let list = each(100, || {
        for (who, creds) in &callers {
            let seen = nodes
                .iter()
                .filter(|owner| {
                    rules.enforce(names[0], creds, &Target::node(creds, Some(owner), None)).allowed
                })
                .count();
            black_box((who, seen));
        }
    }) / 4;
    println!("{:>9} µs  which of 1,000 nodes may a caller see", list.as_micros());
    let file = sample();
    let compile = each(20, || {
        let source = Source { name: "policy.yaml", text: &file };
        black_box(Rules::compile(&[source], &Settings::default()).is_ok());
    });
    println!("{:>9} µs  loading a policy file with all rules", compile.as_micros());

    let within = slowest < Duration::from_micros(5) && list < Duration::from_millis(5);
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! This client beside `ipmitool`, `ipmipower` and `fence_ipmilan`, on the same BMC in one run: `scripts/bench-ipmi`.
//!
//! All of them talk through one relay, which counts datagrams and measures how long the BMC took for its answers. The
//! client's own time is what remains. Nothing is asserted here: the table is the result.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for people who measure; it ends where something is wrong"
)]

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use apelora_ipmi::{Conversation, Power, SendReport, Suites, Target, Timers};

#[path = "../tests/it/peers.rs"]
#[expect(clippy::disallowed_methods, reason = "a bench: it measures the client against simulated servers")]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod peers;
#[path = "../tests/it/relay.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod relay;

use peers::{Bmc, Kind, OPERATOR, is_mapped, soon};
use relay::{Delivery, Direction, Relay};

const RUNS: usize = 9;

/// What one command line does, and what its user knows afterwards.
struct Contender {
    name: &'static str,
    /// Whether it ends with a reading of Off.
    verified: bool,
    /// Whether it knows which server it talked to.
    identity: bool,
    run: Box<dyn Fn(&Target) -> Run>,
}

enum Run {
    /// Command lines, one after the other.
    Programs(Vec<Vec<String>>),
    /// This client in this process, as in the worker.
    Here { off: bool },
    /// This client as a program of its own, as the others are.
    Program { off: bool },
}

struct Measured {
    total: Duration,
    bmc: Duration,
    datagrams: usize,
}

type Passed = Arc<Mutex<Vec<(Direction, Instant)>>>;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => runtime.block_on(compare()),
        [action, address, suite] => {
            let suites = Suites::from_ids(&[suite.parse().unwrap()]).unwrap();
            let target = peers::target(address.parse().unwrap(), OPERATOR, suites);
            runtime.block_on(converse(&target, action == "off"));
        }
        _ => panic!("no arguments are needed"),
    }
}

/// Identity and power, and with `off` the power-off and the first verified Off.
#[expect(clippy::disallowed_methods, reason = "a bench: it measures the client against simulated servers")]
async fn converse(target: &Target, off: bool) -> Instant {
    let mut conversation = Conversation::open(target, Timers::DEFAULT, soon()).await.unwrap();
    let mut power = conversation.read(is_mapped, soon()).await.unwrap().power;
    if off {
        assert!(matches!(conversation.force_off(soon(), soon()).await, SendReport::Answered(_)));
        while power != Power::Off {
            power = conversation.read(is_mapped, soon()).await.unwrap().power;
        }
    }
    let known = Instant::now();
    conversation.close(soon()).await;
    known
}

fn programs(lines: &[&[&str]]) -> Run {
    Run::Programs(lines.iter().map(|line| line.iter().map(|word| (*word).to_owned()).collect()).collect())
}

fn contenders(off: bool, suite: &'static str) -> Vec<Contender> {
    let contender = |name, verified, identity, run: Box<dyn Fn(&Target) -> Run>| Contender {
        name,
        verified,
        identity,
        run,
    };
    let host = |target: &Target| (target.address.ip().to_string(), target.address.port().to_string());
    let (user, password) = OPERATOR;
    let ipmitool = move |target: &Target, actions: &[&str]| {
        let (ip, port) = host(target);
        let common =
            ["ipmitool", "-I", "lanplus", "-H", &ip, "-p", &port, "-C", suite, "-L", "OPERATOR", "-U", user];
        let lines: Vec<Vec<&str>> = actions
            .iter()
            .map(|action| [&common[..], &["-P", password, "chassis", "power", action]].concat())
            .collect();
        programs(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let ipmipower = move |target: &Target, actions: &[&str]| {
        let to = target.address.to_string();
        let common = ["ipmipower", "-h", &to, "-D", "LAN_2_0", "-I", suite, "-l", "OPERATOR", "-u", user];
        // ipmi_sim answers the privilege level of the Open Session Request.
        let workaround: &[&str] = if suite == "3" { &["-W", "opensesspriv"] } else { &[] };
        programs(&[&[&common[..], workaround, &["-p", password], actions].concat()])
    };
    let fence = move |target: &Target, more: &[&str]| {
        let (ip, port) = host(target);
        let common = ["fence_ipmilan", "-P", "-C", suite, "-a", &ip, "--ipport", &port, "-l", user];
        programs(&[&[&common[..], &["-p", password, "-L", "operator"], more].concat()])
    };
    let mut all = vec![
        contender("this client, in the worker", true, true, Box::new(move |_| Run::Here { off })),
        contender("this client, as a program", true, true, Box::new(move |_| Run::Program { off })),
    ];
    if off {
        all.extend([
            contender(
                "ipmitool power off; power status",
                true,
                false,
                Box::new(move |target| ipmitool(target, &["off", "status"])),
            ),
            contender("ipmitool power off", false, false, Box::new(move |target| ipmitool(target, &["off"]))),
            contender(
                "ipmipower --off --wait-until-off",
                true,
                false,
                Box::new(move |target| ipmipower(target, &["--off", "--wait-until-off"])),
            ),
            contender("ipmipower --off", false, false, Box::new(move |target| ipmipower(target, &["--off"]))),
            contender(
                "fence_ipmilan -o off",
                true,
                false,
                Box::new(move |target| fence(target, &["-o", "off"])),
            ),
            contender(
                "fence_ipmilan -o off --power-wait=0",
                true,
                false,
                Box::new(move |target| fence(target, &["-o", "off", "--power-wait=0"])),
            ),
        ]);
    } else {
        all.extend([
            contender(
                "ipmitool power status",
                false,
                false,
                Box::new(move |target| ipmitool(target, &["status"])),
            ),
            contender(
                "ipmipower --stat",
                false,
                false,
                Box::new(move |target| ipmipower(target, &["--stat"])),
            ),
            contender(
                "fence_ipmilan -o status",
                false,
                false,
                Box::new(move |target| fence(target, &["-o", "status"])),
            ),
        ]);
    }
    all
}

async fn compare() {
    for (kind, name, suite) in [
        (Kind::Suite17, "pyghmi's BMC with suite 17", "17"),
        (Kind::IpmiSim, "OpenIPMI's ipmi_sim, suite 3", "3"),
    ] {
        let bmc = Bmc::start(kind).await;
        for off in [false, true] {
            let what = if off { "decision to Off" } else { "status" };
            println!("\n{name}: {what}, median of {RUNS}\n");
            println!("| | total ms | BMC ms | own ms | datagrams | Off read back | server identified |");
            println!("|---|---|---|---|---|---|---|");
            let contenders = contenders(off, suite);
            let mut runs: Vec<Vec<Measured>> = contenders.iter().map(|_| Vec::new()).collect();
            // In turn, so that a busy moment of the machine does not strike one of them alone.
            for _ in 0..RUNS {
                for (contender, runs) in contenders.iter().zip(&mut runs) {
                    runs.push(measure(&bmc, contender, suite).await);
                }
            }
            for (contender, runs) in contenders.iter().zip(&mut runs) {
                report(contender, off, runs);
            }
        }
    }
}

async fn measure(bmc: &Bmc, contender: &Contender, suite: &str) -> Measured {
    bmc.switch_on();
    let passed = Passed::default();
    let log = Arc::clone(&passed);
    let relay = Relay::start(bmc.address(), move |passing| {
        log.lock().unwrap().push((passing.direction, Instant::now()));
        vec![Delivery::of(passing.bytes)]
    })
    .await;
    let suites = Suites::from_ids(&[suite.parse().unwrap()]).unwrap();
    let target = Target { address: relay.address(), suites, ..bmc.target() };
    let started = Instant::now();
    let ended = match (contender.run)(&target) {
        Run::Here { off } => converse(&target, off).await,
        Run::Program { off } => {
            let own = std::env::current_exe().unwrap().display().to_string();
            let action = if off { "off" } else { "status" };
            run(vec![own, action.to_owned(), target.address.to_string(), suite.to_owned()]).await;
            Instant::now()
        }
        Run::Programs(lines) => {
            for line in lines {
                run(line).await;
            }
            Instant::now()
        }
    };
    let passed = passed.lock().unwrap();
    Measured { total: ended - started, bmc: bmc_time(&passed), datagrams: passed.len() }
}

/// How long the BMC thought: from each question to the answer behind it.
fn bmc_time(passed: &[(Direction, Instant)]) -> Duration {
    passed
        .windows(2)
        .filter(|pair| pair[0].0 == Direction::ToBmc && pair[1].0 == Direction::ToClient)
        .map(|pair| pair[1].1 - pair[0].1)
        .sum()
}

async fn run(line: Vec<String>) {
    let status = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(&line[0]);
        let command =
            command.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        (command.status().unwrap_or_else(|error| panic!("{}: {error}", line[0])), line)
    });
    let (status, line) = status.await.unwrap();
    assert!(status.success(), "{}: {status}", line.join(" "));
}

fn report(contender: &Contender, off: bool, runs: &mut [Measured]) {
    let mut median = |of: fn(&Measured) -> f64| {
        runs.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&runs[runs.len() / 2])
    };
    let total = median(|run| run.total.as_secs_f64() * 1e3);
    let bmc = median(|run| run.bmc.as_secs_f64() * 1e3);
    let own = median(|run| run.total.saturating_sub(run.bmc).as_secs_f64() * 1e3);
    let datagrams = median(|run| f64::from(u32::try_from(run.datagrams).unwrap()));
    let yes = |said: bool| if said { "yes" } else { "no" };
    let verified = if off { yes(contender.verified) } else { "-" };
    println!(
        "| {} | {total:.1} | {bmc:.1} | {own:.1} | {datagrams:.0} | {verified} | {} |",
        contender.name,
        yes(contender.identity)
    );
}

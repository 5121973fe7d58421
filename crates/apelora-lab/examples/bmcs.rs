//! The BMCs of machines that somebody else runs: simulated ones, Redfish and IPMI in turn, that really end a machine.
//!
//! ```text
//! bmcs FOLDER HOOK MEMBER...
//! ```
//!
//! Writes the BMC map, the certificate of its authority and the passwords (`secrets.env`, lines of `NAME=VALUE`) into FOLDER.
//! When a BMC is asked for a power-off, `HOOK MEMBER` is run at once. The BMC reads Off when that has ended well and the
//! member's delay is over, and never before: a machine is not called off while it still writes. When the hook fails, the
//! power stays On.
//!
//! Lines on standard input: `on MEMBER` (the power is back), `lose MEMBER` (mains power is lost: the hook is run, then the
//! BMC reads Off), `trouble MEMBER unreachable|rejects|ignores|none`, `delay MEMBER SECONDS`, `status`. Each is answered
//! with one line. It ends with its standard input.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{cell::Cell, collections::BTreeMap, env, fs, io, thread};

use apelora_lab::power::Switch;
use apelora_lab::site::{Site, SitePlan, Trouble};
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep};

/// A BMC alone never gets this far: its machine is switched off when the hook has ended.
const NEVER: Duration = Duration::from_secs(86_400 * 365);
/// How soon a request is seen.
const LOOK: Duration = Duration::from_millis(10);
/// Between the end of a machine and the reading Off, unless `delay` says otherwise.
const DELAY: Duration = Duration::from_secs(1);

const USAGE: &str = "usage: bmcs FOLDER HOOK MEMBER...";

fn main() -> ExitCode {
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| LocalSet::new().block_on(&runtime, run()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bmcs: {why}");
            ExitCode::FAILURE
        }
    }
}

/// One machine as its BMC has it.
struct Machine {
    name: String,
    switch: Arc<Switch>,
    hook: PathBuf,
    delay: Cell<Duration>,
    /// Power-offs that were asked for and not carried out yet.
    busy: Cell<u32>,
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(folder), Some(hook)) = (arguments.next(), arguments.next()) else { return Err(USAGE.into()) };
    let members: Vec<String> = arguments.collect();
    if members.is_empty() {
        return Err(USAGE.into());
    }
    let hook = Path::new(&hook).canonicalize().map_err(|why| format!("{hook}: {why}"))?;
    let names: Vec<&str> = members.iter().map(String::as_str).collect();
    // Its simulated cluster is not asked by anybody; the machines are elsewhere.
    let site = Site::start(SitePlan::new(&names, Path::new(&folder))).await?;
    let secrets: String = site.secrets().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    fs::write(Path::new(&folder).join("secrets.env"), secrets)?;

    let mut machines = BTreeMap::new();
    for name in &members {
        site.bmc(name)?.set_delay(NEVER);
        let machine = Machine {
            name: name.clone(),
            switch: site.cluster().switch(name)?,
            hook: hook.clone(),
            delay: Cell::new(DELAY),
            busy: Cell::new(0),
        };
        machines.insert(name.clone(), Rc::new(machine));
    }
    say(&format!("ready {}", site.bmc_map().display()))?;

    let mut lines = lines();
    let mut seen: BTreeMap<&String, u32> = BTreeMap::new();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => say(&obey(&site, &machines, &line).unwrap_or_else(|why| format!("error {why}")))?,
                None => return Ok(()),
            },
            () = sleep(LOOK) => {
                for (name, machine) in &machines {
                    let asked = site.bmc(name)?.power_offs();
                    if asked > seen.insert(name, asked).unwrap_or(0) {
                        end(machine);
                    }
                }
            }
        }
    }
}

/// Takes the machine away, and then the power.
fn end(machine: &Rc<Machine>) {
    let machine = Rc::clone(machine);
    machine.busy.set(machine.busy.get() + 1);
    spawn_local(async move {
        let (hook, name) = (machine.hook.clone(), machine.name.clone());
        let ended = spawn_blocking(move || {
            Command::new(hook).arg(name).stdin(Stdio::null()).stdout(Stdio::null()).status()
        });
        match ended.await {
            Ok(Ok(status)) if status.success() => {
                sleep(machine.delay.get()).await;
                machine.switch.off(Instant::now(), Duration::ZERO);
            }
            failed => eprintln!("bmcs: {} stays on: its hook failed: {failed:?}", machine.name),
        }
        machine.busy.set(machine.busy.get() - 1);
    });
}

fn obey(site: &Site, machines: &BTreeMap<String, Rc<Machine>>, line: &str) -> Result<String, Box<dyn Error>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words == ["status"] {
        let of = |name: &String, machine: &Machine| -> Result<String, Box<dyn Error>> {
            let bmc = site.bmc(name)?;
            let power = if machine.switch.is_on(Instant::now()) { "on" } else { "off" };
            let busy = if machine.busy.get() > 0 { ",ending" } else { "" };
            Ok(format!("{name}={power}{busy},asked:{},off:{}", bmc.power_offs_asked(), bmc.power_offs()))
        };
        let all = machines.iter().map(|(name, machine)| of(name, machine));
        return Ok(all.collect::<Result<Vec<_>, _>>()?.join(" "));
    }
    let (Some(verb), Some(member)) = (words.first(), words.get(1)) else {
        return Err(format!("unknown: {line}").into());
    };
    let machine = machines.get(*member).ok_or_else(|| format!("no member {member}"))?;
    let bmc = site.bmc(member)?;
    match (*verb, words.get(2).copied()) {
        ("on", None) if machine.busy.get() > 0 => return Err(format!("{member} is being ended").into()),
        ("on", None) => {
            machine.switch.set_mains(Instant::now(), true);
            machine.switch.on(Instant::now());
        }
        ("lose", None) => end(machine),
        ("delay", Some(seconds)) => machine.delay.set(Duration::try_from_secs_f64(seconds.parse()?)?),
        ("trouble", Some("unreachable")) => bmc.set_trouble(Some(&Trouble::Unreachable)),
        ("trouble", Some("rejects")) => bmc.set_trouble(Some(&Trouble::Rejects)),
        ("trouble", Some("ignores")) => bmc.set_trouble(Some(&Trouble::Ignores)),
        ("trouble", Some("none")) => bmc.set_trouble(None),
        _ => return Err(format!("unknown: {line}").into()),
    }
    Ok(format!("done {line}"))
}

/// The lines of standard input; it ends with it.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

//! The whole of a simulated cluster: machines, database, instances, operations. It moves when somebody looks: whatever
//! was due before then happens first, in the order in which it was due.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::incus::clock::{At, Clock, MILLISECOND, SECOND, nanos};
use crate::incus::database::Database;
use crate::incus::instance::Instance;
use crate::incus::machine::{Machine, Os, Role};
use crate::incus::operation::Operation;
use crate::incus::plan::{ClusterPlan, Lease};
use crate::incus::truth::{Happening, What};
use crate::power::Switch;

/// A member starts its own instances this long after it answers.
const STARTS_AFTER: i64 = SECOND;

/// Something that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Power { machine: usize, on: bool },
    Boot(usize),
    Elect,
    Heartbeats,
    StartInstances(usize),
    Operation(usize),
}

pub(super) struct World {
    pub(super) plan: ClusterPlan,
    pub(super) clock: Clock,
    pub(super) machines: Vec<Machine>,
    pub(super) database: Database,
    pub(super) instances: Vec<Instance>,
    pub(super) operations: Vec<Operation>,
    pub(super) made_operations: u64,
    /// Certificates that are trusted: SHA-256 of their DER form, and the projects that they are restricted to.
    pub(super) trusted: BTreeMap<String, Option<Vec<String>>>,
    pub(super) certificate: (String, String),
    pub(super) happenings: Vec<Happening>,
    /// A path at which every request fails.
    pub(super) failing: Option<String>,
    /// Power changes that are not yet carried out.
    power: Vec<(At, usize, bool)>,
}

impl World {
    /// A cluster at rest. `addresses`: where each member listens.
    pub(super) fn new(plan: ClusterPlan, addresses: &[String], certificate: (String, String)) -> Self {
        let clock = Clock::new(Instant::now(), plan.wall_clock);
        let now = clock.at(Instant::now());
        let machines: Vec<Machine> = plan
            .members
            .iter()
            .zip(addresses)
            .enumerate()
            .map(|(index, (name, address))| Machine {
                name: name.clone(),
                switch: std::sync::Arc::new(Switch::new(true)),
                os: Os::Up,
                off_since: None,
                daemon: true,
                cut_since: None,
                reachable: true,
                skew: 0,
                boots: 1,
                starts_instances: None,
                role: match index {
                    0..3 => Role::Voter,
                    3..5 => Role::StandBy,
                    _ => Role::Spare,
                },
                heartbeat: now,
                heard: true,
                mute: false,
                removed: false,
                status: None,
                fault: None,
                requests: 0,
                address: address.clone(),
            })
            .collect();
        let at = |member: &str| plan.members.iter().position(|name| name == member);
        let instances = plan
            .instances
            .iter()
            .enumerate()
            .filter_map(|(index, instance)| {
                let location = at(&instance.member)?;
                let shared = is_shared(&plan, &instance.pool);
                let created = now - 3600 * SECOND + i64::try_from(index).unwrap_or(0) * 1_373_000_001;
                Some(Instance {
                    location,
                    last_ran: instance.running,
                    runs_on: instance.running.then_some(location).into_iter().collect(),
                    lease: (instance.running && shared).then_some(location),
                    evacuated: false,
                    created,
                    used: created + 1_231_000_007,
                    plan: instance.clone(),
                })
            })
            .collect();
        let database = Database::new(now, nanos(plan.offline_threshold) / 2);
        Self {
            plan,
            clock,
            machines,
            database,
            instances,
            operations: Vec::new(),
            made_operations: 0,
            trusted: BTreeMap::new(),
            certificate,
            happenings: Vec::new(),
            failing: None,
            power: Vec::new(),
        }
    }

    /// Lets everything happen that is due, and says what time it is.
    pub(super) fn settle(&mut self) -> At {
        let instant = Instant::now();
        let now = self.clock.at(instant);
        for (index, machine) in self.machines.iter().enumerate() {
            let changes = machine.switch.changes(instant);
            self.power.extend(changes.iter().map(|(at, on)| (self.clock.at(*at), index, *on)));
        }
        self.power.sort_by_key(|(at, ..)| *at);
        while let Some((at, due)) = self.next_due().filter(|(at, _)| *at <= now) {
            self.carry_out(at, due);
            self.reconsider(at);
        }
        self.operations.retain(|operation| !operation.is_forgotten(now));
        now
    }

    fn next_due(&self) -> Option<(At, Due)> {
        let power =
            self.power.first().map(|(at, machine, on)| (*at, Due::Power { machine: *machine, on: *on }));
        let boots = self.machines.iter().enumerate().filter_map(|(index, machine)| match machine.os {
            Os::Booting { ready } => Some((ready, Due::Boot(index))),
            _ => None,
        });
        let starts = self.machines.iter().enumerate().filter_map(|(index, machine)| {
            machine.starts_instances.map(|at| (at, Due::StartInstances(index)))
        });
        let election = self.database.election.map(|at| (at, Due::Elect));
        let round = self.database.leader.map(|_| (self.database.next_round, Due::Heartbeats));
        let operations = self
            .operations
            .iter()
            .enumerate()
            .filter(|(_, operation)| operation.outcome.is_none())
            .map(|(index, operation)| (operation.ends, Due::Operation(index)));
        power
            .into_iter()
            .chain(boots)
            .chain(starts)
            .chain(election)
            .chain(round)
            .chain(operations)
            .min_by_key(|(at, _)| *at)
    }

    fn carry_out(&mut self, at: At, due: Due) {
        match due {
            Due::Power { machine, on } => {
                self.power.remove(0);
                if on { self.power_on(at, machine) } else { self.power_off(at, machine) }
            }
            Due::Boot(machine) => self.booted(at, machine),
            Due::Elect => self.elect(at),
            Due::Heartbeats => self.heartbeats(at),
            Due::StartInstances(machine) => self.start_instances(at, machine),
            Due::Operation(index) => self.end_operation(at, index),
        }
    }

    pub(super) fn note(&mut self, at: At, what: What) {
        self.happenings.push(Happening { at: self.clock.instant(at), what });
    }

    /// Name of a member.
    pub(super) fn name(&self, member: usize) -> String {
        self.machines.get(member).map(|machine| machine.name.clone()).unwrap_or_default()
    }

    pub(super) fn member(&self, name: &str) -> Option<usize> {
        self.machines.iter().position(|machine| machine.name == name && !machine.removed)
    }

    pub(super) fn is_shared(&self, pool: &str) -> bool {
        is_shared(&self.plan, pool)
    }

    fn power_on(&mut self, at: At, index: usize) {
        let boot = nanos(self.plan.boot_time);
        let Some(machine) = self.machines.get_mut(index) else { return };
        machine.off_since = None;
        machine.os = Os::Booting { ready: at + boot };
        let name = machine.name.clone();
        self.note(at, What::PowerOn(name));
    }

    fn power_off(&mut self, at: At, index: usize) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        machine.off_since = Some(at);
        machine.os = Os::Off;
        let name = machine.name.clone();
        self.note(at, What::PowerOff(name));
        self.everything_dies(at, index);
    }

    /// The operating system dies; power stays on.
    pub(super) fn crash(&mut self, at: At, index: usize) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        if machine.os == Os::Off {
            return;
        }
        machine.os = Os::Crashed;
        let name = machine.name.clone();
        self.note(at, What::Crashed(name));
        self.everything_dies(at, index);
        self.reconsider(at);
    }

    /// What dies with an operating system: its instances, the operations of its daemon.
    fn everything_dies(&mut self, at: At, index: usize) {
        if let Some(machine) = self.machines.get_mut(index) {
            machine.starts_instances = None;
        }
        let name = self.name(index);
        self.operations.retain(|operation| operation.location != index);
        let mut stopped = Vec::new();
        for instance in &mut self.instances {
            if instance.runs_on.remove(&index) {
                stopped.push(instance.name());
            }
        }
        for instance in stopped {
            self.note(at, What::Stopped { instance, on: name.clone() });
        }
    }

    /// Starts the operating system of a crashed machine anew, as a reset does.
    pub(super) fn reset(&mut self, at: At, index: usize) {
        let boot = nanos(self.plan.boot_time);
        if let Some(machine) = self.machines.get_mut(index) {
            machine.os = Os::Booting { ready: at + boot };
        }
    }

    fn booted(&mut self, at: At, index: usize) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        machine.os = Os::Up;
        machine.daemon = true;
        machine.heard = false;
        machine.boots += 1;
        machine.starts_instances = Some(at + STARTS_AFTER);
        let name = machine.name.clone();
        // A host that has booted has joined its storage anew, and holds none of its old leases.
        for instance in &mut self.instances {
            if instance.lease == Some(index) && !instance.runs_on.contains(&index) {
                instance.lease = None;
            }
        }
        self.note(at, What::Booted(name));
    }

    pub(super) fn set_daemon(&mut self, at: At, index: usize, runs: bool) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        if machine.daemon == runs {
            return;
        }
        machine.daemon = runs;
        machine.heard = false;
        machine.starts_instances = runs.then_some(at + STARTS_AFTER);
        let name = machine.name.clone();
        self.note(at, if runs { What::DaemonStarted(name) } else { What::DaemonDied(name) });
        if !runs {
            self.operations.retain(|operation| operation.location != index);
        }
        self.reconsider(at);
    }

    /// Stops or continues a machine's operating system, with all that runs on it.
    pub(super) fn set_frozen(&mut self, at: At, index: usize, frozen: bool) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        let (from, to) = if frozen { (Os::Up, Os::Frozen) } else { (Os::Frozen, Os::Up) };
        if machine.os != from {
            return;
        }
        machine.os = to;
        let name = machine.name.clone();
        self.note(at, if frozen { What::Hung(name) } else { What::Thawed(name) });
        self.reconsider(at);
    }

    /// Takes a machine off the cluster's network, or puts it back.
    pub(super) fn set_cut(&mut self, at: At, index: usize, cut: bool) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        if machine.cut_since.is_some() == cut {
            return;
        }
        machine.cut_since = cut.then_some(at);
        let name = machine.name.clone();
        self.note(at, if cut { What::Cut(name) } else { What::Joined(name) });
        self.reconsider(at);
    }

    /// Starts, a second after a member's daemon answers, those of its instances that Incus starts at boot.
    fn start_instances(&mut self, at: At, index: usize) {
        let Some(machine) = self.machines.get_mut(index) else { return };
        if !machine.serves() {
            machine.starts_instances = None;
            return;
        }
        let evacuated = machine.status.as_deref() == Some("Evacuated");
        // The database says which they are; without it, it waits.
        if !self.has_database(index) {
            if let Some(machine) = self.machines.get_mut(index) {
                machine.starts_instances = Some(at + STARTS_AFTER);
            }
            return;
        }
        if let Some(machine) = self.machines.get_mut(index) {
            machine.starts_instances = None;
        }
        let own: Vec<usize> = (0..self.instances.len())
            .filter(|number| {
                self.instances.get(*number).is_some_and(|instance| {
                    instance.location == index
                        && instance.starts_at_boot()
                        && !instance.runs_on.contains(&index)
                        && !evacuated
                })
            })
            .collect();
        for number in own {
            // One that does not start is left stopped, as Incus leaves it after three tries.
            drop(self.start_instance(at, number, index));
        }
    }

    /// Takes a member out of the cluster's database, with what is on it.
    pub(super) fn remove_member(&mut self, index: usize) {
        if let Some(machine) = self.machines.get_mut(index) {
            machine.removed = true;
        }
        self.instances.retain(|instance| instance.location != index);
    }

    /// Runs an instance on a machine, unless the storage refuses.
    pub(super) fn start_instance(&mut self, at: At, number: usize, on: usize) -> Result<(), String> {
        let rule = self.plan.lease;
        let Some(instance) = self.instances.get(number) else { return Err("Instance not found".to_owned()) };
        let (name, shared) = (instance.name(), is_shared(&self.plan, &instance.plan.pool));
        let holder = instance.lease.filter(|holder| shared && *holder != on && self.holds(*holder, rule, at));
        if let Some(holder) = holder {
            let volume = format!("ilvg/{}", instance.volume());
            let what = What::Locked { instance: name, on: self.name(on), held_by: self.name(holder) };
            self.note(at, what);
            return Err(format!(
                "Failed to activate LVM logical volume \"/dev/{volume}\": Failed to run: lvchange --activate sy \
                 --ignoreactivationskip /dev/{volume}: exit status 5 (LV locked by other host: {volume}\n  Failed to \
                 lock logical volume {volume}.)"
            ));
        }
        let Some(instance) = self.instances.get_mut(number) else {
            return Err("Instance not found".to_owned());
        };
        instance.lease = shared.then_some(on);
        instance.last_ran = true;
        instance.used = at;
        instance.runs_on.insert(on);
        let all = instance.runs_on.clone();
        self.note(at, What::Started { instance: name.clone(), on: self.name(on) });
        if all.len() > 1 {
            let on = all.iter().map(|machine| self.name(*machine)).collect();
            self.note(at, What::RanTwice { instance: name, on });
        }
        Ok(())
    }

    fn holds(&self, holder: usize, rule: Lease, at: At) -> bool {
        let Lease::Exclusive(after) = rule else { return false };
        let off = self.machines.get(holder).and_then(|machine| machine.off_since);
        off.is_none_or(|off| at < off.saturating_add(nanos(after)))
    }

    /// Stops an instance on a machine.
    pub(super) fn stop_instance(&mut self, at: At, number: usize, on: usize) {
        let name = self.name(on);
        let Some(instance) = self.instances.get_mut(number) else { return };
        if !instance.runs_on.remove(&on) {
            return;
        }
        instance.last_ran = false;
        if instance.lease == Some(on) {
            instance.lease = None;
        }
        let what = What::Stopped { instance: instance.name(), on: name };
        let gone = instance.plan.ephemeral;
        self.note(at, what);
        if gone {
            self.instances.remove(number);
        }
    }

    /// How long an answer waits that needs next to nothing.
    pub(super) const SOON: Duration = Duration::from_millis(2);
    /// How long a start or a stop takes.
    pub(super) const START: i64 = 300 * MILLISECOND;
    /// How long a move in the database takes.
    pub(super) const MOVE: i64 = 100 * MILLISECOND;
}

fn is_shared(plan: &ClusterPlan, pool: &str) -> bool {
    plan.pools.iter().any(|known| known.name == pool && known.is_shared())
}

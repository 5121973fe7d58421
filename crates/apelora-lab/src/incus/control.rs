//! What breaks a simulated cluster, and what asks it for the truth.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::incus::cluster::{Cluster, ClusterError};
use crate::incus::instance::Instance;
use crate::incus::machine::{ApiFault, Os};
use crate::incus::plan::Lease;
use crate::incus::truth::{Happening, InstanceName, What};
use crate::power::Switch;

/// What breaks it. Each returns an error when no member has the name.
impl Cluster {
    /// The power of a member's machine: what a BMC is wired to.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn switch(&self, member: &str) -> Result<Arc<Switch>, ClusterError> {
        self.change(member, |world, index, _| {
            world.machines.get(index).map(|machine| Arc::clone(&machine.switch))
        })?
        .ok_or_else(|| ClusterError::UnknownMember(member.to_owned()))
    }

    /// The operating system dies, and the instances with it; power stays on. Nothing happens to a machine that is off.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn crash(&self, member: &str) -> Result<(), ClusterError> {
        self.change(member, |world, index, now| world.crash(now, index))
    }

    /// The machine stands still: nothing answers, nothing is lost, leases are kept. Nothing happens to a machine whose
    /// operating system does not run.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn hang(&self, member: &str) -> Result<(), ClusterError> {
        self.change(member, |world, index, now| world.set_frozen(now, index, true))
    }

    /// The machine loses the cluster's network; its instances run on, and its API is still reached from outside.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn cut(&self, member: &str) -> Result<(), ClusterError> {
        self.change(member, |world, index, now| world.set_cut(now, index, true))
    }

    /// As [`cut`](Self::cut), and its API is not reached from outside either.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn cut_off(&self, member: &str) -> Result<(), ClusterError> {
        self.change(member, |world, index, now| {
            world.set_cut(now, index, true);
            if let Some(machine) = world.machines.get_mut(index) {
                machine.reachable = false;
            }
        })
    }

    /// The machine loses mains power.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn lose_power(&self, member: &str) -> Result<(), ClusterError> {
        self.switch(member)?.set_mains(Instant::now(), false);
        drop(self.shared.now());
        Ok(())
    }

    /// The member's daemon dies; its instances run on.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn kill_daemon(&self, member: &str) -> Result<(), ClusterError> {
        self.change(member, |world, index, now| world.set_daemon(now, index, false))
    }

    /// Repairs the machine: mains power, networks, daemon, API. It boots if it is off or crashed and runs on if it stood
    /// still. What is set in the cluster itself (a status, a wall clock) stays.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn heal(&self, member: &str) -> Result<(), ClusterError> {
        let switch = self.switch(member)?;
        switch.set_mains(Instant::now(), true);
        switch.on(Instant::now());
        self.change(member, |world, index, now| {
            world.set_cut(now, index, false);
            world.set_frozen(now, index, false);
            let Some(machine) = world.machines.get_mut(index) else { return };
            machine.reachable = true;
            machine.fault = None;
            match machine.os {
                Os::Crashed => world.reset(now, index),
                Os::Up => world.set_daemon(now, index, true),
                Os::Off | Os::Booting { .. } | Os::Frozen => {}
            }
        })
    }

    /// Breaks a member's API, or repairs it.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn set_api_fault(&self, member: &str, fault: Option<ApiFault>) -> Result<(), ClusterError> {
        self.change(member, |world, index, _| {
            if let Some(machine) = world.machines.get_mut(index) {
                machine.fault = fault;
            }
        })
    }

    /// Gives a member a status that does not come from heartbeats: `Evacuated`, `Blocked`, or a word of a newer version;
    /// or takes it back. `Blocked` shows only while the member is not Offline, all others always.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn set_status(&self, member: &str, status: Option<&str>) -> Result<(), ClusterError> {
        let status = status.map(str::to_owned);
        self.change(member, |world, index, _| world.set_status(index, status))
    }

    /// Sets a member's wall clock this far ahead, or behind.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn set_skew(&self, member: &str, ahead: bool, by: Duration) -> Result<(), ClusterError> {
        self.change(member, |world, index, _| world.set_skew(index, ahead, by))
    }

    /// Lets every request for this path, as `storage-pools`, fail for a reason of the server's own; or none any more.
    pub fn set_failing_path(&self, path: Option<&str>) {
        self.shared.now().0.failing = path.map(str::to_owned);
    }

    /// Removes a member by force, as `incus cluster remove --force`: it is listed no more, and what the database has on it is
    /// gone.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn remove(&self, member: &str) -> Result<(), ClusterError> {
        self.change(member, |world, index, _| world.remove_member(index))
    }

    /// Whether a member tells nothing of its instances although it is well: one that hangs makes Incus show all of its member
    /// as unknown in the list with states.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn set_mute(&self, member: &str, mute: bool) -> Result<(), ClusterError> {
        self.change(member, |world, index, _| {
            if let Some(machine) = world.machines.get_mut(index) {
                machine.mute = mute;
            }
        })
    }

    /// Whether the first answers after an election show healthy members as Offline.
    pub fn set_false_pictures(&self, on: bool) {
        self.shared.now().0.database.false_pictures = on;
    }

    /// Sets `cluster.healing_threshold` in seconds, or takes it back.
    pub fn set_healing_threshold(&self, seconds: Option<u64>) {
        self.shared.now().0.plan.healing_threshold = seconds;
    }

    /// How the shared storage guards its volumes from now on.
    pub fn set_lease(&self, lease: Lease) {
        self.shared.now().0.plan.lease = lease;
    }

    /// How long a machine boots from now on.
    pub fn set_boot_time(&self, time: Duration) {
        self.shared.now().0.plan.boot_time = time;
    }
}

/// The truth, whatever the API says.
impl Cluster {
    /// Whether a machine has power.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn has_power(&self, member: &str) -> Result<bool, ClusterError> {
        Ok(self.switch(member)?.is_on(Instant::now()))
    }

    /// Whether a machine's operating system runs: not off, booting, crashed or standing still.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn is_alive(&self, member: &str) -> Result<bool, ClusterError> {
        self.change(member, |world, index, _| world.machines.get(index).is_some_and(|m| m.os == Os::Up))
    }

    /// Whether a machine is on the cluster's network.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn is_connected(&self, member: &str) -> Result<bool, ClusterError> {
        self.change(member, |world, index, _| {
            world.machines.get(index).is_some_and(|machine| machine.cut_since.is_none())
        })
    }

    /// How often a machine has booted, the first time included.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn boots(&self, member: &str) -> Result<u32, ClusterError> {
        self.change(member, |world, index, _| world.machines.get(index).map_or(0, |machine| machine.boots))
    }

    /// How many requests a member has read.
    ///
    /// # Errors
    /// When no member has this name.
    pub fn requests(&self, member: &str) -> Result<u64, ClusterError> {
        self.change(member, |world, index, _| world.machines.get(index).map_or(0, |machine| machine.requests))
    }

    /// The member that leads the database, if one does.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        let (world, _) = self.shared.now();
        world.database.leader.map(|leader| world.name(leader))
    }

    /// The machines on which an instance really runs. Empty when there is no such instance.
    #[must_use]
    pub fn running(&self, project: &str, instance: &str) -> Vec<String> {
        let (world, _) = self.shared.now();
        let name = InstanceName { project: project.to_owned(), name: instance.to_owned() };
        let found = world.find(&name).and_then(|number| world.instances.get(number));
        let on = found.map(|instance| instance.runs_on.clone()).unwrap_or_default();
        on.iter().map(|machine| world.name(*machine)).collect()
    }

    /// Where the database has an instance.
    #[must_use]
    pub fn location(&self, project: &str, instance: &str) -> Option<String> {
        let (world, _) = self.shared.now();
        let name = InstanceName { project: project.to_owned(), name: instance.to_owned() };
        let found = world.find(&name).and_then(|number| world.instances.get(number));
        found.map(|instance| world.name(instance.location))
    }

    /// All instances.
    #[must_use]
    pub fn instances(&self) -> Vec<InstanceName> {
        self.shared.now().0.instances.iter().map(Instance::name).collect()
    }

    /// Everything that has happened so far.
    #[must_use]
    pub fn happenings(&self) -> Vec<Happening> {
        self.shared.now().0.happenings.clone()
    }

    /// Every time that an instance began to run on a second machine. Anything here is a disaster.
    #[must_use]
    pub fn ran_twice(&self) -> Vec<Happening> {
        let mut all = self.happenings();
        all.retain(|happening| matches!(happening.what, What::RanTwice { .. }));
        all
    }
}

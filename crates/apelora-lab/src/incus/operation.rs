//! Operations: what a member does after it has answered, in the memory of its daemon.

use serde_json::{Value, json};

use crate::ident::{uuid, uuid_text};
use crate::incus::clock::{At, SECOND, rfc3339};
use crate::incus::instance::Instance;
use crate::incus::machine::Machine;
use crate::incus::truth::{InstanceName, What};
use crate::incus::world::World;

/// An operation is forgotten this long after its end.
const REMEMBERED: i64 = 5 * SECOND;

/// What an operation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Move { instance: InstanceName, to: usize },
    Start { instance: InstanceName },
    Stop { instance: InstanceName },
    Evacuate { migrate: bool },
    Restore,
}

impl Action {
    fn description(&self) -> &'static str {
        match self {
            Self::Move { .. } => "Migrating instance",
            Self::Start { .. } => "Starting instance",
            Self::Stop { .. } => "Stopping instance",
            Self::Evacuate { .. } => "Evacuating cluster member",
            Self::Restore => "Restoring cluster member",
        }
    }

    fn takes(&self) -> i64 {
        match self {
            Self::Move { .. } => World::MOVE,
            Self::Start { .. } | Self::Stop { .. } => World::START,
            Self::Evacuate { .. } | Self::Restore => 2 * World::START,
        }
    }
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: u16,
    pub(super) error: String,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    action: Action,
    resources: Vec<String>,
    /// The member that does it.
    pub(super) location: usize,
    created: At,
    pub(super) ends: At,
    pub(super) outcome: Option<Result<(), Failure>>,
    progress: Option<String>,
}

impl Operation {
    pub(super) fn is_forgotten(&self, now: At) -> bool {
        self.outcome.is_some() && now > self.ends + REMEMBERED
    }

    /// What the API shows of it.
    pub(super) fn show(&self, location: &str) -> Value {
        let (status, code, error) = match &self.outcome {
            None => ("Running", 103, ""),
            Some(Ok(())) => ("Success", 200, ""),
            Some(Err(failure)) => ("Failure", 400, failure.error.as_str()),
        };
        let resources =
            if self.resources.is_empty() { json!({}) } else { json!({ "instances": self.resources }) };
        let metadata =
            self.progress.as_ref().map_or(Value::Null, |text| json!({ "evacuation_progress": text }));
        json!({
            "id": self.id, "class": "task", "description": self.action.description(),
            "created_at": rfc3339(self.created), "updated_at": rfc3339(self.created),
            "status": status, "status_code": code, "resources": resources, "metadata": metadata,
            "may_cancel": false, "err": error, "location": location,
        })
    }
}

impl World {
    /// Begins an operation and returns what the API shows of it.
    pub(super) fn begin(&mut self, now: At, location: usize, action: Action) -> Value {
        self.made_operations += 1;
        let id = uuid_text(uuid(&[
            b"operation",
            &self.plan.seed.to_be_bytes(),
            &self.made_operations.to_be_bytes(),
        ]));
        let resources = match &action {
            Action::Move { instance, .. } | Action::Start { instance } | Action::Stop { instance } => self
                .find(instance)
                .and_then(|number| self.instances.get(number))
                .map(Instance::url)
                .into_iter()
                .collect(),
            Action::Evacuate { .. } | Action::Restore => Vec::new(),
        };
        if matches!(action, Action::Evacuate { .. }) {
            // While it runs the status already is Evacuated.
            self.set_status(location, Some("Evacuated".to_owned()));
        }
        let ends = now + action.takes();
        let operation =
            Operation { id, action, resources, location, created: now, ends, outcome: None, progress: None };
        let shown = operation.show(&self.name(location));
        self.operations.push(operation);
        shown
    }

    /// The index of an instance.
    pub(super) fn find(&self, name: &InstanceName) -> Option<usize> {
        self.instances.iter().position(|instance| instance.name() == *name)
    }

    pub(super) fn set_status(&mut self, member: usize, status: Option<String>) {
        if let Some(machine) = self.machines.get_mut(member) {
            machine.status = status;
        }
    }

    pub(super) fn end_operation(&mut self, at: At, index: usize) {
        let Some(operation) = self.operations.get(index) else { return };
        let (action, location) = (operation.action.clone(), operation.location);
        let mut progress = None;
        let frozen = self.machines.get(location).is_some_and(|machine| !machine.serves());
        if frozen {
            // It ends when its machine runs on.
            if let Some(operation) = self.operations.get_mut(index) {
                operation.ends = at + SECOND;
            }
            return;
        }
        let outcome = match action {
            Action::Move { instance, to } => self.move_instance(at, &instance, to),
            Action::Start { instance } => self.start(at, &instance, location),
            Action::Stop { instance } => self.stop(at, &instance, location),
            Action::Evacuate { migrate } => {
                progress = self.evacuate(at, location, migrate);
                Ok(())
            }
            Action::Restore => {
                progress = self.restore(at, location);
                Ok(())
            }
        };
        if let Some(operation) = self.operations.get_mut(index) {
            operation.ends = at;
            operation.outcome = Some(outcome);
            operation.progress = progress;
        }
    }

    fn move_instance(&mut self, at: At, name: &InstanceName, to: usize) -> Result<(), Failure> {
        let number = self.existing(name)?;
        let source = self.instances.get(number).map_or(to, |instance| instance.location);
        let pool = self.instances.get(number).map(|instance| instance.plan.pool.clone()).unwrap_or_default();
        // Data on a local pool can only be copied from a member that is there.
        if !self.is_shared(&pool) && !self.machines.get(source).is_some_and(Machine::connected) {
            return Err(Failure {
                code: 404,
                error:
                    "Failed loading instance storage pool: Failed getting instance storage pool name: Failed \
                        getting instance pool: Instance storage pool not found"
                        .to_owned(),
            });
        }
        if let Some(instance) = self.instances.get_mut(number) {
            instance.location = to;
        }
        let (from, to) = (self.name(source), self.name(to));
        self.note(at, What::Moved { instance: name.clone(), from, to });
        Ok(())
    }

    fn existing(&self, name: &InstanceName) -> Result<usize, Failure> {
        self.find(name).ok_or_else(|| Failure { code: 404, error: "Instance not found".to_owned() })
    }

    fn start(&mut self, at: At, name: &InstanceName, on: usize) -> Result<(), Failure> {
        let number = self.existing(name)?;
        // The text is not recorded, nor is the one of a stop.
        if self.instances.get(number).is_some_and(|instance| instance.runs_on.contains(&on)) {
            return Err(Failure { code: 400, error: "The instance is already running".to_owned() });
        }
        self.start_instance(at, number, on).map_err(|error| Failure { code: 500, error })
    }

    fn stop(&mut self, at: At, name: &InstanceName, on: usize) -> Result<(), Failure> {
        let number = self.existing(name)?;
        if !self.instances.get(number).is_some_and(|instance| instance.runs_on.contains(&on)) {
            return Err(Failure { code: 400, error: "The instance is already stopped".to_owned() });
        }
        self.stop_instance(at, number, on);
        Ok(())
    }

    /// Stops what runs on a member and, if it is asked for, starts what can move on other members. Returns the last
    /// thing that it did.
    fn evacuate(&mut self, at: At, member: usize, migrate: bool) -> Option<String> {
        let running: Vec<InstanceName> = self
            .instances
            .iter()
            .filter(|instance| instance.location == member && instance.runs_on.contains(&member))
            .map(Instance::name)
            .collect();
        let mut progress = None;
        for name in running {
            let Some(number) = self.find(&name) else { continue };
            self.stop_instance(at, number, member);
            progress = Some(format!("Stopping {:?} in project {:?}", name.name, name.project));
            let Some(number) = self.find(&name) else { continue };
            let movable = self.instances.get(number).is_some_and(|instance| {
                let stays = instance.plan.evacuate.as_deref().is_some_and(|word| word.contains("stop"));
                self.is_shared(&instance.plan.pool) && !instance.plan.local_device && !stays
            });
            let target = (0..self.machines.len()).find(|other| {
                *other != member
                    && self.machines.get(*other).is_some_and(|m| m.connected() && m.status.is_none())
            });
            if let Some(instance) = self.instances.get_mut(number) {
                instance.evacuated = true;
                instance.last_ran = true;
            }
            if let (true, true, Some(target)) = (migrate, movable, target) {
                let moved = self.move_instance(at, &name, target);
                if moved.is_ok() {
                    drop(self.start(at, &name, target));
                }
                progress = Some(format!(
                    "Migrating {:?} in project {:?} to {:?}",
                    name.name,
                    name.project,
                    self.name(target)
                ));
            }
        }
        progress
    }

    /// Ends an evacuation: what it has stopped on its member runs again.
    fn restore(&mut self, at: At, member: usize) -> Option<String> {
        self.set_status(member, None);
        let stopped: Vec<InstanceName> = self
            .instances
            .iter()
            .filter(|instance| instance.evacuated && instance.location == member)
            .map(Instance::name)
            .collect();
        let mut progress = None;
        for name in stopped {
            progress = Some(format!("Starting {:?} in project {:?}", name.name, name.project));
            drop(self.start(at, &name, member));
            if let Some(instance) = self.find(&name).and_then(|number| self.instances.get_mut(number)) {
                instance.evacuated = false;
            }
        }
        progress
    }
}

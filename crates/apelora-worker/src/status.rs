//! The document that a leader publishes: filled from the machine, the latest pass, the map and the latest checks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use apelora_fencing::map::{MapEntry, MapState};
use apelora_fencing::status::{
    CheckStatus, InProgress, InstanceStatus, MapCondition, MapStatus, MappedStatus, MemberStatus, PassStatus,
    Status,
};
use apelora_fencing::view::{ClusterView, SecondView};
use apelora_fencing::{BootTime, MemberName, ReasonCode, Supervisor, World};

use crate::config::WorkerConfig;
use crate::shell::Passed;

/// The latest reading of a BMC outside of a power-off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastCheck {
    /// When.
    pub(crate) at: BootTime,
    /// What would stop a power-off.
    pub(crate) reason: Option<ReasonCode>,
    /// What was read, or what is wrong.
    pub(crate) detail: String,
}

/// What is known beside the machine.
#[derive(Debug)]
pub(crate) struct Sheet {
    view: Option<ClusterView>,
    second: Option<MemberName>,
    problem: Option<String>,
    map: MapState,
    map_problem: Option<String>,
    map_warnings: Vec<String>,
    checks: BTreeMap<MemberName, LastCheck>,
}

impl Default for Sheet {
    fn default() -> Self {
        Self {
            view: None,
            second: None,
            problem: None,
            map: MapState::Absent,
            map_problem: None,
            map_warnings: Vec::new(),
            checks: BTreeMap::new(),
        }
    }
}

impl Sheet {
    /// A pass was read.
    pub(crate) fn passed(&mut self, passed: &Passed) {
        let pass = &passed.pass;
        self.problem = pass.view.as_ref().err().map(ToString::to_string);
        self.view = pass.view.as_ref().ok().cloned();
        self.second = match &pass.second {
            SecondView::Seen(second) => Some(second.responder().clone()),
            SecondView::Missing => None,
        };
        self.map = pass.map.clone();
        self.map_problem = passed.map_problem.clone();
        self.map_warnings = passed.map_warnings.clone();
        if let MapState::Valid(map) = &self.map {
            self.checks.retain(|member, _| map.get(member).is_some());
        }
    }

    /// A BMC was read; whether the result is another one than before.
    pub(crate) fn checked(&mut self, member: &MemberName, check: LastCheck) -> bool {
        let reason = check.reason;
        let before = self.checks.insert(member.clone(), check);
        before.is_none_or(|before| before.reason != reason)
    }

    /// The document, as of `now`.
    pub(crate) fn fill(
        &self,
        now: BootTime,
        config: &WorkerConfig,
        supervisor: &Supervisor,
        instances: &dyn Fn(&MemberName) -> Vec<InstanceStatus>,
    ) -> Status {
        let mut members = supervisor.decision().map(MemberStatus::of).unwrap_or_default();
        for status in &mut members {
            status.check = self.checks.get(&status.member).map(|check| check.status(now));
            status.instances = instances(&status.member);
        }
        let in_progress = supervisor.in_progress();
        Status {
            worker: config.host.clone(),
            dry_run: config.dry_run,
            pass: supervisor.world().zip(supervisor.judged_at()).map(|(world, at)| self.pass(now, at, world)),
            in_progress: in_progress.map(|(member, record)| InProgress { member: member.clone(), record }),
            map: self.map_status(),
            members,
            settings: config.effective.clone(),
        }
    }

    fn pass(&self, now: BootTime, judged_at: BootTime, world: &World) -> PassStatus {
        PassStatus {
            age_ms: millis(now.since(judged_at)),
            responder: self.view.as_ref().map(|view| view.responder().clone()),
            second: self.second.clone(),
            problem: self.problem.clone(),
            world: world.clone(),
        }
    }

    fn map_status(&self) -> MapStatus {
        let (condition, map) = match &self.map {
            MapState::Absent => (MapCondition::None, None),
            MapState::Invalid => (MapCondition::Invalid, None),
            MapState::Valid(map) => (MapCondition::Valid, Some(map)),
        };
        let entries = || map.into_iter().flat_map(|map| map.iter());
        let unlisted =
            entries().filter(|(member, _)| self.view.as_ref().is_some_and(|v| v.status(member).is_none()));
        let missing = self
            .view
            .iter()
            .flat_map(ClusterView::members)
            .filter(|l| map.is_some_and(|m| m.get(&l.name).is_none()));
        let unlisted = unlisted.map(|(member, _)| {
            format!("The map names {member}, which is no member of the cluster: correct or remove the entry.")
        });
        let missing =
            missing.map(|l| format!("The map does not name {}: it cannot be switched off.", l.name));
        let warnings = self.map_warnings.iter().cloned().chain(unlisted).chain(missing).collect();
        MapStatus {
            condition,
            sha256: map.map(|map| map.sha().to_string()),
            problem: self.map_problem.clone(),
            warnings,
            members: entries().map(|(member, entry)| mapped(member, entry)).collect(),
        }
    }
}

impl LastCheck {
    fn status(&self, now: BootTime) -> CheckStatus {
        CheckStatus {
            age_ms: millis(now.since(self.at)),
            reason: self.reason.map(|reason| reason.as_str().to_owned()),
            detail: self.detail.clone(),
        }
    }
}

fn mapped(member: &MemberName, entry: &MapEntry) -> MappedStatus {
    MappedStatus {
        member: member.clone(),
        provider: entry.provider().as_str().to_owned(),
        target: entry.target(),
        uuid: entry.identity.uuid().map(|uuid| uuid.to_string()),
        secrets: entry.access.secrets().map(|name| name.as_str().to_owned()).collect(),
    }
}

/// Whole milliseconds.
pub(crate) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// What a document says, without the numbers that change by themselves: two with the same gist need not both be published
/// at once.
pub(crate) fn gist(status: &Status) -> String {
    let mut gist = String::new();
    if let Some(pass) = &status.pass {
        let _ = write!(gist, "{:?} {:?};", pass.problem, pass.world.open);
        for member in &pass.world.members {
            let _ = write!(gist, "{} {:?} {:?};", member.name, member.status, member.proof);
        }
    }
    let _ = write!(gist, "{:?};{:?};", status.in_progress, status.map);
    for member in &status.members {
        let reasons: Vec<_> = member.guards.iter().map(|guard| &guard.reason).collect();
        let check = member.check.as_ref().map(|check| (&check.reason, &check.detail));
        let _ =
            write!(gist, "{} {} {reasons:?} {check:?} {:?};", member.member, member.action, member.instances);
    }
    gist
}

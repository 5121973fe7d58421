//! What the status document tells about instances.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::restart::{Instance, Plan};
use apelora_fencing::status::InstanceStatus;
use apelora_fencing::{Incarnation, MemberName};

use super::ledger::Ledger;
use super::seen::Off;

/// The plans of the latest pass.
#[derive(Default)]
pub(super) struct Board(Mutex<Plans>);

#[derive(Default)]
struct Plans {
    planned: BTreeMap<MemberName, Vec<InstanceStatus>>,
    /// The lives that ended and were not followed by another one yet.
    fenced: BTreeMap<MemberName, Off>,
}

impl Board {
    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What would become of the instances of each member.
    pub(super) fn plan(&self, planned: BTreeMap<MemberName, Vec<InstanceStatus>>) {
        self.plans().planned = planned;
    }

    /// Which members are proven off.
    pub(super) fn fenced(&self, fenced: BTreeMap<MemberName, Off>) {
        self.plans().fenced = fenced;
    }

    /// What proves a member off, in the life that ended with it.
    pub(super) fn off(&self, member: &MemberName) -> Option<Off> {
        self.plans().fenced.get(member).copied()
    }

    /// The life of a member that is proven off.
    pub(super) fn fenced_life(&self, member: &MemberName) -> Option<Incarnation> {
        self.off(member).map(|off| off.incarnation)
    }

    /// The restarts of a fenced member, and plans for what has none yet.
    pub(super) fn of(&self, member: &MemberName, ledger: &Ledger) -> Vec<InstanceStatus> {
        let plans = self.plans();
        let life = plans.fenced.get(member).map(|off| (member.clone(), off.incarnation));
        let begun = life.map(|life| ledger.of(&life)).unwrap_or_default();
        let begun = begun.iter().map(progress);
        let planned = plans.planned.get(member).into_iter().flatten().cloned();
        // What is begun takes the place of its plan.
        let all = planned.chain(begun).map(|status| ((status.project.clone(), status.name.clone()), status));
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }
}

/// What is planned for an instance.
pub(super) fn planned(instance: &Instance, plan: &Plan) -> InstanceStatus {
    let (word, target, sentence) = match plan {
        Plan::Restart(to) => ("restart", Some(to), format!("It would be moved to {to} and started there.")),
        Plan::Move(to) => {
            ("move", Some(to), format!("It would be moved to {to} and not started, as it is configured."))
        }
        Plan::Stay(stays) => ("stay", None, stays.sentence().to_owned()),
    };
    InstanceStatus {
        project: instance.project.clone(),
        name: instance.name.clone(),
        plan: word.to_owned(),
        target: target.cloned(),
        sentence,
    }
}

/// How far a restart is.
fn progress(row: &RecoveryRow) -> InstanceStatus {
    let to = row.target.as_ref().map_or("another member", MemberName::as_str);
    let word = match (row.step, row.start) {
        (Step::Stays, _) => "stay",
        (_, true) => "restart",
        (_, false) => "move",
    };
    let trouble = match (row.attempts, row.detail.as_str()) {
        (_, "") => String::new(),
        (0, detail) => format!(" Last heard: {detail}."),
        (attempts, detail) => format!(" Failed attempts: {attempts}; the last one: {detail}."),
    };
    let sentence = match row.step {
        // The detail is a whole sentence.
        Step::Planned if row.target.is_none() => format!("It waits. {}", row.detail),
        Step::Planned => format!("It is going to be moved to {to}.{trouble}"),
        Step::Moving => format!("It is being moved to {to}.{trouble}"),
        Step::Moved => format!("It was moved to {to} and is going to be started.{trouble}"),
        Step::Starting => format!("It is on {to} and is being started.{trouble}"),
        Step::Done => format!("It {}.", row.detail),
        Step::Stays => row.detail.clone(),
        Step::GaveUp => format!("Given up: {}.", row.detail),
    };
    InstanceStatus {
        project: row.project.clone(),
        name: row.instance.clone(),
        plan: word.to_owned(),
        target: row.target.clone(),
        sentence,
    }
}

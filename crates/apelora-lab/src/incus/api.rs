//! What a member answers to a request (`tests/data/incus/README.md`).

use serde_json::{Value, json};

use crate::incus::call::{Call, Caller};
use crate::incus::clock::{At, MILLISECOND, SECOND};
use crate::incus::database::{Found, Query};
use crate::incus::envelope::Answer;
use crate::incus::instance::Instance;
use crate::incus::machine::{Machine, Os};
use crate::incus::operation::{Action, Operation};
use crate::incus::truth::InstanceName;
use crate::incus::world::World;

/// A call that is forwarded to a member that has gone gives up after this long.
const FORWARD: i64 = 10 * SECOND;
/// As [`FORWARD`], for a member that stands still: its kernel still takes connections.
const FORWARD_FROZEN: i64 = 30 * SECOND;

/// What comes next for a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// This answer.
    Answer(Answer),
    /// This answer, at that time, whatever happens meanwhile.
    At(At, Answer),
    /// Ask again a little later.
    Again,
    /// The answer begins at once, and goes on when this operation has ended or at that time, if there is one.
    Follow(String, Option<At>),
}

/// A request on its way.
pub(super) struct Asked<'a> {
    /// The member that was asked.
    pub(super) member: usize,
    pub(super) caller: &'a Caller,
    pub(super) call: &'a Call,
    /// When.
    pub(super) at: At,
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

fn not_found() -> Step {
    Answer::error(404, "not found").into()
}

impl World {
    /// Goes on with a request.
    pub(super) fn go_on(&mut self, asked: &Asked<'_>, now: At) -> Step {
        self.try_to(asked, now).unwrap_or_else(|step| step)
    }

    fn try_to(&mut self, asked: &Asked<'_>, now: At) -> Result<Step, Step> {
        let restricted = self.restriction(asked.caller);
        let path: Vec<&str> = asked.call.path.iter().map(String::as_str).collect();
        let method = asked.call.method.as_str();
        if let ("GET", []) = (method, path.as_slice()) {
            let restricted = restricted.map(|projects| projects.is_some());
            return Ok(Answer::sync(&self.show_server(asked.member, asked.caller, restricted)).into());
        }
        let Some(projects) = restricted else { return Err(Answer::error(403, "not authorized").into()) };
        if self.failing.is_some() && self.failing.as_deref() == path.first().copied() {
            return Err(Answer::error(500, "database is locked").into());
        }
        match (method, path.as_slice()) {
            ("GET", ["cluster"]) => {
                self.need_database(asked, Query::Other, now)?;
                Ok(Answer::sync(&self.show_cluster(asked.member)).into())
            }
            ("GET", ["cluster", "members"]) => {
                self.need_database(asked, Query::Members, now)?;
                Ok(Answer::sync(&self.show_members(asked, now)).into())
            }
            ("GET", ["cluster", "members", name]) => {
                self.need_database(asked, Query::Members, now)?;
                let member = self.need_member(name)?;
                Ok(Answer::sync(&self.show_member(asked.member, member, now)).into())
            }
            ("GET", ["cluster", "members", name, "state"]) => {
                self.need_database(asked, Query::Other, now)?;
                let member = self.need_member(name)?;
                self.forward(asked.member, member, now)?;
                Ok(Answer::sync(&self.show_member_state(member, now)).into())
            }
            ("POST", ["cluster", "members", name, "state"]) => {
                not_restricted(projects.as_ref(), 403)?;
                self.need_database(asked, Query::Other, now)?;
                let member = self.need_member(name)?;
                self.forward(asked.member, member, now)?;
                self.change_member(member, &asked.call.body, now)
            }
            ("GET", ["instances"]) => {
                self.need_database(asked, Query::Instances, now)?;
                self.list_instances(asked, projects.as_deref(), now)
            }
            ("GET", ["instances", name]) => {
                let number = self.need_instance(asked, name, projects.as_deref(), now)?;
                let location = self.location(number);
                self.forward(asked.member, location, now)?;
                let (look, whole) = (self.look(asked.member, number), asked.call.recursion() > 0);
                let shown = self.instances.get(number).map(|i| i.show(&self.name(location), look, whole));
                Ok(Answer::sync(&shown.unwrap_or_default()).into())
            }
            ("POST", ["instances", name]) => {
                let number = self.need_instance(asked, name, projects.as_deref(), now)?;
                self.begin_move(asked, number, now)
            }
            ("PUT", ["instances", name, "state"]) => {
                let number = self.need_instance(asked, name, projects.as_deref(), now)?;
                self.change_instance(asked, number, now)
            }
            ("GET", ["storage-pools"]) => {
                not_restricted(projects.as_ref(), 500)?;
                self.need_database(asked, Query::Other, now)?;
                Ok(Answer::sync(&self.show_pools()).into())
            }
            ("GET", ["warnings"]) => {
                not_restricted(projects.as_ref(), 403)?;
                self.need_database(asked, Query::Other, now)?;
                Ok(Answer::sync(&self.show_warnings(now)).into())
            }
            ("GET", ["operations", id]) => {
                let operation = self.need_operation(asked, id)?;
                Ok(Answer::sync(&operation.show(&self.name(operation.location))).into())
            }
            ("GET", ["operations", id, "wait"]) => {
                self.need_operation(asked, id)?;
                let timeout = asked.call.query("timeout").and_then(|text| text.parse::<i64>().ok());
                let until =
                    timeout.filter(|seconds| *seconds >= 0).map(|seconds| asked.at + seconds * SECOND);
                Ok(Step::Follow((*id).to_owned(), until))
            }
            _ => Ok(not_found()),
        }
    }

    /// Whether an operation has ended, for somebody who waits for it: the body of the answer, if it is time for one.
    pub(super) fn follow(&self, asked: &Asked<'_>, id: &str, until: Option<At>, now: At) -> Option<Value> {
        let operation = match self.need_operation(asked, id) {
            Ok(operation) => operation,
            Err(Step::Answer(answer)) => return Some(answer.body),
            Err(_) => return None,
        };
        match &operation.outcome {
            Some(Ok(())) => Some(Answer::sync(&operation.show(&self.name(operation.location))).body),
            Some(Err(failure)) => Some(Answer::error(failure.code, &failure.error).body),
            None if until.is_some_and(|until| until <= now) => {
                Some(Answer::error(500, "context deadline exceeded").body)
            }
            None => None,
        }
    }

    /// `None`: not trusted. Otherwise the projects that the caller is restricted to, if any.
    fn restriction(&self, caller: &Caller) -> Option<Option<Vec<String>>> {
        match caller {
            Caller::Socket => Some(None),
            Caller::Tls(fingerprint) => self.trusted.get(fingerprint.as_ref()?).cloned(),
        }
    }

    fn need_database(&self, asked: &Asked<'_>, query: Query, now: At) -> Result<(), Step> {
        match self.find_database(asked.member, query, asked.at, now) {
            Found::Yes => Ok(()),
            Found::NotYet => Err(Step::Again),
            Found::No { status, error } => Err(Answer::error(status, error).into()),
        }
    }

    fn need_member(&self, name: &str) -> Result<usize, Step> {
        self.member(name).ok_or_else(|| Answer::error(404, "Cluster member not found").into())
    }

    fn need_instance(
        &self,
        asked: &Asked<'_>,
        name: &str,
        projects: Option<&[String]>,
        now: At,
    ) -> Result<usize, Step> {
        let project = asked.call.project();
        need_project(projects, project)?;
        self.need_database(asked, Query::Other, now)?;
        let name = InstanceName { project: project.to_owned(), name: name.to_owned() };
        self.find(&name).ok_or_else(|| Answer::error(404, "Instance not found").into())
    }

    /// An operation lives in the memory of one member; who cannot ask that one does not find it.
    fn need_operation(&self, asked: &Asked<'_>, id: &str) -> Result<&Operation, Step> {
        let operation = self.operations.iter().find(|operation| operation.id == id);
        let reached = operation.filter(|operation| {
            operation.location == asked.member
                || self.machines.get(operation.location).is_some_and(Machine::connected)
        });
        reached.ok_or_else(|| Answer::error(404, "Operation not found").into())
    }

    fn location(&self, number: usize) -> usize {
        self.instances.get(number).map_or(0, |instance| instance.location)
    }

    /// Whether a call can be forwarded to a member.
    fn forward(&self, asked: usize, to: usize, now: At) -> Result<(), Step> {
        let Some(machine) = self.machines.get(to) else { return Err(not_found()) };
        if asked == to || machine.known() {
            return Ok(());
        }
        if self.is_offline(asked, to, now) {
            return Err(Answer::error(500, "Server isn't ready yet").into());
        }
        let wait = if machine.os == Os::Frozen { FORWARD_FROZEN } else { FORWARD };
        Err(Step::At(now + wait, Answer::error(500, "Missing event connection with target cluster member")))
    }

    fn show_members(&self, asked: &Asked<'_>, now: At) -> Value {
        let all =
            (0..self.machines.len()).filter(|member| self.machines.get(*member).is_some_and(|m| !m.removed));
        if asked.call.recursion() == 0 {
            return all.map(|member| json!(format!("/1.0/cluster/members/{}", self.name(member)))).collect();
        }
        all.map(|member| self.show_member(asked.member, member, now)).collect()
    }

    fn list_instances(&self, asked: &Asked<'_>, projects: Option<&[String]>, now: At) -> Result<Step, Step> {
        let call = asked.call;
        if !call.all_projects() {
            need_project(projects, call.project())?;
        }
        let wanted = |project: &String| match (call.all_projects(), projects) {
            (true, Some(projects)) => projects.contains(project),
            (true, None) => true,
            (false, _) => project == call.project(),
        };
        let listed: Vec<usize> = (0..self.instances.len())
            .filter(|number| self.instances.get(*number).is_some_and(|i| wanted(&i.plan.project)))
            .collect();
        if call.recursion() == 0 {
            let urls: Value =
                listed.iter().filter_map(|number| self.instances.get(*number)).map(Instance::url).collect();
            return Ok(Answer::sync(&urls).into());
        }
        // The list waits for members that have gone and are not yet known to have.
        let mut wait = 0;
        for number in &listed {
            let location = self.location(*number);
            let Some(machine) = self.machines.get(location) else { continue };
            if location != asked.member
                && !machine.connected()
                && !self.is_offline(asked.member, location, now)
            {
                wait = wait.max(match machine.os {
                    Os::Frozen => FORWARD_FROZEN,
                    Os::Up if machine.cut_since.is_none() => 2 * MILLISECOND,
                    _ => FORWARD,
                });
            }
        }
        let whole = call.recursion() > 1;
        let shown: Value = listed
            .iter()
            .filter_map(|number| {
                let instance = self.instances.get(*number)?;
                let look = self.look(asked.member, *number);
                Some(instance.show(&self.name(instance.location), look, whole))
            })
            .collect();
        Ok(if wait == 0 { Answer::sync(&shown).into() } else { Step::At(now + wait, Answer::sync(&shown)) })
    }

    fn begin_move(&mut self, asked: &Asked<'_>, number: usize, now: At) -> Result<Step, Step> {
        let refuse = |text: &str| Err(Answer::error(400, text).into());
        let source = self.location(number);
        let lost = source != asked.member && !self.machines.get(source).is_some_and(Machine::known);
        let offline = lost && self.is_offline(asked.member, source, now);
        let body = &asked.call.body;
        let Some(target) = asked.call.query("target").filter(|target| !target.is_empty()) else {
            return refuse(if offline {
                "Can't perform action as server is currently offline"
            } else {
                // The text is not recorded.
                "Instance name or target required"
            });
        };
        let target = self.need_member(target)?;
        if self.is_offline(asked.member, target, now) {
            return refuse("Target cluster member is offline");
        }
        if target == source {
            return refuse("Requested target server is the same as current server");
        }
        // The text is not recorded.
        if body["migration"] != true {
            return refuse("Migration must be requested");
        }
        if offline && ["name", "pool", "project"].iter().any(|key| body.get(key).is_some()) {
            return refuse("Instance server is currently offline");
        }
        if !offline {
            self.forward(asked.member, source, now)?;
        }
        let Some(instance) = self.instances.get(number) else { return Ok(not_found()) };
        if !lost && instance.runs_on.contains(&source) {
            return refuse("Instance must be stopped to be moved statelessly");
        }
        if instance.plan.backup {
            return refuse("Instances with backups cannot be moved");
        }
        let action = Action::Move { instance: instance.name(), to: target };
        self.forward(asked.member, target, now)?;
        Ok(Answer::operation(&self.begin(now, target, action)).into())
    }

    fn change_instance(&mut self, asked: &Asked<'_>, number: usize, now: At) -> Result<Step, Step> {
        let location = self.location(number);
        self.forward(asked.member, location, now)?;
        let Some(instance) = self.instances.get(number).map(Instance::name) else {
            return Ok(not_found());
        };
        let action = match asked.call.body["action"].as_str() {
            Some("start") => Action::Start { instance },
            Some("stop") => Action::Stop { instance },
            other => {
                let text = format!("Unknown action {:?}", other.unwrap_or_default());
                return Err(Answer::error(400, &text).into());
            }
        };
        Ok(Answer::operation(&self.begin(now, location, action)).into())
    }

    fn change_member(&mut self, member: usize, body: &Value, now: At) -> Result<Step, Step> {
        let migrate = !body["mode"].as_str().is_some_and(|mode| mode.contains("stop"));
        let action = match body["action"].as_str() {
            Some("evacuate") => Action::Evacuate { migrate },
            Some("restore") => Action::Restore,
            other => {
                let text = format!("Unknown action {:?}", other.unwrap_or_default());
                return Err(Answer::error(400, &text).into());
            }
        };
        Ok(Answer::operation(&self.begin(now, member, action)).into())
    }
}

fn not_restricted(projects: Option<&Vec<String>>, status: u16) -> Result<(), Step> {
    projects.map_or(Ok(()), |_| Err(Answer::error(status, "Certificate is restricted").into()))
}

fn need_project(projects: Option<&[String]>, project: &str) -> Result<(), Step> {
    if projects.is_none_or(|projects| projects.iter().any(|known| known == project)) {
        return Ok(());
    }
    Err(Answer::error(403, &format!("User does not have permissions for project {project:?}")).into())
}

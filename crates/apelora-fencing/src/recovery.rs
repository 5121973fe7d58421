//! The restart of one instance of a fenced member, step by step.
//!
//! The rules that matter are here, without I/O: nothing is moved or started without permission asked for directly
//! before; nothing is moved or started on a memory of where it was, only right after looking; the step is stored before
//! it is taken, so that after a crash the next leader looks and goes on instead of repeating or forgetting; and an
//! instance that somebody else touched is left to them. Whether there is permission says
//! [`crate::Supervisor::may_recover`], what is to be moved where [`crate::restart::plan`].
//!
//! A move changes only the cluster's database and succeeds whatever the old server does; the storage's own lease is met
//! at the start, which fails without a side effect until the lease has ended (tests/data/incus/README.md section 3).
//! That is why a start is tried again for long.

use std::time::Duration;

use crate::name::{Incarnation, MemberName};

/// Starts and moves are tried this often before a person is needed: half an hour, far beyond the 140 s that a storage
/// lease of a dead host lasts.
pub const MOST_ATTEMPTS: u32 = 64;

/// Starts that the cluster calls done, and after which the instance does not run: it ends by itself, and is not started over
/// and over.
const MOST_IN_VAIN: u32 = 3;

/// How far the restart of an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// It is to be moved.
    Planned,
    /// A move was, or may have been, asked for.
    Moving,
    /// It is at its target.
    Moved,
    /// A start was, or may have been, asked for.
    Starting,
    /// It runs at its target, or is there as it was meant to be: stopped.
    Done,
    /// It is not to be moved.
    Stays,
    /// Ended without success; a person decides.
    GaveUp,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Planned, Self::Moving, Self::Moved, Self::Starting, Self::Done, Self::Stays, Self::GaveUp];

    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Moving => "moving",
            Self::Moved => "moved",
            Self::Starting => "starting",
            Self::Done => "done",
            Self::Stays => "stays",
            Self::GaveUp => "gave_up",
        }
    }

    /// The step of a stable word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }

    /// Whether nothing more is done.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Stays | Self::GaveUp)
    }
}

/// The stored state of one restart, kept by (member, incarnation, project, instance).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecoveryRow {
    /// The fenced member.
    pub member: MemberName,
    /// The life of it that ended.
    pub incarnation: Incarnation,
    /// The instance's project.
    pub project: String,
    /// The instance.
    pub instance: String,
    /// Where to; absent when it stays.
    pub target: Option<MemberName>,
    /// Whether it is started there, or only moved.
    pub start: bool,
    /// How far it is.
    pub step: Step,
    /// How often the step was tried in vain.
    pub attempts: u32,
    /// The last word about it, for people.
    pub detail: String,
}

/// Whether the next move or start may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Now.
    Granted,
    /// Not now: the cluster cannot be read, say. Ask again.
    NotNow,
    /// Never again for this life of the member: it is back, or its proof was withdrawn.
    Over,
}

/// Where an instance is by the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// There is no such instance any more.
    Gone,
    /// On this member, running or not.
    At {
        /// Which.
        member: MemberName,
        /// Whether it runs.
        running: bool,
    },
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Store the row. Nothing else may be done before it is stored.
    Note(RecoveryRow),
    /// Ask the cluster where the instance is.
    Look,
    /// Ask the cluster to move it there.
    Move(MemberName),
    /// Ask the cluster to start it.
    Start,
    /// Wait, then ask again.
    Rest(Duration),
    /// Nothing any more.
    End,
}

/// What became of an act.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// Of [`Act::Note`]: stored.
    Noted,
    /// Of [`Act::Look`].
    Place(Place),
    /// Of [`Act::Look`]: the cluster does not say.
    Unreadable(String),
    /// Of [`Act::Move`] and [`Act::Start`]: it failed, or nobody knows. The text is for people.
    Trouble(String),
    /// Of [`Act::Move`] and [`Act::Start`]: the cluster says that it succeeded.
    Accepted,
    /// Of [`Act::Rest`].
    Rested,
}

/// The restart of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Restart {
    row: RecoveryRow,
    /// What is stored, as far as known.
    stored: Option<RecoveryRow>,
    /// Where the instance is, looked at after the last act.
    place: Option<Place>,
    /// To be waited for before the next act.
    rest: Option<Duration>,
    /// Whether somebody has to be told that the instance may be running twice.
    doubtful: bool,
    /// Members to which a move may have been asked for before there was another target: it may still come about.
    former: Vec<MemberName>,
    /// The cluster said that the latest move or start succeeded, and nobody has looked since.
    accepted: bool,
    /// How many starts succeeded by the cluster's word, and the instance did not run afterwards.
    starts_in_vain: u32,
}

impl Restart {
    /// A restart that was planned and of which nothing is stored.
    pub const fn planned(row: RecoveryRow) -> Self {
        Self {
            row,
            stored: None,
            place: None,
            rest: None,
            doubtful: false,
            former: Vec::new(),
            accepted: false,
            starts_in_vain: 0,
        }
    }

    /// A restart that a leader goes on with from what is stored.
    pub fn resumed(row: RecoveryRow) -> Self {
        Self { stored: Some(row.clone()), ..Self::planned(row) }
    }

    /// Its state.
    pub const fn row(&self) -> &RecoveryRow {
        &self.row
    }

    /// Whether it ended although the instance may run on a server that is back, so that a second copy would share its
    /// storage.
    pub const fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Another target, as long as the instance was not seen at the present one. If a move to that was asked for and still
    /// comes about, that is the target again.
    pub fn retarget(&mut self, target: Option<MemberName>) {
        if self.row.step > Step::Moving || self.row.target == target {
            return;
        }
        let before = std::mem::replace(&mut self.row.target, target);
        if self.row.step == Step::Moving {
            self.former.extend(before);
        }
    }

    /// What to do next, given the permission of this moment.
    pub fn next(&mut self, permission: Permission) -> Act {
        if !self.row.step.is_end() && permission == Permission::Over {
            self.over();
        }
        if self.stored.as_ref() != Some(&self.row) {
            return Act::Note(self.row.clone());
        }
        if self.row.step.is_end() {
            return Act::End;
        }
        if let Some(rest) = self.rest {
            return Act::Rest(rest);
        }
        let Some(place) = self.place.clone() else { return Act::Look };
        if let Place::At { member, .. } = &place
            && self.former.contains(member)
            && self.row.step <= Step::Moving
        {
            self.row.target = Some(member.clone());
        }
        if self.runs_at_home(&place) {
            let why = format!("it runs on {}, which may be back", self.row.member);
            self.place = None;
            self.heard(Heard::Unreadable(why));
            return self.next(permission);
        }
        let (step, act) = match self.at(&place) {
            Ok(planned) => planned,
            Err((step, why)) => {
                self.end(step, why);
                return Act::Note(self.row.clone());
            }
        };
        if self.row.step != step {
            self.row.attempts = 0;
            self.row.step = step;
            self.accepted = false;
            return Act::Note(self.row.clone());
        }
        if std::mem::take(&mut self.accepted) {
            self.in_vain(&act);
            return self.next(permission);
        }
        if matches!(act, Act::Move(_) | Act::Start) {
            if permission != Permission::Granted {
                self.place = None;
                return Act::Rest(PAUSE);
            }
            // What was seen is used up by acting on it.
            self.place = None;
        }
        act
    }

    /// Takes what became of the act.
    pub fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Noted => {
                self.stored = Some(self.row.clone());
                self.place = None;
            }
            Heard::Place(place) => self.place = Some(place),
            Heard::Rested => self.rest = None,
            Heard::Accepted => self.accepted = true,
            // Not an attempt: an hour without the cluster must not use them up.
            Heard::Unreadable(why) => {
                self.row.detail = why;
                self.rest = Some(PAUSE);
            }
            Heard::Trouble(why) => {
                self.row.attempts += 1;
                self.row.detail = why;
                self.rest = Some(pause_after(self.row.attempts));
                if self.row.attempts >= MOST_ATTEMPTS {
                    let why = format!("given up after {MOST_ATTEMPTS} attempts: {}", self.row.detail);
                    self.end(Step::GaveUp, why);
                }
            }
        }
    }

    /// The cluster said that the act succeeded, and it would have to be done again.
    fn in_vain(&mut self, act: &Act) {
        self.place = None;
        let is_start = *act == Act::Start;
        self.starts_in_vain += u32::from(is_start);
        let what = if is_start { "started, but it does not run" } else { "moved, but it is where it was" };
        self.heard(Heard::Trouble(format!("the cluster says that it was {what}")));
        if self.starts_in_vain >= MOST_IN_VAIN && !self.row.step.is_end() {
            let why = format!(
                "it was started {MOST_IN_VAIN} times, and did not run afterwards: look at its own log"
            );
            self.end(Step::GaveUp, why);
        }
    }

    /// Whether its own server tells that it runs there: whoever answers is not off, and nothing is moved away from it.
    fn runs_at_home(&self, place: &Place) -> bool {
        let at_home = matches!(place, Place::At { member, running: true } if *member == self.row.member);
        at_home && self.row.step <= Step::Moving && self.row.target.as_ref() != Some(&self.row.member)
    }

    /// Whether it was last seen running at home, which nobody expects of a server that is off.
    pub fn seen_at_home(&self) -> bool {
        self.place.as_ref().is_some_and(|place| self.runs_at_home(place))
    }

    /// The member that it was moved to has failed too, and its restart goes on from there.
    pub fn followed(&mut self) {
        if let (false, Some(target)) = (self.row.step.is_end(), self.row.target.clone()) {
            let why = format!("{target}, where it was moved to, failed too; its restart goes on from there");
            self.end(Step::GaveUp, why);
        }
    }

    /// The step that fits where it is, and the act of that step; or how it ends.
    fn at(&self, place: &Place) -> Result<(Step, Act), (Step, String)> {
        let Place::At { member, running } = place else {
            return Err((Step::GaveUp, "it was deleted".to_owned()));
        };
        let Some(target) = &self.row.target else {
            let why = match *member == self.row.member {
                true => "there is no member to move it to".to_owned(),
                false => format!("somebody moved it to {member}; it is left to them"),
            };
            return Err((Step::GaveUp, why));
        };
        if member == target {
            return match (self.row.start, running) {
                (true, false) if self.row.step < Step::Moved => Ok((Step::Moved, Act::Look)),
                (true, false) => Ok((Step::Starting, Act::Start)),
                (true, true) => Err((Step::Done, self.runs_on(target))),
                (false, _) => Err((Step::Done, format!("is on {target}, not started, as it is configured"))),
            };
        }
        if *member != self.row.member {
            return Err((Step::GaveUp, format!("somebody moved it to {member}; it is left to them")));
        }
        if self.row.step >= Step::Moved {
            return Err((Step::GaveUp, format!("somebody moved it back to {member}; it is left to them")));
        }
        Ok((Step::Moving, Act::Move(target.clone())))
    }

    /// With the last trouble, which the audit trail would not tell otherwise.
    fn runs_on(&self, target: &MemberName) -> String {
        let RecoveryRow { step, attempts, detail, .. } = &self.row;
        if *step != Step::Starting || *attempts == 0 {
            return format!("runs on {target}");
        }
        format!("runs on {target}; starts that failed before: {attempts}, the last one with: {detail}")
    }

    fn end(&mut self, step: Step, why: String) {
        self.row.step = step;
        self.row.detail = why;
        self.rest = None;
    }

    /// The member is back, or its proof was withdrawn.
    fn over(&mut self) {
        let RecoveryRow { member, .. } = &self.row;
        // Nothing was asked for before its step was stored.
        let step = self.stored.as_ref().map_or(Step::Planned, |stored| stored.step);
        let why = match (step, &self.row.target) {
            (Step::Planned, _) | (_, None) => {
                format!("{member} is not proven off any more; it was not moved and starts there by itself")
            }
            (_, Some(target)) => {
                self.doubtful = true;
                format!(
                    "{member} is not proven off any more; it was, or may have been, moved to {target} and may run \
                     on {member} still: make sure that it does not before it is started"
                )
            }
        };
        self.end(Step::GaveUp, why);
    }
}

/// Between two questions for permission.
const PAUSE: Duration = Duration::from_secs(5);

/// Longer each time, up to half a minute.
fn pause_after(attempts: u32) -> Duration {
    (PAUSE * attempts).min(Duration::from_secs(30))
}

#[cfg(test)]
mod tests;

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
}

impl Restart {
    /// A restart that was planned and of which nothing is stored.
    pub const fn planned(row: RecoveryRow) -> Self {
        Self { row, stored: None, place: None, rest: None, doubtful: false, former: Vec::new() }
    }

    /// A restart that a leader goes on with from what is stored.
    pub fn resumed(row: RecoveryRow) -> Self {
        let stored = Some(row.clone());
        Self { row, stored, place: None, rest: None, doubtful: false, former: Vec::new() }
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
            return Act::Note(self.row.clone());
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
            Heard::Accepted => {}
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

    /// The step that fits where it is, and the act of that step; or how it ends.
    fn at(&self, place: &Place) -> Result<(Step, Act), (Step, String)> {
        let Place::At { member, running } = place else {
            return Err((Step::GaveUp, "it was deleted".to_owned()));
        };
        let Some(target) = &self.row.target else {
            return Err((Step::GaveUp, "there is no member to move it to".to_owned()));
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
        let RecoveryRow { member, step, .. } = &self.row;
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
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn row(start: bool) -> RecoveryRow {
        RecoveryRow {
            member: "s1".into(),
            incarnation: Incarnation(3),
            project: "default".into(),
            instance: "db".into(),
            target: Some("s2".into()),
            start,
            step: Step::Planned,
            attempts: 0,
            detail: String::new(),
        }
    }

    /// A cluster with one instance, and a leader that can die.
    struct Cluster {
        at: &'static str,
        running: bool,
        gone: bool,
        /// What the next moves and starts answer; true when nothing is left.
        answers: VecDeque<bool>,
        stored: Option<RecoveryRow>,
        acts: Vec<Act>,
    }

    impl Cluster {
        fn new(answers: &[bool]) -> Self {
            let answers = answers.iter().copied().collect();
            Self { at: "s1", running: false, gone: false, answers, stored: None, acts: Vec::new() }
        }

        /// Does what is asked for and returns what is heard, with what it promises checked.
        fn does(&mut self, act: Act, permission: Permission) -> Option<Heard> {
            let last_look = self.acts.last() == Some(&Act::Look);
            let stored = self.stored.as_ref().map(|r| r.step);
            if matches!(act, Act::Move(_) | Act::Start) {
                assert!(last_look, "acted on a memory: {:?}", self.acts);
                assert_eq!(permission, Permission::Granted);
            }
            let heard = match &act {
                Act::Note(row) => {
                    self.stored = Some(row.clone());
                    Heard::Noted
                }
                Act::Look if self.gone => Heard::Place(Place::Gone),
                Act::Look => Heard::Place(Place::At {
                    member: self.at.into(),
                    running: self.running && self.at == "s2",
                }),
                Act::Move(target) => {
                    assert_eq!((stored, target.as_str(), self.at), (Some(Step::Moving), "s2", "s1"));
                    if self.answers.pop_front().unwrap_or(true) {
                        self.at = "s2";
                        Heard::Accepted
                    } else {
                        Heard::Trouble("no".to_owned())
                    }
                }
                Act::Start => {
                    assert_eq!((stored, self.at, self.running), (Some(Step::Starting), "s2", false));
                    if self.answers.pop_front().unwrap_or(true) {
                        self.running = true;
                        Heard::Accepted
                    } else {
                        Heard::Trouble("locked".to_owned())
                    }
                }
                Act::Rest(_) => Heard::Rested,
                Act::End => return None,
            };
            self.acts.push(act);
            Some(heard)
        }

        /// Runs to the end; `permission` says what holds at each question.
        fn run(&mut self, restart: &mut Restart, mut permission: impl FnMut(usize) -> Permission) {
            for i in 0..2000 {
                let may = permission(i);
                let act = restart.next(may);
                let Some(heard) = self.does(act, may) else { return };
                restart.heard(heard);
            }
            panic!("no end: {:?}", restart.row());
        }

        fn granted(&mut self, restart: &mut Restart) {
            self.run(restart, |_| Permission::Granted);
        }

        fn count(&self, wanted: impl Fn(&Act) -> bool) -> usize {
            self.acts.iter().filter(|a| wanted(a)).count()
        }
    }

    #[test]
    fn moved_started_and_stored_as_done() {
        let mut cluster = Cluster::new(&[]);
        let mut restart = Restart::planned(row(true));
        cluster.granted(&mut restart);
        assert_eq!((restart.row().step, cluster.at, cluster.running), (Step::Done, "s2", true));
        assert_eq!(cluster.stored.as_ref(), Some(restart.row()));
        assert_eq!(cluster.count(|a| matches!(a, Act::Move(_))), 1);
        assert_eq!(cluster.count(|a| *a == Act::Start), 1);
    }

    #[test]
    fn only_moved_when_it_is_not_to_run() {
        let mut cluster = Cluster::new(&[]);
        let mut restart = Restart::planned(row(false));
        cluster.granted(&mut restart);
        assert_eq!((restart.row().step, cluster.at, cluster.running), (Step::Done, "s2", false));
    }

    #[test]
    fn a_start_is_tried_again_while_the_storage_holds_the_lease_and_not_for_ever() {
        let mut cluster = Cluster::new(&[true, false, false, false]);
        let mut restart = Restart::planned(row(true));
        cluster.granted(&mut restart);
        assert_eq!((restart.row().step, restart.row().attempts), (Step::Done, 3));
        let rests: Vec<_> = cluster.acts.iter().filter(|a| matches!(a, Act::Rest(_))).collect();
        assert_eq!(rests, [5, 10, 15].map(|s| Act::Rest(Duration::from_secs(s))).iter().collect::<Vec<_>>());

        let mut cluster = Cluster::new(&[[true].as_slice(), &[false; 100]].concat());
        let mut restart = Restart::planned(row(true));
        cluster.granted(&mut restart);
        assert_eq!(restart.row().step, Step::GaveUp);
        assert_eq!(cluster.count(|a| *a == Act::Start), MOST_ATTEMPTS as usize);
        assert!(restart.row().detail.contains("locked"), "{}", restart.row().detail);
    }

    #[test]
    fn a_leader_that_dies_anywhere_is_followed_by_one_that_finishes() {
        let whole = {
            let mut cluster = Cluster::new(&[false, true, false]);
            cluster.granted(&mut Restart::planned(row(true)));
            cluster.acts.len()
        };
        for (died_after, answered) in (0..whole).flat_map(|n| [(n, true), (n, false)]) {
            let mut cluster = Cluster::new(&[false, true, false]);
            let mut restart = Restart::planned(row(true));
            for i in 0..=died_after {
                let act = restart.next(Permission::Granted);
                // The last act is made or not, and its answer is lost.
                if i < died_after || answered {
                    let Some(heard) = cluster.does(act, Permission::Granted) else { break };
                    restart.heard(heard);
                }
            }
            let next = cluster.stored.clone();
            let mut restart = next.map_or_else(|| Restart::planned(row(true)), Restart::resumed);
            cluster.acts.clear();
            cluster.granted(&mut restart);
            assert_eq!(
                (restart.row().step, cluster.at, cluster.running),
                (Step::Done, "s2", true),
                "died after {died_after}"
            );
        }
    }

    #[test]
    fn nothing_moves_without_permission() {
        for refused in [Permission::NotNow, Permission::Over] {
            let mut cluster = Cluster::new(&[]);
            let mut restart = Restart::planned(row(true));
            let until = 40;
            cluster.run(&mut restart, |i| if i < until { refused } else { Permission::Granted });
            if refused == Permission::NotNow {
                assert_eq!(restart.row().step, Step::Done);
                assert!(cluster.count(|a| matches!(a, Act::Rest(_))) > 5);
            } else {
                assert_eq!((restart.row().step, cluster.at), (Step::GaveUp, "s1"));
                assert!(!restart.is_doubtful(), "it was never moved");
            }
        }
    }

    #[test]
    fn a_server_that_is_back_ends_it_and_whoever_was_moved_is_doubtful() {
        let mut cluster = Cluster::new(&[true, false, false, false, false]);
        let mut restart = Restart::planned(row(true));
        let mut moved = false;
        let mut starts = 0;
        for i in 0..200 {
            let may = if starts < 2 { Permission::Granted } else { Permission::Over };
            let act = restart.next(may);
            moved |= matches!(act, Act::Move(_));
            starts += usize::from(act == Act::Start);
            let Some(heard) = cluster.does(act, may) else { break };
            restart.heard(heard);
            assert!(i < 199);
        }
        assert!(moved && restart.is_doubtful() && !cluster.running);
        assert_eq!(restart.row().step, Step::GaveUp);
        assert!(restart.row().detail.contains("may run on s1 still"), "{}", restart.row().detail);
    }

    #[test]
    fn an_instance_that_somebody_else_touched_is_left_to_them() {
        let mut cluster = Cluster { at: "s3", ..Cluster::new(&[]) };
        let mut restart = Restart::planned(row(true));
        cluster.granted(&mut restart);
        assert_eq!((restart.row().step, cluster.at), (Step::GaveUp, "s3"));

        let mut back = Cluster::new(&[]);
        let mut restart = Restart::resumed(RecoveryRow { step: Step::Starting, ..row(true) });
        back.granted(&mut restart);
        assert_eq!((restart.row().step, back.count(|a| *a == Act::Start)), (Step::GaveUp, 0));

        let mut gone = Cluster { gone: true, ..Cluster::new(&[]) };
        let mut restart = Restart::planned(row(true));
        gone.granted(&mut restart);
        assert_eq!(restart.row().detail, "it was deleted");
    }

    #[test]
    fn a_cluster_that_cannot_be_read_uses_up_no_attempt() {
        let mut restart = Restart::planned(row(true));
        for _ in 0..500 {
            match restart.next(Permission::Granted) {
                Act::Look => restart.heard(Heard::Unreadable("503".to_owned())),
                Act::Note(_) => restart.heard(Heard::Noted),
                Act::Rest(_) => restart.heard(Heard::Rested),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((restart.row().step, restart.row().attempts), (Step::Planned, 0));
        let mut cluster = Cluster::new(&[]);
        cluster.granted(&mut restart);
        assert_eq!(restart.row().step, Step::Done);
    }

    #[test]
    fn another_target_is_taken_only_before_it_was_seen_at_one() {
        for (step, taken) in
            [(Step::Planned, "s3"), (Step::Moving, "s3"), (Step::Moved, "s2"), (Step::Starting, "s2")]
        {
            let mut restart = Restart::resumed(RecoveryRow { step, ..row(true) });
            restart.retarget(Some("s3".into()));
            assert_eq!(restart.row().target, Some(taken.into()));
        }
        // The move to the old target comes about after all.
        let mut cluster = Cluster { at: "s2", ..Cluster::new(&[]) };
        let mut restart = Restart::resumed(RecoveryRow { step: Step::Moving, ..row(true) });
        restart.retarget(Some("s3".into()));
        cluster.granted(&mut restart);
        assert_eq!((restart.row().step, restart.row().target.clone()), (Step::Done, Some("s2".into())));
        assert_eq!(cluster.count(|a| *a == Act::Start), 1);
        // No move there was ever asked for: somebody else did it.
        let mut cluster = Cluster { at: "s2", ..Cluster::new(&[]) };
        let mut restart = Restart::planned(row(true));
        restart.retarget(Some("s3".into()));
        cluster.granted(&mut restart);
        assert_eq!((restart.row().step, cluster.count(|a| *a == Act::Start)), (Step::GaveUp, 0));
    }

    #[test]
    fn the_last_trouble_of_a_start_stays_visible_at_its_end() {
        let mut cluster = Cluster::new(&[true, false, false, true]);
        let mut restart = Restart::planned(row(true));
        cluster.granted(&mut restart);
        assert_eq!(restart.row().step, Step::Done);
        let detail = &restart.row().detail;
        assert_eq!(detail, "runs on s2; starts that failed before: 2, the last one with: locked");
    }

    #[test]
    fn words_of_steps_are_their_own() {
        for step in Step::ALL {
            assert_eq!(Step::from_word(step.as_str()), Some(step));
        }
        assert_eq!(Step::from_word("else"), None);
    }
}

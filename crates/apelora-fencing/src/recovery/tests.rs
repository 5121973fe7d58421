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
            Act::Look => {
                Heard::Place(Place::At { member: self.at.into(), running: self.running && self.at == "s2" })
            }
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

/// What a cluster does whose word is worth nothing: everything succeeds and nothing happens.
fn lied_to(restart: &mut Restart, place: &Place) -> Vec<Act> {
    let mut acts = Vec::new();
    for _ in 0..2_000 {
        let act = restart.next(Permission::Granted);
        acts.push(act.clone());
        restart.heard(match act {
            Act::Note(_) => Heard::Noted,
            Act::Look => Heard::Place(place.clone()),
            Act::Move(_) | Act::Start => Heard::Accepted,
            Act::Rest(_) => Heard::Rested,
            Act::End => return acts,
        });
    }
    panic!("no end: {:?}", restart.row());
}

#[test]
fn a_move_that_succeeded_and_did_not_happen_is_trouble_and_not_tried_for_ever() {
    let mut restart = Restart::planned(row(true));
    let acts = lied_to(&mut restart, &Place::At { member: "s1".into(), running: false });
    let count = |is: fn(&Act) -> bool| acts.iter().filter(|a| is(a)).count();
    assert_eq!(restart.row().step, Step::GaveUp);
    assert!(restart.row().detail.contains("it is where it was"), "{}", restart.row().detail);
    assert_eq!(count(|a| matches!(a, Act::Move(_))), MOST_ATTEMPTS as usize);
    assert_eq!(count(|a| matches!(a, Act::Rest(_))), MOST_ATTEMPTS as usize - 1);
}

#[test]
fn an_instance_that_ends_by_itself_is_started_a_few_times_only() {
    let mut restart = Restart::planned(row(true));
    let acts = lied_to(&mut restart, &Place::At { member: "s2".into(), running: false });
    assert_eq!(restart.row().step, Step::GaveUp);
    assert!(restart.row().detail.contains("did not run afterwards"), "{}", restart.row().detail);
    assert_eq!(acts.iter().filter(|a| **a == Act::Start).count(), 3);
}

#[test]
fn what_runs_at_home_is_not_moved() {
    let mut restart = Restart::planned(row(true));
    let home = Heard::Place(Place::At { member: "s1".into(), running: true });
    for _ in 0..200 {
        match restart.next(Permission::Granted) {
            Act::Look => restart.heard(home.clone()),
            Act::Note(_) => restart.heard(Heard::Noted),
            Act::Rest(_) => restart.heard(Heard::Rested),
            other => panic!("{other:?}"),
        }
    }
    assert!(restart.row().detail.contains("may be back"), "{:?}", restart.row());
    assert_eq!(restart.row().attempts, 0);
    // It ends by itself there: its server is gone again.
    let mut cluster = Cluster::new(&[]);
    cluster.granted(&mut restart);
    assert_eq!(restart.row().step, Step::Done);
}

#[test]
fn words_of_steps_are_their_own() {
    for step in Step::ALL {
        assert_eq!(Step::from_word(step.as_str()), Some(step));
    }
    assert_eq!(Step::from_word("else"), None);
}

//! Every state that two supervisors can get into, within written bounds.

mod bfs;
mod canonical;
mod ghosts;
mod model;
mod shell;
mod steps;

use std::time::Instant;

use bfs::{Found, search};
use model::{Act, Budget, Exploration, SOMETIMES};

const NOTHING: Budget = Budget {
    failures: 0,
    returns: 0,
    false_offline: 0,
    crashes: 0,
    hangs: 0,
    lost_answers: 0,
    lies: 0,
    read_errors: 0,
    persons: 0,
    edits: 0,
    locks: 0,
    loops: 0,
    epochs: 1,
    bad_sends: 0,
};

fn explore(name: &str, exploration: &Exploration) -> Found<Act> {
    let start = Instant::now();
    let most =
        crate::data::setting("APELORA_MOST_STATES").and_then(|s| s.parse().ok()).unwrap_or(200_000_000);
    let found = search(exploration, most);
    let reached: Vec<_> = SOMETIMES
        .iter()
        .enumerate()
        .filter(|(i, _)| found.reached & (1 << i) != 0)
        .map(|(_, s)| *s)
        .collect();
    println!(
        "{name}: {} states, {} transitions, depth {}, {:.1} s{}; reached {reached:?}",
        found.states,
        found.transitions,
        found.depth,
        start.elapsed().as_secs_f64(),
        if found.complete { "" } else { " (not complete)" }
    );
    found
}

fn holds(name: &str, exploration: &Exploration, sometimes: &[&str]) {
    let found = explore(name, exploration);
    if let Some((what, way)) = &found.broken {
        panic!("{name}: {what} after {} steps: {way:#?}", way.len());
    }
    for what in sometimes {
        let i = SOMETIMES.iter().position(|s| s == what).expect("a name of the list");
        assert!(found.reached & (1 << i) != 0, "{name}: `{what}` was never reached");
    }
}

/// Everything that must be reached when a member may fail, return and fail again.
const USUAL: [&str; 6] = [
    "fenced by power-off",
    "fenced although already off",
    "fenced by watching",
    "failed",
    "back online before the send",
    "recovered",
];

/// Two failures and one return are the least that shows a proof used for a later life; one crash, two elections.
const SECOND_ROW: Budget = Budget { failures: 2, returns: 1, crashes: 1, epochs: 2, ..NOTHING };

#[test]
fn two_failures_a_return_a_crash_and_an_adoption() {
    let sometimes = [&USUAL[..], &["adopted"]].concat();
    holds("crash", &Exploration::new(3, 3, SECOND_ROW), &sometimes);
}

#[test]
fn lost_answers_and_a_crash() {
    let budget = Budget { failures: 1, returns: 1, crashes: 1, epochs: 2, lost_answers: 1, ..NOTHING };
    holds("lost answers", &Exploration::new(3, 3, budget), &[&USUAL[..], &["adopted"]].concat());
}

#[test]
fn a_frozen_leader_and_its_successor() {
    let budget = Budget { failures: 1, epochs: 2, hangs: 1, bad_sends: 1, ..NOTHING };
    holds("frozen", &Exploration::new(3, 3, budget), &["fenced by power-off", "adopted", "permit expired"]);
}

#[test]
fn a_person_a_lock_and_an_edited_map() {
    let budget = Budget { failures: 1, returns: 1, persons: 1, locks: 1, edits: 1, ..NOTHING };
    let sometimes =
        ["superseded by a person", "map changed under an intent", "locked under an intent", "recovered"];
    holds("people", &Exploration::new(3, 3, budget), &sometimes);
}

#[test]
fn a_lying_silent_and_late_bmc() {
    let budget = Budget { failures: 1, returns: 1, lies: 1, read_errors: 1, bad_sends: 1, ..NOTHING };
    holds("BMC", &Exploration::new(3, 3, budget), &USUAL);
}

#[test]
fn a_false_offline_and_ten_minutes() {
    let budget = Budget { failures: 1, false_offline: 1, loops: 1, ..NOTHING };
    holds("false Offline", &Exploration::new(3, 3, budget), &["fenced by power-off", "recovered"]);
}

#[test]
fn workers_on_the_servers_that_fail() {
    let budget = Budget { failures: 1, returns: 1, crashes: 1, epochs: 2, ..NOTHING };
    let mut exploration = Exploration::new(3, 3, budget);
    exploration.own_hosts = true;
    holds("own hosts", &exploration, &["fenced by power-off", "adopted", "recovered"]);
}

#[test]
fn two_of_five_one_at_a_time() {
    let exploration = Exploration::new(5, 2, Budget { failures: 2, ..NOTHING });
    holds("five", &exploration, &["fenced by power-off", "fenced by watching", "recovered"]);
}

/// A machine cannot look at its clock and send in one instant. If the stall in between may be as long as it likes, the
/// request leaves when nothing justifies it any more; that is the limit of every fencing by request, and it is found here.
#[test]
fn a_stall_between_the_clock_and_the_first_byte_is_the_limit() {
    let mut exploration = Exploration::new(3, 3, Budget { failures: 1, returns: 1, epochs: 2, ..NOTHING });
    exploration.stalls = true;
    let found = explore("stall", &exploration);
    let (what, way) = found.broken.expect("the stall breaks the guard of the send");
    assert!(what.starts_with("SEND-GUARDED") || what.starts_with("LEASE-COVERS-SEND"), "{what}");
    assert!(way.iter().any(|act| matches!(act, Act::Unstall(_))), "{way:#?}");
}

#[test]
#[ignore = "the long form: on demand"]
fn long_form() {
    let budget = Budget { false_offline: 1, persons: 1, ..SECOND_ROW };
    holds(
        "long form",
        &Exploration::new(3, 3, budget),
        &[&USUAL[..], &["adopted", "superseded by a person"]].concat(),
    );
    let five = Exploration::new(5, 2, Budget { failures: 2, crashes: 1, epochs: 2, ..NOTHING });
    holds("five, long form", &five, &["fenced by power-off", "adopted"]);
}

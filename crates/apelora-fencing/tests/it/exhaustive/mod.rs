//! Every state that two supervisors can get into, within written bounds.

mod bfs;
mod model;

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

#[test]
fn try_it() {
    let get = |n: &str| crate::data::setting(n).and_then(|s| s.parse().ok()).unwrap_or(0_u8);
    let budget = Budget {
        failures: get("F"),
        returns: get("R"),
        false_offline: get("FO"),
        crashes: get("C"),
        hangs: get("H"),
        lost_answers: get("L"),
        lies: get("LI"),
        read_errors: get("RE"),
        persons: get("P"),
        edits: get("E"),
        locks: get("LO"),
        loops: get("LP"),
        epochs: get("EP"),
        bad_sends: get("BS"),
    };
    let m = get("M") as usize;
    let mut e = Exploration::new(m, get("MM") as usize, budget);
    e.own_hosts = get("OH") > 0;
    e.stalls = get("ST") > 0;
    holds("try", &e, &[]);
}

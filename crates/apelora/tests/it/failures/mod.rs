//! Two real workers over one database and one simulated site, and something that fails at each step of a power-off.
//!
//! `scripts/test worker` runs them: they need PostgreSQL and MariaDB, and each takes a minute or two, in which it waits.
//! With `APELORA_FAILURES_TIMES` each course is run that often.

mod course;
mod database;
mod ground;
mod process;
mod wire;

use apelora_store::Engine;

use course::{Fault, Step};

/// Runs a test that waits much and computes little.
fn wait_for(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

fn courses(engine: Engine, fault: Fault, step: Step) {
    let times = database::environment("APELORA_FAILURES_TIMES");
    let times: u32 = times.map_or(1, |times| times.parse().expect("APELORA_FAILURES_TIMES is a number"));
    let failed = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..times)
            .map(|number| scope.spawn(move || wait_for(course::run(engine, fault, step, number))))
            .collect();
        runs.into_iter().map(|run| u32::from(run.join().is_err())).sum::<u32>()
    });
    assert_eq!(failed, 0, "of {times} courses so many failed; above is what each says");
}

/// A test for each step on each engine.
macro_rules! at_each_step {
    ($($name:ident: $fault:ident at $step:ident;)*) => {$(
        mod $name {
            use super::{Engine, Fault, Step, courses};

            #[test]
            #[ignore = "run by scripts/test worker"]
            fn sqlite() {
                courses(Engine::Sqlite, Fault::$fault, Step::$step);
            }

            #[test]
            #[ignore = "run by scripts/test worker"]
            fn postgres() {
                courses(Engine::Postgres, Fault::$fault, Step::$step);
            }

            #[test]
            #[ignore = "run by scripts/test worker"]
            fn mariadb() {
                courses(Engine::MariaDb, Fault::$fault, Step::$step);
            }
        }
    )*};
}

at_each_step! {
    killed_in_the_grace: Kill at Grace;
    killed_after_the_intent: Kill at Intent;
    killed_in_the_open_conversation: Kill at Open;
    killed_after_the_permit: Kill at Permit;
    killed_after_the_send: Kill at Sent;
    killed_between_two_readings: Kill at Off;
    killed_before_the_final: Kill at Final;
    killed_in_the_recovery: Kill at Recovery;

    stopped_in_the_grace: Stop at Grace;
    stopped_after_the_intent: Stop at Intent;
    stopped_in_the_open_conversation: Stop at Open;
    stopped_after_the_permit: Stop at Permit;
    stopped_after_the_send: Stop at Sent;
    stopped_between_two_readings: Stop at Off;
    stopped_before_the_final: Stop at Final;
    stopped_in_the_recovery: Stop at Recovery;

    database_away_in_the_grace: Cut at Grace;
    database_away_after_the_intent: Cut at Intent;
    database_away_in_the_open_conversation: Cut at Open;
    database_away_after_the_permit: Cut at Permit;
    database_away_after_the_send: Cut at Sent;
    database_away_between_two_readings: Cut at Off;
    database_away_before_the_final: Cut at Final;
    database_away_in_the_recovery: Cut at Recovery;

    database_mute_in_the_grace: Mute at Grace;
    database_mute_after_the_intent: Mute at Intent;
    database_mute_in_the_open_conversation: Mute at Open;
    database_mute_after_the_permit: Mute at Permit;
    database_mute_after_the_send: Mute at Sent;
    database_mute_between_two_readings: Mute at Off;
    database_mute_before_the_final: Mute at Final;
    database_mute_in_the_recovery: Mute at Recovery;
}

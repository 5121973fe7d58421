//! Two real workers over one database and one simulated site, and something that fails at each step of a power-off.
//!
//! `scripts/test worker` runs them: they need PostgreSQL and MariaDB, and each takes a minute or two, in which it waits.
//! With `APELORA_FAILURES_TIMES` each course is run that often.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what they print is how each course went")]

mod course;
mod database;
mod ends;
mod forms;
mod ground;
mod process;
mod secrets;
mod stalls;
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

/// What a leader asked of a database server arrives after somebody else has begun to lead.
mod arrives_late {
    use super::{Engine, Fault, Step, courses};

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn permit_postgres() {
        courses(Engine::Postgres, Fault::Deaf, Step::Open);
    }

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn permit_mariadb() {
        courses(Engine::MariaDb, Fault::Deaf, Step::Open);
    }

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn final_postgres() {
        courses(Engine::Postgres, Fault::Deaf, Step::Off);
    }

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn final_mariadb() {
        courses(Engine::MariaDb, Fault::Deaf, Step::Off);
    }
}

/// Nothing that is kept, told or printed holds a password of a BMC.
mod no_secret_in {
    use super::{Engine, secrets, wait_for};

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn sqlite() {
        wait_for(secrets::nothing_holds_a_secret(Engine::Sqlite));
    }

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn postgres() {
        wait_for(secrets::nothing_holds_a_secret(Engine::Postgres));
    }

    #[test]
    #[ignore = "run by scripts/test worker"]
    fn mariadb() {
        wait_for(secrets::nothing_holds_a_secret(Engine::MariaDb));
    }
}

/// Time that is lost.
mod stalled {
    use std::time::Duration;

    use apelora_lab::incus::ApiFault;

    use super::{Engine, Step, course, stalls, wait_for};

    macro_rules! stall {
        ($($name:ident: $stall:expr;)*) => {$(
            #[test]
            #[ignore = "run by scripts/test worker"]
            fn $name() {
                wait_for(course::hit_it(stringify!($name), async || $stall.await));
            }
        )*};
    }

    /// A gap between two passes, and not the end of a lease that was renewed just in time.
    const SHORT: Duration = Duration::from_secs(12);
    const LONG: Duration = Duration::from_secs(40);

    stall! {
        twelve_seconds_in_the_grace_sqlite: stalls::alone(Engine::Sqlite, SHORT, false);
        twelve_seconds_in_the_grace_postgres: stalls::alone(Engine::Postgres, SHORT, false);
        twelve_seconds_in_the_grace_mariadb: stalls::alone(Engine::MariaDb, SHORT, false);
        forty_seconds_in_the_grace_sqlite: stalls::alone(Engine::Sqlite, LONG, true);
        forty_seconds_in_the_grace_postgres: stalls::alone(Engine::Postgres, LONG, true);
        forty_seconds_in_the_grace_mariadb: stalls::alone(Engine::MariaDb, LONG, true);
        cluster_is_silent_sqlite: stalls::cluster_hangs(Engine::Sqlite, &ApiFault::Silent);
        cluster_is_silent_postgres: stalls::cluster_hangs(Engine::Postgres, &ApiFault::Silent);
        cluster_is_slow_mariadb: stalls::cluster_hangs(Engine::MariaDb, &ApiFault::Slow(Duration::from_secs(10)));
        database_crawls_in_the_grace_sqlite: stalls::database_crawls(Engine::Sqlite, Step::Grace);
        database_crawls_in_the_grace_postgres: stalls::database_crawls(Engine::Postgres, Step::Grace);
        database_crawls_in_the_grace_mariadb: stalls::database_crawls(Engine::MariaDb, Step::Grace);
        database_crawls_after_the_intent_sqlite: stalls::database_crawls(Engine::Sqlite, Step::Intent);
        database_crawls_after_the_intent_postgres: stalls::database_crawls(Engine::Postgres, Step::Intent);
        database_crawls_after_the_intent_mariadb: stalls::database_crawls(Engine::MariaDb, Step::Intent);
        database_crawls_after_the_send_sqlite: stalls::database_crawls(Engine::Sqlite, Step::Sent);
        database_crawls_after_the_send_postgres: stalls::database_crawls(Engine::Postgres, Step::Sent);
        database_crawls_after_the_send_mariadb: stalls::database_crawls(Engine::MariaDb, Step::Sent);
        server_restarts_after_the_intent_postgres: stalls::server_restarts(Engine::Postgres, Step::Intent);
        server_restarts_after_the_intent_mariadb: stalls::server_restarts(Engine::MariaDb, Step::Intent);
        server_restarts_after_the_permit_postgres: stalls::server_restarts(Engine::Postgres, Step::Permit);
        server_restarts_after_the_permit_mariadb: stalls::server_restarts(Engine::MariaDb, Step::Permit);
        server_restarts_after_the_send_postgres: stalls::server_restarts(Engine::Postgres, Step::Sent);
        server_restarts_after_the_send_mariadb: stalls::server_restarts(Engine::MariaDb, Step::Sent);
        server_restarts_before_the_final_postgres: stalls::server_restarts(Engine::Postgres, Step::Final);
        server_restarts_before_the_final_mariadb: stalls::server_restarts(Engine::MariaDb, Step::Final);
    }
}

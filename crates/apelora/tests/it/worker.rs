//! `apelora worker`: start, refusals, log, stop.

use std::fs;
use std::path::Path;

use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::command::{apelora, folder, run};
use crate::running::{Running, address, request};

#[test]
fn help_names_every_setting_and_its_default() {
    let here = folder();
    let help = run(here.path(), &[], &["worker", "--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    for words in [
        "--dry-run",
        "--config",
        "--database-url",
        "--worker-listen",
        "[env: APELORA_INCUS_URL]",
        "[default: unix:///var/lib/incus/unix.socket]",
        "--bmc-map",
        "--bmc-fence-after-secs",
        "[env: APELORA_SANLOCK_HOSTS]",
    ] {
        assert!(help.out.contains(words), "{words} in {}", help.out);
    }
    assert!(!help.out.contains("BMC_SECRET"), "no flag takes a password: {}", help.out);
}

#[test]
fn every_wrong_setting_stops_the_start_with_one_line() {
    let here = folder();
    fs::write(here.path().join("secret.toml"), "bmc_secret_s1 = 'calvin'\n").unwrap();
    // Environment, flags, what the line must say.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (
            &[("APELORA_BMC_FENCE_AFTER_SECS", "19")],
            &[],
            &["APELORA_BMC_FENCE_AFTER_SECS (environment)", "from 20 to 3600"],
        ),
        (&[], &["--pass-interval-secs", "11"], &["--pass-interval-secs (flag)", "from 1 to 10"]),
        (&[], &["--bmc-map", "none.json"], &["--bmc-map (flag)", "cannot read none.json"]),
        (&[], &["--sanlock-hosts", "none.json"], &["--sanlock-hosts (flag)", "cannot read none.json"]),
        (&[], &["--incus-url", "https://s1"], &["--incus-url (flag)", "needs incus_client_cert"]),
        (
            &[],
            &["--incus-url", "unix:///a,unix:///b", "--incus-single-view", "1"],
            &["--incus-single-view (flag)"],
        ),
        (
            &[],
            &["--config", "secret.toml"],
            &["bmc_secret_s1 (secret.toml)", "never stands in a file", "set APELORA_BMC_SECRET_S1"],
        ),
        (&[("APELORA_BMC_FENCE_AFTER", "30")], &[], &["did you mean APELORA_BMC_FENCE_AFTER_SECS?"]),
    ];
    for (environment, flags, wanted) in cases {
        let done = run(here.path(), environment, &[&["worker"], *flags].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{environment:?} {flags:?}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
        for words in *wanted {
            assert!(done.err.contains(words), "{words} in {done:?}");
        }
        assert!(!done.err.contains("calvin"), "{done:?}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1, "a start that was stopped left something");
}

#[test]
fn a_schema_that_is_not_known_is_refused() {
    let here = folder();
    assert_eq!(run(here.path(), &[], &["db", "upgrade"]).code, 0);
    pretend_a_later_version(&here.path().join("apelora.db"));
    let done = run(here.path(), &[], &["worker", "--worker-listen", "127.0.0.1:0"]);
    assert_eq!((done.code, done.out.as_str()), (1, ""), "{done:?}");
    assert!(done.err.contains("Run a newer apelora"), "{done:?}");
}

/// Leases that end a whole life (30 s, in microseconds) after their last renewal: one that was given back ends earlier.
fn leases_kept(database: &Path) -> i64 {
    let url = format!("sqlite://{}", database.display());
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        let kept = "SELECT COUNT(*) FROM apelora_leader_lease WHERE expires_at - renewed_at >= 30000000";
        let kept: i64 = sqlx::query_scalar(kept).fetch_one(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        kept
    })
}

fn pretend_a_later_version(database: &Path) {
    let url = format!("sqlite://{}", database.display());
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut conn = SqliteConnection::connect(&url).await.unwrap();
        let later = "INSERT INTO apelora_migration (version, name, additive, applied_at) \
                     SELECT 99, 'of a later version', FALSE, applied_at FROM apelora_migration LIMIT 1";
        assert_eq!(conn.execute(later).await.unwrap().rows_affected(), 1);
        conn.close().await.unwrap();
    });
}

#[test]
fn it_serves_its_health_until_it_is_asked_to_stop_and_another_one_leads_at_once() {
    let here = folder();
    let arguments =
        ["worker", "--worker-listen", "127.0.0.1:0", "--incus-url", "unix:///nonexistent/incus.socket"];
    let environment = [("APELORA_BMC_SECRET_S9", "calvin")];
    for signal in ["-TERM", "-INT"] {
        let worker = Running::start(&mut apelora(here.path(), &environment, &arguments));
        let unused = worker.err("APELORA_BMC_SECRET_S9");
        assert!(unused.contains("WARN"), "{unused}");
        let one_host = worker.err("one host");
        assert!(one_host.contains("apelora.db"), "{one_host}");
        let at = address(&worker.err("http://"));
        // The lease of a worker that ended has no time left to run out.
        worker.err("This worker leads");
        assert_eq!(request(&at, "GET", "/healthz", "").0, 200);
        let (code, out, err) = worker.stop(signal);
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        assert!(!err.contains("calvin"), "{err}");
        assert_eq!(leases_kept(&here.path().join("apelora.db")), 0);
    }
}

#[test]
fn a_port_that_is_taken_is_exit_code_1() {
    let here = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let done = run(here.path(), &[], &["worker", "--worker-listen", &at]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains(&at), "{done:?}");
}

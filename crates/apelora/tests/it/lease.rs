//! `apelora lease check` on a host without a sanlock daemon.

use std::fs;
use std::path::Path;

use crate::command::{folder, run};

#[test]
fn lockspaces_that_cannot_be_read_are_named_and_are_exit_code_1() {
    assert!(!Path::new("/run/sanlock/sanlock.sock").exists(), "this host has a sanlock daemon");
    let here = folder();
    let hosts =
        r#"{"lockspaces": ["lvm_vg0"], "members": {"s1": {"host_ids": {"lvm_vg0": 1}, "watchdog": true}}}"#;
    fs::write(here.path().join("hosts.json"), hosts).unwrap();
    let arguments = ["lease", "check", "--sanlock-hosts", "hosts.json"];
    let text = run(here.path(), &[], &arguments);
    assert_eq!((text.code, text.err.as_str()), (1, ""), "{text:?}");
    assert!(text.out.contains("lvm_vg0") && text.out.contains("unreadable"), "{text:?}");
    let rows = run(here.path(), &[], &[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(rows.code, 1, "{rows:?}");
    let rows = rows.json();
    assert_eq!((&rows[0]["member"], &rows[0]["proves"]), (&"s1".into(), &"nothing".into()), "{rows}");
    assert!(!here.path().join("apelora.db").exists(), "the check made a database");

    // A database that is named is asked which leases the worker saw alive.
    let asked =
        run(here.path(), &[], &[&arguments[..], &["--database-url", "sqlite:///nonexistent/a.db"]].concat());
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(asked.err.contains("/nonexistent"), "{asked:?}");
}

#[test]
fn a_file_with_any_doubt_is_refused_with_one_line() {
    let here = folder();
    fs::write(here.path().join("hosts.json"), r#"{"lockspaces": ["a"], "members": {}, "more": 1}"#).unwrap();
    for verb in [&["lease", "check"][..], &["worker"]] {
        let done = run(here.path(), &[], &[verb, &["--sanlock-hosts", "hosts.json"]].concat());
        assert_eq!((done.code, done.out.as_str(), done.err.lines().count()), (2, "", 1), "{done:?}");
        assert!(done.err.contains("APELORA_SANLOCK_HOSTS") && done.err.contains("more"), "{done:?}");
    }
    let none = run(here.path(), &[], &["lease", "check"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(none.err.contains("sanlock_hosts: not set"), "{none:?}");
}

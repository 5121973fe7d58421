//! `apelora db upgrade|status|backfill` on the embedded database.

use crate::command::{folder, run};

#[test]
fn a_schema_is_made_once_and_status_follows() {
    let here = folder();
    let status = |arguments: &[&str]| run(here.path(), &[], &[&["db", "status"], arguments].concat());
    let before = status(&["--format", "json"]).json();
    assert_eq!((before["found"].as_u64(), before["usable"].as_bool()), (Some(0), Some(false)), "{before}");
    assert!(!here.path().join("apelora.db").exists(), "status made the database");
    assert!(status(&[]).out.contains("run `apelora db upgrade`"));

    let done = run(here.path(), &[], &["db", "upgrade"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("The schema went from version 0 to "), "{done:?}");
    let after = status(&["--format", "json"]).json();
    assert_eq!((&after["found"], after["usable"].as_bool()), (&after["wanted"], Some(true)), "{after}");
    assert_eq!(after["backfill_due"], false, "{after}");
    assert!(status(&[]).out.contains("up to date"));

    let again = run(here.path(), &[], &["db", "upgrade", "--format", "json"]).json();
    assert_eq!(again["schema_before"], again["schema"]["found"], "{again}");
    assert_eq!(again["backfill"], serde_json::Value::Null, "{again}");
    let text = run(here.path(), &[], &["db", "upgrade"]).out;
    assert!(text.ends_with("nothing was to be done.\n"), "{text}");
}

#[test]
fn a_backfill_says_what_it_did() {
    let here = folder();
    assert_eq!(run(here.path(), &[], &["db", "upgrade"]).code, 0);
    let text = run(here.path(), &[], &["db", "backfill"]);
    assert_eq!(
        (text.code, text.out.as_str()),
        (0, "Looked at 0 nodes and brought flag and entries together on 0.\n"),
        "{text:?}"
    );
    let json = run(here.path(), &[], &["db", "backfill", "--format", "json"]).json();
    for count in
        ["examined", "reconciled", "legacy_made", "legacy_ended", "fault_ended", "flags_raised", "amended"]
    {
        assert_eq!(json[count], 0, "{count} in {json}");
    }
}

#[test]
fn a_database_that_cannot_be_used_is_exit_code_1_with_a_hint() {
    let here = folder();
    std::fs::write(here.path().join("no.db"), "this is not a database, it only has the name of one").unwrap();
    for url in [
        "sqlite://no.db",
        "sqlite:///nonexistent/folder/a.db",
        "postgresql://u:s3cret@127.0.0.1:1/x",
        "mysql://u:s3cret@127.0.0.1:1/x",
    ] {
        for verb in ["upgrade", "status", "backfill"] {
            // Nothing is not a wrong database: there is just nothing in it.
            if verb == "status" && url.contains("/nonexistent/") {
                continue;
            }
            let done = run(here.path(), &[], &["db", verb, "--database-url", url]);
            assert_eq!((done.code, done.out.as_str()), (1, ""), "{verb} {url}: {done:?}");
            assert!(done.err.contains("apelora: "), "{done:?}");
            assert!(!done.err.contains("s3cret"), "{done:?}");
        }
    }
}

#[test]
fn a_restore_is_noted_and_a_database_that_is_none_is_not_made() {
    let here = folder();
    let none = run(here.path(), &[], &["db", "restored"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{none:?}");
    assert!(none.err.contains("there is no schema in sqlite://apelora.db"), "{none:?}");
    assert!(!here.path().join("apelora.db").exists());

    assert_eq!(run(here.path(), &[], &["db", "upgrade"]).code, 0);
    let text = run(here.path(), &[], &["db", "restored"]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.out.starts_with("Noted. For 10 minutes no member is switched off"), "{text:?}");
    let json = run(here.path(), &[], &["db", "restored", "--format", "json"]).json();
    assert_eq!((&json["members"], &json["no_power_off_minutes"]), (&0.into(), &10.into()));
}

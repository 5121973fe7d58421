//! Which value of a setting wins, and the one line for each that is wrong.

use std::fs;
use std::path::Path;

use crate::command::{folder, run};

/// The database that `db status` looked at.
fn database(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let arguments = [&["db", "status", "--format", "json"], arguments].concat();
    let done = run(folder, environment, &arguments);
    assert_eq!(done.code, 0, "{done:?}");
    done.json()["database"].as_str().unwrap().to_owned()
}

#[test]
fn defaults_then_file_then_environment_then_flags() {
    let here = folder();
    let path = here.path();
    fs::write(path.join("a.toml"), "database_url = 'sqlite://file.db'\n").unwrap();
    fs::write(path.join("b.toml"), "database_url = 'sqlite://other.db'\n").unwrap();
    let file = ("APELORA_CONFIG", "a.toml");
    let variable = ("APELORA_DATABASE_URL", "sqlite://variable.db");
    assert_eq!(database(path, &[], &[]), "sqlite://apelora.db");
    assert_eq!(database(path, &[file], &[]), "sqlite://file.db");
    assert_eq!(database(path, &[file], &["--config", "b.toml"]), "sqlite://other.db");
    assert_eq!(database(path, &[file, variable], &["--config", "b.toml"]), "sqlite://variable.db");
    assert_eq!(
        database(path, &[file, variable], &["--config", "b.toml", "--database-url", "sqlite://flag.db"]),
        "sqlite://flag.db"
    );
}

#[test]
fn every_wrong_setting_stops_the_start_with_one_line() {
    let here = folder();
    fs::write(here.path().join("bad.toml"), "[").unwrap();
    fs::write(here.path().join("unknown.toml"), "listn = 'x'\n").unwrap();
    // Environment, flags, what the line must say.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (
            &[("APELORA_LISTNE", "x")],
            &[],
            &["APELORA_LISTNE (environment): no such setting", "did you mean APELORA_LISTEN?"],
        ),
        (
            &[("APELORA_DATABASE_URL", "oracle://u:s3cret@h/x")],
            &[],
            &["APELORA_DATABASE_URL (environment)", "give sqlite://PATH"],
        ),
        (&[("APELORA_LISTEN", "localhost:1")], &[], &["APELORA_LISTEN (environment)", "ADDRESS:PORT"]),
        (&[], &["--listen", "0.0.0.0:1"], &["--listen (flag)", "not a loopback address", "http_basic"]),
        (&[], &["--auth-strategy", "keystone"], &["--auth-strategy (flag)", "keystone needs keystone_url"]),
        (&[], &["--auth-strategy", "http_basic"], &["--auth-strategy (flag)", "set http_basic_user_file"]),
        (&[], &["--http-basic-user-file", "bad.toml"], &["--http-basic-user-file (flag)", "http_basic only"]),
        (
            &[],
            &["--auth-strategy", "http_basic", "--http-basic-user-file", "missing.htpasswd"],
            &["--http-basic-user-file (flag)", "cannot read missing.htpasswd"],
        ),
        (&[], &["--database-url", "sqlite://a.db?mode=ro"], &["--database-url (flag)", "the path of a file"]),
        (
            &[("APELORA_HOST", "two words")],
            &[],
            &["APELORA_HOST (environment)", "give the name of this host"],
        ),
        (
            &[("APELORA_PIN_MAX_MICROVERSION", "1.116")],
            &[],
            &["APELORA_PIN_MAX_MICROVERSION", "give 1.1 to 1.115"],
        ),
        (&[], &["--history-max-entries", "1000001"], &["--history-max-entries (flag)", "from 0 to 1000000"]),
        (&[], &["--history-min-days", "-1"], &["--history-min-days (flag)", "from 0 to 36500"]),
        (
            &[],
            &["--history-cleanup-interval-secs", "0"],
            &["--history-cleanup-interval-secs (flag)", "from 1 to"],
        ),
        (&[], &["--history-cleanup-batch", "x"], &["--history-cleanup-batch (flag)", "from 0 to 1000000"]),
        (&[("APELORA_LOG", "loud=9")], &[], &["APELORA_LOG (environment)", "not a log filter"]),
        (&[("APELORA_LOG_FORMAT", "xml")], &[], &["APELORA_LOG_FORMAT (environment)", "give text or json"]),
        (&[("APELORA_CONFIG", "none.toml")], &[], &["configuration file none.toml", "readable TOML file"]),
        (&[], &["--config", "bad.toml"], &["configuration file bad.toml, line 1", "correct the TOML"]),
        (
            &[],
            &["--config", "unknown.toml"],
            &["listn (unknown.toml): no such setting", "did you mean listen?"],
        ),
        (&[("APELORA_HOST", "")], &[], &["APELORA_HOST (environment): is empty"]),
    ];
    for (environment, flags, wanted) in cases {
        let arguments = [&["server"], *flags].concat();
        let done = run(here.path(), environment, &arguments);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{environment:?} {flags:?}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
        assert!(done.err.starts_with("apelora: "), "{done:?}");
        for words in *wanted {
            assert!(done.err.contains(words), "{words} in {done:?}");
        }
        assert!(!done.err.contains("s3cret"), "{done:?}");
    }
    let left: Vec<_> = fs::read_dir(here.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "a start that was stopped left {left:?}");
}

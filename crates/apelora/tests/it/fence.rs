//! `apelora fence replay`.

use std::path::Path;

use serde_json::Value;

use crate::command::{folder, run_with_input};

#[test]
fn stored_worlds_are_decided_on_again() {
    let here = folder();
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fencing/guard-vectors.json");
    let vectors = std::fs::read_to_string(vectors).unwrap();
    let cases: Value = serde_json::from_str(&vectors).unwrap();
    let done = run_with_input(here.path(), &["fence", "replay"], &vectors);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    assert_eq!(done.out.lines().count(), cases["cases"].as_array().unwrap().len());
    for line in done.out.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object()), "{line}");
    }
}

#[test]
fn what_is_no_world_is_named_by_line_and_field() {
    let here = folder();
    let done = run_with_input(here.path(), &["fence", "replay"], "\n{\"members\": 1}\n");
    assert_eq!((done.code, done.out.as_str()), (1, ""), "{done:?}");
    assert!(done.err.starts_with("apelora: line 2"), "{done:?}");
    let nothing = run_with_input(here.path(), &["fence", "replay"], "");
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (0, "", ""));
}

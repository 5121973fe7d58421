//! `apelora node maintenance …` and `apelora history list`, against a real `apelora server`.

use serde_json::json;

use crate::nodes::Served;

fn served() -> Served {
    let served = Served::start(&[]);
    served.ok(&["node", "create", "--driver", "fake-hardware", "--name", "n1"]);
    served
}

#[test]
fn holds_are_released_one_at_a_time_or_all_at_once() {
    let served = served();
    let disk = [
        "node",
        "maintenance",
        "add",
        "n1",
        "--type",
        "hardware_failure",
        "--reason",
        "Disk 3",
        "--extra",
        "slot=3",
        "--format",
        "json",
    ];
    let disk = served.ok(&disk).json();
    assert_eq!(
        (&disk["type"], &disk["scope"], &disk["extra"]),
        (&json!("hardware_failure"), &json!("system"), &json!({"slot": 3}))
    );
    let text = served.ok(&["node", "maintenance", "add", "n1", "--type", "operator_hold"]).out;
    assert!(
        text.contains("\nreason               -\n") && text.contains("\nasserted_by          noauth\n"),
        "{text}"
    );

    let list = served.ok(&["node", "maintenance", "list", "n1"]).out;
    let lines: Vec<_> = list.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("UUID "), "{list}");
    let disk_uuid = disk["uuid"].as_str().unwrap();
    assert!(
        lines[1].starts_with(disk_uuid) && lines[1].contains("hardware_failure  system  Disk 3  noauth"),
        "{list}"
    );
    let entries = served.ok(&["node", "maintenance", "list", "n1", "--format", "json"]).json();
    assert_eq!(entries[0], disk);
    let hold = entries[1]["uuid"].as_str().unwrap();

    let again = served.refused(&["node", "maintenance", "add", "n1", "--type", "operator_hold"]);
    assert!(again.contains("(HTTP 409)") && again.contains(hold), "{again}");

    let done = served.ok(&["node", "maintenance", "remove", "n1", hold]).out;
    assert_eq!(done, format!("Released maintenance entry {hold} of node n1.\n"));
    let gone = served.refused(&["node", "maintenance", "remove", "n1", hold]);
    assert!(gone.contains("(HTTP 404)"), "{gone}");
    assert_eq!(
        served.ok(&["node", "list", "--maintenance", "--format", "json"]).json().as_array().unwrap().len(),
        1
    );
    let all = served.ok(&["node", "maintenance", "remove", "n1", "--all", "--format", "json"]).json();
    assert_eq!(all, json!({"node": "n1", "released": "all"}));
    assert_eq!(served.ok(&["node", "maintenance", "list", "n1", "--format", "json"]).json(), json!([]));
}

#[test]
fn the_flag_is_set_and_unset_as_by_older_clients() {
    let served = served();
    served.ok(&["node", "maintenance", "set", "n1", "--reason", "rebalancing rack"]);
    let list = served.ok(&["node", "list", "--maintenance"]).out;
    assert!(list.contains("rebalancing rack"), "{list}");
    let done = served.ok(&["node", "maintenance", "unset", "n1", "--format", "json"]).json();
    assert_eq!(done, json!({"node": "n1", "maintenance": false}));

    let history = served.ok(&["history", "list", "n1"]).out;
    let lines: Vec<_> = history.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("When "), "{history}");
    assert!(
        lines[1..].iter().all(|line| line.contains("maintenance") && line.contains("noauth")),
        "{history}"
    );
    let records = served.ok(&["history", "list", "n1", "--format", "json"]).json();
    assert_eq!(records.as_array().unwrap().len(), 2, "{records}");
    assert!(served.refused(&["history", "list", "n2"]).contains("(HTTP 404)"));
}

#[test]
fn what_others_wrote_does_not_steer_the_terminal() {
    let served = served();
    let hostile = "a\u{1b}[2J\r\nb\u{202e}c\u{9b}31m";
    served.ok(&["node", "maintenance", "set", "n1", "--reason", hostile]);
    let lists = [
        &["node", "maintenance", "list", "n1"][..],
        &["node", "list"],
        &["node", "show", "n1"],
        &["history", "list", "n1"],
    ];
    for list in lists {
        let text = served.ok(list).out;
        assert!(text.contains(r"a\u{1b}[2J\r\nb\u{202e}c\u{9b}31m"), "{text:?}");
        let json = served.ok(&[list, &["--format", "json"]].concat());
        for out in [&text, &json.out] {
            let steering = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!out.chars().any(steering), "{out:?}");
        }
        assert!(json.json().to_string().contains('\u{202e}'), "programs get the text as it is");
    }
    // An error repeats what was asked for.
    let error = served.refused(&["node", "show", "n\u{1b}[2J"]);
    assert!(!error.trim_end().chars().any(char::is_control), "{error:?}");
}

#[test]
fn a_server_without_entries_is_named_with_its_version() {
    let served = Served::start(&["--pin-max-microversion", "1.115"]);
    served.ok(&["node", "create", "--driver", "fake-hardware", "--name", "n1"]);
    served.ok(&["node", "maintenance", "set", "n1"]);
    let error = served.refused(&["node", "maintenance", "list", "n1"]);
    assert!(error.contains("needs version 1.116") && error.contains("has 1.115 at most"), "{error}");
    served.ok(&["node", "maintenance", "remove", "n1", "--all"]);
}

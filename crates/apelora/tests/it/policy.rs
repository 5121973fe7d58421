//! `apelora policy check|sample|eval`.

use serde_json::{Value, json};

use crate::command::{folder, run, run_with_input};
use crate::nodes::Served;

const ADD: &str = "baremetal:node:maintenance:add";

#[test]
fn a_persona_passes_or_not_and_the_deciding_check_is_told() {
    let here = folder();
    let check = |arguments: &[&str]| run(here.path(), &[], &[&["policy", "check", ADD], arguments].concat());
    let owner = check(&["--role", "member", "--project", "p1", "--owner", "p1"]);
    assert_eq!((owner.code, owner.err.as_str()), (0, ""), "{owner:?}");
    assert!(
        owner.out.starts_with("allowed: ") && owner.out.ends_with("authority on the node: owner\n"),
        "{owner:?}"
    );
    let lessee = check(&["--role", "member", "--project", "p2", "--owner", "p1", "--lessee", "p2"]);
    assert_eq!((lessee.code, lessee.err.as_str()), (1, ""), "{lessee:?}");
    assert!(
        lessee.out.starts_with("refused: ") && lessee.out.ends_with("authority on the node: lessee\n"),
        "{lessee:?}"
    );
    let operator = check(&["--role", "member", "--system", "--format", "json"]).json();
    assert_eq!((&operator["allowed"], &operator["authority"]), (&json!(true), &json!("system")));
    assert_eq!(operator["rules"][0]["rule"], ADD);
    assert!(!operator["rules"][0]["steps"].as_array().unwrap().is_empty(), "{operator}");
    let nobody = check(&["--role", "member", "--project", "p3", "--format", "json"]);
    assert_eq!((nobody.code, &nobody.json()["authority"]), (1, &Value::Null));
}

#[test]
fn files_are_checked_and_take_part() {
    let here = folder();
    let file = here.path().join("policy.yaml");
    let check = |arguments: &[&str]| {
        run(
            here.path(),
            &[("APELORA_POLICY_FILE", "policy.yaml")],
            &[&["policy", "check"], arguments].concat(),
        )
    };
    std::fs::write(&file, "\"baremetal:node:maintenance:remove\": \"user_id:%(maintenance.asserted_by)s\"\n")
        .unwrap();
    let good = check(&[]);
    assert!(good.code == 0 && good.out.starts_with("The policy can be used; it has "), "{good:?}");
    let remove = |user: &str| {
        let entry = ["--entry-type", "operator_hold", "--entry-asserted-by", "u1"];
        check(
            &[&["baremetal:node:maintenance:remove", "--role", "member", "--user", user], &entry[..]]
                .concat(),
        )
    };
    assert_eq!((remove("u1").code, remove("u2").code), (0, 1));
    // The folder beside the file applies after it.
    std::fs::create_dir(here.path().join("policy.d")).unwrap();
    std::fs::write(here.path().join("policy.d/10.yaml"), "\"baremetal:node:maintenance:remove\": \"@\"\n")
        .unwrap();
    assert_eq!(remove("u2").code, 0);

    std::fs::write(&file, "\"baremetal:node:maintenance:remove\": null\n").unwrap();
    let bad = check(&[]);
    assert_eq!((bad.code, bad.out.as_str()), (1, ""), "{bad:?}");
    assert!(
        bad.err.contains("policy.yaml") && bad.err.contains("baremetal:node:maintenance:remove"),
        "{bad:?}"
    );
    std::fs::remove_file(&file).unwrap();
    assert_eq!(check(&[]).code, 2);
    let unknown = run(here.path(), &[], &["policy", "check", "baremetal:node:maintenance:ad"]);
    assert!(unknown.code == 2 && unknown.err.contains(&format!("did you mean {ADD}?")), "{unknown:?}");
}

#[test]
fn a_node_can_be_fetched() {
    let served = Served::start(&[]);
    served.ok(&["node", "create", "--driver", "fake-hardware", "--name", "n1"]);
    served.ok(&["node", "set", "n1", "--owner", "p1"]);
    let check = |project: &str| {
        served.run(&["policy", "check", ADD, "--role", "member", "--project", project, "--node", "n1"]).code
    };
    assert_eq!((check("p1"), check("p2")), (0, 1));
    assert!(served.refused(&["policy", "check", ADD, "--node", "n2"]).contains("(HTTP 404)"));
}

#[test]
fn the_sample_changes_nothing() {
    let here = folder();
    let sample = run(here.path(), &[], &["policy", "sample"]);
    assert_eq!((sample.code, sample.err.as_str()), (0, ""));
    assert!(sample.out.contains(&format!("\"{ADD}\": ")), "{}", sample.out);
    std::fs::write(here.path().join("sample.yaml"), &sample.out).unwrap();
    let check =
        run(here.path(), &[], &["policy", "check", "--policy-file", "sample.yaml", "--format", "json"]);
    assert_eq!((check.code, check.json()["warnings"].clone()), (0, json!([])), "{check:?}");
}

#[test]
fn lines_are_judged_one_by_one() {
    let here = folder();
    let line = |rule: &str| {
        json!({"rules": {"a": rule}, "rule": "a", "creds": {"roles": ["x"]}, "target": {}}).to_string()
    };
    let input = [line("role:x"), line("role:y"), "no json".to_owned()].join("\n");
    let done = run_with_input(here.path(), &["policy", "eval"], &input);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    let results: Vec<_> = done
        .out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["result"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results, ["allow", "deny", "reject"]);
}

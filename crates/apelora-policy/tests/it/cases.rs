//! What the original library decided, case by case.

use std::collections::BTreeMap;

use apelora_policy::{EvalSummary, Rules, Settings, Source, eval};
use serde_json::Value;

use crate::support::json;

/// The answer that a case asks for: what the library decided, unless the contract recommends to deviate.
fn wanted(case: &Value) -> &'static str {
    match (case.get("recommend").and_then(Value::as_str), &case["expected"]) {
        (Some("reject_at_load" | "internal_error"), _) => "reject",
        (Some("deny" | "forbid_403"), _) => "deny",
        (None, Value::Bool(true)) => "allow",
        (None, Value::Bool(false)) => "deny",
        (Some(advice), Value::Bool(allowed)) if advice.starts_with("same") => {
            if *allowed {
                "allow"
            } else {
                "deny"
            }
        }
        other => panic!("no answer for {other:?}"),
    }
}

fn cases() -> Vec<Value> {
    let Value::Array(cases) = json("cases.json")["cases"].take() else { panic!("no list of cases") };
    cases
}

#[test]
fn contract_policy_cases() {
    let cases = cases();
    let input: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let mut output = Vec::new();
    let summary = eval(input.as_bytes(), &mut output).unwrap();
    let answers: Vec<Value> =
        serde_json::Deserializer::from_slice(&output).into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.len(), cases.len());
    assert!(!cases.is_empty(), "no cases");

    let mut categories: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        *categories.entry(case["category"].as_str().unwrap()).or_default() += 1;
        if answer["result"] != wanted(case) {
            wrong.push(format!("{} wants {}: {answer} {}", case["id"], wanted(case), case["rules"]));
        }
    }
    println!("{} cases: {categories:?}, {summary:?}", cases.len());
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let EvalSummary { allowed, denied, rejected } = summary;
    assert_eq!(allowed + denied + rejected, cases.len());
}

/// Cases in which the library decides before it comes to a mistake. As bare rules they answer as recorded; as a file
/// they are refused, because a cycle and a check that cannot be read are refused wherever they stand.
const MISTAKES_BEHIND_A_DECISION: [&str; 3] = ["cycle-be50110fac", "cycle-8fb58c5bc7", "fuzz-9005beb1f8"];

/// The cases with bare rules once more, as policy files.
#[test]
fn contract_policy_cases_as_files() {
    let mut ran = 0;
    for case in cases() {
        let Some(rules) = case["rules"].as_object() else { continue };
        // A null is refused in a file; which default rule there is cannot be said in one.
        if rules.values().any(Value::is_null) || case.get("policy_default_rule").is_some() {
            continue;
        }
        ran += 1;
        let file = serde_json::to_string(rules).unwrap();
        let compiled =
            Rules::compile_with(&[], &[Source { name: "rules", text: &file }], &Settings::default());
        let id = case["id"].as_str().unwrap();
        if MISTAKES_BEHIND_A_DECISION.contains(&id) || wanted(&case) == "reject" {
            assert!(compiled.is_err(), "{case}");
            continue;
        }
        let rules = compiled.unwrap_or_else(|error| panic!("{case}: {error}"));
        let creds = apelora_policy::Creds::from_map(case["creds"].as_object().unwrap().clone());
        let target = apelora_policy::Target::values(case["target"].as_object().unwrap());
        let name = case["rule"].as_str().unwrap();
        if let (Some(form), Some(recorded)) = (rules.normal_form(name), case["canonical"].as_str()) {
            assert_eq!(form, recorded, "{case}");
        }
        let decision = rules.enforce(name, &creds, &target);
        assert_eq!(decision.allowed, wanted(&case) == "allow", "{case}: {}", decision.because);
    }
    println!("{ran} cases");
    assert!(ran > 500, "only {ran} cases");
}

#[test]
fn lines_that_make_no_sense_are_rejected_one_by_one() {
    let long = format!("{{\"rules\": \"{}\"}}\n", "x".repeat(9 * 1024 * 1024));
    let good = r#"{"rules": {"r": "@"}, "rule": "r", "creds": {}, "target": {}}"#;
    let lines = [
        good,
        "",
        "no json",
        "[]",
        r#"{"rules": {"r": "@"}, "rule": "r", "creds": {}}"#,
        r#"{"rules": {"r": 1}, "rule": "r", "creds": {}, "target": {}}"#,
        r#"{"rules": {"r": {"a": "b"}}, "rule": "r", "creds": {}, "target": {}}"#,
        r#"{"rules": {"r": [[1]]}, "rule": "r", "creds": {}, "target": {}}"#,
        r#"{"rules": {"r": "@"}, "rule": 1, "creds": {}, "target": {}}"#,
        r#"{"rules": {"r": "@"}, "rule": "r", "creds": null, "target": {}}"#,
        r#"{"rules": {"r": "@"}, "policy_file": "", "rule": "r", "creds": {}, "target": {}}"#,
        r#"{"rule": "r", "creds": {}, "target": {}}"#,
        "\u{0}",
    ];
    let input = format!("{}\n{long}{good}", lines.join("\n"));
    let mut bytes = input.into_bytes();
    bytes.extend_from_slice(b"\n\xff\xfe\n");
    let mut output = Vec::new();
    let summary = eval(bytes.as_slice(), &mut output).unwrap();
    assert_eq!(summary, EvalSummary { allowed: 2, denied: 0, rejected: 13 });
    let output = String::from_utf8(output).unwrap();
    assert_eq!(output.lines().count(), 15);
    assert!(output.lines().nth(12).unwrap().contains("longer than 8 MiB"), "{output}");
}

//! `apelora fence replay`.

use apelora_fencing::replay::{ReplayError, Replayed, replay};

fn run(input: &str) -> (Result<Replayed, ReplayError>, Vec<serde_json::Value>) {
    let mut output = Vec::new();
    let result = replay(input.as_bytes(), &mut output);
    let lines = String::from_utf8(output).unwrap();
    (result, lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect())
}

#[test]
fn contract_guard_vectors_replayed_as_a_file_and_as_lines() {
    let text = crate::data::text("fencing/guard-vectors.json");
    let (result, whole) = run(&text);
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(result.unwrap().worlds, cases.len());
    let lines: Vec<_> = cases.iter().map(ToString::to_string).collect();
    let (result, single) = run(&lines.join("\n"));
    assert_eq!(result.unwrap().worlds, cases.len());
    for (out, case) in whole.iter().chain(&single).zip(cases.iter().chain(cases)) {
        let name = &case["name"];
        assert_eq!(out["name"], *name);
        assert_eq!(out["members"][0]["reasons"], case["expect"]["reasons"], "{name}");
        let is_intent = case["expect"]["action"] == "intent";
        assert_eq!(out["intent"].is_null(), !is_intent, "{name}");
    }
    assert!(!cases.is_empty());
    println!("{} guard vectors, twice", cases.len());
}

#[test]
fn a_stored_snapshot_decides_the_same_again() {
    let world = crate::guards::ripe();
    let text = serde_json::to_string(&world).unwrap();
    let again: apelora_fencing::World = serde_json::from_str(&text).unwrap();
    assert_eq!(again, world);
    let (result, out) = run(&format!("\n{text}\n\n{text}"));
    assert_eq!(result.unwrap(), Replayed { worlds: 2, intents: 2 });
    assert_eq!(out[0]["intent"], "s1");
    assert_eq!((&out[0]["line"], &out[1]["line"]), (&2.into(), &4.into()));
    let guards = out[0]["members"][0]["guards"].as_array().unwrap();
    assert!(guards.len() >= 20 && guards.iter().all(|g| g["holds"] == true && g["sentence"].is_string()));
}

#[test]
fn errors_name_line_and_field() {
    let good = serde_json::to_string(&crate::guards::ripe()).unwrap();
    let cases = [
        (good.replace("\"held\":true", "\"held\":\"yes\""), "lease.held"),
        (good.replace("\"own_host\":false", "\"own_hosts\":false"), "members[0]"),
        (good.replacen("\"offline_for_ms\":30000", "\"offline_for_ms\":-1", 1), "members[0].offline_for_ms"),
        ("{\"fence_after_ms\": 1}".to_owned(), "missing field"),
        ("{\"input\": {\"members\": 3}}".to_owned(), "input.members"),
        ("[1]".to_owned(), "line 2"),
        ("{\"fence_after_ms\":".to_owned(), "not complete"),
        ("nonsense".to_owned(), "line 2"),
    ];
    for (bad, expected) in cases {
        let (result, out) = run(&format!("{good}\n{bad}\n"));
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("line 2, field `") && error.contains(expected), "{bad}: {error}");
        assert_eq!(out.len(), 1, "what came before is decided");
    }
    let vectors = crate::data::text("fencing/guard-vectors.json").replacen(
        "\"offline_for_s\": 30",
        "\"offline_for_s\": -30",
        1,
    );
    assert!(run(&vectors).0.unwrap_err().to_string().contains("`input.offline_for_s`"));
}

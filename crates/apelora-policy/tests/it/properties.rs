//! What must hold for any text, any credentials and any target.

use apelora_policy::{Creds, PolicyError, Rules, Settings, Source, Target, eval};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Rules from this file alone. Loading the built-in rules again and again would take most of the time.
fn load(text: &str) -> Result<Rules, PolicyError> {
    Rules::compile_with(&[], &[Source { name: "f", text }], &Settings::default())
}

/// Words that mean something in rules, so that random texts reach every corner of the language.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "role:member", "role:%(a)s", "project_id:%(node.owner)s", "rule:a", "rule:b", "rule:nope", "@", "!",
            "None:%(b)s", "'x':%(a)s", "user.name:x", "roles:member", "system_scope:all", "typo", "1:%(a)d", "[1,2]:%(b)s",
            "a-b:c", "not", "and", "or", "(", ")", "AND", "not(x:y)", "'q'", "role:100%", "x:%(a)05d", "%s:%s", "b'x':%(a)r",
        ]).prop_map(str::to_owned),
        1 => "[a-z(){}\\[\\]'\"%:.,0-9_\\\\@!#=+*-]{0,12}",
        1 => "\\PC{0,6}",
    ]
}

fn rule() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 0..12).prop_map(|words| words.join(" "))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["member", "p1", "None", "True", "", "x"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn values(names: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(prop::sample::select(names), value(), 0..names.len())
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

const CREDS: &[&str] = &["roles", "project_id", "user_id", "user", "system_scope", "domain_id", "a-b", "x"];
const TARGET: &[&str] = &["a", "b", "node.owner", "node.lessee"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rule_is_loaded_or_refused_and_judged_without_panic(
        a in rule(), b in rule(), creds in values(CREDS), target in values(TARGET),
    ) {
        let file = json!({"a": a, "b": b, "n": format!("not ({a})")}).to_string();
        if let Ok(rules) = load(&file) {
            let creds = Creds::from_map(creds.clone());
            let target = Target::values(&target);
            for name in rules.names() {
                let decision = rules.enforce(name, &creds, &target);
                let explanation = rules.explain(name, &creds, &target);
                prop_assert_eq!(decision.allowed, explanation.allowed);
                prop_assert_eq!(decision.because.to_string(), explanation.because);
            }
        }
        // As bare rules they always have an answer.
        let line = json!({"rules": {"a": a, "b": b}, "rule": "a", "creds": creds, "target": target});
        let mut out = Vec::new();
        let summary = eval(line.to_string().as_bytes(), &mut out).unwrap();
        prop_assert_eq!(summary.allowed + summary.denied + summary.rejected, 1);
    }

    #[test]
    fn any_file_is_loaded_or_refused(text in "\\PC{0,200}") {
        let _ = load(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn anything_like_yaml_is_loaded_or_refused(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "b", ": ", "\n", " ", "- ", "[", "]", "{", "}", "&x ", "*x", "!", "!!str ", "\"", "'", "|\n", ">\n", "  ", "\t",
            "<<", "~", "---\n", "...\n", "? ", ", ", "#", "%YAML 1.2\n", "role:x", "@", "\u{feff}", "\r\n", "\u{85}",
        ]), 0..40),
    ) {
        let _ = load(&parts.concat()).map_err(|error| error.to_string());
    }

    #[test]
    fn the_normal_form_says_the_same(
        a in rule(), creds in values(CREDS), target in values(TARGET),
    ) {
        let one = json!({"a": a}).to_string();
        if let Ok(rules) = load(&one) {
            let form = rules.normal_form("a").unwrap();
            let two = json!({"a": form}).to_string();
            let again = load(&two).unwrap();
            let creds = Creds::from_map(creds);
            let target = Target::values(&target);
            let (first, second) = (rules.enforce("a", &creds, &target), again.enforce("a", &creds, &target));
            prop_assert_eq!(first.allowed, second.allowed);
            prop_assert_eq!(again.normal_form("a").unwrap(), form);
        }
    }

    #[test]
    fn any_line_is_answered(line in "\\PC{0,120}") {
        let mut out = Vec::new();
        eval(line.as_bytes(), &mut out).unwrap();
    }

    /// Whatever a target's values are, they are compared and never read as rules or formats.
    #[test]
    fn inserted_values_are_only_compared(owner in "\\PC{0,12}", project in "\\PC{0,12}") {
        let rules = load("r: project_id:%(node.owner)s\n").unwrap();
        let creds = json!({"project_id": project, "roles": ["member"]});
        let creds = Creds::from_map(creds.as_object().unwrap().clone());
        let target = Target::node(&creds, Some(&owner), None);
        let same = if owner.is_empty() { project == "None" } else { owner == project };
        prop_assert_eq!(rules.enforce("r", &creds, &target).allowed, same);
    }
}

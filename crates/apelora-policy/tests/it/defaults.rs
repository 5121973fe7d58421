//! The built-in rules against those of the reference service, and the sample against the built-in rules.

use std::collections::BTreeMap;

use apelora_policy::{Rules, Settings, Source, Target, defaults, sample};
use granit_parser::{Event, Parser};

use crate::support::{built_in, creds, data, of_project, of_system, with_file};

/// What the recorded file says about one rule.
#[derive(Debug, Default)]
struct Recorded {
    check: String,
    scopes: Vec<String>,
    deprecated: Option<(String, String)>,
    operations: Vec<(String, String)>,
}

/// Reads the recorded rules: mappings `base_rules` and `node_rules` of rules by name.
fn recorded() -> BTreeMap<String, Recorded> {
    let text = data("ironic-defaults.yaml");
    let mut path: Vec<(String, bool)> = Vec::new();
    let mut rules: BTreeMap<String, Recorded> = BTreeMap::new();
    let mut key: Option<String> = None;
    for event in Parser::new_from_str(&text) {
        match event.unwrap().0 {
            Event::MappingStart(..) => path.push((key.take().unwrap_or_default(), true)),
            Event::SequenceStart(..) => path.push((key.take().unwrap_or_default(), false)),
            Event::MappingEnd | Event::SequenceEnd => drop(path.pop()),
            Event::Scalar(value, ..) => {
                let in_mapping = path.last().is_some_and(|(_, is_mapping)| *is_mapping);
                match key.take() {
                    None if in_mapping => key = Some(value.into_owned()),
                    name => note(&mut rules, &path, name.as_deref(), &value),
                }
            }
            _ => {}
        }
    }
    rules
}

fn note(rules: &mut BTreeMap<String, Recorded>, path: &[(String, bool)], key: Option<&str>, value: &str) {
    let [_, (section, _), (rule, _), inner @ ..] = path else { return };
    if section != "base_rules" && section != "node_rules" {
        return;
    }
    let rule = rules.entry(rule.clone()).or_default();
    match (inner.first().map(|(name, _)| name.as_str()), key) {
        (None, Some("check")) => value.clone_into(&mut rule.check),
        (None, Some("deprecated_name")) => rule.deprecated.get_or_insert_default().0 = value.to_owned(),
        (None, Some("deprecated_check")) => rule.deprecated.get_or_insert_default().1 = value.to_owned(),
        (Some("scope_types"), None) => rule.scopes.push(value.to_owned()),
        (Some("operations"), Some("method")) => rule.operations.push((value.to_owned(), String::new())),
        (Some("operations"), Some("path")) => {
            rule.operations.last_mut().unwrap().1 = format!("/{}", value.trim_start_matches('/'));
        }
        _ => {}
    }
}

#[test]
fn contract_default_rules() {
    let recorded = recorded();
    let mut own: Vec<_> = defaults::all().map(|rule| rule.name).collect();
    for (name, wanted) in &recorded {
        let rule = defaults::all().find(|rule| rule.name == name).unwrap_or_else(|| panic!("no rule {name}"));
        assert_eq!(rule.check, wanted.check, "{name}");
        assert_eq!(rule.scopes.names(), wanted.scopes, "{name}");
        let deprecated = rule.deprecated.map(|older| (older.name.to_owned(), older.check.to_owned()));
        assert_eq!(deprecated, wanted.deprecated, "{name}");
        let operations: Vec<_> =
            rule.operations.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
        assert_eq!(operations, wanted.operations, "{name}");
        own.retain(|other| other != name);
    }
    println!("{} rules", recorded.len());
    assert!(recorded.len() > 70, "only {} rules were read", recorded.len());
    assert_eq!(
        own,
        [
            "baremetal:node:maintenance:get",
            "baremetal:node:maintenance:add",
            "baremetal:node:maintenance:remove",
            "apelora:maintenance:list",
            "apelora:maintenance:list_all",
            "baremetal:driver:get",
            "apelora:member:get",
            "apelora:member:confirm_off",
            "apelora:member:trust",
            "apelora:audit:get",
            "apelora:settings:get",
        ]
    );
}

#[test]
fn nothing_of_the_cluster_is_for_a_project() {
    let cluster: Vec<_> = defaults::all()
        .filter(|rule| rule.name.starts_with("apelora:") && !rule.name.starts_with("apelora:maintenance:"))
        .collect();
    assert_eq!(cluster.len(), 5);
    for rule in cluster {
        assert!(!rule.check.contains("project_id"), "{}", rule.name);
        for part in rule.check.split(" or ") {
            let system = part.contains("system_scope:all") || part == "rule:service_role";
            assert!(system, "{}: {part}", rule.name);
        }
    }
}

#[test]
fn typed_maintenance_begins_at_the_level_of_the_older_rules() {
    let of = |name: &str| defaults::all().find(|rule| rule.name == name).unwrap();
    for (new, old) in [
        ("baremetal:node:maintenance:get", "baremetal:node:get"),
        ("baremetal:node:maintenance:add", "baremetal:node:set_maintenance"),
        ("baremetal:node:maintenance:remove", "baremetal:node:clear_maintenance"),
    ] {
        assert_eq!(of(new).check, of(old).check);
        assert_eq!(of(new).scopes, of(old).scopes);
        assert_eq!(of(new).deprecated.unwrap().check, of(old).deprecated.unwrap().check);
        // A file that changes the older rule says nothing about the new one.
        let rules = with_file(&format!("'{old}': '!'\n")).unwrap();
        assert_eq!(rules.normal_form(new), built_in().normal_form(new));
    }
}

#[test]
fn every_rule_is_described_and_named_once() {
    let mut names: Vec<_> = defaults::all().map(|rule| rule.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    for rule in defaults::all() {
        assert!(rule.description.ends_with('.') && !rule.description.contains('\n'), "{}", rule.name);
    }
    assert_eq!(built_in().warnings(), []);
}

#[test]
fn the_sample_is_the_defaults() {
    let sample = sample();
    let rules = with_file(&sample).unwrap();
    let built_in = built_in();
    assert_eq!(rules.warnings(), []);
    assert_eq!(rules.names(), built_in.names());
    for name in built_in.names() {
        assert_eq!(rules.normal_form(name), built_in.normal_form(name), "{name}");
        assert_eq!(rules.rule(name).unwrap().0, built_in.rule(name).unwrap().0, "{name}");
    }
    assert!(sample.lines().all(|line| line.len() <= 600), "a line of the sample is long");
}

#[test]
fn older_deployments_keep_their_administrators() {
    let legacy = Settings { enforce_new_defaults: false, ..Settings::default() };
    let legacy = Rules::compile(&[], &legacy).unwrap();
    let current = built_in();
    let admin = creds(&of_project("elsewhere", &["admin", "member", "reader"]));
    let target = Target::node(&admin, Some("owner"), None);
    for name in ["baremetal:node:get", "baremetal:node:set_maintenance", "baremetal:node:maintenance:add"] {
        assert!(legacy.enforce(name, &admin, &target).allowed, "{name}");
        assert!(!current.enforce(name, &admin, &target).allowed, "{name}");
    }
    // What a file says about a rule is the whole rule, then as now.
    let settings = Settings { enforce_new_defaults: false, ..Settings::default() };
    let file =
        Source { name: "policy.yaml", text: "'baremetal:node:get': role:reader and system_scope:all\n" };
    let pinned = Rules::compile(&[file], &settings).unwrap();
    assert!(!pinned.enforce("baremetal:node:get", &admin, &target).allowed);
    let operator = creds(&of_system(&["reader"]));
    assert!(pinned.enforce("baremetal:node:get", &operator, &target).allowed);
}

#[test]
fn an_older_name_in_a_file_changes_the_rules_that_came_from_it() {
    let rules = with_file("'baremetal:node:update': role:gardener\n").unwrap();
    let gardener = creds(&of_project("p", &["gardener"]));
    let target = Target::node(&gardener, None, None);
    assert!(rules.enforce("baremetal:node:update:name", &gardener, &target).allowed);
    assert!(!rules.enforce("baremetal:node:update:shard", &gardener, &target).allowed);
    let warning = rules.warnings().first().expect("a warning").to_string();
    assert!(warning.contains("policy.yaml:1: rule 'baremetal:node:update'"), "{warning}");
    assert!(warning.contains("baremetal:node:update:owner"), "{warning}");
}

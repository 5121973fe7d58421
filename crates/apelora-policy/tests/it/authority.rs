//! The recorded table of ranks, release floors and masks.

use apelora_maintenance::{Authority, Entry, FloorRefusal, Scope};
use apelora_policy::{AuthoritySettings, Creds, Identity, Standing, authority};
use serde_json::Value;
use time::macros::datetime;
use uuid::Uuid;

use crate::support::{creds, json, of_project, of_system};

fn word(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::System) => "system",
        Some(Standing::Owner) => "owner",
        Some(Standing::Lessee) => "lessee",
        None => "none",
    }
}

fn scope(standing: Standing) -> Scope {
    match standing {
        Standing::System => Scope::System,
        Standing::Owner => Scope::Owner,
        Standing::Lessee => Scope::Lessee,
    }
}

#[test]
fn contract_authority_cases() {
    let data = json("authority-cases.json");
    let cases = data["authority"].as_array().unwrap();
    for case in cases {
        let settings = AuthoritySettings {
            one_trust_domain: false,
            project_admin_is_system: case["legacy_project_admin_is_system"].as_bool().unwrap(),
            elevated_service_project: case["service_role_elevated"]
                .as_bool()
                .unwrap()
                .then(|| "service".to_owned()),
        };
        let creds = Creds::from_map(case["creds"].as_object().unwrap().clone());
        let standing = authority(&creds, case["owner"].as_str(), case["lessee"].as_str(), &settings);
        assert_eq!(word(standing), case["authority"], "{case}");
    }
    println!("{} cases", cases.len());
    assert!(!cases.is_empty(), "no cases");
}

#[test]
fn contract_release_cases() {
    let data = json("authority-cases.json");
    let cases = data["release"].as_array().unwrap();
    let ranked = data["authority"].as_array().unwrap();
    for case in cases {
        let persona = ranked
            .iter()
            .find(|row| row["persona"] == case["persona"] && row["node"] == case["node"])
            .expect("the persona is in the first table");
        let creds = Creds::from_map(persona["creds"].as_object().unwrap().clone());
        let settings = AuthoritySettings::default();
        let rank = authority(&creds, persona["owner"].as_str(), persona["lessee"].as_str(), &settings);
        assert_eq!(word(rank), case["authority"], "{case}");

        let caller = Authority {
            scope: rank.map(scope),
            user: "u".to_owned(),
            project: creds.text("project_id").unwrap_or_default().to_owned(),
        };
        let entry = entry(&case["entry"]);
        let floor = match caller.floor(&entry) {
            Ok(()) if entry.is_reserved() => "policy_only",
            Ok(()) => "allow",
            Err(FloorRefusal::Outranked(_)) => "deny_scope",
            Err(FloorRefusal::OtherProject) => "deny_project",
        };
        assert_eq!(case["floor"], floor, "{case}");
        assert_eq!(case["mask_asserter"], entry.hides_asserter_from(caller.scope), "{case}");
    }
    println!("{} cases", cases.len());
    assert!(!cases.is_empty(), "no cases");
}

fn entry(values: &Value) -> Entry {
    Entry {
        uuid: Uuid::nil(),
        entry_type: values["type"].as_str().unwrap().to_owned(),
        reason: None,
        scope: values["scope"].as_str().unwrap().parse().unwrap(),
        asserted_by: "somebody".to_owned(),
        asserted_by_project: values["asserted_by_project"].as_str().unwrap().to_owned(),
        asserted_at: datetime!(2026-01-01 0:00),
        extra: None,
    }
}

#[test]
fn one_trust_domain_makes_everybody_an_operator() {
    let settings = AuthoritySettings { one_trust_domain: true, ..AuthoritySettings::default() };
    let nobody = creds(&Identity::default());
    assert_eq!(authority(&nobody, None, None, &settings), Some(Standing::System));
}

#[test]
fn nothing_equals_nothing() {
    let settings = AuthoritySettings::default();
    let projectless = creds(&Identity { project_id: None, ..of_project("", &["admin"]) });
    let empty = creds(&of_project("", &["admin"]));
    let named_none = creds(&of_project("None", &["admin"]));
    for caller in [&projectless, &empty, &named_none] {
        for owner in [None, Some("")] {
            assert_eq!(authority(caller, owner, owner, &settings), None);
        }
    }
    assert_eq!(authority(&named_none, Some("None"), None, &settings), Some(Standing::Owner));
}

#[test]
fn only_the_exact_system_scope_makes_an_operator() {
    let settings = AuthoritySettings::default();
    for (scope, wanted) in [("all", Some(Standing::System)), ("ALL", None), ("", None), ("region", None)] {
        let who = Identity { system_scope: Some(scope.to_owned()), ..of_system(&["admin"]) };
        assert_eq!(authority(&creds(&who), Some("A"), None, &settings), wanted, "{scope}");
    }
}

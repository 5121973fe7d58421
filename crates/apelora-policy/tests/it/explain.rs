//! What is said about a decision.

use apelora_policy::{Creds, EntryTarget, Identity, Reason, Rules, Target, TokenScope};
use serde_json::json;

use crate::support::{built_in, creds, of_project, of_system, with_file};

const SET: &str = "baremetal:node:set_maintenance";

fn is_shared<T: Send + Sync + 'static>(_: &T) {}

#[test]
fn a_decision_names_the_check_that_made_the_difference() {
    let rules = built_in();
    is_shared(&rules);
    let member = creds(&of_project("p1", &["member", "reader"]));
    let own = Target::node(&member, Some("p1"), None);
    let decision = rules.enforce(SET, &member, &own);
    assert!(decision.allowed);
    let Reason::Check { text, holds: true } = decision.because.reason() else { panic!("{decision:?}") };
    assert_eq!(text, "project_id:%(node.owner)s");
    assert_eq!(
        decision.because.to_string(),
        format!("rule '{SET}' (built-in default): the check 'project_id:%(node.owner)s' holds")
    );
    let foreign = Target::node(&member, Some("p2"), None);
    assert!(!rules.enforce(SET, &member, &foreign).allowed);
    let constant = rules.enforce("show_password", &member, &own);
    assert!(matches!((constant.allowed, constant.because.reason()), (false, Reason::Constant)));
    let unknown = rules.enforce("no:such:rule", &member, &own);
    assert_eq!(unknown.because.to_string(), "rule 'no:such:rule' does not exist");
    assert!(rules.authorize("no:such:rule", &member, &own).is_err());
}

#[test]
fn a_domain_token_is_refused_for_its_scope() {
    let who = Identity {
        domain_id: Some("d".to_owned()),
        project_id: None,
        ..of_project("", &["admin", "reader"])
    };
    let caller = creds(&who);
    let rules = built_in();
    let decision = rules.enforce("baremetal:node:list", &caller, &Target::caller(&caller));
    assert!(!decision.allowed);
    assert!(matches!(decision.because.reason(), Reason::Scope { token: TokenScope::Domain, .. }));
    let said = decision.because.to_string();
    assert!(said.ends_with("it is for system or project scope, and the token has domain scope"), "{said}");
}

#[test]
fn what_cannot_be_judged_is_refused_also_below_a_not() {
    let rules = with_file("a: not role:x\nb: not user.name:x\nc: not project_id:%(n)d\n").unwrap();
    let hostile =
        Creds::from_map(json!({"roles": [1], "user": "u", "project_id": "p"}).as_object().unwrap().clone());
    let values = json!({"n": "p"});
    let target = Target::values(values.as_object().unwrap());
    for name in ["a", "b", "c"] {
        let decision = rules.enforce(name, &hostile, &target);
        assert!(!decision.allowed, "{name}");
        assert!(matches!(decision.because.reason(), Reason::Undecided { .. }), "{name}");
    }
}

#[test]
fn an_explanation_shows_each_check_with_what_it_compared() {
    let rules =
        with_file("'baremetal:node:get': rule:mine or role:auditor\nmine: project_id:%(node.owner)s\n")
            .unwrap();
    let caller = creds(&of_project("p1", &["auditor"]));
    let target = Target::node(&caller, Some("p2"), None);
    let explanation = rules.explain("baremetal:node:get", &caller, &target);
    assert_eq!(
        explanation.to_string(),
        "allowed: rule 'baremetal:node:get' (policy.yaml:1): the check 'role:auditor' holds\n\
         \x20 baremetal:node:get: \"rule:mine or role:auditor\"\n\
         \x20 no  rule:mine\n\
         \x20 no    project_id:%(node.owner)s  (the caller has p1, wanted is 'p2')\n\
         \x20 yes role:auditor  ('auditor' in ['auditor'])\n"
    );
    let missing = rules.explain("mine", &caller, &Target::caller(&caller));
    assert_eq!(
        missing.steps[0].note,
        "the caller has p1, wanted is nothing, because there is no 'node.owner'"
    );
    assert_eq!(rules.explain("nope", &caller, &target).text, None);
}

#[test]
fn an_unknown_name_is_judged_by_the_default_rule_without_its_scope() {
    let rules = with_file("default: role:admin\n").unwrap();
    let admin = creds(&of_project("p1", &["admin"]));
    let decision = rules.enforce("no:such:rule", &admin, &Target::caller(&admin));
    assert!(decision.allowed);
    let said = decision.because.to_string();
    assert!(
        said.starts_with("rule 'no:such:rule' does not exist, so 'default' (policy.yaml:1) counts"),
        "{said}"
    );
}

/// Locking out and tagging out: only the person who placed the hold may release it.
#[test]
fn release_can_be_tightened_to_the_asserter() {
    let rules = with_file(
        "'baremetal:node:maintenance:remove': role:member and user_id:%(maintenance.asserted_by)s\n",
    )
    .unwrap();
    let remove = |rules: &Rules, who: &Identity, asserted_by: &str| {
        let creds = creds(who);
        let entry = EntryTarget {
            uuid: "8d8d9a25-0000-4000-8000-000000000000",
            kind: "operator_hold",
            scope: "owner",
            asserted_by,
            asserted_by_project: "p1",
        };
        let target = Target::node(&creds, Some("p1"), None).with_entry(entry);
        rules.enforce("baremetal:node:maintenance:remove", &creds, &target).allowed
    };
    let member = of_project("p1", &["member", "reader"]);
    assert!(remove(&rules, &member, "u1"));
    assert!(!remove(&rules, &member, "u2"));
    let nobody = Identity { user_id: None, ..member };
    assert!(!remove(&rules, &nobody, ""), "an unknown asserter is not the caller without a user");
    assert!(!remove(&rules, &nobody, "conductor"));
    // It applies to operators, too: their tokens have the role member.
    assert!(!remove(&rules, &of_system(&["admin", "member", "reader"]), "u2"));
}

#[test]
fn services_of_the_trusted_project_count_only_while_elevated() {
    let rules = built_in();
    let who = Identity { project_name: Some("service".to_owned()), ..of_project("s", &["service"]) };
    for (elevated, wanted) in [(None, false), (Some("service"), true), (Some("other"), false)] {
        let creds = Creds::of(&who, elevated);
        let target = Target::node(&creds, Some("p1"), None);
        assert_eq!(rules.enforce(SET, &creds, &target).allowed, wanted, "{elevated:?}");
    }
}

//! Files that are refused, and remarks on files that are not.

use apelora_policy::{Rules, Settings, Source, Target, eval};
use serde_json::json;

use crate::support::{built_in, creds, of_project, with_file, workspace};

fn refusal(text: &str) -> String {
    match with_file(text) {
        Ok(_) => panic!("{text:?} is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_refusal_names_file_line_rule_and_remedy() {
    for (text, wanted) in [
        (
            "a: \"@\"\nb: !\n",
            "policy.yaml:2: the tag '!' has no meaning here; remove it, and write a rule that begins with '!' in quotes",
        ),
        (
            "a: ~\n",
            "policy.yaml:1: rule 'a': the rule is null for YAML, which would be read as \"always\" or fail at each request; write it as a text in quotes, \"!\" for never and \"@\" for always",
        ),
        (
            "a: not typo\n",
            "policy.yaml:1: rule 'a': the check 'typo' is malformed and stands below a 'not', where it would let everybody pass; write it as 'kind:match'",
        ),
        (
            "a: http:example\n",
            "policy.yaml:1: rule 'a': the check 'http:example' would ask a server on the network, which is not supported; write the condition into the rule",
        ),
        (
            "a: https:example\n",
            "policy.yaml:1: rule 'a': the check 'https:example' would ask a server on the network, which is not supported; write the condition into the rule",
        ),
        (
            "a: rule:b\nb: role:x or rule:c\nc: rule:a\n",
            "policy.yaml:1: rule 'a': it refers to itself ('a' refers to 'b' refers to 'c' refers to 'a'), so it cannot be decided; remove one of the references",
        ),
        (
            "default: rule:nope\n",
            "policy.yaml:1: rule 'default': it refers to itself ('default' refers to 'default'), so it cannot be decided; remove one of the references",
        ),
        (
            "a: role:100%\n",
            "policy.yaml:1: rule 'a': the check 'role:100%' cannot be read, because it ends within a conversion that begins with '%'; insert a value with '%(key)s' and write '%%' for a percent sign",
        ),
        (
            "a: class:x\n",
            "policy.yaml:1: rule 'a': the check 'class:x' cannot be read, because it is a word that Python reserves before the ':'; write a credential such as 'project_id' there, or a text in quotes",
        ),
        (
            "\n- a\n",
            "policy.yaml:2: the file holds a list, not a mapping of rules; write one 'name: \"rule\"' on each line",
        ),
    ] {
        assert_eq!(refusal(text), wanted);
    }
}

#[test]
fn every_problem_is_found_and_the_first_one_is_said() {
    let text = "a: not typo\nb: 1\nc: role:100%\nd: role:fine\n";
    let error = with_file(text).unwrap_err();
    assert_eq!(error.problems().len(), 3);
    let lines: Vec<_> = error.problems().iter().map(|problem| problem.place.line).collect();
    assert!(lines.contains(&Some(1)) && lines.contains(&Some(2)) && lines.contains(&Some(3)), "{lines:?}");
    assert!(error.to_string().ends_with("(and 2 more problems)"), "{error}");
}

#[test]
fn a_mistake_is_refused_where_a_reference_inverts_it() {
    for text in [
        "a: not rule:b\nb: role:x and\n",
        "a: not rule:b\nb: rule:c\nc: typo or role:x\n",
        "a: not (role:x or rule:b)\nb: ' '\n",
        "a: not (role:x and typo)\n",
        "a: not not typo\n",
        "a: not role:%s\n",
        "'is_admin': typo\na: not rule:is_member\n'is_member': rule:is_admin\n",
    ] {
        assert!(refusal(text).contains("below a 'not'"), "{text}: {}", refusal(text));
    }
    // Elsewhere a mistake only refuses callers; that is said and allowed.
    let rules = with_file("a: typo or role:x\nb: role:x and\n").unwrap();
    assert_eq!(rules.warnings().len(), 4, "{:?}", rules.warnings());
}

#[test]
fn long_deep_and_costly_rules_are_refused() {
    let chain = |length: usize| {
        let mut text: String = (0..length).map(|i| format!("r{i}: rule:r{}\n", i + 1)).collect();
        text.push_str(&format!("r{length}: role:x\n"));
        text
    };
    assert!(with_file(&chain(400)).is_ok());
    assert!(refusal(&chain(10_000)).contains("more than 600 levels deep"));
    let tree = |length: usize| {
        let mut text: String =
            (0..length).map(|i| format!("r{i}: rule:r{j} and rule:r{j}\n", j = i + 1)).collect();
        text.push_str(&format!("r{length}: role:x\n"));
        text
    };
    assert!(with_file(&tree(10)).is_ok());
    assert!(refusal(&tree(60)).contains("more than 100000 checks"));
    assert!(refusal(&format!("a: {}role:x\n", "not ".repeat(1_000))).contains("deeper than 400 levels"));
    assert!(refusal(&format!("a: {}\n", "role:x or ".repeat(10_000))).contains("longer than 64 KiB"));
}

/// The deepest rules that are let in can be judged and dropped on a small stack.
#[test]
fn the_limits_fit_a_small_stack() {
    let work = || {
        let mut text = format!("r: \"{}rule:a0\"\n", "not ".repeat(390));
        text.push_str(&(0..190).map(|i| format!("a{i}: rule:a{}\n", i + 1)).collect::<String>());
        text.push_str("a190: role:x\n");
        let rules = with_file(&text).unwrap();
        let caller = creds(&of_project("p", &["x"]));
        assert!(rules.enforce("r", &caller, &Target::caller(&caller)).allowed);
        assert!(rules.explain("r", &caller, &Target::caller(&caller)).allowed);
        drop(rules.clone());
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(work).unwrap().join().unwrap();
}

/// Bare rules may refer to themselves; running into that ends within the same stack.
#[test]
fn endless_bare_rules_are_rejected() {
    let work = || {
        let deep = format!("{}rule:r", "not ".repeat(398));
        for rule in [deep.as_str(), "rule:r", "rule:r and rule:r", "not rule:r or rule:r", "rule:nope"] {
            let line =
                json!({"rules": {"r": rule, "default": "rule:r"}, "rule": "r", "creds": {}, "target": {}});
            let mut out = Vec::new();
            let summary = eval(line.to_string().as_bytes(), &mut out).unwrap();
            assert_eq!(summary.rejected, 1, "{rule}");
        }
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn remarks_point_out_what_is_probably_not_meant() {
    let text = "'baremetal:node:get': ''\n\
                'baremetal:node:gte': role:x\n\
                'baremetal:node:list': role:x and\n\
                'baremetal:node:list_all': rule:helper or rule:nope or is_admim:True\n\
                helper: user_id:%(maintenance.asserter)s or typo\n\
                helper: user_id:%(maintenance.asserted_by)s or typo\n";
    let rules = with_file(text).unwrap();
    let said: Vec<_> = rules.warnings().iter().map(ToString::to_string).collect();
    for wanted in [
        "policy.yaml:1: rule 'baremetal:node:get': the rule is empty, so everybody passes",
        "policy.yaml:2: rule 'baremetal:node:gte': nothing asks for this rule and no other rule names it",
        "policy.yaml:3: rule 'baremetal:node:list': the rule can never hold, because an operator or a parenthesis lacks its check",
        "policy.yaml:4: rule 'baremetal:node:list_all': the check 'rule:nope' names a rule that does not exist",
        "policy.yaml:4: rule 'baremetal:node:list_all': the check 'is_admim:True' reads the credential 'is_admim'",
        "policy.yaml:5: rule 'helper': the name stands here and on line 6",
        "policy.yaml:6: rule 'helper': the check 'typo' is malformed",
    ] {
        assert!(said.iter().any(|line| line.starts_with(wanted)), "{wanted} is not in {said:#?}");
    }
    assert!(
        said.iter().any(|line| line.contains("'baremetal:node:get': this older name also replaces")),
        "{said:#?}"
    );
    assert_eq!(said.len(), 8, "{said:#?}");
}

#[test]
fn later_files_win_and_a_broken_one_refuses_all() {
    let member = creds(&of_project("p", &["member"]));
    let judge = |sources: &[Source<'_>]| {
        Rules::compile(sources, &Settings::default())
            .map(|rules| rules.enforce("show_password", &member, &Target::caller(&member)).allowed)
    };
    let main = Source { name: "policy.yaml", text: "show_password: role:member\n" };
    let shut = Source { name: "policy.d/10.yaml", text: "show_password: '!'\n" };
    let broken = Source { name: "policy.d/20.yaml", text: "show_password: no\n" };
    assert_eq!(judge(&[]), Ok(false));
    assert_eq!(judge(&[main]), Ok(true));
    assert_eq!(judge(&[main, shut]), Ok(false));
    assert_eq!(judge(&[shut, main]), Ok(true));
    let error = judge(&[main, broken]).unwrap_err();
    assert!(error.to_string().starts_with("policy.d/20.yaml:1: rule 'show_password': "), "{error}");
}

#[test]
fn a_file_that_only_repeats_a_default_is_not_remarked_on() {
    let rules =
        with_file("is_admin:  'rule:admin_api  OR (rule:is_member and role:baremetal_admin)'\n").unwrap();
    assert_eq!(rules.warnings(), []);
    assert_eq!(rules.normal_form("is_admin"), built_in().normal_form("is_admin"));
}

/// The examples of the guide are policy files without anything to remark on.
#[test]
fn the_guides_examples_can_be_loaded() {
    let guide = std::fs::read_to_string(workspace().join("docs/policy.md")).unwrap();
    let examples: Vec<_> =
        guide.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let rules = with_file(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        assert_eq!(rules.warnings(), [], "{example}");
    }
}

//! The words of a refusal.

use apelora_maintenance::{Denial, Operation, Scope, TextProblem};

use crate::support::{Node, add, lessee, operator, set, who};

fn words(result: Result<apelora_maintenance::Plan, Denial>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_release_outranked() {
    let mut node = Node::new();
    node.change(&add("hardware_failure"), &operator()).unwrap();
    let uuid = node.locked.entries[0].uuid;
    assert_eq!(
        words(node.change(&Operation::ReleaseAll, &lessee())),
        format!(
            "Cannot release maintenance entry {uuid} (type hardware_failure, scope system): not permitted at lessee scope"
        )
    );
    assert_eq!(
        words(node.change(&Operation::ReleaseAll, &who(None, "z", "zz"))),
        format!(
            "Cannot release maintenance entry {uuid} (type hardware_failure, scope system): not permitted without \
             owner or lessee standing on the node"
        )
    );
}

#[test]
fn every_blocking_entry_is_named_in_the_order_of_assertion() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    node.change(&add("hardware_failure"), &operator()).unwrap();
    node.change(&set("never in the way"), &operator()).unwrap();
    let [first, second, _] = node.locked.entries.as_slice() else { panic!() };
    let (first, second) = (first.uuid, second.uuid);
    let newcomer = who(Some(Scope::Lessee), "bo", "lessee-b");
    assert_eq!(
        words(node.change(&Operation::ReleaseAll, &newcomer)),
        format!(
            "Cannot release maintenance entry {first} (type operator_hold, scope lessee, asserted by project lessee-a): \
             not asserted by your project; \
             Cannot release maintenance entry {second} (type hardware_failure, scope system): not permitted at lessee scope"
        )
    );
    assert_eq!(
        words(node.change_if(&Operation::ReleaseAll, &operator(), &mut |e| e.entry_type == "operator_hold")),
        format!(
            "Cannot release maintenance entry {second} (type hardware_failure, scope system): not permitted by policy"
        )
    );
}

#[test]
fn a_duplicate_names_the_existing_entry() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    let uuid = node.locked.entries[0].uuid;
    assert_eq!(
        words(node.change(&add("operator_hold"), &lessee())),
        format!(
            "A maintenance entry of type operator_hold at lessee scope already exists: {uuid}, asserted at \
             2026-06-10T00:00:01+00:00 by lee of project lessee-a"
        )
    );
}

#[test]
fn types_that_cannot_be_asserted() {
    let mut node = Node::new();
    assert_eq!(
        words(node.change(&add("Operator_hold"), &operator())),
        "Unknown maintenance type 'Operator_hold'. Known types are: hardware_failure, operator_hold"
    );
    for reserved in ["legacy", "fault"] {
        assert_eq!(
            node.change(&add(reserved), &operator()).unwrap_err(),
            Denial::ReservedType(reserved.to_owned())
        );
    }
    assert_eq!(node.change(&add("operator_hold"), &who(None, "z", "zz")).unwrap_err(), Denial::NoStanding);
}

#[test]
fn texts_that_cannot_be_stored() {
    let mut node = Node::new();
    let typed = |reason: Option<String>, extra: Option<String>| Operation::Add {
        entry_type: "operator_hold".into(),
        reason,
        extra,
    };
    let too_long = TextProblem::LongerThan(65_535);
    for (operation, field, problem) in [
        (typed(Some("x".repeat(65_536)), None), "reason", too_long),
        (typed(None, Some(format!("{{\"a\": \"{}\"}}", "x".repeat(65_536)))), "extra", too_long),
        (typed(Some("a\0b".into()), None), "reason", TextProblem::Nul),
        (set("a\0b"), "reason", TextProblem::Nul),
    ] {
        assert_eq!(node.change(&operation, &operator()).unwrap_err(), Denial::BadText { field, problem });
    }
    node.change(&typed(Some("x".repeat(65_535)), None), &operator()).unwrap();
    let missing = uuid::Uuid::from_u128(7);
    assert_eq!(
        words(node.change(&Operation::Release(missing), &operator())),
        format!("Maintenance entry {missing} could not be found.")
    );
}

//! What is written into history and audit.

use apelora_maintenance::{AuditAction, Operation, Scope};
use time::Duration;

use crate::support::{Node, add, lessee, operator, owner, set, who};

#[test]
fn assert_change_and_release_each_leave_one_record_of_each_kind() {
    let mut node = Node::new();
    let asserted = node.change(&set("one"), &operator()).unwrap();
    let amended = node.change(&set("two"), &operator()).unwrap();
    let released = node.change(&Operation::ReleaseAll, &operator()).unwrap();
    for (plan, action, words) in [
        (asserted, AuditAction::Asserted, "Maintenance asserted: legacy (scope system, entry "),
        (amended, AuditAction::Amended, "Maintenance reason changed: legacy (scope system, entry "),
        (released, AuditAction::Released, "Maintenance released: legacy (scope system, entry "),
    ] {
        let ([event], [audit]) = (plan.history(), plan.audit()) else { panic!("{plan:?}") };
        assert!(event.event.starts_with(words), "{}", event.event);
        assert_eq!((event.user.as_deref(), event.project.as_deref()), (Some("op-1"), None));
        assert_eq!(audit.action, action);
        assert_ne!(event.uuid, audit.uuid);
    }
}

#[test]
fn a_release_of_everything_names_each_entry() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &owner()).unwrap();
    node.change(&add("hardware_failure"), &lessee()).unwrap();
    let plan = node.change(&Operation::ReleaseAll, &operator()).unwrap();
    let events: Vec<_> = plan.history().iter().map(|h| h.event.as_str()).collect();
    assert_eq!(events.len(), 2);
    assert!(events[0].contains("operator_hold") && events[1].contains("hardware_failure"), "{events:?}");
    let mut ids: Vec<_> =
        plan.history().iter().map(|h| h.uuid).chain(plan.audit().iter().map(|a| a.uuid)).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn the_author_is_visible_from_the_higher_of_both_scopes() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    let by_owner = node.change(&Operation::ReleaseAll, &owner()).unwrap();
    assert_eq!(by_owner.history()[0].author_visible_from, Scope::Owner);
    let legacy = node.change(&set("x"), &operator()).unwrap();
    assert_eq!(legacy.history()[0].author_visible_from, Scope::System);
    let by_lessee = node.change(&Operation::ReleaseAll, &lessee()).unwrap();
    assert_eq!(by_lessee.history()[0].author_visible_from, Scope::System);
}

#[test]
fn no_identity_stands_in_a_text_that_tenants_read() {
    let mut node = Node::new();
    let secret = who(Some(Scope::System), "secret-operator", "secret-project");
    for operation in [add("operator_hold"), set("x"), set("y"), Operation::ReleaseAll] {
        for event in node.change(&operation, &secret).unwrap().history() {
            assert!(!event.event.contains("secret"), "{}", event.event);
        }
    }
}

#[test]
fn state_and_duration_come_from_the_node() {
    let mut node = Node::new();
    node.locked.node.provision_updated_at = Some(node.clock - Duration::seconds(41));
    node.locked.node.target_provision_state = Some("available".into());
    let plan = node.change(&set("x"), &operator()).unwrap();
    let event = &plan.history()[0];
    assert_eq!(
        (event.state.as_deref(), event.target_provision_state.as_deref()),
        (Some("active"), Some("available"))
    );
    assert_eq!((event.duration_seconds, event.conductor.as_str()), (Some(42), "apelora-1"));
}

#[test]
fn names_are_cut_to_the_columns_and_whole_in_the_audit() {
    let mut node = Node::new();
    let long = who(Some(Scope::System), &"u".repeat(255), &"p".repeat(255));
    let plan = node.change(&set("x"), &long).unwrap();
    assert_eq!(plan.history()[0].user.as_ref().unwrap().len(), 64);
    assert_eq!(plan.history()[0].project.as_ref().unwrap().len(), 80);
    assert_eq!(plan.audit()[0].actor, long);
    assert_eq!(plan.audit()[0].evidence["entry"]["asserted_by"], "u".repeat(255));
}

#[test]
fn the_same_stamp_gives_the_same_plan() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &owner()).unwrap();
    let stamp = node.stamp();
    let once = || {
        apelora_maintenance::plan(&Operation::ReleaseAll, &node.locked, &operator(), &mut |_| true, &stamp)
    };
    assert_eq!(once(), once());
}

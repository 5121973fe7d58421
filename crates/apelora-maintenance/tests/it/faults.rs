//! Faults: made and released by the service, and what operators' changes do to them.

use apelora_maintenance::{Authority, CONDUCTOR, FaultKind, Operation, Outcome, Scope};
use serde_json::{Map, Value, json};

use crate::support::{Node, add, lessee, operator, owner, set};

fn fault(kind: FaultKind, record: &str) -> Operation {
    let extra: Map<String, Value> = [("fence_record".to_owned(), Value::from(record))].into_iter().collect();
    Operation::AssertFault { kind, reason: Some("no answer".into()), extra }
}

fn conductor() -> Authority {
    Authority::service(CONDUCTOR)
}

#[test]
fn a_fault_is_one_entry_at_system_scope_and_keeps_the_column_in_step() {
    let mut node = Node::new();
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    let first = node.locked.entries[0].clone();
    assert_eq!(
        (
            first.entry_type.as_str(),
            first.scope,
            first.asserted_by.as_str(),
            first.asserted_by_project.as_str()
        ),
        ("fault", Scope::System, "conductor", "")
    );
    assert_eq!(first.extra.as_deref(), Some(r#"{"fault": "power failure", "fence_record": "r1"}"#));
    assert_eq!(node.locked.node.fault.as_deref(), Some("power failure"));
    let plan = node.change(&fault(FaultKind::CleanFailure, "r2"), &conductor()).unwrap();
    assert!(matches!(plan.outcome(), Outcome::Amended(_)));
    let [again] = node.locked.entries.as_slice() else { panic!() };
    assert_eq!((again.uuid, again.asserted_at), (first.uuid, first.asserted_at));
    assert_eq!(node.locked.node.fault.as_deref(), Some("clean failure"));
}

/// Case 1: a hold, then a fault that recovers.
#[test]
fn a_fault_comes_and_goes_without_touching_a_hold() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &owner()).unwrap();
    let hold = node.locked.entries[0].clone();
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    node.change(&Operation::ReleaseFault { fence_record: None }, &conductor()).unwrap();
    assert_eq!(node.locked.entries, [hold]);
    assert_eq!((node.reason(), node.locked.node.fault.as_deref()), (Some("operator_hold: why"), None));
}

/// Case 2: a fault, then a reason from an operator's client, then recovery.
#[test]
fn recovery_leaves_the_reason_that_a_client_set_meanwhile() {
    let mut node = Node::new();
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    node.change(&set("looking at it"), &operator()).unwrap();
    assert_eq!(node.locked.node.fault.as_deref(), Some("power failure"), "PUT keeps the fault");
    node.change(&Operation::ReleaseFault { fence_record: None }, &conductor()).unwrap();
    assert_eq!((node.types(), node.reason()), (vec!["legacy"], Some("looking at it")));
    assert!(node.locked.node.maintenance);
}

#[test]
fn only_the_fault_of_the_named_record_is_released() {
    let mut node = Node::new();
    node.change(&fault(FaultKind::PowerFailure, "r2"), &conductor()).unwrap();
    let release = |record: &str| Operation::ReleaseFault { fence_record: Some(record.to_owned()) };
    assert_eq!(node.change(&release("r1"), &conductor()).unwrap().outcome(), &Outcome::Unchanged);
    node.change(&release("r2"), &conductor()).unwrap();
    assert!(node.locked.entries.is_empty());
}

#[test]
fn whoever_passes_policy_releases_a_fault() {
    let mut node = Node::new();
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    node.change(&Operation::ReleaseAll, &lessee()).unwrap();
    assert_eq!((node.locked.node.maintenance, node.locked.node.fault.as_deref()), (false, None));
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    let uuid = node.locked.entries[0].uuid;
    node.change(&Operation::Release(uuid), &lessee()).unwrap();
    assert_eq!(node.locked.node.fault, None);
}

#[test]
fn a_fault_that_an_older_service_cleared_or_changed_is_taken_over() {
    let mut node = Node::new();
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    node.locked.node.fault = Some("clean failure".into());
    node.change(&Operation::Reconcile, &operator()).unwrap();
    let extra: Value = serde_json::from_str(node.locked.entries[0].extra.as_deref().unwrap()).unwrap();
    assert_eq!(extra, json!({"fault": "clean failure", "fence_record": "r1"}));
    // Cleared, and set again as a boolean: the fault is gone, the boolean stands.
    node.locked.node.fault = None;
    node.locked.node.maintenance_reason = Some("set again".into());
    node.change(&Operation::Reconcile, &operator()).unwrap();
    assert_eq!((node.types(), node.reason()), (vec!["legacy"], Some("set again")));
}

#[test]
fn a_fault_that_another_service_cleared_leaves_the_boolean_s_own_reason() {
    let mut node = Node::new();
    node.change(&set("boolean"), &operator()).unwrap();
    node.change(&fault(FaultKind::PowerFailure, "r1"), &conductor()).unwrap();
    assert_eq!(node.reason(), Some("legacy: boolean; fault: no answer"));
    node.locked.node.fault = None;
    node.change(&Operation::Reconcile, &operator()).unwrap();
    assert_eq!((node.types(), node.reason()), (vec!["legacy"], Some("boolean")));
}

//! What must hold after any sequence of changes, by anybody, with services that do not know entries in between.

use std::collections::HashSet;

use apelora_maintenance::{
    Authority, BlockerReason, Denial, Entry, FaultKind, LockedNode, Operation, Plan, Scope, registry,
    synthesise,
};
use proptest::prelude::*;
use uuid::Uuid;

use crate::support::{Node, who};

#[derive(Debug, Clone)]
enum Step {
    Change {
        operation: Op,
        by: usize,
        policy: bool,
        clock_step: i64,
    },
    /// A service that does not know entries writes the columns.
    Older {
        flag: bool,
        reason: Option<String>,
        fault: Option<FaultKind>,
    },
}

/// An operation before its entry is chosen among the existing ones.
#[derive(Debug, Clone)]
enum Op {
    Whole(Operation),
    ReleaseNth(usize),
}

fn callers() -> Vec<Authority> {
    vec![
        who(Some(Scope::System), "op-1", ""),
        who(Some(Scope::System), "op-2", "ops"),
        who(Some(Scope::Owner), "olga", "owner-a"),
        who(Some(Scope::Lessee), "lee", "lessee-a"),
        who(Some(Scope::Lessee), "bo", "lessee-b"),
        who(None, "zoe", "elsewhere"),
    ]
}

fn reason() -> impl Strategy<Value = Option<String>> {
    prop_oneof![Just(None), Just(Some(String::new())), "[a-z;: ü☃]{1,8}".prop_map(Some)]
}

fn kind() -> impl Strategy<Value = FaultKind> {
    (0..FaultKind::ALL.len()).prop_map(|i| FaultKind::ALL[i])
}

fn operation() -> impl Strategy<Value = Op> {
    let types = prop_oneof![
        Just("operator_hold"),
        Just("hardware_failure"),
        Just("legacy"),
        Just("fault"),
        Just("nonsense")
    ];
    prop_oneof![
        3 => reason().prop_map(|reason| Op::Whole(Operation::Set { reason })),
        1 => Just(Op::Whole(Operation::SetFlag)),
        2 => Just(Op::Whole(Operation::ReleaseAll)),
        6 => (types, reason()).prop_map(|(t, reason)| Op::Whole(Operation::Add {
            entry_type: t.to_owned(), reason, extra: Some("{}".to_owned()) })),
        5 => (0..8usize).prop_map(Op::ReleaseNth),
        2 => (kind(), reason()).prop_map(|(kind, reason)| Op::Whole(Operation::AssertFault {
            kind, reason, extra: serde_json::Map::new() })),
        1 => Just(Op::Whole(Operation::ReleaseFault { fence_record: None })),
        1 => Just(Op::Whole(Operation::Reconcile)),
        1 => Just(Op::Whole(Operation::DeleteNode)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (operation(), 0..6usize, prop::bool::weighted(0.9), -3..3i64)
            .prop_map(|(operation, by, policy, clock_step)| Step::Change { operation, by, policy, clock_step }),
        1 => (any::<bool>(), reason(), prop::option::of(kind()))
            .prop_map(|(flag, reason, fault)| Step::Older { flag, reason, fault }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_changes_keeps_the_rules(steps in prop::collection::vec(step(), 1..40)) {
        let mut node = Node::new();
        let callers = callers();
        for step in steps {
            let (operation, by, policy) = match step {
                Step::Older { flag, reason, fault } => {
                    node.locked.node.maintenance = flag;
                    node.locked.node.maintenance_reason = if flag { reason } else { None };
                    node.locked.node.fault = fault.map(|f| f.as_str().to_owned());
                    continue;
                }
                Step::Change { operation, by, policy, clock_step } => {
                    // Clocks of several servers disagree.
                    node.clock += time::Duration::seconds(clock_step);
                    let operation = match operation {
                        Op::Whole(operation) => operation,
                        Op::ReleaseNth(n) => Operation::Release(
                            node.locked.entries.get(n).map_or(Uuid::from_u128(9), |e| e.uuid)),
                    };
                    (operation, &callers[by], policy)
                }
            };
            let before = node.locked.clone();
            match node.change_if(&operation, by, &mut |_| policy) {
                Ok(plan) => granted(&before, &node.locked, &plan, &operation, by, policy),
                Err(denial) => {
                    prop_assert_eq!(&node.locked, &before);
                    refused(&before, &denial, by, policy);
                }
            }
        }
    }
}

fn granted(
    before: &LockedNode,
    now: &LockedNode,
    plan: &Plan,
    operation: &Operation,
    by: &Authority,
    policy: bool,
) {
    assert_eq!(now.entries, plan.entries(), "rows applied and entries announced differ");
    assert_eq!(
        now.node.maintenance,
        !now.entries.is_empty(),
        "the flag is true exactly while an entry exists"
    );
    assert_eq!(now.node.maintenance_reason, synthesise(&now.entries));
    for reserved in [registry::LEGACY, registry::FAULT] {
        assert!(now.entries.iter().filter(|e| e.entry_type == reserved).count() <= 1);
    }
    if let Some(fault) = now.entries.iter().find(|e| e.entry_type == registry::FAULT) {
        let extra: serde_json::Value = serde_json::from_str(fault.extra.as_deref().unwrap()).unwrap();
        assert_eq!(extra["fault"].as_str(), now.node.fault.as_deref(), "fault entry and column agree");
    }
    let keys: HashSet<_> =
        now.entries.iter().map(|e| (&e.entry_type, e.scope, &e.asserted_by_project)).collect();
    assert_eq!(keys.len(), now.entries.len(), "one hold per type, scope and project");
    // Typed entries end only by somebody who may, and never change.
    for entry in before.entries.iter().filter(|e| !registry::is_reserved(&e.entry_type)) {
        match now.entries.iter().find(|e| e.uuid == entry.uuid) {
            Some(still) => assert_eq!(still, entry),
            None => {
                assert!(policy && by.floor(entry).is_ok(), "{entry:?} ended by {by:?}");
                assert!(matches!(
                    operation,
                    Operation::Release(_) | Operation::ReleaseAll | Operation::DeleteNode
                ));
            }
        }
    }
    // Nothing of an entry but reason and extra ever changes.
    let identity = |e: &Entry| {
        (e.entry_type.clone(), e.scope, e.asserted_by.clone(), e.asserted_by_project.clone(), e.asserted_at)
    };
    for entry in &before.entries {
        if let Some(still) = now.entries.iter().find(|e| e.uuid == entry.uuid) {
            assert_eq!(identity(still), identity(entry));
        }
    }
    // Every difference is written down.
    if before.entries != now.entries || before.node.maintenance != now.node.maintenance {
        assert!(!plan.audit().is_empty());
    }
    if before.entries != now.entries && !matches!(operation, Operation::DeleteNode) {
        assert!(!plan.history().is_empty());
    }
    let ids: HashSet<_> =
        plan.history().iter().map(|h| h.uuid).chain(plan.audit().iter().map(|a| a.uuid)).collect();
    assert_eq!(ids.len(), plan.history().len() + plan.audit().len());
}

fn refused(before: &LockedNode, denial: &Denial, by: &Authority, policy: bool) {
    match denial {
        Denial::Blocked(blockers) => {
            assert!(!blockers.is_empty());
            for blocker in blockers {
                let entry = before.entries.iter().find(|e| e.uuid == blocker.uuid).unwrap();
                match blocker.reason {
                    BlockerReason::Policy => assert!(!policy),
                    _ => assert!(by.floor(entry).is_err()),
                }
            }
        }
        Denial::Duplicate { existing } => assert!(before.entries.contains(existing)),
        Denial::NoStanding => assert_eq!(by.scope, None),
        Denial::UnknownType(name) => assert_eq!(name, "nonsense"),
        Denial::ReservedType(name) => assert!(registry::is_reserved(name)),
        Denial::BadText { .. } => panic!("{denial}"),
        Denial::NoSuchEntry(_) => {}
    }
}

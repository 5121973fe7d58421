//! The text's rules about entries, flag and reason.

use apelora_maintenance::{Authority, Denial, MIGRATION, Operation, Outcome, Scope};

use crate::support::{Node, add, lessee, operator, owner, set, who};

#[test]
fn put_makes_one_legacy_entry_and_reads_back_verbatim() {
    let mut node = Node::new();
    for reason in ["rebalancing rack", "", "; legacy: x", "ünï☃\n"] {
        node.change(&set(reason), &operator()).unwrap();
        assert_eq!(node.types(), ["legacy"]);
        assert_eq!(node.reason(), Some(reason));
    }
    node.change(&Operation::Set { reason: None }, &operator()).unwrap();
    assert_eq!((node.reason(), node.locked.node.maintenance), (None, true));
}

#[test]
fn put_updates_the_reason_and_never_restamps() {
    let mut node = Node::new();
    node.change(&set("first"), &owner()).unwrap();
    let before = node.locked.entries[0].clone();
    let plan = node.change(&set("second"), &operator()).unwrap();
    let after = &node.locked.entries[0];
    assert!(matches!(plan.outcome(), Outcome::Amended(e) if e == after));
    assert_eq!(after.reason.as_deref(), Some("second"));
    assert_eq!(
        (after.uuid, after.scope, &after.asserted_by, &after.asserted_by_project, after.asserted_at),
        (before.uuid, Scope::Owner, &before.asserted_by, &before.asserted_by_project, before.asserted_at)
    );
}

#[test]
fn the_same_reason_again_is_no_change() {
    let mut node = Node::new();
    node.change(&set("x"), &operator()).unwrap();
    let plan = node.change(&set("x"), &operator()).unwrap();
    assert_eq!(plan.outcome(), &Outcome::Unchanged);
    assert!(plan.history().is_empty() && plan.audit().is_empty() && plan.amend().is_empty());
}

#[test]
fn a_legacy_reason_is_cut_at_4096_characters() {
    let mut node = Node::new();
    node.change(&set(&"ü".repeat(5000)), &operator()).unwrap();
    assert_eq!(node.reason().unwrap(), "ü".repeat(4096));
}

#[test]
fn patch_true_keeps_an_existing_legacy_reason() {
    let mut node = Node::new();
    node.change(&Operation::SetFlag, &operator()).unwrap();
    assert_eq!((node.types(), node.reason()), (vec!["legacy"], None));
    node.change(&set("kept"), &operator()).unwrap();
    assert_eq!(node.change(&Operation::SetFlag, &operator()).unwrap().outcome(), &Outcome::Unchanged);
    assert_eq!(node.reason(), Some("kept"));
}

#[test]
fn a_caller_without_standing_sets_the_boolean_at_lessee_scope() {
    let mut node = Node::new();
    node.change(&set("x"), &who(None, "zoe", "elsewhere")).unwrap();
    let entry = &node.locked.entries[0];
    assert_eq!((entry.scope, entry.asserted_by_project.as_str()), (Scope::Lessee, "elsewhere"));
    // The stamps are audit data: anybody whom policy lets may clear it.
    node.change(&Operation::ReleaseAll, &who(None, "other", "")).unwrap();
    assert!(!node.locked.node.maintenance);
}

#[test]
fn scope_is_derived_from_the_caller() {
    for by in [operator(), owner(), lessee()] {
        let mut node = Node::new();
        let plan = node.change(&add("operator_hold"), &by).unwrap();
        let Outcome::Asserted(entry) = plan.outcome() else { panic!("{plan:?}") };
        assert_eq!(Some(entry.scope), by.scope);
        assert_eq!((&entry.asserted_by, &entry.asserted_by_project), (&by.user, &by.project));
        assert_eq!(entry.asserted_at, node.clock);
    }
}

#[test]
fn concurrent_holds_stand_beside_each_other() {
    let mut node = Node::new();
    node.change(&add("hardware_failure"), &owner()).unwrap();
    node.change(&add("operator_hold"), &operator()).unwrap();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    assert_eq!(node.types(), ["hardware_failure", "operator_hold", "operator_hold"]);
    assert_eq!(node.reason(), Some("hardware_failure: why; operator_hold: why; operator_hold: why"));
}

#[test]
fn a_teammate_s_identical_hold_is_a_duplicate() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &owner()).unwrap();
    let teammate = who(Some(Scope::Owner), "oscar", "owner-a");
    let before = node.locked.clone();
    let Err(Denial::Duplicate { existing }) = node.change(&add("operator_hold"), &teammate) else { panic!() };
    assert_eq!(*existing, before.entries[0]);
    assert_eq!(node.locked, before);
}

#[test]
fn all_operators_without_a_project_share_one_hold_per_type() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &operator()).unwrap();
    let other = who(Some(Scope::System), "op-2", "");
    assert!(matches!(node.change(&add("operator_hold"), &other), Err(Denial::Duplicate { .. })));
    // An operator with a project-scoped admin role is another asserter, and may still release the first one's.
    let project_admin = who(Some(Scope::System), "op-3", "ops");
    node.change(&add("operator_hold"), &project_admin).unwrap();
    let first = node.locked.entries[0].uuid;
    node.change(&Operation::Release(first), &project_admin).unwrap();
}

#[test]
fn releasing_one_of_three_leaves_the_others_untouched() {
    let mut node = Node::new();
    for by in [operator(), owner(), lessee()] {
        node.change(&add("operator_hold"), &by).unwrap();
    }
    let before = node.locked.entries.clone();
    node.change(&Operation::Release(before[1].uuid), &owner()).unwrap();
    assert_eq!(node.locked.entries, [before[0].clone(), before[2].clone()]);
    assert!(node.locked.node.maintenance);
}

#[test]
fn the_last_release_lowers_the_flag() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    let uuid = node.locked.entries[0].uuid;
    node.change(&Operation::Release(uuid), &lessee()).unwrap();
    assert_eq!((node.locked.node.maintenance, node.reason()), (false, None));
}

#[test]
fn release_all_is_all_or_nothing() {
    let mut node = Node::new();
    node.change(&add("hardware_failure"), &operator()).unwrap();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    node.change(&set("boolean"), &operator()).unwrap();
    let before = node.locked.clone();
    let Err(Denial::Blocked(blockers)) = node.change(&Operation::ReleaseAll, &lessee()) else { panic!() };
    assert_eq!(blockers.iter().map(|b| b.uuid).collect::<Vec<_>>(), [before.entries[0].uuid]);
    assert_eq!(node.locked, before);
    let plan = node.change(&Operation::ReleaseAll, &operator()).unwrap();
    assert_eq!((plan.delete().len(), plan.flag(), plan.reason()), (3, false, None));
}

#[test]
fn release_all_without_entries_succeeds_and_leaves_no_record() {
    let mut node = Node::new();
    node.locked.node.fault = Some("power failure".into());
    let plan = node.change(&Operation::ReleaseAll, &lessee()).unwrap();
    assert_eq!((plan.outcome(), plan.fault()), (&Outcome::Unchanged, None));
    assert!(plan.history().is_empty() && plan.audit().is_empty());
}

#[test]
fn holds_survive_a_new_lessee_who_cannot_release_them() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &lessee()).unwrap();
    node.locked.node.lessee = Some("lessee-b".into());
    let uuid = node.locked.entries[0].uuid;
    let newcomer = who(Some(Scope::Lessee), "bo", "lessee-b");
    assert!(matches!(node.change(&Operation::Release(uuid), &newcomer), Err(Denial::Blocked(_))));
    assert!(matches!(node.change(&Operation::ReleaseAll, &newcomer), Err(Denial::Blocked(_))));
    node.change(&Operation::Release(uuid), &owner()).unwrap();
}

#[test]
fn the_floor_for_every_pair_of_scope_and_project() {
    for entry_scope in Scope::ALL {
        for caller_scope in [None, Some(Scope::Lessee), Some(Scope::Owner), Some(Scope::System)] {
            for same_project in [false, true] {
                let mut node = Node::new();
                node.change(&add("operator_hold"), &who(Some(entry_scope), "a", "p")).unwrap();
                let caller = who(caller_scope, "b", if same_project { "p" } else { "q" });
                let allowed = match caller_scope {
                    None => false,
                    Some(s) if s > entry_scope => true,
                    Some(s) if s == entry_scope => s == Scope::System || same_project,
                    Some(_) => false,
                };
                let uuid = node.locked.entries[0].uuid;
                assert_eq!(
                    node.change(&Operation::Release(uuid), &caller).is_ok(),
                    allowed,
                    "{entry_scope} {caller_scope:?} {same_project}"
                );
            }
        }
    }
}

#[test]
fn an_empty_project_below_system_matches_nobody() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &who(Some(Scope::Owner), "a", "")).unwrap();
    assert!(node.change(&Operation::ReleaseAll, &who(Some(Scope::Owner), "a", "")).is_err());
}

#[test]
fn policy_is_asked_for_typed_entries_and_for_reserved_ones_only_by_id() {
    let mut node = Node::new();
    node.change(&set("boolean"), &operator()).unwrap();
    node.change(&add("operator_hold"), &operator()).unwrap();
    let legacy = node.locked.entries[0].uuid;
    let mut asked = Vec::new();
    let Err(Denial::Blocked(blockers)) = node.change_if(&Operation::ReleaseAll, &operator(), &mut |e| {
        asked.push(e.entry_type.clone());
        false
    }) else {
        panic!()
    };
    assert_eq!((asked.as_slice(), blockers.len()), (["operator_hold".to_owned()].as_slice(), 1));
    assert!(node.change_if(&Operation::Release(legacy), &operator(), &mut |_| false).is_err());
    node.change_if(&Operation::Release(legacy), &lessee(), &mut |_| true).unwrap();
}

#[test]
fn deleting_a_node_needs_what_releasing_its_typed_entries_needs() {
    let mut node = Node::new();
    node.change(&set("boolean"), &operator()).unwrap();
    node.change(&Operation::DeleteNode, &lessee()).unwrap();
    node.change(&add("operator_hold"), &operator()).unwrap();
    assert!(matches!(node.change(&Operation::DeleteNode, &owner()), Err(Denial::Blocked(_))));
    let plan = node.change(&Operation::DeleteNode, &operator()).unwrap();
    assert!(plan.history().is_empty(), "history dies with the node");
    assert_eq!(plan.audit().last().unwrap().evidence["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn an_older_service_raised_the_flag() {
    let mut node = Node::new();
    node.locked.node.maintenance = true;
    node.locked.node.maintenance_reason = Some("by an older service".into());
    node.locked.node.fault = Some("power failure".into());
    let plan = node.change(&Operation::Reconcile, &Authority::service(MIGRATION)).unwrap();
    let [entry] = plan.insert() else { panic!("{plan:?}") };
    assert_eq!(
        (
            entry.entry_type.as_str(),
            entry.scope,
            entry.asserted_by.as_str(),
            entry.asserted_by_project.as_str()
        ),
        ("legacy", Scope::System, "migration", "")
    );
    assert_eq!(plan.reason(), Some("by an older service"));
    assert_eq!(plan.fault(), Some("power failure"), "the fault column is left as it is");
    assert!(!node.change(&Operation::Reconcile, &operator()).unwrap().changes(&node.locked));
}

#[test]
fn an_older_service_lowered_the_flag() {
    let mut node = Node::new();
    node.change(&set("boolean"), &operator()).unwrap();
    node.change(&add("operator_hold"), &owner()).unwrap();
    node.locked.node.maintenance = false;
    node.locked.node.maintenance_reason = None;
    let plan = node.change(&Operation::Reconcile, &operator()).unwrap();
    assert_eq!(node.types(), ["operator_hold"]);
    assert!(plan.flag(), "typed entries put the flag back");
    assert_eq!(plan.reason(), Some("operator_hold: why"));
}

#[test]
fn an_older_service_changed_the_reason_of_a_lone_legacy_entry() {
    let mut node = Node::new();
    node.change(&set("ours"), &operator()).unwrap();
    node.locked.node.maintenance_reason = Some("theirs".into());
    node.change(&add("operator_hold"), &operator()).unwrap();
    assert_eq!(node.reason(), Some("legacy: theirs; operator_hold: why"));
}

#[test]
fn every_operation_reconciles_first() {
    let mut node = Node::new();
    node.locked.node.maintenance = true;
    node.locked.node.maintenance_reason = Some("older".into());
    let plan = node.change(&add("operator_hold"), &operator()).unwrap();
    assert_eq!(node.types(), ["legacy", "operator_hold"]);
    assert_eq!(plan.insert().len(), 2);
    assert_ne!(plan.insert()[0].uuid, plan.insert()[1].uuid);
}

#[test]
fn an_entry_of_a_type_unknown_here_is_shown_kept_and_guarded() {
    let mut node = Node::new();
    node.change(&add("operator_hold"), &operator()).unwrap();
    node.locked.entries[0].entry_type = "scheduled_window".into();
    assert!(matches!(node.change(&Operation::ReleaseAll, &lessee()), Err(Denial::Blocked(_))));
    node.change(&set("x"), &operator()).unwrap();
    assert_eq!(node.reason(), Some("scheduled_window: why; legacy: x"));
}

#[test]
fn the_synthesised_reason_is_cut_on_a_character_boundary() {
    let mut node = Node::new();
    let long =
        |t: &str| Operation::Add { entry_type: t.into(), reason: Some("ü".repeat(32_000)), extra: None };
    node.change(&long("operator_hold"), &operator()).unwrap();
    node.change(&long("hardware_failure"), &operator()).unwrap();
    let reason = node.reason().unwrap();
    assert!(reason.len() <= 65_535 && reason.len() > 65_530, "{}", reason.len());
    assert!(reason.ends_with('ü'));
}

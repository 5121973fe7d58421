//! One change after the other.

use apelora_maintenance::{Denial, LockedNode, Operation, Outcome, Scope, plan};
use apelora_store::{
    AuditQuery, Cell, ChangeError, Direction, HistoryColumn, HistoryQuery, NodeChange, NodeColumn, NodeKey,
    NodePatch, StoreError,
};

use crate::lab::{
    START, add, assert_whole, by_uuid, id, make_node, make_node_with, on_every_engine, operate, set, stamp,
    stamp_after, system, who,
};

fn whole_history() -> HistoryQuery {
    HistoryQuery { sort: (HistoryColumn::CreatedAt, Direction::Ascending), marker: None, limit: 10_000 }
}

fn whole_audit() -> AuditQuery {
    AuditQuery { limit: 10_000, ..AuditQuery::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_made_read_changed_and_removed() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        store.ping().await.unwrap();
        let uuid = id().to_string();
        let fields = NodePatch::new()
            .with(NodeColumn::Uuid, uuid.as_str())
            .with(NodeColumn::Name, "n1")
            .with(NodeColumn::Driver, "fake-hardware")
            .with(NodeColumn::Extra, Cell::Json(r#"{"a": "\u00fc"}"#.into()))
            .with(NodeColumn::ProvisionUpdatedAt, START)
            .with(NodeColumn::AutomatedClean, true)
            .with(NodeColumn::ChassisId, 7);
        let made = store.create_node(&stamp(), fields, None).await.unwrap();
        assert_eq!((made.entry, made.entries.len()), (None, 0));
        let row = store.node(&NodeKey::Name("n1".into()), NodeColumn::ALL).await.unwrap().unwrap();
        assert_eq!(row, made.row);
        assert_eq!(row.json(NodeColumn::Extra), Some(r#"{"a": "\u00fc"}"#));
        assert_eq!(row.time(NodeColumn::CreatedAt), Some(START));
        assert_eq!(row.time(NodeColumn::ProvisionUpdatedAt), Some(START));
        assert_eq!(row.get(NodeColumn::UpdatedAt), &Cell::Null);
        assert_eq!(row.text(NodeColumn::Version), Some("1.44"));
        assert_eq!(row.text(NodeColumn::ConductorGroup), Some(""));
        assert_eq!(row.int(NodeColumn::ChassisId), Some(7));
        for (column, value) in [
            (NodeColumn::Maintenance, Some(false)),
            (NodeColumn::Protected, Some(false)),
            (NodeColumn::Retired, Some(false)),
            (NodeColumn::AutomatedClean, Some(true)),
            (NodeColumn::SecureBoot, None),
        ] {
            assert_eq!(row.bool(column), value, "{column}");
        }

        let fields = NodePatch::new().with(NodeColumn::Name, Cell::Null).with(NodeColumn::Owner, "p1");
        let changed = store
            .change_node(&by_uuid(&uuid), &stamp_after(5), |on| {
                assert_eq!(on.row, row);
                Ok::<_, Denial>(NodeChange { fields: fields.clone(), ..NodeChange::default() })
            })
            .await
            .unwrap();
        let read = store.node(&by_uuid(&uuid), NodeColumn::ALL).await.unwrap().unwrap();
        assert_eq!(read, changed.row);
        assert_eq!((read.text(NodeColumn::Name), read.text(NodeColumn::Owner)), (None, Some("p1")));
        assert_eq!(read.time(NodeColumn::UpdatedAt), Some(stamp_after(5).at));
        assert!(store.node(&NodeKey::Name("n1".into()), &[]).await.unwrap().is_none());
        let some = store.node(&by_uuid(&uuid), &[NodeColumn::Owner]).await.unwrap().unwrap();
        assert_eq!((some.text(NodeColumn::Owner), some.text(NodeColumn::Uuid)), (Some("p1"), None));

        operate(&store, &uuid, &set("x"), &system(), &stamp()).await.unwrap();
        let stamp = stamp_after(9);
        let gone = store
            .change_node(&by_uuid(&uuid), &stamp, |on| {
                let plan = plan(&Operation::DeleteNode, &on.node, &system(), &mut |_| true, &stamp)?;
                Ok::<_, Denial>(NodeChange { plan: Some(plan), remove_node: true, ..NodeChange::default() })
            })
            .await
            .unwrap();
        assert_eq!((gone.entries.len(), gone.row.text(NodeColumn::Uuid)), (0, Some(uuid.as_str())));
        assert!(store.node(&by_uuid(&uuid), &[]).await.unwrap().is_none());
        for table in ["nodes", "node_maintenance", "node_history", "apelora_history_author"] {
            assert_eq!(lab.number(&format!("SELECT COUNT(*) FROM {table}")).await, 0, "{table}");
        }
        let actions: Vec<_> =
            store.audit(&whole_audit()).await.unwrap().into_iter().map(|row| row.action).collect();
        assert_eq!(actions, ["maintenance.asserted", "node.deleted"]);
        let again = store.change_node(&by_uuid(&uuid), &stamp_after(10), |_| Err(())).await;
        assert!(matches!(again, Err(ChangeError::NotFound)), "{again:?}");
        store.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_flag_reason_history_and_audit_go_together() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node_with(&store, "n1", NodePatch::new().with(NodeColumn::Owner, "p1")).await;
        let first = stamp_after(1);
        let added =
            operate(&store, &uuid, &add("operator_hold", Some("disk")), &system(), &first).await.unwrap();
        let entry = added.entry.clone().unwrap();
        assert_eq!((entry.uuid, entry.scope, entry.asserted_at), (first.entry, Scope::System, first.at));
        assert_eq!(added.entries, std::slice::from_ref(&entry));
        assert_eq!(added.row.bool(NodeColumn::Maintenance), Some(true));
        let owner = who(Scope::Owner, "u1", "p1");
        let second = stamp_after(2);
        operate(&store, &uuid, &add("operator_hold", None), &owner, &second).await.unwrap();
        operate(&store, &uuid, &set("verbatim"), &system(), &stamp_after(3)).await.unwrap();
        let on = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&on);
        assert_eq!(
            on.node.maintenance_reason.as_deref(),
            Some("operator_hold: disk; operator_hold; legacy: verbatim")
        );
        assert_eq!(on.entries[0], entry);
        let counts: Vec<_> = store.entry_counts().await.unwrap();
        let counts: Vec<_> =
            counts.iter().map(|c| (c.entry_type.as_str(), c.scope.as_str(), c.count)).collect();
        assert_eq!(
            counts,
            [("legacy", "system", 1), ("operator_hold", "owner", 1), ("operator_hold", "system", 1)]
        );

        // The same again names the one that is there.
        let again = operate(&store, &uuid, &add("operator_hold", Some("y")), &owner, &stamp_after(4)).await;
        match again {
            Err(ChangeError::Refused(Denial::Duplicate { existing })) => {
                assert_eq!((existing.uuid, existing.asserted_at), (second.entry, second.at));
            }
            other => panic!("{other:?}"),
        }
        // One goes, the others are as they were.
        operate(&store, &uuid, &Operation::Release(second.entry), &owner, &stamp_after(5)).await.unwrap();
        let after = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&after);
        assert_eq!(after.entries, [on.entries[0].clone(), on.entries[2].clone()]);

        assert_eq!(lab.texts("SELECT version FROM node_maintenance").await, ["1.0"; 2]);
        let none = operate(&store, &uuid, &Operation::ReleaseAll, &system(), &stamp_after(6)).await.unwrap();
        assert_eq!((none.entries.len(), none.row.bool(NodeColumn::Maintenance)), (0, Some(false)));
        assert_whole(&store.entries(&by_uuid(&uuid)).await.unwrap().unwrap());

        let history = store.history(&uuid, &whole_history()).await.unwrap();
        let told: Vec<_> = history.iter().map(|h| h.event.clone().unwrap()).collect();
        assert_eq!(told.len(), 6, "{told:?}");
        assert!(told[0].starts_with("Maintenance asserted: operator_hold"), "{told:?}");
        assert!(told[3].starts_with("Maintenance released: operator_hold"), "{told:?}");
        assert_eq!(history[1].user.as_deref(), Some("u1"));
        assert_eq!(history[1].author_visible_from, Some(Scope::Owner));
        assert_eq!(history[0].author_visible_from, Some(Scope::System));
        assert_eq!(history[0].event_type.as_deref(), Some("maintenance"));
        assert_eq!(history[0].conductor.as_deref(), Some("lab"));
        assert_eq!(lab.texts("SELECT version FROM node_history").await, ["1.3"; 6]);
        let record = store.history_record(&uuid, &history[2].uuid).await.unwrap();
        assert_eq!(record.as_ref(), Some(&history[2]));
        let other = make_node(&store, "n2").await;
        assert_eq!(store.history_record(&other, &history[2].uuid).await.unwrap(), None);
        assert!(store.history(&other, &whole_history()).await.unwrap().is_empty());

        let audit = store.audit(&whole_audit()).await.unwrap();
        assert_eq!(audit.len(), 6);
        assert_eq!(
            (audit[1].user.as_str(), audit[1].project.as_str(), audit[1].scope.as_str()),
            ("u1", "p1", "owner")
        );
        assert_eq!(audit[0].outcome, "success");
        let evidence: serde_json::Value = serde_json::from_str(&audit[0].evidence).unwrap();
        assert_eq!(evidence["entry"]["reason"], "disk");
        let by = async |query: AuditQuery| store.audit(&query).await.unwrap().len();
        assert_eq!(by(AuditQuery { node_uuid: Some(uuid.clone()), ..whole_audit() }).await, 6);
        assert_eq!(by(AuditQuery { node_uuid: Some(other), ..whole_audit() }).await, 0);
        assert_eq!(by(AuditQuery { action: Some("maintenance.released".into()), ..whole_audit() }).await, 3);
        assert_eq!(by(AuditQuery { user: Some("u1".into()), ..whole_audit() }).await, 2);
        assert_eq!(by(AuditQuery { from: Some(first.at), until: Some(second.at), ..whole_audit() }).await, 1);
        assert_eq!(by(AuditQuery { after: Some(audit[2].seq), ..whole_audit() }).await, 3);
        store.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_may_have_an_entry_at_once() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let stamp = stamp();
        let uuid = id().to_string();
        let facts = apelora_maintenance::NodeFacts { uuid: uuid.clone(), ..Default::default() };
        let on = LockedNode { node: facts, entries: Vec::new() };
        let plan = plan(&Operation::SetFlag, &on, &system(), &mut |_| true, &stamp).unwrap();
        assert!(matches!(plan.outcome(), Outcome::Asserted(_)));
        let fields = NodePatch::new().with(NodeColumn::Uuid, uuid.as_str());
        let made = store.create_node(&stamp, fields, Some(plan)).await.unwrap();
        assert_eq!(made.entry.map(|e| e.uuid), Some(stamp.entry));
        assert_eq!(made.row.bool(NodeColumn::Maintenance), Some(true));
        assert_whole(&store.entries(&by_uuid(&uuid)).await.unwrap().unwrap());
        assert_eq!(store.history(&uuid, &whole_history()).await.unwrap().len(), 1);
        store.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taken_values_reservations_and_unstorable_values_are_named() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let instance = id().to_string();
        let taken = NodePatch::new().with(NodeColumn::InstanceUuid, instance.as_str());
        let uuid = make_node_with(&store, "n1", taken.clone()).await;
        let other = make_node(&store, "n2").await;
        let create = async |fields: NodePatch| store.create_node(&stamp(), fields, None).await.unwrap_err();
        let fields = || NodePatch::new().with(NodeColumn::Uuid, id().to_string());
        for (fields, column, value) in [
            (fields().with(NodeColumn::Uuid, uuid.as_str()), NodeColumn::Uuid, uuid.as_str()),
            (fields().with(NodeColumn::Name, "n1"), NodeColumn::Name, "n1"),
            (fields().with(NodeColumn::InstanceUuid, instance.as_str()), NodeColumn::InstanceUuid, &instance),
        ] {
            match create(fields).await {
                ChangeError::Conflict(conflict) => {
                    assert_eq!((conflict.column, conflict.value.as_str()), (column, value));
                }
                other => panic!("{other:?}"),
            }
        }
        let change = NodeChange { fields: taken, ..NodeChange::default() };
        let refused = store.change_node(&by_uuid(&other), &stamp(), |_| Ok::<_, ()>(change.clone())).await;
        assert!(matches!(refused, Err(ChangeError::Conflict(c)) if c.column == NodeColumn::InstanceUuid));
        for fields in [
            NodePatch::new(),
            fields().with(NodeColumn::Name, "x".repeat(256)),
            fields().with(NodeColumn::Maintenance, true),
            fields().with(NodeColumn::Extra, Cell::Json("x".repeat(70_000))),
        ] {
            assert!(matches!(create(fields).await, ChangeError::Unstorable(_)));
        }
        lab.sql(&format!("UPDATE nodes SET reservation = 'someone' WHERE uuid = '{other}'")).await;
        let refused = operate(&store, &other, &set("x"), &system(), &stamp()).await;
        assert!(matches!(refused, Err(ChangeError::Reserved { by }) if by == "someone"));
        // A capital letter makes another name.
        make_node(&store, "N1").await;
        make_node(&store, "n1 ").await;
        assert!(store.node(&NodeKey::Name("N2".into()), &[]).await.unwrap().is_none());
        assert_eq!(lab.number("SELECT COUNT(*) FROM nodes").await, 4);
        store.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_another_service_ended_is_replaced_by_one_of_the_same_identity() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node(&store, "n1").await;
        operate(&store, &uuid, &set("first"), &system(), &stamp_after(1)).await.unwrap();
        lab.sql("UPDATE nodes SET maintenance = NULL, maintenance_reason = NULL").await;
        let second = stamp_after(2);
        let changed = operate(&store, &uuid, &set("second"), &system(), &second).await.unwrap();
        assert_eq!(changed.entry.map(|e| e.uuid), Some(second.entry));
        let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&node);
        assert_eq!(node.entries, changed.entries);
        assert_eq!(node.entries.len(), 1);
        let actions: Vec<_> =
            store.audit(&whole_audit()).await.unwrap().into_iter().map(|a| a.action).collect();
        assert_eq!(actions, ["maintenance.asserted", "maintenance.reconciled", "maintenance.asserted"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_the_database_are_told_without_its_words() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node(&store, "n1").await;
        lab.sql("DROP TABLE node_maintenance").await;
        let read = store.entries(&by_uuid(&uuid)).await.unwrap_err();
        let change = operate(&store, &uuid, &set("secret"), &system(), &stamp()).await.unwrap_err();
        assert!(matches!(read, StoreError::Failed(_)), "{read:?}");
        assert!(matches!(change, ChangeError::Failed(_)), "{change:?}");
        for error in [&read as &dyn std::error::Error, &change] {
            let text = error.to_string();
            for word in
                ["node_maintenance", "SELECT", "INSERT", "secret", "no such table", "relation", "exist"]
            {
                assert!(!text.contains(word), "{text}");
            }
            let cause = error.source().unwrap().to_string();
            assert!(cause.contains("node_maintenance"), "the log has it: {cause}");
        }
        // The connection is in order again.
        store.ping().await.unwrap();
        assert!(store.node(&by_uuid(&uuid), &[]).await.unwrap().is_some());
    })
    .await;
}

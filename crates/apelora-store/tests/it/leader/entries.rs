//! The `fault` entry on a failed member's node: made with the proof, released with the return, never fought over, never
//! lost.

use apelora_fencing::Write;
use apelora_fencing::name::Incarnation;
use apelora_maintenance::{FaultKind, Operation, Scope};
use apelora_store::{Engine, Leader, NodeColumn, NodeRow, PersonsWord, Store, Warning};
use serde_json::Value;

use super::permits::request;
use super::rig::{HeldNode, away, commit, failed, intent, lead, online, record_id, success, watched};
use crate::lab::{Lab, add, by_uuid, make_node, on_every_engine, operate, stamp, system, who};

/// Fences a failed member; what was warned of.
async fn fence(leader: &Leader, member: &str, life: u64) -> Vec<Warning> {
    let record = record_id();
    let mut intent = intent(member, life, record);
    intent.uuid = None;
    commit(leader, Write::Intent(intent)).await;
    assert!(leader.permit(request(record, false)).await.0.is_ok());
    commit(leader, Write::Final(success(record))).await.warnings
}

/// The node's entries, by type, with what a fault entry names.
async fn entries(store: &Store, node: &str) -> Vec<(String, Value)> {
    let on = store.entries(&by_uuid(node)).await.unwrap().unwrap();
    crate::lab::assert_whole(&on);
    on.entries
        .iter()
        .map(|e| {
            let extra: Value =
                e.extra.as_deref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
            (e.entry_type.clone(), extra["fence_record"].clone())
        })
        .collect()
}

async fn row(store: &Store, node: &str) -> NodeRow {
    store.node(&by_uuid(node), NodeColumn::ALL).await.unwrap().unwrap()
}

async fn reserve(lab: &Lab, node: &str, by: Option<&str>) {
    let by = by.map_or("NULL".to_owned(), |by| format!("'{by}'"));
    lab.sql(&format!("UPDATE nodes SET reservation = {by} WHERE uuid = '{node}'")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_comes_with_the_proof_and_goes_with_the_return() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let node = make_node(&store, "a").await;
        let leader = lead(&store).await;
        failed(&leader, "a").await;
        operate(&store, &node, &add("operator_hold", None), &system(), &stamp()).await.unwrap();
        assert_eq!(fence(&leader, "a", 1).await, []);
        let record = store.stored_members().await.unwrap()[0].proof.as_ref().unwrap().record.unwrap();
        let on = store.entries(&by_uuid(&node)).await.unwrap().unwrap();
        let fault = on.entries.iter().find(|e| e.entry_type == "fault").unwrap();
        assert_eq!((fault.asserted_by.as_str(), fault.scope), ("conductor", Scope::System));
        let extra: Value = serde_json::from_str(fault.extra.as_deref().unwrap()).unwrap();
        assert_eq!(extra["fault"], FaultKind::PowerFailure.as_str());
        assert_eq!(
            (&extra["fence_record"], &extra["proof"]),
            (&record.0.to_string().into(), &"power-off".into())
        );
        let reason = "cluster member a failed and is proven off: its BMC reads Off";
        assert_eq!(fault.reason.as_deref(), Some(reason));
        assert_eq!(row(&store, &node).await.text(NodeColumn::Fault), Some("power failure"));
        let history = "SELECT COUNT(*) FROM node_history";
        assert_eq!(lab.number(history).await, 2);
        // A later proof of the same life makes no second one.
        let word = PersonsWord {
            member: "a".into(),
            shown: Incarnation(1),
            reason: "it is off".into(),
            by: who(Scope::System, "anna", ""),
        };
        store.confirm_off(&word, &stamp()).await.unwrap();
        assert_eq!(lab.number(history).await, 2);

        let done = commit(&leader, online("a")).await;
        assert_eq!((done.audit.len(), done.warnings), (1, vec![]));
        assert_eq!(entries(&store, &node).await, [("operator_hold".to_owned(), Value::Null)]);
        assert_eq!(row(&store, &node).await.text(NodeColumn::Fault), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_person_who_releases_it_is_not_fought_and_anothers_fault_stays() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let node = make_node(&store, "a").await;
        let leader = lead(&store).await;
        failed(&leader, "a").await;
        fence(&leader, "a", 1).await;
        operate(&store, &node, &Operation::ReleaseAll, &system(), &stamp()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(leader.publish("{}").await, Ok(vec![]));
            commit(&leader, watched("a", 1)).await;
            assert_eq!(entries(&store, &node).await, []);
        }
        // Then another service finds a fault of its own; that one is not the worker's to release.
        let other = Operation::AssertFault {
            kind: FaultKind::CleanFailure,
            reason: None,
            extra: serde_json::Map::new(),
        };
        operate(&store, &node, &other, &system(), &stamp()).await.unwrap();
        commit(&leader, online("a")).await;
        assert_eq!(entries(&store, &node).await, [("fault".to_owned(), Value::Null)]);
        // The next life's failure is told again, on the one fault entry that a node can have.
        commit(&leader, away("a")).await;
        commit(&leader, watched("a", 2)).await;
        let on = entries(&store, &node).await;
        assert!(on.len() == 1 && on[0].1.is_string(), "{on:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reserved_node_delays_the_entry_and_not_the_proof() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let node = make_node(&store, "a").await;
        let leader = lead(&store).await;
        failed(&leader, "a").await;
        reserve(&lab, &node, Some("ironic-1")).await;
        let waits = vec![Warning::NodeBusy { member: "a".into(), reserved_by: Some("ironic-1".into()) }];
        assert_eq!(fence(&leader, "a", 1).await, waits);
        assert!(store.stored_members().await.unwrap()[0].row.is_fenced());
        assert_eq!(entries(&store, &node).await, []);
        assert_eq!(leader.publish("{}").await, Ok(waits.clone()));
        // Another leader goes on with it.
        leader.resign().await;
        store.shift_clock(std::time::Duration::from_millis(5));
        let leader = lead(&store).await;
        reserve(&lab, &node, None).await;
        assert_eq!(leader.publish("{}").await, Ok(vec![]));
        assert_eq!(entries(&store, &node).await.len(), 1);

        // The release waits in the same way.
        reserve(&lab, &node, Some("ironic-1")).await;
        assert_eq!(commit(&leader, online("a")).await.warnings, waits);
        assert_eq!(entries(&store, &node).await.len(), 1);
        reserve(&lab, &node, None).await;
        assert_eq!(leader.publish("{}").await, Ok(vec![]));
        assert_eq!(entries(&store, &node).await, []);

        // What is not needed any more is not done: back before the reservation ended.
        commit(&leader, away("a")).await;
        reserve(&lab, &node, Some("ironic-1")).await;
        assert_eq!(commit(&leader, watched("a", 2)).await.warnings, waits);
        commit(&leader, online("a")).await;
        reserve(&lab, &node, None).await;
        assert_eq!(leader.publish("{}").await, Ok(vec![]));
        assert_eq!(entries(&store, &node).await, []);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_whose_row_is_locked_delays_the_entry_and_not_the_proof() {
    on_every_engine(|lab| async move {
        if lab.engine == Engine::Sqlite {
            // Whoever writes there has the whole file, the lease included.
            return;
        }
        let store = lab.store().await;
        let node = make_node(&store, "a").await;
        let leader = std::sync::Arc::new(lead(&store).await);
        failed(&leader, "a").await;
        let held = HeldNode::lock(&store, &node).await;
        let waits = Warning::NodeBusy { member: "a".into(), reserved_by: None };
        assert_eq!(fence(&leader, "a", 1).await, [waits]);
        held.let_go().await;
        assert_eq!(leader.publish("{}").await, Ok(vec![]));
        assert_eq!(entries(&store, &node).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_without_a_node_is_warned_of_and_gets_none() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        make_node(&store, "A").await;
        let leader = lead(&store).await;
        failed(&leader, "a").await;
        assert_eq!(fence(&leader, "a", 1).await, [Warning::NoNode("a".into())]);
        assert_eq!(leader.publish("{}").await, Ok(vec![]), "said once");
        assert_eq!(lab.number("SELECT COUNT(*) FROM nodes").await, 1);
        assert_eq!(lab.number("SELECT COUNT(*) FROM node_maintenance").await, 0);
        assert_eq!(commit(&leader, online("a")).await.warnings, []);
    })
    .await;
}

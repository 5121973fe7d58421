//! Commits that are not answered, or answered with "run it again": what is reported is what was kept.

use std::time::Duration;

use apelora_maintenance::{Denial, Operation, plan};
use apelora_store::{ChangeError, Engine, NodeChange, NodeColumn, NodePatch, Store};

use crate::lab::{
    Lab, add, assert_whole, by_uuid, id, make_node, on_every_engine, operate, set, stamp, system,
};
use crate::proxy::{Break, Proxy};

/// The ways in which one or several commits break, after all of which the change must be there exactly once.
const WAYS: &[&[Break]] = &[
    &[Break::Before],
    &[Break::After],
    &[Break::Later],
    &[Break::Before, Break::After],
    &[Break::Before, Break::Later],
    &[Break::Before, Break::Before, Break::Before],
    &[Break::GiveUp],
    &[Break::GiveUp, Break::Later],
];

fn has_no_network(lab: &Lab) -> bool {
    lab.engine == Engine::Sqlite
}

async fn count(lab: &Lab, table: &str) -> i64 {
    lab.number(&format!("SELECT COUNT(*) FROM {table}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_whose_commit_breaks_is_made_exactly_once() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        let direct = lab.store().await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        for (i, way) in WAYS.iter().enumerate() {
            let uuid = make_node(&direct, &format!("n{i}")).await;
            let history = count(&lab, "node_history").await;
            proxy.plan(way);
            let stamp = stamp();
            let hold = add("operator_hold", Some("x"));
            let changed = operate(&store, &uuid, &hold, &system(), &stamp)
                .await
                .unwrap_or_else(|e| panic!("{way:?}: {e:?}"));
            assert!(proxy.is_done(), "{way:?}");
            assert_eq!(changed.entry.as_ref().map(|e| e.uuid), Some(stamp.entry), "{way:?}");
            let node = direct.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
            assert_whole(&node);
            assert_eq!(node.entries, changed.entries, "{way:?}");
            assert_eq!(count(&lab, "node_history").await, history + 1, "{way:?}");
            let row = direct.node(&by_uuid(&uuid), NodeColumn::ALL).await.unwrap().unwrap();
            assert_eq!(row, changed.row, "{way:?}");
        }
        let health = store.health();
        let unanswered = WAYS.iter().flat_map(|way| way.iter()).filter(|b| **b != Break::GiveUp).count();
        assert_eq!((health.unanswered_commits, health.unknown_commits), (unanswered as u64, 0));
        let given_up = health.retries.deadlock + health.retries.serialization;
        assert_eq!(given_up, 2, "{:?}", health.retries);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_whose_making_or_removal_breaks_is_made_or_removed_exactly_once() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        let direct = lab.store().await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        for (i, way) in WAYS.iter().enumerate() {
            let uuid = id().to_string();
            let fields = NodePatch::new()
                .with(NodeColumn::Uuid, uuid.as_str())
                .with(NodeColumn::Name, format!("n{i}"));
            proxy.plan(way);
            let made = store
                .create_node(&stamp(), fields.clone(), None)
                .await
                .unwrap_or_else(|e| panic!("{way:?}: {e:?}"));
            assert!(proxy.is_done());
            let row = direct.node(&by_uuid(&uuid), NodeColumn::ALL).await.unwrap().unwrap();
            assert_eq!(row, made.row, "{way:?}");
            // Another change with the same values is refused even so.
            let again = store.create_node(&stamp(), fields, None).await;
            assert!(matches!(again, Err(ChangeError::Conflict(c)) if c.column == NodeColumn::Uuid));

            operate(&direct, &uuid, &set("x"), &system(), &stamp()).await.unwrap();
            let audit = count(&lab, "apelora_audit").await;
            proxy.plan(way);
            let stamp = stamp();
            let removed = store
                .change_node(&by_uuid(&uuid), &stamp, |on| {
                    let plan = plan(&Operation::DeleteNode, &on.node, &system(), &mut |_| true, &stamp)?;
                    Ok::<_, Denial>(NodeChange {
                        plan: Some(plan),
                        remove_node: true,
                        ..NodeChange::default()
                    })
                })
                .await
                .unwrap_or_else(|e| panic!("{way:?}: {e:?}"));
            assert!(proxy.is_done());
            assert_eq!(removed.row.text(NodeColumn::Uuid), Some(uuid.as_str()));
            assert!(direct.node(&by_uuid(&uuid), &[]).await.unwrap().is_none(), "{way:?}");
            assert_eq!(count(&lab, "apelora_audit").await, audit + 1, "{way:?}");
        }
        assert_eq!(count(&lab, "nodes").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_that_another_took_meanwhile_is_still_a_conflict() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        let direct = lab.store().await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        make_node(&direct, "taken").await;
        let uuid = make_node(&direct, "n1").await;
        // The first commit never arrives; then the decision, run again, asks for a name that is taken.
        proxy.plan(&[Break::Before]);
        let mut names = ["free", "taken"].into_iter();
        let refused = store
            .change_node(&by_uuid(&uuid), &stamp(), |_| {
                let fields = NodePatch::new().with(NodeColumn::Name, names.next().unwrap());
                Ok::<_, ()>(NodeChange { fields, ..NodeChange::default() })
            })
            .await;
        assert!(matches!(refused, Err(ChangeError::Conflict(c)) if c.value == "taken"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_stays_away_after_a_commit_makes_the_outcome_unknown() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        let direct = lab.store().await;
        let mut proxy = Proxy::before(&lab).await;
        proxy.config.commit_budget = Duration::from_millis(500);
        proxy.config.acquire_timeout = Duration::from_millis(500);
        let store = Store::connect(&proxy.config).await.unwrap();
        let uuid = make_node(&direct, "n1").await;
        proxy.plan(&[Break::AfterAndAway]);
        let stamp = stamp();
        let hold = add("operator_hold", None);
        let unknown = operate(&store, &uuid, &hold, &system(), &stamp).await.unwrap_err();
        assert!(matches!(unknown, ChangeError::Unknown(_)), "{unknown:?}");
        assert_eq!(store.health().unknown_commits, 1);
        // Before a commit nothing is in doubt.
        let unavailable =
            operate(&store, &uuid, &set("x"), &system(), &crate::lab::stamp()).await.unwrap_err();
        assert!(matches!(unavailable, ChangeError::Unavailable(_)), "{unavailable:?}");
        for error in [unknown.to_string(), unavailable.to_string()] {
            assert!(!error.contains("INSERT") && !error.contains("127.0.0.1"), "{error}");
        }
        // Whole or not at all: this one was kept.
        proxy.come_back();
        let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&node);
        assert_eq!(node.entries.len(), 1);
        operate(&store, &uuid, &set("x"), &system(), &crate::lab::stamp()).await.unwrap();
    })
    .await;
}

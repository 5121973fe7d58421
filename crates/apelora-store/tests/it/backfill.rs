//! Flag and entries brought together after a service that does not know entries changed the flag.

use std::collections::BTreeMap;

use apelora_maintenance::{FaultKind, Operation, Scope};
use apelora_store::{BackfillReport, NodeColumn, Store};
use tokio::task::JoinSet;

use crate::lab::{
    Lab, START, add, assert_whole, by_uuid, make_node, on_every_engine, operate, set, stamp, stamp_after,
    system, who,
};

fn fault(kind: FaultKind) -> Operation {
    Operation::AssertFault { kind, reason: Some("it broke".to_owned()), extra: serde_json::Map::default() }
}

/// Runs it to its end, in batches of this size.
async fn backfill(store: &Store, batch: u32) -> BackfillReport {
    store.backfill(batch, &mut || stamp_after(1_000), &mut |_| {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_disagreement_is_resolved_and_told() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let mut uuids = BTreeMap::new();
        for (name, operations) in [
            ("free", vec![]),
            ("held", vec![add("operator_hold", Some("h"))]),
            ("flag up", vec![]),
            ("flag up with a fault", vec![]),
            ("flag down, boolean", vec![set("x"), fault(FaultKind::PowerFailure)]),
            ("flag down, typed too", vec![set("x"), add("operator_hold", Some("h"))]),
            ("fault cleared", vec![add("operator_hold", Some("h")), fault(FaultKind::CleanFailure)]),
            ("reason changed", vec![set("old")]),
            ("kind changed", vec![fault(FaultKind::PowerFailure)]),
            ("reason lost", vec![add("operator_hold", Some("h")), set("x")]),
        ] {
            let uuid = make_node(&store, name).await;
            for (i, operation) in operations.iter().enumerate() {
                operate(&store, &uuid, operation, &system(), &stamp_after(i as i64)).await.unwrap();
            }
            uuids.insert(name, uuid);
        }
        let (up, down) = match lab.engine {
            apelora_store::Engine::Postgres => ("TRUE", "FALSE"),
            _ => ("1", "0"),
        };
        for (name, values) in [
            ("flag up", format!("maintenance = {up}, maintenance_reason = 'by another'")),
            (
                "flag up with a fault",
                format!("maintenance = {up}, maintenance_reason = 'f', fault = 'clean failure'"),
            ),
            ("flag down, boolean", format!("maintenance = {down}, maintenance_reason = NULL, fault = NULL")),
            ("flag down, typed too", "maintenance = NULL, maintenance_reason = NULL".to_owned()),
            ("fault cleared", "fault = NULL".to_owned()),
            ("reason changed", "maintenance_reason = 'new'".to_owned()),
            ("kind changed", "fault = 'clean failure'".to_owned()),
            ("reason lost", "maintenance_reason = NULL".to_owned()),
        ] {
            assert_eq!(lab.sql(&format!("UPDATE nodes SET {values} WHERE name = '{name}'")).await, 1);
        }

        let report = backfill(&store, 3).await;
        let told = BackfillReport {
            examined: 9,
            reconciled: 7,
            legacy_made: 2,
            legacy_ended: 2,
            fault_ended: 2,
            flags_raised: 1,
            amended: 2,
            refreshed: 1,
        };
        assert_eq!(report, told);
        for (name, flag, reason, fault) in [
            ("free", false, None, None),
            ("held", true, Some("operator_hold: h"), None),
            ("flag up", true, Some("by another"), None),
            ("flag up with a fault", true, Some("f"), Some("clean failure")),
            ("flag down, boolean", false, None, None),
            ("flag down, typed too", true, Some("operator_hold: h"), None),
            ("fault cleared", true, Some("operator_hold: h"), None),
            ("reason changed", true, Some("new"), None),
            ("kind changed", true, Some("fault: it broke"), Some("clean failure")),
            ("reason lost", true, Some("operator_hold: h; legacy: x"), None),
        ] {
            let node = store.entries(&by_uuid(&uuids[name])).await.unwrap().unwrap();
            assert_whole(&node);
            let facts =
                (node.node.maintenance, node.node.maintenance_reason.as_deref(), node.node.fault.as_deref());
            assert_eq!(facts, (flag, reason, fault), "{name}");
        }
        let held = store.node(&by_uuid(&uuids["held"]), &[NodeColumn::UpdatedAt]).await.unwrap().unwrap();
        assert_eq!(held.time(NodeColumn::UpdatedAt), Some(START), "what agreed is not written");
        let again = backfill(&store, 100).await;
        assert_eq!(again, BackfillReport { examined: again.examined, ..BackfillReport::default() });
    })
    .await;
}

async fn flag_many(lab: &Lab, store: &Store, count: usize) {
    for i in 0..count {
        make_node(store, &format!("n{i}")).await;
    }
    let up = if lab.engine == apelora_store::Engine::Postgres { "TRUE" } else { "1" };
    lab.sql(&format!("UPDATE nodes SET maintenance = {up}, maintenance_reason = name")).await;
}

async fn assert_one_each(lab: &Lab, count: i64) {
    for table in ["node_maintenance", "node_history", "apelora_history_author", "apelora_audit"] {
        assert_eq!(lab.number(&format!("SELECT COUNT(*) FROM {table}")).await, count, "{table}");
    }
    let wrong =
        "SELECT COUNT(*) FROM node_maintenance m JOIN nodes n ON n.id = m.node_id WHERE m.reason <> n.name";
    assert_eq!(lab.number(wrong).await, 0);
    assert_eq!(lab.number("SELECT COUNT(DISTINCT node_id) FROM node_maintenance").await, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_that_is_cut_off_anywhere_is_finished_by_the_next() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        flag_many(&lab, &store, 120).await;
        let mut cuts = 0;
        for polls in (1..400).step_by(23) {
            // Its connection is closed in the middle, as by the end of its process.
            let (mut next_stamp, mut progress) = (stamp, |_| {});
            let mut run = std::pin::pin!(store.backfill(7, &mut next_stamp, &mut progress));
            let mut left = polls;
            let finished = std::future::poll_fn(|context| {
                if left == 0 {
                    return std::task::Poll::Ready(false);
                }
                left -= 1;
                run.as_mut().poll(context).map(|done| done.is_ok())
            })
            .await;
            cuts += u32::from(!finished);
        }
        backfill(&store, 7).await;
        assert_one_each(&lab, 120).await;
        println!("{}: cut off {cuts} times", lab.engine);
        assert!(cuts > 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_backfills_and_other_changes_at_once_do_not_disturb_each_other() {
    on_every_engine(|lab| async move {
        let stores = [lab.store().await, lab.store().await];
        flag_many(&lab, &stores[0], 100).await;
        let busy = make_node(&stores[0], "busy").await;
        let mut tasks = JoinSet::new();
        for store in stores.clone() {
            tasks.spawn(async move { backfill(&store, 5).await.legacy_made });
        }
        let (store, uuid) = (stores[0].clone(), busy.clone());
        tasks.spawn(async move {
            for i in 0..30 {
                let by = who(Scope::System, "u", "");
                operate(&store, &uuid, &set(&format!("x{i}")), &by, &stamp()).await.unwrap();
            }
            operate(&store, &uuid, &Operation::ReleaseAll, &system(), &stamp()).await.unwrap();
            0
        });
        assert_eq!(tasks.join_all().await.iter().sum::<u64>(), 100);
        assert_eq!(lab.number("SELECT COUNT(*) FROM node_maintenance").await, 100);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_audit").await, 100 + 31);
        assert_whole(&stores[1].entries(&by_uuid(&busy)).await.unwrap().unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_start_without_the_pin_wants_the_backfill_once_more() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        assert!(store.note_pin(false).await.unwrap(), "a new schema wants one");
        assert!(store.note_pin(false).await.unwrap(), "as long as it was not done");
        backfill(&store, 10).await;
        assert!(!store.note_pin(false).await.unwrap());
        for _ in 0..2 {
            assert!(!store.note_pin(true).await.unwrap(), "under the pin the flag is what counts");
        }
        assert!(store.note_pin(false).await.unwrap(), "lifted");
        // One that began before the pin was lifted again does not count for it.
        let (mut first, other) = (true, store.clone());
        let mut next_stamp = stamp;
        let mut progress = |_| {
            if std::mem::take(&mut first) {
                let other = other.clone();
                tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(async {
                        assert!(!other.note_pin(true).await.unwrap());
                        assert!(other.note_pin(false).await.unwrap());
                    });
                });
            }
        };
        store.backfill(10, &mut next_stamp, &mut progress).await.unwrap();
        assert!(store.note_pin(false).await.unwrap());
        backfill(&store, 10).await;
        assert!(!store.note_pin(false).await.unwrap());
        assert!(!Store::status(&lab.config).await.unwrap().backfill_due);
    })
    .await;
}

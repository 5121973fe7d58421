//! Many changes at once, through two stores with pools of their own on one database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use apelora_maintenance::{Authority, Denial, LockedNode, Operation, Scope, Stamp, plan};
use apelora_store::{
    AuditQuery, ChangeError, Direction, HistoryColumn, HistoryQuery, NodeColumn, NodePatch, Store,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::lab::{
    Lab, Shared, add, assert_whole, by_uuid, make_node, make_node_with, on_every_engine, operate, set, stamp,
    stamp_after, system, who,
};

async fn two_stores(lab: &Lab) -> [Store; 2] {
    [lab.store().await, lab.store().await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_identical_adds_one_succeeds_and_63_see_the_duplicate() {
    on_every_engine(|lab| async move {
        let stores = two_stores(&lab).await;
        let uuid = make_node(&stores[0], "n1").await;
        let mut tasks = JoinSet::new();
        for i in 0..64 {
            let (store, uuid) = (stores[i % 2].clone(), uuid.clone());
            tasks.spawn(async move {
                operate(&store, &uuid, &add("operator_hold", None), &system(), &stamp()).await
            });
        }
        let (mut made, mut seen) = (Vec::new(), Vec::new());
        for result in tasks.join_all().await {
            match result {
                Ok(changed) => made.push(changed.entry.unwrap().uuid),
                Err(ChangeError::Refused(Denial::Duplicate { existing })) => seen.push(existing.uuid),
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!((made.len(), seen.len()), (1, 63));
        assert!(seen.iter().all(|uuid| *uuid == made[0]));
        assert_eq!(lab.number("SELECT COUNT(*) FROM node_history").await, 1);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_audit").await, 1);
    })
    .await;
}

/// A generator of numbers that gives the same ones in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// One change as it was asked for, to be replayed.
#[derive(Clone)]
struct Asked {
    operation: Operation,
    by: Authority,
    stamp: Stamp,
}

fn random_change(numbers: &mut Numbers, known: &Mutex<Vec<Uuid>>, second: i64) -> Asked {
    let by = match numbers.next(4) {
        0 => who(Scope::Owner, "owner", "p1"),
        1 => who(Scope::Lessee, "lessee", "p2"),
        _ => system(),
    };
    let stamp = stamp_after(second);
    let operation = match numbers.next(10) {
        0..4 => {
            known.lock().unwrap().push(stamp.entry);
            let entry_type = ["operator_hold", "hardware_failure"][numbers.next(2) as usize];
            add(entry_type, Some(&format!("reason {second}")))
        }
        4..7 => {
            let known = known.lock().unwrap();
            let last = known.len().saturating_sub(6);
            let pick = last as u64 + numbers.next((known.len() - last).max(1) as u64);
            Operation::Release(known.get(pick as usize).copied().unwrap_or_default())
        }
        7 | 8 => set(&format!("set {second}")),
        _ => Operation::ReleaseAll,
    };
    Asked { operation, by, stamp }
}

/// What the tables say of the one node in a single statement, which every engine answers as of one moment.
async fn agreement(lab: &Lab) -> Vec<String> {
    let concat = |parts: [&str; 4]| match lab.engine {
        apelora_store::Engine::MariaDb => format!("CONCAT_WS(' ', {})", parts.join(", ")),
        _ => format!("({})", parts.join(" || ' ' || ")),
    };
    let flag = "(SELECT CASE WHEN maintenance THEN '1' ELSE '0' END FROM nodes)";
    let rows = "(SELECT CASE WHEN COUNT(*) > 0 THEN '1' ELSE '0' END FROM node_maintenance)";
    let count = |of: &str| format!("(SELECT COUNT(*) FROM {of})");
    let told = format!(
        "{} - {} - {}",
        count("node_history WHERE event LIKE 'Maintenance asserted%'"),
        count("node_history WHERE event LIKE 'Maintenance released%'"),
        count("node_maintenance"),
    );
    let audited = format!("{} - {}", count("node_history"), count("apelora_audit"));
    let cast = |text: &str| match lab.engine {
        apelora_store::Engine::MariaDb => format!("CAST(({text}) AS CHAR)"),
        _ => format!("CAST(({text}) AS TEXT)"),
    };
    lab.texts(&format!("SELECT {}", concat([flag, rows, &cast(&told), &cast(&audited)]))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_thousands_of_changes_at_once_everything_agrees_with_the_planner_replayed() {
    on_every_engine(|lab| async move {
        let stores = two_stores(&lab).await;
        let uuid = make_node(&stores[0], "n1").await;
        let known = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::new(AtomicBool::new(false));

        // Readers that look all the time: at one node through the store, and at the tables behind it.
        let reader = {
            let (store, uuid, done) = (stores[1].clone(), uuid.clone(), done.clone());
            tokio::spawn(async move {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    assert_whole(&store.entries(&by_uuid(&uuid)).await.unwrap().unwrap());
                    looks += 1;
                }
                looks
            })
        };
        let auditor = {
            let (lab, done) = (lab.clone(), done.clone());
            tokio::spawn(async move {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    let seen = agreement(&lab).await.remove(0);
                    assert!(seen == "0 0 0 0" || seen == "1 1 0 0", "{seen}");
                    looks += 1;
                }
                looks
            })
        };

        let workers = 16;
        let mut tasks = JoinSet::new();
        for worker in 0..workers {
            let (store, uuid, known) = (stores[worker % 2].clone(), uuid.clone(), known.clone());
            tasks.spawn(async move {
                let mut numbers = Numbers(worker as u64);
                let mut made = Vec::new();
                for i in 0..150 {
                    let asked = random_change(&mut numbers, &known, i);
                    let Asked { operation, by, stamp } = &asked;
                    match operate(&store, &uuid, operation, by, stamp).await {
                        Ok(changed) => made.push((asked.clone(), changed)),
                        Err(ChangeError::Refused(_)) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
                made
            });
        }
        let made: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        done.store(true, Ordering::Relaxed);
        let looks = (reader.await.unwrap(), auditor.await.unwrap());

        // Under the lock of one node the change table's numbers are in the order of the commits.
        let order = lab.texts("SELECT change_id FROM apelora_change WHERE kind = 'node' ORDER BY seq").await;
        assert_eq!(order.len(), made.len() + 1, "one row for the node's making and one for each change");
        let by_id: HashMap<String, _> = made.iter().map(|m| (m.0.stamp.change.to_string(), m)).collect();
        let mut state = LockedNode::default();
        state.node.uuid.clone_from(&uuid);
        state.node.name = Some("n1".to_owned());
        let (mut history, mut audit) = (Vec::new(), Vec::new());
        for id in order.iter().skip(1) {
            let (Asked { operation, by, stamp }, changed) = by_id[id];
            let plan = plan(operation, &state, by, &mut |_| true, stamp).unwrap();
            assert_eq!(plan.entries(), changed.entries, "the change saw what was committed before it");
            history.extend(plan.history().iter().map(|h| h.uuid.to_string()));
            audit.extend(plan.audit().iter().map(|a| a.uuid.to_string()));
            state.entries = plan.entries().to_vec();
            state.node.maintenance = plan.flag();
            state.node.maintenance_reason = plan.reason().map(str::to_owned);
            state.node.fault = plan.fault().map(str::to_owned);
        }
        let end = stores[0].entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_eq!((&end.entries, end.node.maintenance), (&state.entries, state.node.maintenance));
        assert_eq!(end.node.maintenance_reason, state.node.maintenance_reason);
        let sort = (HistoryColumn::Id, Direction::Ascending);
        let kept =
            stores[0].history(&uuid, &HistoryQuery { sort, marker: None, limit: 100_000 }).await.unwrap();
        assert_eq!(kept.into_iter().map(|h| h.uuid).collect::<Vec<_>>(), history);
        let kept = stores[1].audit(&AuditQuery { limit: 100_000, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(kept.into_iter().map(|a| a.uuid).collect::<Vec<_>>(), audit);
        println!(
            "{}: {} of {} changes made, {looks:?} looks, {:?}",
            lab.engine,
            made.len(),
            workers * 150,
            stores.iter().map(|s| s.health().retries).collect::<Vec<_>>(),
        );
        assert!(made.len() > 500 && looks.0 > 10 && looks.1 > 10);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_authorities_at_once_both_hold_a_hundred_times() {
    on_every_engine(|lab| async move {
        let stores = two_stores(&lab).await;
        for round in 0..100 {
            let fields = NodePatch::new().with(NodeColumn::Owner, "p1").with(NodeColumn::Lessee, "p2");
            let uuid = make_node_with(&stores[0], &format!("n{round}"), fields).await;
            let hold = add("operator_hold", None);
            let (owner, lessee) = (who(Scope::Owner, "a", "p1"), who(Scope::Lessee, "b", "p2"));
            let (first, second) = (stamp(), stamp());
            let (a, b) = tokio::join!(
                operate(&stores[0], &uuid, &hold, &owner, &first),
                operate(&stores[1], &uuid, &hold, &lessee, &second),
            );
            let (a, b) = (a.unwrap(), b.unwrap());
            assert_eq!(a.entries.len() + b.entries.len(), 3, "one saw the other");
            let node = stores[0].entries(&by_uuid(&uuid)).await.unwrap().unwrap();
            assert_whole(&node);
            let mut holders: Vec<_> = node.entries.iter().map(|e| e.asserted_by_project.as_str()).collect();
            holders.sort_unstable();
            assert_eq!(holders, ["p1", "p2"]);
            let sort = (HistoryColumn::Id, Direction::Ascending);
            let history =
                stores[1].history(&uuid, &HistoryQuery { sort, marker: None, limit: 10 }).await.unwrap();
            assert_eq!(history.len(), 2);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_go_away_leave_nothing_half_done_and_no_connection_blocked() {
    on_every_engine(|lab: Shared| async move {
        let stores = two_stores(&lab).await;
        let uuid = make_node(&stores[0], "n1").await;
        let mut tasks = JoinSet::new();
        for worker in 0..8 {
            let (store, uuid) = (stores[worker % 2].clone(), uuid.clone());
            tasks.spawn(async move {
                let mut numbers = Numbers(worker as u64);
                for i in 0..60 {
                    let operation =
                        if i % 2 == 0 { add("operator_hold", None) } else { Operation::ReleaseAll };
                    let (by, stamp) = (system(), stamp_after(i));
                    let change = operate(&store, &uuid, &operation, &by, &stamp);
                    // Polled a random number of times, then dropped wherever it is.
                    let polls = numbers.next(60);
                    let mut change = std::pin::pin!(change);
                    let mut left = polls;
                    std::future::poll_fn(|context| {
                        if left == 0 {
                            return std::task::Poll::Ready(());
                        }
                        left -= 1;
                        change.as_mut().poll(context).map(drop)
                    })
                    .await;
                }
            });
        }
        tasks.join_all().await;
        // Every connection still works, and the node's lock is free.
        let mut tasks = JoinSet::new();
        for i in 0..20 {
            let (store, uuid) = (stores[i % 2].clone(), uuid.clone());
            tasks
                .spawn(async move { operate(&store, &uuid, &set("x"), &system(), &stamp()).await.map(drop) });
        }
        for result in tasks.join_all().await {
            result.unwrap();
        }
        let seen = agreement(&lab).await.remove(0);
        assert_eq!(seen, "1 1 0 0");
        assert_whole(&stores[0].entries(&by_uuid(&uuid)).await.unwrap().unwrap());
    })
    .await;
}

//! What is deleted by age and number, and what never is.

use apelora_maintenance::Operation;
use apelora_store::{Direction, HistoryColumn, HistoryQuery, Retention, Store};
use time::Duration;

use crate::lab::{START, make_node, on_every_engine, operate, set, stamp_after, system};

async fn seconds(store: &Store, uuid: &str) -> Vec<i64> {
    let sort = (HistoryColumn::Id, Direction::Ascending);
    let history = store.history(uuid, &HistoryQuery { sort, marker: None, limit: 1_000 }).await.unwrap();
    history.into_iter().map(|h| (h.created_at.unwrap() - START).whole_seconds()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_keeps_the_newest_records_of_every_node_and_the_young_ones() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let (busy, calm) = (make_node(&store, "busy").await, make_node(&store, "calm").await);
        let day = 86_400;
        for i in 0..20 {
            operate(&store, &busy, &set(&i.to_string()), &system(), &stamp_after(i * day)).await.unwrap();
        }
        for i in 0..3 {
            operate(&store, &calm, &set(&i.to_string()), &system(), &stamp_after(i * day)).await.unwrap();
        }
        let now = START + Duration::days(20);
        let clean = async |max_entries, min_days, batch| {
            store.clean_history(&Retention { max_entries, min_days, batch }, now).await.unwrap()
        };
        assert_eq!(clean(0, 0, 100).await, 0);
        assert_eq!(clean(5, 0, 0).await, 0);
        // 15 are too many, but only those of the first 10 days are old enough.
        assert_eq!(clean(5, 10, 3).await, 10);
        assert_eq!(seconds(&store, &busy).await, (10..20).map(|i| i * day).collect::<Vec<_>>());
        assert_eq!(clean(5, 0, 3).await, 5);
        assert_eq!(seconds(&store, &busy).await, (15..20).map(|i| i * day).collect::<Vec<_>>());
        assert_eq!(seconds(&store, &calm).await, [0, day, 2 * day]);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_history_author").await, 8);
        assert_eq!(clean(5, 0, 3).await, 0);
        // The audit trail is another matter.
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_audit").await, 23);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_changes_and_old_audit_rows_go_by_age_alone() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node(&store, "n1").await;
        for i in 0..30 {
            let operation = if i % 2 == 0 { set("x") } else { Operation::ReleaseAll };
            operate(&store, &uuid, &operation, &system(), &stamp_after(60 * i)).await.unwrap();
        }
        assert_eq!(store.prune_changes(START).await.unwrap(), 0);
        // The node's making and the changes of the first ten minutes.
        assert_eq!(store.prune_changes(START + Duration::minutes(10)).await.unwrap(), 11);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_change").await, 20);
        assert_eq!(store.prune_audit(START + Duration::minutes(20)).await.unwrap(), 20);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_audit").await, 10);
    })
    .await;
}

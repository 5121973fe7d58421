//! Rows that somebody wrote into the database by hand.

use std::error::Error as _;

use apelora_maintenance::Operation;
use apelora_store::{ChangeError, Engine, NodeColumn, StoreError};

use crate::lab::{
    add, assert_whole, by_uuid, make_node, on_every_engine, operate, set, stamp, stamp_after, system,
};

#[tokio::test]
async fn entries_are_released_however_their_uuid_is_spelled() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        for operation in [None, Some(Operation::ReleaseAll)] {
            let uuid = make_node(&store, if operation.is_some() { "all" } else { "one" }).await;
            operate(&store, &uuid, &set("by hand"), &system(), &stamp()).await.unwrap();
            lab.sql("UPDATE node_maintenance SET uuid = UPPER(uuid)").await;
            // Amends the entry.
            operate(&store, &uuid, &set("again"), &system(), &stamp_after(1)).await.unwrap();
            let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
            assert_eq!(node.entries[0].reason.as_deref(), Some("again"));
            let release = operation.unwrap_or(Operation::Release(node.entries[0].uuid));
            operate(&store, &uuid, &release, &system(), &stamp_after(2)).await.unwrap();
            assert_eq!(lab.number("SELECT COUNT(*) FROM node_maintenance").await, 0);
            assert_whole(&store.entries(&by_uuid(&uuid)).await.unwrap().unwrap());
        }
    })
    .await;
}

#[tokio::test]
async fn an_entry_that_could_not_be_found_again_stops_the_change_and_is_named() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node(&store, "n").await;
        operate(&store, &uuid, &add("operator_hold", None), &system(), &stamp()).await.unwrap();
        for broken in ["11111111222243338444555555555555", "not a uuid"] {
            lab.sql(&format!("UPDATE node_maintenance SET uuid = '{broken}'")).await;
            let refused = operate(&store, &uuid, &Operation::ReleaseAll, &system(), &stamp_after(1)).await;
            let Err(ChangeError::Failed(cause)) = refused else { panic!("{refused:?}") };
            assert!(cause.to_string().contains(broken), "{cause}");
            let up = lab.number("SELECT COUNT(*) FROM nodes WHERE maintenance").await;
            assert_eq!((up, lab.number("SELECT COUNT(*) FROM node_maintenance").await), (1, 1));
        }
    })
    .await;
}

#[tokio::test]
async fn a_value_that_cannot_be_read_is_named_with_its_row() {
    on_every_engine(|lab| async move {
        if lab.engine != Engine::Sqlite {
            // The others store what the column's type allows.
            return;
        }
        let store = lab.store().await;
        let uuid = make_node(&store, "n").await;
        let columns = [NodeColumn::Uuid, NodeColumn::UpdatedAt, NodeColumn::Owner];
        lab.sql("UPDATE nodes SET updated_at = '2026-11-30 01:00:00+02:00'").await;
        let row = store.node(&by_uuid(&uuid), &columns).await.unwrap().unwrap();
        assert_eq!(row.time(NodeColumn::UpdatedAt).unwrap().to_string(), "2026-11-29 23:00:00.0");
        for (values, column) in
            [("updated_at = 'soon'", "updated_at"), ("updated_at = NULL, owner = x'fffe'", "owner")]
        {
            lab.sql(&format!("UPDATE nodes SET {values}")).await;
            let refused = store.node(&by_uuid(&uuid), &columns).await.unwrap_err();
            assert!(matches!(refused, StoreError::Failed(_)));
            let cause = refused.source().unwrap().to_string();
            assert!(cause.contains(&format!("column {column} of the row with uuid '{uuid}'")), "{cause}");
        }
    })
    .await;
}

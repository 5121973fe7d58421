//! Texts that are awkward to store.

use apelora_maintenance::{EXTRA_MAX_BYTES, Operation, REASON_MAX_BYTES, Scope};
use apelora_store::{Cell, NodeColumn, NodeFilter, NodeKey, NodePatch, NodeQuery};

use crate::lab::{
    START, add, assert_whole, by_uuid, id, make_node, make_node_with, on_every_engine, operate, set, stamp,
    system, who,
};

const AWKWARD: &[&str] = &[
    "\u{1f600} \u{10ffff} \u{fc}\u{df} \u{4e2d}",
    "Robert'); DROP TABLE nodes; --",
    "\"double\" 'single' `back` \\ \\' \\0 %s %_ ? $1 {}",
    " leading and trailing ",
    "line\r\nbreaks\tand\u{1}\u{7f}controls",
    "\u{feff}\u{200b}\u{202e}",
    "NULL",
    "",
    "e\u{301} is not \u{e9}",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn awkward_texts_come_back_as_they_were_and_are_told_apart() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        for text in AWKWARD {
            let fields = NodePatch::new()
                .with(NodeColumn::Description, *text)
                .with(NodeColumn::Owner, *text)
                .with(NodeColumn::Extra, Cell::Json(serde_json::json!({ "k": text }).to_string()));
            let uuid = make_node_with(&store, text, fields).await;
            let row = store.node(&by_uuid(&uuid), NodeColumn::ALL).await.unwrap().unwrap();
            assert_eq!(row.text(NodeColumn::Description), Some(*text));
            assert_eq!(row.text(NodeColumn::Owner), Some(*text));
            let extra: serde_json::Value =
                serde_json::from_str(row.json(NodeColumn::Extra).unwrap()).unwrap();
            assert_eq!(extra["k"], *text);
            if !text.is_empty() {
                let named =
                    store.node(&NodeKey::Name((*text).to_owned()), &[NodeColumn::Uuid]).await.unwrap();
                assert_eq!(named.unwrap().text(NodeColumn::Uuid), Some(uuid.as_str()), "{text:?}");
            }
            let filter = NodeFilter::Equals(NodeColumn::Owner, (*text).into());
            let query = NodeQuery { filters: vec![filter], ..NodeQuery::new(&[NodeColumn::Uuid], 10) };
            assert_eq!(store.nodes(&query).await.unwrap().len(), 1, "{text:?}");

            operate(&store, &uuid, &set(text), &system(), &stamp()).await.unwrap();
            let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
            assert_whole(&node);
            assert_eq!(node.node.maintenance_reason.as_deref(), Some(*text), "verbatim");
            operate(
                &store,
                &uuid,
                &add("operator_hold", Some(text)),
                &who(Scope::Owner, text, text),
                &stamp(),
            )
            .await
            .unwrap();
            let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
            assert_whole(&node);
            assert_eq!(node.entries[1].asserted_by_project, *text);
        }
        // Projects that differ in case, accents, composition or blanks are different ones.
        let uuid = make_node(&store, "n").await;
        for project in ["p", "P", "p ", " p", "\u{fe}", "e\u{301}", "\u{e9}", "e"] {
            let by = who(Scope::Owner, "u", project);
            operate(&store, &uuid, &add("operator_hold", None), &by, &stamp()).await.unwrap();
        }
        assert_eq!(store.entries(&by_uuid(&uuid)).await.unwrap().unwrap().entries.len(), 8);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_texts_fit_whole() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node(&store, "n1").await;
        // Four bytes a character, to the last byte.
        let mut reason = "\u{1f600}".repeat(REASON_MAX_BYTES / 4);
        reason.push_str(&"x".repeat(REASON_MAX_BYTES - reason.len()));
        let shell = r#"{"k": ""}"#.len();
        let extra = serde_json::json!({ "k": "x".repeat(EXTRA_MAX_BYTES - shell + 1) }).to_string();
        assert_eq!((reason.len(), extra.len()), (REASON_MAX_BYTES, EXTRA_MAX_BYTES));
        let operation = Operation::Add {
            entry_type: "operator_hold".to_owned(),
            reason: Some(reason.clone()),
            extra: Some(extra.clone()),
        };
        let longest = "u".repeat(255);
        operate(&store, &uuid, &operation, &who(Scope::System, &longest, &longest), &stamp()).await.unwrap();
        operate(&store, &uuid, &add("hardware_failure", Some(&reason)), &system(), &stamp()).await.unwrap();
        let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&node);
        assert_eq!((&node.entries[0].reason, &node.entries[0].extra), (&Some(reason), &Some(extra)));
        assert_eq!(node.node.maintenance_reason.unwrap().len(), REASON_MAX_BYTES, "cut at the column");
        operate(&store, &uuid, &Operation::ReleaseAll, &system(), &stamp()).await.unwrap();
        // Every column at its width.
        let fields: NodePatch = NodeColumn::ALL
            .iter()
            .filter_map(|column| match (column.width()?, column.kind()) {
                (apelora_store::Width::Chars(n), _) if n > 36 => {
                    Some((*column, "\u{1f600}".repeat(n).into()))
                }
                (apelora_store::Width::Bytes(n), apelora_store::Kind::Text) => {
                    Some((*column, "x".repeat(n).into()))
                }
                _ => None,
            })
            .filter(|(column, _)| ![NodeColumn::MaintenanceReason, NodeColumn::Fault].contains(column))
            .collect();
        assert!(fields.cells().len() > 20);
        let uuid = id().to_string();
        let made =
            store.create_node(&stamp(), fields.with(NodeColumn::Uuid, uuid.as_str()), None).await.unwrap();
        assert_eq!(store.node(&by_uuid(&uuid), NodeColumn::ALL).await.unwrap().unwrap(), made.row);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_entries_on_one_node() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node(&store, "n1").await;
        let node_id = lab.number("SELECT id FROM nodes").await;
        let rows: Vec<String> = (0..1_000)
            .map(|i| {
                format!(
                    "('{}', {node_id}, 'operator_hold', 'reason {i}', 'owner', 'u', 'project {i}', \
                     '2026-11-30 04:{:02}:{:02}')",
                    id(),
                    i / 60,
                    i % 60,
                )
            })
            .collect();
        let columns = "uuid, node_id, type, reason, scope, asserted_by, asserted_by_project, asserted_at";
        lab.sql(&format!("INSERT INTO node_maintenance ({columns}) VALUES {}", rows.join(", "))).await;
        assert_eq!(lab.number("SELECT COUNT(*) FROM node_maintenance WHERE version IS NULL").await, 0);

        // The next change brings flag and reason in line with them.
        operate(&store, &uuid, &add("hardware_failure", None), &system(), &stamp()).await.unwrap();
        let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&node);
        assert_eq!(node.entries.len(), 1_001);
        assert_eq!(node.entries[0].asserted_at, START);
        operate(&store, &uuid, &Operation::Release(node.entries[500].uuid), &system(), &stamp())
            .await
            .unwrap();
        let released = operate(&store, &uuid, &Operation::ReleaseAll, &system(), &stamp()).await.unwrap();
        assert!(released.entries.is_empty());
        let node = store.entries(&by_uuid(&uuid)).await.unwrap().unwrap();
        assert_whole(&node);
        let released = "SELECT COUNT(*) FROM node_history WHERE event LIKE 'Maintenance released:%'";
        assert_eq!(lab.number(released).await, 1_001);
    })
    .await;
}

//! Lists of nodes: pages in every order, filters, and the indexes behind them.

use std::cmp::Ordering;

use apelora_store::{
    Cell, Direction, Engine, HistoryColumn, HistoryQuery, NodeColumn, NodeFilter, NodePatch, NodeQuery,
    NodeRow, Store, StoreError,
};

use crate::lab::{Lab, id, make_node_with, on_every_engine, operate, set, stamp_after, system};

const NODES: usize = 5_000;

/// Nodes with many equal and many missing values, past the store because there are so many.
async fn seed(lab: &Lab) {
    let truth = |value: bool| match lab.engine {
        Engine::Postgres => value.to_string().to_uppercase(),
        _ => u8::from(value).to_string(),
    };
    let text = |i: usize, every: usize, word: &str| {
        if i.is_multiple_of(every) { "NULL".to_owned() } else { format!("'{word}{}'", i * 7 % every) }
    };
    for chunk in (0..NODES).collect::<Vec<_>>().chunks(1_000) {
        let rows: Vec<String> = chunk
            .iter()
            .map(|&i| {
                format!(
                    "('{}', {}, {}, {}, {}, {}, {}, {}, '{}', {})",
                    id(),
                    if i.is_multiple_of(3) {
                        "NULL".to_owned()
                    } else {
                        format!("'node-{}'", (i * 2_654_435_761) % 1_000_003)
                    },
                    text(i, 50, "p"),
                    text(i, 40, "q"),
                    text(i, 5, "class"),
                    text(i, 60, "shard"),
                    if i.is_multiple_of(4) { "NULL".to_owned() } else { truth(i.is_multiple_of(3)) },
                    if i.is_multiple_of(6) {
                        "NULL".to_owned()
                    } else {
                        format!("'2026-11-30 04:{:02}:00.000000'", i % 50)
                    },
                    i % 3,
                    text(i, 11, "driver"),
                )
            })
            .collect();
        lab.sql(&format!(
            "INSERT INTO nodes (uuid, name, owner, lessee, resource_class, shard, maintenance, \
             provision_updated_at, conductor_group, driver) VALUES {}",
            rows.join(", "),
        ))
        .await;
    }
    let analyze = if lab.engine == Engine::MariaDb { "ANALYZE TABLE nodes" } else { "ANALYZE" };
    lab.sql(analyze).await;
}

fn order(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Null, Cell::Null) => Ordering::Equal,
        (Cell::Null, _) => Ordering::Less,
        (_, Cell::Null) => Ordering::Greater,
        (Cell::Int(a), Cell::Int(b)) => a.cmp(b),
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
        (Cell::Time(a), Cell::Time(b)) => a.cmp(b),
        other => panic!("{other:?}"),
    }
}

/// All pages, one after the other.
async fn pages(store: &Store, query: &NodeQuery) -> Vec<NodeRow> {
    let mut query = query.clone();
    let mut all = Vec::new();
    loop {
        let page = store.nodes(&query).await.unwrap();
        let Some(last) = page.last() else { return all };
        query.marker = last.text(NodeColumn::Uuid).map(str::to_owned);
        all.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_through_5000_nodes_miss_none_and_repeat_none_in_every_order() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        seed(&lab).await;
        let columns = [
            NodeColumn::Id,
            NodeColumn::Uuid,
            NodeColumn::Name,
            NodeColumn::Owner,
            NodeColumn::Maintenance,
            NodeColumn::ProvisionUpdatedAt,
            NodeColumn::ConductorGroup,
        ];
        let everything = store.nodes(&NodeQuery::new(&columns, 10_000)).await.unwrap();
        assert_eq!(everything.len(), NODES);
        for sort in columns {
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut wanted = everything.clone();
                wanted.sort_by(|a, b| {
                    let by = order(a.get(sort), b.get(sort));
                    by.then_with(|| a.int(NodeColumn::Id).cmp(&b.int(NodeColumn::Id)))
                });
                if direction == Direction::Descending {
                    wanted.reverse();
                }
                let query = NodeQuery { sort: (sort, direction), ..NodeQuery::new(&columns, 333) };
                let found = pages(&store, &query).await;
                assert!(found == wanted, "{sort} {direction:?}: {} rows", found.len());
            }
        }
        // With a filter that some pages share with the sort key.
        let filters =
            vec![NodeFilter::IsNull(NodeColumn::Owner), NodeFilter::Flag(NodeColumn::Maintenance, false)];
        let sort = (NodeColumn::Owner, Direction::Descending);
        let found = pages(&store, &NodeQuery { filters, sort, ..NodeQuery::new(&columns, 7) }).await;
        let wanted = everything
            .iter()
            .filter(|r| r.text(NodeColumn::Owner).is_none() && r.bool(NodeColumn::Maintenance) != Some(true))
            .count();
        assert_eq!(found.len(), wanted);
        let unknown = NodeQuery { marker: Some(id().to_string()), ..NodeQuery::new(&columns, 7) };
        assert!(matches!(store.nodes(&unknown).await, Err(StoreError::UnknownMarker(_))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_of_indexed_columns_use_their_indexes() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        seed(&lab).await;
        for (filter, index) in [
            (NodeFilter::Equals(NodeColumn::Uuid, id().to_string().into()), "uniq_nodes0uuid"),
            (NodeFilter::Equals(NodeColumn::Name, "node-1".into()), "uniq_nodes0name"),
            (
                NodeFilter::Equals(NodeColumn::InstanceUuid, id().to_string().into()),
                "uniq_nodes0instance_uuid",
            ),
            (NodeFilter::Equals(NodeColumn::Owner, "p1".into()), "owner_idx"),
            (NodeFilter::Equals(NodeColumn::Lessee, "q1".into()), "lessee_idx"),
            (NodeFilter::Equals(NodeColumn::Driver, "no such driver".into()), "driver_idx"),
            (NodeFilter::Equals(NodeColumn::ResourceClass, "no such class".into()), "resource_class_idx"),
            (NodeFilter::OneOf(NodeColumn::Shard, vec!["shard1".into(), "shard2".into()]), "shard_idx"),
            (NodeFilter::Equals(NodeColumn::ConductorGroup, "no such group".into()), "conductor_group_idx"),
            (NodeFilter::Equals(NodeColumn::ProvisionState, "active".into()), "provision_state_idx"),
            (NodeFilter::Equals(NodeColumn::ParentNode, id().to_string().into()), "parent_node_idx"),
            (NodeFilter::IsNotNull(NodeColumn::Reservation), "reservation_idx"),
            (NodeFilter::project("p1"), "owner_idx"),
            (NodeFilter::project("q1"), "lessee_idx"),
        ] {
            // In the order of a column without an index, so that the filter is what an index can help with.
            let sort = (NodeColumn::Fault, Direction::Ascending);
            let filters = vec![filter];
            let query = NodeQuery { filters, sort, ..NodeQuery::new(&[NodeColumn::Uuid], 100) };
            let plan = store.explain(&query).await.unwrap();
            // SQLite names the indexes of constraints itself.
            let index = match (lab.engine, index.strip_prefix("uniq_nodes0")) {
                (Engine::Sqlite, Some(column)) => format!("({column}=?)"),
                _ => index.to_owned(),
            };
            // MariaDB looks into unique indexes while it plans, and finds nothing there.
            let is_used = plan.contains(&index) || plan.contains("after reading const tables");
            assert!(is_used, "{}: {index} for {:?}:\n{plan}", lab.engine, query.filters);
        }
        // The usual list goes along the row numbers, and a page deep in the set is found as the first one is.
        let all = store.nodes(&NodeQuery::new(&[NodeColumn::Uuid], 10_000)).await.unwrap();
        let deep = all[all.len() - 200].text(NodeColumn::Uuid).unwrap().to_owned();
        for marker in [None, Some(deep)] {
            let query = NodeQuery { marker: marker.clone(), ..NodeQuery::new(&[NodeColumn::Uuid], 100) };
            let plan = store.explain(&query).await.unwrap();
            let sorts = ["Sort", "TEMP B-TREE", "filesort"].iter().any(|word| plan.contains(word));
            let seeks = match lab.engine {
                Engine::Sqlite => plan.contains("SEARCH nodes USING INTEGER PRIMARY KEY (rowid>?)"),
                Engine::Postgres => plan.contains("nodes_pkey") && plan.contains("Index Cond"),
                Engine::MariaDb => plan.contains("\"range\"") && plan.contains("PRIMARY"),
            };
            assert!(!sorts && (seeks || marker.is_none()), "{}: {plan}", lab.engine);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_filter_finds_what_it_says() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let patch = NodePatch::new;
        for (name, fields) in [
            (
                "a",
                patch().with(NodeColumn::Owner, "p1").with(NodeColumn::Description, "Rack 12, 100% used_up!"),
            ),
            ("b", patch().with(NodeColumn::Lessee, "p1").with(NodeColumn::Retired, true)),
            ("c", patch().with(NodeColumn::Owner, "P1").with(NodeColumn::Shard, "s1")),
            ("d", patch().with(NodeColumn::Shard, "s2").with(NodeColumn::Description, "rack 13")),
            ("e", patch().with(NodeColumn::Shard, "s3").with(NodeColumn::Retired, Cell::Null)),
        ] {
            make_node_with(&store, name, fields).await;
        }
        let find = async |filters: Vec<NodeFilter>| {
            let query = NodeQuery { filters, ..NodeQuery::new(&[NodeColumn::Name], 100) };
            let rows = store.nodes(&query).await.unwrap();
            rows.iter().map(|r| r.text(NodeColumn::Name).unwrap()).collect::<String>()
        };
        let contains = |part: &str| vec![NodeFilter::Contains(NodeColumn::Description, part.to_owned())];
        for (filters, found) in [
            (vec![], "abcde"),
            (vec![NodeFilter::project("p1")], "ab"),
            (vec![NodeFilter::Equals(NodeColumn::Owner, "p1".into())], "a"),
            (vec![NodeFilter::Equals(NodeColumn::Owner, Cell::Null)], "bde"),
            (vec![NodeFilter::IsNull(NodeColumn::Shard)], "ab"),
            (vec![NodeFilter::IsNotNull(NodeColumn::Shard)], "cde"),
            (vec![NodeFilter::OneOf(NodeColumn::Shard, vec!["s1".into(), "s3".into()])], "ce"),
            (vec![NodeFilter::OneOf(NodeColumn::Shard, vec!["s1".into(), Cell::Null])], "abc"),
            (vec![NodeFilter::OneOf(NodeColumn::Shard, vec![Cell::Null])], "ab"),
            (vec![NodeFilter::OneOf(NodeColumn::Shard, vec![])], ""),
            (vec![NodeFilter::Any(vec![])], ""),
            (vec![NodeFilter::Flag(NodeColumn::Retired, true)], "b"),
            (vec![NodeFilter::Flag(NodeColumn::Retired, false)], "acde"),
            (vec![NodeFilter::Equals(NodeColumn::Retired, false.into())], "acd"),
            (contains("RACK 1"), "ad"),
            (contains("0% used_up!"), "a"),
            (contains("usedXup"), ""),
            (contains("r%k"), ""),
            (contains(""), "ad"),
            (
                vec![
                    NodeFilter::IsNotNull(NodeColumn::Shard),
                    NodeFilter::Equals(NodeColumn::Driver, "fake-hardware".into()),
                ],
                "cde",
            ),
            (
                vec![
                    NodeFilter::Any(vec![
                        NodeFilter::IsNull(NodeColumn::Shard),
                        NodeFilter::Equals(NodeColumn::Shard, "s2".into()),
                    ]),
                    NodeFilter::Flag(NodeColumn::Retired, false),
                ],
                "ad",
            ),
        ] {
            let told = format!("{filters:?}");
            assert_eq!(find(filters).await, found, "{told}");
        }
        // Asking for no column is asking how many there are.
        assert_eq!(store.nodes(&NodeQuery::new(&[], 100)).await.unwrap().len(), 5);
        assert_eq!(store.nodes(&NodeQuery::new(&[], 0)).await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_paged_in_every_order() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let uuid = make_node_with(&store, "n1", NodePatch::new()).await;
        for i in 0..25 {
            operate(&store, &uuid, &set(&i.to_string()), &system(), &stamp_after(i / 4)).await.unwrap();
        }
        let read =
            async |sort, marker, limit| store.history(&uuid, &HistoryQuery { sort, marker, limit }).await;
        for column in HistoryColumn::ALL {
            for direction in [Direction::Ascending, Direction::Descending] {
                let whole = read((column, direction), None, 1_000).await.unwrap();
                assert_eq!(whole.len(), 25);
                let mut paged = Vec::new();
                loop {
                    let marker = paged.last().map(|h: &apelora_store::HistoryRecord| h.uuid.clone());
                    let page = read((column, direction), marker, 4).await.unwrap();
                    if page.is_empty() {
                        break;
                    }
                    paged.extend(page);
                }
                assert_eq!(paged, whole, "{} {direction:?}", column.name());
            }
        }
        let by_time = (HistoryColumn::CreatedAt, Direction::Ascending);
        let told: Vec<_> =
            read(by_time, None, 1_000).await.unwrap().into_iter().map(|h| h.event.unwrap()).collect();
        assert!(told.iter().enumerate().all(|(i, event)| event.ends_with(&format!(": {i}"))), "{told:?}");
        let unknown = read(by_time, Some(id().to_string()), 4).await;
        assert!(matches!(unknown, Err(StoreError::UnknownMarker(_))));
    })
    .await;
}

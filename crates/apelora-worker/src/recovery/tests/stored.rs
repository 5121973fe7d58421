//! With a real database: what is stored is what another leader reads, and the audit trail tells it.

use apelora_fencing::recovery::Step;
use apelora_lab::incus::InstancePlan;
use apelora_maintenance::{Authority, Operation, Scope, Stamp, plan};
use apelora_store::{
    AuditQuery, DatabaseUrl, LeaderConfig, NodeChange, NodeColumn, NodeKey, NodePatch, Store, StoreConfig,
};
use time::macros::datetime;
use uuid::Uuid;

use super::lab::Lab;
use crate::shell::Database;
use crate::shell::tests::rig::{MEMBERS, at_pace};

async fn store(folder: &std::path::Path) -> Store {
    let url = format!("sqlite://{}", folder.join("apelora.db").display());
    let config = StoreConfig::new(DatabaseUrl::parse(&url).unwrap());
    Store::upgrade(&config).await.unwrap();
    Store::connect(&config).await.unwrap()
}

/// A node of this name with a hold on it.
async fn maintained(store: &Store, name: &str, number: u128) {
    let stamp = |change: u128| {
        let (change, entry) = (Uuid::from_u128(number + change), Uuid::from_u128(number + change + 1));
        Stamp::new(change, entry, datetime!(2026-11-30 12:00:00), "test".into())
    };
    let uuid = Uuid::from_u128(number).to_string();
    let fields = NodePatch::new()
        .with(NodeColumn::Uuid, uuid.as_str())
        .with(NodeColumn::Name, name)
        .with(NodeColumn::Driver, "fake-hardware");
    store.create_node(&stamp(10), fields, None).await.unwrap();
    let by = Authority { scope: Some(Scope::System), user: "operator".into(), project: String::new() };
    let hold = Operation::Add { entry_type: "operator_hold".into(), reason: None, extra: None };
    let (stamp, key) = (stamp(20), NodeKey::Uuid(uuid));
    let held = store.change_node(&key, &stamp, |on| {
        plan(&hold, &on.node, &by, &mut |_| true, &stamp).map(NodeChange::from)
    });
    held.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rows_inventory_and_audit_are_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    // A blocking task keeps the virtual time from jumping over what the database does in real time.
    let _pace = at_pace(8);
    let store = store(folder.path()).await;
    for (at, member) in ["s1", "s2", "s4"].into_iter().enumerate() {
        maintained(&store, member, 1_000 * (at as u128 + 1)).await;
    }
    let on_s3 = |name: &str| InstancePlan::new("default", name, "s3");
    let lab = Lab::new(&[on_s3("db").memory(64), on_s3("local").on_pool("local")]).await;
    let shared = store.clone();
    let _worker = lab.rig.start_through(|outside| {
        outside.cluster = lab.endpoints();
        let leader = LeaderConfig::new(outside.config.limits.clone(), "worker");
        outside.database = Database::Store(Box::new((shared, leader)));
    });
    let mut waited = 0;
    while store.inventory().await.unwrap().len() < 2
        || store.stored_members().await.unwrap().len() < MEMBERS.len()
    {
        waited += 1;
        assert!(waited < 600, "the inventory is stored");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    lab.cluster.crash("s3").unwrap();
    let ended = loop {
        let rows = store.recoveries(Some(&"s3".into())).await.unwrap();
        if rows.len() == 2 && rows.iter().all(|stored| stored.row.step.is_end()) {
            break rows;
        }
        waited += 1;
        assert!(waited < 3_000, "{rows:?}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    let of = |name: &str| ended.iter().find(|stored| stored.row.instance == name).unwrap().row.clone();
    assert_eq!((of("db").step, of("local").step), (Step::Done, Step::Stays));
    assert_eq!(lab.runs("default", "db"), ["s5"], "the only member out of maintenance");
    lab.assert_never_twice();
    let query = AuditQuery {
        action: Some("cluster.member.recovered".into()),
        member: Some("s3".into()),
        limit: 10,
        ..AuditQuery::default()
    };
    let mut audit: Vec<_> =
        store.audit(&query).await.unwrap().into_iter().map(|row| (row.outcome, row.summary)).collect();
    audit.sort();
    assert_eq!(audit.len(), 2, "{audit:?}");
    assert!(audit[0].0 == "refused" && audit[0].1.contains("local pool"), "{audit:?}");
    assert!(audit[1].0 == "success" && audit[1].1.contains("runs again on s5"), "{audit:?}");
    let memory = store.inventory().await.unwrap().into_iter().find(|i| i.instance.name == "db");
    assert_eq!(memory.and_then(|i| i.instance.memory), Some(64 << 20));
}

//! Making the schema, in one go or step by step, alone or beside others, in an empty database or in the reference's.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use apelora_store::{
    BackfillProgress, ConnectError, DatabaseUrl, Engine, NodeColumn, NodeFilter, NodePatch, NodeQuery, Store,
    StoreConfig,
};
use tokio::task::JoinSet;

use crate::lab::{
    Lab, Shared, add, assert_whole, by_uuid, data, make_node, on_every_engine, operate, set, stamp, system,
};

/// Everything that the database says of its tables, as sorted lines that begin with the table's name.
async fn catalogue(lab: &Lab) -> BTreeSet<String> {
    let queries: &[&str] = match lab.engine {
        Engine::Sqlite => {
            &["SELECT tbl_name || ' ' || type || ' ' || name || ' ' || sql FROM sqlite_master \
             WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"]
        }
        Engine::Postgres => &[
            "SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, character_maximum_length, \
             is_nullable, column_default, collation_name) FROM information_schema.columns \
             WHERE table_schema = 'public'",
            "SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint \
             WHERE connamespace = 'public'::regnamespace",
            "SELECT concat_ws(' ', tablename, indexdef) FROM pg_indexes WHERE schemaname = 'public'",
        ],
        Engine::MariaDb => &[
            "SELECT CONCAT_WS(' ', table_name, ordinal_position, column_name, column_type, is_nullable, \
             column_default, collation_name, extra) FROM information_schema.columns WHERE table_schema = database()",
            "SELECT CONCAT_WS(' ', table_name, engine, table_collation) FROM information_schema.tables \
             WHERE table_schema = database()",
            "SELECT CONCAT_WS(' ', table_name, index_name, non_unique, seq_in_index, column_name) \
             FROM information_schema.statistics WHERE table_schema = database()",
            "SELECT CONCAT_WS(' ', table_name, referenced_table_name, delete_rule) \
             FROM information_schema.referential_constraints WHERE constraint_schema = database()",
        ],
    };
    let mut lines = BTreeSet::new();
    for query in queries {
        lines.extend(lab.texts(query).await);
    }
    lines
}

/// The lines of these tables only.
fn only(lines: &BTreeSet<String>, tables: impl Fn(&str) -> bool) -> BTreeSet<String> {
    lines.iter().filter(|line| tables(line.split(' ').next().unwrap())).cloned().collect()
}

fn is_ours(table: &str) -> bool {
    table == "node_maintenance" || table.starts_with("apelora_")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_earlier_version_upgraded_equals_a_fresh_database() {
    on_every_engine(|lab| async move {
        let status = Store::upgrade(&lab.config).await.unwrap();
        assert_eq!((status.found, status.usable, status.adopted), (status.wanted, true, false));
        assert!(status.backfill_due);
        let fresh = catalogue(&lab).await;
        for earlier in 0..status.wanted {
            let other = lab.sibling().await;
            if earlier > 0 {
                let before = Store::upgrade_to(&other.config, Some(earlier)).await.unwrap();
                assert_eq!((before.found, before.usable), (earlier, false));
                if lab.engine != Engine::Sqlite {
                    assert_refused(&other.config, "Run: apelora db upgrade").await;
                }
            }
            for _ in 0..2 {
                assert_eq!(Store::upgrade(&other.config).await.unwrap(), status);
                assert_eq!(catalogue(&other).await, fresh, "from version {earlier}");
            }
            other.remove().await;
        }
        println!("{}: {} lines of catalogue", lab.engine, fresh.len());
        assert!(fresh.len() > 15);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upgrades_at_once_make_the_schema_once() {
    on_every_engine(|lab| async move {
        let fresh = lab.sibling().await;
        Store::upgrade(&fresh.config).await.unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..6 {
            // Each has pools of its own, as a process has.
            let config = lab.config.clone();
            tasks.spawn(async move { Store::upgrade(&config).await });
        }
        for result in tasks.join_all().await {
            assert!(result.unwrap().usable);
        }
        assert_eq!(catalogue(&lab).await, catalogue(&fresh).await);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_migration").await, 5);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_pin").await, 1);
        fresh.remove().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_was_killed_is_finished_by_the_next() {
    on_every_engine(|lab| async move {
        Store::upgrade(&lab.config).await.unwrap();
        let fresh = catalogue(&lab).await;
        // As if it had died in the middle of its steps: tables are there, one index is not, and nothing is written down.
        let index = match lab.engine {
            Engine::MariaDb => "DROP INDEX apelora_audit_at_idx ON apelora_audit",
            _ => "DROP INDEX apelora_audit_at_idx",
        };
        lab.sql(index).await;
        lab.sql("DROP TABLE apelora_pin").await;
        lab.sql("DELETE FROM apelora_migration WHERE version >= 2").await;
        if lab.engine != Engine::Sqlite {
            lab.sql("UPDATE apelora_migration_lock SET holder = 'dead', expires_at = '2026-01-01 00:00:00'")
                .await;
        }
        Store::upgrade(&lab.config).await.unwrap();
        assert_eq!(catalogue(&lab).await, fresh);

        // One that is alive is waited for.
        if lab.engine != Engine::Sqlite {
            lab.sql("DELETE FROM apelora_migration WHERE version >= 3").await;
            lab.sql("UPDATE apelora_migration_lock SET holder = 'alive', expires_at = '2099-01-01 00:00:00'")
                .await;
            let config = lab.config.clone();
            let waiting = tokio::spawn(async move { Store::upgrade(&config).await });
            // Nothing tells that it will go on waiting; without the lock it would be done by now.
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            assert!(!waiting.is_finished());
            assert_eq!(lab.number("SELECT MAX(version) FROM apelora_migration").await, 2);
            lab.sql("UPDATE apelora_migration_lock SET holder = ''").await;
            assert!(waiting.await.unwrap().unwrap().usable);
        }
    })
    .await;
}

async fn assert_refused(config: &StoreConfig, words: &str) {
    let error = Store::connect(config).await.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_schema_is_refused_with_what_to_do() {
    on_every_engine(|lab| async move {
        if lab.engine != Engine::Sqlite {
            assert_refused(&lab.config, "has no schema yet. Run: apelora db upgrade").await;
        }
        lab.store().await.close().await;
        let add = |version: u32, additive: bool| {
            let additive = match lab.engine {
                Engine::Postgres => additive.to_string(),
                _ => u8::from(additive).to_string(),
            };
            format!(
                "INSERT INTO apelora_migration (version, name, additive, applied_at) \
                 VALUES ({version}, 'later', {additive}, '2026-11-30 04:00:00')"
            )
        };
        // One additive step ahead is fine, more is not, and neither is one that is not additive.
        lab.sql(&add(6, true)).await;
        Store::connect(&lab.config).await.unwrap().close().await;
        lab.sql(&add(7, true)).await;
        assert_refused(&lab.config, "schema version 7, newer than the 5 of this program").await;
        lab.sql("DELETE FROM apelora_migration WHERE version > 5").await;
        lab.sql(&add(6, false)).await;
        assert_refused(&lab.config, "Run a newer apelora").await;

        let foreign = lab.sibling().await;
        foreign.sql("CREATE TABLE nodes (id INTEGER PRIMARY KEY, hostname VARCHAR(9))").await;
        let error = Store::upgrade(&foreign.config).await.unwrap_err();
        assert!(
            matches!(&error, ConnectError::Schema(text) if text.contains("lacks the columns uuid,")),
            "{error}"
        );
        assert_eq!(only(&catalogue(&foreign).await, is_ours), BTreeSet::new());
        foreign.remove().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_a_node_goes_with_it_whoever_deletes_it() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        for name in ["n1", "n2"] {
            let uuid = make_node(&store, name).await;
            operate(&store, &uuid, &add("operator_hold", None), &system(), &stamp()).await.unwrap();
            operate(&store, &uuid, &set("x"), &system(), &stamp()).await.unwrap();
        }
        let last = lab.number("SELECT MAX(id) FROM node_maintenance").await;
        // As the reference does it: known children first. It leaves the foreign keys of SQLite off.
        let pragma = if lab.engine == Engine::Sqlite { "PRAGMA foreign_keys = OFF; " } else { "" };
        let history = "DELETE FROM node_history WHERE node_id = (SELECT id FROM nodes WHERE name = 'n2')";
        lab.sql(&format!("{pragma}{history}; DELETE FROM nodes WHERE name = 'n2'")).await;
        assert_eq!(lab.number("SELECT COUNT(*) FROM node_maintenance").await, 2);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_history_author").await, 2);
        // A row number is never given again, even when the last row went.
        let uuid = make_node(&store, "n3").await;
        operate(&store, &uuid, &set("y"), &system(), &stamp()).await.unwrap();
        assert!(lab.number("SELECT MAX(id) FROM node_maintenance").await > last);
        assert_eq!(store.entries(&by_uuid(&uuid)).await.unwrap().unwrap().entries.len(), 1);
    })
    .await;
}

/// The reference's own tables, as it makes them.
fn reference_schema(engine: Engine) -> String {
    let whole = fs::read_to_string(data("ironic/schema.sql")).unwrap();
    let (sqlite, mariadb) = whole.split_once("-- ===== Part 2: MariaDB =====").unwrap();
    match engine {
        Engine::Sqlite => sqlite.to_owned(),
        _ => format!("SET FOREIGN_KEY_CHECKS = 0;\n{mariadb}\nSET FOREIGN_KEY_CHECKS = 1;"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contract_a_database_of_the_reference_is_adopted_untouched() {
    on_every_engine(|lab: Shared| async move {
        if lab.engine == Engine::Postgres {
            println!("the reference has no schema for PostgreSQL");
            return;
        }
        if lab.engine == Engine::MariaDb {
            // As the reference's guide has it: the character set that its tables then have.
            lab.sql("ALTER DATABASE CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci").await;
        }
        lab.sql(&reference_schema(lab.engine)).await;
        lab.sql("INSERT INTO alembic_version VALUES ('000000000000')").await;
        let error = Store::upgrade(&lab.config).await.unwrap_err();
        assert!(error.to_string().contains("at schema revision 000000000000"), "{error}");
        lab.sql("UPDATE alembic_version SET version_num = '9fb44677ef15'").await;
        let before = catalogue(&lab).await;

        let insert = |uuid: u32, name: &str, maintenance: u8, reason: &str, fault: &str| {
            format!(
                "INSERT INTO nodes (uuid, name, driver, conductor_group, maintenance, maintenance_reason, fault, \
                 extra, version, created_at) VALUES ('00000000-0000-4000-8000-{uuid:012}', '{name}', \
                 'fake-hardware', '', {maintenance}, {reason}, {fault}, '{{}}', '1.44', '2026-11-29 23:49:18')"
            )
        };
        lab.sql(&insert(1, "free", 0, "NULL", "NULL")).await;
        lab.sql(&insert(2, "held", 1, "'HW_ERR: disk'", "NULL")).await;
        lab.sql(&insert(3, "failed", 1, "'During sync'", "'power failure'")).await;

        let status = Store::upgrade(&lab.config).await.unwrap();
        assert!(status.adopted && status.usable && status.backfill_due);
        let after = catalogue(&lab).await;
        let theirs = |table: &str| !is_ours(table);
        let mut theirs_after = only(&after, theirs);
        // The trigger is on their table, but it is ours.
        theirs_after.retain(|line| !line.contains("apelora_node_deleted"));
        assert_eq!(theirs_after, only(&before, theirs));
        let fresh = lab.sibling().await;
        Store::upgrade(&fresh.config).await.unwrap();
        assert_eq!(only(&after, is_ours), only(&catalogue(&fresh).await, is_ours));
        fresh.remove().await;

        let store = Store::connect(&lab.config).await.unwrap();
        assert!(store.note_pin(false).await.unwrap());
        let mut progress = Vec::new();
        let report =
            store.backfill(100, &mut stamp, &mut |p: BackfillProgress| progress.push((p.done, p.total))).await.unwrap();
        assert_eq!((report.examined, report.reconciled, report.legacy_made), (2, 2, 2));
        assert_eq!(progress, [(0, 2), (2, 2)]);
        let held = "00000000-0000-4000-8000-000000000002";
        let node = store.entries(&by_uuid(held)).await.unwrap().unwrap();
        assert_whole(&node);
        assert_eq!(node.entries[0].reason.as_deref(), Some("HW_ERR: disk"));
        assert_eq!(node.entries[0].asserted_by, "migration");
        let failed = store.entries(&by_uuid("00000000-0000-4000-8000-000000000003")).await.unwrap().unwrap();
        assert_eq!(failed.node.fault.as_deref(), Some("power failure"));

        // Its indexes serve, whatever character set they have.
        for column in [NodeColumn::Uuid, NodeColumn::Name, NodeColumn::Owner] {
            let filters = vec![NodeFilter::Equals(column, "held".into())];
            let query = NodeQuery { filters, ..NodeQuery::new(&[NodeColumn::Id], 10) };
            let plan = store.explain(&query).await.unwrap();
            let is_used = plan.contains("INDEX ") || plan.contains("\"key\"") || plan.contains("const tables");
            assert!(is_used && !plan.contains("SCAN"), "{column}: {plan}");
        }

        // What the reference knows of a node goes with the node.
        let id = lab.number("SELECT id FROM nodes WHERE name = 'held'").await;
        lab.sql(&format!("INSERT INTO node_traits (node_id, trait) VALUES ({id}, 'CUSTOM_A')")).await;
        lab.sql(&format!("INSERT INTO ports (uuid, address, node_id) VALUES ('p', 'a', {id})")).await;
        lab.sql(&format!(
            "INSERT INTO allocations (id, uuid, state, node_id) VALUES (1, 'a', 'active', {id}); \
             UPDATE nodes SET allocation_id = 1 WHERE id = {id}"
        ))
        .await;
        let stamp = stamp();
        store
            .change_node(&by_uuid(held), &stamp, |on| {
                let operation = apelora_maintenance::Operation::DeleteNode;
                let plan = apelora_maintenance::plan(&operation, &on.node, &system(), &mut |_| true, &stamp)?;
                Ok::<_, apelora_maintenance::Denial>(apelora_store::NodeChange {
                    plan: Some(plan),
                    remove_node: true,
                    ..Default::default()
                })
            })
            .await
            .unwrap();
        for table in ["node_traits", "ports", "allocations"] {
            assert_eq!(lab.number(&format!("SELECT COUNT(*) FROM {table}")).await, 0, "{table}");
        }
        assert_eq!(lab.number("SELECT COUNT(*) FROM nodes").await, 2);

        if lab.engine == Engine::MariaDb {
            // Its tables keep three bytes a character: refused by name, and nothing is half done.
            let fields = NodePatch::new().with(NodeColumn::Description, "\u{1f600}");
            let change = apelora_store::NodeChange { fields, ..Default::default() };
            let free = by_uuid("00000000-0000-4000-8000-000000000001");
            let refused = store.change_node(&free, &crate::lab::stamp(), |_| Ok::<_, ()>(change.clone())).await;
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("outside the basic plane"), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_sqlite_file_is_its_owners_only_and_its_folder_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let config = |path: PathBuf| {
        StoreConfig::new(DatabaseUrl::parse(&format!("sqlite://{}", path.display())).unwrap())
    };
    let path = folder.path().join("a.db");
    let status = Store::status(&config(path.clone())).await.unwrap();
    assert_eq!((status.found, status.usable, path.exists()), (0, false, false), "asking makes nothing");
    let store = Store::connect(&config(path.clone())).await.unwrap();
    let uuid = make_node(&store, "n1").await;
    for file in ["a.db", "a.db-wal", "a.db-shm"] {
        let mode = fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    store.close().await;
    let store = Store::connect(&config(path)).await.unwrap();
    assert!(store.node(&by_uuid(&uuid), &[]).await.unwrap().is_some());

    let refusal = async |path: PathBuf| Store::connect(&config(path)).await.unwrap_err().to_string();
    let missing = refusal(folder.path().join("no/such/a.db")).await;
    assert!(missing.contains("no/such does not exist; make it first"), "{missing}");
    let directory = refusal(folder.path().to_path_buf()).await;
    assert!(directory.contains("it is a directory"), "{directory}");
    fs::write(folder.path().join("text"), "this is a text, and no database at all: it is too short for that")
        .unwrap();
    let text = refusal(folder.path().join("text")).await;
    assert!(text.contains("check that it is a SQLite database"), "{text}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_password() {
    for (url, shown) in [
        ("postgresql://me:s3cret@127.0.0.1:1/x", "postgresql://me@127.0.0.1:1/x"),
        ("mysql://me:s3cret@127.0.0.1:1/x", "mysql://me@127.0.0.1:1/x"),
    ] {
        let config = StoreConfig::new(DatabaseUrl::parse(url).unwrap());
        let error = Store::connect(&config).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(shown) && !text.contains("s3cret"), "{text}");
        assert!(matches!(error, ConnectError::Unreachable { .. }));
    }
}

#[tokio::test]
async fn a_server_is_reached_by_tls_when_the_url_says_so() {
    on_every_engine(|lab| async move {
        let (certificate, require, verify) = match lab.engine {
            Engine::Sqlite => return,
            Engine::Postgres => ("SHOW ssl_cert_file", "sslmode=require", "sslmode=verify-full"),
            Engine::MariaDb => ("SELECT @@ssl_cert", "ssl-mode=REQUIRED", "ssl-mode=VERIFY_IDENTITY"),
        };
        Store::upgrade(&lab.config).await.unwrap();
        let certificate = lab.texts(certificate).await.remove(0);
        let ca = if lab.engine == Engine::Postgres { "sslrootcert" } else { "ssl-ca" };
        let connect = async |options: &str| {
            let url = DatabaseUrl::parse(&format!("{}?{options}", lab.url)).unwrap();
            Store::connect(&StoreConfig::new(url)).await
        };
        connect(require).await.unwrap().ping().await.unwrap();
        // Nobody vouches for the certificate but itself.
        let refused = connect(verify).await.unwrap_err();
        assert!(matches!(refused, ConnectError::Unreachable { .. }), "{refused:?}");
        connect(&format!("{verify}&{ca}={certificate}")).await.unwrap().ping().await.unwrap();
    })
    .await;
}

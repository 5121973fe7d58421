//! The tables of each step of the schema.

use super::table::{Column, Default, ForeignKey, RowNumber, Table, make_index};
use crate::column::SqlType::{BigInt, Bool, DateTime, Int, LongText, Text, Varchar};
use crate::{Engine, NodeColumn};

/// `nodes` as the reference service makes it, without the foreign keys to tables that are not here.
/// Source: the reference's schema at revision `9fb44677ef15`.
pub(super) fn nodes() -> Table {
    let columns = NodeColumn::ALL.iter().filter(|c| **c != NodeColumn::Id).map(|c| {
        let column = Column::nullable(c.name(), c.sql_type());
        match c {
            NodeColumn::ConductorGroup => Column { null: false, default: Some(Default::Text("")), ..column },
            NodeColumn::Protected => Column { null: false, default: Some(Default::False), ..column },
            NodeColumn::Retired | NodeColumn::DisablePowerOff => {
                Column { default: Some(Default::False), ..column }
            }
            _ => column,
        }
    });
    Table {
        name: "nodes",
        key: Some(RowNumber { name: "id", wide: false, never_again: false }),
        columns: columns.collect(),
        primary_key: None,
        unique: &[
            ("uniq_nodes0uuid", &["uuid"]),
            ("uniq_nodes0instance_uuid", &["instance_uuid"]),
            ("uniq_nodes0name", &["name"]),
        ],
        foreign_key: None,
        indexes: &[
            ("lessee_idx", &["lessee"]),
            ("driver_idx", &["driver"]),
            ("owner_idx", &["owner"]),
            ("reservation_idx", &["reservation"]),
            ("conductor_group_idx", &["conductor_group"]),
            ("resource_class_idx", &["resource_class"]),
            ("shard_idx", &["shard"]),
            ("parent_node_idx", &["parent_node"]),
            ("provision_state_idx", &["provision_state"]),
        ],
    }
}

/// `node_history` as the reference service makes it.
pub(super) fn node_history() -> Table {
    Table {
        name: "node_history",
        key: Some(RowNumber { name: "id", wide: false, never_again: false }),
        columns: vec![
            Column::new("uuid", Varchar(36)),
            Column::nullable("conductor", Varchar(255)),
            Column::nullable("event_type", Varchar(255)),
            Column::nullable("severity", Varchar(255)),
            Column::nullable("event", Text),
            Column::nullable("user", Varchar(64)),
            Column::nullable("project", Varchar(80)),
            Column::nullable("node_id", Int),
            Column::nullable("state", Varchar(255)),
            Column::nullable("target_provision_state", Varchar(255)),
            Column::nullable("duration_seconds", Int),
            Column::nullable("version", Varchar(15)),
            Column::nullable("created_at", DateTime),
            Column::nullable("updated_at", DateTime),
        ],
        primary_key: None,
        unique: &[("uniq_history0uuid", &["uuid"])],
        foreign_key: Some(ForeignKey { column: "node_id", cascade: false }),
        indexes: &[
            ("history_conductor_idx", &["conductor"]),
            ("history_node_id_idx", &["node_id"]),
            ("history_uuid_idx", &["uuid"]),
        ],
    }
}

/// The active entries. Source: docs/maintenance.md, *Entries*.
pub(super) fn node_maintenance() -> Table {
    Table {
        name: "node_maintenance",
        key: Some(RowNumber { name: "id", wide: false, never_again: true }),
        columns: vec![
            Column::new("uuid", Varchar(36)),
            Column::new("node_id", Int),
            Column::new("type", Varchar(64)),
            Column::nullable("reason", Text),
            Column::new("scope", Varchar(64)),
            Column::new("asserted_by", Varchar(255)),
            Column::new("asserted_by_project", Varchar(255)),
            Column::new("asserted_at", DateTime),
            Column::nullable("extra", Text),
            // A row without a version breaks the reference's reads.
            Column { default: Some(Default::Text("1.0")), ..Column::new("version", Varchar(15)) },
            Column::nullable("created_at", DateTime),
            Column::nullable("updated_at", DateTime),
        ],
        primary_key: None,
        unique: &[
            ("uniq_node_maintenance0uuid", &["uuid"]),
            (
                "uniq_node_maintenance0node_id0type0scope0asserted_by_project",
                &["node_id", "type", "scope", "asserted_by_project"],
            ),
        ],
        foreign_key: Some(ForeignKey { column: "node_id", cascade: true }),
        indexes: &[("node_maintenance_node_id_idx", &["node_id"])],
    }
}

/// Who may read the author of a history record; a record that is not here hides nothing.
pub(super) fn history_author() -> Table {
    Table {
        name: "apelora_history_author",
        key: None,
        columns: vec![
            Column::new("history_uuid", Varchar(36)),
            Column::new("node_id", Int),
            Column::new("visible_from", Varchar(64)),
        ],
        primary_key: Some("history_uuid"),
        unique: &[],
        foreign_key: Some(ForeignKey { column: "node_id", cascade: true }),
        indexes: &[("apelora_history_author_node_id_idx", &["node_id"])],
    }
}

/// The audit trail: append-only, no reference to any other table.
pub(super) fn audit() -> Table {
    Table {
        name: "apelora_audit",
        key: Some(RowNumber { name: "seq", wide: true, never_again: true }),
        columns: vec![
            Column::new("uuid", Varchar(36)),
            Column::new("at", DateTime),
            Column::new("user", Varchar(255)),
            Column::new("project", Varchar(255)),
            Column::new("scope", Varchar(64)),
            Column::nullable("epoch", BigInt),
            Column::new("action", Varchar(64)),
            Column::new("outcome", Varchar(32)),
            Column::nullable("reason_code", Varchar(64)),
            Column::nullable("node_uuid", Varchar(36)),
            Column::nullable("node_name", Varchar(255)),
            Column::nullable("member", Varchar(255)),
            Column::nullable("hardware_uuid", Varchar(36)),
            Column::new("summary", Text),
            Column::new("evidence", LongText),
        ],
        primary_key: None,
        unique: &[("uniq_apelora_audit0uuid", &["uuid"])],
        foreign_key: None,
        indexes: &[
            ("apelora_audit_node_uuid_idx", &["node_uuid"]),
            ("apelora_audit_action_idx", &["action"]),
            ("apelora_audit_member_idx", &["member"]),
            ("apelora_audit_at_idx", &["at"]),
        ],
    }
}

/// An index for each filter of the trail that ends with the row number: a page is in the order of row numbers, so it is
/// found without sorting and without passing over rows of others, however many rows the filter finds.
///
/// PostgreSQL's do not end so by themselves, so that those without it go there.
pub(super) fn audit_filters(engine: Engine) -> Vec<String> {
    const TABLE: &str = "apelora_audit";
    let mut statements = Vec::new();
    let mut make = |name, columns: &[&str]| statements.push(make_index(engine, TABLE, name, columns));
    if engine != Engine::Postgres {
        make("apelora_audit_node_name_idx", &["node_name"]);
        make("apelora_audit_outcome_idx", &["outcome"]);
        make("apelora_audit_user_idx", &["user"]);
        return statements;
    }
    make("apelora_audit_node_uuid_seq_idx", &["node_uuid", "seq"]);
    make("apelora_audit_node_name_seq_idx", &["node_name", "seq"]);
    make("apelora_audit_member_seq_idx", &["member", "seq"]);
    make("apelora_audit_action_seq_idx", &["action", "seq"]);
    make("apelora_audit_outcome_seq_idx", &["outcome", "seq"]);
    make("apelora_audit_user_seq_idx", &["user", "seq"]);
    let old = ["apelora_audit_node_uuid_idx", "apelora_audit_member_idx", "apelora_audit_action_idx"];
    statements.extend(old.map(|name| format!("DROP INDEX IF EXISTS {name}")));
    statements
}

/// What changed, for other processes, and for a change whose commit was not answered.
pub(super) fn change() -> Table {
    Table {
        name: "apelora_change",
        key: Some(RowNumber { name: "seq", wide: true, never_again: true }),
        columns: vec![
            Column::new("change_id", Varchar(36)),
            Column::new("kind", Varchar(64)),
            Column::new("subject", Varchar(255)),
            Column::new("at", DateTime),
        ],
        primary_key: None,
        unique: &[("uniq_apelora_change0change_id", &["change_id"])],
        foreign_key: None,
        indexes: &[("apelora_change_at_idx", &["at"])],
    }
}

/// Whether the last start was pinned, and how often a backfill was wanted and done. One row.
pub(super) fn pin() -> Table {
    Table {
        name: "apelora_pin",
        key: None,
        columns: vec![
            Column::new("id", Int),
            Column::new("pinned", Bool),
            Column::new("backfills_wanted", BigInt),
            Column::new("backfills_done", BigInt),
        ],
        primary_key: Some("id"),
        unique: &[],
        foreign_key: None,
        indexes: &[],
    }
}

/// The steps that were made.
pub(super) fn migration() -> Table {
    Table {
        name: "apelora_migration",
        key: None,
        columns: vec![
            Column::new("version", Int),
            Column::new("name", Varchar(255)),
            // Whether a program that does not know this step can work with it.
            Column::new("additive", Bool),
            Column::new("applied_at", DateTime),
        ],
        primary_key: Some("version"),
        unique: &[],
        foreign_key: None,
        indexes: &[],
    }
}

/// Who is upgrading, and until when that holds by the database's clock. One row; not on SQLite, whose upgrade is one
/// transaction.
pub(super) fn migration_lock() -> Table {
    Table {
        name: "apelora_migration_lock",
        key: None,
        columns: vec![
            Column::new("id", Int),
            Column::new("holder", Varchar(36)),
            Column::new("expires_at", DateTime),
        ],
        primary_key: Some("id"),
        unique: &[],
        foreign_key: None,
        indexes: &[],
    }
}

/// Services that share a SQLite file may leave its foreign keys off, as the reference does, and a row number of `nodes`
/// may be given again: without this, entries of a deleted node would come to life on another one.
pub(super) fn cascade_trigger(engine: Engine) -> Vec<String> {
    if engine != Engine::Sqlite {
        return Vec::new();
    }
    vec![
        "CREATE TRIGGER IF NOT EXISTS apelora_node_deleted AFTER DELETE ON nodes BEGIN \
         DELETE FROM node_maintenance WHERE node_id = OLD.id; \
         DELETE FROM apelora_history_author WHERE node_id = OLD.id; END"
            .to_owned(),
    ]
}

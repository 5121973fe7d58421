//! The steps of the schema in their order, and how far a database is.

use sea_query::{Expr, ExprTrait, Query};

use super::{adopt, fencing, tables};
use crate::engine::{Conn, Fault, Sql};
use crate::{Cell, ConnectError, Engine, Kind, SchemaStatus};

/// One step. Every statement of it may be run again, so that a step that was interrupted is simply run again.
pub(super) struct Step {
    pub(super) version: u32,
    pub(super) name: &'static str,
    /// Whether a program that does not know this step can work with it.
    pub(super) additive: bool,
    pub(super) statements: fn(Engine) -> Vec<String>,
}

/// A step that was once released is never changed; a new one follows it.
pub(super) const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "nodes and their history",
        additive: true,
        statements: |engine| {
            [tables::nodes(), tables::node_history()].iter().flat_map(|t| t.make(engine)).collect()
        },
    },
    Step {
        version: 2,
        name: "maintenance entries",
        additive: true,
        statements: |engine| tables::node_maintenance().make(engine),
    },
    Step {
        version: 3,
        name: "audit, history authors, changes and the pin",
        additive: true,
        statements: |engine| {
            let mut statements: Vec<String> =
                [tables::history_author(), tables::audit(), tables::change(), tables::pin()]
                    .iter()
                    .flat_map(|t| t.make(engine))
                    .collect();
            let pinned = if engine == Engine::Postgres { "FALSE" } else { "0" };
            statements.push(format!(
                "INSERT INTO apelora_pin (id, pinned, backfills_wanted, backfills_done) \
                 SELECT 1, {pinned}, 1, 0 WHERE NOT EXISTS (SELECT 1 FROM apelora_pin)"
            ));
            statements.extend(tables::cascade_trigger(engine));
            statements
        },
    },
    Step {
        version: 4,
        name: "the leader lease, members, fence records and proofs",
        additive: true,
        statements: fencing::step,
    },
    Step {
        version: 5,
        name: "indexes behind the filters of the audit trail",
        additive: true,
        statements: tables::audit_filters,
    },
];

/// The version that this program makes.
pub(super) const WANTED: u32 = STEPS.len() as u32;

/// The highest version in the database and whether it is additive; `None` without the table of steps.
pub(super) async fn found(conn: &mut Conn) -> Result<Option<(u32, bool)>, Fault> {
    if !adopt::has_table(conn, "apelora_migration").await? {
        return Ok(None);
    }
    let mut last = Query::select();
    last.columns(["version", "additive"])
        .from("apelora_migration")
        .order_by("version", sea_query::Order::Desc);
    let rows = conn.fetch(conn.engine().build(&last.limit(1).take()), &[Kind::Int, Kind::Bool]).await?;
    Ok(Some(match rows.first().map(Vec::as_slice) {
        Some([Cell::Int(version), additive]) => {
            (u32::try_from(*version).unwrap_or(u32::MAX), *additive == Cell::Bool(true))
        }
        _ => (0, true),
    }))
}

/// What the database has, beside what this program wants.
pub(crate) async fn status(conn: &mut Conn) -> Result<SchemaStatus, Fault> {
    let (found, additive) = found(conn).await?.unwrap_or((0, true));
    let usable = found == WANTED || (found == WANTED + 1 && additive);
    let backfill_due = if usable { backfill_due(conn).await? } else { false };
    let adopted = adopt::revision(conn).await?.is_some();
    Ok(SchemaStatus { found, wanted: WANTED, usable, adopted, backfill_due })
}

async fn backfill_due(conn: &mut Conn) -> Result<bool, Fault> {
    let mut due = Query::select();
    due.expr(Expr::col("id").count()).from("apelora_pin");
    due.and_where(Expr::col("backfills_done").lt(Expr::col("backfills_wanted")));
    let rows = conn.fetch(conn.engine().build(&due), &[Kind::Int]).await?;
    Ok(rows.first().is_some_and(|row| row.first() == Some(&Cell::Int(1))))
}

impl SchemaStatus {
    /// A database that is not there yet.
    pub(crate) const fn empty() -> Self {
        Self { found: 0, wanted: WANTED, usable: false, adopted: false, backfill_due: false }
    }

    /// Refuses a schema that this program cannot work with, with what to do about it.
    pub(crate) fn check(&self, database: &str) -> Result<(), ConnectError> {
        let Self { found, wanted, usable, .. } = self;
        if *usable {
            return Ok(());
        }
        Err(ConnectError::Schema(match found {
            0 => format!("the database {database} has no schema yet. Run: apelora db upgrade"),
            older if older < wanted => format!(
                "the database {database} has schema version {found}, this program needs {wanted}. \
                 Run: apelora db upgrade"
            ),
            _ => format!(
                "the database {database} has schema version {found}, newer than the {wanted} of this program. \
                 Run a newer apelora"
            ),
        }))
    }
}

/// A time by the database's own clock, in UTC; for what no caller's clock may decide.
pub(super) fn database_time(engine: Engine, plus_secs: u32) -> String {
    match engine {
        Engine::Sqlite => format!("strftime('%Y-%m-%d %H:%M:%S.000000', 'now', '+{plus_secs} seconds')"),
        Engine::Postgres => {
            format!(
                "date_trunc('second', clock_timestamp() AT TIME ZONE 'UTC') + INTERVAL '{plus_secs} seconds'"
            )
        }
        Engine::MariaDb => format!("UTC_TIMESTAMP() + INTERVAL {plus_secs} SECOND"),
    }
}

/// Writes down that a step was made, once.
pub(super) fn record(engine: Engine, step: &Step) -> Sql {
    let Step { version, name, additive, .. } = step;
    let additive = match (engine, additive) {
        (Engine::Postgres, value) => value.to_string(),
        (_, value) => u8::from(*value).to_string(),
    };
    Sql::plain(format!(
        "INSERT INTO apelora_migration (version, name, additive, applied_at) \
         SELECT {version}, '{name}', {additive}, {} \
         WHERE NOT EXISTS (SELECT 1 FROM apelora_migration WHERE version = {version})",
        database_time(engine, 0),
    ))
}

const _: () = {
    // Versions count from 1 without a gap.
    let mut i = 0;
    while i < STEPS.len() {
        assert!(STEPS[i].version as usize == i + 1);
        i += 1;
    }
};

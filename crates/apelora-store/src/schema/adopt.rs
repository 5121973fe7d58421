//! A database whose `nodes` were made by the reference service.

use sea_query::{Expr, ExprTrait, Query};

use crate::engine::{Conn, Fault, Sql};
use crate::{Cell, ConnectError, Engine, Kind, NodeColumn};

/// The reference's schema that this program knows.
const KNOWN_REVISION: &str = "9fb44677ef15";

/// The reference's tables that refer to a node, in the order in which their rows can go before the node does.
const CHILDREN: &[&str] = &[
    "node_traits",
    "node_tags",
    "bios_settings",
    "firmware_information",
    "node_inventory",
    "volume_connectors",
    "volume_targets",
    "ports",
    "portgroups",
];

/// The reference's tables that are beside `nodes`.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdoptedTables {
    /// Tables with a `node_id`, whose rows go before the node.
    pub(crate) children: Vec<&'static str>,
    /// Whether there are allocations, whose rows go after the node.
    pub(crate) allocations: bool,
}

/// Which of them are there.
pub(crate) async fn adopted_tables(conn: &mut Conn) -> Result<AdoptedTables, Fault> {
    let there = tables(conn).await?;
    let has = |name: &str| there.iter().any(|t| t == name);
    Ok(AdoptedTables {
        children: CHILDREN.iter().copied().filter(|t| has(t)).collect(),
        allocations: has("allocations"),
    })
}

/// The revision of the reference's schema; `None` when the reference did not make this database.
pub(super) async fn revision(conn: &mut Conn) -> Result<Option<String>, Fault> {
    if !has_table(conn, "alembic_version").await? {
        return Ok(None);
    }
    let select = Query::select().column("version_num").from("alembic_version").limit(1).take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Text]).await?;
    Ok(rows.into_iter().next().and_then(|row| match row.into_iter().next() {
        Some(Cell::Text(revision)) => Some(revision),
        _ => None,
    }))
}

/// Refuses a `nodes` table that this program does not know, before anything is added to the database.
pub(super) async fn check(conn: &mut Conn, database: &str) -> Result<Result<(), ConnectError>, Fault> {
    if !has_table(conn, "nodes").await? {
        return Ok(Ok(()));
    }
    if let Some(revision) = revision(conn).await?
        && revision != KNOWN_REVISION
    {
        return Ok(Err(ConnectError::Schema(format!(
            "the database {database} belongs to a Bare Metal service at schema revision {revision}; this program \
             knows {KNOWN_REVISION} only. Bring that service to the release of that revision first"
        ))));
    }
    let there = columns_of_nodes(conn).await?;
    let missing: Vec<&str> =
        NodeColumn::ALL.iter().map(|c| c.name()).filter(|c| !there.iter().any(|t| t == c)).collect();
    if missing.is_empty() {
        return Ok(Ok(()));
    }
    Ok(Err(ConnectError::Schema(format!(
        "the table nodes of the database {database} lacks the columns {}; it is not one that this program knows. \
         Use an empty database, or one of a Bare Metal service at schema revision {KNOWN_REVISION}",
        missing.join(", "),
    ))))
}

pub(super) async fn has_table(conn: &mut Conn, name: &str) -> Result<bool, Fault> {
    Ok(tables(conn).await?.iter().any(|t| t == name))
}

async fn tables(conn: &mut Conn) -> Result<Vec<String>, Fault> {
    let mut select = Query::select();
    match conn.engine() {
        Engine::Sqlite => {
            select.column("name").from("sqlite_master").and_where(Expr::col("type").eq("table"));
        }
        Engine::Postgres => {
            select.expr(Expr::cust("table_name::text")).from(("information_schema", "tables"));
            select.and_where(Expr::cust("table_schema = current_schema()"));
        }
        Engine::MariaDb => {
            select.column("table_name").from(("information_schema", "tables"));
            select.and_where(Expr::cust("table_schema = database()"));
        }
    }
    names(conn, &select).await
}

async fn columns_of_nodes(conn: &mut Conn) -> Result<Vec<String>, Fault> {
    let mut select = Query::select();
    match conn.engine() {
        Engine::Sqlite => {
            let sql = Sql::plain("SELECT name FROM pragma_table_info('nodes')");
            return Ok(texts(conn.fetch(sql, &[Kind::Text]).await?));
        }
        Engine::Postgres => {
            select.expr(Expr::cust("column_name::text"));
            select.and_where(Expr::cust("table_schema = current_schema()"));
        }
        Engine::MariaDb => {
            select.column("column_name").and_where(Expr::cust("table_schema = database()"));
        }
    }
    select.from(("information_schema", "columns")).and_where(Expr::col("table_name").eq("nodes"));
    names(conn, &select).await
}

async fn names(conn: &mut Conn, select: &sea_query::SelectStatement) -> Result<Vec<String>, Fault> {
    Ok(texts(conn.fetch(conn.engine().build(select), &[Kind::Text]).await?))
}

fn texts(rows: Vec<Vec<Cell>>) -> Vec<String> {
    rows.into_iter()
        .filter_map(|row| match row.into_iter().next() {
            Some(Cell::Text(name)) => Some(name),
            _ => None,
        })
        .collect()
}

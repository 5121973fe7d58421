//! `node_maintenance`.

use std::collections::HashMap;

use apelora_maintenance::{Entry, Plan};
use sea_query::{Expr, ExprTrait, Func, Order, Query, SelectStatement};
use time::PrimitiveDateTime;

use super::{CHUNK, Reader};
use crate::engine::{Class, Conn, Fault};
use crate::{EntryCount, Kind};

const TABLE: &str = "node_maintenance";
/// The version of the object that the reference will write beside each row.
const VERSION: &str = "1.0";

const COLUMNS: [(&str, Kind); 8] = [
    ("uuid", Kind::Text),
    ("type", Kind::Text),
    ("reason", Kind::Text),
    ("scope", Kind::Text),
    ("asserted_by", Kind::Text),
    ("asserted_by_project", Kind::Text),
    ("asserted_at", Kind::Time),
    ("extra", Kind::Json),
];

fn select() -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    select
}

fn entry(mut row: Reader) -> Result<Entry, Fault> {
    Ok(Entry {
        uuid: row.uuid()?,
        entry_type: row.text()?,
        reason: row.opt_text(),
        scope: row.scope()?,
        asserted_by: row.text()?,
        asserted_by_project: row.text()?,
        asserted_at: row.time()?,
        extra: row.opt_text(),
    })
}

/// The active entries of a node, in their order.
pub(crate) async fn of_node(conn: &mut Conn, node_id: i64) -> Result<Vec<Entry>, Fault> {
    let select = select()
        .and_where(Expr::col("node_id").eq(node_id))
        .order_by("asserted_at", Order::Asc)
        .order_by("id", Order::Asc)
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter().map(|row| entry(Reader::new(TABLE, row))).collect()
}

/// The active entries of several nodes, each in their order.
pub(crate) async fn of_nodes(conn: &mut Conn, ids: &[i64]) -> Result<HashMap<i64, Vec<Entry>>, Fault> {
    let mut kinds = COLUMNS.map(|(_, kind)| kind).to_vec();
    kinds.insert(0, Kind::Int);
    let mut select = Query::select();
    select.column("node_id").columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    select
        .and_where(Expr::col("node_id").is_in(ids.iter().copied()))
        .order_by("asserted_at", Order::Asc)
        .order_by("id", Order::Asc);
    let mut entries: HashMap<i64, Vec<Entry>> = HashMap::new();
    for row in conn.fetch(conn.engine().build(&select), &kinds).await? {
        let mut row = Reader::new(TABLE, row);
        let node = row.int()?;
        entries.entry(node).or_default().push(entry(row)?);
    }
    Ok(entries)
}

/// How many entries are active, by type and scope.
pub(crate) async fn counts(conn: &mut Conn) -> Result<Vec<EntryCount>, Fault> {
    let select = Query::select()
        .columns(["type", "scope"])
        .expr(Expr::col("id").count())
        .from(TABLE)
        .group_by_columns(["type", "scope"])
        .order_by("type", Order::Asc)
        .order_by("scope", Order::Asc)
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Text, Kind::Text, Kind::Int]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok(EntryCount { entry_type: row.text()?, scope: row.text()?, count: row.int()? })
        })
        .collect()
}

/// Makes the rows what the plan says. Deletions come first: an entry may be replaced by one of the same identity.
pub(crate) async fn apply(
    conn: &mut Conn,
    node_id: i64,
    plan: &Plan,
    at: PrimitiveDateTime,
) -> Result<(), Fault> {
    let engine = conn.engine();
    for uuids in plan.delete().chunks(CHUNK) {
        let count = uuids.len();
        let uuids = uuids.iter().map(ToString::to_string);
        let delete = Query::delete()
            .from_table(TABLE)
            .and_where(Expr::col("node_id").eq(node_id))
            .and_where(Func::lower(Expr::col("uuid")).is_in(uuids))
            .take();
        written(conn.execute(engine.build(&delete)).await?, count)?;
    }
    for amendment in plan.amend() {
        let update = Query::update()
            .table(TABLE)
            .value("reason", amendment.reason.clone())
            .value("extra", amendment.extra.clone())
            .value("updated_at", at)
            .and_where(Expr::col("node_id").eq(node_id))
            .and_where(Func::lower(Expr::col("uuid")).eq(amendment.uuid.to_string()))
            .take();
        written(conn.execute(engine.build(&update)).await?, 1)?;
    }
    for entries in plan.insert().chunks(CHUNK) {
        let mut insert = Query::insert();
        insert.into_table(TABLE).columns(
            ["node_id"].into_iter().chain(COLUMNS.map(|(name, _)| name)).chain(["version", "created_at"]),
        );
        for e in entries {
            insert
                .values([
                    node_id.into(),
                    e.uuid.to_string().into(),
                    e.entry_type.clone().into(),
                    e.reason.clone().into(),
                    e.scope.as_str().into(),
                    e.asserted_by.clone().into(),
                    e.asserted_by_project.clone().into(),
                    e.asserted_at.into(),
                    e.extra.clone().into(),
                    VERSION.into(),
                    at.into(),
                ])
                .map_err(|e| Fault::new(Class::Other, e))?;
        }
        conn.execute(engine.build(&insert)).await?;
    }
    Ok(())
}

/// An entry that was read under the lock and is not found again would stay behind a flag that went down.
fn written(rows: u64, wanted: usize) -> Result<(), Fault> {
    if usize::try_from(rows).is_ok_and(|rows| rows == wanted) {
        return Ok(());
    }
    Err(Fault::corrupt(format!("{TABLE}: {rows} rows were written instead of {wanted}")))
}

/// Whether a statement failed because somebody else asserted the same entry.
pub(crate) fn is_duplicate(fault: &Fault) -> bool {
    matches!(
        &fault.class,
        Class::Unique(words) if words.starts_with("uniq_node_maintenance0node_id") || words.starts_with("node_maintenance.node_id")
    )
}

//! `node_maintenance`.

use std::collections::HashMap;

use apelora_maintenance::{Entry, Plan, Scope};
use sea_query::{Cond, Expr, ExprTrait, Func, Order, Query, SelectStatement};
use time::PrimitiveDateTime;

use super::{CHUNK, Reader};
use crate::engine::{Class, Conn, Fault};
use crate::{EntryCount, EntryNode, EntryQuery, Kind, PlacedEntry};

const TABLE: &str = "node_maintenance";
const NODES: &str = "nodes";
/// What is told of the node of an entry.
const NODE_COLUMNS: [&str; 4] = ["uuid", "name", "owner", "lessee"];
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

/// A page of the entries of all nodes; `None` when the marker names no active entry.
pub(crate) async fn of_all_nodes(
    conn: &mut Conn,
    query: &EntryQuery,
) -> Result<Option<Vec<PlacedEntry>>, Fault> {
    let own = |name: &'static str| Expr::col((TABLE, name));
    let of_node = |name: &'static str| Expr::col((NODES, name));
    let mut select = Query::select();
    select
        .columns(NODE_COLUMNS.map(|name| (NODES, name)))
        .columns(COLUMNS.map(|(name, _)| (TABLE, name)))
        .from(TABLE)
        .inner_join(NODES, of_node("id").equals((TABLE, "node_id")))
        .order_by((TABLE, "asserted_at"), Order::Asc)
        .order_by((TABLE, "id"), Order::Asc)
        .limit(u64::from(query.limit));
    if let Some(project) = &query.project {
        let is = |name| of_node(name).eq(project.as_str());
        select.cond_where(Cond::any().add(is("owner")).add(is("lessee")));
    }
    if query.below_system {
        select.and_where(own("scope").ne(Scope::System.as_str()));
    }
    if let Some(marker) = &query.marker {
        let Some((at, id)) = position(conn, marker).await? else { return Ok(None) };
        let at_once = Cond::all().add(own("asserted_at").eq(at)).add(own("id").gt(id));
        select.cond_where(Cond::any().add(own("asserted_at").gt(at)).add(at_once));
    }
    let mut kinds = NODE_COLUMNS.map(|_| Kind::Text).to_vec();
    kinds.extend(COLUMNS.map(|(_, kind)| kind));
    let rows = conn.fetch(conn.engine().build(&select), &kinds).await?;
    let placed = rows.into_iter().map(|row| {
        let mut row = Reader::new(TABLE, row);
        let node = EntryNode {
            uuid: row.text()?,
            name: row.opt_text(),
            owner: row.opt_text(),
            lessee: row.opt_text(),
        };
        Ok(PlacedEntry { node, entry: entry(row)? })
    });
    placed.collect::<Result<_, _>>().map(Some)
}

/// Where an entry stands in the order of all.
async fn position(conn: &mut Conn, uuid: &str) -> Result<Option<(PrimitiveDateTime, i64)>, Fault> {
    let select = Query::select()
        .columns(["asserted_at", "id"])
        .from(TABLE)
        .and_where(Expr::col("uuid").eq(uuid))
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Time, Kind::Int]).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let mut row = Reader::new(TABLE, row);
    Ok(Some((row.time()?, row.int()?)))
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

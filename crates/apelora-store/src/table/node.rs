//! `nodes`.

use apelora_maintenance::Plan;
use sea_query::{Cond, Expr, ExprTrait, LockBehavior, LockType, Order, Query, SelectStatement, SimpleExpr};
use time::PrimitiveDateTime;

use super::page::{Position, SortKey, page};
use crate::engine::{Class, Conn, Fault, value};
use crate::node::Layout;
use crate::{Cell, Conflict, Engine, Kind, NodeColumn, NodeFilter, NodeKey, NodePatch, NodeQuery, NodeRow};

/// The version of the object that the reference writes beside each row; it refuses rows without one.
const VERSION: &str = "1.44";

fn col(column: NodeColumn) -> Expr {
    Expr::col(column.name())
}

fn select(columns: &[NodeColumn]) -> SelectStatement {
    let mut select = Query::select();
    select.columns(columns.iter().map(|c| c.name())).from("nodes");
    select
}

fn is(key: &NodeKey) -> SimpleExpr {
    match key {
        NodeKey::Uuid(uuid) => col(NodeColumn::Uuid).eq(uuid.as_str()),
        NodeKey::Name(name) => col(NodeColumn::Name).eq(name.as_str()),
    }
}

async fn rows(
    conn: &mut Conn,
    select: &SelectStatement,
    columns: &[NodeColumn],
) -> Result<Vec<NodeRow>, Fault> {
    let layout = Layout::new(columns);
    let kinds: Vec<Kind> = layout.columns().iter().map(|c| c.kind()).collect();
    let rows = conn.fetch(conn.engine().build(select), &kinds).await?;
    Ok(rows.into_iter().map(|cells| NodeRow::new(layout.clone(), cells)).collect())
}

/// Some columns of one node.
pub(crate) async fn read(
    conn: &mut Conn,
    key: &NodeKey,
    columns: &[NodeColumn],
) -> Result<Option<NodeRow>, Fault> {
    let layout = Layout::new(columns);
    // A select list is never empty.
    let columns = if layout.columns().is_empty() { &[NodeColumn::Id] } else { layout.columns() };
    let select = select(columns).and_where(is(key)).take();
    Ok(rows(conn, &select, columns).await?.pop())
}

/// Every column of one node, under its lock.
pub(crate) async fn lock(conn: &mut Conn, key: &NodeKey) -> Result<Option<NodeRow>, Fault> {
    let select = select(NodeColumn::ALL).and_where(is(key)).lock(LockType::Update).take();
    Ok(rows(conn, &select, NodeColumn::ALL).await?.pop())
}

/// As [`lock`], but a node that somebody else has locked is passed over, as if it were not there.
pub(crate) async fn lock_unless_locked(conn: &mut Conn, key: &NodeKey) -> Result<Option<NodeRow>, Fault> {
    let select = select(NodeColumn::ALL)
        .and_where(is(key))
        .lock_with_behavior(LockType::Update, LockBehavior::SkipLocked)
        .take();
    Ok(rows(conn, &select, NodeColumn::ALL).await?.pop())
}

/// Every column of these nodes, under their locks, which are taken in the order of row numbers.
pub(crate) async fn lock_all(conn: &mut Conn, ids: &[i64]) -> Result<Vec<NodeRow>, Fault> {
    let select = select(NodeColumn::ALL)
        .and_where(col(NodeColumn::Id).is_in(ids.iter().copied()))
        .order_by(NodeColumn::Id.name(), Order::Asc)
        .lock(LockType::Update)
        .take();
    rows(conn, &select, NodeColumn::ALL).await
}

/// The statement for a page of nodes.
pub(crate) fn page_of(engine: Engine, query: &NodeQuery, after: Option<&Position>) -> SelectStatement {
    let mut select = select(&query.columns);
    for filter in &query.filters {
        select.cond_where(condition(engine, filter));
    }
    page(engine, &mut select, sort_key(query), after, query.limit);
    select
}

fn sort_key(query: &NodeQuery) -> SortKey {
    let (column, direction) = query.sort;
    let nullable = !matches!(column, NodeColumn::Id | NodeColumn::ConductorGroup | NodeColumn::Protected);
    SortKey { column: column.name(), kind: column.kind(), nullable, direction }
}

/// Where the page begins: behind the marker's node, if there is a marker. `None` when it names no node.
async fn position(conn: &mut Conn, query: &NodeQuery) -> Result<Option<Option<Position>>, Fault> {
    let Some(uuid) = &query.marker else { return Ok(Some(None)) };
    let sort = query.sort.0;
    let row = read(conn, &NodeKey::Uuid(uuid.clone()), &[NodeColumn::Id, sort]).await?;
    Ok(row.map(|row| {
        let id = row.int(NodeColumn::Id).unwrap_or_default();
        Some(Position { id, key: row.get(sort).clone() })
    }))
}

/// A page of nodes; `None` when the marker names no node.
pub(crate) async fn list(conn: &mut Conn, query: &NodeQuery) -> Result<Option<Vec<NodeRow>>, Fault> {
    let Some(after) = position(conn, query).await? else { return Ok(None) };
    let layout = Layout::new(&query.columns);
    let columns = if layout.columns().is_empty() { vec![NodeColumn::Id] } else { layout.columns().to_vec() };
    let query = NodeQuery { columns, ..query.clone() };
    let select = page_of(conn.engine(), &query, after.as_ref());
    Ok(Some(rows(conn, &select, &query.columns).await?))
}

/// How the database would answer for this page; for the first one, when the marker names no node.
pub(crate) async fn explain(conn: &mut Conn, query: &NodeQuery) -> Result<String, Fault> {
    let after = position(conn, query).await?.flatten();
    let sql = conn.engine().build(&page_of(conn.engine(), query, after.as_ref()));
    super::explain(conn, sql).await
}

fn condition(engine: Engine, filter: &NodeFilter) -> Cond {
    match filter {
        NodeFilter::Equals(column, Cell::Null) | NodeFilter::IsNull(column) => {
            Cond::all().add(col(*column).is_null())
        }
        NodeFilter::Equals(column, cell) => Cond::all().add(col(*column).eq(value(cell, column.kind()))),
        NodeFilter::Flag(column, true) => Cond::all().add(col(*column).eq(true)),
        NodeFilter::Flag(column, false) => {
            Cond::any().add(col(*column).eq(false)).add(col(*column).is_null())
        }
        NodeFilter::IsNotNull(column) => Cond::all().add(col(*column).is_not_null()),
        NodeFilter::OneOf(column, cells) => {
            let kind = column.kind();
            let mut any = Cond::any();
            if cells.is_empty() {
                any = any.add(nothing());
            }
            let (null, values): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.is_null());
            if !null.is_empty() {
                any = any.add(col(*column).is_null());
            }
            if !values.is_empty() {
                any = any.add(col(*column).is_in(values.into_iter().map(|cell| value(cell, kind))));
            }
            any
        }
        NodeFilter::Contains(column, part) => Cond::all().add(engine.contains(column.name(), part)),
        NodeFilter::Any(filters) if filters.is_empty() => Cond::all().add(nothing()),
        NodeFilter::Any(filters) => {
            filters.iter().fold(Cond::any(), |any, filter| any.add(condition(engine, filter)))
        }
    }
}

fn nothing() -> SimpleExpr {
    Expr::cust("1 = 0")
}

/// What a plan makes of the row.
fn planned(plan: &Plan) -> [(NodeColumn, Cell); 3] {
    [
        (NodeColumn::Maintenance, Cell::Bool(plan.flag())),
        (NodeColumn::MaintenanceReason, Cell::opt_text(plan.reason())),
        (NodeColumn::Fault, Cell::opt_text(plan.fault())),
    ]
}

/// Makes a node. Columns without a value have the table's own default.
pub(crate) async fn insert(
    conn: &mut Conn,
    fields: &NodePatch,
    plan: Option<&Plan>,
    at: PrimitiveDateTime,
) -> Result<(), Fault> {
    let mut cells = fields.cells().to_vec();
    cells.extend(plan.map(planned).into_iter().flatten());
    if plan.is_none() {
        cells.push((NodeColumn::Maintenance, Cell::Bool(false)));
    }
    cells.push((NodeColumn::Version, VERSION.into()));
    cells.push((NodeColumn::CreatedAt, at.into()));
    let mut insert = Query::insert();
    insert.into_table("nodes").columns(cells.iter().map(|(c, _)| c.name()));
    insert
        .values(cells.iter().map(|(c, cell)| value(cell, c.kind()).into()))
        .map_err(|e| Fault::new(Class::Other, e))?;
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

/// Writes new values, and the time of the change, into the row and into what was read of it.
pub(crate) async fn update(
    conn: &mut Conn,
    row: &mut NodeRow,
    fields: &NodePatch,
    plan: Option<&Plan>,
    at: PrimitiveDateTime,
) -> Result<(), Fault> {
    let mut cells = fields.cells().to_vec();
    cells.extend(plan.map(planned).into_iter().flatten());
    cells.push((NodeColumn::UpdatedAt, at.into()));
    let mut update = Query::update();
    update.table("nodes").values(cells.iter().map(|(c, cell)| (c.name(), value(cell, c.kind()).into())));
    update.and_where(col(NodeColumn::Id).eq(id(row)));
    conn.execute(conn.engine().build(&update)).await?;
    for (column, cell) in cells {
        row.put(column, cell);
    }
    Ok(())
}

/// Deletes rows of a table that belong to a node.
pub(crate) async fn delete_where(
    conn: &mut Conn,
    table: &'static str,
    column: &'static str,
    id: i64,
) -> Result<(), Fault> {
    let delete = Query::delete().from_table(table).and_where(Expr::col(column).eq(id)).take();
    conn.execute(conn.engine().build(&delete)).await.map(drop)
}

/// The row's number.
pub(crate) fn id(row: &NodeRow) -> i64 {
    row.int(NodeColumn::Id).unwrap_or_default()
}

/// Which value is taken, when a statement failed because one is.
pub(crate) fn conflict(fault: &Fault, fields: &NodePatch) -> Option<Conflict> {
    let Class::Unique(words) = &fault.class else { return None };
    let (column, _) = [
        (NodeColumn::Uuid, ["uniq_nodes0uuid", "nodes.uuid"]),
        (NodeColumn::Name, ["uniq_nodes0name", "nodes.name"]),
        (NodeColumn::InstanceUuid, ["uniq_nodes0instance_uuid", "nodes.instance_uuid"]),
    ]
    .into_iter()
    .find(|(_, names)| names.contains(&words.as_str()))?;
    let value = match fields.get(column) {
        Some(Cell::Text(text)) => text.clone(),
        _ => String::new(),
    };
    Some(Conflict { column, value })
}

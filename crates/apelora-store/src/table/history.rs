//! `node_history`, and beside it who may read the author of a record.

use std::collections::HashMap;

use apelora_maintenance::{HistoryEvent, Scope};
use sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use time::PrimitiveDateTime;

use super::page::{Position, SortKey, page};
use super::{CHUNK, Reader};
use crate::engine::{Class, Conn, Fault};
use crate::{Cell, HistoryColumn, HistoryQuery, HistoryRecord, Kind};

const TABLE: &str = "node_history";
const AUTHORS: &str = "apelora_history_author";
/// The version of the object that the reference writes beside each row; it cannot list rows without one.
const VERSION: &str = "1.3";

const COLUMNS: [(&str, Kind); 12] = [
    ("uuid", Kind::Text),
    ("created_at", Kind::Time),
    ("updated_at", Kind::Time),
    ("conductor", Kind::Text),
    ("event_type", Kind::Text),
    ("severity", Kind::Text),
    ("event", Kind::Text),
    ("user", Kind::Text),
    ("project", Kind::Text),
    ("state", Kind::Text),
    ("target_provision_state", Kind::Text),
    ("duration_seconds", Kind::Int),
];

/// Adds records to a node's history.
pub(crate) async fn insert(conn: &mut Conn, node_id: i64, events: &[HistoryEvent]) -> Result<(), Fault> {
    let engine = conn.engine();
    for events in events.chunks(CHUNK) {
        let mut records = Query::insert();
        records.into_table(TABLE).columns([
            "uuid",
            "node_id",
            "conductor",
            "event_type",
            "severity",
            "event",
            "user",
            "project",
            "state",
            "target_provision_state",
            "duration_seconds",
            "version",
            "created_at",
        ]);
        let mut authors = Query::insert();
        authors.into_table(AUTHORS).columns(["history_uuid", "node_id", "visible_from"]);
        for e in events {
            records
                .values([
                    e.uuid.to_string().into(),
                    node_id.into(),
                    e.conductor.clone().into(),
                    HistoryEvent::EVENT_TYPE.into(),
                    HistoryEvent::SEVERITY.into(),
                    e.event.clone().into(),
                    e.user.clone().into(),
                    e.project.clone().into(),
                    e.state.clone().into(),
                    e.target_provision_state.clone().into(),
                    e.duration_seconds.into(),
                    VERSION.into(),
                    e.at.into(),
                ])
                .map_err(|e| Fault::new(Class::Other, e))?;
            authors
                .values([e.uuid.to_string().into(), node_id.into(), e.author_visible_from.as_str().into()])
                .map_err(|e| Fault::new(Class::Other, e))?;
        }
        conn.execute(engine.build(&records)).await?;
        conn.execute(engine.build(&authors)).await?;
    }
    Ok(())
}

fn select(node_id: i64) -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE).and_where(Expr::col("node_id").eq(node_id));
    select
}

async fn records(conn: &mut Conn, select: &SelectStatement) -> Result<Vec<HistoryRecord>, Fault> {
    let rows = conn.fetch(conn.engine().build(select), &COLUMNS.map(|(_, kind)| kind)).await?;
    let mut records = rows
        .into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok(HistoryRecord {
                uuid: row.text()?,
                created_at: row.opt_time(),
                updated_at: row.opt_time(),
                conductor: row.opt_text(),
                event_type: row.opt_text(),
                severity: row.opt_text(),
                event: row.opt_text(),
                user: row.opt_text(),
                project: row.opt_text(),
                state: row.opt_text(),
                target_provision_state: row.opt_text(),
                duration_seconds: row.opt_int(),
                author_visible_from: None,
            })
        })
        .collect::<Result<Vec<_>, Fault>>()?;
    let authors = authors(conn, &records).await?;
    for record in &mut records {
        record.author_visible_from = authors.get(&record.uuid).copied();
    }
    Ok(records)
}

/// Not a join: in an adopted database the two columns differ in character set.
async fn authors(conn: &mut Conn, records: &[HistoryRecord]) -> Result<HashMap<String, Scope>, Fault> {
    let mut authors = HashMap::new();
    for records in records.chunks(CHUNK) {
        let select = Query::select()
            .columns(["history_uuid", "visible_from"])
            .from(AUTHORS)
            .and_where(Expr::col("history_uuid").is_in(records.iter().map(|r| r.uuid.clone())))
            .take();
        for row in conn.fetch(conn.engine().build(&select), &[Kind::Text, Kind::Text]).await? {
            let mut row = Reader::new(AUTHORS, row);
            authors.insert(row.text()?, row.scope()?);
        }
    }
    Ok(authors)
}

/// A page of a node's history; `None` when the marker names no record of it.
pub(crate) async fn list(
    conn: &mut Conn,
    node_id: i64,
    query: &HistoryQuery,
) -> Result<Option<Vec<HistoryRecord>>, Fault> {
    let (column, direction) = query.sort;
    let kind = match column {
        HistoryColumn::Id | HistoryColumn::DurationSeconds => Kind::Int,
        HistoryColumn::CreatedAt | HistoryColumn::UpdatedAt => Kind::Time,
        _ => Kind::Text,
    };
    let nullable = !matches!(column, HistoryColumn::Id | HistoryColumn::Uuid);
    let sort = SortKey { column: column.name(), kind, nullable, direction };
    let after = match &query.marker {
        None => None,
        Some(uuid) => {
            let select = Query::select()
                .columns(["id", column.name()])
                .from(TABLE)
                .and_where(Expr::col("node_id").eq(node_id))
                .and_where(Expr::col("uuid").eq(uuid.as_str()))
                .take();
            let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int, kind]).await?;
            let Some([Cell::Int(id), key]) = rows.first().map(Vec::as_slice) else { return Ok(None) };
            Some(Position { id: *id, key: key.clone() })
        }
    };
    let mut select = select(node_id);
    page(conn.engine(), &mut select, sort, after.as_ref(), query.limit);
    records(conn, &select).await.map(Some)
}

/// One record of a node's history.
pub(crate) async fn read(conn: &mut Conn, node_id: i64, uuid: &str) -> Result<Option<HistoryRecord>, Fault> {
    let select = select(node_id).and_where(Expr::col("uuid").eq(uuid)).take();
    Ok(records(conn, &select).await?.pop())
}

/// Nodes with more than `max` records, and how many more.
pub(crate) async fn overfull(conn: &mut Conn, max: u32) -> Result<Vec<(i64, i64)>, Fault> {
    let max = i64::from(max);
    let select = Query::select()
        .column("node_id")
        .expr(Expr::col("id").count())
        .from(TABLE)
        .and_where(Expr::col("node_id").is_not_null())
        .group_by_col("node_id")
        .and_having(Expr::col("id").count().gt(max))
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int, Kind::Int]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok((row.int()?, row.int()? - max))
        })
        .collect()
}

/// The oldest records of a node that were made before `before`, at most `limit` of them.
pub(crate) async fn oldest(
    conn: &mut Conn,
    node_id: i64,
    before: PrimitiveDateTime,
    limit: u64,
) -> Result<Vec<(i64, String)>, Fault> {
    let select = Query::select()
        .columns(["id", "uuid"])
        .from(TABLE)
        .and_where(Expr::col("node_id").eq(node_id))
        .and_where(Expr::col("created_at").lt(before))
        .order_by("created_at", Order::Asc)
        .order_by("id", Order::Asc)
        .limit(limit)
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int, Kind::Text]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok((row.int()?, row.text()?))
        })
        .collect()
}

/// Deletes records and what is beside them.
pub(crate) async fn delete(conn: &mut Conn, records: &[(i64, String)]) -> Result<u64, Fault> {
    let engine = conn.engine();
    let mut deleted = 0;
    for records in records.chunks(CHUNK) {
        let authors = Query::delete()
            .from_table(AUTHORS)
            .and_where(Expr::col("history_uuid").is_in(records.iter().map(|(_, uuid)| uuid.clone())))
            .take();
        conn.execute(engine.build(&authors)).await?;
        let history = Query::delete()
            .from_table(TABLE)
            .and_where(Expr::col("id").is_in(records.iter().map(|(id, _)| *id)))
            .take();
        deleted += conn.execute(engine.build(&history)).await?;
    }
    Ok(deleted)
}

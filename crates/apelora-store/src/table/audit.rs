//! `apelora_audit`: append-only.

use apelora_maintenance::{AuditEvent, json};
use sea_query::{Expr, ExprTrait, Query, SelectStatement};
use time::PrimitiveDateTime;
use uuid::Uuid;

use super::{CHUNK, Reader};
use crate::engine::{Class, Conn, Fault, beyond};
use crate::{AuditQuery, AuditRecord, Engine, Kind};

const TABLE: &str = "apelora_audit";

const COLUMNS: [(&str, Kind); 16] = [
    ("seq", Kind::Int),
    ("uuid", Kind::Text),
    ("at", Kind::Time),
    ("user", Kind::Text),
    ("project", Kind::Text),
    ("scope", Kind::Text),
    ("epoch", Kind::Int),
    ("action", Kind::Text),
    ("outcome", Kind::Text),
    ("reason_code", Kind::Text),
    ("node_uuid", Kind::Text),
    ("node_name", Kind::Text),
    ("member", Kind::Text),
    ("hardware_uuid", Kind::Text),
    ("summary", Kind::Text),
    ("evidence", Kind::Json),
];

/// A row to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) uuid: Uuid,
    pub(crate) at: PrimitiveDateTime,
    pub(crate) user: String,
    pub(crate) project: String,
    pub(crate) scope: &'static str,
    pub(crate) epoch: Option<i64>,
    pub(crate) action: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) reason_code: Option<&'static str>,
    pub(crate) node_uuid: Option<String>,
    pub(crate) node_name: Option<String>,
    pub(crate) member: Option<String>,
    pub(crate) hardware_uuid: Option<String>,
    pub(crate) summary: String,
    pub(crate) evidence: String,
}

/// Adds rows for changes of entries that were made.
pub(crate) async fn insert(conn: &mut Conn, events: &[AuditEvent]) -> Result<(), Fault> {
    let row = |e: &AuditEvent| {
        Ok(Row {
            uuid: e.uuid,
            at: e.at,
            user: e.actor.user.clone(),
            project: e.actor.project.clone(),
            scope: e.actor.scope.map_or("", |scope| scope.as_str()),
            epoch: None,
            action: e.action.as_str(),
            outcome: "success",
            reason_code: None,
            node_uuid: Some(e.node_uuid.clone()),
            node_name: e.node_name.clone(),
            member: None,
            hardware_uuid: None,
            summary: e.summary.clone(),
            evidence: json::to_string(&e.evidence).map_err(|e| Fault::new(Class::Other, e))?,
        })
    };
    let rows = events.iter().map(row).collect::<Result<Vec<_>, Fault>>()?;
    insert_rows(conn, rows).await
}

/// Adds rows.
pub(crate) async fn insert_rows(conn: &mut Conn, rows: Vec<Row>) -> Result<(), Fault> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let mut insert = Query::insert();
        insert.into_table(TABLE).columns(COLUMNS.map(|(name, _)| name).into_iter().skip(1));
        for row in rows.by_ref().take(CHUNK) {
            insert
                .values([
                    row.uuid.to_string().into(),
                    row.at.into(),
                    row.user.into(),
                    row.project.into(),
                    row.scope.into(),
                    row.epoch.into(),
                    row.action.into(),
                    row.outcome.into(),
                    row.reason_code.map(str::to_owned).into(),
                    row.node_uuid.into(),
                    row.node_name.into(),
                    row.member.into(),
                    row.hardware_uuid.into(),
                    row.summary.into(),
                    row.evidence.into(),
                ])
                .map_err(|e| Fault::new(Class::Other, e))?;
        }
        conn.execute(conn.engine().build(&insert)).await?;
    }
    Ok(())
}

/// The statement for a page of the trail.
fn page_of(engine: Engine, query: &AuditQuery) -> SelectStatement {
    let AuditQuery {
        node_uuid,
        node_name,
        member,
        action,
        outcome,
        user,
        from,
        until,
        direction,
        after,
        limit,
    } = query;
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    // Each has an index with the row number behind it. The page goes along the first one's; what usually finds the fewest
    // rows comes first, and nearly everything is a success.
    let mut filters = [
        ("node_uuid", node_uuid),
        ("node_name", node_name),
        ("member", member),
        ("user", user),
        ("action", action),
        ("outcome", outcome),
    ]
    .into_iter()
    .filter_map(|(column, wanted)| Some((column, wanted.as_deref()?)));
    if let Some((column, wanted)) = filters.next() {
        engine.along(&mut select, column, wanted, *direction);
    }
    for (column, wanted) in filters {
        select.and_where(engine.beside(column, wanted));
    }
    select.and_where_option(from.map(|from| Expr::col("at").gte(from)));
    select.and_where_option(until.map(|until| Expr::col("at").lt(until)));
    select.and_where_option(after.map(|after| beyond("seq", *direction, after)));
    engine.order(&mut select, "seq", *direction, false);
    select.limit(u64::from(*limit)).take()
}

/// How the database would answer for this page.
pub(crate) async fn explain(conn: &mut Conn, query: &AuditQuery) -> Result<String, Fault> {
    let sql = conn.engine().build(&page_of(conn.engine(), query));
    super::explain(conn, sql).await
}

/// A page of the trail.
pub(crate) async fn list(conn: &mut Conn, query: &AuditQuery) -> Result<Vec<AuditRecord>, Fault> {
    let select = page_of(conn.engine(), query);
    let rows = conn.fetch(conn.engine().build(&select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok(AuditRecord {
                seq: row.int()?,
                uuid: row.text()?,
                at: row.time()?,
                user: row.text()?,
                project: row.text()?,
                scope: row.text()?,
                epoch: row.opt_int(),
                action: row.text()?,
                outcome: row.text()?,
                reason_code: row.opt_text(),
                node_uuid: row.opt_text(),
                node_name: row.opt_text(),
                member: row.opt_text(),
                hardware_uuid: row.opt_text(),
                summary: row.text()?,
                evidence: row.text()?,
            })
        })
        .collect()
}

/// Deletes rows that were written before this time, at most about `limit` of them; the number deleted.
pub(crate) async fn delete_before(
    conn: &mut Conn,
    before: PrimitiveDateTime,
    limit: u64,
) -> Result<u64, Fault> {
    super::delete_oldest(conn, TABLE, before, limit).await
}

//! `apelora_audit`: append-only.

use apelora_maintenance::{AuditEvent, json};
use sea_query::{Expr, ExprTrait, Query};
use time::PrimitiveDateTime;

use super::{CHUNK, Reader};
use crate::engine::{Class, Conn, Fault, beyond};
use crate::{AuditQuery, AuditRecord, Direction, Kind};

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

/// Adds rows for changes that were made.
pub(crate) async fn insert(conn: &mut Conn, events: &[AuditEvent]) -> Result<(), Fault> {
    for events in events.chunks(CHUNK) {
        let mut insert = Query::insert();
        insert.into_table(TABLE).columns([
            "uuid",
            "at",
            "user",
            "project",
            "scope",
            "action",
            "outcome",
            "node_uuid",
            "node_name",
            "summary",
            "evidence",
        ]);
        for e in events {
            let evidence = json::to_string(&e.evidence).map_err(|e| Fault::new(Class::Other, e))?;
            insert
                .values([
                    e.uuid.to_string().into(),
                    e.at.into(),
                    e.actor.user.clone().into(),
                    e.actor.project.clone().into(),
                    e.actor.scope.map_or("", |scope| scope.as_str()).into(),
                    e.action.as_str().into(),
                    "success".into(),
                    e.node_uuid.clone().into(),
                    e.node_name.clone().into(),
                    e.summary.clone().into(),
                    evidence.into(),
                ])
                .map_err(|e| Fault::new(Class::Other, e))?;
        }
        conn.execute(conn.engine().build(&insert)).await?;
    }
    Ok(())
}

/// Rows of the trail, in the order that is asked for.
pub(crate) async fn list(conn: &mut Conn, query: &AuditQuery) -> Result<Vec<AuditRecord>, Fault> {
    let AuditQuery {
        node_uuid,
        node_name,
        member,
        action,
        outcome,
        user,
        from,
        until,
        after,
        newest_first,
        limit,
    } = query;
    let direction = if *newest_first { Direction::Descending } else { Direction::Ascending };
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    for (column, wanted) in [
        ("node_uuid", node_uuid),
        ("node_name", node_name),
        ("member", member),
        ("action", action),
        ("outcome", outcome),
        ("user", user),
    ] {
        select.and_where_option(wanted.as_deref().map(|wanted| Expr::col(column).eq(wanted)));
    }
    select.and_where_option(from.map(|from| Expr::col("at").gte(from)));
    select.and_where_option(until.map(|until| Expr::col("at").lt(until)));
    select.and_where_option(after.map(|after| beyond("seq", direction, after)));
    conn.engine().order(&mut select, "seq", direction, false);
    select.limit(u64::from(*limit));
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

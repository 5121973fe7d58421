//! `apelora_change`: what changed, for other processes, and the ids that say whether a commit was kept.

use sea_query::{Expr, ExprTrait, Query};
use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::Kind;
use crate::engine::{Class, Conn, Fault};

const TABLE: &str = "apelora_change";

/// A node was made, changed or removed; the subject is its uuid.
pub(crate) const NODE: &str = "node";
/// A batch of a backfill; the subject is empty, and each of its nodes has a row of its own.
pub(crate) const BACKFILL: &str = "backfill";

/// Something about a cluster member changed; the subject is its name.
pub(crate) const MEMBER: &str = "member";

/// Writes that this change happened.
pub(crate) async fn insert(
    conn: &mut Conn,
    change: Uuid,
    kind: &'static str,
    subject: &str,
    at: PrimitiveDateTime,
) -> Result<(), Fault> {
    let mut insert = Query::insert();
    insert.into_table(TABLE).columns(["change_id", "kind", "subject", "at"]);
    insert
        .values([change.to_string().into(), kind.into(), subject.into(), at.into()])
        .map_err(|e| Fault::new(Class::Other, e))?;
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

/// Whether this change was kept.
pub(crate) async fn exists(conn: &mut Conn, change: Uuid) -> Result<bool, Fault> {
    let select = Query::select()
        .column("seq")
        .from(TABLE)
        .and_where(Expr::col("change_id").eq(change.to_string()))
        .take();
    Ok(!conn.fetch(conn.engine().build(&select), &[Kind::Int]).await?.is_empty())
}

/// Deletes rows that were written before this time, at most about `limit` of them; the number deleted.
pub(crate) async fn delete_before(
    conn: &mut Conn,
    before: PrimitiveDateTime,
    limit: u64,
) -> Result<u64, Fault> {
    super::delete_oldest(conn, TABLE, before, limit).await
}

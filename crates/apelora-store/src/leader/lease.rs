//! The leader lease's row. Its end is computed and compared by the database, in the statement.

use std::time::Duration;

use apelora_fencing::name::{Epoch, HolderId};
use sea_query::{Expr, ExprTrait, Query};
use uuid::Uuid;

use super::LeaseState;
use super::tx::{Fenced, LEASE};
use crate::Kind;
use crate::engine::clock::micros;
use crate::engine::{Conn, DbTime, Fault};
use crate::schema::LEASE_NAME;
use crate::table::Reader;

/// Takes the lease if it has ended; the new epoch.
///
/// `epoch` grows on every change of the holder and on every fresh acquisition, also by the same process.
pub(super) async fn take(
    conn: &mut Conn,
    me: HolderId,
    host: &str,
    ttl: Duration,
    offset: i64,
) -> Result<Option<Epoch>, Fault> {
    let engine = conn.engine();
    let update = Query::update()
        .table(LEASE)
        .value("holder", me.0.to_string())
        .value("host", host)
        .value("epoch", Expr::col("epoch").add(1))
        .value("expires_at", engine.now(offset).add(micros(ttl)))
        .value("renewed_at", engine.now(offset))
        .value("touched", Expr::col("touched").add(1))
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .and_where(Expr::col("expires_at").lt(engine.now(offset)))
        .take();
    if conn.execute(engine.build(&update)).await? != 1 {
        return Ok(None);
    }
    Ok(Some(read(conn, offset).await?.epoch))
}

/// Prolongs the lease, in a transaction that touched it.
pub(super) async fn prolong(tx: &mut Fenced, ttl: Duration, offset: i64) -> Result<u64, Fault> {
    let engine = tx.conn().engine();
    let update = Query::update()
        .table(LEASE)
        .value("expires_at", engine.now(offset).add(micros(ttl)))
        .value("renewed_at", engine.now(offset))
        .value("touched", Expr::col("touched").add(1))
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .and_where(Expr::col("expires_at").gt(engine.now(offset)))
        .take();
    tx.conn().execute(engine.build(&update)).await
}

/// Ends the lease now, in a transaction that touched it. Holder and epoch stay.
pub(super) async fn end(tx: &mut Fenced) -> Result<(), Fault> {
    let now = tx.now();
    let update = Query::update()
        .table(LEASE)
        .value("expires_at", now.0)
        .value("touched", Expr::col("touched").add(1))
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .take();
    let engine = tx.conn().engine();
    tx.conn().execute(engine.build(&update)).await.map(drop)
}

/// Takes the lease from whoever has it, for nobody: the next one may take it at once.
pub(super) async fn oust(conn: &mut Conn) -> Result<(), Fault> {
    let update = Query::update()
        .table(LEASE)
        .value("holder", None::<String>)
        .value("epoch", Expr::col("epoch").add(1))
        .value("expires_at", 0_i64)
        .value("touched", Expr::col("touched").add(1))
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .take();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// Reads the row.
pub(super) async fn read(conn: &mut Conn, offset: i64) -> Result<LeaseState, Fault> {
    let engine = conn.engine();
    let select = Query::select()
        .expr(engine.now(offset))
        .columns(["holder", "host", "epoch", "expires_at"])
        .from(LEASE)
        .and_where(Expr::col("name").eq(LEASE_NAME))
        .take();
    let kinds = [Kind::Int, Kind::Text, Kind::Text, Kind::Int, Kind::Int];
    let rows = conn.fetch(engine.build(&select), &kinds).await?;
    let row = rows.into_iter().next().ok_or_else(|| Fault::corrupt(format!("{LEASE} has no row")))?;
    let mut row = Reader::new(LEASE, row);
    let now = DbTime(row.int()?);
    let holder = row.opt_text();
    let host = row.text()?;
    let epoch = Epoch(u64::try_from(row.int()?).unwrap_or(0));
    let left = DbTime(row.int()?).since(now);
    let holder = holder
        .map(|text| {
            Uuid::parse_str(&text).map_err(|e| Fault::corrupt(format!("{LEASE}: holder '{text}': {e}")))
        })
        .transpose()?;
    let expires_in = (!left.is_zero()).then_some(left);
    Ok(LeaseState { holder: holder.map(HolderId), host, epoch, expires_in })
}

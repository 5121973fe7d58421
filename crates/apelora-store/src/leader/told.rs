//! Three small tables of what the leader tells: `apelora_leader_status`, `apelora_bmc_check`, `apelora_history_gap`.

use std::collections::BTreeMap;

use apelora_fencing::name::{Epoch, HolderId, MemberName};
use apelora_fencing::write::{Check, Found};
use sea_query::{Expr, ExprTrait, OnConflict, Query};
use uuid::Uuid;

use super::tx::{Fenced, number};
use super::{StatusRow, StoredCheck};
use crate::Kind;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::table::Reader;

const STATUS: &str = "apelora_leader_status";
const CHECK: &str = "apelora_bmc_check";
const GAP: &str = "apelora_history_gap";

/// Puts the document in place of the one before.
pub(super) async fn publish(
    tx: &mut Fenced,
    (epoch, holder): (Epoch, HolderId),
    document: &str,
) -> Result<(), Fault> {
    let update = Query::update()
        .table(STATUS)
        .value("holder", holder.0.to_string())
        .value("epoch", number(epoch.0))
        .value("at", tx.now().0)
        .value("document", document)
        .and_where(Expr::col("id").eq(1))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// The document, unless there was none yet.
pub(super) async fn status(conn: &mut Conn, offset: i64) -> Result<Option<StatusRow>, Fault> {
    let engine = conn.engine();
    let select = Query::select()
        .expr(engine.now(offset))
        .columns(["holder", "epoch", "at", "document"])
        .from(STATUS)
        .and_where(Expr::col("id").eq(1))
        .and_where(Expr::col("epoch").gt(0))
        .take();
    let kinds = [Kind::Int, Kind::Text, Kind::Int, Kind::Int, Kind::Text];
    let Some(row) = conn.fetch(engine.build(&select), &kinds).await?.into_iter().next() else {
        return Ok(None);
    };
    let mut row = Reader::new(STATUS, row);
    let now = DbTime(row.int()?);
    let holder: Uuid = row.uuid()?;
    let epoch = Epoch(row.count()?);
    let age = now.since(DbTime(row.int()?));
    Ok(Some(StatusRow { age, holder: HolderId(holder), epoch, text: row.text()? }))
}

/// The word of a finding.
pub(super) const fn found_word(found: Found) -> &'static str {
    match found {
        Found::Good => "good",
        Found::Bad(_) => "bad",
        Found::Contradiction => "contradiction",
    }
}

/// Stores the latest result of a drill.
pub(super) async fn note_check(tx: &mut Fenced, check: &Check) -> Result<(), Fault> {
    let reason = match check.found {
        Found::Bad(reason) => Some(reason.as_str()),
        Found::Good | Found::Contradiction => None,
    };
    let mut insert = Query::insert();
    insert
        .into_table(CHECK)
        .columns(["member", "found", "reason_code", "at"])
        .on_conflict(OnConflict::column("member").update_columns(["found", "reason_code", "at"]).to_owned());
    insert
        .values([
            check.member.as_str().into(),
            found_word(check.found).into(),
            reason.map(str::to_owned).into(),
            tx.now().0.into(),
        ])
        .map_err(|e| Fault::new(Class::Other, e))?;
    let conn = tx.conn();
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

/// The latest results of the drill.
pub(super) async fn checks(conn: &mut Conn, now: DbTime) -> Result<BTreeMap<MemberName, StoredCheck>, Fault> {
    let select = Query::select().columns(["member", "found", "reason_code", "at"]).from(CHECK).take();
    let kinds = [Kind::Text, Kind::Text, Kind::Text, Kind::Int];
    let rows = conn.fetch(conn.engine().build(&select), &kinds).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(CHECK, row);
            let member = MemberName::from(row.text()?.as_str());
            let (found, reason) = (row.text()?, row.opt_text());
            Ok((member, StoredCheck { found, reason, age: now.since(DbTime(row.int()?)) }))
        })
        .collect()
}

/// When the database was last restored or lost commits.
pub(super) async fn gap(conn: &mut Conn) -> Result<Option<DbTime>, Fault> {
    let select = Query::select().column("at").from(GAP).and_where(Expr::col("id").eq(1)).take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int]).await?;
    Ok(rows.into_iter().next().and_then(|row| Reader::new(GAP, row).opt_int()).map(DbTime))
}

/// Notes that it was just now. Anybody may: it can only keep the leader from sending.
pub(super) async fn note_gap(conn: &mut Conn, offset: i64) -> Result<(), Fault> {
    let engine = conn.engine();
    let update =
        Query::update().table(GAP).value("at", engine.now(offset)).and_where(Expr::col("id").eq(1)).take();
    conn.execute(engine.build(&update)).await.map(drop)
}

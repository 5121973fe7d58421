//! `apelora_pin`: whether the last start was pinned to an older microversion, and whether a backfill is due.
//!
//! Counted, not flagged: a backfill that began before the pin was lifted does not count for the one that is wanted
//! after it.

use sea_query::{Expr, ExprTrait, LockType, Query};

use super::Reader;
use crate::Kind;
use crate::engine::{Conn, Fault};

const TABLE: &str = "apelora_pin";

/// The row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) pinned: bool,
    pub(crate) wanted: i64,
    pub(crate) done: i64,
}

impl Pin {
    /// Whether a backfill is due.
    pub(crate) fn is_due(self) -> bool {
        self.done < self.wanted
    }
}

/// Reads the row, in a transaction under its lock.
pub(crate) async fn lock(conn: &mut Conn) -> Result<Pin, Fault> {
    let select = Query::select()
        .columns(["pinned", "backfills_wanted", "backfills_done"])
        .from(TABLE)
        .and_where(Expr::col("id").eq(1))
        .lock(LockType::Update)
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Bool, Kind::Int, Kind::Int]).await?;
    let row = rows.into_iter().next().ok_or_else(|| Fault::corrupt(format!("{TABLE} has no row")))?;
    let mut row = Reader::new(TABLE, row);
    Ok(Pin { pinned: row.bool(), wanted: row.int()?, done: row.int()? })
}

/// Writes the row.
pub(crate) async fn write(conn: &mut Conn, pin: Pin) -> Result<(), Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("pinned", pin.pinned)
        .value("backfills_wanted", pin.wanted)
        .value("backfills_done", pin.done)
        .and_where(Expr::col("id").eq(1))
        .take();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

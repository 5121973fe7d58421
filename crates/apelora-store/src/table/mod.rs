//! One module for each table: its statements and its rows.

pub(crate) mod audit;
pub(crate) mod change;
pub(crate) mod entry;
pub(crate) mod history;
pub(crate) mod node;
pub(crate) mod page;
pub(crate) mod pin;
mod read;

pub(crate) use read::Reader;

use sea_query::{Expr, ExprTrait, Order, Query};
use time::PrimitiveDateTime;

use crate::Kind;
use crate::engine::{Conn, Fault};

/// The most rows in one INSERT and the most values in one IN: SQLite takes 32,766 values in a statement.
pub(crate) const CHUNK: usize = 500;

/// Deletes rows of a table with `seq` and `at` that were written before this time; at most `limit`, oldest first.
async fn delete_oldest(
    conn: &mut Conn,
    table: &'static str,
    before: PrimitiveDateTime,
    limit: u64,
) -> Result<u64, Fault> {
    let select = Query::select()
        .column("seq")
        .from(table)
        .and_where(Expr::col("at").lt(before))
        .order_by("at", Order::Asc)
        .limit(limit)
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int]).await?;
    let seqs: Vec<i64> =
        rows.into_iter().map(|row| Reader::new(table, row).int()).collect::<Result<_, _>>()?;
    let mut deleted = 0;
    for seqs in seqs.chunks(CHUNK) {
        let delete =
            Query::delete().from_table(table).and_where(Expr::col("seq").is_in(seqs.iter().copied())).take();
        deleted += conn.execute(conn.engine().build(&delete)).await?;
    }
    Ok(deleted)
}

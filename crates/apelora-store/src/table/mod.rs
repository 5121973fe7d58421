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

use crate::engine::{Conn, Fault, Sql};
use crate::{Cell, Engine, Kind};

/// The most rows in one INSERT and the most values in one IN: SQLite takes 32,766 values in a statement.
pub(crate) const CHUNK: usize = 500;

/// How the database would answer this, in its own words.
async fn explain(conn: &mut Conn, mut sql: Sql) -> Result<String, Fault> {
    let (word, kinds): (_, &[Kind]) = match conn.engine() {
        Engine::Sqlite => ("EXPLAIN QUERY PLAN", &[Kind::Int, Kind::Int, Kind::Int, Kind::Text]),
        Engine::Postgres => ("EXPLAIN", &[Kind::Text]),
        Engine::MariaDb => ("EXPLAIN FORMAT=JSON", &[Kind::Text]),
    };
    sql.text = format!("{word} {}", sql.text);
    let rows = conn.fetch(sql, kinds).await?;
    let lines = rows.into_iter().filter_map(|mut row| match row.pop() {
        Some(Cell::Text(line)) => Some(line),
        _ => None,
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

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

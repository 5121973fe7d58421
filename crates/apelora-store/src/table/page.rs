//! Pages of rows in the order `(sort column, row number)`, from a marker on.
//!
//! Nulls come before every value when ascending and after every value when descending, on every engine; equal sort keys
//! are ordered by row number in the same direction.

use sea_query::{Cond, Expr, ExprTrait, SelectStatement};

use crate::engine::{beyond, value};
use crate::{Cell, Direction, Engine, Kind};

/// The column to sort by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SortKey {
    pub(crate) column: &'static str,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
    pub(crate) direction: Direction,
}

/// Where the page before ended.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    pub(crate) id: i64,
    pub(crate) key: Cell,
}

/// Orders the select, and cuts off everything up to the position.
pub(crate) fn page(
    engine: Engine,
    select: &mut SelectStatement,
    sort: SortKey,
    after: Option<&Position>,
    limit: u32,
) {
    let SortKey { column, kind, nullable, direction } = sort;
    if let Some(Position { id, key }) = after {
        let later_row = beyond("id", direction, *id);
        select.cond_where(match (column, key) {
            ("id", _) => Cond::all().add(later_row),
            (_, Cell::Null) => {
                let among_nulls = Cond::all().add(Expr::col(column).is_null()).add(later_row);
                match direction {
                    Direction::Ascending => Cond::any().add(among_nulls).add(Expr::col(column).is_not_null()),
                    Direction::Descending => Cond::any().add(among_nulls),
                }
            }
            (_, key) => {
                let among_equals = Cond::all().add(Expr::col(column).eq(value(key, kind))).add(later_row);
                let later = Cond::any().add(beyond(column, direction, value(key, kind))).add(among_equals);
                match direction {
                    Direction::Descending if nullable => later.add(Expr::col(column).is_null()),
                    _ => later,
                }
            }
        });
    }
    if column != "id" {
        engine.order(select, column, direction, nullable);
    }
    engine.order(select, "id", direction, false);
    select.limit(u64::from(limit));
}

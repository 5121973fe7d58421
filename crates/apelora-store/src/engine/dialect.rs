//! Words that differ between the engines.

use sea_query::{Expr, ExprTrait, NullOrdering, Order, SelectStatement, SimpleExpr};

use crate::column::SqlType;
use crate::{Direction, Engine};

/// The character that takes the meaning from `%` and `_`. Not a backslash, which the engines read differently.
const ESCAPE: char = '!';

impl Engine {
    /// The column's text contains this one, regardless of the case of ASCII letters, as the reference's default
    /// collations have it.
    pub(crate) fn contains(self, column: &'static str, part: &str) -> SimpleExpr {
        let mut pattern = String::from("%");
        for c in part.chars() {
            if matches!(c, '%' | '_' | ESCAPE) {
                pattern.push(ESCAPE);
            }
            pattern.push(c);
        }
        pattern.push('%');
        let text = match self {
            Self::Sqlite => format!(r#""{column}" LIKE ? ESCAPE '{ESCAPE}'"#),
            Self::Postgres => format!(r#""{column}" ILIKE $1 ESCAPE '{ESCAPE}'"#),
            Self::MariaDb => {
                format!(
                    "CONVERT(`{column}` USING utf8mb4) COLLATE utf8mb4_general_ci LIKE ? ESCAPE '{ESCAPE}'"
                )
            }
        };
        Expr::cust_with_values(text, [pattern])
    }

    /// Orders by a column; nulls come before every value when ascending, on every engine.
    pub(crate) fn order(
        self,
        select: &mut SelectStatement,
        column: &'static str,
        direction: Direction,
        nullable: bool,
    ) {
        let (order, nulls) = match direction {
            Direction::Ascending => (Order::Asc, NullOrdering::First),
            Direction::Descending => (Order::Desc, NullOrdering::Last),
        };
        if nullable && self == Self::Postgres {
            select.order_by_with_nulls(column, order, nulls);
        } else {
            select.order_by(column, order);
        }
    }

    /// Only rows whose column has this value, for a page in the order of row numbers, along the index of the column and the
    /// row number.
    ///
    /// PostgreSQL and MariaDB would often rather go along the row numbers and pass over the rows of others, because they
    /// take the values of a column to be spread evenly; those are all rows if the value has not occurred for long. They
    /// are asked for a range of one value: then they do not know that the order of both columns is that of the row
    /// numbers alone. SQLite goes along the index by itself, and looks for the row number in it only beside one value.
    pub(crate) fn along(
        self,
        select: &mut SelectStatement,
        column: &'static str,
        wanted: &str,
        direction: Direction,
    ) {
        let col = || Expr::col(column);
        match self {
            Self::Sqlite => select.and_where(col().eq(wanted)),
            Self::Postgres | Self::MariaDb => {
                self.order(select, column, direction, false);
                select.and_where(col().gte(wanted)).and_where(col().lte(wanted))
            }
        };
    }

    /// Only rows whose column has this value, beside a condition that finds fewer.
    ///
    /// SQLite knows no figures of the tables and takes any index to be as good as another: it is kept off this one's.
    pub(crate) fn beside(self, column: &'static str, wanted: &str) -> SimpleExpr {
        match self {
            Self::Sqlite => Expr::cust_with_values(format!(r#"+"{column}" = ?"#), [wanted]),
            Self::Postgres | Self::MariaDb => Expr::col(column).eq(wanted),
        }
    }

    /// The word for a type of the reference's tables; on MariaDB the character set is the table's.
    pub(crate) fn type_word(self, sql_type: SqlType) -> String {
        use SqlType::{BigInt, Bool, DateTime, Int, JsonLongText, JsonText, LongText, Text, Varchar};
        match (self, sql_type) {
            (Self::MariaDb, Int) => "INT".to_owned(),
            (Self::Sqlite | Self::Postgres, Int) | (Self::Sqlite, BigInt) => "INTEGER".to_owned(),
            (_, BigInt) => "BIGINT".to_owned(),
            // Compared and ordered by code point, as on the other engines.
            (Self::Postgres, Varchar(n)) => format!("VARCHAR({n}) COLLATE \"C\""),
            (Self::Postgres, Text | LongText | JsonText | JsonLongText) => "TEXT COLLATE \"C\"".to_owned(),
            (_, Varchar(n)) => format!("VARCHAR({n})"),
            (Self::MariaDb, LongText | JsonLongText) => "LONGTEXT".to_owned(),
            (_, Text | LongText | JsonText | JsonLongText) => "TEXT".to_owned(),
            (Self::MariaDb, Bool) => "TINYINT(1)".to_owned(),
            (_, Bool) => "BOOLEAN".to_owned(),
            (Self::Postgres, DateTime) => "TIMESTAMP WITHOUT TIME ZONE".to_owned(),
            (_, DateTime) => "DATETIME".to_owned(),
        }
    }
}

/// The comparison that comes after a marker in this direction.
pub(crate) fn beyond(column: &'static str, direction: Direction, value: impl Into<SimpleExpr>) -> SimpleExpr {
    match direction {
        Direction::Ascending => Expr::col(column).gt(value),
        Direction::Descending => Expr::col(column).lt(value),
    }
}

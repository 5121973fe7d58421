//! Values into statements and out of rows, for each driver.

use sea_query::Value;
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, Column, Row, TypeInfo};
use time::format_description::StaticFormatDescription;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::{Class, Fault};
use crate::{Cell, Kind};

/// As SQLAlchemy writes times into SQLite, so that texts of both services compare as times.
const SQLITE_TIME: StaticFormatDescription =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]");
const SQLITE_TIME_READ: StaticFormatDescription = format_description!(
    version = 2,
    "[year]-[month]-[day][first [ ] [T]][hour]:[minute]:[second][optional [.[subsecond]]]"
);
/// A person who repairs a row may write the zone too.
const SQLITE_ZONED_TIME_READ: StaticFormatDescription = format_description!(
    version = 2,
    "[year]-[month]-[day][first [ ] [T]][hour]:[minute]:[second][optional [.[subsecond]]][offset_hour sign:mandatory]:[offset_minute]"
);

/// A time of SQLite, in UTC.
fn sqlite_time(text: &str) -> Result<PrimitiveDateTime, time::error::Parse> {
    let plain = text.strip_suffix('Z').unwrap_or(text);
    PrimitiveDateTime::parse(plain, SQLITE_TIME_READ).or_else(|error| {
        let zoned = OffsetDateTime::parse(text, SQLITE_ZONED_TIME_READ).map_err(|_| error)?;
        let utc = zoned.to_offset(UtcOffset::UTC);
        Ok(PrimitiveDateTime::new(utc.date(), utc.time()))
    })
}

/// A cell as a value of its column's kind: PostgreSQL wants to know the type even of a null.
pub(crate) fn value(cell: &Cell, kind: Kind) -> Value {
    match (cell, kind) {
        (Cell::Int(v), _) => Value::BigInt(Some(*v)),
        (Cell::Bool(v), _) => Value::Bool(Some(*v)),
        (Cell::Text(v) | Cell::Json(v), _) => Value::String(Some(v.clone())),
        (Cell::Time(v), _) => Value::TimeDateTime(Some(*v)),
        (Cell::Null, Kind::Int) => Value::BigInt(None),
        (Cell::Null, Kind::Bool) => Value::Bool(None),
        (Cell::Null, Kind::Text | Kind::Json) => Value::String(None),
        (Cell::Null, Kind::Time) => Value::TimeDateTime(None),
    }
}

macro_rules! arguments {
    ($values:expr, $arguments:ty, $time:expr) => {{
        let mut arguments = <$arguments>::default();
        arguments.reserve($values.len(), 16 * $values.len());
        for value in $values {
            match value {
                Value::Bool(v) => arguments.add(v),
                Value::Int(v) => arguments.add(v.map(i64::from)),
                Value::BigInt(v) => arguments.add(v),
                Value::BigUnsigned(v) => arguments.add(v.map(i64::try_from).transpose().map_err(unbound)?),
                Value::String(v) => arguments.add(v),
                Value::TimeDateTime(v) => arguments.add(v.map($time).transpose()?),
                other => return Err(unbound(format!("a value of a kind that is never bound: {other:?}"))),
            }
            .map_err(unbound)?;
        }
        Ok(arguments)
    }};
}

fn unbound(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Fault {
    Fault::new(Class::Other, error)
}

/// Says which value of which row it is: a person has to find it.
fn unreadable(column: &str, uuid: Option<String>, fault: &Fault) -> Fault {
    let row = uuid.map_or_else(String::new, |uuid| format!(" of the row with uuid '{uuid}'"));
    Fault::corrupt(format!("column {column}{row} cannot be read: {}", fault.cause()))
}

/// The checked getters refuse what the engines store under other names (a flag as TINYINT or INTEGER, a time as text, a
/// text with a binary collation), so the kinds of the statement decide.
macro_rules! cells {
    ($row:expr, $kinds:expr, $int:expr, $time:expr) => {{
        let mut cells = Vec::with_capacity($kinds.len());
        for (i, kind) in $kinds.iter().enumerate() {
            let text = |i| $row.try_get_unchecked::<Option<String>, _>(i);
            let cell = match kind {
                Kind::Int => $int(i).map(|v| v.map_or(Cell::Null, Cell::Int)).map_err(Fault::from),
                Kind::Text => text(i).map(|v| v.map_or(Cell::Null, Cell::Text)).map_err(Fault::from),
                Kind::Json => text(i).map(|v| v.map_or(Cell::Null, Cell::Json)).map_err(Fault::from),
                Kind::Bool => $row
                    .try_get_unchecked::<Option<bool>, _>(i)
                    .map(|v| v.map_or(Cell::Null, Cell::Bool))
                    .map_err(Fault::from),
                Kind::Time => $time(i).map(|v| v.map_or(Cell::Null, Cell::Time)).map_err(Fault::from),
            };
            cells.push(cell.map_err(|fault| {
                let uuid = $row.try_get_unchecked::<Option<String>, _>("uuid").ok().flatten();
                unreadable($row.column(i).name(), uuid, &fault)
            })?);
        }
        Ok(cells)
    }};
}

pub(super) mod sqlite {
    use super::*;

    pub(crate) fn arguments(values: Vec<Value>) -> Result<SqliteArguments, Fault> {
        arguments!(values, SqliteArguments, |at: PrimitiveDateTime| at.format(SQLITE_TIME).map_err(unbound))
    }

    pub(crate) fn cells(row: &SqliteRow, kinds: &[Kind]) -> Result<Vec<Cell>, Fault> {
        cells!(row, kinds, |i| row.try_get_unchecked::<Option<i64>, _>(i), |i| {
            let text: Option<String> = row.try_get_unchecked(i)?;
            text.map(|text| sqlite_time(&text).map_err(|e| Fault::corrupt(format!("time '{text}': {e}"))))
                .transpose()
        })
    }
}

pub(super) mod postgres {
    use super::*;

    pub(crate) fn arguments(values: Vec<Value>) -> Result<PgArguments, Fault> {
        arguments!(values, PgArguments, Ok::<PrimitiveDateTime, Fault>)
    }

    pub(crate) fn cells(row: &PgRow, kinds: &[Kind]) -> Result<Vec<Cell>, Fault> {
        cells!(
            row,
            kinds,
            |i| match row.column(i).type_info().name() {
                "INT8" => row.try_get_unchecked::<Option<i64>, _>(i),
                "INT2" => row.try_get_unchecked::<Option<i16>, _>(i).map(|v| v.map(i64::from)),
                _ => row.try_get_unchecked::<Option<i32>, _>(i).map(|v| v.map(i64::from)),
            },
            |i| row.try_get_unchecked::<Option<PrimitiveDateTime>, _>(i)
        )
    }
}

pub(super) mod mariadb {
    use super::*;

    pub(crate) fn arguments(values: Vec<Value>) -> Result<MySqlArguments, Fault> {
        arguments!(values, MySqlArguments, Ok::<PrimitiveDateTime, Fault>)
    }

    pub(crate) fn cells(row: &MySqlRow, kinds: &[Kind]) -> Result<Vec<Cell>, Fault> {
        cells!(row, kinds, |i| row.try_get_unchecked::<Option<i64>, _>(i), |i| row
            .try_get_unchecked::<Option<PrimitiveDateTime>, _>(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn times_of_sqlite_in_every_form_that_is_found_there() {
        let read = |text| sqlite_time(text).unwrap();
        assert_eq!(read("2026-11-29 23:49:18.299588"), datetime!(2026-11-29 23:49:18.299588));
        assert_eq!(read("2026-11-29 23:49:18"), datetime!(2026-11-29 23:49:18));
        assert_eq!(read("2026-11-29T23:49:18"), datetime!(2026-11-29 23:49:18));
        assert_eq!(read("2026-11-29 23:49:18Z"), datetime!(2026-11-29 23:49:18));
        assert_eq!(read("2026-11-30T01:19:18.5+01:30"), datetime!(2026-11-29 23:49:18.5));
        assert!(sqlite_time("2026-11-29").is_err() && sqlite_time("1764464400").is_err());
        let written = datetime!(2026-11-29 23:49:18).format(SQLITE_TIME).unwrap();
        assert_eq!(written, "2026-11-29 23:49:18.000000");
    }
}

//! The database's own clock, which alone says how old something of the leader's is. No worker sends a time.

use std::time::Duration;

use sea_query::{Expr, SimpleExpr};
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::{Cell, Engine, Kind};

use super::{Conn, Fault};

/// A point on the database's clock in microseconds since 1970, as it is stored in the leader's tables: one number on
/// every engine, so that adding and comparing need no engine's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct DbTime(pub(crate) i64);

impl DbTime {
    /// How long ago `earlier` was; zero when it lies ahead, as after the clock was set back.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same point as the machine's stores count.
    pub(crate) fn as_duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    /// The point that is stored for one of the machine's.
    pub(crate) fn from_duration(at: Duration) -> Self {
        Self(i64::try_from(at.as_micros()).unwrap_or(i64::MAX))
    }

    /// The point this much later.
    pub(crate) fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// The point this much earlier.
    pub(crate) fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }

    /// The time in UTC.
    pub(crate) fn utc(self) -> PrimitiveDateTime {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        PrimitiveDateTime::new(at.date(), at.time())
    }

    /// The whole second in UTC, as Ironic's tables and the audit trail keep it.
    pub(crate) fn second(self) -> PrimitiveDateTime {
        self.utc().truncate_to_second()
    }
}

pub(crate) fn micros(d: Duration) -> i64 {
    i64::try_from(d.as_micros()).unwrap_or(i64::MAX)
}

impl Engine {
    /// The present time, moved by `offset` microseconds: 0 but in tests, which so let ten minutes pass.
    ///
    /// Each is the time at which it is evaluated and not the transaction's or statement's start, which may lie before a
    /// long wait for a lock (tests/data/fencing/lease.md section 2). MariaDB's depends on the session's time zone, which
    /// is UTC.
    pub(crate) fn now(self, offset: i64) -> SimpleExpr {
        Expr::cust_with_values(
            match self {
                Self::Sqlite => "(CAST(ROUND(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000 + ?)",
                Self::Postgres => {
                    "(CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000) AS BIGINT) + $1)"
                }
                Self::MariaDb => "(CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000) AS SIGNED) + ?)",
            },
            [offset],
        )
    }
}

/// Reads the clock.
pub(crate) async fn read(conn: &mut Conn, offset: i64) -> Result<DbTime, Fault> {
    let engine = conn.engine();
    let select = sea_query::Query::select().expr(engine.now(offset)).take();
    match conn.fetch(engine.build(&select), &[Kind::Int]).await?.first().and_then(|row| row.first()) {
        Some(Cell::Int(now)) => Ok(DbTime(*now)),
        _ => Err(Fault::corrupt("the database does not tell the time".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn a_point_is_a_time_in_utc() {
        let at = DbTime(1_796_000_000_123_456);
        assert_eq!(at.utc(), datetime!(2026-11-30 00:53:20.123456));
        assert_eq!(at.second(), datetime!(2026-11-30 00:53:20));
        assert_eq!(DbTime::from_duration(at.as_duration()), at);
        assert_eq!(at.after(Duration::from_secs(1)).since(at), Duration::from_secs(1));
        assert_eq!(at.since(at.after(Duration::from_secs(1))), Duration::ZERO);
    }
}

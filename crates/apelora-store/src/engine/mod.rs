//! The three engines behind one connection type. What differs between them is here and nowhere else.

mod bind;
pub(crate) mod clock;
mod dialect;
mod fault;
mod open;
mod wire;

pub(crate) use bind::value;
pub(crate) use clock::DbTime;
pub(crate) use dialect::beyond;
pub(crate) use fault::{Class, Fault};
pub(crate) use open::{Pools, open, open_for_upgrade};
pub(crate) use wire::Conn;

use sea_query::{MysqlQueryBuilder, PostgresQueryBuilder, QueryStatementWriter, SqliteQueryBuilder, Value};

use crate::Engine;

/// A statement and its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
}

impl Sql {
    /// A statement without values.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), values: Vec::new() }
    }
}

impl Engine {
    /// The statement in this engine's words.
    pub(crate) fn build(self, statement: &impl QueryStatementWriter) -> Sql {
        let (text, values) = match self {
            Self::Sqlite => statement.build(SqliteQueryBuilder),
            Self::Postgres => statement.build(PostgresQueryBuilder),
            Self::MariaDb => statement.build(MysqlQueryBuilder),
        };
        Sql { text, values: values.0 }
    }
}

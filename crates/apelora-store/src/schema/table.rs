//! Tables as data, and their making in each engine's words. Every statement may be run again.

use crate::Engine;
use crate::column::SqlType;

pub(super) struct Table {
    pub(super) name: &'static str,
    /// The row number; the database gives it.
    pub(super) key: Option<RowNumber>,
    pub(super) columns: Vec<Column>,
    pub(super) primary_key: Option<&'static str>,
    pub(super) unique: &'static [(&'static str, &'static [&'static str])],
    pub(super) foreign_key: Option<ForeignKey>,
    pub(super) indexes: &'static [(&'static str, &'static [&'static str])],
}

pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) sql_type: SqlType,
    pub(super) null: bool,
    pub(super) default: Option<Default>,
}

pub(super) enum Default {
    False,
    Text(&'static str),
}

/// The generated key of a table.
pub(super) struct RowNumber {
    pub(super) name: &'static str,
    pub(super) wide: bool,
    /// Whether SQLite must never give a number again. The reference's tables leave that open.
    pub(super) never_again: bool,
}

/// A reference to `nodes.id`.
pub(super) struct ForeignKey {
    pub(super) column: &'static str,
    pub(super) cascade: bool,
}

impl Column {
    pub(super) const fn new(name: &'static str, sql_type: SqlType) -> Self {
        Self { name, sql_type, null: false, default: None }
    }

    pub(super) const fn nullable(name: &'static str, sql_type: SqlType) -> Self {
        Self { name, sql_type, null: true, default: None }
    }
}

impl Table {
    /// The statements that make the table and its indexes where they are missing.
    pub(super) fn make(&self, engine: Engine) -> Vec<String> {
        let mut statements = vec![self.create(engine)];
        statements
            .extend(self.indexes.iter().map(|(name, columns)| make_index(engine, self.name, name, columns)));
        statements
    }

    fn create(&self, engine: Engine) -> String {
        let mut parts = Vec::new();
        if let Some(key) = &self.key {
            parts.push(row_number(engine, key));
        }
        parts.extend(self.columns.iter().map(|column| self::column(engine, column)));
        if engine == Engine::MariaDb
            && let Some(key) = &self.key
        {
            parts.push(format!("PRIMARY KEY ({})", quote(engine, key.name)));
        }
        if let Some(key) = self.primary_key {
            parts.push(format!("PRIMARY KEY ({})", quote(engine, key)));
        }
        for (name, columns) in self.unique {
            parts.push(format!("CONSTRAINT {} UNIQUE ({})", quote(engine, name), list(engine, columns)));
        }
        if let Some(key) = &self.foreign_key {
            let cascade = if key.cascade { " ON DELETE CASCADE" } else { "" };
            parts.push(format!(
                "FOREIGN KEY ({}) REFERENCES {} ({}){cascade}",
                quote(engine, key.column),
                quote(engine, "nodes"),
                quote(engine, "id"),
            ));
        }
        format!(
            "CREATE TABLE IF NOT EXISTS {} (\n  {}\n){}",
            quote(engine, self.name),
            parts.join(",\n  "),
            // Exact comparison, as on the other engines: case, accents and trailing blanks count.
            if engine == Engine::MariaDb {
                " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin"
            } else {
                ""
            },
        )
    }
}

/// The statement that makes an index where it is missing.
pub(super) fn make_index(engine: Engine, table: &str, name: &str, columns: &[&str]) -> String {
    let columns = list(engine, columns);
    format!("CREATE INDEX IF NOT EXISTS {} ON {} ({columns})", quote(engine, name), quote(engine, table))
}

fn row_number(engine: Engine, key: &RowNumber) -> String {
    let name = quote(engine, key.name);
    match (engine, key.wide) {
        (Engine::Sqlite, _) if key.never_again => format!("{name} INTEGER PRIMARY KEY AUTOINCREMENT"),
        (Engine::Sqlite, _) => format!("{name} INTEGER NOT NULL PRIMARY KEY"),
        (Engine::Postgres, false) => format!("{name} SERIAL PRIMARY KEY"),
        (Engine::Postgres, true) => format!("{name} BIGSERIAL PRIMARY KEY"),
        (Engine::MariaDb, false) => format!("{name} INT NOT NULL AUTO_INCREMENT"),
        (Engine::MariaDb, true) => format!("{name} BIGINT NOT NULL AUTO_INCREMENT"),
    }
}

fn column(engine: Engine, column: &Column) -> String {
    let default = match (&column.default, engine) {
        (None, _) => String::new(),
        (Some(Default::False), Engine::Postgres) => " DEFAULT FALSE".to_owned(),
        (Some(Default::False), _) => " DEFAULT 0".to_owned(),
        (Some(Default::Text(text)), _) => format!(" DEFAULT '{text}'"),
    };
    let null = if column.null { "" } else { " NOT NULL" };
    format!("{} {}{default}{null}", quote(engine, column.name), engine.type_word(column.sql_type))
}

fn list(engine: Engine, columns: &[&str]) -> String {
    columns.iter().map(|c| quote(engine, c)).collect::<Vec<_>>().join(", ")
}

fn quote(engine: Engine, name: &str) -> String {
    match engine {
        Engine::MariaDb => format!("`{name}`"),
        Engine::Sqlite | Engine::Postgres => format!("\"{name}\""),
    }
}

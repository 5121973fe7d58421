//! Cells into fields, in the order of the select list.

use apelora_maintenance::Scope;
use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::Cell;
use crate::engine::Fault;

/// The cells of one row, taken from left to right.
pub(crate) struct Reader {
    table: &'static str,
    cells: std::vec::IntoIter<Cell>,
}

impl Reader {
    pub(crate) fn new(table: &'static str, row: Vec<Cell>) -> Self {
        Self { table, cells: row.into_iter() }
    }

    fn next(&mut self) -> Cell {
        self.cells.next().unwrap_or_default()
    }

    pub(crate) fn opt_text(&mut self) -> Option<String> {
        match self.next() {
            Cell::Text(text) | Cell::Json(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Fault> {
        self.opt_text().ok_or_else(|| self.corrupt("a text is null"))
    }

    pub(crate) fn opt_int(&mut self) -> Option<i64> {
        match self.next() {
            Cell::Int(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, Fault> {
        self.opt_int().ok_or_else(|| self.corrupt("a number is null"))
    }

    /// A number that counts something, or a null.
    pub(crate) fn opt_count(&mut self) -> Option<u64> {
        self.opt_int().and_then(|n| u64::try_from(n).ok())
    }

    /// A number that counts something.
    pub(crate) fn count(&mut self) -> Result<u64, Fault> {
        let n = self.int()?;
        u64::try_from(n).map_err(|_| self.corrupt(&format!("{n} counts nothing")))
    }

    pub(crate) fn opt_bool(&mut self) -> Option<bool> {
        match self.next() {
            Cell::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.next() == Cell::Bool(true)
    }

    pub(crate) fn opt_time(&mut self) -> Option<PrimitiveDateTime> {
        match self.next() {
            Cell::Time(at) => Some(at),
            _ => None,
        }
    }

    pub(crate) fn time(&mut self) -> Result<PrimitiveDateTime, Fault> {
        self.opt_time().ok_or_else(|| self.corrupt("a time is null"))
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, Fault> {
        self.opt_uuid()?.ok_or_else(|| self.corrupt("an id is null"))
    }

    pub(crate) fn opt_uuid(&mut self) -> Result<Option<Uuid>, Fault> {
        let Some(text) = self.opt_text() else { return Ok(None) };
        let uuid = Uuid::parse_str(&text).map_err(|e| self.corrupt(&format!("'{text}' is no uuid: {e}")))?;
        // Rows are found again by the usual form alone.
        if !uuid.to_string().eq_ignore_ascii_case(&text) {
            return Err(self.corrupt(&format!("'{text}' is no uuid with dashes")));
        }
        Ok(Some(uuid))
    }

    /// A scope that this version does not know outranks everybody: what a newer version protects is never easier to
    /// reach here.
    pub(crate) fn scope(&mut self) -> Result<Scope, Fault> {
        let word = self.text()?;
        Ok(word.parse().unwrap_or_else(|_| {
            tracing::warn!(table = self.table, scope = word, "unknown scope is taken as the highest");
            Scope::System
        }))
    }

    fn corrupt(&self, what: &str) -> Fault {
        Fault::corrupt(format!("{}: {what}", self.table))
    }
}

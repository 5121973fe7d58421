//! A node as data: cells by column, so that a caller renders from a table of fields.

use std::sync::Arc;

use apelora_maintenance::NodeFacts;
use time::PrimitiveDateTime;

use crate::{Kind, NodeColumn, Unstorable, Width};

/// One value of one column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cell {
    /// SQL null, and every column that was not selected.
    #[default]
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
    /// True or false.
    Bool(bool),
    /// A UTC time. Written in whole seconds; read as it stands in an adopted database, perhaps with a fraction.
    Time(PrimitiveDateTime),
    /// The text of a JSON value, exactly as stored.
    Json(String),
}

impl Cell {
    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// `Text`, or `Null` for `None`.
    pub fn opt_text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Null, |t| Self::Text(t.into()))
    }

    fn fits(&self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Null, _)
                | (Self::Int(_), Kind::Int)
                | (Self::Text(_), Kind::Text)
                | (Self::Bool(_), Kind::Bool)
                | (Self::Time(_), Kind::Time)
                | (Self::Json(_), Kind::Json)
        )
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<PrimitiveDateTime> for Cell {
    fn from(at: PrimitiveDateTime) -> Self {
        Self::Time(at)
    }
}

/// How to name a node: exactly, capital letters included.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NodeKey {
    /// By `nodes.uuid`, in the lower-case form with dashes.
    Uuid(String),
    /// By `nodes.name`.
    Name(String),
}

/// Which columns a set of rows has, shared by all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    columns: Vec<NodeColumn>,
    place: [u8; NodeColumn::ALL.len()],
}

const ABSENT: u8 = u8::MAX;

impl Layout {
    /// Repeated columns count once.
    pub(crate) fn new(columns: &[NodeColumn]) -> Arc<Self> {
        let mut layout =
            Self { columns: Vec::with_capacity(columns.len()), place: [ABSENT; NodeColumn::ALL.len()] };
        for column in columns {
            layout.add(*column);
        }
        Arc::new(layout)
    }

    pub(crate) fn columns(&self) -> &[NodeColumn] {
        &self.columns
    }

    fn add(&mut self, column: NodeColumn) {
        if let Some(place) = self.place.get_mut(column as usize)
            && *place == ABSENT
        {
            // There are fewer columns than 255.
            *place = u8::try_from(self.columns.len()).unwrap_or(ABSENT);
            self.columns.push(column);
        }
    }
}

/// A row of `nodes`, or some columns of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    layout: Arc<Layout>,
    cells: Vec<Cell>,
}

impl NodeRow {
    /// A row made of these cells; the last one of a column counts.
    pub fn from_cells(cells: impl IntoIterator<Item = (NodeColumn, Cell)>) -> Self {
        let mut row =
            Self { layout: Layout::new(NodeColumn::ALL), cells: vec![Cell::Null; NodeColumn::ALL.len()] };
        for (column, cell) in cells {
            row.put(column, cell);
        }
        row
    }

    pub(crate) fn new(layout: Arc<Layout>, cells: Vec<Cell>) -> Self {
        debug_assert_eq!(layout.columns.len(), cells.len());
        Self { layout, cells }
    }

    /// The columns that were selected.
    pub fn columns(&self) -> &[NodeColumn] {
        &self.layout.columns
    }

    /// The cell of a column; null when the column was not selected.
    pub fn get(&self, column: NodeColumn) -> &Cell {
        let place = self.layout.place.get(column as usize).copied().unwrap_or(ABSENT);
        self.cells.get(usize::from(place)).unwrap_or(&Cell::Null)
    }

    /// A text.
    pub fn text(&self, column: NodeColumn) -> Option<&str> {
        match self.get(column) {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A truth value; null is `None`.
    pub fn bool(&self, column: NodeColumn) -> Option<bool> {
        match self.get(column) {
            Cell::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A UTC time.
    pub fn time(&self, column: NodeColumn) -> Option<PrimitiveDateTime> {
        match self.get(column) {
            Cell::Time(at) => Some(*at),
            _ => None,
        }
    }

    /// A whole number.
    pub fn int(&self, column: NodeColumn) -> Option<i64> {
        match self.get(column) {
            Cell::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text of a JSON value, as stored. Another service wrote it, perhaps: it need not be valid.
    pub fn json(&self, column: NodeColumn) -> Option<&str> {
        match self.get(column) {
            Cell::Json(text) => Some(text),
            _ => None,
        }
    }

    /// What the planner of maintenance reads of the row.
    pub fn facts(&self) -> NodeFacts {
        let text = |column| self.text(column).map(str::to_owned);
        NodeFacts {
            uuid: text(NodeColumn::Uuid).unwrap_or_default(),
            name: text(NodeColumn::Name),
            owner: text(NodeColumn::Owner),
            lessee: text(NodeColumn::Lessee),
            maintenance: self.bool(NodeColumn::Maintenance).unwrap_or(false),
            maintenance_reason: text(NodeColumn::MaintenanceReason),
            fault: text(NodeColumn::Fault),
            provision_state: text(NodeColumn::ProvisionState),
            target_provision_state: text(NodeColumn::TargetProvisionState),
            provision_updated_at: self.time(NodeColumn::ProvisionUpdatedAt),
        }
    }

    pub(crate) fn put(&mut self, column: NodeColumn, cell: Cell) {
        let place = self.layout.place.get(column as usize).copied().unwrap_or(ABSENT);
        if let Some(slot) = self.cells.get_mut(usize::from(place)) {
            *slot = cell;
        }
    }
}

/// Columns that no patch may carry: the row number, what a plan of maintenance decides, and what the stamp says.
const OWN: [NodeColumn; 7] = [
    NodeColumn::Id,
    NodeColumn::Maintenance,
    NodeColumn::MaintenanceReason,
    NodeColumn::Fault,
    NodeColumn::Version,
    NodeColumn::CreatedAt,
    NodeColumn::UpdatedAt,
];

/// New values for some columns of a node. Flag, reason and fault are not among them: they follow from a plan; neither
/// are the times of the row, which follow from the stamp.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePatch {
    cells: Vec<(NodeColumn, Cell)>,
}

impl NodePatch {
    /// A patch that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a column; the last value counts.
    pub fn set(&mut self, column: NodeColumn, cell: impl Into<Cell>) {
        let cell = match cell.into() {
            // One of the engines keeps no fraction.
            Cell::Time(at) => Cell::Time(at.truncate_to_second()),
            cell => cell,
        };
        match self.cells.iter_mut().find(|(c, _)| *c == column) {
            Some((_, old)) => *old = cell,
            None => self.cells.push((column, cell)),
        }
    }

    /// Sets a column, for building in one expression.
    #[must_use]
    pub fn with(mut self, column: NodeColumn, cell: impl Into<Cell>) -> Self {
        self.set(column, cell);
        self
    }

    /// The value that it sets, if any.
    pub fn get(&self, column: NodeColumn) -> Option<&Cell> {
        self.cells.iter().find(|(c, _)| *c == column).map(|(_, cell)| cell)
    }

    /// Its columns and values.
    pub fn cells(&self) -> &[(NodeColumn, Cell)] {
        &self.cells
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Checks every value against its column, alike on every engine.
    ///
    /// # Errors
    /// The first value that cannot be stored.
    pub fn check(&self) -> Result<(), Unstorable> {
        for (column, cell) in &self.cells {
            let column = *column;
            if OWN.contains(&column) {
                return Err(Unstorable::NotSettable { column });
            }
            if !cell.fits(column.kind()) {
                return Err(Unstorable::WrongKind { column });
            }
            let (Cell::Text(text) | Cell::Json(text)) = cell else { continue };
            if text.contains('\0') {
                return Err(Unstorable::Nul { column });
            }
            match column.width() {
                Some(Width::Chars(limit)) if text.chars().count() > limit => {
                    return Err(Unstorable::TooManyChars { column, limit });
                }
                Some(Width::Bytes(limit)) if text.len() > limit => {
                    return Err(Unstorable::TooManyBytes { column, limit });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl FromIterator<(NodeColumn, Cell)> for NodePatch {
    fn from_iter<T: IntoIterator<Item = (NodeColumn, Cell)>>(cells: T) -> Self {
        let mut patch = Self::new();
        for (column, cell) in cells {
            patch.set(column, cell);
        }
        patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_was_not_selected_reads_as_null() {
        let layout = Layout::new(&[NodeColumn::Uuid, NodeColumn::Maintenance, NodeColumn::Uuid]);
        let row = NodeRow::new(layout, vec![Cell::from("u"), Cell::Bool(true)]);
        assert_eq!(row.text(NodeColumn::Uuid), Some("u"));
        assert_eq!(row.bool(NodeColumn::Maintenance), Some(true));
        assert_eq!(row.get(NodeColumn::Name), &Cell::Null);
        assert_eq!(row.columns(), [NodeColumn::Uuid, NodeColumn::Maintenance]);
    }

    #[test]
    fn what_does_not_fit_its_column_is_named() {
        let long = "ü".repeat(256);
        let patch = NodePatch::new().with(NodeColumn::Name, long.as_str());
        assert_eq!(patch.check(), Err(Unstorable::TooManyChars { column: NodeColumn::Name, limit: 255 }));
        let patch = NodePatch::new().with(NodeColumn::Name, "ü".repeat(255));
        assert_eq!(patch.check(), Ok(()));
        let patch = NodePatch::new().with(NodeColumn::LastError, "a\0b");
        assert_eq!(patch.check(), Err(Unstorable::Nul { column: NodeColumn::LastError }));
        let patch = NodePatch::new().with(NodeColumn::Extra, "text");
        assert_eq!(patch.check(), Err(Unstorable::WrongKind { column: NodeColumn::Extra }));
        let patch = NodePatch::new().with(NodeColumn::Maintenance, true);
        assert_eq!(patch.check(), Err(Unstorable::NotSettable { column: NodeColumn::Maintenance }));
        let patch = NodePatch::new().with(NodeColumn::Extra, Cell::Json("x".repeat(65_536)));
        assert_eq!(patch.check(), Err(Unstorable::TooManyBytes { column: NodeColumn::Extra, limit: 65_535 }));
    }
}

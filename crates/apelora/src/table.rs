//! Tables for people.

use crate::printable::{cut, printable, width, wrap};

/// A column is not made narrower than this to fit the terminal.
const NARROWEST: usize = 8;
const GAP: usize = 2;

/// How wide a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Whole, whatever the width of the terminal: for what is copied into the next command.
    Whole,
    /// Cut where the terminal is too narrow.
    Cut,
    /// Continued below itself where the terminal is too narrow: for what must be read whole.
    Wrap,
}

/// Rows under headings. Everything in it is escaped, so it may come from anybody.
#[derive(Debug)]
pub(crate) struct Table<'h> {
    headings: Vec<(&'h str, Fit)>,
    rows: Vec<Vec<String>>,
}

impl<'h> Table<'h> {
    pub(crate) fn new(headings: &[(&'h str, Fit)]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, one cell for each heading; nothing is shown as a dash.
    pub(crate) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Option<&'a str>>) {
        let shown = |cell: Option<&str>| match cell {
            None | Some("") => "-".to_owned(),
            Some(text) => printable(text).into_owned(),
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// The lines, aligned; `columns` is the width of the terminal, if there is one.
    pub(crate) fn text(&self, columns: Option<usize>) -> String {
        let mut widths: Vec<usize> = (0..self.headings.len()).map(|i| self.natural(i)).collect();
        if let Some(columns) = columns {
            self.narrow(&mut widths, columns);
        }
        let headings = self.headings.iter().map(|(heading, _)| *heading);
        let mut lines = vec![line(headings, &widths)];
        lines.extend(self.rows.iter().flat_map(|row| self.lines(row, &widths)));
        lines.join("\n")
    }

    /// A row: one line, or as many as its longest wrapped cell has.
    fn lines(&self, row: &[String], widths: &[usize]) -> Vec<String> {
        let parts: Vec<Vec<String>> = row
            .iter()
            .zip(widths)
            .zip(&self.headings)
            .map(|((cell, width), (_, fit))| wrap(cell, (*fit == Fit::Wrap).then_some(*width)))
            .collect();
        let height = parts.iter().map(Vec::len).max().unwrap_or(0);
        let part = |column: &Vec<String>, i| column.get(i).cloned().unwrap_or_default();
        let rows = (0..height).map(|i| parts.iter().map(|column| part(column, i)).collect::<Vec<_>>());
        rows.map(|cells| line(cells.iter().map(String::as_str), widths)).collect()
    }

    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| width(cell)).max().unwrap_or(0);
        widest.max(self.headings.get(column).map_or(0, |(heading, _)| width(heading)))
    }

    /// Takes from the widest column that need not be whole on its line, until the table fits or nothing is left to take.
    fn narrow(&self, widths: &mut [usize], columns: usize) {
        let gaps = GAP * widths.len().saturating_sub(1);
        loop {
            let over = (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
            let widest = widths
                .iter_mut()
                .zip(&self.headings)
                .filter(|(width, (_, fit))| *fit != Fit::Whole && **width > NARROWEST)
                .map(|(width, _)| width)
                .max();
            match widest {
                Some(width) if over > 0 => *width -= 1,
                _ => return,
            }
        }
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (i, (cell, wanted)) in cells.zip(widths).enumerate() {
        if i > 0 {
            line.extend(std::iter::repeat_n(' ', GAP));
        }
        let cell = cut(cell, *wanted);
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', wanted.saturating_sub(width(&cell))));
    }
    line.truncate(line.trim_end().len());
    line
}

/// Names with values below each other; `columns` is the width of the terminal, if there is one.
pub(crate) fn fields<'a>(of: impl IntoIterator<Item = (&'a str, String)>, columns: Option<usize>) -> String {
    let of: Vec<_> = of.into_iter().collect();
    let widest = of.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let lines = of.iter().map(|(name, value)| {
        let first = format!("{}{}", printable(name), " ".repeat(widest + GAP - width(name)));
        hanging(&first, if value.is_empty() { "-" } else { value }, columns)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A text behind its beginning, continued below itself where the terminal is too narrow.
pub(crate) fn hanging(first: &str, text: &str, columns: Option<usize>) -> String {
    let indent = width(first);
    let room = columns.map(|columns| columns.saturating_sub(indent).max(NARROWEST));
    let lines = wrap(&printable(text), room);
    format!("{first}{}", lines.join(&format!("\n{}", " ".repeat(indent))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<'static> {
        let mut table = Table::new(&[("UUID", Fit::Whole), ("Type", Fit::Whole), ("Reason", Fit::Cut)]);
        table.row([Some("8d8d9a25"), Some("legacy"), None]);
        table.row([Some("3c1a7b90"), Some("日本"), Some("Row C power work, change window CHG-2211")]);
        table
    }

    #[test]
    fn columns_are_aligned_and_empty_cells_are_dashes() {
        assert_eq!(
            table().text(None),
            "UUID      Type    Reason\n8d8d9a25  legacy  -\n3c1a7b90  日本    Row C power work, change window CHG-2211"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_what_may_be_cut() {
        let text = table().text(Some(30));
        assert_eq!(text.lines().last(), Some("3c1a7b90  日本    Row C power…"), "{text}");
        let least = table().text(Some(1));
        assert_eq!(least.lines().last(), Some("3c1a7b90  日本    Row C p…"), "{least}");
        assert_eq!(table().text(Some(200)), table().text(None));
    }

    #[test]
    fn a_cell_is_one_line_that_steers_nothing() {
        let mut table = Table::new(&[("Reason", Fit::Cut)]);
        table.row([Some("a\n\u{1b}[2Jb")]);
        assert_eq!(table.text(None), "Reason\na\\n\\u{1b}[2Jb");
        assert_eq!(
            fields([("name", "a\tb".to_owned()), ("id", String::new())], None),
            "name  a\\tb\nid    -"
        );
    }

    #[test]
    fn what_must_be_read_whole_goes_on_below_itself() {
        let mut table = Table::new(&[("Guard", Fit::Whole), ("Found", Fit::Wrap), ("Do", Fit::Whole)]);
        table.row([Some("loop"), Some("a power-off was sent"), Some("wait")]);
        assert_eq!(table.text(Some(24)), "Guard  Found        Do\nloop   a power-off  wait\n       was sent");
        assert_eq!(table.text(None), "Guard  Found                 Do\nloop   a power-off was sent  wait");
        let value = "The member is proven off.".to_owned();
        assert_eq!(
            fields([("because", value), ("id", "1".to_owned())], Some(24)),
            "because  The member is\n         proven off.\nid       1"
        );
    }
}

//! Rows for a spreadsheet. Source: RFC 4180.

/// Characters that make a spreadsheet take a cell for a formula, also in their wide forms; a tab and a line end before one
/// of them are skipped by some.
const FORMULA: [char; 11] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Appends one row.
pub(super) fn write_row<'a>(out: &mut String, cells: impl IntoIterator<Item = &'a str>) {
    for (i, cell) in cells.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_cell(out, cell);
    }
    out.push_str("\r\n");
}

/// A cell that is what it says, wherever it is opened: one that would be calculated begins with an apostrophe.
fn write_cell(out: &mut String, text: &str) {
    let guard = text.starts_with(FORMULA);
    if !guard && !text.contains(['"', ',', '\r', '\n']) {
        out.push_str(text);
        return;
    }
    out.push('"');
    if guard {
        out.push('\'');
    }
    for c in text.chars() {
        if c == '"' {
            out.push('"');
        }
        out.push(c);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(text: &str) -> String {
        let mut out = String::new();
        write_cell(&mut out, text);
        out
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(cell("disk 3"), "disk 3");
        assert_eq!(cell(""), "");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"x\"\r\ny"), "\"say \"\"x\"\"\r\ny\"");
        let mut row = String::new();
        write_row(&mut row, ["1", "", "a,b"]);
        assert_eq!(row, "1,,\"a,b\"\r\n");
    }

    #[test]
    fn nothing_is_calculated() {
        for text in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            "\u{ff1d}1",
            "=HYPERLINK(\"http://x\",\"y\")",
        ] {
            let shown = cell(text);
            assert!(shown.starts_with("\"'") && shown.ends_with('"'), "{shown}");
        }
        assert_eq!(cell("=\"x\""), "\"'=\"\"x\"\"\"");
        assert_eq!(cell("a=b"), "a=b");
    }
}

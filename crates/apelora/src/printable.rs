//! Text of others, shown to a person: nothing in it may steer the terminal or reorder what stands beside it.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

/// The text with every character escaped that would not show as itself: controls, line ends, and the invisible ones that
/// change the direction of writing.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// The same for a JSON text, which stays the same JSON: such characters stand in its strings only, where they may be
/// escaped. Line ends between values stay.
pub(crate) fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The columns that a text takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text cut to so many columns, with an ellipsis for what is missing.
pub(crate) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut left = columns.saturating_sub(1);
    let mut shown: String = text
        .chars()
        .take_while(|c| {
            let fits = c.width().unwrap_or(0) <= left;
            left = left.saturating_sub(c.width().unwrap_or(0));
            fits
        })
        .collect();
    shown.push('…');
    Cow::Owned(shown)
}

/// The text in lines of so many columns, broken between words; a word that is longer than a line is broken, too.
/// Without a width it is one line.
pub(crate) fn wrap(text: &str, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else { return vec![text.to_owned()] };
    let (mut lines, mut line, mut taken) = (Vec::new(), String::new(), 0);
    let mut end = |line: &mut String, taken: &mut usize| {
        lines.push(line.trim_end().to_owned());
        line.clear();
        *taken = 0;
    };
    for word in text.split_inclusive(' ') {
        if taken > 0 && taken + width(word.trim_end()) > columns {
            end(&mut line, &mut taken);
        }
        for c in word.chars() {
            let wanted = c.width().unwrap_or(0);
            if c != ' ' && taken > 0 && taken + wanted > columns {
                end(&mut line, &mut taken);
            }
            line.push(c);
            taken += wanted;
        }
    }
    end(&mut line, &mut taken);
    lines
}

/// A time of the API to the second: people do not read fractions, programs have them in JSON.
pub(crate) fn second(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, rest)) => {
            format!("{whole}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => time.to_owned(),
    }
}

fn is_hidden(c: char) -> bool {
    // Unicode's bidirectional controls, separators of lines and paragraphs, and characters without any width that are
    // used to hide text: Unicode Technical Report 36, section 2.
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(printable("disk 3, Größe \u{1f4a5}"), "disk 3, Größe \u{1f4a5}");
        assert_eq!(printable("a\u{1b}[31mb\r\n\t\u{9b}2J"), r"a\u{1b}[31mb\r\n\t\u{9b}2J");
        assert_eq!(printable("x\u{202e}y\u{2066}\u{200b}"), r"x\u{202e}y\u{2066}\u{200b}");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a\u{202e}": ["\u{1b}[2J\n\u{7f}\u{9b}", "\u{e0041}"]});
        let shown = printable_json(&format!("{value:#}"));
        assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn texts_are_cut_by_columns() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("日本語の", 6), "日本…");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!((width("日本"), width("e\u{301}")), (4, 1));
    }

    #[test]
    fn texts_are_wrapped_between_words_and_long_words_are_broken() {
        assert_eq!(wrap("one two three", Some(8)), ["one two", "three"]);
        assert_eq!(wrap("one two three", Some(13)), ["one two three"]);
        assert_eq!(wrap("abcdefgh ij", Some(4)), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("日本 日本", Some(5)), ["日本", "日本"]);
        assert_eq!(wrap("", Some(5)), [""]);
        assert_eq!(wrap("one two three", None), ["one two three"]);
        assert_eq!(wrap("ab", Some(0)), ["a", "b"]);
    }

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(second("2026-11-30T10:11:52.785000+00:00"), "2026-11-30T10:11:52+00:00");
        assert_eq!(second("2026-11-30T10:11:52+00:00"), "2026-11-30T10:11:52+00:00");
    }
}

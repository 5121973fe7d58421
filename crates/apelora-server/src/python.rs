//! Values as the reference service's messages show them: in the notation of its language.

use std::fmt::Write as _;

use apelora_maintenance::json;
use serde_json::Value;

/// Decimal text of an integer, read as the reference reads numbers in headers and queries: blanks around, a sign,
/// leading zeros and single underscores between digits are allowed. Answers the normalised digits.
pub(crate) fn integer(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { "-" } else { "" }, rest),
        None => ("", text),
    };
    let grouped =
        digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    if !grouped || digits.len() > 4_300 {
        return None;
    }
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") })
}

/// The value as the reference's language writes it for people who read programs: `{'a': None, 'b': [True, 1.5]}`.
pub(crate) fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// The value as it is put into a message: texts as they are, everything else as by [`repr`].
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// The text as a quoted literal.
pub(crate) fn repr_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_text(&mut out, text);
    out
}

/// A list of texts, as in `['a', 'b']`.
pub(crate) fn repr_list(texts: &[&str]) -> String {
    let parts: Vec<_> = texts.iter().map(|t| repr_text(t)).collect();
    format!("[{}]", parts.join(", "))
}

/// A tuple of texts, as in `('a', 'b')`.
pub(crate) fn repr_tuple(texts: &[&str]) -> String {
    let parts: Vec<_> = texts.iter().map(|t| repr_text(t)).collect();
    format!("({})", parts.join(", "))
}

fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        // The writer of bodies normalises numbers in the same way.
        Value::Number(_) => out.push_str(&json::to_string(value).unwrap_or_default()),
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_text(out, key);
                out.push_str(": ");
                write_repr(out, member);
            }
            out.push('}');
        }
    }
}

fn write_text(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || (0x7f..0xa1).contains(&(c as u32)) || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers() {
        for (text, value) in
            [("1", "1"), (" 078 ", "78"), ("-1", "-1"), ("+5", "5"), ("1_0", "10"), ("-0", "0")]
        {
            assert_eq!(integer(text).as_deref(), Some(value), "{text}");
        }
        for text in ["", "x", "1.0", "1__0", "_1", "1_", "--1", "1e3", "\u{661}"] {
            assert_eq!(integer(text), None, "{text}");
        }
    }

    #[test]
    fn literals() {
        assert_eq!(
            repr(&json!({"a": 1, "l": [1, 2.5, 3], "b": {"c": null, "d": true}})),
            "{'a': 1, 'l': [1, 2.5, 3], 'b': {'c': None, 'd': True}}"
        );
        assert_eq!(repr(&json!("it's")), "\"it's\"");
        assert_eq!(repr(&json!("it's \"q\"\n\u{1}é")), "'it\\'s \"q\"\\n\\x01é'");
        assert_eq!(display(&json!("x")), "x");
        assert_eq!(display(&json!(null)), "None");
        assert_eq!(repr_tuple(&["a", "b"]), "('a', 'b')");
    }
}

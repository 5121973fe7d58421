//! Values as the reference service's messages show them: in the notation of its language.

pub(crate) use apelora_policy::python::{repr, repr_text};
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

/// The value as it is put into a message: texts as they are, everything else as by [`repr`].
pub(crate) fn display(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
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

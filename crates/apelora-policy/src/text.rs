//! The text that a value has in a comparison.
//!
//! The rule language compares texts, and a value that is none gets the text Python's `str` gives it: null is `None`,
//! true is `True`, a list is `['a', 1]`. Credentials and targets are JSON values here.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The text of a value on its own (`str`).
pub(crate) fn of_value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed("None"),
        Value::Bool(true) => Cow::Borrowed("True"),
        Value::Bool(false) => Cow::Borrowed("False"),
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(of_number(number)),
        Value::Array(_) | Value::Object(_) => Cow::Owned(quoted(value)),
    }
}

/// The text of a value inside of a list or a mapping, and of the conversion `%(key)r` (`repr`).
pub fn quoted(value: &Value) -> String {
    let mut out = String::new();
    quote_into(&mut out, value);
    out
}

/// The text in quotes, escaped as Python does it.
pub fn quoted_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_text(&mut out, text);
    out
}

fn quote_into(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => quote_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                quote_into(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (i, (key, item)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                quote_text(out, key);
                out.push_str(": ");
                quote_into(out, item);
            }
            out.push('}');
        }
        other => out.push_str(&of_value(other)),
    }
}

/// Appends a text in quotes, escaped as Python does it.
pub(crate) fn quote_text(out: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            // Writing to a String cannot fail.
            c if u32::from(c) <= 0xff => drop(write!(out, "\\x{:02x}", u32::from(c))),
            c if u32::from(c) <= 0xffff => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => drop(write!(out, "\\U{:08x}", u32::from(c))),
        }
    }
    out.push(mark);
}

/// Whether a character stands for itself in quotes: no control, format, separator (other than a blank) or private one.
/// Unassigned code points count as printable; that only matters for texts nobody can type.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(u32::from(c),
            0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e
            | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb | 0xe_0001..=0xe_007f
            | 0xf_0000..=0x10_ffff))
}

fn of_number(number: &Number) -> String {
    let written = number.to_string();
    if written.contains(['.', 'e', 'E']) {
        return of_float(written.parse().unwrap_or(f64::NAN));
    }
    if written == "-0" { "0".to_owned() } else { written }
}

/// The shortest decimal text that reads back as this number, laid out like Python's `repr`: an exponent only below
/// 1e-4 and from 1e16 on, and at least one decimal.
pub(crate) fn of_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = number.abs();
    if number == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return format!("{number:?}");
    }
    let short = format!("{number:e}");
    match short.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, power) =
                exponent.strip_prefix('-').map_or(("+", exponent), |below_one| ("-", below_one));
            format!("{digits}e{sign}{power:0>2}")
        }
        None => short,
    }
}

/// Whether Python would take the value for true in a condition.
pub(crate) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Number(number) => number.to_string().parse::<f64>().is_ok_and(|n| n != 0.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_pythons_text() {
        for (value, text) in [
            (json!(null), "None"),
            (json!(true), "True"),
            (json!("a'b"), "a'b"),
            (json!(["a'b", "c\"d'", 1, null]), "[\"a'b\", 'c\"d\\'', 1, None]"),
            (json!({"a": ["p1\n"], "b": {}}), "{'a': ['p1\\n'], 'b': {}}"),
            (json!(["\u{0}\u{7f}\u{a0}\u{200b}é"]), "['\\x00\\x7f\\xa0\\u200bé']"),
        ] {
            assert_eq!(of_value(&value), text);
        }
        for (written, text) in [
            ("1.0", "1.0"),
            ("1e3", "1000.0"),
            ("1e16", "1e+16"),
            ("123456789012345680.0", "1.2345678901234568e+17"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-0.0", "-0.0"),
            ("-0", "0"),
            ("1e999", "inf"),
            ("12345678901234567890123", "12345678901234567890123"),
        ] {
            let value: Value = serde_json::from_str(written).unwrap();
            assert_eq!(of_value(&value), text, "{written}");
        }
    }

    #[test]
    fn nothing_zero_and_empty_are_false() {
        for value in [json!(null), json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})] {
            assert!(!is_truthy(&value), "{value}");
        }
        for value in [json!(true), json!(-1), json!(0.5), json!("False"), json!([0]), json!({"a": null})] {
            assert!(is_truthy(&value), "{value}");
        }
    }
}

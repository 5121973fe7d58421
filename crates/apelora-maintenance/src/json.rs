//! JSON text in the form that the Bare Metal API's bodies and database columns have.
//!
//! The reference service writes what Python's default dump gives: `", "` and `": "` between the parts, everything outside
//! printable ASCII as `\uXXXX` (surrogate pairs above the basic plane), floats in their shortest form. Clients compare
//! such texts, and the columns are passed through as they are, so there is one writer for both.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use time::PrimitiveDateTime;
use time::macros::format_description;

/// Writes `value` in that form. Maps keep their order.
///
/// # Errors
/// As [`serde_json::to_string`]: a map with keys that are not texts, or a failing `Serialize`.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::with_capacity(256);
    value.serialize(&mut Serializer::with_formatter(&mut out, PlainAscii))?;
    // The formatter writes ASCII only.
    String::from_utf8(out).map_err(|e| serde::ser::Error::custom(e.to_string()))
}

/// Appends `value` to `out` in that form.
///
/// # Errors
/// As [`to_string`].
pub fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut Serializer::with_formatter(out, PlainAscii))
}

struct PlainAscii;

impl Formatter for PlainAscii {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }

    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, w: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c: char| !(' '..='~').contains(&c)) {
            w.write_all(&rest.as_bytes()[..at])?;
            let mut chars = rest[at..].chars();
            if let Some(c) = chars.next() {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(w, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        w.write_all(rest.as_bytes())
    }

    fn write_number_str<W: io::Write + ?Sized>(&mut self, w: &mut W, number: &str) -> io::Result<()> {
        if number.contains(['.', 'e', 'E'])
            && let Ok(value) = number.parse::<f64>()
            && value.is_finite()
        {
            return self.write_f64(w, value);
        }
        w.write_all(number.as_bytes())
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, w: &mut W, value: f64) -> io::Result<()> {
        // The shortest digits that give the same number again, in the notation of Python's repr: positional from 1e-4
        // to below 1e16, else with a signed exponent of at least two digits.
        let scientific = format!("{value:e}");
        let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
        if value == 0.0 || (-4..16).contains(&exponent) {
            return write!(w, "{value:?}");
        }
        let mantissa = scientific.split('e').next().unwrap_or_default();
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(w, "{mantissa}e{sign}{:02}", exponent.abs())
    }
}

/// A UTC time as the Bare Metal API and everything beside it writes it: with microseconds unless they are zero.
pub fn iso(at: PrimitiveDateTime) -> String {
    let text = if at.microsecond() == 0 {
        at.format(format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]+00:00"))
    } else {
        at.format(format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]+00:00"
        ))
    };
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use time::macros::datetime;

    /// Parse and write again.
    fn again(text: &str) -> String {
        to_string(&serde_json::from_str::<Value>(text).unwrap()).unwrap()
    }

    #[test]
    fn separators_order_and_escapes() {
        assert_eq!(
            again(r#"{"b":1,"a":[true,null,{}],"c":[]}"#),
            r#"{"b": 1, "a": [true, null, {}], "c": []}"#
        );
        assert_eq!(
            again("\"\u{fc}\u{2603}\u{1f600}\u{7f}\\u0001\\n\\t\\\"\\\\/\""),
            r#""\u00fc\u2603\ud83d\ude00\u007f\u0001\n\t\"\\/""#
        );
    }

    #[test]
    fn numbers_survive() {
        let big = "123456789012345678901234567890";
        assert_eq!(again(big), big);
        for (given, written) in [
            ("1.0", "1.0"),
            ("1.10", "1.1"),
            ("1e2", "100.0"),
            ("1E5", "100000.0"),
            ("1e16", "1e+16"),
            ("1.5e300", "1.5e+300"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("123456789012345.6", "123456789012345.6"),
            ("-0.0", "-0.0"),
            ("5e-324", "5e-324"),
        ] {
            assert_eq!(again(given), written, "{given}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(iso(datetime!(2026-11-29 23:49:18.299588)), "2026-11-29T23:49:18.299588+00:00");
        assert_eq!(iso(datetime!(2026-11-29 23:49:18)), "2026-11-29T23:49:18+00:00");
    }
}

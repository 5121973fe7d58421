//! The right-hand side of a check: a text into which values of the target are inserted with `%(key)s`.
//!
//! The language is Python's `%` formatting with a mapping. What people write is `%(key)s`; the numeric conversions and
//! the padding are understood as well. What cannot be evaluated for any target is refused when the rule is loaded.

use std::borrow::Cow;

use serde_json::Value;

use crate::target::{Found, Target};
use crate::text;

/// Padding and precision beyond this are refused: `%(key)999999999s` would build a text of that size.
const WIDTH_MAX: usize = 1_000;

/// A parsed right-hand side.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Field(Field),
}

#[derive(Debug, Clone, Default)]
struct Field {
    key: String,
    conversion: Conversion,
    left: bool,
    plus: bool,
    blank: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Conversion {
    #[default]
    Text,
    Quoted,
    Decimal,
    Hex,
    UpperHex,
    Octal,
}

/// Why a right-hand side is no format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormatFault {
    /// It ends within a conversion.
    Incomplete,
    /// `%(` without its closing parenthesis.
    OpenKey,
    /// A conversion letter that the language does not have, or that is not supported.
    Conversion(char),
    /// `*` or a number over the limit where a width or precision stands.
    Width,
    /// A conversion without a key that stands among others or asks for a number.
    MissingKey,
    /// Nothing but `%s` without a key, which would insert the whole target as one text. Valid in the language, and never
    /// equal to anything.
    WholeTarget,
}

/// A value of the target cannot take the form that the conversion asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotANumber;

impl FormatFault {
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Incomplete => "it ends within a conversion that begins with '%'".to_owned(),
            Self::OpenKey => "'%(' is not closed with ')'".to_owned(),
            Self::Conversion(letter) => format!("'%' is followed by the unknown conversion '{letter}'"),
            Self::Width => format!("a width or precision is '*' or over {WIDTH_MAX}"),
            Self::MissingKey | Self::WholeTarget => "'%' is not followed by a '(key)'".to_owned(),
        }
    }
}

impl Format {
    pub(crate) fn parse(source: &str) -> Result<Self, FormatFault> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        let (mut fields, mut keyless) = (0, 0);
        while let Some((before, after)) = rest.split_once('%') {
            text.push_str(before);
            if let Some(after) = after.strip_prefix('%') {
                text.push('%');
                rest = after;
                continue;
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            fields += 1;
            keyless += usize::from(!after.starts_with('('));
            let (field, after) = Field::parse(after)?;
            pieces.push(Piece::Field(field));
            rest = after;
        }
        if keyless > 0 {
            return Err(if fields == 1 { FormatFault::WholeTarget } else { FormatFault::MissingKey });
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Self { pieces })
    }

    /// The text, if no value is inserted.
    pub(crate) fn constant(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The keys that are inserted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Field(field) => Some(field.key.as_str()),
        })
    }

    /// The text for this target; `None` if a key is missing. Inserted text is never parsed again.
    ///
    /// # Errors
    /// A numeric conversion of something that is no number.
    pub(crate) fn fill<'t>(&'t self, target: &Target<'t>) -> Result<Option<Cow<'t, str>>, NotANumber> {
        if let [piece] = self.pieces.as_slice() {
            return piece.fill(target);
        }
        let mut out = String::new();
        for piece in &self.pieces {
            match piece.fill(target)? {
                Some(text) => out.push_str(&text),
                None => return Ok(None),
            }
        }
        Ok(Some(Cow::Owned(out)))
    }
}

impl Piece {
    fn fill<'t>(&'t self, target: &Target<'t>) -> Result<Option<Cow<'t, str>>, NotANumber> {
        match self {
            Self::Text(text) => Ok(Some(Cow::Borrowed(text))),
            Self::Field(field) => target.get(&field.key).map(|found| field.convert(found)).transpose(),
        }
    }
}

impl Field {
    /// Reads what follows a `%`, and gives what stands after it.
    fn parse(source: &str) -> Result<(Self, &str), FormatFault> {
        let mut field = Self::default();
        let has_key = source.starts_with('(');
        let mut rest = source;
        if let Some(inner) = source.strip_prefix('(') {
            let end = closing(inner).ok_or(FormatFault::OpenKey)?;
            field.key = inner[..end].to_owned();
            rest = &inner[end + 1..];
        }
        loop {
            match rest.chars().next() {
                Some('-') => field.left = true,
                Some('+') => field.plus = true,
                Some(' ') => field.blank = true,
                Some('0') => field.zero = true,
                Some('#') => field.alternate = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        (field.width, rest) = number(rest)?;
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = number(after)?;
            field.precision = Some(precision);
            rest = after;
        }
        rest = rest.strip_prefix(['h', 'l', 'L']).unwrap_or(rest);
        let letter = rest.chars().next().ok_or(FormatFault::Incomplete)?;
        field.conversion = match letter {
            's' => Conversion::Text,
            'r' => Conversion::Quoted,
            'd' | 'i' | 'u' => Conversion::Decimal,
            'x' => Conversion::Hex,
            'X' => Conversion::UpperHex,
            'o' => Conversion::Octal,
            other => return Err(FormatFault::Conversion(other)),
        };
        if !has_key && !matches!(field.conversion, Conversion::Text | Conversion::Quoted) {
            return Err(FormatFault::MissingKey);
        }
        Ok((field, &rest[letter.len_utf8()..]))
    }

    fn convert<'t>(&self, found: Found<'t>) -> Result<Cow<'t, str>, NotANumber> {
        let text = match self.conversion {
            Conversion::Text => found_text(found),
            Conversion::Quoted => Cow::Owned(found_quoted(found)),
            _ => return self.number(found).map(|number| Cow::Owned(self.pad(number, true))),
        };
        if self.width == 0 && self.precision.is_none() {
            return Ok(text);
        }
        let cut: String = text.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
        Ok(Cow::Owned(self.pad((String::new(), cut), false)))
    }

    /// Sign with prefix, and digits.
    fn number(&self, found: Found<'_>) -> Result<(String, String), NotANumber> {
        let whole = integer(found, self.conversion == Conversion::Decimal)?;
        let magnitude = whole.unsigned_abs();
        let (prefix, digits) = match self.conversion {
            Conversion::Hex => ("0x", format!("{magnitude:x}")),
            Conversion::UpperHex => ("0X", format!("{magnitude:X}")),
            Conversion::Octal => ("0o", format!("{magnitude:o}")),
            _ => ("", magnitude.to_string()),
        };
        let sign = match (whole < 0, self.plus, self.blank) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        };
        let prefix = if self.alternate { prefix } else { "" };
        Ok((format!("{sign}{prefix}"), format!("{digits:0>width$}", width = self.precision.unwrap_or(0))))
    }

    fn pad(&self, (head, body): (String, String), numeric: bool) -> String {
        let missing = self.width.saturating_sub(head.chars().count() + body.chars().count());
        if self.left {
            format!("{head}{body}{}", " ".repeat(missing))
        } else if self.zero && numeric {
            format!("{head}{}{body}", "0".repeat(missing))
        } else {
            format!("{}{head}{body}", " ".repeat(missing))
        }
    }
}

/// Where the parenthesis that encloses `inner` closes; parentheses nest.
fn closing(inner: &str) -> Option<usize> {
    let mut depth = 1_usize;
    for (at, c) in inner.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Leading digits as a number, zero without any.
fn number(source: &str) -> Result<(usize, &str), FormatFault> {
    let end = source.find(|c: char| !c.is_ascii_digit()).unwrap_or(source.len());
    let (digits, rest) = source.split_at(end);
    if rest.starts_with('*') {
        return Err(FormatFault::Width);
    }
    if digits.is_empty() {
        return Ok((0, rest));
    }
    match digits.parse() {
        Ok(value) if value <= WIDTH_MAX => Ok((value, rest)),
        _ => Err(FormatFault::Width),
    }
}

fn found_text(found: Found<'_>) -> Cow<'_, str> {
    match found {
        Found::Null => Cow::Borrowed("None"),
        Found::Text(text) => Cow::Borrowed(text),
        Found::Value(value) => text::of_value(value),
    }
}

fn found_quoted(found: Found<'_>) -> String {
    let mut out = String::new();
    match found {
        Found::Null => out.push_str("None"),
        Found::Text(text) => text::quote_text(&mut out, text),
        Found::Value(value) => out = text::quoted(value),
    }
    out
}

/// The value as a whole number. Fractions are cut for decimal conversions and refused for the others, as in Python.
fn integer(found: Found<'_>, cut_fractions: bool) -> Result<i128, NotANumber> {
    let Found::Value(value) = found else { return Err(NotANumber) };
    match value {
        Value::Bool(flag) => Ok(i128::from(*flag)),
        Value::Number(number) => {
            let written = number.to_string();
            if let Ok(whole) = written.parse() {
                return Ok(whole);
            }
            match written.parse::<f64>() {
                // Formatting is exact, so this is the whole number that the fraction stands for.
                Ok(fraction) if cut_fractions => {
                    format!("{:.0}", fraction.trunc()).parse().map_err(|_| NotANumber)
                }
                _ => Err(NotANumber),
            }
        }
        _ => Err(NotANumber),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(format: &str, values: &Value) -> Option<String> {
        let format = Format::parse(format).unwrap();
        format.fill(&Target::values(values.as_object().unwrap())).unwrap().map(Cow::into_owned)
    }

    #[test]
    fn values_are_inserted() {
        let values = json!({"a": "p1", "n": 42, "neg": -5, "f": 1.9, "t": true, "": "e", "(x)": "y", "nil": null, "huge": 1e22});
        for (format, text) in [
            ("%(a)s", "p1"),
            ("x%(a)sy%%", "xp1y%"),
            ("%%(a)s", "%(a)s"),
            ("%()s%((x))s", "ey"),
            ("%(nil)s", "None"),
            ("%(a)5s|%(a)-4s|%(a).1s|%(a)05s", "   p1|p1  |p|   p1"),
            ("%(a)r", "'p1'"),
            ("%(n)d %(n)5d %(n)-5d| %(n)05d %(n)+d %(n).4d", "42    42 42   | 00042 +42 0042"),
            ("%(neg)05d % (neg)d", "-0005"),
            ("%(n)x %(n)#X %(n)#o %(n)ld", "2a 0X2A 0o52 42"),
            ("%(f)d %(f)i %(t)d", "1 1 1"),
            ("%(huge)d", "10000000000000000000000"),
        ] {
            if format.contains("% (") {
                assert_eq!(Format::parse(format).unwrap_err(), FormatFault::Conversion('('));
                continue;
            }
            assert_eq!(filled(format, &values).as_deref(), Some(text), "{format}");
        }
        assert_eq!(filled("%(missing)s", &values), None);
        assert_eq!(filled("x%(a)s%(missing)s", &values), None);
    }

    #[test]
    fn what_is_no_number_is_not_converted() {
        let values = json!({"a": "1", "nil": null, "f": 1.5, "big": 1e300, "text": "1e3"});
        for format in ["%(a)d", "%(nil)d", "%(f)x", "%(big)d", "%(text)d"] {
            let format = Format::parse(format).unwrap();
            assert_eq!(format.fill(&Target::values(values.as_object().unwrap())), Err(NotANumber));
        }
    }

    #[test]
    fn broken_formats_are_refused() {
        for (format, fault) in [
            ("100%", FormatFault::Incomplete),
            ("%(x", FormatFault::OpenKey),
            ("%((x)s", FormatFault::OpenKey),
            ("%(x)", FormatFault::Incomplete),
            ("%(x)z", FormatFault::Conversion('z')),
            ("%(x)é", FormatFault::Conversion('é')),
            ("%(x)*d", FormatFault::Width),
            ("%(x)999999999s", FormatFault::Width),
            ("%(x).1001s", FormatFault::Width),
            ("%(x)99999999999999999999999s", FormatFault::Width),
            ("%s", FormatFault::WholeTarget),
            ("x%5rx", FormatFault::WholeTarget),
            ("%d", FormatFault::MissingKey),
            ("%s%s", FormatFault::MissingKey),
            ("%(a)s%s", FormatFault::MissingKey),
        ] {
            assert_eq!(Format::parse(format).err(), Some(fault), "{format}");
        }
    }
}

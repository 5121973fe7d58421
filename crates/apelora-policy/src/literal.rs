//! Literals of the rule language: their values, and the text each one has in a comparison.

use crate::text;

/// A value that Python reads as a literal.
#[derive(Debug)]
pub(crate) enum Literal {
    Text(String),
    Bytes(Vec<u8>),
    /// Digits without sign.
    Whole(String),
    Fraction(f64),
    Word(&'static str),
    List(Vec<Literal>),
    Tuple(Vec<Literal>),
    Mapping,
}

impl Literal {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => other.quoted(),
        }
    }

    fn quoted(self) -> String {
        match self {
            Self::Text(text) => {
                let mut out = String::new();
                text::quote_text(&mut out, &text);
                out
            }
            // Bytes beyond ASCII and controls are written as \xNN, which is what quoting does with U+0080 to U+00A0,
            // but not with U+00A1 and on; those are spelled out here.
            Self::Bytes(bytes) => {
                let mut out = String::new();
                let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
                text::quote_text(&mut out, &text);
                let out: String = out
                    .chars()
                    .map(|c| if c.is_ascii() { c.to_string() } else { format!("\\x{:02x}", u32::from(c)) })
                    .collect();
                format!("b{out}")
            }
            Self::Whole(digits) => digits,
            Self::Fraction(number) => text::of_float(number),
            Self::Word(word) => word.to_owned(),
            Self::List(items) => format!("[{}]", joined(items)),
            Self::Tuple(items) if items.len() == 1 => format!("({},)", joined(items)),
            Self::Tuple(items) => format!("({})", joined(items)),
            Self::Mapping => "{}".to_owned(),
        }
    }
}

fn joined(items: Vec<Literal>) -> String {
    items.into_iter().map(Literal::quoted).collect::<Vec<_>>().join(", ")
}

/// What follows a backslash. An unknown escape keeps its backslash.
pub(crate) fn escape(
    chars: &mut std::str::Chars<'_>,
    out: &mut String,
    bytes: bool,
) -> Result<(), &'static str> {
    let code = chars.next().ok_or("a text is not closed")?;
    let plain = match code {
        '\\' | '\'' | '"' => code,
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        'x' => coded(chars, 2)?,
        'u' if !bytes => coded(chars, 4)?,
        'U' if !bytes => coded(chars, 8)?,
        'N' if !bytes => return Err("characters by name are not supported"),
        '0'..='7' => octal(chars, code, bytes)?,
        other => {
            out.push('\\');
            other
        }
    };
    out.push(plain);
    Ok(())
}

fn coded(chars: &mut std::str::Chars<'_>, digits: usize) -> Result<char, &'static str> {
    let source = chars.as_str();
    let code = source.get(..digits).filter(|code| code.chars().all(|c| c.is_ascii_hexdigit()));
    let value = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
    *chars = source.get(digits..).unwrap_or("").chars();
    value.ok_or("an escape names no character")
}

fn octal(chars: &mut std::str::Chars<'_>, first: char, bytes: bool) -> Result<char, &'static str> {
    let mut value = first.to_digit(8).unwrap_or(0);
    for _ in 0..2 {
        let Some(digit) = chars.clone().next().and_then(|c| c.to_digit(8)) else { break };
        value = value * 8 + digit;
        chars.next();
    }
    // Python keeps the low eight bits of an octal escape in bytes.
    char::from_u32(if bytes { value & 0xff } else { value }).ok_or("an escape names no character")
}

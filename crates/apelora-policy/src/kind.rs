//! The left-hand side of a generic check: a literal, or the path of a credential.
//!
//! The language takes what Python reads as a literal (`'text'`, `True`, `None`, numbers, lists) for its text, and
//! everything else for a dotted path into the credentials. What Python cannot read at all is refused at load, because
//! there it fails only when a request comes. A few expressions that Python can read and nobody means are refused as
//! well: calls with keywords, comparisons with words, complex numbers, sets.

use crate::literal::{Literal, escape};

/// How deep brackets may nest.
const DEPTH_MAX: usize = 32;

/// The meaning of a left-hand side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A literal, by its text.
    Literal(String),
    /// Where in the credentials to look.
    Path(Vec<String>),
}

/// Reads a left-hand side.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(source: &str) -> Result<Kind, &'static str> {
    let mut reader = Reader { rest: source, depth: 0 };
    let value = reader.list("")?;
    // The rest may be a comment, which Python ignores.
    if !reader.rest.is_empty() && !reader.rest.starts_with('#') {
        return Err("it is no expression");
    }
    Ok(match value {
        Read::Literal(literal) => Kind::Literal(literal.text()),
        Read::Other => Kind::Path(source.split('.').map(str::to_owned).collect()),
    })
}

/// What a part of the source was read as.
#[derive(Debug)]
enum Read {
    Literal(Literal),
    /// An expression that is none: names, operators, calls.
    Other,
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

/// Words that are no names in Python. None of them can stand in an expression without blanks around it, except the
/// three that are literals.
const KEYWORDS: [&str; 32] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
    "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not",
    "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Longest first, so that `**` is not read as `*`.
const OPERATORS: [&str; 19] =
    ["**", "//", "<<", ">>", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "@", "&", "|", "^", "<", ">"];

impl<'a> Reader<'a> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Expressions with commas between them, up to but without the closing bracket.
    fn list(&mut self, close: &str) -> Result<Read, &'static str> {
        let (items, commas) = self.items(close)?;
        match (items.len(), commas) {
            (0, _) => Err("it is empty"),
            (1, 0) => items.into_iter().next().ok_or("it is empty"),
            _ => Ok(literals(items).map_or(Read::Other, |items| Read::Literal(Literal::Tuple(items)))),
        }
    }

    fn items(&mut self, close: &str) -> Result<(Vec<Read>, usize), &'static str> {
        let mut items = Vec::new();
        let mut commas = 0;
        loop {
            let at_end = self.rest.is_empty()
                || self.rest.starts_with('#')
                || (!close.is_empty() && self.rest.starts_with(close));
            if at_end {
                return Ok((items, commas));
            }
            items.push(self.expression()?);
            if !self.eat(",") {
                return Ok((items, commas));
            }
            commas += 1;
        }
    }

    /// Operands with operators between them.
    fn expression(&mut self) -> Result<Read, &'static str> {
        let mut value = self.signed()?;
        while let Some(operator) = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)) {
            self.rest = &self.rest[operator.len()..];
            self.signed()?;
            value = Read::Other;
        }
        Ok(value)
    }

    /// An operand with its signs. One sign before a number makes a literal, two do not.
    fn signed(&mut self) -> Result<Read, &'static str> {
        let start = self.rest;
        let signs = start.len() - start.trim_start_matches(['+', '-', '~']).len();
        self.rest = &start[signs..];
        let value = self.operand()?;
        Ok(match (&start[..signs], value) {
            ("", value) => value,
            ("+", Read::Literal(number @ (Literal::Whole(_) | Literal::Fraction(_)))) => {
                Read::Literal(number)
            }
            ("-", Read::Literal(Literal::Whole(digits))) => {
                let zero = digits == "0";
                Read::Literal(Literal::Whole(if zero { digits } else { format!("-{digits}") }))
            }
            ("-", Read::Literal(Literal::Fraction(number))) => Read::Literal(Literal::Fraction(-number)),
            _ => Read::Other,
        })
    }

    /// A name, literal or bracket, with what hangs on it: attributes, calls, subscripts.
    fn operand(&mut self) -> Result<Read, &'static str> {
        let mut value = self.atom()?;
        loop {
            if self.rest.starts_with('.') {
                self.rest = &self.rest[1..];
                match self.name() {
                    "" => return Err("a '.' is not followed by a name"),
                    name if is_keyword(name) || constant(name).is_some() => {
                        return Err("it contains a word that Python reserves");
                    }
                    _ => {}
                }
            } else if self.eat("(") {
                self.nested(")")?;
            } else if self.eat("[") {
                if self.nested("]")?.is_empty() {
                    return Err("a '[' is not followed by an index");
                }
            } else {
                return Ok(value);
            }
            value = Read::Other;
        }
    }

    fn nested(&mut self, close: &str) -> Result<Vec<Read>, &'static str> {
        self.bracket(close).map(|(items, _)| items)
    }

    fn bracket(&mut self, close: &str) -> Result<(Vec<Read>, usize), &'static str> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("its brackets nest too deeply");
        }
        let content = self.items(close)?;
        if !self.eat(close) {
            return Err("a bracket is not closed");
        }
        self.depth -= 1;
        Ok(content)
    }

    fn atom(&mut self) -> Result<Read, &'static str> {
        let Some(first) = self.rest.chars().next() else { return Err("an operand is missing") };
        match first {
            '\'' | '"' => self.texts(""),
            '[' => {
                self.rest = &self.rest[1..];
                let items = self.nested("]")?;
                Ok(literals(items).map_or(Read::Other, |items| Read::Literal(Literal::List(items))))
            }
            '(' => {
                self.rest = &self.rest[1..];
                let (items, commas) = self.bracket(")")?;
                if items.len() == 1 && commas == 0 {
                    return items.into_iter().next().ok_or("a bracket is empty");
                }
                if items.is_empty() && commas > 0 {
                    return Err("a comma stands alone");
                }
                Ok(literals(items).map_or(Read::Other, |items| Read::Literal(Literal::Tuple(items))))
            }
            '{' => {
                if self.eat("{}") {
                    return Ok(Read::Literal(Literal::Mapping));
                }
                Err("sets are not supported")
            }
            '.' if self.eat("...") => Ok(Read::Literal(Literal::Word("Ellipsis"))),
            '0'..='9' | '.' => self.number().map(Read::Literal),
            c if is_name_start(c) => {
                let name = self.name();
                if self.rest.starts_with(['\'', '"']) {
                    return self.texts(name);
                }
                if is_keyword(name) {
                    return Err("it is a word that Python reserves");
                }
                Ok(constant(name).map_or(Read::Other, |word| Read::Literal(Literal::Word(word))))
            }
            _ => Err("it contains a character that has no meaning there"),
        }
    }

    fn name(&mut self) -> &'a str {
        let start = self.rest;
        let starts = start.chars().next().is_some_and(is_name_start);
        let end = start.find(|c: char| !is_name(c)).unwrap_or(start.len());
        let (name, rest) = if starts { start.split_at(end) } else { ("", start) };
        self.rest = rest;
        name
    }

    /// One or more texts side by side, the first of which has this prefix.
    fn texts(&mut self, first_prefix: &str) -> Result<Read, &'static str> {
        let mut prefix = first_prefix.to_ascii_lowercase();
        let mut text = String::new();
        let mut bytes = Vec::new();
        let (mut parts, mut byte_parts, mut is_template) = (0, 0, false);
        loop {
            let raw = prefix.contains('r');
            parts += 1;
            match prefix.as_str() {
                "" | "u" | "r" => text.push_str(&self.quoted(raw, false)?),
                "b" | "br" | "rb" => {
                    byte_parts += 1;
                    let part = self.quoted(raw, true)?;
                    for c in part.chars() {
                        bytes.push(u8::try_from(u32::from(c)).map_err(|_| "bytes must be ASCII")?);
                    }
                }
                "f" | "fr" | "rf" => {
                    is_template = true;
                    if self.quoted(raw, false)?.contains(['{', '}']) {
                        return Err("text templates are not supported");
                    }
                }
                _ => return Err("a text has an unknown prefix"),
            }
            let before = self.rest;
            let next_prefix = self.name().to_ascii_lowercase();
            if self.rest.starts_with(['\'', '"']) {
                prefix = next_prefix;
            } else if next_prefix.is_empty() {
                self.rest = before;
                break;
            } else {
                return Err("a text is followed by a name");
            }
        }
        match byte_parts {
            _ if byte_parts > 0 && byte_parts < parts => Err("bytes and text cannot be joined"),
            0 if is_template => Ok(Read::Other),
            0 => Ok(Read::Literal(Literal::Text(text))),
            _ => Ok(Read::Literal(Literal::Bytes(bytes))),
        }
    }

    /// A quoted text with its escapes undone.
    fn quoted(&mut self, raw: bool, bytes: bool) -> Result<String, &'static str> {
        let mut chars = self.rest.chars();
        let Some(mark) = chars.next() else { return Err("a text is not closed") };
        let mut out = String::new();
        loop {
            match chars.next() {
                None => return Err("a text is not closed"),
                Some(c) if c == mark => break,
                Some('\\') if raw => {
                    out.push('\\');
                    out.push(chars.next().ok_or("a text is not closed")?);
                }
                Some('\\') => escape(&mut chars, &mut out, bytes)?,
                Some(c) if bytes && !c.is_ascii() => return Err("bytes must be ASCII"),
                Some(c) => out.push(c),
            }
        }
        self.rest = chars.as_str();
        if out.is_empty() && self.rest.starts_with(mark) {
            return Err("texts in triple quotes are not supported");
        }
        Ok(out)
    }

    fn number(&mut self) -> Result<Literal, &'static str> {
        let start = self.rest;
        let radix = match start.get(..2) {
            Some("0x" | "0X") => 16,
            Some("0o" | "0O") => 8,
            Some("0b" | "0B") => 2,
            _ => 10,
        };
        if radix != 10 {
            let end = start[2..].find(|c: char| !is_name(c)).map_or(start.len(), |at| at + 2);
            let digits = start[2..end].strip_prefix('_').unwrap_or(&start[2..end]);
            self.rest = &start[end..];
            let value = u128::from_str_radix(&ungrouped(digits)?, radix);
            return value.map(|value| Literal::Whole(value.to_string())).map_err(|_| "a number is malformed");
        }
        let whole = self.digits();
        let mut is_whole = true;
        let mut written = ungrouped_or_empty(whole)?;
        if self.eat(".") {
            is_whole = false;
            written.push('.');
            let decimals = self.digits();
            written.push_str(&ungrouped_or_empty(decimals)?);
        }
        if self.rest.starts_with(['e', 'E']) {
            is_whole = false;
            self.rest = &self.rest[1..];
            written.push('e');
            if self.rest.starts_with(['+', '-']) {
                written.push_str(&self.rest[..1]);
                self.rest = &self.rest[1..];
            }
            let power = self.digits();
            written.push_str(&ungrouped(power)?);
        }
        if self.rest.chars().next().is_some_and(is_name) {
            return Err("a number is followed by a letter");
        }
        if !is_whole {
            return written.parse().map(Literal::Fraction).map_err(|_| "a number is malformed");
        }
        let significant = written.trim_start_matches('0');
        match (significant, written.len()) {
            ("", _) => Ok(Literal::Whole("0".to_owned())),
            (_, length) if significant.len() < length => Err("a number begins with a zero"),
            _ => Ok(Literal::Whole(written)),
        }
    }

    fn digits(&mut self) -> &'a str {
        let start = self.rest;
        let end = start.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(start.len());
        let (digits, rest) = start.split_at(end);
        self.rest = rest;
        digits
    }
}

fn literals(items: Vec<Read>) -> Option<Vec<Literal>> {
    items
        .into_iter()
        .map(|item| match item {
            Read::Literal(literal) => Some(literal),
            Read::Other => None,
        })
        .collect()
}

fn constant(name: &str) -> Option<&'static str> {
    ["None", "True", "False"].into_iter().find(|word| *word == name)
}

fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Digits without the single underscores that may group them.
fn ungrouped(digits: &str) -> Result<String, &'static str> {
    if digits.is_empty() || digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return Err("a number is malformed");
    }
    Ok(digits.replace('_', ""))
}

fn ungrouped_or_empty(digits: &str) -> Result<String, &'static str> {
    if digits.is_empty() { Ok(String::new()) } else { ungrouped(digits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_their_text() {
        for (source, text) in [
            ("'Member'", "Member"),
            ("\"Member\"", "Member"),
            ("u'Member'", "Member"),
            ("'Me\\x6d\\142er\\u0021\\q'", "Member!\\q"),
            ("r'a\\x'", "a\\x"),
            ("'a'\"b\"", "ab"),
            ("''", ""),
            ("b'Me\\xff\\''", "b\"Me\\xff'\""),
            ("None", "None"),
            ("True", "True"),
            ("...", "Ellipsis"),
            ("0x10", "16"),
            ("0XfF", "255"),
            ("0b1_0", "2"),
            ("1_000", "1000"),
            ("00", "0"),
            ("-0", "0"),
            ("-1", "-1"),
            ("+1", "1"),
            ("1.50", "1.5"),
            ("1e3", "1000.0"),
            (".5", "0.5"),
            ("1.", "1.0"),
            ("-1e-7", "-1e-07"),
            ("99999999999999999999999999999999999999999", "99999999999999999999999999999999999999999"),
            ("[1,2]", "[1, 2]"),
            ("[]", "[]"),
            ("['a',[None]]", "['a', [None]]"),
            ("[(),(1,),('a',2)]", "[(), (1,), ('a', 2)]"),
            ("[(1)]", "[1]"),
            ("{}", "{}"),
            ("1,", "(1,)"),
            ("1,2", "(1, 2)"),
            ("'x'#y", "x"),
        ] {
            assert_eq!(read(source), Ok(Kind::Literal(text.to_owned())), "{source}");
        }
    }

    #[test]
    fn everything_else_that_can_be_read_is_a_path() {
        for source in [
            "project_id",
            "user.domain.id",
            "é",
            "a-b",
            "a@b",
            "a/b",
            "a,b",
            "--1",
            "project_%id",
            "f(x)",
            "a[0]",
            "f'Member'",
            "[a]",
            "a#b",
            "1+2",
            "a**-b",
            "'a'.b",
            "(a.b)",
            "a!=b",
            "nt",
        ] {
            let path = source.split('.').map(str::to_owned).collect();
            assert_eq!(read(source), Ok(Kind::Path(path)), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let deep = "[".repeat(500);
        for source in [
            "",
            "1abc",
            "1if",
            "class",
            "lambda",
            "$x",
            ".a",
            "a?b",
            "!a",
            "#",
            "a=b",
            "[",
            "😀",
            "\"abc",
            "'x",
            "(a",
            "a)",
            ")(a",
            "syst(em",
            "groups.0",
            "a..b",
            "a.",
            "user.class",
            "a.None",
            "01",
            "0x",
            "0xg",
            "1__0",
            "1_",
            "{1}",
            "'''a'''",
            "b'é'",
            "b'a''b'",
            "'\\xz'",
            "'\\ud800'",
            "'\\N{DASH}'",
            "x'a'",
            "a,,b",
            ",",
            "(,)",
            "a[]",
            "1+2j",
            "not(x)",
            "a+",
            "f'{a}'",
            "'a'b",
            "1e",
            &deep,
        ] {
            assert!(read(source).is_err(), "{source}: {:?}", read(source));
        }
    }
}

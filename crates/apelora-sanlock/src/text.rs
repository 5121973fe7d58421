//! The `key=value` text of a state record.

use crate::error::Garbage;

/// The pairs of one record, in their order. Unknown keys are kept and never asked for: they differ by version.
#[derive(Debug)]
pub(crate) struct Pairs<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> Pairs<'a> {
    /// Splits at spaces. With `last`, everything behind that key is its value: it may be any text.
    pub(crate) fn parse(text: &'a [u8], last: Option<&'static str>) -> Result<Self, Garbage> {
        let (text, tail) = match last {
            None => (text, None),
            Some(key) => {
                let marker = format!(" {key}=");
                let at = text.windows(marker.len()).position(|w| w == marker.as_bytes());
                let at = at.ok_or(Garbage::Missing(key))?;
                (&text[..at], Some((key.as_bytes(), &text[at + marker.len()..])))
            }
        };
        let pairs = text.split(|b| *b == b' ').map(|pair| {
            let at = pair.iter().position(|b| *b == b'=').filter(|at| *at > 0).ok_or(Garbage::Pairs)?;
            Ok((&pair[..at], &pair[at + 1..]))
        });
        Ok(Self(pairs.chain(tail.map(Ok)).collect::<Result<_, _>>()?))
    }

    /// The value of a key that must be there once.
    pub(crate) fn bytes(&self, key: &'static str) -> Result<&'a [u8], Garbage> {
        let mut values = self.0.iter().filter(|(k, _)| *k == key.as_bytes()).map(|(_, v)| *v);
        let value = values.next().ok_or(Garbage::Missing(key))?;
        if values.next().is_some() {
            return Err(Garbage::Twice(key));
        }
        Ok(value)
    }

    /// A number without sign.
    pub(crate) fn unsigned(&self, key: &'static str) -> Result<u64, Garbage> {
        let digits = self.bytes(key)?;
        number(digits).ok_or(Garbage::Value(key))
    }

    /// Seconds of an I/O timeout, for which a lease has 16 bits: a larger one would let everything seem fresh.
    pub(crate) fn io_timeout(&self) -> Result<u64, Garbage> {
        const KEY: &str = "io_timeout";
        self.unsigned(KEY)
            .and_then(|n| if n <= u64::from(u16::MAX) { Ok(n) } else { Err(Garbage::Value(KEY)) })
    }

    /// A number that may be negative.
    pub(crate) fn signed(&self, key: &'static str) -> Result<i64, Garbage> {
        let text = self.bytes(key)?;
        let (negative, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
        let value = number(digits).and_then(|n| i64::try_from(n).ok()).ok_or(Garbage::Value(key))?;
        Ok(if negative { -value } else { value })
    }

    /// 0, or anything else.
    pub(crate) fn is_set(&self, key: &'static str) -> Result<bool, Garbage> {
        self.signed(key).map(|n| n != 0)
    }
}

/// Digits and nothing else; the standard library would take a plus sign.
fn number(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A name as text. Bytes that are no printable text are escaped, so that different names stay different.
pub(crate) fn readable(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.contains(|c: char| c.is_control() || c == '\\') => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_strict() {
        let pairs = Pairs::parse(b"a=1 b=-90 c=x=y d=", None).unwrap();
        assert_eq!(pairs.unsigned("a"), Ok(1));
        assert_eq!(pairs.signed("b"), Ok(-90));
        assert_eq!(pairs.unsigned("b"), Err(Garbage::Value("b")));
        assert_eq!(pairs.bytes("c"), Ok(&b"x=y"[..]));
        assert_eq!(pairs.unsigned("d"), Err(Garbage::Value("d")));
        assert_eq!(pairs.unsigned("e"), Err(Garbage::Missing("e")));
        for text in ["a", "a=1  b=2", "=1", "a=1 ", ""] {
            assert_eq!(Pairs::parse(text.as_bytes(), None).unwrap_err(), Garbage::Pairs, "{text:?}");
        }
        let twice = Pairs::parse(b"a=1 a=1", None).unwrap();
        assert_eq!(twice.unsigned("a"), Err(Garbage::Twice("a")));
        for number in ["+1", "18446744073709551616", "0x1", "--1", "1-"] {
            let text = format!("n={number}");
            let pairs = Pairs::parse(text.as_bytes(), None).unwrap();
            assert_eq!(pairs.unsigned("n"), Err(Garbage::Value("n")), "{number}");
            assert_eq!(pairs.signed("n"), Err(Garbage::Value("n")), "{number}");
        }
    }

    #[test]
    fn the_last_key_takes_the_rest() {
        let pairs = Pairs::parse(b"timestamp=7 owner_name=a b timestamp=9", Some("owner_name")).unwrap();
        assert_eq!(pairs.unsigned("timestamp"), Ok(7));
        assert_eq!(pairs.bytes("owner_name"), Ok(&b"a b timestamp=9"[..]));
        assert_eq!(Pairs::parse(b"a=1", Some("owner_name")).unwrap_err(), Garbage::Missing("owner_name"));
    }

    #[test]
    fn names_that_are_no_text_stay_apart() {
        assert_eq!(readable("member-01 ü".as_bytes()), "member-01 ü");
        assert_eq!(readable(b"a\xff"), "a\\xff");
        assert_eq!(readable(br"a\xff"), r"a\\xff");
        assert_eq!(readable(b"a\nb"), "a\\nb");
    }
}

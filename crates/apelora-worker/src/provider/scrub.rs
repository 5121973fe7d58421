//! What may be said about a BMC: bounded, on one line, and without the secrets that were used with it.

use std::fmt::{self, Display, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

/// A detail is not longer than this, in characters.
const MOST: usize = 400;

/// Shorter than this a text is no secret: it would stand in every sentence.
const SHORTEST: usize = 4;

/// Takes secrets out of texts. The clients' errors contain none by themselves; a hostile BMC may put what it was sent
/// wherever it is quoted (a path, a UUID), so what it said is looked through before it is kept.
#[derive(Default)]
pub(crate) struct Scrub {
    forms: Vec<SecretString>,
}

impl Scrub {
    /// Adds a secret: as it is, in base64 and in hexadecimal digits.
    #[must_use]
    pub(crate) fn without(mut self, secret: &SecretString) -> Self {
        self.add(secret.expose_secret());
        self
    }

    /// Adds the pair that HTTP basic authentication sends.
    #[must_use]
    pub(crate) fn without_pair(mut self, user: &str, password: &SecretString) -> Self {
        let password = password.expose_secret();
        let mut pair = Zeroizing::new(String::with_capacity(user.len() + 1 + password.len()));
        pair.push_str(user);
        pair.push(':');
        pair.push_str(password);
        self.add(&pair);
        self
    }

    fn add(&mut self, secret: &str) {
        if secret.len() < SHORTEST {
            return;
        }
        let hex = |upper: bool| {
            let mut text = String::with_capacity(2 * secret.len());
            for byte in secret.bytes() {
                // Writing into a string cannot fail.
                let written = if upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
                debug_assert!(written.is_ok());
            }
            text
        };
        self.forms.push(secret.into());
        for encoded in [STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret), hex(false), hex(true)]
        {
            self.forms.push(SecretString::from(encoded));
        }
    }

    /// The text without secrets and control characters, cut to a bounded length.
    pub(crate) fn text(&self, said: impl Display) -> String {
        let mut text = Zeroizing::new(said.to_string());
        for form in &self.forms {
            let form = form.expose_secret();
            if text.contains(form) {
                text = Zeroizing::new(text.replace(form, "(secret)"));
            }
        }
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let mut kept: String = text.chars().take(MOST).map(shown).collect();
        if text.chars().nth(MOST).is_some() {
            kept.push('…');
        }
        kept
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrub(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_out_in_every_form() {
        let password = SecretString::from("p\"4ss?>word");
        let scrub = Scrub::default().without(&password).without_pair("apelora", &password);
        let pair = format!("apelora:{}", password.expose_secret());
        let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
        for text in [password.expose_secret(), &pair] {
            for form in [
                text.to_owned(),
                STANDARD_NO_PAD.encode(text),
                URL_SAFE_NO_PAD.encode(text),
                hex(text),
                hex(text).to_uppercase(),
            ] {
                let said = scrub.text(format!("at /redfish/v1/Systems/{form}=, twice {form}"));
                assert!(!said.contains(&form) && said.contains("(secret)"), "{said}");
            }
        }
        assert!(!format!("{scrub:?}").contains("word"));
    }

    #[test]
    fn a_detail_is_one_bounded_line() {
        let scrub = Scrub::default().without(&"abc".into());
        assert_eq!(scrub.text("abc\r\n\u{1b}[31mred"), "abc   [31mred");
        let long = scrub.text("ä".repeat(10_000));
        assert_eq!(long.chars().count(), MOST + 1);
        // A secret that the cut would go through is taken out before.
        let secret = SecretString::from("secret-marker");
        let said = Scrub::default().without(&secret).text(format!("{}secret-marker", "x".repeat(MOST - 4)));
        assert!(!said.contains("secr") || said.contains("(sec"), "{said}");
    }
}

//! A token, which is a secret: whoever has it is its user.

use apelora_http::header::HeaderValue;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use zeroize::Zeroizing;

use crate::Invalid;

/// The longest token that is looked at, in bytes. Fernet tokens have about 200.
pub const LONGEST_TOKEN: usize = 8 * 1024;

/// A token as a client presented it. It cannot be printed, and its bytes are overwritten when the last copy is dropped.
#[derive(Clone)]
pub struct Token(HeaderValue);

/// What stands for a token where it is remembered. Nothing prints it either: it would tell who came again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenDigest([u8; 32]);

impl Token {
    /// Takes the value of an `X-Auth-Token` or `X-Service-Token` header; blanks around it do not count.
    ///
    /// # Errors
    /// [`Invalid::Missing`] when it is empty, [`Invalid::TooLong`] beyond [`LONGEST_TOKEN`], [`Invalid::Malformed`] when it
    /// holds anything but visible ASCII. Keystone is asked in none of these cases.
    pub fn read(raw: &[u8]) -> Result<Self, Invalid> {
        let trimmed = raw.trim_ascii();
        if trimmed.is_empty() {
            return Err(Invalid::Missing);
        }
        if trimmed.len() > LONGEST_TOKEN {
            return Err(Invalid::TooLong);
        }
        if !trimmed.iter().all(u8::is_ascii_graphic) {
            return Err(Invalid::Malformed);
        }
        let bytes = Bytes::from_owner(Zeroizing::new(trimmed.to_vec()));
        let mut value = HeaderValue::from_maybe_shared(bytes).map_err(|_| Invalid::Malformed)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(crate) fn digest(&self) -> TokenDigest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, self.0.as_bytes()).as_ref());
        TokenDigest(bytes)
    }

    /// The header's value, marked as sensitive.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_a_token_do_not_count() {
        let token = Token::read(b" \tgAAAAABsecret \r\n").unwrap();
        assert!(token.digest() == Token::read(b"gAAAAABsecret").unwrap().digest());
        assert!(token.digest() != Token::read(b"gAAAAABsecret==").unwrap().digest());
        assert!(token.header().is_sensitive());
    }

    #[test]
    fn what_can_be_no_token_is_refused_here() {
        for (raw, why) in [
            (b"".to_vec(), Invalid::Missing),
            (b" \t ".to_vec(), Invalid::Missing),
            (vec![b'a'; LONGEST_TOKEN + 1], Invalid::TooLong),
            (b"two words".to_vec(), Invalid::Malformed),
            (b"line\r\nX-Roles: admin".to_vec(), Invalid::Malformed),
            (b"nul\0".to_vec(), Invalid::Malformed),
            ("tök".as_bytes().to_vec(), Invalid::Malformed),
            (vec![0xff, 0xfe], Invalid::Malformed),
        ] {
            assert_eq!(Token::read(&raw).unwrap_err(), why);
        }
        assert!(Token::read(&vec![b'a'; LONGEST_TOKEN]).is_ok());
    }

    #[test]
    fn a_token_is_not_printed() {
        assert_eq!(format!("{:?}", Token::read(b"gAAAAABsecret").unwrap()), "Token(…)");
    }
}

//! What a BMC account needs: name, password and, where one is set, the BMC key.

use std::fmt;

use secrecy::{ExposeSecret, SecretSlice, SecretString};
use zeroize::Zeroizing;

/// Longest user name in bytes (IPMI 2.0, section 22.28, Set User Name).
const USER_LIMIT: usize = 16;
/// Longest password and longest BMC key in bytes (IPMI 2.0, sections 22.30 and 22.25).
const SECRET_LIMIT: usize = 20;

/// A checked account. The password is the HMAC key of the handshake: it is never sent. Nothing here can be printed, and
/// the secrets are zeroed on drop.
#[derive(Clone)]
pub struct Credentials {
    user: Vec<u8>,
    password: SecretSlice<u8>,
    bmc_key: Option<SecretSlice<u8>>,
}

/// An account that no BMC can have. The texts name the field and never its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// The user name is empty.
    #[error("the BMC user name is empty: name an operator account")]
    NoUser,
    /// The user name is longer than 16 bytes.
    #[error("the BMC user name is {0} bytes long: IPMI allows at most 16")]
    UserTooLong(usize),
    /// The password is empty.
    #[error("the BMC password is empty: set a random one of 16 to 20 bytes")]
    NoPassword,
    /// The password is longer than 20 bytes.
    #[error("the BMC password is {0} bytes long: IPMI allows at most 20 and nothing is cut silently")]
    PasswordTooLong(usize),
    /// The BMC key is empty.
    #[error("the BMC key (kg_secret) is empty: leave kg_secret out when the BMC has no key")]
    NoBmcKey,
    /// The BMC key is longer than 20 bytes and is not the hexadecimal form.
    #[error(
        "the BMC key (kg_secret) is {0} bytes long: write at most 20 bytes, or 0x and exactly 40 hex digits"
    )]
    BmcKeyTooLong(usize),
}

impl Credentials {
    /// Checks an account. Lengths are counted in bytes of UTF-8. A BMC key is taken as it is written, or as bytes when it
    /// is `0x` and exactly 40 hexadecimal digits (no 20-byte text can look like that).
    ///
    /// # Errors
    /// An empty name or secret, or one that is longer than IPMI allows.
    pub fn new(
        user: &str,
        password: &SecretString,
        bmc_key: Option<&SecretString>,
    ) -> Result<Self, CredentialsError> {
        match user.len() {
            0 => return Err(CredentialsError::NoUser),
            1..=USER_LIMIT => {}
            long => return Err(CredentialsError::UserTooLong(long)),
        }
        let password = password.expose_secret().as_bytes();
        match password.len() {
            0 => return Err(CredentialsError::NoPassword),
            1..=SECRET_LIMIT => {}
            long => return Err(CredentialsError::PasswordTooLong(long)),
        }
        let bmc_key = match bmc_key {
            None => None,
            Some(text) => Some(bmc_key_bytes(text.expose_secret())?),
        };
        Ok(Self::from_bytes(user.as_bytes(), password, bmc_key.as_ref().map(|key| key.as_slice())))
    }

    /// The same from raw bytes that the caller has checked.
    pub(crate) fn from_bytes(user: &[u8], password: &[u8], bmc_key: Option<&[u8]>) -> Self {
        Self {
            user: user.to_vec(),
            password: SecretSlice::from(password.to_vec()),
            bmc_key: bmc_key.map(|key| SecretSlice::from(key.to_vec())),
        }
    }

    pub(crate) fn user(&self) -> &[u8] {
        &self.user
    }

    /// Key of the RAKP 2 and RAKP 3 codes (Kuid).
    pub(crate) fn password(&self) -> &[u8] {
        self.password.expose_secret()
    }

    /// Key of the session integrity key: the BMC key, or the password where the BMC has none ("one-key" login).
    pub(crate) fn session_key(&self) -> &[u8] {
        self.bmc_key.as_ref().unwrap_or(&self.password).expose_secret()
    }

    pub(crate) const fn has_bmc_key(&self) -> bool {
        self.bmc_key.is_some()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

fn bmc_key_bytes(text: &str) -> Result<Zeroizing<Vec<u8>>, CredentialsError> {
    match text.len() {
        0 => Err(CredentialsError::NoBmcKey),
        1..=SECRET_LIMIT => Ok(Zeroizing::new(text.as_bytes().to_vec())),
        long => text
            .strip_prefix("0x")
            .filter(|digits| digits.len() == 2 * SECRET_LIMIT)
            .and_then(from_hex)
            .ok_or(CredentialsError::BmcKeyTooLong(long)),
    }
}

fn from_hex(digits: &str) -> Option<Zeroizing<Vec<u8>>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
    for pair in digits.as_bytes().chunks_exact(2) {
        let [high, low] = pair else { return None };
        bytes.push((nibble(*high)? << 4) | nibble(*low)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretString {
        SecretString::from(text.to_owned())
    }

    fn error(user: &str, password: &str, bmc_key: Option<&str>) -> CredentialsError {
        Credentials::new(user, &secret(password), bmc_key.map(secret).as_ref()).unwrap_err()
    }

    #[test]
    fn limits_are_bytes_and_nothing_is_cut() {
        assert_eq!(error("", "p", None), CredentialsError::NoUser);
        assert_eq!(error("seventeen-bytes-x", "p", None), CredentialsError::UserTooLong(17));
        assert_eq!(error("op", "", None), CredentialsError::NoPassword);
        assert_eq!(error("op", "123456789012345678901", None), CredentialsError::PasswordTooLong(21));
        // Eleven characters, but 22 bytes.
        assert_eq!(error("op", "ööööööööööö", None), CredentialsError::PasswordTooLong(22));
        assert_eq!(error("op", "p", Some("")), CredentialsError::NoBmcKey);
        assert_eq!(error("op", "p", Some("123456789012345678901")), CredentialsError::BmcKeyTooLong(21));
        assert!(Credentials::new("sixteen-bytes-xx", &secret("12345678901234567890"), None).is_ok());
    }

    #[test]
    fn a_bmc_key_is_text_or_forty_hex_digits() {
        let key = |text: &str| {
            let made = Credentials::new("op", &secret("p"), Some(&secret(text))).unwrap();
            assert!(made.has_bmc_key());
            made.session_key().to_vec()
        };
        assert_eq!(key("0x00"), b"0x00");
        assert_eq!(key(&format!("0x{}", "0aF1".repeat(10))), [0x0a, 0xf1].repeat(10));
        for bad in [format!("0x{}", "0g".repeat(20)), format!("0x{}", "00".repeat(19)), "00".repeat(20)] {
            assert_eq!(error("op", "p", Some(&bad)), CredentialsError::BmcKeyTooLong(bad.len()));
        }
        assert_eq!(Credentials::new("op", &secret("p"), None).unwrap().session_key(), b"p");
    }

    #[test]
    fn nothing_is_printed() {
        let made = Credentials::new("operator", &secret("s3cret"), Some(&secret("k3y"))).unwrap();
        assert_eq!(format!("{made:?}"), "Credentials(..)");
    }
}

//! HTTP basic authentication (RFC 7617).

use apelora_http::header::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::RedfishError;

const SCHEME: &str = "Basic ";

/// Makes the header's value. Its memory is zeroed when the last copy is dropped, and it is marked as sensitive, so that
/// no debug output shows it. Copies in the write buffers of HTTP and TLS are beyond reach; they live as long as the
/// connection.
pub(crate) fn basic(user: &str, password: &SecretString) -> Result<HeaderValue, RedfishError> {
    if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) {
        return Err(RedfishError::User);
    }
    let password = password.expose_secret();
    if password.is_empty() || password.chars().any(char::is_control) {
        return Err(RedfishError::Password);
    }
    // Sized before it is filled: growing would leave copies behind.
    let mut pair = Zeroizing::new(Vec::with_capacity(user.len() + 1 + password.len()));
    pair.extend_from_slice(user.as_bytes());
    pair.push(b':');
    pair.extend_from_slice(password.as_bytes());

    let room = base64::encoded_len(pair.len(), true).ok_or(RedfishError::Password)?;
    let mut value = Zeroizing::new(vec![0; SCHEME.len() + room]);
    let (scheme, encoded) = value.split_at_mut(SCHEME.len());
    scheme.copy_from_slice(SCHEME.as_bytes());
    STANDARD.encode_slice(pair.as_slice(), encoded).map_err(|_| RedfishError::Password)?;

    let shared = Bytes::from_owner(value);
    let mut header = HeaderValue::from_maybe_shared(shared).map_err(|_| RedfishError::Password)?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_as_rfc_7617_has_it() {
        let value = basic("Aladdin", &"open sesame".into()).unwrap();
        assert_eq!(value.as_bytes(), b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(format!("{value:?}"), "Sensitive");
    }

    #[test]
    fn a_user_that_cannot_be_written_is_refused() {
        for user in ["", "a:b", "a\nb"] {
            assert!(matches!(basic(user, &"x".into()), Err(RedfishError::User)), "{user:?}");
        }
        for password in ["", "a\nb"] {
            assert!(matches!(basic("a", &password.into()), Err(RedfishError::Password)), "{password:?}");
        }
    }
}

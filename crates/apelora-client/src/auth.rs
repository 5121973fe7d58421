//! How the caller proves who it is.

use apelora_http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use crate::ClientError;

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// How the caller proves who it is.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Not at all: the server asks nobody.
    #[default]
    None,
    /// User and password with each request.
    HttpBasic {
        /// The user.
        user: String,
        /// The password.
        password: SecretString,
    },
    /// A Keystone token that the caller already has, used as it is.
    Token(SecretString),
    /// A log-in at Keystone.
    Keystone(Box<LogIn>),
}

/// A log-in at Keystone: `POST /v3/auth/tokens` (Identity API v3).
#[derive(Debug, Clone)]
pub struct LogIn {
    /// Keystone's address, with or without `/v3`.
    pub url: String,
    /// What is shown to Keystone.
    pub proof: Proof,
    /// What the token is to be good for.
    pub scope: Scope,
    /// Which address of the catalogue to use, where none is configured.
    pub interface: Interface,
    /// The region of the catalogue; the first one that has the service when there is none.
    pub region: Option<String>,
}

/// What is shown to Keystone.
#[derive(Debug, Clone)]
pub enum Proof {
    /// A user's password.
    Password {
        /// The user.
        user: Named,
        /// The password.
        password: SecretString,
    },
    /// Another token, to get one of another scope.
    Token(SecretString),
    /// An application credential, which has its project.
    ApplicationCredential {
        /// Its id.
        id: String,
        /// Its secret.
        secret: SecretString,
    },
}

/// A user or project: by its id, or by its name in a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// Its id.
    Id(String),
    /// Its name.
    Name {
        /// The name.
        name: String,
        /// The domain's id, or its name.
        domain: Domain,
    },
}

/// A domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// What a token is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One project.
    Project(Named),
    /// The whole deployment (`system: all`).
    System,
    /// What Keystone chooses: the project of an application credential, or the user's default project.
    OfProof,
}

/// Which address of a service in the catalogue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interface {
    /// For everybody.
    #[default]
    Public,
    /// For other services.
    Internal,
    /// For operators.
    Admin,
}

impl Interface {
    /// Its name in catalogues.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }

    /// Reads `public`, `internal` and `admin`, and the older `publicURL`, `internalURL` and `adminURL`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let word = text.strip_suffix("URL").unwrap_or(text);
        [Self::Public, Self::Internal, Self::Admin].into_iter().find(|known| known.as_str() == word)
    }
}

/// The header that carries a token.
pub(crate) fn token_header(token: &[u8]) -> Result<(HeaderName, HeaderValue), ClientError> {
    let trimmed = token.trim_ascii();
    if trimmed.is_empty() || !trimmed.iter().all(u8::is_ascii_graphic) {
        return Err(ClientError::Setting(
            "the token is empty, or holds blanks or other characters that tokens do not have; check OS_TOKEN"
                .to_owned(),
        ));
    }
    Ok((X_AUTH_TOKEN, secret_value(trimmed.to_vec())?))
}

/// The header of user and password. Source: RFC 7617.
pub(crate) fn basic_header(
    user: &str,
    password: &SecretString,
) -> Result<(HeaderName, HeaderValue), ClientError> {
    if user.contains(':') || user.chars().chain(password.expose_secret().chars()).any(char::is_control) {
        return Err(ClientError::Setting(
            "user or password cannot be sent: the user has a colon, or one of them a control character; check OS_USERNAME and \
             OS_PASSWORD"
                .to_owned(),
        ));
    }
    let pair = Zeroizing::new(format!("{user}:{}", password.expose_secret()));
    let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
    Ok((AUTHORIZATION, secret_value(format!("Basic {}", &*encoded).into_bytes())?))
}

/// A header's value that is overwritten when it is dropped, and not printed.
fn secret_value(bytes: Vec<u8>) -> Result<HeaderValue, ClientError> {
    let mut value =
        HeaderValue::from_maybe_shared(Bytes::from_owner(Zeroizing::new(bytes))).map_err(|_| {
            ClientError::Setting("the credentials hold characters that no header may have".to_owned())
        })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_is_user_and_password_in_utf_8() {
        let (name, value) = basic_header("admin", &"pä:ss".into()).unwrap();
        assert_eq!((name, value.as_bytes()), (AUTHORIZATION, &b"Basic YWRtaW46cMOkOnNz"[..]));
        assert!(value.is_sensitive());
        for (user, password) in [("a:b", "x"), ("a\n", "x"), ("a", "x\0")] {
            assert!(basic_header(user, &password.into()).is_err(), "{user:?}");
        }
    }

    #[test]
    fn what_can_be_no_token_is_not_sent() {
        assert_eq!(token_header(b" gAAAA \n").unwrap().1.as_bytes(), b"gAAAA");
        for token in [&b""[..], b" ", b"a b", b"a\r\nX: y", "tök".as_bytes()] {
            assert!(token_header(token).is_err());
        }
    }

    #[test]
    fn nothing_secret_is_printed() {
        let login = LogIn {
            url: "https://keystone".into(),
            proof: Proof::Password { user: Named::Id("u".into()), password: "hunter2".into() },
            scope: Scope::System,
            interface: Interface::Public,
            region: None,
        };
        for auth in [
            Auth::HttpBasic { user: "a".into(), password: "hunter2".into() },
            Auth::Token("hunter2".into()),
            Auth::Keystone(Box::new(LogIn { proof: Proof::Token("hunter2".into()), ..login.clone() })),
            Auth::Keystone(Box::new(login)),
        ] {
            assert!(!format!("{auth:?}").contains("hunter2"));
        }
    }
}

//! The addresses of Incus servers, as settings and member lists write them.

use std::path::Path;

use apelora_http::{Endpoint, EndpointError};

/// The port of an Incus server when the address names none.
const PORT: u16 = 8443;

/// Why a text is not the address of an Incus server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("`{0}` is not an Incus address: write https://host:8443 or unix:///var/lib/incus/unix.socket")]
    Scheme(String),
    /// A socket without an absolute path.
    #[error("`{0}` names no socket: write unix:///var/lib/incus/unix.socket")]
    Socket(String),
    /// What follows `https://` is no host and port.
    #[error("`{url}` is not an Incus address: {why}")]
    Host {
        /// The text.
        url: String,
        /// Why not.
        why: EndpointError,
    },
}

/// Reads `https://host[:port]`, with 8443 when no port is named, or `unix:///path`: what `APELORA_INCUS_URL` holds,
/// and the `url` of a [`Member`](crate::Member).
///
/// # Errors
/// When the text is neither, or has a path, query or user beside the host.
pub fn endpoint(url: &str) -> Result<Endpoint, UrlError> {
    let shown = || url.chars().take(200).collect::<String>();
    if let Some(path) = url.strip_prefix("unix://") {
        let path = Path::new(path);
        return if path.is_absolute() && path.file_name().is_some() {
            Ok(Endpoint::unix(path))
        } else {
            Err(UrlError::Socket(shown()))
        };
    }
    let Some(host) = url.strip_prefix("https://") else { return Err(UrlError::Scheme(shown())) };
    let host = host.strip_suffix('/').unwrap_or(host);
    let named = if host.starts_with('[') { !host.ends_with(']') } else { host.contains(':') };
    let read = if named { Endpoint::https(host) } else { Endpoint::https(&format!("{host}:{PORT}")) };
    read.map_err(|why| UrlError::Host { url: shown(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (url, shown) in [
            ("https://10.118.1.11:8443", "https://10.118.1.11:8443"),
            ("https://incus1.example.org", "https://incus1.example.org:8443"),
            ("https://incus1:443/", "https://incus1"),
            ("https://[2001:db8::1]", "https://[2001:db8::1]:8443"),
            ("https://[2001:db8::1]:9443", "https://[2001:db8::1]:9443"),
            ("unix:///var/lib/incus/unix.socket", "unix:/var/lib/incus/unix.socket"),
        ] {
            assert_eq!(endpoint(url).unwrap().to_string(), shown, "{url}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for url in [
            "",
            "incus1:8443",
            "http://incus1:8443",
            "HTTPS://incus1",
            "https://",
            "https:///1.0",
            "https://incus1:8443/1.0",
            "https://user@incus1",
            "https://incus1:0",
            "https://2001:db8::1:x",
            "unix:",
            "unix://",
            "unix:///",
            "unix://var/lib/incus/unix.socket",
        ] {
            assert!(endpoint(url).is_err(), "{url}");
        }
    }
}

//! Where a connection goes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use rustls::pki_types::ServerName;

/// The port of `https` when an address names none.
const HTTPS_PORT: u16 = 443;

/// The port of `http` when an address names none.
const HTTP_PORT: u16 = 80;

/// A peer: a host and port spoken to over TLS, the same without TLS, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// HTTPS over TCP.
    Https(HostPort),
    /// HTTP over TCP, readable and changeable by everybody on the way. Whoever makes one says why that is acceptable.
    Http(HostPort),
    /// HTTP over a Unix stream socket; the socket's file permissions are its authentication.
    Unix(PathBuf),
}

/// Host and port of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    host: String,
    port: u16,
    default_port: u16,
    resolved: Option<SocketAddr>,
}

/// Why a text is not the address of a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// A scheme, path, query or user was given.
    #[error("`{0}` is not a bare address: write host or host:port, without scheme, path or user")]
    NotBare(String),
    /// Neither an IP address nor a host name.
    #[error("`{0}` names no host: write an IP address or a DNS name, IPv6 with a port as [2001:db8::1]:443")]
    Host(String),
    /// The port is not a number from 1 to 65535.
    #[error("`{0}` has no valid port: 1 to 65535")]
    Port(String),
}

impl Endpoint {
    /// Reads `host`, `host:port`, `[v6]:port` or a bare IPv6 address; `https` is implied.
    ///
    /// # Errors
    /// When the text has a scheme, a path, a user, no valid host or no valid port.
    pub fn https(address: &str) -> Result<Self, EndpointError> {
        HostPort::read(address, HTTPS_PORT).map(Self::Https)
    }

    /// Reads the same forms as [`https`](Self::https), for a peer that is spoken to **without TLS**: one on this host,
    /// or one for which the operator has accepted that.
    ///
    /// # Errors
    /// As [`https`](Self::https).
    pub fn plain_http(address: &str) -> Result<Self, EndpointError> {
        HostPort::read(address, HTTP_PORT).map(Self::Http)
    }

    /// A Unix socket.
    #[must_use]
    pub fn unix(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }

    /// The same peer, but only at this address: its name is not resolved again. The certificate is still checked
    /// against the name. A Unix socket stays as it is.
    #[must_use]
    pub fn only_at(&self, address: SocketAddr) -> Self {
        match self {
            Self::Https(to) => Self::Https(HostPort { resolved: Some(address), ..to.clone() }),
            Self::Http(to) => Self::Http(HostPort { resolved: Some(address), ..to.clone() }),
            Self::Unix(path) => Self::Unix(path.clone()),
        }
    }

    /// The value of the `Host` header.
    pub(crate) fn host_header(&self) -> String {
        match self {
            Self::Https(to) | Self::Http(to) => to.authority(),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Whether an absolute URI stays at this peer: `https`, the same host and the same port.
    #[must_use]
    pub fn is_origin_of(&self, uri: &hyper::Uri) -> bool {
        let Self::Https(https) = self else { return false };
        let host = uri.host().unwrap_or("").trim_start_matches('[').trim_end_matches(']');
        let no_user = uri.authority().is_some_and(|a| !a.as_str().contains('@'));
        no_user
            && uri.scheme_str() == Some("https")
            && host.eq_ignore_ascii_case(&https.host)
            && uri.port_u16().unwrap_or(HTTPS_PORT) == https.port
    }
}

impl HostPort {
    fn read(address: &str, default_port: u16) -> Result<Self, EndpointError> {
        let shown = || address.chars().take(80).collect::<String>();
        if address.contains(['/', '@', '?', '#', '\\', '%']) || address.chars().any(char::is_whitespace) {
            return Err(EndpointError::NotBare(shown()));
        }
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(|| EndpointError::Host(shown()))?;
            host.parse::<Ipv6Addr>().map_err(|_| EndpointError::Host(shown()))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(EndpointError::Host(shown())),
            }
        } else if address.parse::<Ipv6Addr>().is_ok() {
            (address, None)
        } else {
            match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            }
        };
        let port = match port {
            None => default_port,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|&n| n != 0).ok_or_else(|| EndpointError::Port(shown()))?
            }
            Some(_) => return Err(EndpointError::Port(shown())),
        };
        let host = host.to_ascii_lowercase();
        ServerName::try_from(host.as_str()).map_err(|_| EndpointError::Host(shown()))?;
        Ok(Self { host, port, default_port, resolved: None })
    }

    /// The host, lower case, IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The only address to use, when the name must not be resolved.
    pub(crate) fn resolved(&self) -> Option<SocketAddr> {
        self.resolved
    }

    /// The name which the certificate must carry. `read()` has checked that it is one.
    pub(crate) fn server_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.host.clone()).ok()
    }

    fn authority(&self) -> String {
        let host = if self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == self.default_port { host } else { format!("{host}:{}", self.port) }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Https(to) => write!(f, "https://{}", to.authority()),
            Self::Http(to) => write!(f, "http://{}", to.authority()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_addresses_are_read() {
        for (text, shown) in [
            ("10.0.0.11", "https://10.0.0.11"),
            ("10.0.0.11:8443", "https://10.0.0.11:8443"),
            ("BMC1.example.org", "https://bmc1.example.org"),
            ("bmc1:443", "https://bmc1"),
            ("2001:db8::1", "https://[2001:db8::1]"),
            ("[2001:db8::1]", "https://[2001:db8::1]"),
            ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ] {
            assert_eq!(Endpoint::https(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn plain_http_is_asked_for_by_name() {
        for (text, shown) in [
            ("127.0.0.1:5000", "http://127.0.0.1:5000"),
            ("[::1]:80", "http://[::1]"),
            ("keystone", "http://keystone"),
        ] {
            let plain = Endpoint::plain_http(text).unwrap();
            assert_eq!(plain.to_string(), shown, "{text}");
            assert!(
                !plain.is_origin_of(&format!("{shown}/").parse().unwrap()),
                "only HTTPS has an origin to stay at"
            );
        }
        assert!(Endpoint::plain_http("http://127.0.0.1").is_err());
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            " ",
            ":443",
            "host:",
            "host:0",
            "host:65536",
            "host:+1",
            "host:1:2",
            "https://host",
            "host/",
            "host/redfish",
            "user@host",
            "user:pass@host",
            "host?x",
            "host#x",
            "[::1",
            "[::1]x",
            "[::1]:",
            "[host]:1",
            "fe80::1%eth0",
            "ho st",
            "under score!",
            "host\\x",
        ] {
            assert!(Endpoint::https(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_origin_is_scheme_host_and_port() {
        let here = Endpoint::https("bmc1.example.org:8443").unwrap();
        for (uri, same) in [
            ("https://bmc1.example.org:8443/redfish/v1/", true),
            ("https://BMC1.example.org:8443/x", true),
            ("http://bmc1.example.org:8443/x", false),
            ("https://bmc1.example.org/x", false),
            ("https://bmc2.example.org:8443/x", false),
            ("https://user@bmc1.example.org:8443/x", false),
            ("/redfish/v1/", false),
        ] {
            assert_eq!(here.is_origin_of(&uri.parse().unwrap()), same, "{uri}");
        }
        assert!(Endpoint::https("[::1]").unwrap().is_origin_of(&"https://[::1]/x".parse().unwrap()));
        assert!(!Endpoint::unix(Path::new("/x")).is_origin_of(&"https://localhost/x".parse().unwrap()));
    }
}

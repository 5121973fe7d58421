//! Addresses of services, as configured or out of a catalogue.

use std::fmt;
use std::net::IpAddr;

use apelora_http::{Endpoint, Uri};

use crate::ClientError;

/// Where a service is: the peer, and the path before its own paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) endpoint: Endpoint,
    /// Without a slash at its end.
    pub(crate) base: String,
}

impl Address {
    /// Reads `https://HOST[:PORT][/PATH]`. `http` is for this host, and for others where `plain_http` accepts it: who reads
    /// on the way has the password or the token. `setting` is the name under which the address was given.
    pub(crate) fn read(setting: &str, url: &str, plain_http: bool) -> Result<Self, ClientError> {
        let refuse = |problem: &str| {
            let shown =
                if url.contains('@') { "…@…".to_owned() } else { url.chars().take(200).collect() };
            ClientError::Setting(format!("{setting}: `{shown}` {problem}"))
        };
        let uri: Uri = url.trim().parse().map_err(|_| refuse("is not a URL; write https://HOST:PORT"))?;
        let Some(authority) = uri.authority() else {
            return Err(refuse("has no scheme and host; write https://HOST:PORT"));
        };
        if authority.as_str().contains('@') {
            return Err(refuse("has a user in it; give user and password by OS_USERNAME and OS_PASSWORD"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(refuse("has a query or a fragment; remove it"));
        }
        let endpoint = match uri.scheme_str() {
            Some("https") => Endpoint::https(authority.as_str()),
            Some("http") if plain_http || uri.host().is_some_and(on_this_host) => Endpoint::plain_http(authority.as_str()),
            Some("http") => {
                return Err(refuse(
                    "is http on another host, where everybody on the way can read and change what is sent; write https, or \
                     accept it with --plain-http 1 or APELORA_PLAIN_HTTP=1",
                ));
            }
            _ => return Err(refuse("has another scheme; write https://HOST:PORT")),
        }
        .map_err(|why| refuse(&format!("cannot be used: {why}")))?;
        Ok(Self { endpoint, base: uri.path().trim_end_matches('/').to_owned() })
    }

    /// The same without this version at the end of its path: addresses are written with it and without.
    pub(crate) fn without(mut self, version: &str) -> Self {
        if let Some(base) = self.base.strip_suffix(version).and_then(|base| base.strip_suffix('/')) {
            self.base = base.to_owned();
        }
        self
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.endpoint, self.base)
    }
}

fn on_this_host(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, plain_http: bool) -> Result<String, String> {
        let address = Address::read("endpoint", url, plain_http).map_err(|why| why.to_string())?;
        Ok(address.without("v1").to_string())
    }

    #[test]
    fn the_version_may_be_written_or_not() {
        for (url, shown) in [
            ("http://127.0.0.1:6385", "http://127.0.0.1:6385"),
            ("http://127.0.0.1:6385/v1/", "http://127.0.0.1:6385"),
            ("http://localhost:6385", "http://localhost:6385"),
            ("http://[::1]:6385/", "http://[::1]:6385"),
            ("https://cloud.example.org/baremetal", "https://cloud.example.org/baremetal"),
            ("https://cloud.example.org/baremetal/v1", "https://cloud.example.org/baremetal"),
            ("https://cloud.example.org/rev1", "https://cloud.example.org/rev1"),
        ] {
            assert_eq!(read(url, false).as_deref(), Ok(shown), "{url}");
        }
    }

    #[test]
    fn plain_http_leaves_this_host_only_by_consent() {
        let url = "http://ironic.example.org:6385";
        assert!(read(url, false).unwrap_err().contains("APELORA_PLAIN_HTTP=1"));
        assert_eq!(read(url, true).as_deref(), Ok(url));
        assert!(read("http://localhost.example.org", false).is_err());
    }

    #[test]
    fn other_addresses_are_refused_by_name_and_without_passwords() {
        for url in [
            "",
            "host",
            "host:6385",
            "/v1",
            "ftp://host",
            "https://",
            "https://h/?x=1",
            "https://h/#x",
            "https://h:x",
        ] {
            assert!(read(url, true).unwrap_err().starts_with("endpoint: "), "{url}");
        }
        assert!(!read("https://u:hunter2@h", true).unwrap_err().contains("hunter2"));
    }
}

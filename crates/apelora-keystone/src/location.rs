//! Keystone's address, read once.

use std::net::IpAddr;

use apelora_http::{Endpoint, Uri};

use crate::ConfigError;

/// Where Keystone is, and where in it tokens are.
///
/// The path is what the operator wrote, with `/v3` added when it is missing. Version discovery is not used: the host
/// and scheme in its answer are often those of another network, and the password would follow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) endpoint: Endpoint,
    /// The path of the API, with `/v3`, without a slash at its end.
    pub(crate) base: String,
}

impl Location {
    pub(crate) fn read(url: &str, allow_plain_http: bool) -> Result<Self, ConfigError> {
        let uri: Uri = url.trim().parse().map_err(|_| unusable(url, "it is not a URL"))?;
        let authority = uri.authority().ok_or_else(|| unusable(url, "it has no scheme and host"))?.as_str();
        if authority.contains('@') {
            return Err(unusable("https://…@…", "a user in it is not used"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(unusable(url, "it has a query or a fragment"));
        }
        let endpoint = match uri.scheme_str() {
            Some("https") => Endpoint::https(authority),
            Some("http") if allow_plain_http || uri.host().is_some_and(is_this_host) => {
                Endpoint::plain_http(authority)
            }
            Some("http") => return Err(ConfigError::PlainHttp(shown(url))),
            _ => return Err(unusable(url, "its scheme is neither https nor http")),
        }
        .map_err(|why| unusable(url, &why.to_string()))?;

        let path = uri.path().trim_end_matches('/');
        let base = match path.rsplit('/').next() {
            Some("v3") => path.to_owned(),
            Some("v2.0") => return Err(unusable(url, "version 2.0 of the API is not spoken")),
            _ => format!("{path}/v3"),
        };
        Ok(Self { endpoint, base })
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.endpoint, self.base)
    }
}

fn is_this_host(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn unusable(url: &str, why: &str) -> ConfigError {
    ConfigError::Url { url: shown(url), why: why.to_owned() }
}

fn shown(url: &str) -> String {
    if url.contains('@') { "https://…@…".to_owned() } else { url.chars().take(200).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_added_when_it_is_missing() {
        for (url, shown) in [
            ("https://keystone.example.org:5000/v3", "https://keystone.example.org:5000/v3"),
            ("https://keystone.example.org:5000/v3/", "https://keystone.example.org:5000/v3"),
            ("https://keystone.example.org:5000", "https://keystone.example.org:5000/v3"),
            ("https://cloud.example.org/identity/", "https://cloud.example.org/identity/v3"),
            ("https://[2001:db8::1]:5000/identity/v3", "https://[2001:db8::1]:5000/identity/v3"),
            (" https://cloud.example.org/v3\n", "https://cloud.example.org/v3"),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5000/v3"),
            ("http://localhost:5000/v3", "http://localhost:5000/v3"),
            ("http://[::1]:5000", "http://[::1]:5000/v3"),
        ] {
            assert_eq!(Location::read(url, false).unwrap().to_string(), shown, "{url}");
        }
    }

    #[test]
    fn other_addresses_are_refused_with_a_remedy() {
        for url in [
            "",
            "keystone",
            "keystone:5000",
            "/v3",
            "ftp://keystone/v3",
            "https://",
            "https://keystone/v3?x=1",
            "https://keystone/v3#x",
            "https://keystone/v2.0",
            "https://keystone:port/v3",
            "https://under score/v3",
        ] {
            let why = Location::read(url, true).unwrap_err().to_string();
            assert!(why.contains("write https://host:5000/v3"), "{url}: {why}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        for url in ["https://apelora:hunter2@keystone/v3", "https://apelora:hunter2@key stone/v3"] {
            let why = Location::read(url, true).unwrap_err();
            assert!(!format!("{why} {why:?}").contains("hunter2"));
        }
    }

    #[test]
    fn plain_http_to_another_host_needs_consent() {
        let url = "http://keystone.example.org:5000/v3";
        assert_eq!(Location::read(url, false), Err(ConfigError::PlainHttp(url.to_owned())));
        assert_eq!(Location::read(url, true).unwrap().to_string(), url);
        assert!(Location::read("http://localhost.example.org/v3", false).is_err());
    }
}

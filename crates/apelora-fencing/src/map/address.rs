//! Addresses of BMCs: a host or IP address and a port, in one canonical form so that two spellings compare equal.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use thiserror::Error;

/// Host and port of a BMC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Ip(IpAddr),
    /// Lower case, without a final dot.
    Name(String),
}

/// A text that is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Empty.
    #[error("is empty: give a host name or IP address, with `:port` if it is not the usual one")]
    Empty,
    /// A scheme, user, path or zone came with it.
    #[error("holds more than a host and a port: leave out scheme, user, path and zone")]
    More,
    /// The port is none.
    #[error("has a port that is not 1 to 65535")]
    Port,
    /// The host is neither a name nor an IP address.
    #[error(
        "has a host that is neither a name nor an IP address (write IPv6 as [fd00::1] or [fd00::1]:port)"
    )]
    Host,
    /// No BMC can be there.
    #[error("cannot be one BMC's address: it is unspecified, broadcast or multicast")]
    NoHost,
}

impl Address {
    /// Reads `host`, `host:port`, `192.0.2.1:port`, `[fd00::1]`, `[fd00::1]:port` or a bare IPv6 address.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str, usual_port: u16) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.contains(['/', '@', '?', '#', '%', '\\']) || text.contains(char::is_whitespace) {
            return Err(AddressError::More);
        }
        let (host, port) = if let Ok(bare) = text.parse::<Ipv6Addr>() {
            (Host::Ip(canonical(bare.into())), None)
        } else if let Some(rest) = text.strip_prefix('[') {
            let (inner, after) = rest.split_once(']').ok_or(AddressError::Host)?;
            let ip: Ipv6Addr = inner.parse().map_err(|_| AddressError::Host)?;
            let port = match after {
                "" => None,
                _ => Some(after.strip_prefix(':').ok_or(AddressError::Host)?),
            };
            (Host::Ip(canonical(ip.into())), port)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (name_or_v4(host)?, Some(port)),
                None => (name_or_v4(text)?, None),
            }
        };
        let port = match port {
            None => usual_port,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0') => {
                digits.parse().map_err(|_| AddressError::Port)?
            }
            Some(_) => return Err(AddressError::Port),
        };
        if let Host::Ip(ip) = host
            && (ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::from([255; 4]))
        {
            return Err(AddressError::NoHost);
        }
        Ok(Self { host, port })
    }

    /// The host as a name or an IP address without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Ip(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether both name the same host, whatever the port.
    pub(crate) fn same_host(&self, other: &Self) -> bool {
        self.host == other.host
    }
}

fn canonical(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

fn name_or_v4(text: &str) -> Result<Host, AddressError> {
    if let Ok(ip) = text.parse::<std::net::Ipv4Addr>() {
        return Ok(Host::Ip(ip.into()));
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    // Digits and dots that are no IPv4 address (`10.0.0.256`, `10.1`) are a slip, not a name: resolvers read some of
    // them as addresses nobody meant.
    let numeric = name.rsplit('.').next().is_some_and(|l| l.bytes().all(|b| b.is_ascii_digit()));
    if name.len() > 253 || numeric || !name.split('.').all(label) {
        return Err(AddressError::Host);
    }
    Ok(Host::Name(name))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            Host::Ip(IpAddr::V4(ip)) => write!(f, "{ip}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_has_one_spelling() {
        for (a, b) in [
            ("BMC-1.Example.", "bmc-1.example:443"),
            ("10.0.0.11", "10.0.0.11:443"),
            ("fd00::1", "[FD00:0:0::1]:443"),
            ("::ffff:10.0.0.11", "10.0.0.11"),
        ] {
            assert_eq!(Address::parse(a, 443), Address::parse(b, 443), "{a} {b}");
        }
        assert_eq!(Address::parse("[fd00::1]:444", 443).map(|a| a.to_string()), Ok("[fd00::1]:444".into()));
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, error) in [
            ("", AddressError::Empty),
            ("https://bmc", AddressError::More),
            ("user@bmc", AddressError::More),
            ("bmc/redfish", AddressError::More),
            ("fe80::1%eth0", AddressError::More),
            ("bmc 1", AddressError::More),
            ("bmc:0", AddressError::Port),
            ("bmc:070", AddressError::Port),
            ("bmc:65536", AddressError::Port),
            ("bmc:", AddressError::Port),
            ("10.0.0.256", AddressError::Host),
            ("10.1", AddressError::Host),
            ("[fd00::1", AddressError::Host),
            ("[fd00::1]443", AddressError::Host),
            ("-bmc", AddressError::Host),
            ("bmc..example", AddressError::Host),
            ("0.0.0.0", AddressError::NoHost),
            ("[::]:443", AddressError::NoHost),
            ("224.0.0.1", AddressError::NoHost),
        ] {
            assert_eq!(
                Address::parse(text, 443).map_err(|e| e.to_string()),
                Err(error.to_string()),
                "{text}"
            );
        }
    }
}

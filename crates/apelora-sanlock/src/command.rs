//! What can be asked: four commands that read.

use std::fmt;

use crate::wire::{HEADER_BYTES, LOCKSPACE_BYTES, MAGIC, NAME_BYTES, PROTOCOL, StateKind};

/// A lockspace's name: 1 to 48 bytes, none of them NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockspaceName(String);

impl LockspaceName {
    /// The name, unless no lockspace can have it.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=NAME_BYTES).contains(&name.len()) && !name.contains('\0');
        fits.then(|| Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that this crate can ask of a daemon. None of it changes anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// The lockspaces that the daemon has joined, joins or leaves (`SM_CMD_GET_LOCKSPACES`).
    Lockspaces,
    /// The states of the hosts of one lockspace (`SM_CMD_GET_HOSTS`).
    Hosts(LockspaceName),
    /// When each lease of one lockspace was looked at, and what was found (`SM_CMD_HOST_STATUS`).
    HostStatus(LockspaceName),
    /// How the daemon and its own leases are (`SM_CMD_STATUS`, without resources).
    Status,
}

impl Command {
    /// The command's number in the header.
    pub(crate) const fn code(&self) -> u32 {
        match self {
            Self::Status => 5,
            Self::HostStatus(_) => 15,
            Self::Lockspaces => 22,
            Self::Hosts(_) => 23,
        }
    }

    /// The most bytes that an answer may have. A lockspace has at most 2000 hosts.
    pub(crate) const fn most_bytes(&self) -> usize {
        match self {
            Self::Lockspaces => 512 << 10,
            Self::Hosts(_) => 128 << 10,
            Self::HostStatus(_) => 1 << 20,
            Self::Status => 2 << 20,
        }
    }

    /// The request: a header, and for one lockspace its description with nothing but the name.
    pub(crate) fn request(&self) -> Vec<u8> {
        let (data, name) = match self {
            // The daemon stops before the resources, which may be many and which nobody here asks for.
            Self::Status => (StateKind::LAST_WANTED, None),
            Self::Lockspaces => (0, None),
            Self::Hosts(name) | Self::HostStatus(name) => (0, Some(name)),
        };
        let payload = name.map_or(0, |_| LOCKSPACE_BYTES);
        let length = u32::try_from(HEADER_BYTES + payload).unwrap_or(u32::MAX);
        let mut request = Vec::with_capacity(HEADER_BYTES + payload);
        for word in [MAGIC, PROTOCOL, self.code(), 0, length, 0, data, 0] {
            request.extend_from_slice(&word.to_ne_bytes());
        }
        if let Some(name) = name {
            request.extend_from_slice(name.as_str().as_bytes());
            // Host id 0: every host that has a timestamp. Path and offset are not looked at.
            request.resize(HEADER_BYTES + payload, 0);
        }
        request
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lockspaces => f.write_str("get_lockspaces"),
            Self::Hosts(name) => write!(f, "get_hosts {name}"),
            Self::HostStatus(name) => write!(f, "host_status {name}"),
            Self::Status => f.write_str("status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_a_daemon_expects() {
        let status = Command::Status.request();
        assert_eq!(status.len(), 32);
        assert_eq!(&status[..8], &[0x10, 0x20, 0x28, 0x04, 1, 0, 0, 0]);
        assert_eq!((status[8], status[16], status[24]), (5, 32, 3));

        let hosts = Command::Hosts(LockspaceName::new("lvm_vg0").unwrap()).request();
        assert_eq!(hosts.len(), 32 + 1104);
        assert_eq!(hosts[8], 23);
        assert_eq!(u16::from_le_bytes([hosts[16], hosts[17]]), 1136);
        assert_eq!(&hosts[32..40], b"lvm_vg0\0");
        assert!(hosts[40..].iter().all(|b| *b == 0));
    }

    #[test]
    fn names_that_no_lockspace_has() {
        assert!(LockspaceName::new("").is_none());
        assert!(LockspaceName::new(&"x".repeat(49)).is_none());
        assert!(LockspaceName::new("a\0b").is_none());
        let longest = "x".repeat(48);
        let request = Command::HostStatus(LockspaceName::new(&longest).unwrap()).request();
        assert_eq!(&request[32..80], longest.as_bytes());
        assert_eq!(request.len(), 1136);
    }
}

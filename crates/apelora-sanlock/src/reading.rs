//! What a daemon says, as plain data.

use std::fmt;

use crate::error::SanlockError;

/// The daemon's word for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostState {
    /// The observer has not watched it for long enough.
    Unknown,
    /// Its lease is released, or was never used.
    Free,
    /// Its timestamp was seen to change.
    Live,
    /// Unchanged for more than eight I/O timeouts.
    Fail,
    /// Unchanged for the time of its watchdog on top, by the daemon's own count.
    Dead,
}

/// Whether this host is in a lockspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Membership {
    /// It is (`spaces`).
    Joined,
    /// Not yet (`add`).
    Joining,
    /// Not any more, or not for long (`rem`).
    Leaving,
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Joined => "in",
            Self::Joining => "joining",
            Self::Leaving => "leaving",
        })
    }
}

/// The daemon that answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DaemonStatus {
    /// `our_host_name`: configured, or new at each start of the daemon.
    pub name: String,
    /// The daemon's process id, if the operating system tells.
    pub pid: Option<i32>,
    /// Its monotonic seconds when it answered last.
    pub monotime: u64,
    /// Whether *this* host's daemon uses a watchdog. Nothing tells it of another host.
    pub use_watchdog: bool,
    /// Its version, such as `3.8.5`.
    pub version: String,
}

/// One host of a lockspace. All times but `timestamp` are seconds of the daemon's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// The host id: the place of its lease, 1 to 2000.
    pub host_id: u64,
    /// The daemon's word; absent for a host whose lease is released.
    pub state: Option<HostState>,
    /// The host id that is written in the lease.
    pub owner_id: u64,
    /// How often that host id joined.
    pub generation: u64,
    /// Seconds of that host's own clock, 0 when the lease is released.
    pub timestamp: u64,
    /// When the daemon last read the lease.
    pub last_check: u64,
    /// When it last read a changed timestamp.
    pub last_live: u64,
    /// Seconds of the I/O timeout that is written in the lease.
    pub io_timeout: u64,
    /// The name that is written in the lease; bytes that are no text are escaped.
    pub owner_name: String,
}

/// One lockspace that this host has joined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lockspace {
    /// Its name.
    pub name: String,
    /// This host's own id in it.
    pub host_id: u64,
    /// This host's own generation.
    pub host_generation: u64,
    /// Seconds of this host's own I/O timeout.
    pub io_timeout: u64,
    /// Whether this host is in it, joins or leaves.
    pub membership: Membership,
    /// `space_dead`: this host's lease is lost.
    pub space_dead: bool,
    /// `killing_pids`: the lease's users are being killed.
    pub killing_pids: bool,
    /// `renew_fail`.
    pub renew_fail: bool,
    /// `corrupt_result`; 0 is none.
    pub corrupt_result: i64,
    /// `renewal_last_result`; 1 is success.
    pub renewal_last_result: i64,
    /// When this host's own renewal last succeeded.
    pub renewal_last_success: u64,
    /// Every host that ever had a lease there, by ascending id.
    pub hosts: Vec<Host>,
}

/// A lockspace about which nothing could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name.
    pub name: String,
    /// Why.
    pub error: SanlockError,
}

/// One reading of one daemon: the hosts first, then how the daemon itself is, so that a row never seems fresher than it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The daemon.
    pub daemon: DaemonStatus,
    /// The lockspaces that were read whole.
    pub lockspaces: Vec<Lockspace>,
    /// Those that were not.
    pub unreadable: Vec<Unreadable>,
}

//! Where storage leases are read, and how what a daemon says becomes what the machine judges. Nothing is judged here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use apelora_fencing::Clock;
use apelora_fencing::lease::{HostRow, HostState, LeaseConfig, LeaseConfigError, LeaseReading, Observer};
use apelora_sanlock::{Daemon, DaemonStatus, Lockspace, Membership, SanlockError};
use tokio::time::Instant;

/// The largest file of `APELORA_SANLOCK_HOSTS`, in bytes.
const MOST: u64 = 4 << 20;

/// Where storage leases are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseSource {
    /// Nowhere: no lease ever proves anything.
    None,
    /// From the sanlock daemon that listens on this socket of this host, which must have joined the lockspaces.
    Sanlock(PathBuf),
}

/// What one look at the leases found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseLook {
    /// The lockspaces that could be read whole.
    pub readings: Vec<LeaseReading>,
    /// What could not be read.
    pub problems: Vec<LeaseProblem>,
}

/// Why a lockspace, or all of them, could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseProblem {
    /// Which lockspace; absent when the daemon could not be asked at all.
    pub lockspace: Option<String>,
    /// Why, and what to do about it.
    pub error: SanlockError,
}

impl LeaseSource {
    /// The readings of every lockspace that could be read whole. What could not be read is missing, and so proves nothing.
    ///
    /// `clock` says when the look began, on the worker's own clock. It ends at `by`.
    pub async fn read(&self, clock: &dyn Clock, by: Instant) -> Vec<LeaseReading> {
        self.look(clock, by).await.readings
    }

    /// [`Self::read`], and why something is missing.
    pub async fn look(&self, clock: &dyn Clock, by: Instant) -> LeaseLook {
        let Self::Sanlock(socket) = self else { return LeaseLook::default() };
        let read_at = clock.boot();
        let reading = match Daemon::new(socket).read(by).await {
            Ok(reading) => reading,
            Err(error) => {
                let problems = vec![LeaseProblem { lockspace: None, error }];
                return LeaseLook { readings: Vec::new(), problems };
            }
        };
        let problems = reading.unreadable.into_iter();
        let problems = problems.map(|u| LeaseProblem { lockspace: Some(u.name), error: u.error }).collect();
        let daemon = reading.daemon;
        let readings = reading.lockspaces.into_iter().map(|lockspace| LeaseReading {
            read_at,
            daemon: incarnation(&daemon, &lockspace),
            observer: observer(&daemon, &lockspace),
            hosts: lockspace.hosts.into_iter().map(host).collect(),
            lockspace: lockspace.name,
        });
        LeaseLook { readings: readings.collect(), problems }
    }
}

impl LeaseLook {
    /// For each configured lockspace that could not be read, why: what the rows of a lease check ask for.
    pub fn problems_of(&self, config: &LeaseConfig) -> BTreeMap<String, String> {
        let problem = |lockspace: &String| {
            let of_all = |p: &&LeaseProblem| p.lockspace.as_ref().is_none_or(|l| l == lockspace);
            self.problems.iter().find(of_all).map(|p| p.error.to_string())
        };
        config.lockspaces.iter().filter_map(|l| Some((l.clone(), problem(l)?))).collect()
    }
}

/// Names one start of one daemon in one lockspace: after another one, watching begins anew. The daemon's own name may be
/// configured and survive a restart.
fn incarnation(daemon: &DaemonStatus, lockspace: &Lockspace) -> String {
    let pid = daemon.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    format!(
        "{}, process {pid}, host {} generation {}",
        daemon.name, lockspace.host_id, lockspace.host_generation
    )
}

fn observer(daemon: &DaemonStatus, lockspace: &Lockspace) -> Observer {
    Observer {
        host_id: lockspace.host_id,
        monotime: daemon.monotime,
        io_timeout: lockspace.io_timeout,
        joined: lockspace.membership == Membership::Joined,
        space_dead: lockspace.space_dead,
        killing_pids: lockspace.killing_pids,
        renew_fail: lockspace.renew_fail,
        corrupt_result: lockspace.corrupt_result,
        renewal_last_result: lockspace.renewal_last_result,
        renewal_last_success: lockspace.renewal_last_success,
    }
}

fn host(host: apelora_sanlock::Host) -> HostRow {
    HostRow {
        host_id: host.host_id,
        state: host.state.map(|state| match state {
            apelora_sanlock::HostState::Unknown => HostState::Unknown,
            apelora_sanlock::HostState::Free => HostState::Free,
            apelora_sanlock::HostState::Live => HostState::Live,
            apelora_sanlock::HostState::Fail => HostState::Fail,
            apelora_sanlock::HostState::Dead => HostState::Dead,
        }),
        owner_id: host.owner_id,
        generation: host.generation,
        timestamp: host.timestamp,
        last_check: host.last_check,
        last_live: host.last_live,
        io_timeout: host.io_timeout,
        owner_name: host.owner_name,
    }
}

/// Why the file of `APELORA_SANLOCK_HOSTS` is not used.
#[derive(Debug, thiserror::Error)]
pub enum LeaseHostsError {
    /// It cannot be read.
    #[error(
        "APELORA_SANLOCK_HOSTS: {path} cannot be read: {error}; correct the path or its permissions, or unset it"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is wrong.
    #[error(
        "APELORA_SANLOCK_HOSTS: {path}: {error}; correct the file (docs/storage-leases.md), or unset the setting"
    )]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: LeaseConfigError,
    },
}

/// Reads the file of `APELORA_SANLOCK_HOSTS`.
///
/// # Errors
/// When it cannot be read, or for any doubt about its content.
pub fn load_hosts(path: &Path) -> Result<LeaseConfig, LeaseHostsError> {
    let bytes = read(path).map_err(|error| LeaseHostsError::Read { path: path.into(), error })?;
    LeaseConfig::parse(&bytes).map_err(|error| LeaseHostsError::Invalid { path: path.into(), error })
}

/// The content of a regular file of bounded size: a pipe would wait for its writer, and a device would never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 4 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod real;
#[cfg(test)]
mod tests;

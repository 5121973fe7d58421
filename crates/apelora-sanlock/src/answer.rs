//! From bytes to data. Everything unknown that could change the meaning makes the whole answer garbage, never a gap in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::Command;
use crate::error::{Garbage, SanlockError};
use crate::reading::{DaemonStatus, Host, HostState, Lockspace, Membership};
use crate::text::{Pairs, readable};
use crate::wire::{
    Cursor, HEADER_BYTES, HOST_BYTES, Header, LOCKSPACE_BYTES, MOST_HOSTS, NAME_BYTES, State, StateKind,
    until_nul,
};

/// No such file or directory: the lockspace is not joined.
const ENOENT: i32 = -2;
/// The daemon has not looked at the hosts yet.
const EAGAIN: i32 = -11;
/// `host_status` has no such lockspace, or a counted answer was cut.
const ENOSPC: i32 = -28;

/// A lockspace in the daemon's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The raw name; only one that is text can be asked about.
    pub(crate) name: Vec<u8>,
    pub(crate) host_id: u64,
    pub(crate) membership: Membership,
}

/// What `get_hosts` says of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) state: HostState,
    pub(crate) generation: u64,
    pub(crate) timestamp: u64,
    pub(crate) io_timeout: u64,
}

/// Checks the header of an answer to `command`, as soon as it is there.
pub(crate) fn header(command: &Command, bytes: &[u8]) -> Result<Header, SanlockError> {
    let garbage = |problem| SanlockError::Garbage { command: command.clone(), problem };
    let header = Header::take(&mut Cursor::new(bytes)).map_err(garbage)?;
    if header.version >> 16 != 0 {
        return Err(SanlockError::Version { major: header.version >> 16, minor: header.version & 0xffff });
    }
    if header.command != command.code() {
        return Err(garbage(Garbage::OtherCommand(header.command)));
    }
    match (command, header.result) {
        (_, 0) => Ok(header),
        (Command::Hosts(name), ENOENT) | (Command::HostStatus(name), ENOSPC) => {
            Err(SanlockError::NoLockspace { name: name.to_string() })
        }
        (Command::Hosts(name), EAGAIN) => Err(SanlockError::NotReady { name: name.to_string() }),
        (_, result) => Err(SanlockError::Refused { command: command.clone(), result }),
    }
}

/// The records behind a header that counts them, each of `size` bytes.
fn counted<'a>(header: &Header, bytes: &'a [u8], size: usize) -> Result<Cursor<'a>, Garbage> {
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let expected = usize::try_from(header.count).ok().and_then(|n| n.checked_mul(size));
    let expected = expected.ok_or(Garbage::Length(header.length))?;
    let announced = usize::try_from(header.length).unwrap_or(usize::MAX);
    if announced.checked_sub(HEADER_BYTES) != Some(expected) {
        return Err(Garbage::Length(header.length));
    }
    match body.len().checked_sub(expected) {
        None => Err(Garbage::Short("the records that it announces")),
        Some(0) => Ok(Cursor::new(body)),
        Some(more) => Err(Garbage::Long(more)),
    }
}

/// The records behind a header that does not count them: up to the end.
fn streamed<'a>(header: &Header, bytes: &'a [u8]) -> Result<Cursor<'a>, Garbage> {
    if usize::try_from(header.length).ok() != Some(HEADER_BYTES) {
        return Err(Garbage::Length(header.length));
    }
    Ok(Cursor::new(bytes.get(HEADER_BYTES..).unwrap_or_default()))
}

/// The answer to `get_lockspaces`.
pub(crate) fn lockspaces(header: &Header, bytes: &[u8]) -> Result<Vec<Listed>, Garbage> {
    const WHAT: &str = "a lockspace";
    let mut cursor = counted(header, bytes, LOCKSPACE_BYTES)?;
    let mut listed = Vec::new();
    while !cursor.is_empty() {
        let mut one = Cursor::new(cursor.take(LOCKSPACE_BYTES, WHAT)?);
        let name = until_nul(one.take(NAME_BYTES, WHAT)?).to_vec();
        let host_id = one.u64(WHAT)?;
        let membership = match one.u32(WHAT)? & 3 {
            0 => Membership::Joined,
            1 => Membership::Joining,
            2 => Membership::Leaving,
            _ => return Err(Garbage::Value("flags")),
        };
        listed.push(Listed { name, host_id, membership });
    }
    Ok(listed)
}

/// The answer to `get_hosts`.
pub(crate) fn hosts(header: &Header, bytes: &[u8]) -> Result<BTreeMap<u64, Seen>, Garbage> {
    const WHAT: &str = "a host";
    let mut cursor = counted(header, bytes, HOST_BYTES)?;
    let mut hosts = BTreeMap::new();
    while !cursor.is_empty() {
        let host_id = cursor.u64(WHAT)?;
        let generation = cursor.u64(WHAT)?;
        let timestamp = cursor.u64(WHAT)?;
        let io_timeout = u64::from(cursor.u32(WHAT)?);
        let state = match cursor.u32(WHAT)? & 0xF {
            1 => HostState::Unknown,
            2 => HostState::Free,
            3 => HostState::Live,
            4 => HostState::Fail,
            5 => HostState::Dead,
            state => return Err(Garbage::State { host_id, state }),
        };
        let seen = Seen { state, generation, timestamp, io_timeout };
        if !(1..=MOST_HOSTS).contains(&host_id) || hosts.insert(host_id, seen).is_some() {
            return Err(Garbage::HostId(host_id));
        }
    }
    Ok(hosts)
}

/// The answer to `host_status`: rows without a state, which only `get_hosts` has.
pub(crate) fn host_status(header: &Header, bytes: &[u8]) -> Result<BTreeMap<u64, Host>, Garbage> {
    let mut cursor = streamed(header, bytes)?;
    let mut hosts = BTreeMap::new();
    while !cursor.is_empty() {
        let record = State::take(&mut cursor)?;
        if record.kind != StateKind::Host {
            return Err(Garbage::Contradiction("the answer and the kind of its records"));
        }
        let host_id = u64::from(record.data32);
        // The last key is whatever somebody wrote into the lease.
        let pairs = Pairs::parse(record.text, Some("owner_name"))?;
        let host = Host {
            host_id,
            state: None,
            owner_id: pairs.unsigned("owner_id")?,
            generation: pairs.unsigned("owner_generation")?,
            timestamp: pairs.unsigned("timestamp")?,
            last_check: pairs.unsigned("last_check")?,
            last_live: pairs.unsigned("last_live")?,
            io_timeout: pairs.io_timeout()?,
            owner_name: readable(pairs.bytes("owner_name")?),
        };
        if host.timestamp != record.data64 {
            return Err(Garbage::Contradiction("the two timestamps of a host"));
        }
        if !(1..=MOST_HOSTS).contains(&host_id) || hosts.insert(host_id, host).is_some() {
            return Err(Garbage::HostId(host_id));
        }
    }
    Ok(hosts)
}

/// The answer to `status`: the daemon, and its lockspaces without hosts.
pub(crate) fn status(
    header: &Header,
    bytes: &[u8],
    pid: Option<i32>,
) -> Result<(DaemonStatus, Vec<Lockspace>), Garbage> {
    let mut cursor = streamed(header, bytes)?;
    let mut daemon = None;
    let mut lockspaces = Vec::new();
    while !cursor.is_empty() {
        let record = State::take(&mut cursor)?;
        match record.kind {
            StateKind::Daemon if daemon.is_some() => return Err(Garbage::Contradiction("two daemons")),
            StateKind::Daemon => daemon = Some(daemon_status(&record, pid)?),
            // Its clients are of no interest.
            StateKind::Client => {}
            StateKind::Lockspace => lockspaces.push(lockspace(&record)?),
            StateKind::Host => return Err(Garbage::Contradiction("the answer and the kind of its records")),
        }
    }
    Ok((daemon.ok_or(Garbage::Short("the daemon's own record"))?, lockspaces))
}

fn daemon_status(record: &State<'_>, pid: Option<i32>) -> Result<DaemonStatus, Garbage> {
    let pairs = Pairs::parse(record.text, None)?;
    Ok(DaemonStatus {
        name: readable(pairs.bytes("our_host_name")?),
        pid,
        monotime: pairs.unsigned("monotime")?,
        use_watchdog: pairs.is_set("use_watchdog")?,
        version: readable(pairs.bytes("version_str")?),
    })
}

fn lockspace(record: &State<'_>) -> Result<Lockspace, Garbage> {
    let pairs = Pairs::parse(record.text, None)?;
    Ok(Lockspace {
        name: readable(record.name),
        host_id: record.data64,
        host_generation: pairs.unsigned("host_generation")?,
        io_timeout: pairs.io_timeout()?,
        membership: match pairs.bytes("list")? {
            b"spaces" => Membership::Joined,
            b"add" => Membership::Joining,
            b"rem" => Membership::Leaving,
            _ => return Err(Garbage::Value("list")),
        },
        space_dead: pairs.is_set("space_dead")?,
        killing_pids: pairs.is_set("killing_pids")?,
        renew_fail: pairs.is_set("renew_fail")?,
        corrupt_result: pairs.signed("corrupt_result")?,
        renewal_last_result: pairs.signed("renewal_last_result")?,
        renewal_last_success: pairs.unsigned("renewal_last_success")?,
        hosts: Vec::new(),
    })
}

/// Puts the states to the rows, if both answers saw the same leases; a renewal in between lets them differ.
pub(crate) fn joined(seen: &BTreeMap<u64, Seen>, rows: BTreeMap<u64, Host>) -> Option<Vec<Host>> {
    let with_lease: BTreeSet<_> = rows.values().filter(|h| h.timestamp != 0).map(|h| h.host_id).collect();
    if !with_lease.iter().eq(seen.keys()) {
        return None;
    }
    let rows = rows.into_values().map(|mut row| {
        if let Some(seen) = seen.get(&row.host_id) {
            let same = (seen.generation, seen.timestamp, seen.io_timeout)
                == (row.generation, row.timestamp, row.io_timeout);
            row.state = same.then_some(seen.state);
            return same.then_some(row);
        }
        Some(row)
    });
    rows.collect()
}

#[cfg(test)]
mod tests;

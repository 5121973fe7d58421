//! Asking a daemon: one connection for each command, an end to everything.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

use crate::answer::{self, Listed};
use crate::command::{Command, LockspaceName};
use crate::error::SanlockError;
use crate::reading::{Host, Lockspace, Membership, Reading, Unreadable};
use crate::text::readable;
use crate::wire::{HEADER_BYTES, Header};

/// Where sanlock listens unless its SANLOCK_RUN_DIR says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/sanlock/sanlock.sock";

/// How long one command may take, whatever the caller's deadline allows: a stopped daemon answers late or never.
pub const CALL_LIMIT: Duration = Duration::from_secs(2);

/// How often the hosts of a lockspace are read before two answers that do not fit together are given up. Renewals are
/// seconds apart and the two answers milliseconds, so the second time is nearly always the last.
const HOST_TRIES: usize = 3;

/// A sanlock daemon on this host, by its socket. Holds no connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Daemon {
    socket: PathBuf,
}

/// A whole answer and who gave it.
struct Answer {
    header: Header,
    bytes: Vec<u8>,
    pid: Option<i32>,
}

/// Says which daemon answers, and notices another one.
#[derive(Default)]
struct SameDaemon(Option<Option<i32>>);

impl SameDaemon {
    fn check(&mut self, answer: Answer) -> Result<Answer, SanlockError> {
        if *self.0.get_or_insert(answer.pid) == answer.pid {
            Ok(answer)
        } else {
            Err(SanlockError::OtherDaemon)
        }
    }
}

impl Daemon {
    /// The daemon that listens on `socket`.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Reads every lockspace of the daemon, ending at `by` and each command within [`CALL_LIMIT`].
    ///
    /// The hosts are read before the daemon's own state, so that what is said to be fresh was fresh at the end.
    ///
    /// # Errors
    /// When the daemon cannot be asked or its own state cannot be read. What concerns one lockspace only is in
    /// [`Reading::unreadable`].
    pub async fn read(&self, by: Instant) -> Result<Reading, SanlockError> {
        let mut same = SameDaemon::default();
        let list = same.check(self.ask(&Command::Lockspaces, by).await?)?;
        let list = answer::lockspaces(&list.header, &list.bytes).map_err(garbage(&Command::Lockspaces))?;

        let mut read: BTreeMap<String, Result<Vec<Host>, SanlockError>> = BTreeMap::new();
        for listed in &list {
            let name = readable(&listed.name);
            let twice = list.iter().filter(|l| l.name == listed.name).count() > 1;
            let hosts = if twice {
                Err(SanlockError::Ambiguous { name: name.clone() })
            } else {
                self.hosts(listed, &name, &mut same, by).await?
            };
            read.insert(name, hosts);
        }

        let status = same.check(self.ask(&Command::Status, by).await?)?;
        let (daemon, now) =
            answer::status(&status.header, &status.bytes, status.pid).map_err(garbage(&Command::Status))?;
        let (lockspaces, unreadable) = assemble(&list, read, now);
        Ok(Reading { daemon, lockspaces, unreadable })
    }

    /// The hosts of one lockspace. The outer error is about the daemon, the inner one about the lockspace.
    async fn hosts(
        &self,
        listed: &Listed,
        readable_name: &str,
        same: &mut SameDaemon,
        by: Instant,
    ) -> Result<Result<Vec<Host>, SanlockError>, SanlockError> {
        let name = readable_name.to_owned();
        if listed.membership != Membership::Joined {
            return Ok(Err(SanlockError::NotJoined { name, membership: listed.membership }));
        }
        let asked = std::str::from_utf8(&listed.name).ok().and_then(LockspaceName::new);
        let Some(asked) = asked.filter(|n| n.as_str() == name) else {
            // A name that is no text is in nobody's configuration.
            return Ok(Err(SanlockError::NoLockspace { name }));
        };
        for _ in 0..HOST_TRIES {
            match self.hosts_once(&asked, same, by).await {
                Ok(Some(hosts)) => return Ok(Ok(hosts)),
                Ok(None) => {}
                Err(
                    error @ (SanlockError::NoLockspace { .. }
                    | SanlockError::NotReady { .. }
                    | SanlockError::Garbage { .. }
                    | SanlockError::Refused { .. }),
                ) => return Ok(Err(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(Err(SanlockError::Unsteady { name }))
    }

    /// States and rows, or `None` when the leases changed in between.
    async fn hosts_once(
        &self,
        name: &LockspaceName,
        same: &mut SameDaemon,
        by: Instant,
    ) -> Result<Option<Vec<Host>>, SanlockError> {
        let command = Command::Hosts(name.clone());
        let states = same.check(self.ask(&command, by).await?)?;
        let states = answer::hosts(&states.header, &states.bytes).map_err(garbage(&command))?;
        let command = Command::HostStatus(name.clone());
        let rows = same.check(self.ask(&command, by).await?)?;
        let rows = answer::host_status(&rows.header, &rows.bytes).map_err(garbage(&command))?;
        Ok(answer::joined(&states, rows))
    }

    /// Asks one command on a connection of its own.
    async fn ask(&self, command: &Command, by: Instant) -> Result<Answer, SanlockError> {
        let by = by.min(Instant::now() + CALL_LIMIT);
        timeout_at(by, self.converse(command))
            .await
            .unwrap_or_else(|_| Err(SanlockError::Deadline { command: command.clone() }))
    }

    async fn converse(&self, command: &Command) -> Result<Answer, SanlockError> {
        let mut stream = UnixStream::connect(&self.socket).await.map_err(|e| self.unconnected(e.kind()))?;
        let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let broken = |e: io::Error| SanlockError::Io { command: command.clone(), kind: e.kind() };
        stream.write_all(&command.request()).await.map_err(broken)?;
        let most = command.most_bytes();
        let mut bytes = Vec::with_capacity(4096);
        let mut header = None;
        loop {
            let read = (&mut stream).take(64 << 10).read_buf(&mut bytes).await.map_err(broken)?;
            if bytes.len() > most {
                return Err(SanlockError::TooLong { command: command.clone(), most });
            }
            // As soon as it is there, so that something else than sanlock is not waited for.
            if header.is_none() && (bytes.len() >= HEADER_BYTES || read == 0) {
                header = Some(answer::header(command, &bytes)?);
            }
            if let (0, Some(header)) = (read, header) {
                return Ok(Answer { header, bytes, pid });
            }
        }
    }

    fn unconnected(&self, kind: io::ErrorKind) -> SanlockError {
        let socket = self.socket.clone();
        match kind {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SanlockError::NoSocket { socket },
            io::ErrorKind::ConnectionRefused => SanlockError::NoListener { socket },
            io::ErrorKind::PermissionDenied => SanlockError::Permission { socket },
            io::ErrorKind::WouldBlock => SanlockError::Busy { socket },
            kind => SanlockError::Connect { socket, kind },
        }
    }
}

fn garbage(command: &Command) -> impl FnOnce(crate::error::Garbage) -> SanlockError {
    let command = command.clone();
    move |problem| SanlockError::Garbage { command, problem }
}

/// Puts the hosts to the daemon's last word about its lockspaces. A lockspace that came, went or changed meanwhile is
/// unreadable: which of the two answers is the true one cannot be told.
fn assemble(
    list: &[Listed],
    mut read: BTreeMap<String, Result<Vec<Host>, SanlockError>>,
    now: Vec<Lockspace>,
) -> (Vec<Lockspace>, Vec<Unreadable>) {
    let mut unreadable = Vec::new();
    let mut lockspaces: BTreeMap<String, Lockspace> = BTreeMap::new();
    let mut twice = Vec::new();
    for lockspace in now {
        let name = lockspace.name.clone();
        if lockspaces.insert(name.clone(), lockspace).is_some() {
            twice.push(name);
        }
    }
    for name in twice {
        if lockspaces.remove(&name).is_some() {
            read.insert(name.clone(), Err(SanlockError::Ambiguous { name }));
        }
    }
    let mut whole = Vec::new();
    for (name, hosts) in read {
        let before = list.iter().find(|l| l.name == name.as_bytes());
        let after = lockspaces.remove(&name);
        match (hosts, after) {
            (Err(error), _) => unreadable.push(Unreadable { name, error }),
            (Ok(_), None) => {
                let error = SanlockError::NoLockspace { name: name.clone() };
                unreadable.push(Unreadable { name, error });
            }
            (Ok(hosts), Some(after)) => {
                if after.membership != Membership::Joined {
                    let error = SanlockError::NotJoined { name: name.clone(), membership: after.membership };
                    unreadable.push(Unreadable { name, error });
                } else if before.is_none_or(|b| b.host_id != after.host_id) {
                    let error = SanlockError::Unsteady { name: name.clone() };
                    unreadable.push(Unreadable { name, error });
                } else {
                    whole.push(Lockspace { hosts, ..after });
                }
            }
        }
    }
    // Joined since the list was asked for: the next reading has it.
    for name in lockspaces.into_keys() {
        let error = SanlockError::NotReady { name: name.clone() };
        unreadable.push(Unreadable { name, error });
    }
    (whole, unreadable)
}

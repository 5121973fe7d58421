//! Why there is no reading. Nothing was changed in any case.

use std::io;
use std::path::PathBuf;

use crate::command::Command;
use crate::reading::Membership;

/// What is wrong with an answer's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbage {
    /// The first word is another one.
    #[error("it does not begin like an answer of sanlock")]
    Magic,
    /// The answer is to something else.
    #[error("it answers command {0}")]
    OtherCommand(u32),
    /// The header's length does not fit.
    #[error("its header gives a length of {0} bytes")]
    Length(u32),
    /// The answer ended too early.
    #[error("it ends in the middle of {0}")]
    Short(&'static str),
    /// There is more than the header counts.
    #[error("{0} bytes follow its end")]
    Long(usize),
    /// A state record of a kind that does not belong there.
    #[error("it has a record of kind {0}, which does not belong there")]
    Kind(u32),
    /// A record's text is absent or too long.
    #[error("a record's text has {0} bytes")]
    TextLength(usize),
    /// A record's text does not end with its only NUL.
    #[error("a record's text does not end where it should")]
    TextEnd,
    /// A record's text is no list of `key=value`.
    #[error("a record's text is no list of key=value")]
    Pairs,
    /// A key is there twice.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
    /// A key is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A value is not one that the key can have.
    #[error("`{0}` has a value that it cannot have")]
    Value(&'static str),
    /// A host is there twice, or its id is outside 1 to 2000.
    #[error("host id {0} is there twice or outside 1 to 2000")]
    HostId(u64),
    /// The daemon has no state for a host.
    #[error("host {host_id} has state {state}, which is none")]
    State {
        /// The host.
        host_id: u64,
        /// The number in place of a state.
        state: u32,
    },
    /// Two places of one answer say different things.
    #[error("{0} contradict each other")]
    Contradiction(&'static str),
}

/// Why nothing, or nothing about one lockspace, was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SanlockError {
    /// There is no socket.
    #[error(
        "no sanlock daemon at {socket}: the socket does not exist; start the daemon (systemctl start sanlock) on this host, \
         or correct the path (its folder is the daemon's SANLOCK_RUN_DIR)"
    )]
    NoSocket {
        /// Where it was looked for.
        socket: PathBuf,
    },
    /// There is a socket that nobody serves.
    #[error(
        "no sanlock daemon at {socket}: the socket is there and nobody listens; the daemon has ended, start it \
         (systemctl start sanlock) and see its log for why"
    )]
    NoListener {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket may not be used.
    #[error(
        "{socket} may not be used by this user: add the user to the group `sanlock` (usermod -aG sanlock USER; or \
         SupplementaryGroups=sanlock in its systemd unit) and start again"
    )]
    Permission {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon does not take connections any more.
    #[error(
        "the sanlock daemon at {socket} takes no connections: it is stopped, or stuck in I/O; see `sanlock client status`"
    )]
    Busy {
        /// The socket.
        socket: PathBuf,
    },
    /// The connection could not be made for another reason.
    #[error("no connection to {socket}: {kind}")]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the operating system reported.
        kind: io::ErrorKind,
    },
    /// The connection broke.
    #[error("the connection broke during `{command}`: {kind}; the daemon may have ended")]
    Io {
        /// What was asked.
        command: Command,
        /// What the operating system reported.
        kind: io::ErrorKind,
    },
    /// The answer did not come, or did not end, in time.
    #[error(
        "no whole answer to `{command}` in time: the daemon is stopped, or stuck in I/O to its storage; see \
         `sanlock client status`"
    )]
    Deadline {
        /// What was asked.
        command: Command,
    },
    /// The answer does not end where it must.
    #[error(
        "the answer to `{command}` is longer than the {most} bytes that it can have; is this sanlock's socket?"
    )]
    TooLong {
        /// What was asked.
        command: Command,
        /// The most bytes.
        most: usize,
    },
    /// The daemon speaks another version of the protocol.
    #[error(
        "the daemon speaks version {major}.{minor} of its protocol, and this program version 0: use a program that fits \
         the daemon (sanlock 3.8 speaks version 0)"
    )]
    Version {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
    /// The answer is none.
    #[error(
        "the answer to `{command}` cannot be understood: {problem}; is this sanlock's socket, \
         and of a version that this program knows?"
    )]
    Garbage {
        /// What was asked.
        command: Command,
        /// What is wrong with it.
        problem: Garbage,
    },
    /// The daemon refuses.
    #[error("the daemon answers `{command}` with error {result}")]
    Refused {
        /// What was asked.
        command: Command,
        /// Its error number: negative.
        result: i32,
    },
    /// The daemon has not joined the lockspace.
    #[error(
        "this host's sanlock has not joined lockspace `{name}`: start the lockspace here (for a shared volume group: \
         vgchange --lockstart), or run the worker on a host that has"
    )]
    NoLockspace {
        /// Its name.
        name: String,
    },
    /// The daemon is joining or leaving the lockspace.
    #[error("this host's sanlock is {membership} lockspace `{name}`: it sees nobody meanwhile")]
    NotJoined {
        /// Its name.
        name: String,
        /// What it does.
        membership: Membership,
    },
    /// The daemon has joined and not looked yet.
    #[error(
        "this host's sanlock has just joined lockspace `{name}` and has not looked at its hosts yet; ask again"
    )]
    NotReady {
        /// Its name.
        name: String,
    },
    /// Two lockspaces have one name.
    #[error("the daemon has two lockspaces `{name}`: nothing that it says about them can be told apart")]
    Ambiguous {
        /// Their name.
        name: String,
    },
    /// The two answers about a lockspace's hosts do not fit together, several times.
    #[error("the answers about the hosts of lockspace `{name}` keep contradicting each other; ask again")]
    Unsteady {
        /// Its name.
        name: String,
    },
    /// Another daemon answered in the middle.
    #[error("the daemon was restarted while it was asked; ask again")]
    OtherDaemon,
}

//! Tells systemd when a process is ready and when it begins to end: two words of `sd_notify(3)`, for units with
//! `Type=notify`. Without systemd nobody is told.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable in which systemd names its socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Who is to be told.
#[derive(Debug, Clone)]
pub(crate) struct Systemd(Option<OsString>);

impl Systemd {
    /// The systemd that this environment names, if it names one.
    pub(crate) fn of(environment: &[(OsString, OsString)]) -> Self {
        let socket = environment.iter().find(|(name, _)| name == SOCKET);
        Self(socket.map(|(_, socket)| socket.clone()).filter(|socket| !socket.is_empty()))
    }

    /// It can do its work.
    pub(crate) fn ready(&self) {
        self.say("READY=1");
    }

    /// It ends because it was asked to.
    pub(crate) fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// A process does its work whether or not it is heard.
    fn say(&self, word: &str) {
        let Some(socket) = &self.0 else { return };
        let sent = address(socket).and_then(|to| UnixDatagram::unbound()?.send_to_addr(word.as_bytes(), &to));
        if let Err(error) = sent {
            tracing::warn!(%error, "systemd could not be told {word}");
        }
    }
}

/// A path, or a name without a file that begins with `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hears(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_socket_in_a_folder_and_one_without_a_file_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("@{}", path.display());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&address(OsStr::new(&name)).unwrap()).unwrap();
        for (socket, named) in [(by_path, path.into_os_string()), (by_name, name.into())] {
            let systemd = Systemd::of(&[("PATH".into(), "/bin".into()), (SOCKET.into(), named)]);
            systemd.ready();
            assert_eq!(hears(&socket), "READY=1");
            systemd.stopping();
            assert_eq!(hears(&socket), "STOPPING=1");
        }
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        for environment in [vec![], vec![(SOCKET.into(), OsString::new())]] {
            assert!(Systemd::of(&environment).0.is_none());
        }
        Systemd::of(&[(SOCKET.into(), "/nonexistent/notify".into())]).ready();
    }
}

//! How `apelora demo break` and its like reach a running demo: a Unix socket in a folder that only its owner may enter.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

/// A line of either side is not longer.
const LONGEST: u64 = 4_096;
/// How long the demo waits for the line of somebody who has connected.
const ASKED_WITHIN: Duration = Duration::from_secs(5);
/// How long a command waits for the demo's answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);
/// Commands at a time.
const AT_ONCE: usize = 8;

/// What is to be done to a member of the demo's cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    /// It crashes, its power still on.
    Break,
    /// Its power is gone.
    LosePower,
    /// It freezes: nothing answers, and it still holds what it holds.
    Hang,
    /// It loses the cluster's network and runs on.
    Cut,
    /// It comes back.
    Heal,
}

/// One line to the demo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// What.
    pub(crate) deed: Deed,
    /// To whom.
    pub(crate) member: String,
}

/// The demo's line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// It was done; one sentence.
    Done(String),
    /// It was not; why, and what would help.
    Refused(String),
}

/// Why a command does not reach a demo, or a demo cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// No demo is running.
    #[error("no demo is running; start one in another terminal with `apelora demo`")]
    NoDemo,
    /// None at this port.
    #[error("no demo serves its API at port {0}; leave --demo out for the newest one")]
    NotThere(u16),
    /// The folder is somebody else's, or open to others.
    #[error("the folder {folder} of the running demos is not private ({problem}); remove it")]
    NotPrivate {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
    /// The system refused.
    #[error("the socket of the demo at {0}")]
    Io(PathBuf, #[source] io::Error),
    /// What the demo answered is not understood.
    #[error("the demo gave no answer that is understood; is it of the same version?")]
    Strange,
}

/// Where running demos can be found. `runtime` is `XDG_RUNTIME_DIR`.
pub(crate) fn meeting_place(environment: &[(OsString, OsString)], temporary: &Path) -> PathBuf {
    let runtime = environment.iter().find(|(name, _)| name == "XDG_RUNTIME_DIR").map(|(_, value)| value);
    match runtime.map(Path::new).filter(|folder| folder.is_absolute() && folder.is_dir()) {
        Some(folder) => folder.join("apelora-demo"),
        None => temporary.join(format!("apelora-demo-{}", rustix::process::geteuid().as_raw())),
    }
}

/// A demo that can be reached; not any more when this is dropped.
pub(crate) struct Control {
    folder: PathBuf,
    socket: PathBuf,
    listener: UnixListener,
}

impl Control {
    /// Opens the socket of the demo whose API is at this port.
    ///
    /// # Errors
    /// When the folder is not private or the system refuses the socket.
    pub(crate) fn open(folder: &Path, port: u16) -> Result<Self, ControlError> {
        let socket = folder.join(format!("{port}.sock"));
        // The last demo that ends removes the folder, perhaps at this moment.
        let mut tries = 0;
        let listener = loop {
            make_private(folder)?;
            // Only this demo has the port: what is there was left by one that was killed.
            remove(&socket).map_err(|error| ControlError::Io(socket.clone(), error))?;
            match UnixListener::bind(&socket) {
                Ok(listener) => break listener,
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 3 => tries += 1,
                Err(error) => return Err(ControlError::Io(socket, error)),
            }
        };
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))
            .map_err(|error| ControlError::Io(socket.clone(), error))?;
        Ok(Self { folder: folder.to_owned(), socket, listener })
    }

    /// Answers orders until it is dropped.
    pub(crate) async fn serve<O, F>(&self, obey: O)
    where
        O: Fn(Order) -> F + Clone + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let mut visitors = JoinSet::new();
        loop {
            while visitors.len() >= AT_ONCE {
                visitors.join_next().await;
            }
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    visitors.spawn(attend(stream, obey.clone()));
                }
                // Out of descriptors, most likely: some will be free again.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Reads one order and answers it.
async fn attend<F: Future<Output = Answer>>(mut stream: tokio::net::UnixStream, obey: impl Fn(Order) -> F) {
    let mut line = String::new();
    let (reader, mut writer) = stream.split();
    let mut reader = tokio::io::BufReader::new(reader.take(LONGEST));
    let Ok(Ok(_)) = tokio::time::timeout(ASKED_WITHIN, reader.read_line(&mut line)).await else { return };
    let answer = match serde_json::from_str(&line) {
        Ok(order) => obey(order).await,
        Err(_) => Answer::Refused("the order is not understood; is it of the same version?".to_owned()),
    };
    let mut text = serde_json::to_string(&answer).unwrap_or_default();
    text.push('\n');
    // Whoever asked may have gone.
    let _ = writer.write_all(text.as_bytes()).await;
}

impl Drop for Control {
    fn drop(&mut self) {
        // What cannot be removed is overwritten by the next demo at this port.
        let _ = remove(&self.socket);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Gives an order to the newest demo, or to the one whose API is at this port.
///
/// # Errors
/// When no such demo is running, or it does not answer.
pub(crate) fn give(folder: &Path, port: Option<u16>, order: &Order) -> Result<Answer, ControlError> {
    match fs::symlink_metadata(folder) {
        Ok(_) => check_private(folder)?,
        Err(_) => return Err(port.map_or(ControlError::NoDemo, ControlError::NotThere)),
    }
    let (socket, mut stream) = match port {
        Some(port) => {
            let socket = folder.join(format!("{port}.sock"));
            let stream = UnixStream::connect(&socket).map_err(|_| ControlError::NotThere(port))?;
            (socket, stream)
        }
        None => newest(folder)?,
    };
    let talk = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
        stream.set_write_timeout(Some(ANSWERED_WITHIN))?;
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream.take(LONGEST)).read_line(&mut answer)?;
        Ok(answer)
    };
    let answer = talk(&mut stream).map_err(|error: io::Error| ControlError::Io(socket, error))?;
    serde_json::from_str(&answer).map_err(|_| ControlError::Strange)
}

/// The newest demo that is really there.
fn newest(folder: &Path) -> Result<(PathBuf, UnixStream), ControlError> {
    let failed = |error| ControlError::Io(folder.to_owned(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension() == Some(OsStr::new("sock"))
            && let Ok(data) = fs::symlink_metadata(&path)
        {
            found.push((data.mtime(), data.mtime_nsec(), path));
        }
    }
    found.sort();
    // One that was killed leaves a socket behind which nobody is.
    let there = found.into_iter().rev().find_map(|(.., path)| {
        let stream = UnixStream::connect(&path).ok()?;
        Some((path, stream))
    });
    there.ok_or(ControlError::NoDemo)
}

/// Makes the folder, or sees that it is private.
fn make_private(folder: &Path) -> Result<(), ControlError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_private(folder),
        Err(error) => Err(ControlError::Io(folder.to_owned(), error)),
    }
}

fn check_private(folder: &Path) -> Result<(), ControlError> {
    let not_private = |problem| Err(ControlError::NotPrivate { folder: folder.to_owned(), problem });
    // A link is not followed: it could lead anywhere.
    let data = match fs::symlink_metadata(folder) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ControlError::Io(folder.to_owned(), error)),
    };
    if !data.is_dir() {
        return not_private("it is no directory");
    }
    if data.uid() != rustix::process::geteuid().as_raw() {
        return not_private("it belongs to somebody else");
    }
    if data.mode() & 0o077 != 0 {
        return not_private("others may enter it");
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(deed: Deed) -> Order {
        Order { deed, member: "s3".to_owned() }
    }

    async fn given(folder: &Path, port: Option<u16>, deed: Deed) -> Result<Answer, ControlError> {
        let folder = folder.to_owned();
        tokio::task::spawn_blocking(move || give(&folder, port, &order(deed))).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn orders_reach_the_newest_demo_or_the_one_that_is_named() {
        let here = tempfile::tempdir().unwrap();
        let folder = here.path().join("demos");
        assert!(matches!(given(&folder, None, Deed::Break).await, Err(ControlError::NoDemo)));
        assert!(matches!(given(&folder, Some(1), Deed::Break).await, Err(ControlError::NotThere(1))));
        let mut demos = Vec::new();
        for port in [1, 2_u16] {
            let control = Control::open(&folder, port).unwrap();
            demos.push(tokio::spawn(async move {
                control
                    .serve(move |order| async move {
                        Answer::Done(format!("{:?} {} at {port}", order.deed, order.member))
                    })
                    .await;
            }));
            // Their order is that of the file system's clock.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let done = |text: &str| Answer::Done(text.to_owned());
        assert_eq!(given(&folder, None, Deed::Break).await.unwrap(), done("Break s3 at 2"));
        assert_eq!(given(&folder, Some(1), Deed::LosePower).await.unwrap(), done("LosePower s3 at 1"));
        let strange = folder.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(strange.join("2.sock")).unwrap();
            stream.write_all(b"{\"deed\": \"explode\", \"member\": \"s3\"}\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        assert!(answer.await.unwrap().starts_with(r#"{"refused":"#));
        let [first, second] = demos.try_into().unwrap();
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        assert_eq!(given(&folder, None, Deed::Cut).await.unwrap(), done("Cut s3 at 1"));
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert!(!folder.exists(), "the last demo left its folder");
    }

    #[tokio::test]
    async fn a_folder_that_others_may_enter_or_that_is_a_link_is_refused() {
        let here = tempfile::tempdir().unwrap();
        let folder = here.path().join("demos");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = Control::open(&folder, 1).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("others may enter it") && refused.ends_with("; remove it"), "{refused}");
        assert!(matches!(give(&folder, None, &order(Deed::Cut)), Err(ControlError::NotPrivate { .. })));
        let link = here.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let refused = Control::open(&link, 1).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("it is no directory"), "{refused}");
    }

    #[tokio::test]
    async fn what_a_killed_demo_left_is_taken_over_and_is_no_running_demo() {
        let here = tempfile::tempdir().unwrap();
        let folder = here.path().join("demos");
        make_private(&folder).unwrap();
        drop(std::os::unix::net::UnixListener::bind(folder.join("1.sock")).unwrap());
        assert!(matches!(give(&folder, None, &order(Deed::Cut)), Err(ControlError::NoDemo)));
        assert!(matches!(give(&folder, Some(1), &order(Deed::Cut)), Err(ControlError::NotThere(1))));
        drop(Control::open(&folder, 1).unwrap());
        assert!(!folder.exists());
    }

    #[test]
    fn a_runtime_folder_is_preferred_when_it_is_there() {
        let here = tempfile::tempdir().unwrap();
        let with = |value: &Path| vec![(OsString::from("XDG_RUNTIME_DIR"), value.as_os_str().to_owned())];
        assert_eq!(meeting_place(&with(here.path()), Path::new("/t")), here.path().join("apelora-demo"));
        for other in [with(Path::new("/nonexistent")), with(Path::new("run")), Vec::new()] {
            let place = meeting_place(&other, Path::new("/t"));
            assert!(place.starts_with("/t") && place != Path::new("/t"), "{}", place.display());
        }
    }
}

//! A scripted daemon on a Unix socket of its own. Also used by the worker's tests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// What a scripted daemon does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends this and closes, as the daemon does.
    Say(Vec<u8>),
    /// Sends this and keeps the connection open.
    SayAndHold(Vec<u8>),
    /// Sends this byte by byte, a second apart.
    Drip(Vec<u8>),
    /// Sends this, and then zeros without end.
    Endless(Vec<u8>),
}

pub(crate) const STATUS: u32 = 5;
pub(crate) const HOST_STATUS: u32 = 15;
pub(crate) const LOCKSPACES: u32 = 22;
pub(crate) const HOSTS: u32 = 23;

type Script = dyn Fn(u32, &[u8]) -> Act + Send + Sync;

/// Runs until it is dropped.
pub(crate) struct Peer {
    folder: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
    asked: Arc<Mutex<Vec<u32>>>,
}

impl Peer {
    /// Answers each request, told by its command and its lockspace's name, as `script` says.
    pub(crate) fn start(script: impl Fn(u32, &[u8]) -> Act + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("sanlock.sock")).unwrap();
        let script: Arc<Script> = Arc::new(script);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(converse(stream, Arc::clone(&script), Arc::clone(&log)));
            }
        });
        Self { folder, task, asked }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("sanlock.sock")
    }

    /// The commands that were asked, in their order.
    pub(crate) fn asked(&self) -> Vec<u32> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(mut stream: UnixStream, script: Arc<Script>, log: Arc<Mutex<Vec<u32>>>) {
    let mut header = [0; 32];
    if stream.read_exact(&mut header).await.is_err() {
        return;
    }
    let word = |i: usize| u32::from_ne_bytes(header[4 * i..4 * i + 4].try_into().unwrap());
    assert_eq!((word(0), word(1), word(3)), (0x0428_2010, 1, 0), "magic, version and flags");
    let mut payload = vec![0; usize::try_from(word(4)).unwrap() - 32];
    stream.read_exact(&mut payload).await.unwrap();
    log.lock().unwrap().push(word(2));
    let name = payload.split(|b| *b == 0).next().unwrap_or_default();
    // The reader goes away as soon as it has seen enough.
    let _ = act(&mut stream, script(word(2), name)).await;
}

async fn act(stream: &mut UnixStream, act: Act) -> std::io::Result<()> {
    match act {
        Act::Say(bytes) => stream.write_all(&bytes).await,
        Act::SayAndHold(bytes) => {
            stream.write_all(&bytes).await?;
            std::future::pending().await
        }
        Act::Drip(bytes) => {
            for byte in bytes {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        Act::Endless(bytes) => {
            stream.write_all(&bytes).await?;
            loop {
                stream.write_all(&[0; 4096]).await?;
            }
        }
    }
}

/// A header as the daemon sends it: `length` counts the header.
pub(crate) fn header(command: u32, length: usize, result: i32, count: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap();
    let count = u32::try_from(count).unwrap();
    let words = [0x0428_2010, 1, command, 0, length, 0, result.cast_unsigned(), count];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn name(text: &str) -> Vec<u8> {
    let mut name = text.as_bytes().to_vec();
    name.resize(48, 0);
    name
}

/// The description of a lockspace.
pub(crate) fn lockspace(text: &str, host_id: u64, flags: u32) -> Vec<u8> {
    let mut bytes = name(text);
    bytes.extend(host_id.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.resize(1104, 0);
    bytes
}

/// A state record with its text.
pub(crate) fn state(kind: u32, data32: u32, data64: u64, name_text: &str, text: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = [kind, 0, data32, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    bytes.extend(data64.to_ne_bytes());
    bytes.extend(name(name_text));
    bytes.extend(u32::try_from(text.len() + 1).unwrap().to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(text.as_bytes());
    bytes.push(0);
    bytes
}

/// One host of `get_hosts`.
pub(crate) fn host(host_id: u64, generation: u64, timestamp: u64, io_timeout: u32, state: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [host_id, generation, timestamp].into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.extend(io_timeout.to_ne_bytes());
    bytes.extend(state.to_ne_bytes());
    bytes
}

/// An answer whose records are counted.
pub(crate) fn counted(command: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let body = records.concat();
    let mut bytes = header(command, 32 + body.len(), 0, records.len());
    bytes.extend(body);
    bytes
}

/// An answer whose records go on to its end.
pub(crate) fn streamed(command: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = header(command, 32, 0, 0);
    bytes.extend(records.concat());
    bytes
}

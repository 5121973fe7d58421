//! A peer whose answers are a test's.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apelora_http::{ClientIdentity, Dial, Dialed, Dialing, Endpoint, Trust};
use apelora_incus::Client;
use apelora_lab::redfish::{CertificatePlan, Identity, TlsVersion};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::bodies::{envelope, error_body};

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub head: String,
    pub body: String,
    /// Which of the peer's connections, from 1.
    pub connection: u64,
}

/// What the peer does with a request.
pub enum Reply {
    /// Sends these bytes and keeps the connection.
    Keep(Vec<u8>),
    /// Sends these bytes and closes it.
    Close(Vec<u8>),
    /// Sends the first bytes, then the others one at a time, so far apart.
    Drip(Vec<u8>, Vec<u8>, Duration),
    /// Sends the first bytes, then the others again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Waits, then sends these bytes and keeps the connection.
    Later(Duration, Vec<u8>),
    /// Never answers, and keeps the connection.
    Never,
}

type Script = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;

pub struct Peer {
    script: Script,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicU64,
    written: AtomicU64,
}

impl Peer {
    pub fn new(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            seen: Mutex::default(),
            connections: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// `METHOD path` of every request so far.
    pub fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect()
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes that the client has taken, and what buffers between have.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(&self, mut io: S) -> std::io::Result<()> {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let mut kept = Vec::new();
        while let Some(seen) = read(&mut io, &mut kept, connection).await? {
            let reply = (self.script)(&seen);
            self.seen.lock().unwrap().push(seen);
            match reply {
                Reply::Keep(bytes) => self.write(&mut io, &bytes).await?,
                Reply::Close(bytes) => {
                    self.write(&mut io, &bytes).await?;
                    break;
                }
                Reply::Drip(first, others, pause) => {
                    self.write(&mut io, &first).await?;
                    for byte in others {
                        sleep(pause).await;
                        self.write(&mut io, &[byte]).await?;
                    }
                }
                Reply::Endless(first, again) => {
                    self.write(&mut io, &first).await?;
                    loop {
                        self.write(&mut io, &again).await?;
                    }
                }
                Reply::Later(delay, bytes) => {
                    sleep(delay).await;
                    self.write(&mut io, &bytes).await?;
                }
                Reply::Never => std::future::pending().await,
            }
        }
        io.shutdown().await
    }

    async fn write<S: AsyncWrite + Unpin>(&self, io: &mut S, bytes: &[u8]) -> std::io::Result<()> {
        io.write_all(bytes).await?;
        io.flush().await?;
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

async fn read<S: AsyncRead + Unpin>(
    io: &mut S,
    kept: &mut Vec<u8>,
    connection: u64,
) -> std::io::Result<Option<Seen>> {
    let end = loop {
        if let Some(end) = kept.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if !more(io, kept).await? {
            return Ok(None);
        }
    };
    let head = String::from_utf8(kept.drain(..end + 4).collect()).unwrap();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let length: usize = length.unwrap_or(0);
    while kept.len() < length {
        if !more(io, kept).await? {
            return Ok(None);
        }
    }
    let body = String::from_utf8(kept.drain(..length).collect()).unwrap();
    let mut first = head.lines().next().unwrap().split(' ');
    let (method, path) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    Ok(Some(Seen { method, path, head, body, connection }))
}

async fn more<S: AsyncRead + Unpin>(io: &mut S, kept: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut piece = [0; 4096];
    let read = io.read(&mut piece).await?;
    kept.extend_from_slice(&piece[..read]);
    Ok(read > 0)
}

/// Dials a peer in this process, with or without TLS on top.
struct Pipe(Arc<Peer>, Option<Arc<ServerConfig>>);

impl Dial for Pipe {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            let (ours, theirs) = duplex(64 << 10);
            let (peer, tls) = (Arc::clone(&self.0), self.1.clone());
            tokio::spawn(async move {
                match tls {
                    None => drop(peer.serve(theirs).await),
                    Some(tls) => {
                        if let Ok(theirs) = TlsAcceptor::from(tls).accept(theirs).await {
                            drop(peer.serve(theirs).await);
                        }
                    }
                }
            });
            Ok(Dialed { io: Box::new(ours), peer: None })
        })
    }
}

/// A client whose stream to the peer never leaves this process: a paused clock moves only when both wait.
pub fn piped(peer: &Arc<Peer>) -> Client {
    let dial = Arc::new(Pipe(Arc::clone(peer), None));
    Client::through(dial, Endpoint::unix("/piped".as_ref()), Trust::SystemRoots, None)
}

/// The same with TLS. The certificate is self-signed and names another host, as a cluster's does.
pub fn piped_tls(peer: &Arc<Peer>) -> Client {
    let (identity, trust) = cluster_certificate();
    piped_tls_as(peer, &identity, trust, None)
}

pub fn piped_tls_as(
    peer: &Arc<Peer>,
    shown: &Identity,
    trust: Trust,
    identity: Option<Arc<ClientIdentity>>,
) -> Client {
    let dial = Arc::new(Pipe(Arc::clone(peer), Some(shown.server(TlsVersion::V13).unwrap())));
    let endpoint = apelora_incus::endpoint("https://10.118.1.12").unwrap();
    Client::through(dial, endpoint, trust, identity)
}

/// A certificate as a cluster makes it, and the trust in its file.
pub fn cluster_certificate() -> (Identity, Trust) {
    let plan = CertificatePlan {
        dns_names: vec!["vm".to_owned()],
        ..CertificatePlan::for_address("127.0.0.1".parse().unwrap())
    };
    let identity = Identity::self_signed(&plan).unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("cluster.crt");
    std::fs::write(&file, identity.pem()).unwrap();
    (identity, Trust::pinned_leaf_file(&file).unwrap())
}

/// A real Unix socket that the peer listens on, until this is dropped.
pub struct Socket {
    folder: TempDir,
    listening: tokio::task::JoinHandle<()>,
}

impl Socket {
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("unix.socket")
    }

    pub fn client(&self) -> Client {
        let url = format!("unix://{}", self.path().display());
        Client::new(apelora_incus::endpoint(&url).unwrap(), Trust::SystemRoots, None)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

pub fn socket(peer: &Arc<Peer>) -> Socket {
    let folder = TempDir::new().unwrap();
    let listener = UnixListener::bind(folder.path().join("unix.socket")).unwrap();
    let peer = Arc::clone(peer);
    let listening = tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let peer = Arc::clone(&peer);
            tokio::spawn(async move { drop(peer.serve(io).await) });
        }
    });
    Socket { folder, listening }
}

/// An answer with these bytes as its body.
pub fn whole(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} -\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// An answer with a JSON body, and the connection is kept.
pub fn answer(status: u16, body: &Value) -> Reply {
    Reply::Keep(whole(status, "application/json", body.to_string().as_bytes()))
}

/// A `sync` answer.
pub fn sync(metadata: &Value) -> Reply {
    answer(200, &envelope(metadata))
}

/// An error, with its code as the HTTP status.
pub fn error(code: u16, text: &str) -> Reply {
    answer(code, &error_body(code, text))
}

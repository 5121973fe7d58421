//! An HTTPS server whose answers are somebody else's.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::https::message::{Reply, Seen, read_request, write_reply};

/// Decides what is answered.
pub trait Service: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, request: &Seen) -> Reply;

    /// Whether a new connection is taken.
    fn accepts(&self) -> bool {
        true
    }
}

/// What a server has seen and done.
#[derive(Debug, Default)]
pub struct Stats {
    connections: AtomicU64,
    handshakes: AtomicU64,
    requests: AtomicU64,
    written: AtomicU64,
}

impl Stats {
    /// Connections taken.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// TLS handshakes that came to an end.
    #[must_use]
    pub fn handshakes(&self) -> u64 {
        self.handshakes.load(Ordering::Relaxed)
    }

    /// Requests read.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Bytes written before TLS: what the client has taken, and what buffers between have.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// An HTTPS server.
pub struct Server<S> {
    service: S,
    tls: Arc<ServerConfig>,
    stats: Stats,
}

impl<S: Service> Server<S> {
    /// A server that shows the certificate of `tls` and lets `service` answer.
    #[must_use]
    pub fn new(service: S, tls: Arc<ServerConfig>) -> Arc<Self> {
        Arc::new(Self { service, tls, stats: Stats::default() })
    }

    /// What decides its answers.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// What it has seen and done.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Serves one connection to its end.
    ///
    /// # Errors
    /// When the handshake fails or the connection breaks.
    pub async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) -> io::Result<()> {
        let connection = self.stats.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let mut stream = TlsAcceptor::from(Arc::clone(&self.tls)).accept(io).await?;
        self.stats.handshakes.fetch_add(1, Ordering::Relaxed);
        let mut kept = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut kept, connection).await? {
            self.stats.requests.fetch_add(1, Ordering::Relaxed);
            let reply = self.service.answer(&request);
            let mut written = |bytes: usize| {
                self.stats.written.fetch_add(bytes as u64, Ordering::Relaxed);
            };
            if !write_reply(&mut stream, &reply, &mut written).await? {
                break;
            }
        }
        stream.shutdown().await
    }

    /// Listens on `address`, which must be a loopback address, until the returned value is dropped.
    ///
    /// # Errors
    /// When it is another one, or cannot be listened on.
    pub async fn listen(self: &Arc<Self>, address: SocketAddr) -> io::Result<Listening> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a simulated BMC listens on loopback only",
            ));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let server = Arc::clone(self);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if server.service.accepts() {
                    let server = Arc::clone(&server);
                    // A client that goes away, or that refuses the certificate, is its own affair.
                    tokio::spawn(async move { drop(server.serve(stream).await) });
                }
            }
        });
        Ok(Listening { address, accepting })
    }
}

/// A listening server.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listening {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

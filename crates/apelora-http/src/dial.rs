//! Opening the stream below TLS.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::{Instant, timeout_at};

use crate::endpoint::HostPort;
use crate::{Cause, Endpoint};

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Any byte stream.
pub type BoxIo = Box<dyn Io>;

/// An open stream to a peer, before TLS.
pub struct Dialed {
    /// The stream.
    pub io: BoxIo,
    /// The address it goes to, when it has one.
    pub peer: Option<SocketAddr>,
}

/// The future of [`Dial::dial`].
pub type Dialing<'a> = Pin<Box<dyn Future<Output = Result<Dialed, Cause>> + Send + 'a>>;

/// How a stream to a peer is opened. TLS, trust, limits and deadlines come on top of it and do not depend on it, so
/// a simulation can bring streams that never touch a network.
pub trait Dial: Send + Sync {
    /// Opens a stream, at the latest by `by`.
    fn dial<'a>(&'a self, to: &'a Endpoint, by: Instant) -> Dialing<'a>;
}

/// The real network: the system's resolver, TCP and Unix sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Network;

impl Dial for Network {
    fn dial<'a>(&'a self, to: &'a Endpoint, by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            match to {
                Endpoint::Https(to) | Endpoint::Http(to) => tcp(to, by).await,
                Endpoint::Unix(path) => {
                    let stream = UnixStream::connect(path)
                        .await
                        .map_err(|why| Cause::Connect { to: path.display().to_string(), why })?;
                    Ok(Dialed { io: Box::new(stream), peer: None })
                }
            }
        })
    }
}

async fn tcp(to: &HostPort, by: Instant) -> Result<Dialed, Cause> {
    let resolve = |why| Cause::Resolve { host: to.host().to_owned(), why };
    let addresses: Vec<SocketAddr> = match to.resolved() {
        Some(only) => vec![only],
        None => lookup_host((to.host(), to.port())).await.map_err(resolve)?.collect(),
    };
    let mut last = resolve(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
    for (tried, &address) in addresses.iter().enumerate() {
        match timeout_at(share(by, addresses.len() - tried), TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are small and each waits for its answer: Nagle's algorithm could only delay them.
                stream.set_nodelay(true).map_err(|why| Cause::connect(address, why))?;
                return Ok(Dialed { io: Box::new(stream), peer: Some(address) });
            }
            Ok(Err(why)) => last = Cause::connect(address, why),
            Err(_) => last = Cause::connect(address, io::ErrorKind::TimedOut.into()),
        }
    }
    Err(last)
}

/// An address that does not answer may use only its share of the time that is left, so that the next one is tried.
fn share(by: Instant, addresses_left: usize) -> Instant {
    let now = Instant::now();
    let left = by.saturating_duration_since(now);
    now + left / u32::try_from(addresses_left.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_is_shared_among_the_addresses_that_are_left() {
        let now = Instant::now();
        assert_eq!(share(now + Duration::from_secs(4), 4), now + Duration::from_secs(1));
        assert_eq!(share(now + Duration::from_secs(4), 1), now + Duration::from_secs(4));
        assert_eq!(share(now, 3), now);
    }
}

//! The edge: UDP datagrams and random bytes. The traits exist so that tests can put a bad network in between.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

/// Makes links; each is a new socket with a new port.
pub(crate) trait Network: Send + Sync {
    type Link: Link;
    fn connect(&self, to: SocketAddr) -> impl Future<Output = io::Result<Self::Link>> + Send;
}

/// A datagram socket that talks to one address and port.
pub(crate) trait Link: Send + Sync {
    /// Sends one datagram. Dropped before it is ready, it has sent nothing.
    fn send(&self, datagram: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
    /// Sends one datagram at once or not at all.
    fn send_now(&self, datagram: &[u8]) -> io::Result<()>;
    /// Receives one datagram; `None` is one from another address or port.
    fn receive(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<Option<usize>>> + Send;
}

/// Unpredictable bytes.
pub(crate) trait Entropy: Send {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoEntropy>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoEntropy;

/// Draws an array.
pub(crate) fn draw<const N: usize>(entropy: &mut impl Entropy) -> Result<[u8; N], NoEntropy> {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes)?;
    Ok(bytes)
}

/// The operating system's generator: the one place where real randomness enters.
pub(crate) struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        getrandom::fill(bytes).map_err(|_error| NoEntropy)
    }
}

/// Real UDP.
pub(crate) struct Udp;

/// A connected socket: the kernel drops what comes from elsewhere, and what slipped in before it was connected is
/// recognised by its sender.
pub(crate) struct UdpLink {
    socket: UdpSocket,
    peer: SocketAddr,
}

impl Network for Udp {
    type Link = UdpLink;

    async fn connect(&self, to: SocketAddr) -> io::Result<UdpLink> {
        let any = match to {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
        socket.connect(to).await?;
        Ok(UdpLink { socket, peer: to })
    }
}

impl Link for UdpLink {
    async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.socket.send(datagram).await.map(|_len| ())
    }

    fn send_now(&self, datagram: &[u8]) -> io::Result<()> {
        self.socket.try_send(datagram).map(|_len| ())
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (len, from) = self.socket.recv_from(buffer).await?;
        Ok((from.ip() == self.peer.ip() && from.port() == self.peer.port()).then_some(len))
    }
}

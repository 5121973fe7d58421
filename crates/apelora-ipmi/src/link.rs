//! The edge: UDP datagrams and random bytes. The traits exist so that tests can put a bad network in between.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::Noticed;
use crate::frame::{MAX_DATAGRAM, Reject};
use crate::report::Traffic;

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

/// What has been sent, received and noticed; shared by all attempts of one conversation.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) traffic: Traffic,
    pub(crate) noticed: Noticed,
}

impl Log {
    pub(crate) fn dropped(&mut self, reject: Reject) {
        tracing::debug!(%reject, "datagram dropped");
        self.traffic.dropped = self.traffic.dropped.saturating_add(1);
        self.noticed.dropped = Some(reject);
    }

    pub(crate) fn failed(&mut self, error: &io::Error) {
        tracing::debug!(kind = ?error.kind(), "socket error");
        self.noticed.socket = Some(error.kind());
    }

    /// Sends a datagram that may be lost without harm. An error that belongs to an earlier datagram (an ICMP message is
    /// forgeable and no answer) is reported by the kernel instead of sending, so there is a second try.
    pub(crate) async fn send(&mut self, link: &impl Link, datagram: &[u8], by: Instant) {
        for _ in 0..2 {
            match timeout_at(by, link.send(datagram)).await {
                Ok(Ok(())) => {
                    self.traffic.sent = self.traffic.sent.saturating_add(1);
                    return;
                }
                Ok(Err(error)) => self.failed(&error),
                Err(_late) => return,
            }
        }
    }

    /// Waits for a datagram until `until`. Neither junk nor a socket error moves that time.
    pub(crate) async fn receive<'b>(
        &mut self,
        link: &impl Link,
        buffer: &'b mut [u8; MAX_DATAGRAM + 1],
        until: Instant,
    ) -> Option<&'b [u8]> {
        const AFTER_ERROR: Duration = Duration::from_millis(10);
        let len = loop {
            if Instant::now() >= until {
                return None;
            }
            match timeout_at(until, link.receive(buffer)).await {
                Err(_late) => return None,
                Ok(Ok(received)) => {
                    self.traffic.received = self.traffic.received.saturating_add(1);
                    match received {
                        Some(len) => break len,
                        None => self.dropped(Reject::Sender),
                    }
                }
                Ok(Err(error)) => {
                    self.failed(&error);
                    sleep_until(until.min(Instant::now() + AFTER_ERROR)).await;
                }
            }
        };
        buffer.get(..len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_slipped_in_before_the_socket_was_connected_is_from_elsewhere() {
        let [ours, peer, foreign] = [(); 3].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let [at, peer_at] = [&ours, &peer].map(|socket| socket.local_addr().unwrap());
        foreign.send_to(b"early", at).unwrap();
        ours.connect(peer_at).unwrap();
        foreign.send_to(b"late", at).unwrap();
        peer.send_to(b"good", at).unwrap();
        ours.set_nonblocking(true).unwrap();
        let link = UdpLink { socket: UdpSocket::from_std(ours).unwrap(), peer: peer_at };
        let mut buffer = [0; 8];
        assert_eq!(link.receive(&mut buffer).await.unwrap(), None);
        // The kernel drops the one that came after that.
        assert_eq!(link.receive(&mut buffer).await.unwrap(), Some(4));
        assert_eq!(&buffer[..4], b"good");
    }
}

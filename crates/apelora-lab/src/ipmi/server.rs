//! The BMC on a UDP socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::bmc::Bmc;

/// Serves a BMC over UDP.
pub struct Server;

impl Server {
    /// Answers at `address` until what it returns is dropped. Port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be bound, or is not a loopback address: a simulated BMC accepts a known password.
    pub async fn listen(bmc: Arc<Bmc>, address: SocketAddr) -> io::Result<Listening> {
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{address}: a simulated BMC listens on loopback only"),
            ));
        }
        let socket = Arc::new(UdpSocket::bind(address).await?);
        let address = socket.local_addr()?;
        let serving = tokio::spawn(async move {
            let mut buffer = [0; 2048];
            loop {
                // An error here is an ICMP message about an earlier answer: the asker is gone.
                let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
                let Some(answer) =
                    buffer.get(..length).and_then(|asked| bmc.answer(Instant::now(), from, asked))
                else {
                    continue;
                };
                let (socket, pause) = (Arc::clone(&socket), bmc.pause());
                let deliver = async move {
                    sleep(pause).await;
                    drop(socket.send_to(&answer, from).await);
                };
                if pause.is_zero() {
                    deliver.await;
                } else {
                    tokio::spawn(deliver);
                }
            }
        });
        Ok(Listening { address, serving })
    }
}

/// A listening BMC.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    serving: JoinHandle<()>,
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
        self.serving.abort();
    }
}

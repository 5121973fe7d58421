//! A UDP relay between the client and a BMC that can do to datagrams whatever a network or an attacker can.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToBmc,
    ToClient,
}

pub(crate) const BOTH: [Direction; 2] = [Direction::ToBmc, Direction::ToClient];

/// A datagram on its way.
pub(crate) struct Passing<'a> {
    pub(crate) direction: Direction,
    /// Counts the datagrams of its direction from 1.
    pub(crate) number: usize,
    pub(crate) bytes: &'a [u8],
    /// All datagrams so far, this one included.
    pub(crate) earlier: &'a [(Direction, Vec<u8>)],
}

/// What is delivered in its place.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) bytes: Vec<u8>,
    pub(crate) late: Duration,
    /// Towards the client: from another port than the BMC's.
    pub(crate) from_elsewhere: bool,
}

impl Delivery {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), late: Duration::ZERO, from_elsewhere: false }
    }
}

type Traffic = Arc<Mutex<Vec<(Direction, Vec<u8>)>>>;

pub(crate) struct Relay {
    address: SocketAddr,
    traffic: Traffic,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub(crate) async fn start(
        bmc: SocketAddr,
        mut fault: impl FnMut(&Passing<'_>) -> Vec<Delivery> + Send + 'static,
    ) -> Self {
        let local = "127.0.0.1:0";
        let front = Arc::new(UdpSocket::bind(local).await.unwrap());
        let elsewhere = Arc::new(UdpSocket::bind(local).await.unwrap());
        let address = front.local_addr().unwrap();
        let traffic = Traffic::default();
        let log = Arc::clone(&traffic);
        let task = tokio::spawn(async move {
            // One socket towards the BMC for each client port: BMCs tell sessions apart by it.
            let mut client: Option<(SocketAddr, Arc<UdpSocket>)> = None;
            let mut counts = [0_usize; 2];
            loop {
                let (mut from_client, mut from_bmc) = ([0; 2048], [0; 2048]);
                let back = client.as_ref().map(|(_, socket)| Arc::clone(socket));
                let (direction, bytes) = tokio::select! {
                    received = front.recv_from(&mut from_client) => {
                        let Ok((len, sender)) = received else { continue };
                        if client.as_ref().is_none_or(|(known, _)| *known != sender) {
                            let socket = UdpSocket::bind(local).await.unwrap();
                            socket.connect(bmc).await.unwrap();
                            client = Some((sender, Arc::new(socket)));
                        }
                        (Direction::ToBmc, from_client[..len].to_vec())
                    }
                    received = async { back.as_ref().unwrap().recv(&mut from_bmc).await }, if back.is_some() => {
                        let Ok(len) = received else { continue };
                        (Direction::ToClient, from_bmc[..len].to_vec())
                    }
                };
                let number = {
                    let count = &mut counts[usize::from(direction == Direction::ToBmc)];
                    *count += 1;
                    *count
                };
                let deliveries = {
                    let mut log = log.lock().unwrap();
                    log.push((direction, bytes.clone()));
                    fault(&Passing { direction, number, bytes: &bytes, earlier: &log })
                };
                let Some((sender, back)) = client.clone() else { continue };
                for delivery in deliveries {
                    let (front, back) = (Arc::clone(&front), Arc::clone(&back));
                    let front = if delivery.from_elsewhere { Arc::clone(&elsewhere) } else { front };
                    let deliver = async move {
                        tokio::time::sleep(delivery.late).await;
                        let sent = match direction {
                            Direction::ToBmc => back.send(&delivery.bytes).await,
                            Direction::ToClient => front.send_to(&delivery.bytes, sender).await,
                        };
                        drop(sent);
                    };
                    if delivery.late.is_zero() {
                        deliver.await;
                    } else {
                        tokio::spawn(deliver);
                    }
                }
            }
        });
        Self { address, traffic, task }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many datagrams came by in that direction.
    pub(crate) fn count(&self, direction: Direction) -> usize {
        self.traffic.lock().unwrap().iter().filter(|(passed, _)| *passed == direction).count()
    }
}

/// A fault that strikes the `number`th datagram of `direction` and leaves the others alone.
pub(crate) fn once(
    direction: Direction,
    number: usize,
    mut change: impl FnMut(&Passing<'_>) -> Vec<Delivery> + Send + 'static,
) -> impl FnMut(&Passing<'_>) -> Vec<Delivery> + Send + 'static {
    move |passing| {
        if passing.direction == direction && passing.number == number {
            change(passing)
        } else {
            vec![Delivery::of(passing.bytes)]
        }
    }
}

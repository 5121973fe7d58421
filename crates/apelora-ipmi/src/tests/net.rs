//! An in-memory network in virtual time with a BMC at its end, and the driver opened on it.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::bmc::{Bmc, GUID, credentials};
use crate::dialogue::Dialogue;
use crate::error::IpmiError;
use crate::link::{Entropy, Link, Network, NoEntropy};
use crate::report::SystemGuid;
use crate::suite::{CipherSuite, Suites};
use crate::target::{Target, Timers};

pub(super) const BOTH: &[CipherSuite] = &[CipherSuite::Seventeen, CipherSuite::Three];

/// What the network does to the next datagram in turn; after the last one it is honest.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    Pass,
    /// The question never arrives.
    Lost,
    /// The question arrives, its answer does not.
    Unanswered,
    /// The question arrives twice.
    Twice,
    /// These datagrams arrive first, each after its delay, and then the answer.
    After(Vec<(Duration, Vec<u8>)>),
    /// These datagrams arrive first, and the answer only after a while.
    Late(Duration, Vec<(Duration, Vec<u8>)>),
    /// Only these datagrams arrive, each after its delay, and no answer.
    Only(Vec<(Duration, Vec<u8>)>),
    /// Sending fails.
    Error(io::ErrorKind),
}

pub(super) struct World {
    pub(super) bmc: Bmc,
    pub(super) fates: VecDeque<Fate>,
    /// What happens to all datagrams once the fates are used up.
    pub(super) default: Fate,
    /// Everything that was sent, with the number of its link.
    pub(super) sent: Vec<(usize, Vec<u8>)>,
    pub(super) links: usize,
    pub(super) entropy_left: usize,
}

#[derive(Clone)]
pub(super) struct Net(Arc<Mutex<World>>);

pub(super) struct Wire {
    net: Net,
    number: usize,
    inbox: tokio::sync::Mutex<UnboundedReceiver<Vec<u8>>>,
    deliver: UnboundedSender<Vec<u8>>,
}

impl Net {
    pub(super) fn new(suites: &[CipherSuite], fates: impl IntoIterator<Item = Fate>) -> Self {
        Self(Arc::new(Mutex::new(World {
            bmc: Bmc::new(suites),
            fates: fates.into_iter().collect(),
            default: Fate::Pass,
            sent: Vec::new(),
            links: 0,
            entropy_left: usize::MAX,
        })))
    }

    pub(super) fn silent() -> Self {
        let net = Self::new(BOTH, []);
        net.world().default = Fate::Lost;
        net
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Payload types of everything that was sent.
    pub(super) fn kinds(&self) -> Vec<u8> {
        self.world().sent.iter().map(|(_, packet)| packet[5]).collect()
    }

    /// The console's session ids of all Open Session Requests.
    pub(super) fn session_ids(&self) -> Vec<Vec<u8>> {
        let world = self.world();
        let opens = world.sent.iter().filter(|(_, packet)| packet[5] == 0x10);
        opens.map(|(_, packet)| packet[20..24].to_vec()).collect()
    }

    pub(super) fn fates(&self, fates: impl IntoIterator<Item = Fate>) {
        self.world().fates = fates.into_iter().collect();
    }
}

impl Network for Net {
    type Link = Wire;

    async fn connect(&self, _to: SocketAddr) -> io::Result<Wire> {
        let (deliver, inbox) = unbounded_channel();
        let mut world = self.world();
        world.links += 1;
        let number = world.links;
        drop(world);
        Ok(Wire { net: self.clone(), number, inbox: tokio::sync::Mutex::new(inbox), deliver })
    }
}

impl Wire {
    fn deliver_after(&self, delay: Duration, packet: Vec<u8>) {
        let deliver = self.deliver.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            drop(deliver.send(packet));
        });
    }
}

impl Link for Wire {
    async fn send(&self, datagram: &[u8]) -> io::Result<()> {
        self.send_now(datagram)
    }

    fn send_now(&self, datagram: &[u8]) -> io::Result<()> {
        let mut world = self.net.world();
        let fate = world.fates.pop_front().unwrap_or_else(|| world.default.clone());
        if let Fate::Error(kind) = fate {
            return Err(kind.into());
        }
        world.sent.push((self.number, datagram.to_vec()));
        let copies = match fate {
            Fate::Lost | Fate::Only(_) => 0,
            Fate::Twice => 2,
            _ => 1,
        };
        if let Fate::After(others) | Fate::Only(others) | Fate::Late(_, others) = &fate {
            for (delay, other) in others {
                self.deliver_after(*delay, other.clone());
            }
        }
        for _ in 0..copies {
            let answer = world.bmc.answer(datagram);
            if let (Some(answer), false) = (answer, matches!(fate, Fate::Unanswered)) {
                let delay = match fate {
                    Fate::Late(delay, _) => delay,
                    // Behind what was put in front of it.
                    _ => Duration::from_micros(10),
                };
                self.deliver_after(delay, answer);
            }
        }
        Ok(())
    }

    async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(packet) = self.inbox.lock().await.recv().await else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        buffer[..packet.len()].copy_from_slice(&packet);
        Ok(Some(packet.len()))
    }
}

/// Counts up: every value is new.
pub(super) struct Counter(Net, u8);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        let mut world = self.0.world();
        world.entropy_left = world.entropy_left.checked_sub(1).ok_or(NoEntropy)?;
        self.1 = self.1.wrapping_add(1);
        bytes.fill(self.1);
        Ok(())
    }
}

pub(super) fn target(suites: Suites) -> Target {
    Target { address: ([127, 0, 0, 1], 623).into(), credentials: credentials(), suites }
}

pub(super) type Opened = Result<Dialogue<Wire, Counter>, IpmiError>;

pub(super) async fn open_with(net: &Net, target: &Target, limit: Duration) -> Opened {
    let entropy = Counter(net.clone(), 0);
    Dialogue::open(net, entropy, target, Timers::DEFAULT, Instant::now() + limit).await
}

/// With random bytes that begin behind `last`.
pub(super) async fn open_drawing_after(net: &Net, last: u8) -> Opened {
    let entropy = Counter(net.clone(), last);
    Dialogue::open(net, entropy, &target(Suites::Prefer17), Timers::DEFAULT, by()).await
}

pub(super) async fn open(net: &Net) -> Opened {
    open_with(net, &target(Suites::Prefer17), Duration::from_secs(20)).await
}

pub(super) async fn refused(net: &Net) -> IpmiError {
    open(net).await.err().expect("it was opened")
}

pub(super) fn by() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(super) fn mapped(guid: SystemGuid) -> bool {
    guid.0 == GUID
}

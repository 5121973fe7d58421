//! A member's API on its listeners.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};
use tokio_rustls::TlsAcceptor;

use crate::https::message::{read_request, write_reply};
use crate::https::{Reply, Seen, Whole};
use crate::ident::hex;
use crate::incus::api::{Asked, Step};
use crate::incus::call::{Call, Caller};
use crate::incus::clock::At;
use crate::incus::envelope::Answer;
use crate::incus::machine::{ApiFault, Os};
use crate::incus::world::World;

/// How often a request that waits for the database or for an operation looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// How often one looks again that a machine does not answer at all.
const SILENCE: Duration = Duration::from_millis(200);

/// The world, shared by all listeners and by whoever breaks it.
pub(super) struct Shared(Mutex<World>);

impl Shared {
    pub(super) fn new(world: World) -> Arc<Self> {
        Arc::new(Self(Mutex::new(world)))
    }

    /// The world as it is now.
    pub(super) fn now(&self) -> (MutexGuard<'_, World>, At) {
        let mut world = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = world.settle();
        (world, now)
    }
}

/// Whether a member takes part in a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// Nothing comes back, for now.
    Silent,
    /// The connection ends.
    Shut,
}

/// A member, as one kind of caller reaches it.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) shared: Arc<Shared>,
    pub(super) member: usize,
    /// Whether it is on the machine itself, where no network is between.
    pub(super) local: bool,
}

impl Door {
    /// `boots`: how often the machine had booted when the connection began.
    fn gate(&self, boots: Option<u32>) -> (Gate, u32) {
        let (world, _) = self.shared.now();
        let Some(machine) = world.machines.get(self.member) else { return (Gate::Shut, 0) };
        let away = !self.local && !machine.reachable;
        let gate = if machine.os != Os::Up || away {
            Gate::Silent
        } else if !machine.daemon || boots.is_some_and(|boots| boots != machine.boots) {
            Gate::Shut
        } else if machine.fault == Some(ApiFault::Silent) {
            Gate::Silent
        } else {
            Gate::Open
        };
        (gate, machine.boots)
    }

    /// Waits until the member takes part. `None` when the connection ends.
    async fn pass(&self, boots: Option<u32>) -> Option<u32> {
        loop {
            match self.gate(boots) {
                (Gate::Open, boots) => return Some(boots),
                (Gate::Shut, _) => return None,
                (Gate::Silent, _) => sleep(SILENCE).await,
            }
        }
    }

    /// Finds the answer to one request. `None` when the connection ends without one.
    pub(super) async fn answer(&self, caller: &Caller, seen: &Seen) -> Option<Reaction> {
        let boots = self.pass(None).await?;
        self.react(caller, seen, boots).await
    }

    async fn react(&self, caller: &Caller, seen: &Seen, boots: u32) -> Option<Reaction> {
        let (at, fault) = {
            let (mut world, now) = self.shared.now();
            let machine = world.machines.get_mut(self.member)?;
            machine.requests += 1;
            (now, machine.fault.clone())
        };
        match fault {
            Some(ApiFault::Slow(wait)) => sleep(wait).await,
            Some(ApiFault::Garbage(status)) => return Some(Reaction::Garbage(status)),
            Some(ApiFault::Silent) | None => {}
        }
        let Some(call) = Call::read(seen) else {
            return Some(Reaction::Whole(Answer::error(404, "not found")));
        };
        let asked = Asked { member: self.member, caller, call: &call, at };
        loop {
            self.pass(Some(boots)).await?;
            let (step, clock) = {
                let (mut world, now) = self.shared.now();
                (world.go_on(&asked, now), world.clock)
            };
            match step {
                Step::Answer(answer) => {
                    sleep(World::SOON).await;
                    self.pass(Some(boots)).await?;
                    return Some(Reaction::Whole(answer));
                }
                Step::At(at, answer) => {
                    sleep_until(clock.instant(at)).await;
                    self.pass(Some(boots)).await?;
                    return Some(Reaction::Whole(answer));
                }
                Step::Again => sleep(LOOK_AGAIN).await,
                Step::Follow(operation, until) => {
                    return Some(Reaction::Follow { call: Box::new(call), at, operation, until, boots });
                }
            }
        }
    }

    /// Waits for the end of an operation. `None` when the connection ends before.
    pub(super) async fn follow(&self, caller: &Caller, reaction: &Reaction) -> Option<Value> {
        let Reaction::Follow { call, at, operation, until, boots } = reaction else { return None };
        let asked = Asked { member: self.member, caller, call, at: *at };
        loop {
            self.pass(Some(*boots)).await?;
            let body = {
                let (world, now) = self.shared.now();
                world.follow(&asked, operation, *until, now)
            };
            match body {
                Some(body) => return Some(body),
                None => sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Serves one connection to its end.
    pub(super) async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut stream: IO,
        caller: &Caller,
        boots: u32,
    ) -> io::Result<()> {
        let mut kept = Vec::new();
        while let Some(seen) = read_request(&mut stream, &mut kept, 0).await? {
            let Some(_) = self.pass(Some(boots)).await else { break };
            let Some(reaction) = self.react(caller, &seen, boots).await else { break };
            let whole = match &reaction {
                Reaction::Whole(answer) => Whole::json(answer.status, &answer.body),
                Reaction::Garbage(status) => {
                    Whole { body: b"<html>this is no JSON".to_vec(), ..Whole::empty(*status) }
                }
                Reaction::Follow { .. } => {
                    let head = "HTTP/1.1 200 -\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
                    stream.write_all(head.as_bytes()).await?;
                    stream.flush().await?;
                    let Some(body) = self.follow(caller, &reaction).await else { break };
                    let body = body.to_string();
                    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                    stream.write_all(chunk.as_bytes()).await?;
                    stream.flush().await?;
                    continue;
                }
            };
            if !write_reply(&mut stream, &Reply::Whole(whole), &mut |_| {}).await? {
                break;
            }
        }
        stream.shutdown().await
    }

    /// Serves one connection with TLS to its end.
    pub(super) async fn serve_tls<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: IO,
        tls: Arc<ServerConfig>,
    ) -> io::Result<()> {
        let Some(boots) = self.pass(None).await else { return Ok(()) };
        let stream = TlsAcceptor::from(tls).accept(io).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let caller = Caller::Tls(shown.map(|certificate| hex(&Sha256::digest(certificate))));
        self.serve(stream, &caller, boots).await
    }

    pub(super) async fn listen(self, listener: TcpListener, tls: Arc<ServerConfig>) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (door, tls) = (self.clone(), Arc::clone(&tls));
            // A client that goes away, or that refuses the certificate, is its own affair.
            connections.spawn(async move { drop(door.serve_tls(stream, tls).await) });
            while connections.try_join_next().is_some() {}
        }
    }

    pub(super) async fn listen_local(self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let door = self.clone();
            connections.spawn(async move {
                if let Some(boots) = door.pass(None).await {
                    drop(door.serve(stream, &Caller::Socket, boots).await);
                }
            });
            while connections.try_join_next().is_some() {}
        }
    }
}

/// What is done with a request.
pub(super) enum Reaction {
    /// This is answered.
    Whole(Answer),
    /// Something is answered that is no JSON.
    Garbage(u16),
    /// The answer's body comes when an operation has ended.
    Follow { call: Box<Call>, at: At, operation: String, until: Option<At>, boots: u32 },
}

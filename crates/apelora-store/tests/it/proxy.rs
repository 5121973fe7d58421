//! A proxy between the store and its server that breaks connections around COMMIT.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apelora_store::{DatabaseUrl, Engine, StoreConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::lab::Lab;

/// What happens to one COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// The server never gets it, and sees the connection close.
    Before,
    /// The server commits; its answer is thrown away.
    After,
    /// The client sees the connection close at once; the server gets it some time later.
    Later,
    /// As `After`, and from then on the server cannot be reached any more.
    AfterAndAway,
    /// The server never gets it; the client reads this answer in its place, as from a Galera node that gives the
    /// transaction up, or from PostgreSQL's serializable level.
    GiveUp,
}

/// The proxy; it ends with the test.
pub struct Proxy {
    /// For a store that goes through it.
    pub config: StoreConfig,
    plan: Arc<Mutex<Vec<Break>>>,
    away: Arc<AtomicBool>,
    stalled: Arc<AtomicBool>,
}

impl Proxy {
    pub async fn before(lab: &Lab) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (rest, database) = lab.url.rsplit_once('/').unwrap();
        let (user, server) = rest.rsplit_once('@').unwrap();
        let plain = if lab.engine == Engine::Postgres { "sslmode=disable" } else { "ssl-mode=DISABLED" };
        let url = format!("{user}@{}/{database}?{plain}", listener.local_addr().unwrap());
        let config = StoreConfig::new(DatabaseUrl::parse(&url).unwrap());
        let plan: Arc<Mutex<Vec<Break>>> = Arc::default();
        let away = Arc::new(AtomicBool::new(false));
        let stalled = Arc::new(AtomicBool::new(false));
        let proxy = Self { config, plan: plan.clone(), away: away.clone(), stalled: stalled.clone() };
        let (server, engine) = (server.to_owned(), lab.engine);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if away.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(carry(engine, client, server, plan.clone(), away.clone(), stalled.clone()));
            }
        });
        proxy
    }

    /// What happens to the next COMMITs, in this order.
    pub fn plan(&self, breaks: &[Break]) {
        *self.plan.lock().unwrap() = breaks.iter().rev().copied().collect();
    }

    /// Whether all of it has happened.
    pub fn is_done(&self) -> bool {
        self.plan.lock().unwrap().is_empty()
    }

    /// From now on, or not any more, what the server answers is kept back.
    pub fn stall(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    pub fn come_back(&self) {
        self.away.store(false, Ordering::SeqCst);
    }
}

/// The error that means "run it again", in the words of each protocol.
fn give_up(engine: Engine) -> Vec<u8> {
    match engine {
        // Packet 1: ERR, 1213, SQLSTATE 40001.
        Engine::MariaDb => {
            let body = [b"\xff\xbd\x04#40001".as_slice(), b"Deadlock found when trying to get lock"].concat();
            [&[u8::try_from(body.len()).unwrap(), 0, 0, 1], body.as_slice()].concat()
        }
        // ErrorResponse, then ReadyForQuery, idle.
        _ => {
            let fields = b"SERROR\0VERROR\0C40001\0Mcould not serialize access\0\0";
            let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
            [b"E".as_slice(), &length, fields, b"Z\0\0\0\x05I"].concat()
        }
    }
}

async fn carry(
    engine: Engine,
    client: TcpStream,
    server: TcpStream,
    plan: Arc<Mutex<Vec<Break>>>,
    away: Arc<AtomicBool>,
    stalled: Arc<AtomicBool>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut up = vec![0; 1 << 16];
    let mut down = vec![0; 1 << 16];
    loop {
        tokio::select! {
            read = from_client.read(&mut up) => {
                let Ok(read @ 1..) = read else { return };
                let sent = &up[..read];
                // Alone in its packet; "READ COMMITTED" is something else.
                let is_commit = sent.ends_with(b"COMMIT") || sent.ends_with(b"COMMIT\0");
                let what = if is_commit { plan.lock().unwrap().pop() } else { None };
                match what {
                    None => if to_server.write_all(sent).await.is_err() { return },
                    Some(Break::Before) => return,
                    Some(Break::Later) => {
                        drop((from_client, to_client));
                        tokio::time::sleep(Duration::from_millis(300)).await;
                        let _ = to_server.write_all(sent).await;
                        let _ = from_server.read(&mut down).await;
                        return;
                    }
                    Some(what @ (Break::After | Break::AfterAndAway)) => {
                        away.store(what == Break::AfterAndAway, Ordering::SeqCst);
                        let _ = to_server.write_all(sent).await;
                        let _ = from_server.read(&mut down).await;
                        return;
                    }
                    Some(Break::GiveUp) => {
                        let _ = to_client.write_all(&give_up(engine)).await;
                    }
                }
            }
            read = from_server.read(&mut down) => {
                let Ok(read @ 1..) = read else { return };
                while stalled.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                if away.load(Ordering::SeqCst) || to_client.write_all(&down[..read]).await.is_err() { return }
            }
        }
    }
}

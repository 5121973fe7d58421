//! A wire between a worker and its database server that can be cut, or carry answers late or not at all.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// What a wire does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It carries everything.
    Whole,
    /// Connections are broken, and new ones too.
    Cut,
    /// What is asked arrives; answers are kept back until it is whole again.
    Mute,
    /// What is asked is kept back until it is whole again, and then arrives, whoever asked it.
    Deaf,
    /// Each answer comes this much later.
    Late(Duration),
}

/// A wire. It ends when it is dropped.
pub(crate) struct Wire {
    pub(crate) address: String,
    mode: watch::Sender<Mode>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// To the server at this address.
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (mode, heard) = watch::channel(Mode::Whole);
        let server = server.to_owned();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *heard.borrow() == Mode::Cut {
                    continue;
                }
                let (server, heard) = (server.clone(), heard.clone());
                tokio::spawn(async move {
                    // A server that is restarted refuses, and so the client sees a connection that ends.
                    let Ok(server) = TcpStream::connect(server).await else { return };
                    drop((client.set_nodelay(true), server.set_nodelay(true)));
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let mut cut = heard.clone();
                    tokio::select! {
                        () = asks(from_client, to_server, heard.clone()) => {}
                        () = answers(from_server, to_client, heard) => {}
                        _ = cut.wait_for(|mode| *mode == Mode::Cut) => {}
                    }
                });
            }
        });
        Self { address, mode, task }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn asks(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        drop(mode.wait_for(|mode| *mode != Mode::Deaf).await);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let now = *mode.borrow();
        match now {
            Mode::Late(by) => sleep(by).await,
            Mode::Mute => drop(mode.wait_for(|mode| *mode != Mode::Mute).await),
            Mode::Whole | Mode::Cut | Mode::Deaf => {}
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

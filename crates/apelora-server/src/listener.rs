//! Connections: accepted, bounded, timed, and ended in order.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tracing::{debug, warn};

use crate::config::Limits;
use crate::tls::Tls;

/// The largest head of a request, in bytes.
const HEAD_MAX: usize = 128 << 10;
/// The pause after an accept that failed, as when all file descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection on which nothing was asked yet may hold up the end.
const UNASKED_PAUSE: Duration = Duration::from_secs(1);

/// Serves connections until `shutdown` is done, then lets those that are at work finish.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: &Limits,
    shutdown: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(limits.connections.clamp(1, 65_536)));
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        tokio::select! {
            () = &mut shutdown => break,
            (place, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let connection =
                        connection(stream, peer, tls.clone(), router.clone(), limits.clone(), stopping.clone());
                    connections.spawn(async move {
                        let _place = place;
                        connection.await;
                    });
                }
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    stop.send_replace(true);
    let finish = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.stop_timeout, finish).await.is_err() {
        warn!("some connections did not finish in time and are cut");
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<Tls>>,
    router: Router,
    limits: Limits,
    stopping: watch::Receiver<bool>,
) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let served = match tls {
        None => requests(WriteDeadline::new(stream, limits.write_timeout), router, &limits, stopping).await,
        Some(tls) => match timeout(limits.head_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                requests(WriteDeadline::new(stream, limits.write_timeout), router, &limits, stopping).await
            }
            Ok(Err(error)) => {
                debug!(%peer, %error, "no TLS connection");
                return;
            }
            Err(_) => return,
        },
    };
    if let Err(error) = served {
        debug!(%peer, %error, "a connection ended early");
    }
}

async fn requests<S>(
    stream: S,
    router: Router,
    limits: &Limits,
    mut stopping: watch::Receiver<bool>,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let asked = AtomicBool::new(false);
    let router = TowerToHyperService::new(router);
    let answer = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Also the time that a connection may stay idle.
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_MAX)
        // The reference's spelling as far as it can be had: scripts look for `Location:`.
        .title_case_headers(true)
        // A client that says that it has no more to ask still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(connection);
    tokio::select! {
        served = connection.as_mut() => return served,
        // The sender lives as long as the server does.
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    // A client may have connected ahead of need: nothing of it is lost.
    if !asked.load(Ordering::Relaxed) {
        match timeout(UNASKED_PAUSE, connection.as_mut()).await {
            Ok(served) => return served,
            Err(_) if asked.load(Ordering::Relaxed) => {}
            Err(_) => return Ok(()),
        }
    }
    connection.await
}

/// A stream whose peer must read what is written to it.
struct WriteDeadline<S> {
    stream: S,
    limit: Duration,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, stuck: None }
    }

    /// Passes on what happened, and ends what has been stuck for too long.
    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let limit = self.limit;
        let stuck =
            self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, polled)
    }
}

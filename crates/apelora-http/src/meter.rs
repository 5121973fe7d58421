//! Counting what a peer sends, so that no framing can make it endless.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The shared count of one connection. Plain bytes: after TLS.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    received: AtomicU64,
    from: AtomicU64,
    until: AtomicU64,
    exceeded: AtomicBool,
}

impl Meter {
    /// Allows this many bytes from now on.
    pub(crate) fn allow(&self, bytes: usize) {
        let from = self.received();
        self.from.store(from, Ordering::Relaxed);
        self.until.store(from.saturating_add(bytes as u64), Ordering::Relaxed);
    }

    /// Bytes received since the last allowance.
    pub(crate) fn since_allowed(&self) -> u64 {
        self.received() - self.from.load(Ordering::Relaxed)
    }

    /// All bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Whether the peer sent more than was allowed.
    pub(crate) fn exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Relaxed)
    }
}

/// A stream whose received bytes are counted; reading past the allowance is an error.
pub(crate) struct Metered<T> {
    inner: T,
    meter: Arc<Meter>,
}

impl<T> Metered<T> {
    pub(crate) fn new(inner: T, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        let new = (buf.filled().len() - before) as u64;
        let received = self.meter.received.fetch_add(new, Ordering::Relaxed) + new;
        if received > self.meter.until.load(Ordering::Relaxed) {
            self.meter.exceeded.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answer is too large")));
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

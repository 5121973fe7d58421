//! One owned HTTP/1.1 connection.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::meter::{Meter, Metered};
use crate::trust::client_config;
use crate::{
    Answer, BoxIo, Cause, ClientIdentity, Dial, Dialed, Endpoint, HttpError, Network, Part, Request, Step,
    TlsRefusal, Trust,
};

/// The smallest head limit that the HTTP parser can keep, in bytes.
const SMALLEST_HEAD: usize = 8 * 1024;

/// What a peer may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest time for one connect: trust file, name resolution, TCP and TLS. Never beyond the caller's deadline.
    pub connect: Duration,
    /// Largest head of an answer, in bytes; at least 8 KiB.
    pub head: usize,
    /// Largest body of an answer, in bytes.
    pub body: usize,
}

/// Names one connection within this process: two answers with the same id came over the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One connection to one peer. It is driven only while a method of it runs, spawns no task, never reconnects, and its
/// sockets are closed when it is dropped.
pub struct Connection {
    id: ConnectionId,
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    ended: bool,
    /// What the peer said about TLS when it ended the connection between two requests.
    farewell: Option<TlsRefusal>,
    abandoned: bool,
    host: HeaderValue,
    meter: Arc<Meter>,
    limits: Limits,
    peer: Option<SocketAddr>,
    leaf: Option<Vec<u8>>,
}

/// Connects over the network. See [`connect_through`].
///
/// # Errors
/// As [`connect_through`].
pub async fn connect(
    to: &Endpoint,
    trust: &Trust,
    limits: &Limits,
    by: Instant,
) -> Result<Connection, HttpError> {
    connect_through(&Network, to, trust, limits, by).await
}

/// Opens one connection: reads the trusted certificates, dials, and completes the TLS handshake, all by `by` and within
/// `limits.connect`. No request is sent. A Unix socket and plain HTTP have no TLS, so `trust` is not used for them.
///
/// # Errors
/// [`HttpError::Tls`] when the peer is refused, [`HttpError::NotSent`] when it is not reached, [`HttpError::Deadline`].
pub async fn connect_through(
    dial: &dyn Dial,
    to: &Endpoint,
    trust: &Trust,
    limits: &Limits,
    by: Instant,
) -> Result<Connection, HttpError> {
    connect_as(dial, to, trust, None, limits, by).await
}

/// As [`connect_through`], with a client certificate for a peer that asks for one. It is shown after the peer's own
/// certificate was believed, and never without being asked for.
///
/// With TLS 1.3 a peer looks at the client certificate only after its own side of the handshake is done: a refusal of
/// it comes with the first request, as [`Cause::Tls`].
///
/// # Errors
/// As [`connect_through`].
pub async fn connect_as(
    dial: &dyn Dial,
    to: &Endpoint,
    trust: &Trust,
    identity: Option<&ClientIdentity>,
    limits: &Limits,
    by: Instant,
) -> Result<Connection, HttpError> {
    let by = by.min(Instant::now() + limits.connect);
    let late = |during| move |_| HttpError::Deadline { during, sent: false, status: None };
    let Endpoint::Https(https) = to else {
        let dialed = timeout_at(by, dial.dial(to, by)).await.map_err(late(Step::Connecting))?;
        let Dialed { io, peer } = dialed.map_err(HttpError::NotSent)?;
        return Connection::over(io, to, limits, peer, None).await;
    };

    let (trust, identity) = (trust.clone(), identity.cloned());
    let reading = tokio::task::spawn_blocking(move || client_config(&trust, identity.as_ref()));
    let config = timeout_at(by, reading)
        .await
        .map_err(late(Step::Trust))?
        .map_err(|why| HttpError::Tls(TlsRefusal::Unusable(why.to_string())))?
        .map_err(HttpError::Tls)?;
    let Some(name) = https.server_name() else {
        return Err(HttpError::NotSent(Cause::Request(format!("{to} names no server"))));
    };
    let dialed = timeout_at(by, dial.dial(to, by)).await.map_err(late(Step::Connecting))?;
    let Dialed { io, peer } = dialed.map_err(HttpError::NotSent)?;
    let tls = timeout_at(by, TlsConnector::from(config).connect(name, io))
        .await
        .map_err(late(Step::Handshake))?
        .map_err(|why| handshake_error(&why))?;
    let leaf = tls.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(|leaf| leaf.to_vec());
    Connection::over(Box::new(tls), to, limits, peer, leaf).await
}

fn too_late() -> HttpError {
    HttpError::Deadline { during: Step::Ready, sent: false, status: None }
}

fn handshake_error(why: &std::io::Error) -> HttpError {
    match why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(refused) => HttpError::Tls(TlsRefusal::of(refused)),
        None => HttpError::NotSent(Cause::Io(why.kind())),
    }
}

impl Connection {
    async fn over(
        io: BoxIo,
        to: &Endpoint,
        limits: &Limits,
        peer: Option<SocketAddr>,
        leaf: Option<Vec<u8>>,
    ) -> Result<Self, HttpError> {
        let limits = Limits { head: limits.head.max(SMALLEST_HEAD), ..*limits };
        let unusable = |why: String| HttpError::NotSent(Cause::Request(why));
        let host = HeaderValue::from_str(&to.host_header()).map_err(|why| unusable(why.to_string()))?;
        let meter = Arc::new(Meter::default());
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(limits.head)
            .handshake::<_, Full<Bytes>>(TokioIo::new(Metered::new(io, Arc::clone(&meter))))
            .await
            .map_err(|why| unusable(why.to_string()))?;
        Ok(Self {
            id: ConnectionId::next(),
            sender,
            driver: Box::pin(driver),
            ended: false,
            farewell: None,
            abandoned: false,
            host,
            meter,
            limits,
            peer,
            leaf,
        })
    }

    /// The name of this connection.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The address it goes to.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The peer's own certificate in DER form.
    #[must_use]
    pub fn leaf(&self) -> Option<&[u8]> {
        self.leaf.as_deref()
    }

    /// All bytes received after TLS, heads and framing included.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.meter.received()
    }

    /// Whether a request can be sent now. Looks at the network first, so that a connection which the peer has closed
    /// in the meantime is noticed if the system knows it already. `false` also when `by` passes.
    pub async fn ready(&mut self, by: Instant) -> bool {
        if self.abandoned {
            return false;
        }
        // Lets the runtime collect the sockets' news.
        tokio::task::yield_now().await;
        let Self { sender, driver, ended, farewell, .. } = self;
        let ready = poll_fn(|cx| {
            if !*ended && let Poll::Ready(end) = driver.as_mut().poll(cx) {
                *ended = true;
                if let Some(Cause::Tls(refused)) = end.err().map(|why| cause(&why)) {
                    *farewell = Some(refused);
                }
            }
            match sender.poll_ready(cx) {
                Poll::Ready(ready) => Poll::Ready(ready.is_ok() && !*ended),
                Poll::Pending if *ended => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        });
        timeout_at(by, ready).await.unwrap_or(false)
    }

    /// Sends one request as soon as the connection is ready for it, and reads its whole answer. Redirects are answers
    /// like any other.
    ///
    /// When this future is dropped, or fails after the request left, the connection cannot be used again.
    ///
    /// # Errors
    /// See [`HttpError`]; its [`may_have_been_sent`](HttpError::may_have_been_sent) tells the two worlds apart.
    pub async fn send(&mut self, request: Request, by: Instant) -> Result<Answer, HttpError> {
        if self.abandoned {
            return Err(HttpError::NotSent(Cause::Abandoned));
        }
        if !self.ready(by).await {
            return Err(match self.farewell.clone() {
                Some(refused) => HttpError::NotSent(Cause::Tls(refused)),
                None if Instant::now() >= by => too_late(),
                None => HttpError::NotSent(Cause::Closed),
            });
        }
        self.send_now(request, by).await
    }

    /// As [`send`](Self::send), but at once: the first poll writes. For callers who have waited for
    /// [`ready`](Self::ready) themselves and must not be held up between a last check and the first byte.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`HttpError::NotSent`] when the connection is not ready.
    pub async fn send_now(&mut self, request: Request, by: Instant) -> Result<Answer, HttpError> {
        if self.abandoned {
            return Err(HttpError::NotSent(Cause::Abandoned));
        }
        if Instant::now() >= by {
            return Err(too_late());
        }
        let body_limit = request.body_limit.map_or(self.limits.body, |own| own.min(self.limits.body));
        let request = self.on_the_wire(request)?;
        self.meter.allow(self.limits.head.saturating_add(body_limit));
        self.abandoned = true;
        let answer = self.exchange(request, body_limit, by).await;
        self.abandoned = !matches!(answer, Ok(_) | Err(HttpError::NotSent(_)));
        answer
    }

    /// Closes the connection in order, as far as the peer plays along until `by`.
    pub async fn close(self, by: Instant) {
        let Self { sender, driver, ended, abandoned, .. } = self;
        // Without a sender the connection ends itself: TLS says that it closes, then the socket does.
        drop(sender);
        if !ended && !abandoned {
            // Whatever happens now, the socket is closed with the connection.
            drop(timeout_at(by, driver).await);
        }
    }

    fn on_the_wire(&self, request: Request) -> Result<hyper::Request<Full<Bytes>>, HttpError> {
        let length = request.body.len();
        let mut wire = hyper::Request::builder()
            .method(hyper::Method::from(request.method))
            .uri(&request.path)
            .body(Full::new(request.body))
            .map_err(|why| HttpError::NotSent(Cause::Request(why.to_string())))?;
        if !request.path.starts_with('/') {
            return Err(HttpError::NotSent(Cause::Request("the path must begin with /".to_owned())));
        }
        *wire.headers_mut() = request.headers;
        wire.headers_mut().insert(HOST, self.host.clone());
        if length > 0 || request.method == crate::Method::Post {
            wire.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Ok(wire)
    }

    async fn exchange(
        &mut self,
        request: hyper::Request<Full<Bytes>>,
        body_limit: usize,
        by: Instant,
    ) -> Result<Answer, HttpError> {
        let limits = self.limits;
        let answering = self.sender.try_send_request(request);
        let answer = timeout_at(by, drive(&mut self.driver, &mut self.ended, answering))
            .await
            .map_err(|_| HttpError::Deadline { during: Step::Head, sent: true, status: None })?;
        let answer = match answer {
            Ok(answer) => answer,
            // hyper hands a request back only when it never began to write it.
            Err(why) if why.message().is_some() => return Err(HttpError::NotSent(cause(why.error()))),
            Err(why) => return Err(self.lost(why.error(), Part::Head, limits.head, None)),
        };

        let (head, body) = answer.into_parts();
        let status = head.status.as_u16();
        let collected = timeout_at(by, drive(&mut self.driver, &mut self.ended, collect(body, body_limit)))
            .await
            .map_err(|_| HttpError::Deadline { during: Step::Body, sent: true, status: Some(status) })?;
        match collected {
            Ok(body) => Ok(Answer { status, headers: head.headers, body }),
            Err(Some(why)) => Err(self.lost(&why, Part::Body, body_limit, Some(status))),
            Err(None) => {
                Err(HttpError::TooLarge { part: Part::Body, limit: body_limit, status: Some(status) })
            }
        }
    }

    fn lost(&self, why: &hyper::Error, part: Part, limit: usize, status: Option<u16>) -> HttpError {
        let head_is_full = part == Part::Head && why.is_parse() && self.meter.since_allowed() >= limit as u64;
        if self.meter.exceeded() || head_is_full {
            HttpError::TooLarge { part, limit, status }
        } else {
            HttpError::MaybeSent { cause: cause(why), status }
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Runs `work` while driving the connection it depends on.
async fn drive<T>(
    driver: &mut Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>,
    ended: &mut bool,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        if !*ended && driver.as_mut().poll(cx).is_ready() {
            *ended = true;
            return work.as_mut().poll(cx);
        }
        Poll::Pending
    })
    .await
}

/// Reads a body of at most `limit` bytes. `Err(None)` when it is larger.
async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, Option<hyper::Error>> {
    use hyper::body::Body as _;
    if body.size_hint().lower() > limit as u64 {
        return Err(None);
    }
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame.map_err(Some)?.data_ref() {
            if data.len() > limit - collected.len() {
                return Err(None);
            }
            collected.extend_from_slice(data);
        }
    }
    Ok(collected.freeze())
}

fn cause(why: &hyper::Error) -> Cause {
    let io = std::iter::successors(std::error::Error::source(why), |inner| inner.source())
        .find_map(|inner| inner.downcast_ref::<std::io::Error>());
    if let Some(io) = io {
        match (io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()), io.kind()) {
            (Some(refused), kind) => TlsRefusal::of_client(refused).map_or(Cause::Io(kind), Cause::Tls),
            // What the HTTP parser says about a body's framing.
            (None, ErrorKind::InvalidData | ErrorKind::InvalidInput) => Cause::Protocol(why.to_string()),
            (None, kind) => Cause::Io(kind),
        }
    } else if why.is_incomplete_message() || why.is_closed() || why.is_canceled() {
        Cause::Closed
    } else if why.is_user() {
        Cause::Request(why.to_string())
    } else {
        Cause::Protocol(why.to_string())
    }
}

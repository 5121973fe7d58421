//! What can go wrong with a connection or a request, and whether the request may have reached the peer.

use std::io;
use std::net::SocketAddr;

use crate::TlsRefusal;

/// Why there is no answer.
///
/// The question that matters to a caller who changes something is answered by
/// [`may_have_been_sent`](Self::may_have_been_sent).
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No byte of the request left.
    #[error("nothing was sent: {0}")]
    NotSent(#[source] Cause),
    /// The request, or a part of it, may have reached the peer.
    #[error("the request may have been sent, but there is no whole answer: {cause}")]
    MaybeSent {
        /// What happened.
        #[source]
        cause: Cause,
        /// The status, when the head of the answer had arrived.
        status: Option<u16>,
    },
    /// The answer is larger than the caller accepts. The connection is closed.
    #[error("the answer's {part} is larger than {limit} bytes")]
    TooLarge {
        /// Which part.
        part: Part,
        /// The limit, in bytes.
        limit: usize,
        /// The status, when the head of the answer had arrived.
        status: Option<u16>,
    },
    /// The peer's certificate or TLS itself was refused. No request was sent.
    #[error("{0}")]
    Tls(#[source] TlsRefusal),
    /// The deadline passed.
    #[error("the deadline passed while {during}")]
    Deadline {
        /// What was being waited for.
        during: Step,
        /// Whether the request may have been sent.
        sent: bool,
        /// The status, when the head of the answer had arrived.
        status: Option<u16>,
    },
}

impl HttpError {
    /// `false` only when no byte of the request can have reached the peer.
    #[must_use]
    pub fn may_have_been_sent(&self) -> bool {
        match self {
            Self::NotSent(_) | Self::Tls(_) => false,
            Self::MaybeSent { .. } | Self::TooLarge { .. } => true,
            Self::Deadline { sent, .. } => *sent,
        }
    }

    /// The answer's status, when its head had arrived before the error.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::NotSent(_) | Self::Tls(_) => None,
            Self::MaybeSent { status, .. }
            | Self::TooLarge { status, .. }
            | Self::Deadline { status, .. } => *status,
        }
    }
}

/// What happened below a request.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The name has no address.
    #[error("`{host}` cannot be resolved: {why}; check the name and the resolver of this host")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's word.
        why: io::Error,
    },
    /// No connection.
    #[error("{to} cannot be connected: {why}; check address, port, routes and packet filters")]
    Connect {
        /// The address or socket.
        to: String,
        /// The system's word.
        why: io::Error,
    },
    /// The peer had closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(io::ErrorKind),
    /// The peer ended TLS after the handshake, because of the client certificate.
    #[error("{0}")]
    Tls(TlsRefusal),
    /// The peer does not speak HTTP/1.1 as it must.
    #[error("the peer does not speak HTTP/1.1: {0}")]
    Protocol(String),
    /// The request cannot be written: a programming error of the caller.
    #[error("the request is not valid: {0}")]
    Request(String),
    /// An earlier request on this connection was given up before its answer was complete.
    #[error("an earlier request on this connection was given up")]
    Abandoned,
}

impl Cause {
    pub(crate) fn connect(to: SocketAddr, why: io::Error) -> Self {
        Self::Connect { to: to.to_string(), why }
    }
}

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Status line and headers.
    Head,
    /// The body.
    Body,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Head => "head",
            Self::Body => "body",
        })
    }
}

/// What was being waited for when a deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reading the file that names the trusted certificates.
    Trust,
    /// Resolving the name and connecting.
    Connecting,
    /// The TLS handshake.
    Handshake,
    /// A free connection.
    Ready,
    /// The head of the answer.
    Head,
    /// The body of the answer.
    Body,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Trust => "the trusted certificates were read",
            Self::Connecting => "connecting",
            Self::Handshake => "the TLS handshake went on",
            Self::Ready => "the connection was not ready for a request",
            Self::Head => "waiting for the head of the answer",
            Self::Body => "reading the body of the answer",
        })
    }
}

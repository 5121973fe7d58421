//! The one place of the workspace that opens HTTP connections as a client.
//!
//! [`connect`] gives **one owned connection** over TLS or a Unix socket (or, where a caller asks for it by name, over
//! plain TCP): there is no pool that could reconnect
//! behind the caller's back, so "the same connection" is something a caller can know. What it does not do is as
//! much a part of it: no proxy, no redirects, no cookies, no compression, no retry, no `Expect`, no HTTP/2.
//!
//! * **Trust** ([`Trust`]) has three forms and no fourth: the system's roots, only the certificates of one file,
//!   or exactly these leaf certificates. No value, flag or variable turns the verification off.
//! * **The own certificate** ([`ClientIdentity`], [`connect_as`]) is shown only to a peer that is believed and asks.
//! * **Deadlines** are absolute [`tokio::time::Instant`]s handed down by the caller. They include name resolution,
//!   reading the trust file, the TLS handshake and every byte of the answer.
//! * **Bytes are counted** ([`Limits`]): an answer's head and body each have a limit, and their sum limits what is
//!   accepted on the wire, whatever its framing.
//! * **Errors say what may have happened** ([`HttpError`]): [`HttpError::may_have_been_sent`] is `false` only when no
//!   byte of the request can have left.

mod connection;
mod dial;
mod endpoint;
mod error;
mod identity;
mod message;
mod meter;
mod pin;
mod tls_refusal;
mod trust;

pub use connection::{Connection, ConnectionId, Limits, connect, connect_as, connect_through};
pub use dial::{BoxIo, Dial, Dialed, Dialing, Io, Network};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Cause, HttpError, Part, Step};
pub use hyper::{Uri, header};
pub use identity::{ClientIdentity, IdentityError, IdentityProblem};
pub use message::{Answer, Method, Request};
pub use tls_refusal::TlsRefusal;
pub use trust::{PinFileError, Trust};

//! What the simulated HTTPS systems share: certificates, the server's side of HTTP/1.1, and a server that counts.

mod client;
pub(crate) mod message;
mod pki;
mod server;

pub use message::{After, Framing, Reply, Seen, Whole};
pub use pki::{Authority, CertificatePlan, Identity, Life, PkiError, TlsVersion};
pub use server::{Listening, Server, Service, Stats};

//! A simulated Redfish BMC: HTTPS with a certificate of a throw-away authority, the bodies of real vendors, and the
//! faults that real BMCs have.
//!
//! * [`Authority`] and [`CertificatePlan`] make certificates, good and bad.
//! * [`Server`] speaks HTTP/1.1 over TLS and counts what it sees; what it answers is a [`Service`]'s.
//! * [`Bmc`] is a service with power states, an account and [`Fault`]s, in the guise of a [`Personality`].

mod bmc;
mod http;
mod personality;
mod pki;
mod server;

pub use bmc::{Bmc, Fault, Power};
pub use http::{After, Framing, Reply, Seen, Whole};
pub use personality::{Personality, PersonalityError};
pub use pki::{Authority, CertificatePlan, Identity, Life, PkiError, TlsVersion};
pub use server::{Listening, Server, Service, Stats};

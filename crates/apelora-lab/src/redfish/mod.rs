//! A simulated Redfish BMC: HTTPS with a certificate of a throw-away authority, the bodies of real vendors, and the
//! faults that real BMCs have.
//!
//! * [`Authority`] and [`CertificatePlan`] make certificates, good and bad.
//! * [`Server`] speaks HTTP/1.1 over TLS and counts what it sees; what it answers is a [`Service`]'s.
//! * [`Bmc`] is a service with power states, an account and [`Fault`]s, in the guise of a [`Personality`].

mod bmc;
mod personality;

pub use crate::https::{
    After, Authority, CertificatePlan, Framing, Identity, Life, Listening, PkiError, Reply, Seen, Server,
    Service, Stats, TlsVersion, Whole,
};
pub use bmc::{Bmc, Fault, Power};
pub use personality::{Personality, PersonalityError};

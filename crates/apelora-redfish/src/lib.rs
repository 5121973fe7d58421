//! A Redfish client that can do three things and nothing else: read one computer system's identity and power state,
//! ask for `ForceOff`, and read again.
//!
//! It is the `redfish` fence provider's hands, not its head: it reports what it saw ([`Reported`]) and what became of a
//! request ([`SendReport`]); whether an identity is the right one, whether power may be switched and what proves that a
//! server is off is decided by its caller. What it does decide is what one must not get wrong on the wire:
//!
//! * The certificate is verified against the system's roots or exactly one CA file, before a credential is sent. There
//!   is no way around it.
//! * Credentials go to the mapped origin only. One redirect is followed, for a GET, when it only adds or drops a slash.
//! * A [`Conversation`] stays with one peer: when it has to reconnect, the address and the certificate must be the same.
//! * `ForceOff` is sent at most once for each reading, only after a reading that says the system is running, only to
//!   the reset target of that very system, and only after the caller's last word, which is asked for directly before.
//! * [`Conversation::may_have_sent`] turns true before the first byte of that request can leave.
//!
//! Sources: DMTF DSP0266 (Redfish specification), the `ComputerSystem` schema, and recorded answers of real BMCs
//! (`tests/data/redfish`).

mod conversation;
mod credentials;
mod discovery;
mod error;
mod link;
mod resource;
mod send;
mod system_path;
mod target;
mod vendor;

pub use apelora_http::{Dial, Dialed, Dialing, Endpoint, EndpointError, Network};
pub use conversation::Conversation;
pub use error::RedfishError;
pub use link::Traffic;
pub use resource::{NoReset, PowerWord, Reported, ReportedUuid};
pub use send::{NotSent, ResetAnswer, SendReport};
pub use system_path::{SystemPath, SystemPathError};
pub use target::{SystemChoice, Target};

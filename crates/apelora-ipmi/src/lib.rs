//! IPMI 2.0 over the LAN (RMCP+, UDP) for one purpose: read which server a BMC belongs to and whether it is on, switch
//! it off hard, and read back. Authenticated, integrity-protected and encrypted, or refused.
//!
//! [`Conversation`] is the door. Inside, `frame`, `setup`, `lan` and `keys` are the codec, `handshake` and `session` the
//! machines that decide what is believed (bytes in, bytes out, no I/O), `opening` and `dialogue` the driver that waits
//! and repeats, and `link` the sockets. No request other than the five of `lan::Request` can be expressed.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use apelora_ipmi::{Conversation, Credentials, Power, Suites, SystemGuid, Target, Timers};
//! use tokio::time::Instant;
//!
//! # async fn switch_off(
//! #     password: secrecy::SecretString,
//! #     is_mapped: impl Fn(SystemGuid) -> bool + Send + Copy,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target {
//!     address: "10.0.0.12:623".parse()?,
//!     credentials: Credentials::new("apelora", &password, None)?,
//!     suites: Suites::from_ids(&[17])?,
//! };
//! let by = Instant::now() + Duration::from_secs(20);
//! let mut bmc = Conversation::open(&target, Timers::DEFAULT, by).await?;
//! let before = bmc.read(is_mapped, by).await?;
//! if before.power == Power::On {
//!     let report = bmc.force_off(by, by).await;
//!     let after = bmc.read(is_mapped, by).await?;
//!     println!("{report:?}, and then {:?}: {after}", after.power);
//! }
//! bmc.close(by).await;
//! # Ok(())
//! # }
//! ```
//!
//! The specification is "Intelligent Platform Management Interface Specification, second generation, v2.0", cited as
//! IPMI 2.0 with its section.
#![forbid(unsafe_code)]

mod conversation;
mod credentials;
mod dialogue;
mod error;
mod frame;
mod handshake;
mod keys;
mod lan;
mod link;
mod opening;
mod report;
mod session;
mod setup;
mod suite;
mod target;
#[cfg(test)]
mod tests;

pub use conversation::{Closed, Conversation};
pub use credentials::{Credentials, CredentialsError};
pub use error::{IpmiError, Noticed};
pub use report::{
    ChassisStatus, Completion, IdentitySeen, NotSent, Power, Reported, SendReport, SystemGuid, Traffic,
    Unanswered,
};
pub use setup::{SetupMessage, SetupStatus};
pub use suite::{Algorithms, CipherSuite, Suites, SuitesError};
pub use target::{Target, Timers};

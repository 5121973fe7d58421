//! Reads the states of storage leases from a sanlock daemon; never changes one, and draws no conclusion.
//!
//! Whatever runs on shared storage under sanlock holds a lease there that it renews every few seconds; a daemon on each
//! host watches everybody's. [`Daemon::read`] asks the local one what it sees, in its own protocol on its Unix socket,
//! and gives back plain data. What the data allows is judged elsewhere (`docs/storage-leases.md`): `DEAD` is the opinion
//! of one observer.
//!
//! Four commands can be expressed, and all of them only read: [`Command`]. Each has a connection of its own, as the
//! daemon closes it after its answer; each answer is bounded, complete or refused, and ends with an absolute deadline.
//! The protocol as it was measured: tests/data/fencing/sanlock.md section 3.
//!
//! ```no_run
//! # async fn look() -> Result<(), apelora_sanlock::SanlockError> {
//! use std::time::Duration;
//! use tokio::time::Instant;
//!
//! let daemon = apelora_sanlock::Daemon::new(apelora_sanlock::DEFAULT_SOCKET);
//! let reading = daemon.read(Instant::now() + Duration::from_secs(4)).await?;
//! for lockspace in reading.lockspaces {
//!     println!("{}: {} hosts", lockspace.name, lockspace.hosts.len());
//! }
//! # Ok(())
//! # }
//! ```

mod answer;
mod command;
mod daemon;
mod error;
mod reading;
mod text;
mod wire;

pub use command::{Command, LockspaceName};
pub use daemon::{CALL_LIMIT, DEFAULT_SOCKET, Daemon};
pub use error::{Garbage, SanlockError};
pub use reading::{DaemonStatus, Host, HostState, Lockspace, Membership, Reading, Unreadable};

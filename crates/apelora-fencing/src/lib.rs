//! Whether and how a failed member is switched off.
//!
//! The decision (`decide`), the whole protocol of a power-off (`Supervisor`) and what counts as a proof, without a
//! clock, a socket or a thread: time, ids and everything read from outside are arguments. `docs/fencing.md` draws the
//! machine; the worker's shell executes its effects.

pub mod identity;
pub mod limits;
pub mod map;
pub mod name;
pub mod proof;
pub mod reason;
pub mod time;

pub use limits::Limits;
pub use name::{Epoch, HolderId, Incarnation, MemberName, RecordId, Ticket};
pub use reason::ReasonCode;
pub use time::{BootTime, Clock};

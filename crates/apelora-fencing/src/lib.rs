//! Whether and how a failed member is switched off.
//!
//! The decision ([`decide()`]), the whole protocol of a power-off ([`Supervisor`]) and what counts as a proof, without a
//! clock, a socket or a thread: time, ids and everything read from outside are arguments. `docs/fencing.md` draws the
//! machine; the worker's shell executes its effects.

pub mod canon;
pub mod decide;
mod episode;
pub mod event;
mod facts;
pub mod guard;
pub mod identity;
pub mod lease;
pub mod limits;
mod line;
pub mod map;
pub mod memory;
pub mod name;
mod pass;
pub mod proof;
mod reading;
pub mod reason;
pub mod record;
pub mod recovery;
pub mod replay;
pub mod restart;
pub mod status;
pub mod supervisor;
pub mod time;
mod track;
pub mod view;
mod watch;
pub mod world;
pub mod write;

pub use decide::{Decision, decide};
pub use event::{Effect, Event};
pub use limits::Limits;
pub use name::{Epoch, HolderId, Incarnation, MemberName, RecordId, Ticket};
pub use reason::ReasonCode;
pub use supervisor::Supervisor;
pub use time::{BootTime, Clock};
pub use world::World;
pub use write::Write;

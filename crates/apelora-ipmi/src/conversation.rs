//! The door: one authenticated, integrity-protected and encrypted conversation with one BMC.

use std::fmt;

use tokio::time::Instant;

use crate::dialogue::Dialogue;
use crate::error::IpmiError;
use crate::link::{OsEntropy, Udp, UdpLink};
use crate::report::{Reported, SendReport, SystemGuid, Traffic};
use crate::suite::CipherSuite;
use crate::target::{Target, Timers};

/// An open IPMI 2.0 session at operator level, with exactly four things to do: open, read, force off, close.
///
/// Every `by` is absolute; no call lasts longer, except that a call which has begun to send finishes that send.
/// Dropping a conversation closes the session as well as one unconfirmed datagram can; [`Self::close`] is better.
pub struct Conversation {
    dialogue: Dialogue<UdpLink, OsEntropy>,
}

impl Conversation {
    /// The privilege level of every open conversation: asked for, and confirmed by the BMC as exactly this.
    pub const PRIVILEGE: &'static str = "operator";

    /// Opens a session: RMCP+ Open Session, RAKP 1 to 4, Set Session Privilege Level to operator (8 datagrams).
    ///
    /// Lost datagrams restart the whole handshake with new ids on a new port, within `by` and `timers`. Suite 3 is
    /// proposed only where the target allows it and after the BMC itself refused 17, in a handshake of its own. Nothing
    /// about the server is read or changed.
    ///
    /// # Errors
    /// The BMC is silent, refuses, cannot prove that it knows the password, or offers anything but suite 17 or 3.
    pub async fn open(target: &Target, timers: Timers, by: Instant) -> Result<Self, IpmiError> {
        Dialogue::open(&Udp, OsEntropy, target, timers, by).await.map(|dialogue| Self { dialogue })
    }

    /// Reads the system GUID, has `is_mapped` judge it, and only then reads the power (4 datagrams). The first read
    /// after a power-off keeps the identity that was accepted before it (2 datagrams); every other one asks again.
    ///
    /// # Errors
    /// [`IpmiError::OtherSystem`] when `is_mapped` says no, or when the GUID changed within the session: the power was
    /// not asked for. Otherwise the BMC is silent, or its answer is a failure or cannot be used.
    pub async fn read(
        &mut self,
        is_mapped: impl Fn(SystemGuid) -> bool + Send,
        by: Instant,
    ) -> Result<Reported, IpmiError> {
        self.dialogue.read(is_mapped, by).await
    }

    /// Sends one power-off (2 datagrams), and only if the last read of this conversation saw an accepted identity and
    /// On. That reading is used up by it: a second power-off needs another one. It is never sent again by itself.
    ///
    /// The datagram leaves before the first await point, or not at all if `not_after` has passed; the answer is awaited
    /// for one step at most. Whatever the report says, the next reading is the evidence.
    pub async fn force_off(&mut self, not_after: Instant, by: Instant) -> SendReport {
        self.dialogue.force_off(not_after, by).await
    }

    /// Closes the session (2 datagrams). True when the BMC confirmed it; nothing depends on that.
    pub async fn close(mut self, by: Instant) -> Closed {
        let confirmed = self.dialogue.close(by).await;
        Closed { confirmed, traffic: self.dialogue.traffic() }
    }

    /// The suite of this session: part of the evidence and of the audit record.
    #[must_use]
    pub const fn suite(&self) -> CipherSuite {
        self.dialogue.suite()
    }

    /// Datagrams so far.
    #[must_use]
    pub const fn traffic(&self) -> Traffic {
        self.dialogue.traffic()
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("suite", &self.suite()).finish_non_exhaustive()
    }
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The BMC confirmed that the session is closed.
    pub confirmed: bool,
    /// All datagrams of the conversation.
    pub traffic: Traffic,
}

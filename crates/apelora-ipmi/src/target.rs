//! Which BMC to talk to, and how patiently.

use std::net::SocketAddr;
use std::time::Duration;

use crate::credentials::Credentials;
use crate::suite::Suites;

/// A BMC and how to talk to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address and UDP port, usually 623. Answers from any other address or port are dropped.
    pub address: SocketAddr,
    /// The operator account.
    pub credentials: Credentials,
    /// The suites that the map allows.
    pub suites: Suites,
}

/// How long to wait and how often to try. All of it lies within the deadline of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Longest wait for the answer to one datagram.
    pub step: Duration,
    /// How often a question is asked in a session before it counts as unanswered.
    pub tries: u32,
    /// How many handshakes are begun before the BMC counts as silent.
    pub handshakes: u32,
    /// How long a contradicting answer is waited for after a refusal of the suite. Other refusals wait for a good answer
    /// until their step is over.
    pub linger: Duration,
}

impl Timers {
    /// One second per step (BMCs are slow embedded machines), three tries, three handshakes, 50 ms for contradictions.
    pub const DEFAULT: Self =
        Self { step: Duration::from_secs(1), tries: 3, handshakes: 3, linger: Duration::from_millis(50) };
}

impl Default for Timers {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The `nth` pause; the last one repeats.
pub(crate) fn pause(pauses: &[Duration; 3], nth: usize) -> Duration {
    let [.., last] = *pauses;
    pauses.get(nth).copied().unwrap_or(last)
}

//! Why a conversation could not be opened or a reading could not be made. No text carries a code, a key or a name.

use std::fmt;
use std::io;

use crate::frame::Reject;
use crate::report::{Completion, SystemGuid};
use crate::setup::{SetupMessage, SetupStatus};
use crate::suite::{Algorithms, CipherSuite};

/// What was noticed while nothing usable came: the last dropped datagram's fault and the last socket error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    pub(crate) dropped: Option<Reject>,
    pub(crate) socket: Option<io::ErrorKind>,
}

impl fmt::Display for Noticed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reject) = self.dropped {
            write!(f, "; the last datagram was dropped because {reject}")?;
        }
        if let Some(kind) = self.socket {
            write!(f, "; the operating system reported: {kind}")?;
        }
        Ok(())
    }
}

/// Why nothing was read. Nothing was switched either: only [`crate::Conversation::force_off`] can do that, and it has
/// its own report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IpmiError {
    /// No socket could be made.
    #[error("no UDP socket towards the BMC: {0}; check the address and the route")]
    Socket(io::ErrorKind),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes, so nothing was sent")]
    NoEntropy,
    /// The time allowed was over.
    #[error("no {awaited} before the deadline{noticed}")]
    Deadline {
        /// The answer that was awaited.
        awaited: &'static str,
        /// What was seen instead.
        noticed: Noticed,
    },
    /// Every try went unanswered.
    #[error("no usable {awaited} in {tries} tries{noticed}; {}", silence_remedy(.awaited))]
    Silent {
        /// The answer that was awaited.
        awaited: &'static str,
        /// How often it was asked for.
        tries: u32,
        /// What was seen instead.
        noticed: Noticed,
    },
    /// The BMC refused the last suite that the map allows.
    #[error(
        "the BMC refuses {suite} ({status}) and the map allows no further one: enable suite 17 or 3 on the BMC, or use \
         Redfish"
    )]
    SuiteRefused {
        /// The suite that was proposed.
        suite: CipherSuite,
        /// Its answer.
        status: SetupStatus,
    },
    /// The BMC answered suite 3 to a proposal of 17 and the map allows only 17.
    #[error(
        "the BMC offers only cipher suite 3 and the map allows only 17: allow 3 in cipher_suites, or use Redfish"
    )]
    OnlySuite3,
    /// The BMC answered with other algorithms than proposed.
    #[error("{suite} was proposed and the BMC answered {answered}: refused, it is never continued")]
    OtherSuite {
        /// The suite that was proposed.
        suite: CipherSuite,
        /// What the BMC answered.
        answered: Algorithms,
    },
    /// A refusal of the suite and an answer that contradicts it arrived for the same question.
    #[error("conflicting answers to Open Session: somebody may be forging refusals; nothing was sent")]
    ConflictingAnswers,
    /// All session slots of the BMC stayed in use.
    #[error(
        "the BMC has no free session slot: other tools leave sessions open; it frees them after about a minute"
    )]
    NoFreeSession,
    /// Another error status in the handshake.
    #[error("the BMC refused the handshake ({message}): {status}{}", setup_remedy(*.status))]
    Setup {
        /// The message it came in.
        message: SetupMessage,
        /// The status.
        status: SetupStatus,
    },
    /// An answer that no correct BMC sends.
    #[error("the BMC's {message} is malformed ({what}): not continued; use Redfish, or pin cipher_suites")]
    Malformed {
        /// The message.
        message: SetupMessage,
        /// What is wrong.
        what: &'static str,
    },
    /// The BMC offers less than the operator level.
    #[error(
        "the BMC offers privilege level {0} where operator (3) was asked: raise the channel's or the user's limit"
    )]
    LevelOffered(u8),
    /// The BMC did not prove that it knows the password.
    #[error(
        "wrong password, or somebody altered the handshake: check the secret (a BMC may have cut a long one)"
    )]
    Password,
    /// The BMC did not prove that it has the same session key.
    #[error("the session keys differ: check kg_secret (the BMC key){}", bmc_key_remedy(*.configured))]
    BmcKey {
        /// Whether `kg_secret` is configured.
        configured: bool,
    },
    /// The operator level was refused in the session.
    #[error("the BMC does not grant the operator level ({0}): make the account an operator on this channel")]
    OperatorRefused(Completion),
    /// The BMC granted another level than asked for.
    #[error("the BMC granted another privilege level than operator: not continued")]
    OtherLevel,
    /// The BMC cannot say which server it belongs to.
    #[error("the BMC reports no system GUID ({0}): such a server cannot be fenced over IPMI; use Redfish")]
    NoSystemGuid(Completion),
    /// A request failed.
    #[error("{request}: {completion}")]
    Failed {
        /// The request.
        request: &'static str,
        /// Its completion code.
        completion: Completion,
    },
    /// An authenticated answer of success with the wrong amount of data.
    #[error("{request}: the answer has {len} bytes of data; the BMC is faulty and nothing is read from it")]
    WrongLength {
        /// The request.
        request: &'static str,
        /// Bytes of data in the answer.
        len: usize,
    },
    /// The BMC belongs to another system than the mapped one. The power was not read.
    #[error("the BMC reports system GUID {guid}, which is not the mapped one: check the cabling and the map")]
    OtherSystem {
        /// What it reported.
        guid: SystemGuid,
    },
    /// The session used up its sequence numbers or went unanswered for too long.
    #[error("the session is spent: open a new one")]
    SessionSpent,
}

impl IpmiError {
    /// Whether it is about the account: worth a longer pause, because some BMCs lock accounts after a few failures.
    #[must_use]
    pub const fn concerns_credentials(&self) -> bool {
        matches!(
            self,
            Self::Password
                | Self::BmcKey { .. }
                | Self::OperatorRefused(_)
                | Self::Setup { status: SetupStatus(0x09 | 0x0a | 0x0d), .. }
        )
    }
}

fn silence_remedy(awaited: &str) -> &'static str {
    match awaited {
        "RAKP 2" => "some BMCs stay silent for an unknown user name: check the account",
        "RAKP 4" => "some BMCs stay silent for a wrong BMC key: check kg_secret",
        _ => "check the address, UDP port 623 and that IPMI over LAN is enabled",
    }
}

const fn setup_remedy(status: SetupStatus) -> &'static str {
    match status.0 {
        0x09 | 0x0a => ": make the account an operator on this channel",
        0x0c | 0x0d => ": check the user name and that the account is enabled as operator on this channel",
        _ => "",
    }
}

const fn bmc_key_remedy(configured: bool) -> &'static str {
    if configured { "" } else { "; none is configured, and this BMC seems to have one" }
}

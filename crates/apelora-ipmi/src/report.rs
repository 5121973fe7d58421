//! What was seen and what was done, as plain values. Nothing here decides anything.

use std::fmt;

use crate::suite::CipherSuite;

/// The 16 bytes of a Get System GUID answer, exactly as the BMC sent them.
///
/// BMCs send a UUID in three byte orders; which one matches the mapped UUID, and whether the value is a placeholder, is
/// judged by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SystemGuid(pub [u8; 16]);

impl fmt::Display for SystemGuid {
    /// The bytes in wire order, as 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SystemGuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemGuid({self})")
    }
}

/// The data of a Get Chassis Status answer (IPMI 2.0, table 28-3), kept raw as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChassisStatus {
    required: [u8; 3],
    front_panel: Option<u8>,
}

/// What a chassis status says about the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// The "power is on" bit is set.
    On,
    /// The "power is on" bit is clear and no power control fault is reported.
    Off,
    /// The bit is clear, but the BMC also says that it tried to switch and did not get there. This is no proof of
    /// anything, so it is not Off: a person has to look.
    OffWithControlFault,
}

impl ChassisStatus {
    const POWER_ON: u8 = 1 << 0;
    const POWER_CONTROL_FAULT: u8 = 1 << 4;

    /// Three bytes, or four where the BMC reports front panel buttons.
    pub(crate) fn from_bytes(data: &[u8]) -> Option<Self> {
        match *data {
            [a, b, c] => Some(Self { required: [a, b, c], front_panel: None }),
            [a, b, c, d] => Some(Self { required: [a, b, c], front_panel: Some(d) }),
            _ => None,
        }
    }

    /// What it says about the power.
    #[must_use]
    pub const fn power(self) -> Power {
        let [state, ..] = self.required;
        if state & Self::POWER_ON != 0 {
            Power::On
        } else if state & Self::POWER_CONTROL_FAULT != 0 {
            Power::OffWithControlFault
        } else {
            Power::Off
        }
    }
}

impl fmt::Display for ChassisStatus {
    /// The bytes in wire order, as hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.required.iter().chain(&self.front_panel).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A completion code of a request (IPMI 2.0, table 5-2); 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion(pub u8);

impl Completion {
    /// Success. For a power-off this is acceptance only, never evidence.
    pub const SUCCESS: Self = Self(0);

    pub(crate) const INSUFFICIENT_PRIVILEGE: Self = Self(0xd4);

    /// Busy, timed out inside the BMC, or unspecified: the same question may be asked again.
    pub(crate) const fn is_transient(self) -> bool {
        matches!(self.0, 0xc0 | 0xc3 | 0xff)
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0x00 => "done",
            0x80 => "level not available for this user",
            0x81 => "level exceeds the limit of the user or of the channel",
            0x82 => "user level authentication cannot be disabled",
            0xc0 => "the BMC is busy",
            0xc1 => "command not supported",
            0xc2 => "command not supported for this LUN",
            0xc3 => "timed out inside the BMC",
            0xc7 => "wrong request length",
            0xc9 => "parameter out of range",
            0xca => "too many bytes asked for",
            0xcb => "not present",
            0xcc => "invalid field in the request",
            0xce => "no response could be given",
            0xd3 => "destination unavailable",
            0xd4 => "insufficient privilege",
            0xd5 => "not supported in the present state",
            0xd6 => "sub-function disabled",
            0xff => "unspecified error",
            _ => "see the BMC's documentation",
        };
        write!(f, "completion {:02X}, {text}", self.0)
    }
}

/// When the identity in a [`Reported`] was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentitySeen {
    /// In this read, before the power.
    InThisRead,
    /// Earlier in this session, before the power-off that this is the first read after. The session's keys tie both
    /// answers to one BMC.
    BeforeThePowerOff,
}

/// One reading: identity and power together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The system GUID, as sent.
    pub guid: SystemGuid,
    /// When that was asked for.
    pub identity_seen: IdentitySeen,
    /// What the chassis status says about the power.
    pub power: Power,
    /// The chassis status, as sent.
    pub chassis: ChassisStatus,
    /// The suite of the session in which both were read.
    pub suite: CipherSuite,
}

impl fmt::Display for Reported {
    /// For evidence and logs: suite, identity and status as they came, and when the identity was asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guid, identity_seen, chassis, suite, .. } = self;
        let seen = match identity_seen {
            IdentitySeen::InThisRead => "",
            IdentitySeen::BeforeThePowerOff => " (read before the power-off)",
        };
        write!(f, "{suite}, system GUID {guid}{seen}, chassis status {chassis}")
    }
}

/// Why a power-off certainly did not leave this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// No read of this conversation saw the accepted identity and On since the last power-off.
    NoFreshOn,
    /// It was too late to send.
    TooLate,
    /// The operating system gave no random bytes for the packet.
    NoEntropy,
    /// The session has used up its sequence numbers or went unanswered for too long.
    SessionSpent,
    /// The operating system refused to send the datagram.
    Socket(std::io::ErrorKind),
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFreshOn => f.write_str("no fresh reading of On with the accepted identity"),
            Self::TooLate => f.write_str("the time to send had passed"),
            Self::NoEntropy => f.write_str("the operating system gave no random bytes"),
            Self::SessionSpent => f.write_str("the session is spent: open a new one"),
            Self::Socket(kind) => write!(f, "the operating system did not send it: {kind}"),
        }
    }
}

/// Why it is unknown whether a power-off had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// No answer came in time.
    Silence,
    /// The operating system reported an error from which it does not follow that nothing was sent.
    Socket(std::io::ErrorKind),
    /// An answer came that cannot be the answer to a power-off.
    Unusable,
}

/// What became of one power-off request. It leaves this host at most once; the reading afterwards is the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SendReport {
    /// Nothing left this host.
    NotSent(NotSent),
    /// It left this host, or may have; whether the BMC took it is unknown.
    MaybeSent(Unanswered),
    /// The BMC answered. Even success is acceptance only, and even a failure may have switched the server off.
    Answered(Completion),
}

impl SendReport {
    /// Whether the power may have been changed.
    #[must_use]
    pub const fn may_have_been_sent(self) -> bool {
        !matches!(self, Self::NotSent(_))
    }
}

/// Datagrams of a conversation, over all its attempts and sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Sent by us.
    pub sent: u32,
    /// Received, including those that were dropped.
    pub received: u32,
    /// Dropped because they were not the authenticated answer to what was asked.
    pub dropped: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(data: &[u8]) -> Option<Power> {
        ChassisStatus::from_bytes(data).map(ChassisStatus::power)
    }

    #[test]
    fn power_is_one_bit_and_a_control_fault_spoils_off() {
        for state in 0..=u8::MAX {
            let expected = match (state & 1 != 0, state & 0x10 != 0) {
                (true, _) => Power::On,
                (false, true) => Power::OffWithControlFault,
                (false, false) => Power::Off,
            };
            assert_eq!(power(&[state, 0, 0]), Some(expected));
            assert_eq!(power(&[state, 0xff, 0xff, 0xff]), Some(expected));
        }
    }

    #[test]
    fn a_status_has_three_or_four_bytes() {
        for len in (0..3).chain(5..9) {
            assert_eq!(power(&vec![0; len]), None);
        }
        assert_eq!(ChassisStatus::from_bytes(&[0x21, 0x10, 0x40, 0x70]).unwrap().to_string(), "21104070");
        assert_eq!(ChassisStatus::from_bytes(&[0x20, 0, 0x40]).unwrap().to_string(), "200040");
    }

    #[test]
    fn a_reading_says_what_it_rests_on() {
        let reported = Reported {
            guid: SystemGuid([0xab; 16]),
            identity_seen: IdentitySeen::BeforeThePowerOff,
            power: Power::Off,
            chassis: ChassisStatus::from_bytes(&[0x20, 0x10, 0x40]).unwrap(),
            suite: CipherSuite::Seventeen,
        };
        let text = reported.to_string();
        let guid = "ab".repeat(16);
        assert_eq!(
            text,
            format!("cipher suite 17, system GUID {guid} (read before the power-off), chassis status 201040")
        );
    }

    #[test]
    fn only_what_certainly_stayed_here_was_not_sent() {
        assert!(!SendReport::NotSent(NotSent::TooLate).may_have_been_sent());
        assert!(SendReport::MaybeSent(Unanswered::Silence).may_have_been_sent());
        assert!(SendReport::Answered(Completion(0xd4)).may_have_been_sent());
    }

    #[test]
    fn texts_name_the_code() {
        assert_eq!(Completion(0xd5).to_string(), "completion D5, not supported in the present state");
        assert_eq!(SystemGuid([0xab; 16]).to_string(), "ab".repeat(16));
    }
}

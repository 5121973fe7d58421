//! What proves that a member is off by its BMC: readings that were verified, two of them, and nothing in between.
//!
//! There is one way to a [`PowerOffProof`]: [`Reading::verify`] against the mapped identity, twice, through an
//! [`OffStreak`]. No answer to a power-off request is on that way (PROOF-READBACK). From the commit on, a proof is a row,
//! and [`crate::record::MemberRow::is_fenced`] judges it anew each time.

use std::time::Duration;

use crate::identity::{IdentityError, MappedIdentity, Matched, RawIdentity};
use crate::limits::Limits;
use crate::map::MapSha;
use crate::name::{RecordId, Ticket};
use crate::reason::ReasonCode;
use crate::time::BootTime;

/// The power state of a system as its BMC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PowerWord {
    /// On.
    On,
    /// Off, and nothing else.
    Off,
    /// Being switched on.
    PoweringOn,
    /// Being switched off: still running.
    PoweringOff,
    /// Paused: still running.
    Paused,
    /// Absent, null or another word.
    Unknown,
}

impl PowerWord {
    /// Reads a Redfish `PowerState`. Only the exact words count.
    pub fn from_redfish(word: Option<&str>) -> Self {
        match word {
            Some("On") => Self::On,
            Some("Off") => Self::Off,
            Some("PoweringOn") => Self::PoweringOn,
            Some("PoweringOff") => Self::PoweringOff,
            Some("Paused") => Self::Paused,
            _ => Self::Unknown,
        }
    }

    /// The word, as evidence shows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "On",
            Self::Off => "Off",
            Self::PoweringOn => "PoweringOn",
            Self::PoweringOff => "PoweringOff",
            Self::Paused => "Paused",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether the system certainly runs or may run, so that a power-off makes sense.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::On | Self::PoweringOn | Self::PoweringOff | Self::Paused)
    }
}

/// One conversation with one BMC: one connection, one session. Identified by the ticket that opened it.
pub type ConversationId = Ticket;

/// What an adapter saw in one reading; nothing in it is trusted yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reported {
    /// The identity, as it came.
    pub identity: RawIdentity,
    /// The power state.
    pub power: PowerWord,
    /// Bounded and scrubbed: status code, cipher suite, certificate digest. Never a secret or a whole answer.
    pub detail: String,
}

/// A power state that was read from the mapped server, identity first, on one conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reading {
    conversation: ConversationId,
    power: PowerWord,
    began: BootTime,
    ended: BootTime,
    matched: Matched,
}

impl Reading {
    /// Accepts a report only when it comes from the mapped server.
    ///
    /// `began` and `ended` are the boot times around the reading.
    ///
    /// # Errors
    /// Says why the report is not the mapped server's.
    pub fn verify(
        reported: &Reported,
        mapped: &MappedIdentity,
        conversation: ConversationId,
        (began, ended): (BootTime, BootTime),
    ) -> Result<Self, IdentityError> {
        let matched = mapped.check(&reported.identity)?;
        Ok(Self { conversation, power: reported.power, began, ended: ended.max(began), matched })
    }

    /// The power state.
    pub const fn power(&self) -> PowerWord {
        self.power
    }

    /// The conversation it was made on. A power-off may follow a reading on its own conversation only.
    pub const fn conversation(&self) -> ConversationId {
        self.conversation
    }

    /// How the identity matched.
    pub const fn matched(&self) -> &Matched {
        &self.matched
    }

    /// When the reading was over.
    pub const fn ended(&self) -> BootTime {
        self.ended
    }
}

/// What became of one power-off request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SendAnswer {
    /// The BMC accepted it. Not evidence of anything.
    Accepted,
    /// The BMC answered that it will not, or is not in the state for it (400, 409, D5): the read-back decides.
    Declined,
    /// The BMC rejected the caller (401, 403, D4) or pointed elsewhere (3xx): nothing more is tried.
    Rejected(ReasonCode),
    /// The request may have been sent; no answer came.
    Unanswered,
    /// Not one byte of the request left.
    NotSent(ReasonCode),
}

/// The report on one power-off request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendReport {
    /// When the first byte may have left.
    pub began: BootTime,
    /// When the answer was there, or given up.
    pub ended: BootTime,
    /// What the BMC said.
    pub answer: SendAnswer,
}

impl SendReport {
    /// Whether the request may have reached the BMC.
    pub const fn may_have_been_sent(&self) -> bool {
        !matches!(self.answer, SendAnswer::NotSent(_))
    }
}

/// On what ground two Off readings are a proof; the less was done, the further apart they must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ground {
    /// After a power-off request that ended at this time; readings that began before it do not count.
    Sent(BootTime),
    /// The member was off when it was first read, or a dead leader's record is read to its end.
    Unsent,
    /// The member is watched, one reading a minute.
    Watched,
}

impl Ground {
    /// The least time from the end of the first Off reading to the begin of the second.
    pub const fn gap(self, limits: &Limits) -> Duration {
        match self {
            Self::Sent(_) => limits.off_gap_sent,
            Self::Unsent => limits.off_gap_unsent,
            Self::Watched => limits.off_gap_watched,
        }
    }
}

/// Counts consecutive Off readings. Anything else in between starts it again (PROOF-STABLE).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffStreak {
    ground: Ground,
    first: Option<Reading>,
}

impl OffStreak {
    /// A streak with no reading.
    pub const fn new(ground: Ground) -> Self {
        Self { ground, first: None }
    }

    /// The first Off reading, if there is one that still counts.
    pub const fn first(&self) -> Option<&Reading> {
        self.first.as_ref()
    }

    /// When the second reading may begin at the earliest.
    pub fn second_from(&self, limits: &Limits) -> Option<BootTime> {
        self.first.as_ref().map(|f| f.ended + self.ground.gap(limits))
    }

    /// An attempt to read that failed, or a reading of another server: the count starts again.
    pub fn interrupt(&mut self) {
        self.first = None;
    }

    /// Takes a reading; returns the proof when it completes one.
    pub fn see(&mut self, reading: &Reading, limits: &Limits) -> Option<PowerOffProof> {
        if reading.power != PowerWord::Off {
            self.first = None;
            return None;
        }
        if let Ground::Sent(at) = self.ground
            && reading.began < at
        {
            return None;
        }
        match &self.first {
            Some(first) if first.matched == reading.matched => {
                if reading.began >= first.ended + self.ground.gap(limits) {
                    return Some(PowerOffProof {
                        ground: self.ground,
                        first_off: first.ended,
                        second_off: reading.ended,
                        matched: reading.matched.clone(),
                    });
                }
            }
            // The same server in another byte order is a firmware change in between; count from here.
            _ => self.first = Some(reading.clone()),
        }
        None
    }
}

/// Two verified Off readings, far enough apart, with nothing else between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PowerOffProof {
    ground: Ground,
    first_off: BootTime,
    second_off: BootTime,
    matched: Matched,
}

impl PowerOffProof {
    /// On what ground the readings were made.
    pub const fn ground(&self) -> Ground {
        self.ground
    }

    /// When the first and the second Off reading were complete.
    pub const fn readings(&self) -> (BootTime, BootTime) {
        (self.first_off, self.second_off)
    }

    /// Whose power it was.
    pub const fn matched(&self) -> &Matched {
        &self.matched
    }
}

/// The wish to be permitted to send, made by the machine alone: it names the record, the map that led to it and the time
/// at which the view that justifies it grows stale.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermitRequest {
    record: RecordId,
    map: MapSha,
    until: BootTime,
}

impl PermitRequest {
    pub(crate) const fn new(record: RecordId, map: MapSha, until: BootTime) -> Self {
        Self { record, map, until }
    }

    /// The record that is to be permitted.
    pub const fn record(&self) -> RecordId {
        self.record
    }

    /// The map snapshot that is in force; the record must have been made from the same.
    pub const fn map(&self) -> MapSha {
        self.map
    }

    /// When the permit ends.
    pub const fn until(&self) -> BootTime {
        self.until
    }

    /// Turns the request into the permit. Called by the store's leader, once the permit's commit was answered.
    pub const fn committed(self) -> SendPermit {
        SendPermit { record: self.record, map: self.map, until: self.until }
    }
}

/// The right to send one power-off for one record. Not `Clone`: the shell keeps it beside the conversation, lends it to
/// the adapter and drops it at the record's end.
#[derive(Debug, PartialEq, Eq)]
pub struct SendPermit {
    record: RecordId,
    map: MapSha,
    until: BootTime,
}

impl SendPermit {
    /// The record it belongs to.
    pub const fn record(&self) -> RecordId {
        self.record
    }

    /// The map snapshot that the target must come from.
    pub const fn map(&self) -> MapSha {
        self.map
    }

    /// When it ends.
    pub const fn until(&self) -> BootTime {
        self.until
    }

    /// Whether a request may start now. Asked directly before the first byte leaves.
    pub fn allows(&self, now: BootTime) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: Limits = Limits::PRODUCTION;

    fn at(ms: u64) -> BootTime {
        BootTime::new(Duration::from_millis(ms))
    }

    fn reading(power: PowerWord, began: u64, ended: u64) -> Reading {
        let mapped = MappedIdentity::LabName("apelora-a".into());
        let reported =
            Reported { identity: RawIdentity::LabName("apelora-a".into()), power, detail: String::new() };
        Reading::verify(&reported, &mapped, Ticket(1), (at(began), at(ended))).unwrap()
    }

    #[test]
    fn another_server_is_no_reading() {
        let mapped = MappedIdentity::LabName("apelora-a".into());
        let reported = Reported {
            identity: RawIdentity::LabName("apelora-b".into()),
            power: PowerWord::Off,
            detail: String::new(),
        };
        assert!(Reading::verify(&reported, &mapped, Ticket(1), (at(0), at(1))).is_err());
    }

    #[test]
    fn gap_is_measured_from_end_to_begin() {
        for (ground, gap) in
            [(Ground::Sent(at(0)), 1_000), (Ground::Unsent, 10_000), (Ground::Watched, 60_000)]
        {
            let mut streak = OffStreak::new(ground);
            assert_eq!(streak.see(&reading(PowerWord::Off, 0, 500), &L), None);
            assert_eq!(streak.second_from(&L), Some(at(500 + gap)));
            assert_eq!(streak.see(&reading(PowerWord::Off, 499 + gap, 900 + gap), &L), None, "{ground:?}");
            assert!(streak.see(&reading(PowerWord::Off, 500 + gap, 900 + gap), &L).is_some(), "{ground:?}");
        }
    }

    #[test]
    fn anything_between_starts_again() {
        for other in [
            PowerWord::On,
            PowerWord::PoweringOff,
            PowerWord::PoweringOn,
            PowerWord::Paused,
            PowerWord::Unknown,
        ] {
            let mut streak = OffStreak::new(Ground::Sent(at(0)));
            streak.see(&reading(PowerWord::Off, 0, 0), &L);
            streak.see(&reading(other, 500, 500), &L);
            assert_eq!(streak.see(&reading(PowerWord::Off, 1_500, 1_500), &L), None, "{other:?}");
            assert!(streak.see(&reading(PowerWord::Off, 2_500, 2_500), &L).is_some(), "{other:?}");
        }
        let mut streak = OffStreak::new(Ground::Unsent);
        streak.see(&reading(PowerWord::Off, 0, 0), &L);
        streak.interrupt();
        assert_eq!(streak.see(&reading(PowerWord::Off, 20_000, 20_000), &L), None);
    }

    #[test]
    fn a_reading_from_before_the_send_does_not_count() {
        let mut streak = OffStreak::new(Ground::Sent(at(1_000)));
        assert_eq!(streak.see(&reading(PowerWord::Off, 999, 1_200), &L), None);
        assert_eq!(streak.first(), None);
    }

    #[test]
    fn redfish_words_are_exact() {
        for word in [None, Some("off"), Some("OFF"), Some("Off "), Some("")] {
            assert_eq!(PowerWord::from_redfish(word), PowerWord::Unknown, "{word:?}");
        }
        assert_eq!(PowerWord::from_redfish(Some("Off")), PowerWord::Off);
    }

    #[test]
    fn a_permit_ends() {
        let request = PermitRequest::new(RecordId(uuid::Uuid::nil()), MapSha::from_bytes([0; 32]), at(10));
        #[expect(clippy::disallowed_methods, reason = "what it becomes is what is tested")]
        let permit = request.committed();
        assert!(permit.allows(at(9)) && !permit.allows(at(10)));
    }
}

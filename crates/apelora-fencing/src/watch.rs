//! Reading without a record: watching members that may not be switched off (F3), reading a proof once more before the
//! first restart builds on it, and the idle drill. None of them takes the open slot, and none can send: they have no
//! permit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::episode::Step;
use crate::event::{BmcError, Effect, ReadDone, Target};
use crate::limits::Limits;
use crate::map::{BmcMap, MapEntry};
use crate::name::{MemberName, Ticket};
use crate::proof::{Ground, OffStreak, PowerOffProof, PowerWord, Reading};
use crate::reason::ReasonCode;
use crate::time::BootTime;
use crate::write::{Check, Found};

/// The watch over one member.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) streak: OffStreak,
    /// When it is read next.
    pub(crate) next: BootTime,
    /// The entry that it reads through; a map edit starts it again.
    pub(crate) entry: Arc<MapEntry>,
}

impl Watch {
    pub(crate) const fn new(entry: Arc<MapEntry>, now: BootTime) -> Self {
        Self { streak: OffStreak::new(Ground::Watched), next: now, entry }
    }
}

/// Why a member is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Purpose {
    Watch,
    Recheck,
    Drill,
}

/// One reading: open, read, close.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) member: MemberName,
    pub(crate) purpose: Purpose,
    pub(crate) entry: Arc<MapEntry>,
    pub(crate) reading: bool,
}

/// The readings that are going on, each under the ticket of its conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talks {
    pub(crate) open: BTreeMap<Ticket, Talk>,
}

/// What came of a reading.
pub(crate) struct Heard {
    pub(crate) talk: Talk,
    /// The verified reading, or what is wrong.
    pub(crate) result: Result<Reading, ReasonCode>,
}

impl Talks {
    /// Whether `member` is being read.
    pub(crate) fn with(&self, member: &MemberName) -> bool {
        self.open.values().any(|t| t.member == *member)
    }

    /// How many readings of this purpose are going on.
    pub(crate) fn count(&self, purpose: Purpose) -> usize {
        self.open.values().filter(|t| t.purpose == purpose).count()
    }

    /// Starts a reading.
    pub(crate) fn start(&mut self, s: &mut Step<'_>, target: Target, purpose: Purpose) {
        let ticket = s.ticket();
        let talk =
            Talk { member: target.member.clone(), purpose, entry: target.entry.clone(), reading: false };
        self.open.insert(ticket, talk);
        s.effects.push(Effect::Open(ticket, target, s.now + s.limits.open_deadline));
    }

    /// Ends every reading of `member`: a record needs its BMC.
    pub(crate) fn hang_up(&mut self, s: &mut Step<'_>, member: &MemberName) {
        self.open.retain(|ticket, talk| {
            let ends = talk.member == *member;
            if ends {
                s.effects.push(Effect::Close(*ticket));
            }
            !ends
        });
    }

    pub(crate) fn on_opened(
        &mut self,
        s: &mut Step<'_>,
        ticket: Ticket,
        result: Result<(), BmcError>,
    ) -> Option<Heard> {
        match result {
            Ok(()) => {
                let talk = self.open.get_mut(&ticket)?;
                talk.reading = true;
                s.effects.push(Effect::Read(ticket, s.now + s.limits.read_deadline));
                None
            }
            Err(error) => {
                let talk = self.open.remove(&ticket)?;
                Some(Heard { talk, result: Err(error.reason) })
            }
        }
    }

    pub(crate) fn on_read(&mut self, s: &mut Step<'_>, ticket: Ticket, done: ReadDone) -> Option<Heard> {
        let talk = self.open.remove(&ticket)?;
        s.effects.push(Effect::Close(ticket));
        let result = done.result.map_err(|e| e.reason).and_then(|reported| {
            Reading::verify(&reported, &talk.entry.identity, ticket, (done.began, done.ended))
                .map_err(|e| e.reason())
        });
        Some(Heard { talk, result })
    }
}

impl Watch {
    /// Takes the result of a reading; returns the proof when it completes one.
    pub(crate) fn heard(
        &mut self,
        result: &Result<Reading, ReasonCode>,
        now: BootTime,
        limits: &Limits,
    ) -> Option<PowerOffProof> {
        self.next = now + limits.watch_every;
        match result {
            Ok(reading) => self.streak.see(reading, limits),
            Err(_) => {
                self.streak.interrupt();
                None
            }
        }
    }
}

/// The idle drill: every mapped BMC is read now and then, so that a wrong address, UUID or password is known before the
/// night in which it matters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drill {
    pub(crate) next: BootTime,
    pub(crate) of: BTreeMap<MemberName, Drilled>,
}

/// What the drill knows about one member.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drilled {
    pub(crate) at: Option<BootTime>,
    pub(crate) found: Option<Found>,
    /// First reading of Off while the cluster saw the member Online.
    pub(crate) contradicts_since: Option<BootTime>,
}

impl Drill {
    /// The member whose turn it is: a contradiction that is old enough to be judged and was not judged yet first, then the
    /// one that was read longest ago.
    pub(crate) fn due(
        &self,
        now: BootTime,
        map: &BmcMap,
        limits: &Limits,
        free: impl Fn(&MemberName) -> bool,
    ) -> Option<MemberName> {
        let key = |member: &MemberName| {
            let drilled = self.of.get(member).copied().unwrap_or_default();
            let old =
                drilled.contradicts_since.is_some_and(|since| now.since(since) >= limits.distrust_after);
            let ripe = old && drilled.found != Some(Found::Contradiction);
            (!ripe, drilled.at)
        };
        map.iter().map(|(member, _)| member).filter(|m| free(m)).min_by_key(|m| key(m)).cloned()
    }

    /// The pause between two readings: short enough for every member to have its turn in a round.
    pub(crate) fn pause(map: &BmcMap, limits: &Limits) -> Duration {
        let members = u32::try_from(map.len()).unwrap_or(u32::MAX).max(1);
        limits.drill_pause.min(limits.drill_round / members)
    }

    /// Takes a result; returns the check to be written, if it is news.
    ///
    /// A dead server stays Online in the cluster's eyes for a while, so one Off reading contradicts nothing yet. But it is
    /// not a good one either: until it is known whether the server is dead or the BMC another server's, nothing is
    /// written, and what was found before stands.
    pub(crate) fn heard(
        &mut self,
        member: &MemberName,
        result: &Result<Reading, ReasonCode>,
        seen: &Standing,
        now: BootTime,
        limits: &Limits,
    ) -> Option<Check> {
        let drilled = self.of.entry(member.clone()).or_default();
        drilled.at = Some(now);
        let first = drilled.contradicts_since.take();
        let found = match (result, seen.cluster) {
            (Err(reason), _) => Found::Bad(*reason),
            (Ok(reading), Sight::Online { since }) if reading.power() == PowerWord::Off => {
                let at = reading.ended();
                let first = first.filter(|first| since <= *first).unwrap_or(at);
                drilled.contradicts_since = Some(first);
                if at.since(first) < limits.distrust_after {
                    return None;
                }
                Found::Contradiction
            }
            (Ok(reading), Sight::Unknown) if reading.power() == PowerWord::Off => return None,
            (Ok(_), _) => Found::Good,
        };
        // A person may have trusted it in between; what contradicts still is said again.
        let cleared = found == Found::Contradiction && !seen.distrusted;
        let news = drilled.found != Some(found) || cleared;
        drilled.found = Some(found);
        news.then(|| Check { member: member.clone(), found })
    }
}

/// What is known about a member whose BMC was read.
pub(crate) struct Standing {
    pub(crate) cluster: Sight,
    /// Whether its mapping is distrusted, as it was last read from the database.
    pub(crate) distrusted: bool,
}

/// How the cluster sees a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Online, in an unbroken series.
    Online { since: BootTime },
    /// Not Online, or not a member.
    Away,
    /// The latest view could not be read.
    Unknown,
}

//! What each lease would prove, and why not: the rows of `apelora lease check`. Judged by the same [`LeaseWatch`] that a
//! leader proves with, so the table and the proof cannot disagree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Doubt, HostRow, HostState, LeaseConfig, LeaseReading, LeaseSeen, LeaseWatch};
use crate::name::MemberName;

/// What the readings so far allow for one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proves {
    /// Nothing.
    Nothing,
    /// One of the two readings that are needed: it is asked again a renewal later.
    OneOfTwo,
    /// This lease is dead, and nothing is missing in this lockspace; another one does not agree.
    ThisLockspace,
    /// The member is dead.
    Dead,
}

/// One reason why a lease proves nothing, or would not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseReason {
    /// A word for programs.
    pub code: &'static str,
    /// One sentence.
    pub sentence: String,
    /// What to do about it; absent where there is nothing to do.
    pub remedy: Option<&'static str>,
    /// Whether it would stand in the way if the host died now. The others are about the host's present state.
    pub lasting: bool,
}

/// One lease of one lockspace. Ages are seconds of the observer's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseRow {
    /// The lockspace.
    pub lockspace: String,
    /// The host id; absent for a member that has none configured there.
    pub host_id: Option<u64>,
    /// The member that the id is configured for.
    pub member: Option<MemberName>,
    /// The daemon's word; absent for a lease that is released, was never used, or could not be read.
    pub state: Option<HostState>,
    /// The name in the lease.
    pub owner_name: Option<String>,
    /// The generation in the lease.
    pub generation: Option<u64>,
    /// How long ago the observer read the lease.
    pub checked_s: Option<u64>,
    /// For how long its looks have seen no change.
    pub unchanged_s: Option<u64>,
    /// For how long they must have seen none.
    pub dead_after_s: Option<u64>,
    /// Whether the member's watchdog is attested.
    pub watchdog: bool,
    /// What it proves now.
    pub proves: Proves,
    /// Whether it would prove its member dead, were it to die: no lasting reason against it.
    pub prepared: bool,
    /// Why it does not prove the member dead.
    pub reasons: Vec<LeaseReason>,
}

fn reason(code: &'static str, lasting: bool, sentence: impl Into<String>) -> LeaseReason {
    LeaseReason { code, sentence: sentence.into(), remedy: None, lasting }
}

impl LeaseReason {
    fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

impl Doubt {
    fn reason(self) -> LeaseReason {
        const OBSERVER: &str = "see `sanlock client status -D` and the storage paths on this host";
        let code = self.as_str();
        match self {
            Self::NotJoined => reason(code, true, "This host is joining or leaving the lockspace.").remedy(
                "wait, or start the lockspace on this host (vgchange --lockstart)",
            ),
            Self::SpaceDead => reason(code, true, "This host, the observer, has lost its own lease.").remedy(
                "the lockspace must be stopped and started again on this host; until then another host has to lead",
            ),
            Self::KillingPids => {
                reason(code, true, "This host is killing what runs on its own lost lease.").remedy(OBSERVER)
            }
            Self::RenewFail | Self::RenewalResult => {
                reason(code, true, "This host, the observer, cannot renew its own lease.").remedy(OBSERVER)
            }
            Self::Corrupt => reason(code, true, "This host, the observer, read a corrupt lease.").remedy(OBSERVER),
            Self::OwnRenewalOld => {
                reason(code, true, "This host's own last renewal is too old: it was stopped or lost its storage.")
                    .remedy(OBSERVER)
            }
            Self::RowCheckOld => {
                reason(code, true, "This host has not looked at the lease lately.").remedy(OBSERVER)
            }
            Self::NoOtherLive => {
                reason(code, true, "This host sees no other host alive: it is the one that is gone.").remedy(OBSERVER)
            }
        }
    }
}

impl LeaseWatch {
    /// A row for every host of every lockspace that is configured or was read last, in that order.
    ///
    /// `seen` are the leases stored with each member while it was Online; `None` when no database was asked, and then
    /// nothing is proven. `problems` says of a lockspace why it could not be read.
    pub fn rows(
        &self,
        config: &LeaseConfig,
        seen: Option<&BTreeMap<MemberName, Vec<LeaseSeen>>>,
        problems: &BTreeMap<String, String>,
    ) -> Vec<LeaseRow> {
        let report = Report { watch: self, config, seen, problems };
        let others = self.latest.keys().filter(|name| !config.lockspaces.contains(name));
        config.lockspaces.iter().chain(others).flat_map(|lockspace| report.lockspace(lockspace)).collect()
    }
}

struct Report<'a> {
    watch: &'a LeaseWatch,
    config: &'a LeaseConfig,
    seen: Option<&'a BTreeMap<MemberName, Vec<LeaseSeen>>>,
    problems: &'a BTreeMap<String, String>,
}

impl Report<'_> {
    fn lockspace(&self, lockspace: &str) -> Vec<LeaseRow> {
        let reading = self.watch.latest.get(lockspace);
        let by_id: BTreeMap<u64, &MemberName> = self
            .config
            .members
            .iter()
            .filter_map(|(name, host)| Some((*host.host_ids.get(lockspace)?, name)))
            .collect();
        let read = reading.into_iter().flat_map(|r| r.hosts.iter().map(|h| h.host_id));
        let ids: BTreeSet<u64> = by_id.keys().copied().chain(read).collect();
        let mut rows: Vec<_> =
            ids.iter().map(|id| self.row(lockspace, Some(*id), by_id.get(id).copied(), reading)).collect();
        if self.config.lockspaces.iter().any(|l| l == lockspace) {
            let without = self.config.members.iter().filter(|(_, h)| !h.host_ids.contains_key(lockspace));
            rows.extend(without.map(|(name, _)| self.row(lockspace, None, Some(name), reading)));
        }
        rows
    }

    fn row(
        &self,
        lockspace: &str,
        host_id: Option<u64>,
        member: Option<&MemberName>,
        reading: Option<&LeaseReading>,
    ) -> LeaseRow {
        let lease = host_id.and_then(|id| reading?.host(id));
        let watchdog = member.is_some_and(|m| self.config.members.get(m).is_some_and(|h| h.watchdog));
        let mut reasons = self.about_configuration(lockspace, host_id, member, watchdog);
        match (host_id, reading) {
            (Some(id), Some(reading)) => reasons.extend(self.about_lease(reading, id, member, lease)),
            (Some(_), None) => reasons.push(self.unreadable(lockspace)),
            (None, _) => {}
        }
        let dead = member.is_some_and(|m| {
            self.seen_of(m).is_some_and(|seen| self.watch.dead(self.config, m, seen).is_some())
        });
        let first_only = |r: &LeaseReason| r.code == "first_reading";
        let proves = if dead {
            Proves::Dead
        } else if reasons.is_empty() {
            Proves::ThisLockspace
        } else if reasons.iter().all(first_only) {
            Proves::OneOfTwo
        } else {
            Proves::Nothing
        };
        if proves == Proves::ThisLockspace {
            reasons.push(
                reason("other_lockspace", false, "The member is not proven dead in every other lockspace.")
                    .remedy("see the member's rows of the other lockspaces"),
            );
        }
        LeaseRow {
            lockspace: lockspace.into(),
            host_id,
            member: member.cloned(),
            state: lease.and_then(|l| l.state),
            owner_name: lease.map(|l| l.owner_name.clone()),
            generation: lease.map(|l| l.generation),
            checked_s: lease.and_then(|l| reading?.observer.monotime.checked_sub(l.last_check)),
            unchanged_s: lease.map(HostRow::unchanged_s),
            dead_after_s: lease.map(HostRow::dead_after_s),
            watchdog,
            proves,
            prepared: !reasons.iter().any(|r| r.lasting),
            reasons,
        }
    }

    fn seen_of(&self, member: &MemberName) -> Option<&[LeaseSeen]> {
        self.seen.map(|seen| seen.get(member).map(Vec::as_slice).unwrap_or_default())
    }

    fn unreadable(&self, lockspace: &str) -> LeaseReason {
        let problem = self.problems.get(lockspace).map(|p| format!("The lockspace could not be read: {p}."));
        let sentence =
            problem.unwrap_or_else(|| "The daemon of this host did not tell of the lockspace.".into());
        reason("unreadable", true, sentence).remedy(
            "start the lockspace on this host (vgchange --lockstart), or correct its name in the file",
        )
    }

    fn about_configuration(
        &self,
        lockspace: &str,
        host_id: Option<u64>,
        member: Option<&MemberName>,
        watchdog: bool,
    ) -> Vec<LeaseReason> {
        let mut reasons = Vec::new();
        if !self.config.lockspaces.iter().any(|l| l == lockspace) {
            let sentence = "The lockspace is not named in the file of APELORA_SANLOCK_HOSTS.";
            let remedy = "add it to `lockspaces` if it holds volumes of instances, with everybody's host id";
            reasons.push(reason("lockspace_not_configured", true, sentence).remedy(remedy));
        } else if member.is_none() {
            let sentence = "No member has this host id in the file of APELORA_SANLOCK_HOSTS.";
            let remedy =
                "give it to its member in `host_ids`; the id stands in the server's /etc/lvm/lvmlocal.conf";
            reasons.push(reason("not_mapped", true, sentence).remedy(remedy));
        } else if host_id.is_none() {
            let sentence = "The member has no host id here, and a member must be dead in every lockspace.";
            let remedy = "add its id for this lockspace to its `host_ids`";
            reasons.push(reason("no_host_id", true, sentence).remedy(remedy));
        }
        if member.is_some() && !watchdog {
            let sentence = "The member's watchdog is not attested: it may go on running without its lease.";
            let remedy = "give the server a watchdog that sanlock uses, then set `watchdog` to true for it";
            reasons.push(reason("no_watchdog", true, sentence).remedy(remedy));
        }
        reasons
    }

    fn about_lease(
        &self,
        reading: &LeaseReading,
        host_id: u64,
        member: Option<&MemberName>,
        lease: Option<&HostRow>,
    ) -> Vec<LeaseReason> {
        let mut reasons: Vec<_> = reading.doubts(host_id).into_iter().map(Doubt::reason).collect();
        let Some(lease) = lease else {
            let sentence = "There is no lease with this id: it was never used, or the id is wrong.";
            let remedy = "compare the id with host_id in the server's /etc/lvm/lvmlocal.conf";
            reasons.push(reason("no_lease", true, sentence).remedy(remedy));
            return reasons;
        };
        reasons.extend(state(lease));
        if lease.owner_id != lease.host_id {
            let sentence = format!("The lease names host id {} as its owner.", lease.owner_id);
            reasons.push(
                reason("other_owner_id", true, sentence).remedy("check the lockspace: sanlock direct dump"),
            );
        }
        if let Some(other) = member.and_then(|m| self.config.other_owner(m, &lease.owner_name)) {
            let sentence =
                format!("The lease belongs to `{other}` by its owner's name, which is not this member.");
            let remedy = "correct the id in `host_ids`; or, if the server's host name differs from its name in the \
                          cluster, set our_host_name in its /etc/sanlock/sanlock.conf to the latter";
            reasons.push(reason("other_owner", true, sentence).remedy(remedy));
        }
        if let Some(member) = member {
            reasons.extend(self.about_stored(reading, member, lease));
        }
        if lease.says_dead() && !self.is_second(reading, lease) {
            let sentence =
                format!("It is the first such reading; the second is due {} s later.", lease.renewal_s());
            reasons.push(reason("first_reading", false, sentence).remedy("ask again"));
        }
        reasons
    }

    fn is_second(&self, reading: &LeaseReading, lease: &HostRow) -> bool {
        let first = self.watch.dead.get(&(reading.lockspace.clone(), lease.host_id));
        first.is_some_and(|first| first.is_followed_by(reading, lease))
    }

    fn about_stored(
        &self,
        reading: &LeaseReading,
        member: &MemberName,
        lease: &HostRow,
    ) -> Option<LeaseReason> {
        let Some(seen) = self.seen_of(member) else {
            let sentence = "No database was asked whether this lease was seen alive.";
            return Some(reason("not_compared", false, sentence).remedy("the worker compares it by itself"));
        };
        let stored = seen.iter().find(|s| s.lockspace == reading.lockspace && s.host_id == lease.host_id);
        match stored {
            None => {
                let sentence = "The lease was never seen alive while the member was Online.";
                Some(reason("never_seen_alive", true, sentence).remedy("it is noted while the worker runs"))
            }
            Some(s) if s.generation != lease.generation || s.owner_name != lease.owner_name => {
                let sentence =
                    "The lease is not the one that was seen alive: the host has joined again since.";
                Some(reason("other_lease", false, sentence))
            }
            Some(_) => None,
        }
    }
}

/// Why a lease is not dead by itself.
fn state(lease: &HostRow) -> Option<LeaseReason> {
    let left = (lease.dead_after_s() + 1).saturating_sub(lease.unchanged_s());
    let due = || format!("{left} s without a change are missing.");
    match lease.state {
        Some(HostState::Live) => Some(reason("alive", false, "The host renews its lease.")),
        Some(HostState::Fail) => {
            Some(reason("failing", false, format!("The host has stopped renewing; {}", due())))
        }
        Some(HostState::Unknown) => {
            Some(reason("unknown", false, "The observer has not watched the host for long enough."))
        }
        Some(HostState::Free) | None => {
            let sentence = "The lease is released, which a host does in good order; nothing is known of what it does now.";
            Some(reason("released", false, sentence))
        }
        Some(HostState::Dead) if lease.timestamp == 0 || lease.io_timeout == 0 => {
            Some(reason("no_timeout", true, "The lease lacks a timestamp or its I/O timeout."))
        }
        Some(HostState::Dead) if !lease.unchanged_over_dead_time() => {
            let sentence =
                format!("The daemon says DEAD, and its own looks do not bear it out yet: {}", due());
            Some(reason("unchanged_too_short", false, sentence))
        }
        Some(HostState::Dead) => None,
    }
}

#[cfg(test)]
mod tests;

//! What readings of storage leases allow (tests/data/fencing/sanlock.md).
//!
//! `DEAD` is the observer's opinion, from the observer's clock; it is believed only from an observer that is fresh, and
//! it proves something only for a member whose watchdog is attested.

mod hosts_file;
mod owner;
mod report;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::MemberName;
use crate::time::BootTime;

pub use hosts_file::LeaseConfigError;
pub use report::{LeaseReason, LeaseRow, Proves};

/// The word a lease daemon uses for a host. A host that released its lease has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HostState {
    /// Its timestamp changed lately.
    Live,
    /// It has not been seen changing for eight I/O timeouts.
    Fail,
    /// Neither for its watchdog's time on top.
    Dead,
    /// The observer has not looked for long enough.
    Unknown,
    /// Released, or never used.
    Free,
}

/// One host of a lockspace, as the observer's daemon sees it. Times are seconds of the observer's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostRow {
    /// The host id.
    pub host_id: u64,
    /// The state, absent for a host without lease.
    pub state: Option<HostState>,
    /// The host id that the lease itself names.
    pub owner_id: u64,
    /// Starts of the lockspace by that host id.
    pub generation: u64,
    /// Seconds of the *host's* own clock: only compared for being equal.
    pub timestamp: u64,
    /// When the observer last read this lease.
    pub last_check: u64,
    /// When the observer last read a changed timestamp.
    pub last_live: u64,
    /// The I/O timeout that the host uses.
    pub io_timeout: u64,
    /// The host's name in the lease.
    pub owner_name: String,
}

/// How well the observer itself is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observer {
    /// The observer's own host id in this lockspace.
    pub host_id: u64,
    /// Its monotonic seconds now.
    pub monotime: u64,
    /// Its own I/O timeout.
    pub io_timeout: u64,
    /// Whether the lockspace is joined and stays so (`list=spaces`).
    pub joined: bool,
    /// `space_dead`: its lease is lost.
    pub space_dead: bool,
    /// `killing_pids`: it is killing the users of its lease.
    pub killing_pids: bool,
    /// `renew_fail`.
    pub renew_fail: bool,
    /// `corrupt_result`, 0 when none.
    pub corrupt_result: i64,
    /// `renewal_last_result`: 1 is success.
    pub renewal_last_result: i64,
    /// When its own renewal last succeeded.
    pub renewal_last_success: u64,
}

/// One complete reading of one lockspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseReading {
    /// The lockspace's name.
    pub lockspace: String,
    /// When the reading was begun, on the worker's own clock.
    pub read_at: BootTime,
    /// Which daemon answered; another one (or a restarted one) starts everything again.
    pub daemon: String,
    /// How the observer is.
    pub observer: Observer,
    /// The hosts.
    pub hosts: Vec<HostRow>,
}

/// A reason for not believing a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// The lockspace is joining or leaving.
    NotJoined,
    /// The observer lost its lease.
    SpaceDead,
    /// The observer kills its lease's users.
    KillingPids,
    /// The observer's renewals fail.
    RenewFail,
    /// The observer read a corrupt lease.
    Corrupt,
    /// The observer's last renewal was no success.
    RenewalResult,
    /// The observer's last successful renewal is old.
    OwnRenewalOld,
    /// The row was not read lately.
    RowCheckOld,
    /// The observer sees no other host alive: it is the one that is gone.
    NoOtherLive,
}

impl Doubt {
    /// The word, after the daemon's own where there is one.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotJoined => "not_joined",
            Self::SpaceDead => "space_dead",
            Self::KillingPids => "killing_pids",
            Self::RenewFail => "renew_fail",
            Self::Corrupt => "corrupt_result",
            Self::RenewalResult => "renewal_last_result",
            Self::OwnRenewalOld => "own_renewal_old",
            Self::RowCheckOld => "row_check_old",
            Self::NoOtherLive => "no_other_live",
        }
    }
}

/// How many I/O timeouts an observer's last look may be old.
const FRESH_TIMEOUTS: u64 = 3;
/// How many I/O timeouts without a change begin the end of a lease.
const FAIL_TIMEOUTS: u64 = 8;
/// The seconds that a host's watchdog needs to reset it (`watchdog_fire_timeout`).
const WATCHDOG_SECONDS: u64 = 60;
/// How many I/O timeouts lie between two renewals.
const RENEWAL_TIMEOUTS: u64 = 2;

impl LeaseReading {
    /// The row of `host_id`, unless there are two.
    pub fn host(&self, host_id: u64) -> Option<&HostRow> {
        let mut rows = self.hosts.iter().filter(|h| h.host_id == host_id);
        let row = rows.next()?;
        rows.next().is_none().then_some(row)
    }

    /// Everything that speaks against believing what this reading says about `host_id`.
    pub fn doubts(&self, host_id: u64) -> Vec<Doubt> {
        let o = &self.observer;
        let patience = o.io_timeout.saturating_mul(FRESH_TIMEOUTS);
        let is_old = |at: u64| o.monotime.checked_sub(at).is_none_or(|age| age > patience);
        let other_live = |h: &HostRow| h.state == Some(HostState::Live) && h.host_id != o.host_id;
        let joined_hosts =
            self.hosts.iter().filter(|h| h.state.is_some_and(|s| s != HostState::Free)).count();
        let checks = [
            (!o.joined, Doubt::NotJoined),
            (o.space_dead, Doubt::SpaceDead),
            (o.killing_pids, Doubt::KillingPids),
            (o.renew_fail, Doubt::RenewFail),
            (o.corrupt_result != 0, Doubt::Corrupt),
            (o.renewal_last_result != 1, Doubt::RenewalResult),
            (is_old(o.renewal_last_success), Doubt::OwnRenewalOld),
            (self.host(host_id).is_some_and(|h| is_old(h.last_check)), Doubt::RowCheckOld),
            (joined_hosts > 2 && !self.hosts.iter().any(other_live), Doubt::NoOtherLive),
        ];
        checks.into_iter().filter(|(applies, _)| *applies).map(|(_, doubt)| doubt).collect()
    }
}

impl HostRow {
    /// Whether the observer's latest *actual look* still saw no change for the whole time after which the host's watchdog
    /// has fired. The daemon's own `DEAD` also counts seconds in which nobody looked.
    pub const fn unchanged_over_dead_time(&self) -> bool {
        self.unchanged_s() > self.dead_after_s()
    }

    /// For how many seconds the looks of the observer saw no change.
    pub const fn unchanged_s(&self) -> u64 {
        self.last_check.saturating_sub(self.last_live)
    }

    /// The seconds without a change that must be exceeded.
    pub const fn dead_after_s(&self) -> u64 {
        self.io_timeout.saturating_mul(FAIL_TIMEOUTS).saturating_add(WATCHDOG_SECONDS)
    }

    /// The seconds from one renewal to the next.
    pub const fn renewal_s(&self) -> u64 {
        self.io_timeout.saturating_mul(RENEWAL_TIMEOUTS)
    }

    /// Whether the row, if believed, is one of the two that a proof needs. Without an I/O timeout in the lease nobody knows
    /// how long its host takes to end.
    pub fn says_dead(&self) -> bool {
        self.state == Some(HostState::Dead)
            && self.owner_id == self.host_id
            && self.timestamp != 0
            && self.io_timeout != 0
            && self.unchanged_over_dead_time()
    }
}

/// What is configured about a member's storage leases (`APELORA_SANLOCK_HOSTS`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseHost {
    /// The member's host id in each lockspace.
    pub host_ids: BTreeMap<String, u64>,
    /// Whether an operator attests a working watchdog on the member. Without it no lease proves anything.
    pub watchdog: bool,
}

/// The configuration: every lockspace that holds volumes, and the members in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseConfig {
    /// The lockspaces; a member must be dead in every one.
    pub lockspaces: Vec<String>,
    /// The members.
    pub members: BTreeMap<MemberName, LeaseHost>,
}

/// The lease of one lockspace as it was while its member was Online; stored with the member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseSeen {
    /// The lockspace.
    pub lockspace: String,
    /// The host id.
    pub host_id: u64,
    /// The generation.
    pub generation: u64,
    /// The owner's name.
    pub owner_name: String,
}

/// What was seen in one lockspace, as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseEvidence {
    /// The lease.
    pub lease: LeaseSeen,
    /// Its unchanged timestamp.
    pub timestamp: u64,
    /// For how many seconds the observer saw no change.
    pub unchanged_s: u64,
}

/// Dead in every lockspace, twice, for the lease that was seen alive, with an attested watchdog. Made by
/// [`LeaseWatch::dead`] alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseDeadProof {
    evidence: Vec<LeaseEvidence>,
}

impl LeaseDeadProof {
    /// What was seen, one item for each lockspace.
    pub fn evidence(&self) -> &[LeaseEvidence] {
        &self.evidence
    }
}

/// The first believed dead row of a host, and since when it stands unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DeadSince {
    row: HostRow,
    read_at: BootTime,
    daemon: String,
}

impl DeadSince {
    /// Whether the observer has looked again since, a renewal later by both clocks.
    fn is_followed_by(&self, now: &LeaseReading, row: &HostRow) -> bool {
        now.read_at.since(self.read_at) >= Duration::from_secs(row.renewal_s())
            && row.last_check > self.row.last_check
    }
}

/// Collects lease readings of one leader over its passes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseWatch {
    latest: BTreeMap<String, LeaseReading>,
    dead: BTreeMap<(String, u64), DeadSince>,
}

impl LeaseWatch {
    /// Forgets everything: after a gap, a jump of the own clock, a change of leader.
    pub fn reset(&mut self) {
        self.latest.clear();
        self.dead.clear();
    }

    /// Takes the readings of one pass: every configured lockspace that could be read.
    pub fn see(&mut self, readings: Vec<LeaseReading>) {
        self.latest = readings.into_iter().map(|r| (r.lockspace.clone(), r)).collect();
        let mut dead = BTreeMap::new();
        for (lockspace, reading) in &self.latest {
            for row in &reading.hosts {
                if reading.host(row.host_id).is_none()
                    || !row.says_dead()
                    || !reading.doubts(row.host_id).is_empty()
                {
                    continue;
                }
                let key = (lockspace.clone(), row.host_id);
                let first = self.dead.get(&key).filter(|d| {
                    let same = (&d.row.owner_name, d.row.generation, d.row.timestamp)
                        == (&row.owner_name, row.generation, row.timestamp);
                    same && d.daemon == reading.daemon
                });
                let since = first.cloned().unwrap_or_else(|| DeadSince {
                    row: row.clone(),
                    read_at: reading.read_at,
                    daemon: reading.daemon.clone(),
                });
                dead.insert(key, since);
            }
        }
        self.dead = dead;
    }

    /// The leases of `member` that are alive in the latest reading: what to store with a member that is Online.
    pub fn alive(&self, config: &LeaseConfig, member: &MemberName) -> Vec<LeaseSeen> {
        let Some(host) = config.members.get(member) else { return Vec::new() };
        let seen = host.host_ids.iter().filter_map(|(lockspace, id)| {
            let reading = self.latest.get(lockspace)?;
            let row = reading.host(*id)?;
            let alive = row.state == Some(HostState::Live)
                && row.owner_id == *id
                && reading.doubts(*id).is_empty()
                && config.other_owner(member, &row.owner_name).is_none();
            alive.then(|| LeaseSeen {
                lockspace: lockspace.clone(),
                host_id: *id,
                generation: row.generation,
                owner_name: row.owner_name.clone(),
            })
        });
        seen.collect()
    }

    /// The proof that `member` is dead in every configured lockspace. `seen` are the leases stored while it was Online.
    pub fn dead(
        &self,
        config: &LeaseConfig,
        member: &MemberName,
        seen: &[LeaseSeen],
    ) -> Option<LeaseDeadProof> {
        let host = config.members.get(member).filter(|h| h.watchdog)?;
        if config.lockspaces.is_empty() {
            return None;
        }
        let evidence = config.lockspaces.iter().map(|lockspace| {
            let id = *host.host_ids.get(lockspace)?;
            let now = self.latest.get(lockspace)?;
            let row = now.host(id)?;
            let first = self.dead.get(&(lockspace.clone(), id))?;
            let lease = seen.iter().find(|s| s.lockspace == *lockspace && s.host_id == id)?;
            let same = lease.generation == row.generation && lease.owner_name == row.owner_name;
            let mine = config.other_owner(member, &row.owner_name).is_none();
            (same && mine && first.is_followed_by(now, row)).then(|| LeaseEvidence {
                lease: lease.clone(),
                timestamp: row.timestamp,
                unchanged_s: row.unchanged_s(),
            })
        });
        evidence.collect::<Option<Vec<_>>>().map(|evidence| LeaseDeadProof { evidence })
    }
}

#[cfg(test)]
mod tests;

//! The cluster's database: who leads it, whose heartbeats it has, who can use it (`tests/data/incus/README.md`
//! sections 1 and 2).

use std::time::Duration;

use crate::incus::clock::{At, MILLISECOND, SECOND, nanos};
use crate::incus::machine::{Machine, Role};
use crate::incus::truth::What;
use crate::incus::world::World;

/// From the loss of a leader to the next one; measured 5.6 s.
const ELECTION: i64 = 5_600 * MILLISECOND;
/// From a quorum's return to a leader; measured 1.35 s.
const RETURN: i64 = 1_350 * MILLISECOND;
/// From an election to right heartbeats, after a change of the leader and after a lost quorum; measured 0.5 s and 2.6 s.
const FALSE_PICTURE: (i64, i64) = (500 * MILLISECOND, 2_600 * MILLISECOND);
/// A query of a member that lost the database less than this ago is answered late.
const FRESH_LOSS: i64 = 12 * SECOND;

#[derive(Debug)]
pub(super) struct Database {
    pub(super) leader: Option<usize>,
    /// The leader that the list of members shows: a new one is not shown before its first round of heartbeats.
    pub(super) shown_leader: usize,
    /// When there will be a leader.
    pub(super) election: Option<At>,
    /// When the next round of heartbeats ends.
    pub(super) next_round: At,
    interval: i64,
    /// Since when there has been no quorum.
    pub(super) no_quorum_since: Option<At>,
    /// Whether the first answers after an election show healthy members as Offline.
    pub(super) false_pictures: bool,
}

/// What a query is for: each waits for a lost database in its own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    Members,
    Instances,
    Other,
}

/// Whether a member's query finds the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// It does.
    Yes,
    /// Not yet.
    NotYet,
    /// It gives up.
    No { status: u16, error: &'static str },
}

impl Database {
    pub(super) fn new(now: At, interval: i64) -> Self {
        Self {
            leader: Some(0),
            shown_leader: 0,
            election: None,
            next_round: now + interval,
            interval: interval.max(MILLISECOND),
            no_quorum_since: None,
            false_pictures: false,
        }
    }

    /// The time between two rounds of heartbeats.
    pub(super) fn interval(&self) -> i64 {
        self.interval
    }
}

impl World {
    fn has_quorum(&self) -> bool {
        let voters = self.machines.iter().filter(|machine| machine.role == Role::Voter);
        let (mut all, mut connected) = (0, 0);
        for voter in voters {
            all += 1;
            connected += usize::from(voter.connected());
        }
        2 * connected > all
    }

    /// Judges the leader anew after something has changed.
    pub(super) fn reconsider(&mut self, at: At) {
        let quorum = self.has_quorum();
        let leads =
            |index: usize| self.machines.get(index).is_some_and(|m| m.connected() && m.role == Role::Voter);
        let lost = self.database.leader.is_some_and(|leader| !quorum || !leads(leader));
        if lost {
            self.database.leader = None;
        }
        if !quorum {
            self.database.election = None;
            if self.database.no_quorum_since.is_none() {
                self.database.no_quorum_since = Some(at);
                self.note(at, What::QuorumLost);
            }
        } else if self.database.leader.is_none() && self.database.election.is_none() {
            let wait = if self.database.no_quorum_since.is_some() { RETURN } else { ELECTION };
            self.database.election = Some(at + wait);
        }
    }

    pub(super) fn elect(&mut self, at: At) {
        self.database.election = None;
        let after_loss = self.database.no_quorum_since.take().is_some();
        let next =
            self.machines.iter().position(|machine| machine.role == Role::Voter && machine.connected());
        let Some(leader) = next else { return };
        self.database.leader = Some(leader);
        self.note(at, What::Leads(self.name(leader)));
        if !self.database.false_pictures {
            self.heartbeats(at);
            return;
        }
        let (leader_change, quorum_back) = FALSE_PICTURE;
        self.database.next_round = at + if after_loss { quorum_back } else { leader_change };
        let stale = at - nanos(self.plan.offline_threshold) - 233 * MILLISECOND;
        for (index, machine) in self.machines.iter_mut().enumerate() {
            if after_loss || index != leader {
                machine.heartbeat = machine.heartbeat.min(stale);
            }
        }
    }

    /// The end of a round of heartbeats: the leader writes a row for each member that has answered.
    pub(super) fn heartbeats(&mut self, at: At) {
        let Some(leader) = self.database.leader else { return };
        self.database.shown_leader = leader;
        self.database.next_round = at + self.database.interval;
        let now = self.machines.get(leader).map_or(at, |leader| leader.clock(at));
        for machine in self.machines.iter_mut().filter(|machine| machine.connected()) {
            machine.heartbeat = now;
            machine.heard = true;
        }
        self.replace_voter(at, leader);
    }

    /// Gives the vote of an Offline voter to a member that is there.
    fn replace_voter(&mut self, at: At, leader: usize) {
        let lost = (0..self.machines.len()).find(|index| {
            self.machines.get(*index).is_some_and(|machine| machine.role == Role::Voter)
                && self.is_offline(leader, *index, at)
        });
        let free =
            |role| self.machines.iter().position(|machine| machine.role == role && machine.connected());
        let (Some(lost), Some(next)) = (lost, free(Role::StandBy).or_else(|| free(Role::Spare))) else {
            return;
        };
        for (index, role) in [(lost, Role::Spare), (next, Role::Voter)] {
            if let Some(machine) = self.machines.get_mut(index) {
                machine.role = role;
            }
        }
    }

    /// How old a member's heartbeat is by the clock of the member that is asked, and when it was.
    pub(super) fn heartbeat_age(&self, asked: usize, member: usize, now: At) -> (i64, At) {
        let clock = self.machines.get(asked).map_or(now, |machine| machine.clock(now));
        let heartbeat = self.machines.get(member).map_or(now, |machine| machine.heartbeat);
        (clock - heartbeat, heartbeat)
    }

    /// Whether a member counts as Offline for the one that is asked, whatever its status shows.
    pub(super) fn is_offline(&self, asked: usize, member: usize, now: At) -> bool {
        self.heartbeat_age(asked, member, now).0 > nanos(self.plan.offline_threshold)
    }

    /// Whether a member can use the database now.
    pub(super) fn has_database(&self, member: usize) -> bool {
        self.database.leader.is_some() && self.machines.get(member).is_some_and(Machine::connected)
    }

    /// Whether a query finds the database that a member was asked at `asked`.
    pub(super) fn find_database(&self, member: usize, query: Query, asked: At, now: At) -> Found {
        if self.has_database(member) {
            return Found::Yes;
        }
        let cut = self.machines.get(member).and_then(|machine| machine.cut_since);
        // While the majority elects, its members wait.
        let Some(lost) = cut.or(self.database.no_quorum_since) else { return Found::NotYet };
        let fresh = asked - lost < FRESH_LOSS;
        let gives_up = match query {
            Query::Members if fresh && cut.is_some() => (lost + 25 * SECOND).max(asked + 5 * SECOND),
            Query::Members => asked + 5 * SECOND,
            Query::Instances if fresh => asked + 24_700 * MILLISECOND,
            Query::Instances => asked + 10_200 * MILLISECOND,
            Query::Other if fresh => asked + 10_500 * MILLISECOND,
            Query::Other => asked + 800 * MILLISECOND,
        };
        if now < gives_up {
            Found::NotYet
        } else if query == Query::Members {
            Found::No { status: 500, error: "context deadline exceeded" }
        } else {
            Found::No {
                status: 503,
                error: "Failed to begin transaction: failed to create cowsql connection: no available cowsql leader \
                        server found",
            }
        }
    }

    /// Makes the next answers of a member be judged by a wall clock that is this far off.
    pub(super) fn set_skew(&mut self, member: usize, ahead: bool, by: Duration) {
        if let Some(machine) = self.machines.get_mut(member) {
            machine.skew = if ahead { nanos(by) } else { -nanos(by) };
        }
    }
}

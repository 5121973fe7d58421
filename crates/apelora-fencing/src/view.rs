//! What the cluster says about its members, as one answer of one member.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::MemberName;
use crate::time::BootTime;

/// A member's status in the cluster's member list.
///
/// Words are compared exactly: `OFFLINE` or `offline` is a status this code does not know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// `Online`.
    Online,
    /// `Offline`.
    Offline,
    /// `Blocked`: alive, waiting for others to be updated.
    Blocked,
    /// `Evacuated`, `Evacuating` or `Restoring`: hides whether the member is alive.
    Moved(Moved),
    /// Any other word. Counts as Offline where many Offline members refuse, and as not Offline where one is needed.
    Unknown(String),
}

/// The statuses of a member whose instances are being or have been moved away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moved {
    /// `Evacuated`.
    Evacuated,
    /// `Evacuating`.
    Evacuating,
    /// `Restoring`.
    Restoring,
}

impl Status {
    /// Reads a status word.
    pub fn from_word(word: &str) -> Self {
        match word {
            "Online" => Self::Online,
            "Offline" => Self::Offline,
            "Blocked" => Self::Blocked,
            "Evacuated" => Self::Moved(Moved::Evacuated),
            "Evacuating" => Self::Moved(Moved::Evacuating),
            "Restoring" => Self::Moved(Moved::Restoring),
            other => Self::Unknown(other.into()),
        }
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Online => "Online",
            Self::Offline => "Offline",
            Self::Blocked => "Blocked",
            Self::Moved(Moved::Evacuated) => "Evacuated",
            Self::Moved(Moved::Evacuating) => "Evacuating",
            Self::Moved(Moved::Restoring) => "Restoring",
            Self::Unknown(word) => word,
        }
    }

    /// Whether the cluster heard from the member lately. An evacuated member may be dead all the same.
    pub const fn is_alive(&self) -> bool {
        matches!(self, Self::Online | Self::Blocked)
    }

    /// Whether it counts against the minority rule.
    pub const fn counts_offline(&self) -> bool {
        matches!(self, Self::Offline | Self::Unknown(_))
    }
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Ok(Self::from_word(&word))
    }
}

/// One line of the member list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listed {
    /// The member.
    pub name: MemberName,
    /// Its status.
    pub status: Status,
    /// Its failure domain, when the cluster uses them.
    pub failure_domain: Option<String>,
}

/// One answer to "who is in the cluster, and how are they".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterView {
    asked: BootTime,
    responder: MemberName,
    leader: Option<MemberName>,
    members: Vec<Listed>,
}

/// An answer that cannot be used. Never means that anybody is Offline.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ViewError {
    /// No answer, or not in a form that can be read.
    #[error("the member list could not be read: {0}")]
    Unreadable(String),
    /// Nobody is listed.
    #[error("the member list is empty")]
    Empty,
    /// One name twice.
    #[error("the member list names {0} twice")]
    Twice(MemberName),
}

impl ClusterView {
    /// Makes a view of one answer.
    ///
    /// `asked` is the boot time *before* the request was sent, `responder` the member that answered by its own word,
    /// `leader` the member with the role `database-leader`.
    ///
    /// # Errors
    /// A list that contradicts itself is no view.
    pub fn new(
        asked: BootTime,
        responder: MemberName,
        leader: Option<MemberName>,
        mut members: Vec<Listed>,
    ) -> Result<Self, ViewError> {
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if members.is_empty() {
            return Err(ViewError::Empty);
        }
        if let Some(pair) = members.windows(2).find(|w| w[0].name == w[1].name) {
            return Err(ViewError::Twice(pair[0].name.clone()));
        }
        Ok(Self { asked, responder, leader, members })
    }

    /// When it was asked for.
    pub const fn asked(&self) -> BootTime {
        self.asked
    }

    /// Who answered.
    pub const fn responder(&self) -> &MemberName {
        &self.responder
    }

    /// Who leads the cluster's database, if the answer says so.
    pub const fn leader(&self) -> Option<&MemberName> {
        self.leader.as_ref()
    }

    /// The members, by name.
    pub fn members(&self) -> &[Listed] {
        &self.members
    }

    /// The status of `member`, if it is listed.
    pub fn status(&self, member: &MemberName) -> Option<&Status> {
        let i = self.members.binary_search_by(|l| l.name.cmp(member)).ok()?;
        Some(&self.members[i].status)
    }

    /// Whether the member that answered lists itself as alive.
    pub fn responder_is_alive(&self) -> bool {
        self.status(&self.responder) == Some(&Status::Online)
    }

    /// Whether the database leader is listed as alive.
    pub fn leader_is_alive(&self) -> bool {
        self.leader.as_ref().and_then(|l| self.status(l)) == Some(&Status::Online)
    }
}

/// The second opinion of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecondView {
    /// The answer of another member.
    Seen(ClusterView),
    /// There is one endpoint only, or the others do not answer.
    Missing,
}

impl SecondView {
    /// The second answer, if it is a witness for `first`: of another member, that is Online by both answers, about the
    /// same members. Two answers of one member are one, and two lists of different members are two clusters.
    pub fn witness(&self, first: &ClusterView) -> Option<&ClusterView> {
        let Self::Seen(second) = self else { return None };
        let is_witness = second.responder != first.responder
            && second.responder_is_alive()
            && first.status(&second.responder) == Some(&Status::Online)
            && second.members.len() == first.members.len()
            && second.members.iter().zip(&first.members).all(|(a, b)| a.name == b.name);
        is_witness.then_some(second)
    }

    /// Whether it confirms that `member` has the status that `first` gives it.
    pub fn confirms(&self, first: &ClusterView, member: &MemberName) -> bool {
        self.witness(first).is_some_and(|second| second.status(member) == first.status(member))
    }
}

/// Whether the cluster heals by itself, which restarts instances without a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Healing {
    /// Read as off, or attested as off where it cannot be read.
    Off,
    /// Read as on. No attestation overrules that.
    On,
    /// Not readable and not attested.
    Unknown,
}

/// The failure domains of `members` in which two or more are listed and all count as Offline.
pub fn dead_domains<'a>(members: impl Iterator<Item = (&'a str, bool)>) -> BTreeSet<&'a str> {
    let mut domains: std::collections::BTreeMap<&str, (usize, bool)> = std::collections::BTreeMap::new();
    for (domain, offline) in members {
        let seen = domains.entry(domain).or_insert((0, true));
        seen.0 += 1;
        seen.1 &= offline;
    }
    domains.into_iter().filter(|(_, (n, all))| *n >= 2 && *all).map(|(d, _)| d).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(responder: &str, members: &[(&str, &str)]) -> ClusterView {
        let listed = members.iter().map(|(n, s)| Listed {
            name: (*n).into(),
            status: Status::from_word(s),
            failure_domain: None,
        });
        ClusterView::new(BootTime::default(), responder.into(), None, listed.collect()).unwrap()
    }

    #[test]
    fn a_list_that_contradicts_itself_is_no_view() {
        let twice = |n: &str| Listed { name: n.into(), status: Status::Online, failure_domain: None };
        let now = BootTime::default();
        assert_eq!(ClusterView::new(now, "a".into(), None, vec![]), Err(ViewError::Empty));
        let members = vec![twice("a"), twice("b"), twice("a")];
        assert_eq!(ClusterView::new(now, "a".into(), None, members), Err(ViewError::Twice("a".into())));
    }

    #[test]
    fn a_second_view_confirms_only_as_a_witness_of_the_same_cluster() {
        let first = view("b", &[("a", "Offline"), ("b", "Online"), ("c", "Online")]);
        let all = [("a", "Offline"), ("b", "Online"), ("c", "Online")];
        let confirms = |second: ClusterView| SecondView::Seen(second).confirms(&first, &"a".into());
        assert!(confirms(view("c", &all)));
        assert!(!confirms(view("b", &all)), "the same member again");
        assert!(!confirms(view("c", &[("a", "Online"), ("b", "Online"), ("c", "Online")])));
        assert!(!confirms(view("c", &[("a", "Offline"), ("b", "Online"), ("c", "Offline")])), "isolated");
        assert!(
            !confirms(view("d", &[("a", "Offline"), ("b", "Online"), ("d", "Online")])),
            "another cluster"
        );
        assert!(!confirms(view("c", &[("a", "Offline"), ("c", "Online")])));
        assert!(!SecondView::Missing.confirms(&first, &"a".into()));
    }

    #[test]
    fn a_domain_is_dead_when_two_or_more_are_and_none_lives() {
        let members = [("r1", true), ("r1", true), ("r2", true), ("r2", false), ("r3", true)];
        assert_eq!(dead_domains(members.into_iter()), BTreeSet::from(["r1"]));
    }
}

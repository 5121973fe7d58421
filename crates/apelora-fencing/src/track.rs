//! What a leader has seen of each member since it was elected: series of one status, and what follows from them.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::MemberName;
use crate::reason::ReasonCode;
use crate::time::BootTime;
use crate::view::{ClusterView, Status};
use crate::watch::Watch;

/// One member, as seen by this leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    /// Begin of the unbroken series of `Offline`.
    pub(crate) offline_since: Option<BootTime>,
    /// Begin of the unbroken series of `Online`.
    pub(crate) online_since: Option<BootTime>,
    /// Its BMC is left alone until then, for this reason.
    pub(crate) pause: Option<(ReasonCode, BootTime)>,
    /// The refusal that was audited last, and when.
    pub(crate) audited: Option<(BTreeSet<ReasonCode>, BootTime)>,
    /// The read-only watch over it.
    pub(crate) watch: Option<Watch>,
    /// Whether a power-off proof that this leader found was read once more.
    pub(crate) rechecked: bool,
}

/// All members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    pub(crate) of: BTreeMap<MemberName, Track>,
    /// When the latest readable view was asked for.
    pub(crate) asked: Option<BootTime>,
    /// The cluster's database leader in it.
    pub(crate) leader: Option<MemberName>,
}

impl Tracks {
    /// Breaks every series: nothing that was seen before says anything about what was in between.
    pub(crate) fn reset(&mut self) {
        for track in self.of.values_mut() {
            track.offline_since = None;
            track.online_since = None;
            track.watch = None;
        }
        self.asked = None;
    }

    /// Takes a readable view that arrived at `now`. Returns whether every series was broken before.
    pub(crate) fn see(&mut self, view: &ClusterView, now: BootTime, gap: std::time::Duration) -> bool {
        let broken = match self.asked {
            // A change of the database leader is when healthy members are reported Offline.
            Some(before) => view.asked().since(before) > gap || view.leader() != self.leader.as_ref(),
            None => true,
        };
        if broken {
            self.reset();
        }
        self.asked = Some(view.asked());
        self.leader = view.leader().cloned();
        for listed in view.members() {
            let track = self.of.entry(listed.name.clone()).or_default();
            // The series starts when the answer was there, not when it was asked for: the shorter of the two.
            track.offline_since =
                (listed.status == Status::Offline).then(|| track.offline_since.unwrap_or(now));
            track.online_since = listed.status.is_alive().then(|| track.online_since.unwrap_or(now));
        }
        for (name, track) in &mut self.of {
            if view.status(name).is_none() {
                track.offline_since = None;
                track.online_since = None;
            }
        }
        broken
    }

    pub(crate) fn get_mut(&mut self, member: &MemberName) -> &mut Track {
        self.of.entry(member.clone()).or_default()
    }
}

//! From what a pass read to the [`World`] that the guards judge.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::event::Pass;
use crate::map::MapState;
use crate::name::MemberName;
use crate::record::{MemberRow, Persisted};
use crate::supervisor::Settings;
use crate::time::BootTime;
use crate::track::Tracks;
use crate::view::{ClusterView, Listed, SecondView};
use crate::world::{BmcPause, LeaseFacts, MemberFacts, ViewFacts, World};

/// What beside the pass a world is made of.
pub(crate) struct Known<'a> {
    pub(crate) now: BootTime,
    pub(crate) fence_after: Duration,
    pub(crate) settings: &'a Settings,
    pub(crate) tracks: &'a Tracks,
    pub(crate) lease_left: Duration,
    /// The member whose record is open, by the database or by this leader.
    pub(crate) open: Option<MemberName>,
}

/// Puts a pass and what is known together.
pub(crate) fn world(pass: &Pass, stored: &Persisted, known: &Known<'_>) -> World {
    let view = pass.view.as_ref().ok();
    let listed = view.map_or(&[][..], |v| v.members());
    let mut names: BTreeSet<&MemberName> = listed.iter().map(|l| &l.name).collect();
    if let MapState::Valid(map) = &pass.map {
        names.extend(map.iter().map(|(name, _)| name));
    }
    if view.is_none() {
        names.extend(stored.members.keys());
    }
    let witness = view.and_then(|v| pass.second.witness(v));
    // Both are sorted by name: walk them side by side.
    let mut listed = listed.iter().peekable();
    let members = names.into_iter().map(|name| {
        let listed = listed.next_if(|l| l.name == *name);
        let mut facts = member(name, listed, pass, stored.members.get(name), known);
        facts.second_view_agrees = witness.is_some_and(|w| w.status(name) == facts.status.as_ref());
        facts.sends(stored, pass)
    });
    World {
        fence_after: known.fence_after,
        view: ViewFacts {
            readable: view.is_some(),
            responder_online: view.is_some_and(ClusterView::responder_is_alive),
            leader_online: view.is_some_and(ClusterView::leader_is_alive),
            healing: pass.healing,
        },
        lease: LeaseFacts { held: true, remaining: known.lease_left },
        mapping_valid: pass.map != MapState::Invalid,
        open: known.open.clone(),
        history_gap: stored.history_gap,
        failure_domain_rule: known.settings.failure_domain_rule,
        // The attestation stands in for what cannot be seen; another member's answer is seen, and may contradict.
        single_view: known.settings.single_view && pass.second == SecondView::Missing,
        members: members.collect(),
    }
}

fn member(
    name: &MemberName,
    listed: Option<&Listed>,
    pass: &Pass,
    row: Option<&MemberRow>,
    known: &Known<'_>,
) -> MemberFacts {
    let track = known.tracks.of.get(name);
    let offline_for = track.and_then(|t| t.offline_since).zip(known.tracks.asked);
    let entry = pass.map.entry(name);
    let pause = track.and_then(|t| t.pause).filter(|(_, until)| known.now < *until);
    MemberFacts {
        failure_domain: listed.and_then(|l| l.failure_domain.clone()),
        offline_for: offline_for.map(|(since, asked)| asked.since(since)),
        mapped: entry.is_some(),
        lab_refused: entry.is_some() && !known.settings.may_use(entry),
        own_host: known.settings.own_host.as_ref() == Some(name),
        ever_online: row.is_some_and(|r| r.incarnation.0 > 0),
        proof: row.and_then(MemberRow::standing_proof).map(|p| p.kind),
        held: row.is_some_and(|r| r.held),
        distrusted: row.is_some_and(|r| r.distrusted),
        bmc_pause: pause.map(|(reason, until)| BmcPause { reason, left: until.since(known.now) }),
        ..MemberFacts::new(name.clone(), listed.map(|l| l.status.clone()))
    }
}

impl MemberFacts {
    /// Adds the latest send to this name or to this hardware, so that a rename forgets nothing.
    fn sends(mut self, stored: &Persisted, pass: &Pass) -> Self {
        let uuid = pass.map.entry(&self.name).and_then(|e| e.identity.uuid());
        let to_it =
            stored.sends.iter().filter(|s| s.member == self.name || (uuid.is_some() && s.uuid == uuid));
        // A record's own permit must not speak against its own send; another send waits for its end anyway.
        self.last_send = to_it.filter(|s| !s.open).map(|s| s.age).min();
        let online = stored.members.get(&self.name).and_then(|r| r.last_online);
        let since = |ago: Option<Duration>| ago.zip(online).is_some_and(|(ago, online)| online < ago);
        self.online_since_send = since(self.last_send);
        self.online_since_gap = since(stored.history_gap);
        self
    }
}

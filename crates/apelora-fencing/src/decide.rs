//! The decision: every guard of every member, and at most one member to switch off.

use std::collections::BTreeSet;

use crate::guard::{Case, Counts, Finding, GUARDS, Guard};
use crate::limits::Limits;
use crate::name::MemberName;
use crate::reason::ReasonCode;
use crate::world::World;

/// What is to be done about one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Every guard holds: it may be switched off.
    Intent,
    /// A send is refused, but only by guards that reading does not need: its power is read once a minute.
    Watch,
    /// Nothing.
    Refuse,
}

impl Action {
    /// The word used in snapshots and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Watch => "watch",
            Self::Refuse => "refuse",
        }
    }
}

/// The verdict on one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// The member.
    pub member: MemberName,
    /// What every guard found.
    pub findings: [Finding; GUARDS.len()],
    /// What follows.
    pub action: Action,
}

impl Verdict {
    /// Why it is not to be switched off, without repetition; empty when it is.
    pub fn reasons(&self) -> BTreeSet<ReasonCode> {
        self.findings.iter().filter_map(|f| f.refusal).collect()
    }

    /// The verdict as one sentence: that it is fenced already, or the first guard that refuses, or that all hold.
    pub fn sentence(&self) -> String {
        let refusals = || self.findings.iter().filter(|f| !f.holds());
        match refusals().find(|f| f.guard == Guard::Proof).or_else(|| refusals().next()) {
            Some(finding) => finding.to_string(),
            None => format!("Every guard holds for {}.", self.member),
        }
    }
}

/// What was decided in one pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Every member of the world, in its order.
    pub verdicts: Vec<Verdict>,
    /// The verdict of the one member to switch off now, as an index.
    pub chosen: Option<usize>,
}

impl Decision {
    /// The verdict on `member`.
    pub fn verdict(&self, member: &MemberName) -> Option<&Verdict> {
        self.verdicts.iter().find(|v| v.member == *member)
    }

    /// The one member to switch off now.
    pub fn chosen(&self) -> Option<&Verdict> {
        self.chosen.and_then(|i| self.verdicts.get(i))
    }
}

/// Judges every guard of every member.
///
/// Total: any world gives a decision. Of several members that may be switched off, the one that is Offline longest is
/// chosen, by name among equals; the others wait for its outcome.
pub fn decide(world: &World, limits: &Limits) -> Decision {
    let counts = Counts::of(world);
    let verdicts: Vec<_> = world
        .members
        .iter()
        .map(|member| {
            let case = Case { world, member, counts: &counts, limits };
            let findings = GUARDS.map(|(guard, judge)| {
                let (refusal, measured) = judge(&case);
                Finding { guard, refusal, measured }
            });
            Verdict { member: member.name.clone(), action: action(&findings, &case), findings }
        })
        .collect();
    let chosen = (0..verdicts.len()).filter(|i| verdicts[*i].action == Action::Intent).min_by(|a, b| {
        let key = |i: usize| (std::cmp::Reverse(world.members[i].offline_for), &world.members[i].name);
        key(*a).cmp(&key(*b))
    });
    Decision { verdicts, chosen }
}

fn action(findings: &[Finding], case: &Case<'_>) -> Action {
    let mut action = Action::Intent;
    for reason in findings.iter().filter_map(|f| f.refusal) {
        if !reading_is_enough(reason, case) {
            return Action::Refuse;
        }
        action = Action::Watch;
    }
    action
}

/// Whether a member may be read although this reason forbids a send: the reason is about the danger of switching off, and
/// reading is not dangerous.
fn reading_is_enough(reason: ReasonCode, case: &Case<'_>) -> bool {
    match reason {
        ReasonCode::NotMinority
        | ReasonCode::AnotherInProgress
        | ReasonCode::PoweredOffRecently
        | ReasonCode::HistoryLost
        | ReasonCode::Held
        | ReasonCode::FailureDomain => true,
        // When one of two members is gone there is no other that could confirm it.
        ReasonCode::ViewDisagrees => case.counts.is_pair() && case.world.view.responder_online,
        _ => false,
    }
}

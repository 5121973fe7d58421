//! The guards: each looks at one thing and either holds or refuses with its reason and its numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::limits::Limits;
use crate::reason::ReasonCode;
use crate::record::ProofKind;
use crate::view::{Healing, Status, dead_domains};
use crate::world::{MemberFacts, World};

/// What a guard looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// The configuration is usable.
    Configuration,
    /// The cluster's answer is readable.
    View,
    /// The cluster lists the member.
    Member,
    /// It is Offline for long enough.
    Offline,
    /// Fewer than half of the members are Offline.
    Minority,
    /// Nobody is being powered off.
    Single,
    /// It was not powered off lately.
    Loop,
    /// The database did not lose the history that the loop guard needs.
    History,
    /// The leader lease is held and covers a power-off.
    Lease,
    /// The map is valid and names the member.
    Mapping,
    /// The lab provider is not used where it is not allowed.
    Lab,
    /// The member is not the worker's own host.
    OwnHost,
    /// No proof stands for it already.
    Proof,
    /// No entry locks its power.
    Held,
    /// It was seen Online before.
    EverOnline,
    /// A second view confirms its status.
    SecondView,
    /// The cluster does not heal by itself.
    Healing,
    /// Its mapping is trusted.
    Trust,
    /// Its failure domain is not dead as a whole.
    FailureDomain,
    /// Its BMC is not being left alone.
    BmcPause,
}

impl Guard {
    /// The word used in snapshots and on pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::View => "view",
            Self::Member => "member",
            Self::Offline => "offline",
            Self::Minority => "minority",
            Self::Single => "single",
            Self::Loop => "loop",
            Self::History => "history",
            Self::Lease => "lease",
            Self::Mapping => "mapping",
            Self::Lab => "lab",
            Self::OwnHost => "own_host",
            Self::Proof => "proof",
            Self::Held => "held",
            Self::EverOnline => "ever_online",
            Self::SecondView => "second_view",
            Self::Healing => "healing",
            Self::Trust => "trust",
            Self::FailureDomain => "failure_domain",
            Self::BmcPause => "bmc_pause",
        }
    }
}

/// The numbers that a guard was judged on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Measured {
    /// Yes or no; the reason says it all.
    Flag,
    /// The status that the cluster reports.
    Status(Option<Status>),
    /// A time, and the time it is compared with.
    Time {
        /// What was measured; absent when there is nothing to measure.
        is: Option<Duration>,
        /// What it is compared with.
        limit: Duration,
    },
    /// Offline members of all members.
    Offline {
        /// How many count as Offline.
        offline: usize,
        /// How many are listed.
        total: usize,
    },
}

/// What one guard found about one member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// Which guard.
    pub guard: Guard,
    /// Why it refuses; `None` when it holds.
    pub refusal: Option<ReasonCode>,
    /// What it was judged on.
    pub measured: Measured,
}

impl Finding {
    /// Whether the guard lets the power-off pass.
    pub const fn holds(&self) -> bool {
        self.refusal.is_none()
    }
}

/// The finding as one sentence for a person, with its numbers.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal {
            None => write!(f, "The guard `{}` holds", self.guard.as_str())?,
            Some(reason) => f.write_str(reason.sentence().trim_end_matches('.'))?,
        }
        match &self.measured {
            Measured::Flag => {}
            Measured::Status(Some(status)) => write!(f, " (the cluster says {})", status.as_str())?,
            Measured::Status(None) => f.write_str(" (the cluster says nothing)")?,
            // What only has to pass.
            Measured::Time { is: Some(is), limit } if limit.is_zero() => {
                write!(f, " (for {:.1} s more)", is.as_secs_f64())?;
            }
            Measured::Time { is: Some(is), limit } => {
                write!(f, " ({:.1} s, the limit is {:.1} s)", is.as_secs_f64(), limit.as_secs_f64())?;
            }
            Measured::Time { is: None, limit } => {
                write!(f, " (never, the limit is {:.1} s)", limit.as_secs_f64())?;
            }
            Measured::Offline { offline, total } => {
                write!(f, " ({offline} of {total} members count as Offline)")?;
            }
        }
        f.write_str(".")
    }
}

/// What is counted once for all members.
pub(crate) struct Counts<'a> {
    offline: usize,
    total: usize,
    dead_domains: BTreeSet<&'a str>,
}

impl<'a> Counts<'a> {
    pub(crate) fn of(world: &'a World) -> Self {
        let listed = || world.members.iter().filter_map(|m| m.status.as_ref().map(|s| (m, s)));
        Self {
            offline: listed().filter(|(_, s)| s.counts_offline()).count(),
            total: listed().count(),
            dead_domains: dead_domains(
                listed().filter_map(|(m, s)| Some((m.failure_domain.as_deref()?, s.counts_offline()))),
            ),
        }
    }
}

impl Counts<'_> {
    /// Whether the cluster has two members, so that the failure of one leaves no second witness.
    pub(crate) const fn is_pair(&self) -> bool {
        self.total == 2
    }
}

/// What a guard may look at.
pub(crate) struct Case<'a> {
    pub(crate) world: &'a World,
    pub(crate) member: &'a MemberFacts,
    pub(crate) counts: &'a Counts<'a>,
    pub(crate) limits: &'a Limits,
}

type Judge = fn(&Case<'_>) -> (Option<ReasonCode>, Measured);

/// Every guard, in the order in which they are shown. There is no other list.
pub(crate) const GUARDS: [(Guard, Judge); 20] = [
    (Guard::Configuration, configuration),
    (Guard::View, view),
    (Guard::Member, member),
    (Guard::Offline, offline),
    (Guard::Minority, minority),
    (Guard::Single, single),
    (Guard::Loop, loop_guard),
    (Guard::History, history),
    (Guard::Lease, lease),
    (Guard::Mapping, mapping),
    (Guard::Lab, |c| flag(c.member.lab_refused, ReasonCode::LabNotAllowed)),
    (Guard::OwnHost, |c| flag(c.member.own_host, ReasonCode::OwnHost)),
    (Guard::Proof, proof),
    (Guard::Held, |c| flag(c.member.held, ReasonCode::Held)),
    (Guard::EverOnline, |c| flag(!c.member.ever_online, ReasonCode::NeverOnline)),
    (Guard::SecondView, second_view),
    (Guard::Healing, |c| flag(c.world.view.healing != Healing::Off, ReasonCode::IncusHealingOn)),
    (Guard::Trust, |c| flag(c.member.distrusted, ReasonCode::Distrusted)),
    (Guard::FailureDomain, failure_domain),
    (Guard::BmcPause, bmc_pause),
];

fn flag(refuses: bool, reason: ReasonCode) -> (Option<ReasonCode>, Measured) {
    (refuses.then_some(reason), Measured::Flag)
}

fn configuration(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let refuses = c.world.fence_after < c.limits.fence_after_min;
    let measured = Measured::Time { is: Some(c.world.fence_after), limit: c.limits.fence_after_min };
    (refuses.then_some(ReasonCode::BadConfiguration), measured)
}

fn view(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    flag(!c.world.view.readable, ReasonCode::ViewUnreadable)
}

fn member(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    // Without an answer nobody is listed, which says nothing about the member.
    flag(c.world.view.readable && c.member.status.is_none(), ReasonCode::NotAMember)
}

fn offline(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let refusal = match &c.member.status {
        None => None,
        Some(Status::Offline) => {
            let limit = c.world.fence_after;
            let too_short = c.member.offline_for.is_none_or(|is| is < limit);
            return (
                too_short.then_some(ReasonCode::OfflineTooShort),
                Measured::Time { is: c.member.offline_for, limit },
            );
        }
        Some(_) => Some(ReasonCode::NotOffline),
    };
    (refusal, Measured::Status(c.member.status.clone()))
}

fn minority(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let Counts { offline, total, .. } = *c.counts;
    let holds = 2 * offline < total || !c.world.view.readable;
    ((!holds).then_some(ReasonCode::NotMinority), Measured::Offline { offline, total })
}

fn single(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let refusal = c.world.open.as_ref().map(|open| {
        if *open == c.member.name { ReasonCode::AlreadyInProgress } else { ReasonCode::AnotherInProgress }
    });
    (refusal, Measured::Flag)
}

fn loop_guard(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let limit = c.limits.loop_guard;
    let refuses = c.member.last_send.is_some_and(|sent| sent < limit && !c.member.online_since_send);
    (refuses.then_some(ReasonCode::PoweredOffRecently), Measured::Time { is: c.member.last_send, limit })
}

fn history(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let limit = c.limits.loop_guard;
    let refuses = c.world.history_gap.is_some_and(|gap| gap < limit && !c.member.online_since_gap);
    (refuses.then_some(ReasonCode::HistoryLost), Measured::Time { is: c.world.history_gap, limit })
}

fn lease(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let limit = c.limits.lease_for_send();
    let remaining = c.world.lease.remaining;
    let refusal = if !c.world.lease.held {
        Some(ReasonCode::NotLeader)
    } else if remaining < limit {
        Some(ReasonCode::LeaseTooShort)
    } else {
        None
    };
    (refusal, Measured::Time { is: Some(remaining), limit })
}

fn mapping(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let refusal = if !c.world.mapping_valid {
        Some(ReasonCode::MappingInvalid)
    } else if !c.member.mapped {
        Some(ReasonCode::NotMapped)
    } else {
        None
    };
    (refusal, Measured::Flag)
}

fn proof(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let refusal = c.member.proof.map(|kind| match kind {
        ProofKind::Person => ReasonCode::PersonConfirmed,
        ProofKind::PowerOff | ProofKind::LeaseDead => ReasonCode::AlreadyFenced,
    });
    (refusal, Measured::Flag)
}

fn second_view(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let view = &c.world.view;
    let confirmed = c.member.second_view_agrees || (c.world.single_view && view.leader_online);
    let refuses = view.readable && c.member.status.is_some() && !(view.responder_online && confirmed);
    flag(refuses, ReasonCode::ViewDisagrees)
}

fn failure_domain(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    let dead = c.member.failure_domain.as_deref().is_some_and(|d| c.counts.dead_domains.contains(d));
    flag(c.world.failure_domain_rule && dead, ReasonCode::FailureDomain)
}

fn bmc_pause(c: &Case<'_>) -> (Option<ReasonCode>, Measured) {
    match c.member.bmc_pause {
        Some(pause) if !pause.left.is_zero() => {
            (Some(pause.reason), Measured::Time { is: Some(pause.left), limit: Duration::ZERO })
        }
        _ => (None, Measured::Flag),
    }
}

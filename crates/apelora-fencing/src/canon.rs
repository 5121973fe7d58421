//! A supervisor's state in canonical form, for checks that explore all of its states.
//!
//! Two states with the same form behave the same from here on: times are ages, cut where no limit can tell them apart any
//! more; ticket and record numbers, evidence and what was only derived for show are left out. Every struct is taken
//! apart field by field, so that a new field does not compile until it is placed here.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::episode::{Episode, Last, Phase};
use crate::limits::Limits;
use crate::line::{Line, Pending};
use crate::name::{MemberName, RecordId};
use crate::proof::{OffStreak, SendReport};
use crate::reason::ReasonCode;
use crate::record::MemberRow;
use crate::supervisor::{Latest, Supervisor};
use crate::time::BootTime;
use crate::track::{Track, Tracks};
use crate::view::{ClusterView, Status};
use crate::watch::{Talk, Talks, Watch};
use crate::write::{Seen, Write};

/// Where the parts of the form go. Parts about one member are kept apart, so that members can be exchanged.
pub trait Canon {
    /// Takes a part that is about no member.
    fn whole(&mut self, part: impl Hash);
    /// Takes a part that is about `member`.
    fn of(&mut self, member: &MemberName, part: impl Hash);
    /// How a record relates to the store's: its age among them.
    fn record(&self, record: RecordId) -> u64;
}

/// Ages and times left, seen from now.
#[derive(Clone, Copy)]
struct Now(BootTime);

impl Now {
    /// How long ago, up to `most`.
    fn age(self, at: BootTime, most: Duration) -> u64 {
        nanos(self.0.since(at).min(most))
    }

    /// How long from now, up to `most`, zero when it is past.
    fn left(self, at: BootTime, most: Duration) -> u64 {
        nanos(at.since(self.0).min(most))
    }

    fn left_of(self, at: Option<BootTime>, most: Duration) -> u64 {
        at.map_or(0, |at| 1 + self.left(at, most))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Supervisor {
    /// Puts everything that its future depends on into `c`.
    pub fn canon(&self, at: BootTime, c: &mut impl Canon) {
        let Self {
            limits,
            settings: _,
            me,
            acts_from,
            over,
            tickets: _,
            look,
            next_look,
            stale_looks,
            tracks,
            lease_watch: _,
            line,
            episode,
            talks,
            drill: _,
            latest,
            wake,
            renewal_asked,
        } = self;
        let now = Now(at);
        c.whole((*over, now.left(me.deadline, limits.lease_ttl), now.left(*acts_from, limits.lease_margin)));
        let looking =
            look.map(|(ticket, began)| (ticket > *stale_looks, now.age(began, limits.pass_deadline)));
        c.whole((
            looking,
            now.left(*next_look, limits.pass_interval),
            now.left_of(*wake, limits.pass_deadline),
        ));
        c.whole(renewal_asked.is_some_and(|at| now.0.since(at) < limits.lease_statement));
        self.canon_tracks(tracks, now, c);
        canon_line(line, c);
        if let Some(episode) = episode {
            canon_episode(episode, look.map(|(ticket, _)| ticket), now, limits, c);
        }
        let Talks { open } = talks;
        for Talk { member, purpose, entry: _, reading } in open.values() {
            c.of(member, ("talk", purpose, reading));
        }
        if let Some(latest) = latest {
            canon_latest(latest, c);
        }
    }

    fn canon_tracks(&self, Tracks { of, asked, leader: _ }: &Tracks, now: Now, c: &mut impl Canon) {
        let limits = &self.limits;
        c.whole(asked.map(|at| now.age(at, limits.pass_gap() + limits.permit_valid)));
        // A series is compared with the grace; of those that have reached it, only the order counts.
        let length = |track: &Track| Some(asked.as_ref()?.since(track.offline_since?));
        let ripe: Vec<_> = of.values().filter_map(length).filter(|l| *l >= limits.fence_after).collect();
        for (member, track) in of {
            // What was audited last only decides whether it is audited again.
            let Track { offline_since, online_since: _, pause, audited: _, watch, rechecked } = track;
            let offline = length(track).map(|l| nanos(l.min(limits.fence_after)));
            let elders = length(track).map(|l| ripe.iter().filter(|other| **other > l).count());
            let begun = offline_since.map(|at| now.age(at, limits.fence_after));
            let pause = pause.map(|(_, until)| now.left(until, limits.pause_credential));
            c.of(member, ("track", offline, elders.filter(|_| ripe.len() > 1), begun, pause, rechecked));
            if let Some(Watch { streak, next, entry: _ }) = watch {
                c.of(
                    member,
                    ("watch", now.left(*next, limits.watch_every), canon_streak(streak, now, limits)),
                );
            }
        }
    }
}

fn canon_streak(streak: &OffStreak, now: Now, limits: &Limits) -> u64 {
    // Time until a second reading would do; zero when it would do now.
    now.left_of(streak.second_from(limits), limits.off_gap_watched)
}

/// What a reason does beside being told: for how long the BMC is left alone, and whether a person's word ended the record.
fn class(reason: ReasonCode) -> (Option<Duration>, bool) {
    (Episode::pause_after(reason, &Limits::PRODUCTION), reason == ReasonCode::PersonConfirmed)
}

fn canon_write(write: &Write, c: &mut impl Canon) {
    c.whole(std::mem::discriminant(write));
    match write {
        Write::Observed(seen) => {
            seen.iter().for_each(|o| c.of(&o.member, ("observed", o.seen == Seen::Away)));
        }
        Write::Intent(intent) => c.of(&intent.member, ("intent", c.record(intent.record))),
        Write::Permit(request) => c.whole(c.record(request.record())),
        Write::Adopt(record) | Write::ReadBack(record) => c.whole(c.record(*record)),
        Write::Final(last) => {
            c.whole((
                c.record(last.record),
                last.outcome,
                last.sent,
                last.proof.is_some(),
                class(last.reason),
            ));
        }
        Write::Proof(new) => c.of(&new.member, ("proof", new.incarnation)),
        Write::Withdraw(w) => c.of(&w.member, ("withdraw", w.incarnation)),
        Write::Refused(refusals) => refusals.iter().for_each(|r| c.of(&r.member, "refused")),
        Write::Checked(checks) => checks.iter().for_each(|k| c.of(&k.member, ("checked", k.found))),
        Write::RecoveryStarted { member, incarnation } => c.of(member, ("recovery", incarnation)),
    }
}

fn canon_line(Line { pending, outstanding, unsettled }: &Line, c: &mut impl Canon) {
    let Pending { record, observed, proofs, withdrawals, intent, checks, refusals } = pending;
    c.whole((*unsettled, outstanding.is_some(), record.is_some(), checks.len()));
    for write in outstanding.iter().map(|(_, write)| write).chain(record) {
        canon_write(write, c);
    }
    observed.iter().for_each(|(member, seen)| c.of(member, ("to observe", *seen == Seen::Away)));
    proofs.iter().for_each(|(member, new)| c.of(member, ("to prove", new.incarnation)));
    withdrawals.iter().for_each(|w| c.of(&w.member, ("to withdraw", w.incarnation)));
    refusals.iter().for_each(|r| c.of(&r.member, "to refuse"));
    if let Some((intent, _)) = intent {
        c.of(&intent.member, "to intend");
    }
}

fn canon_episode(
    episode: &Episode,
    look: Option<crate::name::Ticket>,
    now: Now,
    limits: &Limits,
    c: &mut impl Canon,
) {
    let Episode {
        record,
        member,
        incarnation,
        entry,
        map,
        adopted,
        dry_run,
        began: _,
        phase,
        unsure,
        talk,
        permit,
        given_up,
        posts,
        sent,
        may_have_sent,
        streak,
        off_seen,
        last,
        deadline,
        returned,
        evidence: _,
    } = episode;
    c.of(member, ("episode", c.record(*record), incarnation));
    c.whole((entry.is_some(), map.as_bytes(), adopted, dry_run, std::mem::discriminant(phase), unsure));
    match phase {
        Phase::Looking(after) => c.whole(look.is_some_and(|ticket| ticket > *after)),
        Phase::Resting(at) => c.whole(now.left(*at, limits.readback_slow)),
        Phase::Closing(last) => canon_write(&Write::Final(last.clone()), c),
        Phase::Intent | Phase::Adopt | Phase::Opening | Phase::Permit | Phase::Reading => {}
        Phase::Sending | Phase::Reopening => {}
    }
    let permit = permit.filter(|until| now.0 < *until).map(|until| now.left(until, limits.permit_valid));
    c.whole((talk.is_some(), permit, given_up.map(class), posts, may_have_sent, off_seen, returned));
    let sent =
        sent.map(|SendReport { began: _, ended, answer }| (answer, now.age(ended, limits.readback_fast_for)));
    let last = match last {
        Last::Nothing => None,
        Last::Power(power) => Some(Ok(*power)),
        Last::Trouble(reason) => Some(Err(class(*reason))),
    };
    c.whole((sent, last, canon_streak(streak, now, limits), now.left(*deadline, limits.readback_deadline)));
}

fn canon_latest(Latest { view, healing, stored, map, judged: _, judged_at: _ }: &Latest, c: &mut impl Canon) {
    c.whole((healing, map.sha().map(|sha| *sha.as_bytes())));
    for listed in view.iter().flat_map(ClusterView::members) {
        c.of(&listed.name, ("listed", listed.status == Status::Offline, listed.status.is_alive()));
    }
    for (member, row) in &stored.members {
        let MemberRow { incarnation, online, last_online: _, proof: _, held: _, distrusted: _, leases: _ } =
            row;
        let standing = row.standing_proof().map(|p| (p.kind, p.recovery_started));
        c.of(member, ("row", incarnation, online, standing));
    }
}

/// A hash of parts in which members can be exchanged: the parts of each member go into a hash of their own.
#[derive(Clone, Debug)]
pub struct Parts<H> {
    /// The parts about no member.
    pub whole: H,
    /// The parts about each member.
    pub members: Vec<(MemberName, H)>,
    /// The ids of the store's records, the oldest first.
    pub records: Vec<RecordId>,
}

impl<H: Hasher> Canon for Parts<H> {
    fn whole(&mut self, part: impl Hash) {
        part.hash(&mut self.whole);
    }

    fn of(&mut self, member: &MemberName, part: impl Hash) {
        if let Some((_, h)) = self.members.iter_mut().find(|(m, _)| m == member) {
            part.hash(h);
        }
    }

    fn record(&self, record: RecordId) -> u64 {
        self.records.iter().rev().position(|r| *r == record).map_or(u64::MAX, |p| p as u64)
    }
}

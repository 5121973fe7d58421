//! Every figure of the protocol, in one place, with the relations that make them safe.

use std::time::Duration;

use thiserror::Error;

/// The figures that decisions are made with.
///
/// [`Limits::PRODUCTION`] is what the product runs with; only `fence_after` and `pass_interval` can be configured. The
/// exhaustive check scales the same figures down to a few ticks and keeps their relations, see [`Limits::broken`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Time between two passes. A gap of more than two of them breaks every series.
    pub pass_interval: Duration,
    /// A pass that has not answered after this long is asked again.
    pub pass_deadline: Duration,
    /// How long a member must have been Offline without interruption (`APELORA_BMC_FENCE_AFTER_SECS`).
    pub fence_after: Duration,
    /// The least `fence_after` that may be configured.
    pub fence_after_min: Duration,
    /// Life of the leader lease in the database.
    pub lease_ttl: Duration,
    /// Time between two renewals of the lease.
    pub lease_renewal: Duration,
    /// Limit of one statement of a renewal.
    pub lease_statement: Duration,
    /// How long before the lease's end its holder stops acting, and how long a new leader waits first.
    pub lease_margin: Duration,
    /// How old the cluster view that justifies a send may be when the send starts.
    pub permit_valid: Duration,
    /// Total deadline of one power-off request.
    pub send_deadline: Duration,
    /// Total deadline for opening a conversation with a BMC.
    pub open_deadline: Duration,
    /// Total deadline of one reading of identity and power.
    pub read_deadline: Duration,
    /// How often one permit may be used: the second time only after a fresh reading of On.
    pub posts_per_permit: u8,
    /// Pause between readings directly after a send.
    pub readback_fast: Duration,
    /// How long after the send the fast pace lasts.
    pub readback_fast_for: Duration,
    /// Pause between readings afterwards.
    pub readback_slow: Duration,
    /// How long after the send (or the first reading, or the adoption) the last reading may start.
    pub readback_deadline: Duration,
    /// Least distance of two Off readings after a send.
    pub off_gap_sent: Duration,
    /// Least distance of two Off readings when nothing was sent.
    pub off_gap_unsent: Duration,
    /// Least distance of two Off readings when a member is only watched.
    pub off_gap_watched: Duration,
    /// Pause for a member after its BMC refused or did not answer.
    pub pause_refused: Duration,
    /// Pause for a member after its BMC rejected the credential.
    pub pause_credential: Duration,
    /// No second send to a member within this time unless it was seen Online in between.
    pub loop_guard: Duration,
    /// Pause between two readings of the idle drill.
    pub drill_pause: Duration,
    /// Every mapped BMC is read at least this often by the drill.
    pub drill_round: Duration,
    /// How often a watched member is read.
    pub watch_every: Duration,
    /// How many members are watched at once.
    pub watch_at_most: usize,
    /// A member that is Online while two readings this far apart say Off has a wrong mapping or a lying BMC. Longer
    /// than Incus takes to see a dead member, so that a real failure never distrusts a good mapping.
    pub distrust_after: Duration,
    /// A power-off proof older than this is read once more before the first restart builds on it.
    pub recheck_after: Duration,
    /// The same refusal of a member is audited again after this long.
    pub audit_again: Duration,
}

/// A configured figure that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// `APELORA_BMC_FENCE_AFTER_SECS` is below its minimum.
    #[error(
        "APELORA_BMC_FENCE_AFTER_SECS is {given}: at least {least} is needed, because the cluster itself needs that long to be sure; set {least} or more"
    )]
    FenceAfter {
        /// What was configured, in seconds.
        given: u64,
        /// The minimum, in seconds.
        least: u64,
    },
    /// `APELORA_PASS_INTERVAL_SECS` is outside 1 to 10.
    #[error("APELORA_PASS_INTERVAL_SECS is {given}: it must be 1 to 10; the default is 5")]
    PassInterval {
        /// What was configured, in seconds.
        given: u64,
    },
    /// The two together break a relation between the figures.
    #[error("APELORA_BMC_FENCE_AFTER_SECS and APELORA_PASS_INTERVAL_SECS together break the rule: {rule}")]
    Relation {
        /// The relation that does not hold.
        rule: &'static str,
    },
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Nanoseconds as a number that can be compared and added in a constant expression.
const fn n(d: Duration) -> u128 {
    d.as_nanos()
}

impl Limits {
    /// The figures of the design's table *Timing*.
    pub const PRODUCTION: Self = Self {
        pass_interval: secs(5),
        pass_deadline: secs(15),
        fence_after: secs(30),
        fence_after_min: secs(20),
        lease_ttl: secs(30),
        lease_renewal: secs(10),
        lease_statement: secs(3),
        lease_margin: secs(5),
        permit_valid: secs(5),
        send_deadline: secs(10),
        open_deadline: secs(20),
        read_deadline: secs(10),
        posts_per_permit: 2,
        readback_fast: Duration::from_millis(250),
        readback_fast_for: secs(2),
        readback_slow: secs(1),
        readback_deadline: secs(60),
        off_gap_sent: secs(1),
        off_gap_unsent: secs(10),
        off_gap_watched: secs(60),
        pause_refused: secs(30),
        pause_credential: secs(60),
        loop_guard: secs(600),
        drill_pause: secs(10),
        drill_round: secs(900),
        watch_every: secs(60),
        watch_at_most: 8,
        distrust_after: secs(120),
        recheck_after: secs(10),
        audit_again: secs(600),
    };

    /// Production limits with the two figures that can be configured, in whole seconds.
    ///
    /// # Errors
    /// Names the setting that is out of range and what it may be.
    pub fn configured(fence_after: u64, pass_interval: u64) -> Result<Self, LimitError> {
        let least = Self::PRODUCTION.fence_after_min.as_secs();
        if fence_after < least {
            return Err(LimitError::FenceAfter { given: fence_after, least });
        }
        if !(1..=10).contains(&pass_interval) {
            return Err(LimitError::PassInterval { given: pass_interval });
        }
        let limits =
            Self { fence_after: secs(fence_after), pass_interval: secs(pass_interval), ..Self::PRODUCTION };
        match limits.broken() {
            None => Ok(limits),
            Some(rule) => Err(LimitError::Relation { rule }),
        }
    }

    /// The longest distance of two passes that does not break a series.
    pub const fn pass_gap(&self) -> Duration {
        self.pass_interval.saturating_mul(2)
    }

    /// The lease time that must remain when a send starts.
    pub const fn lease_for_send(&self) -> Duration {
        self.send_deadline.saturating_add(self.lease_margin)
    }

    /// The first relation between the figures that does not hold, in words; `None` when all hold.
    pub const fn broken(&self) -> Option<&'static str> {
        // Each line: what must hold, and what would go wrong otherwise.
        let rules = [
            (n(self.pass_interval) > 0, "the pass interval is more than zero"),
            (
                n(self.fence_after_min) >= n(self.pass_gap()),
                "the least grace is two passes: one answer can never make a series",
            ),
            (n(self.pass_deadline) >= n(self.pass_interval), "a pass may take at least one interval"),
            (
                n(self.lease_renewal) + 2 * n(self.lease_statement) + n(self.lease_margin)
                    < n(self.lease_ttl),
                "one failed renewal of the lease is survived",
            ),
            (
                n(self.lease_ttl) - n(self.lease_margin)
                    >= n(self.lease_renewal) + n(self.send_deadline) + n(self.lease_margin),
                "a lease renewed in time always covers a send",
            ),
            (
                n(self.lease_ttl) - n(self.lease_margin)
                    >= n(self.permit_valid) + n(self.send_deadline) + n(self.lease_margin),
                "a lease renewed just now covers a whole permit and the send at its end",
            ),
            (n(self.permit_valid) < n(self.fence_after_min), "a permit is shorter than the grace"),
            (
                n(self.permit_valid) + n(self.send_deadline) < n(self.lease_ttl),
                "a send is over before a new leader can be elected",
            ),
            (
                n(self.loop_guard)
                    > n(self.lease_ttl)
                        + n(self.lease_margin)
                        + n(self.send_deadline)
                        + n(self.readback_deadline)
                        + 2 * n(self.pass_gap()),
                "a takeover finishes the record of a dead leader before the loop guard ends",
            ),
            (n(self.readback_fast) <= n(self.readback_slow), "the fast pace is the faster one"),
            (
                n(self.readback_slow) <= n(self.off_gap_sent),
                "an On between two Off readings would be seen at the slow pace",
            ),
            (
                n(self.off_gap_sent) <= n(self.off_gap_unsent)
                    && n(self.off_gap_unsent) <= n(self.off_gap_watched),
                "the less was done, the further apart the two Off readings",
            ),
            (
                n(self.readback_deadline) > n(self.off_gap_unsent) + n(self.readback_slow),
                "two Off readings fit into the read-back",
            ),
            (
                n(self.watch_every) >= n(self.off_gap_watched),
                "two readings of a watch are enough for a proof",
            ),
            (n(self.distrust_after) >= n(self.off_gap_watched), "distrust needs more than a watch"),
            (n(self.pause_refused) <= n(self.pause_credential), "a wrong password pauses longest"),
            (self.posts_per_permit >= 1 && self.posts_per_permit <= 2, "one request, at most one more"),
            (self.watch_at_most > 0, "at least one member can be watched"),
            (n(self.drill_pause) <= n(self.drill_round), "the drill's pause fits into its round"),
        ];
        let mut i = 0;
        while i < rules.len() {
            if !rules[i].0 {
                return Some(rules[i].1);
            }
            i += 1;
        }
        None
    }
}

const _: () = assert!(Limits::PRODUCTION.broken().is_none(), "the production limits break a rule");
const _: () = assert!(Limits::PRODUCTION.fence_after_min.as_secs() == 20, "the requirement text fixes 20 s");
const _: () =
    assert!(Limits::PRODUCTION.loop_guard.as_secs() == 600, "the requirement text fixes ten minutes");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_below_twenty_is_refused_and_twenty_is_not() {
        assert!(matches!(Limits::configured(19, 5), Err(LimitError::FenceAfter { given: 19, least: 20 })));
        assert_eq!(Limits::configured(20, 10).map(|l| l.fence_after), Ok(secs(20)));
    }

    #[test]
    fn pass_interval_is_one_to_ten() {
        for bad in [0, 11] {
            assert!(matches!(Limits::configured(30, bad), Err(LimitError::PassInterval { .. })), "{bad}");
        }
        for good in [1, 10] {
            assert!(Limits::configured(30, good).is_ok(), "{good}");
        }
    }

    #[test]
    fn the_table_of_the_design() {
        let l = Limits::PRODUCTION;
        assert_eq!(
            [l.pass_interval, l.fence_after, l.lease_ttl, l.lease_renewal, l.lease_margin, l.lease_statement],
            [5, 30, 30, 10, 5, 3].map(secs)
        );
        assert_eq!([l.permit_valid, l.send_deadline, l.readback_deadline], [5, 10, 60].map(secs));
        assert_eq!([l.off_gap_sent, l.off_gap_unsent, l.off_gap_watched], [1, 10, 60].map(secs));
        assert_eq!([l.readback_fast.as_millis(), l.readback_fast_for.as_millis()], [250, 2000]);
        assert_eq!([l.pause_refused, l.pause_credential, l.readback_slow], [30, 60, 1].map(secs));
        assert_eq!([l.drill_pause, l.drill_round, l.watch_every], [10, 900, 60].map(secs));
        assert_eq!((l.watch_at_most, l.posts_per_permit), (8, 2));
    }
}

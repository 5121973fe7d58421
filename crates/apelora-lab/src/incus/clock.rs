//! The time of a simulated cluster: wall-clock nanoseconds since the Unix epoch, moved by tokio's clock.

use std::time::Duration;

use time::OffsetDateTime;
use time::macros::format_description;
use tokio::time::Instant;

/// A point in time, in nanoseconds since the Unix epoch.
pub(super) type At = i64;

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const MILLISECOND: i64 = 1_000_000;

/// A length in nanoseconds.
pub(super) fn nanos(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// Where the wall clock stood when tokio's clock stood there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    wall: At,
}

impl Clock {
    pub(super) fn new(started: Instant, wall: Duration) -> Self {
        Self { started, wall: nanos(wall) }
    }

    /// When it was started.
    pub(super) fn start(&self) -> At {
        self.wall
    }

    pub(super) fn at(&self, instant: Instant) -> At {
        self.wall.saturating_add(nanos(instant.saturating_duration_since(self.started)))
    }

    pub(super) fn instant(&self, at: At) -> Instant {
        let after = u64::try_from(at.saturating_sub(self.wall)).unwrap_or(0);
        self.started + Duration::from_nanos(after)
    }
}

fn date(at: At) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(at.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// As Incus writes times in JSON: RFC 3339 with nine digits.
pub(super) fn rfc3339(at: At) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:9]Z");
    date(at).format(form).unwrap_or_default()
}

/// As Go prints a time.
pub(super) fn go_time(at: At) -> String {
    let form =
        format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:9] +0000 UTC");
    date(at).format(form).unwrap_or_default()
}

/// As Go prints a duration: `39.782644253s`, `1m3.8s`.
pub(super) fn go_duration(length: i64) -> String {
    let (hours, minutes) = (length / (3600 * SECOND), length / (60 * SECOND) % 60);
    let (seconds, fraction) = (length / SECOND % 60, length % SECOND);
    let fraction = match format!("{fraction:09}").trim_end_matches('0') {
        "" => String::new(),
        digits => format!(".{digits}"),
    };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{SECOND, go_duration, go_time, rfc3339};

    #[test]
    fn times_look_as_recorded() {
        assert_eq!(go_duration(39_782_644_253), "39.782644253s");
        assert_eq!(go_duration(63 * SECOND + 800_000_000), "1m3.8s");
        assert_eq!(go_duration(3600 * SECOND), "1h0m0s");
        let at = 1_796_000_445_068_381_156;
        assert_eq!(go_time(at), "2026-11-30 01:00:45.068381156 +0000 UTC");
        assert_eq!(rfc3339(at), "2026-11-30T01:00:45.068381156Z");
    }
}

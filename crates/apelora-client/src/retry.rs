//! When a refused request is sent again.

use std::time::Duration;

/// How often and for how long a request is tried again that the server has refused for the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often at most a request is sent, the first time included.
    pub tries: u32,
    /// The pause before the next try; a longer one when the server asks for it.
    pub pause: Duration,
    /// No try begins later than this after the first one.
    pub within: Duration,
}

impl Default for Retry {
    /// Five tries two seconds apart, within fifteen seconds.
    fn default() -> Self {
        Self { tries: 5, pause: Duration::from_secs(2), within: Duration::from_secs(15) }
    }
}

impl Retry {
    /// How long to wait before the next try; `None` when there is none. `made` tries have been made, the first `since` ago,
    /// and the server asks for a pause of `asked`.
    pub(crate) fn next(&self, made: u32, since: Duration, asked: Option<Duration>) -> Option<Duration> {
        let pause = asked.map_or(self.pause, |asked| asked.max(self.pause));
        let in_time = since.checked_add(pause).is_some_and(|at| at <= self.within);
        (made < self.tries && in_time).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_bounded_in_number_and_in_time() {
        let retry = Retry::default();
        let seconds = Duration::from_secs;
        assert_eq!(retry.next(1, seconds(0), None), Some(seconds(2)));
        assert_eq!(retry.next(4, seconds(13), None), Some(seconds(2)));
        assert_eq!(retry.next(5, seconds(8), None), None);
        assert_eq!(retry.next(1, seconds(14), None), None);
        assert_eq!(retry.next(1, seconds(0), Some(seconds(5))), Some(seconds(5)));
        assert_eq!(retry.next(1, seconds(0), Some(seconds(1))), Some(seconds(2)));
        assert_eq!(retry.next(1, seconds(0), Some(seconds(16))), None);
        assert_eq!(retry.next(1, seconds(0), Some(Duration::MAX)), None);
    }
}

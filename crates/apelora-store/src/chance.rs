//! The little randomness that the store needs: who holds the lock of an upgrade, and how long to wait before a
//! transaction is run again. Nothing secret and nothing that is kept depends on it.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

fn number() -> u64 {
    RandomState::new().hash_one(())
}

/// An id of a process that nobody else has.
pub(crate) fn id() -> String {
    format!("{:016x}{:016x}", number(), number())
}

/// The pause before try number `tries`, from 1: half of it fixed, half of it random, so that two that collided do not
/// collide again.
pub(crate) fn pause(tries: u32) -> Duration {
    let longest = (5_u64 << tries.min(6)).max(2);
    Duration::from_millis(longest / 2 + number() % (longest / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_bounded() {
        for tries in 0..100 {
            let pause = pause(tries);
            assert!(pause >= Duration::from_millis(2) && pause <= Duration::from_millis(320), "{pause:?}");
        }
        assert_ne!(id(), id());
    }
}

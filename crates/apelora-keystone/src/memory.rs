//! What is known about tokens, and which are being asked for. One lock over both, so that each token is asked for once.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::Lapsed;
use crate::token::TokenDigest;
use crate::{Identity, Invalid, Limits, Refusal, Trouble};

/// A token, and whether it may have expired: two questions with two answers.
pub(crate) type Key = (TokenDigest, Lapsed);

/// The answer to a question.
pub(crate) type Outcome = Result<Arc<Identity>, Refusal>;

/// Where the answer of a running question will be.
pub(crate) type Awaited = watch::Receiver<Option<Outcome>>;

pub(crate) struct Memory {
    limits: Limits,
    valid: LruCache<Key, (Arc<Identity>, Instant)>,
    /// Apart from the valid ones, so that a flood of garbage drives out garbage only.
    unknown: LruCache<Key, Instant>,
    asking: HashMap<Key, Awaited>,
}

/// What to do about a token.
pub(crate) enum Course {
    /// It is decided.
    Decided(Outcome),
    /// Somebody asks already.
    Wait(Awaited),
    /// Ask, and give the answer to [`Memory::land`] and to the sender.
    Ask(watch::Sender<Option<Outcome>>, Awaited),
}

impl Memory {
    pub(crate) fn new(limits: Limits) -> Self {
        let entries = |n: usize| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
        Self {
            limits,
            valid: LruCache::new(entries(limits.cache_entries)),
            unknown: LruCache::new(entries(limits.refusal_cache_entries)),
            asking: HashMap::new(),
        }
    }

    /// `now` is the wall clock.
    pub(crate) fn course(&mut self, key: Key, now: OffsetDateTime) -> Course {
        if let Some(outcome) = self.remembered(key, now) {
            return Course::Decided(outcome);
        }
        if let Some(awaited) = self.asking.get(&key) {
            return Course::Wait(awaited.clone());
        }
        if self.asking.len() >= self.limits.waiting {
            return Course::Decided(Err(Refusal::unavailable(Trouble::Overloaded)));
        }
        let (sender, awaited) = watch::channel(None);
        self.asking.insert(key, awaited.clone());
        Course::Ask(sender, awaited)
    }

    fn remembered(&mut self, key: Key, now: OffsetDateTime) -> Option<Outcome> {
        let at = Instant::now();
        let (digest, lapsed) = key;
        // A token that counts as long as it has not expired also counts when it may have.
        let strict = (digest, Lapsed::Refused);
        for key in if lapsed == Lapsed::Accepted { vec![strict, key] } else { vec![key] } {
            match self.valid.get(&key) {
                Some((identity, until)) if at < *until => {
                    if key.1 == Lapsed::Accepted || now < identity.expires_at {
                        return Some(Ok(Arc::clone(identity)));
                    }
                    if lapsed == Lapsed::Refused {
                        return Some(Err(Refusal::Invalid(Invalid::Expired)));
                    }
                }
                Some(_) => drop(self.valid.pop(&key)),
                None => {}
            }
        }
        match self.unknown.get(&key) {
            Some(until) if at < *until => Some(Err(Refusal::Invalid(Invalid::Unknown))),
            Some(_) => {
                self.unknown.pop(&key);
                None
            }
            None => None,
        }
    }

    /// Ends a question that began at `start`, and keeps what may be kept: Keystone's own yes and no, nothing else.
    pub(crate) fn land(&mut self, key: Key, outcome: &Outcome, start: Instant) {
        self.asking.remove(&key);
        match outcome {
            Ok(identity) if !self.limits.cache.is_zero() => {
                self.valid.put(key, (Arc::clone(identity), start + self.limits.cache));
            }
            Err(Refusal::Invalid(Invalid::Unknown)) if !self.limits.refusal_cache.is_zero() => {
                self.unknown.put(key, start + self.limits.refusal_cache);
            }
            _ => {}
        }
    }
}

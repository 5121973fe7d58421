//! Restarts that may not go on for long: told once, because a person may have to do something.

use std::collections::BTreeMap;
use std::time::Duration;

use apelora_fencing::BootTime;

use super::ledger::Life;
use super::seen::Seen;
use super::with::With;
use crate::notice::Notice;

/// After this long it is told.
const LONG: Duration = Duration::from_secs(60);

/// Since when the restarts of a life may not go on, and whether that was told.
#[derive(Default)]
pub(super) struct Held(BTreeMap<Life, (BootTime, bool)>);

impl Held {
    /// Looks after a pass.
    pub(super) fn look(&mut self, with: &With, seen: &Seen) {
        let mut waiting: BTreeMap<Life, usize> = BTreeMap::new();
        for row in with.ledger.open() {
            if !seen.ready.contains(&row.member) && !seen.is_over(&row.member, row.incarnation) {
                *waiting.entry((row.member, row.incarnation)).or_default() += 1;
            }
        }
        self.0.retain(|life, _| waiting.contains_key(life));
        for (life, instances) in waiting {
            let (since, told) = self.0.entry(life.clone()).or_insert((seen.at, false));
            if !*told && seen.at.since(*since) >= LONG {
                *told = true;
                let why = seen.held_by(&life.0, with.outside.config.dry_run);
                with.outside.notices.tell(Notice::RecoveryWaits { member: life.0, instances, why });
            }
        }
    }
}

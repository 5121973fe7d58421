//! Members that are back: what runs elsewhere since may run there still. Told, and never acted on.

use std::collections::BTreeMap;
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_fencing::recovery::Step;
use tokio::time::Instant;

use super::ledger::Life;
use super::seen::{Back, Seen};
use super::with::With;
use crate::notice::Notice;

/// What asking a member may take.
const LIMIT: Duration = Duration::from_secs(5);
/// So often it is asked before its silence is told.
const TRIES: u32 = 3;

/// Whom was looked at already, and how often.
#[derive(Default)]
pub(super) struct Returns(BTreeMap<Life, u32>);

impl Returns {
    /// Compares how long each of them has been up with how long ago it was said to be off.
    pub(super) async fn look(&mut self, with: &With, seen: &Seen) {
        self.0.retain(|(member, incarnation), _| {
            seen.back.get(member).is_some_and(|back| back.incarnation == *incarnation)
        });
        for (member, back) in &seen.back {
            let life = (member.clone(), back.incarnation);
            let tries = self.0.get(&life).copied().unwrap_or_default();
            if tries >= TRIES {
                continue;
            }
            let elsewhere: Vec<_> = with
                .ledger
                .of(&life)
                .into_iter()
                .filter(|row| row.step == Step::Done)
                .map(|row| format!("{}/{}", row.project, row.instance))
                .collect();
            if elsewhere.is_empty() {
                // Nothing runs elsewhere.
                continue;
            }
            let because = match uptime(with, member).await {
                Some(uptime) => {
                    self.0.insert(life, TRIES);
                    let Some(because) = compare(uptime, back, with) else { continue };
                    because
                }
                None => {
                    self.0.insert(life, tries + 1);
                    if tries + 1 < TRIES {
                        continue;
                    }
                    "it does not say whether it was restarted meanwhile".to_owned()
                }
            };
            with.outside.notices.tell(Notice::MayRunTwice {
                member: member.clone(),
                instances: elsewhere,
                because,
            });
        }
    }
}

async fn uptime(with: &With, member: &MemberName) -> Option<Duration> {
    let client = with.outside.cluster.client()?;
    let state = client.member_state(member.as_str(), Instant::now() + LIMIT).await.ok()?;
    u64::try_from(state.uptime).ok().map(Duration::from_secs)
}

fn compare(uptime: Duration, back: &Back, with: &With) -> Option<String> {
    still_up(uptime, with.outside.clock.boot().since(back.proven_at))
}

/// Why it may run everything still, if it was not restarted since it was said to be off.
fn still_up(uptime: Duration, proven: Duration) -> Option<String> {
    (uptime >= proven).then(|| {
        format!(
            "it has been up for {} s, longer than it was said to be off ({} s ago)",
            uptime.as_secs(),
            proven.as_secs()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_restarted_since_runs_nothing_of_before() {
        let secs = Duration::from_secs;
        assert_eq!(still_up(secs(20), secs(300)), None);
        assert!(still_up(secs(9_000), secs(300)).is_some_and(|why| why.contains("9000 s")));
        assert!(still_up(secs(300), secs(300)).is_some(), "the worse of two");
    }
}

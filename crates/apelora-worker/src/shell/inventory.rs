//! What runs where, kept while it can still be asked: Incus forgets an instance's configuration when its member is gone
//! (tests/data/incus/README.md section 0, fact 5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_fencing::restart::Instance;
use apelora_fencing::view::{ClusterView, Status};
use apelora_fencing::write::CommitError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::answer::{Answer, Answers};
use super::database::Term;
use super::outside::Outside;
use crate::notice::Notice;
use crate::observe;

/// What the list may take: it asks every member.
const LIMIT: Duration = Duration::from_secs(35);
/// A change of the members is waited out for this long, so that a member that just came back is asked once it is up.
const SETTLE: Duration = Duration::from_secs(5);
/// So many readings in a row fail before it is told: one fails whenever a member dies.
const FAILURES: u32 = 3;
/// How long storing one member's instances may take.
const NOTE_LIMIT: Duration = Duration::from_secs(10);

/// The loop's end.
pub(super) struct Keeper {
    online: watch::Sender<BTreeSet<MemberName>>,
}

impl Keeper {
    /// A member list was read.
    pub(super) fn seen(&self, view: &ClusterView) {
        let online: BTreeSet<_> =
            view.members().iter().filter(|l| l.status == Status::Online).map(|l| l.name.clone()).collect();
        self.online.send_if_modified(|before| {
            let changed = *before != online;
            *before = online;
            changed
        });
    }
}

/// The loop's end and the task.
pub(super) fn pair(
    outside: Arc<Outside>,
    term: Arc<Term>,
    answers: Answers,
) -> (Keeper, impl Future<Output = ()> + Send) {
    let (online, seen) = watch::channel(BTreeSet::new());
    (Keeper { online }, keep(outside, term, seen, answers))
}

async fn keep(
    outside: Arc<Outside>,
    term: Arc<Term>,
    mut seen: watch::Receiver<BTreeSet<MemberName>>,
    answers: Answers,
) {
    let mut stored: BTreeMap<MemberName, Vec<Instance>> = BTreeMap::new();
    let mut failures = 0;
    let mut first = true;
    loop {
        tokio::select! {
            () = sleep(outside.config.pace.inventory) => {}
            changed = seen.changed() => match changed {
                // The first list is no change: a member that is lost in the next seconds is to have been asked.
                Ok(()) if std::mem::take(&mut first) => {}
                Ok(()) => sleep(SETTLE).await,
                Err(_) => return,
            },
        }
        let before = seen.borrow_and_update().clone();
        let running = timeout(LIMIT + SETTLE, outside.cluster.running(Instant::now() + LIMIT)).await;
        let running = match running.unwrap_or_else(|_| Err("it took too long".into())) {
            Ok(running) => running,
            Err(problem) => {
                debug!(problem, "what runs where could not be read");
                failures += 1;
                if failures == FAILURES {
                    outside.notices.tell(Notice::InstancesUnreadable { problem });
                }
                continue;
            }
        };
        // Healthy before and after the list was read.
        let online: BTreeSet<_> = seen.borrow().intersection(&before).cloned().collect();
        let read = observe::inventory(&running.instances, &online, &running.shared);
        match online.iter().find(|member| !read.contains_key(*member)) {
            // It may have gone that moment, or one instance that hangs keeps it from telling of all.
            Some(blind) => {
                failures += 1;
                if failures == FAILURES {
                    let problem = format!(
                        "{blind} is Online and does not tell what it runs, as when an instance hangs there"
                    );
                    outside.notices.tell(Notice::InstancesUnreadable { problem });
                }
            }
            None if std::mem::take(&mut failures) >= FAILURES => {
                outside.notices.tell(Notice::InstancesReadable);
            }
            None => {}
        }
        for (member, instances) in read {
            if stored.get(&member) == Some(&instances) {
                continue;
            }
            let noted = timeout(NOTE_LIMIT, term.note_inventory(&member, &instances)).await;
            match noted.unwrap_or(Err(CommitError::Unknown)) {
                Ok(()) => drop(stored.insert(member, instances)),
                Err(CommitError::Deposed) => return answers.send(Answer::Lost),
                Err(failure) => warn!(%member, ?failure, "what runs there could not be stored"),
            }
        }
    }
}

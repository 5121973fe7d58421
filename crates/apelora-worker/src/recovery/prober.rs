//! Whether a member that is proven off answers at its own address.
//!
//! A member that boots answers, and starts its instances a second later, while the others still list it as Offline: until the
//! next round of heartbeats, 3 s after it was measured and up to 10 s with the default threshold. Whatever is moved and
//! started elsewhere in that time runs twice. So its own address is asked directly before each move and each start; that
//! nobody answers there proves nothing and is not used as such.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use apelora_fencing::{BootTime, Clock, MemberName};
use tokio::sync::Mutex;

use crate::shell::Cluster;

/// Those who ask within this time share one answer.
const SHARED: Duration = Duration::from_millis(500);

/// What is known of one member.
#[derive(Default)]
struct Known {
    /// When it was last asked, and whether it answered.
    asked: Option<(BootTime, bool)>,
    /// Whether it was ever silent.
    was_silent: bool,
}

/// Asks.
#[derive(Default)]
pub(super) struct Prober(Lock<BTreeMap<MemberName, Arc<Mutex<Known>>>>);

impl Prober {
    /// Whether a member is back. With `by_word`, where only a person said that it is off, it must have been silent before: a
    /// person's word wins over a daemon that answered all the while.
    pub(super) async fn is_back(
        &self,
        cluster: &Cluster,
        clock: &dyn Clock,
        member: &MemberName,
        by_word: bool,
    ) -> bool {
        let known = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(member.clone()).or_default())
        };
        let came = clock.boot();
        let mut known = known.lock().await;
        let answers = match known.asked {
            // While one waited, it was asked for somebody else.
            Some((at, answered)) if at >= came || clock.boot().since(at) < SHARED => answered,
            _ => {
                let at = clock.boot();
                let answered = cluster.answers(member).await;
                known.asked = Some((at, answered));
                known.was_silent |= !answered;
                answered
            }
        };
        answers && (known.was_silent || !by_word)
    }
}

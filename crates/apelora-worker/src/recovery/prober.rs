//! Whether a member that is proven off answers at its own address, or has done so since.
//!
//! A member that boots answers, and starts its instances a second later, while the others still list it as Offline: until the
//! next round of heartbeats, 3 s after it was measured and up to 10 s with the default threshold. Whatever is moved and
//! started elsewhere in that time runs twice. So its own address is asked directly before each move and each start; that
//! nobody answers there proves nothing and is not used as such.
//!
//! Once it has answered it may run whatever was not moved by then, also when it falls silent again before the others list it
//! as Online. Then nothing goes on until they do, which begins a new life, or a person says after that that it is off.
//!
//! A person's word always wins (PROOF-PERSON-WINS), also over a daemon that answers all the while; not over a server that fell
//! silent after the word and is back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use apelora_fencing::record::ProofKind;
use apelora_fencing::{BootTime, Clock, Incarnation, MemberName};
use tokio::sync::Mutex;

use super::seen::Off;
use crate::shell::Cluster;

/// Those who ask within this time share one answer.
const SHARED: Duration = Duration::from_millis(500);
/// Who answers this soon after a person's word answered when it was given.
const AT_ONCE: Duration = Duration::from_secs(60);
/// When a person's word was given is read anew with each pass, and is the same within this.
const SAME: Duration = Duration::from_secs(2);

/// What is known of one member since it was proven off.
#[derive(Default)]
struct Known {
    life: Incarnation,
    /// When it was last asked, and whether it answered.
    asked: Option<(BootTime, bool)>,
    /// When it was last seen alive.
    alive: Option<BootTime>,
    /// When a person's word was given, and whether it has answered ever since.
    word: Option<(BootTime, bool)>,
}

impl Known {
    fn of(&mut self, life: Incarnation) -> &mut Self {
        if self.life != life {
            *self = Self { life, ..Self::default() };
        }
        self
    }

    /// Whether a person's word stands against its answers: it has answered ever since that was given.
    fn is_overruled(&mut self, now: BootTime, off: &Off, answers: bool) -> bool {
        if off.kind != ProofKind::Person {
            return false;
        }
        let given = off.proven_at;
        let is_same = |at: BootTime| at.since(given) <= SAME && given.since(at) <= SAME;
        let so_far = match self.word {
            Some((at, so_far)) if is_same(at) => so_far,
            _ => now.since(given) <= AT_ONCE,
        };
        let word = self.word.insert((given, so_far && answers));
        word.1
    }
}

/// What its own address says of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Nobody answers, and nobody has since it was proven off; or a person knows better.
    Silent,
    /// It answers.
    Answers,
    /// It was seen alive after it was proven off, and is silent now.
    WasAlive,
}

/// Asks.
#[derive(Default)]
pub(super) struct Prober(Lock<BTreeMap<MemberName, Arc<Mutex<Known>>>>);

impl Prober {
    fn known(&self, member: &MemberName) -> Arc<Mutex<Known>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(member.clone()).or_default())
    }

    /// Asks a member that is proven off.
    pub(super) async fn ask(
        &self,
        cluster: &Cluster,
        clock: &dyn Clock,
        member: &MemberName,
        off: &Off,
    ) -> Sign {
        let known = self.known(member);
        let came = clock.boot();
        let mut known = known.lock().await;
        let known = known.of(off.incarnation);
        let answers = match known.asked {
            // While one waited, it was asked for somebody else.
            Some((at, answered)) if at >= came || clock.boot().since(at) < SHARED => answered,
            _ => {
                let at = clock.boot();
                let answered = cluster.answers(member).await;
                known.asked = Some((at, answered));
                answered
            }
        };
        if known.is_overruled(came, off, answers) {
            return Sign::Silent;
        }
        if answers {
            known.alive = Some(clock.boot());
            return Sign::Answers;
        }
        match known.alive {
            Some(alive) if off.kind != ProofKind::Person || off.proven_at <= alive => Sign::WasAlive,
            _ => Sign::Silent,
        }
    }

    /// It was seen alive in another way.
    pub(super) async fn saw_alive(&self, member: &MemberName, life: Incarnation, at: BootTime) {
        self.known(member).lock().await.of(life).alive = Some(at);
    }
}

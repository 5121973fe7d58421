//! What the loop knows after a pass.

use std::collections::{BTreeMap, BTreeSet};

use apelora_fencing::record::{Persisted, ProofKind};
use apelora_fencing::view::{ClusterView, Healing, Status};
use apelora_fencing::{BootTime, Incarnation, MemberName, Supervisor};

/// After one pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// When.
    pub(super) at: BootTime,
    /// The member list, unless it could not be read.
    pub(super) view: Option<ClusterView>,
    /// The cluster's own healing.
    pub(super) healing: Option<Healing>,
    /// Members that are proven off.
    pub(super) fenced: BTreeMap<MemberName, Off>,
    /// Those of them whose restarts may begin or go on.
    pub(super) ready: BTreeSet<MemberName>,
    /// The present life of every stored member.
    pub(super) lives: BTreeMap<MemberName, Incarnation>,
    /// Members that are Online and were proven off before, by something else than their power.
    pub(super) back: BTreeMap<MemberName, Back>,
}

/// A proof that stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Off {
    /// The life that ended.
    pub(super) incarnation: Incarnation,
    /// By what.
    pub(super) kind: ProofKind,
    /// Since when.
    pub(super) proven_at: BootTime,
    /// Whether the database knows that a restart built on it.
    pub(super) started: bool,
}

/// A proof that stood.
#[derive(Clone, Copy, Debug)]
pub(super) struct Back {
    /// The life that it ended.
    pub(super) incarnation: Incarnation,
    /// Since when.
    pub(super) proven_at: BootTime,
}

impl Seen {
    /// From what was judged.
    pub(super) fn new(
        at: BootTime,
        supervisor: &Supervisor,
        view: Option<&ClusterView>,
        stored: &Persisted,
    ) -> Self {
        let mut seen = Self { at, view: view.cloned(), ..Self::default() };
        seen.healing = supervisor.world().map(|world| world.view.healing);
        for (member, row) in &stored.members {
            seen.lives.insert(member.clone(), row.incarnation);
            let Some(proof) = &row.proof else { continue };
            let proven_at = at.earlier(proof.age);
            if row.is_fenced() {
                let (incarnation, kind, started) = (row.incarnation, proof.kind, proof.recovery_started);
                seen.fenced.insert(member.clone(), Off { incarnation, kind, proven_at, started });
                if supervisor.may_recover(at, member) {
                    seen.ready.insert(member.clone());
                }
            } else if row.online && proof.incarnation < row.incarnation && proof.kind != ProofKind::PowerOff {
                seen.back.insert(member.clone(), Back { incarnation: proof.incarnation, proven_at });
            }
        }
        seen
    }

    /// What keeps the restarts of what a member ran that is proven off, as a clause with what to do.
    pub(super) fn held_by(&self, member: &MemberName, dry_run: bool) -> String {
        let Some(view) = self.view.as_ref() else { return "the member list cannot be read".to_owned() };
        if dry_run {
            return "this worker runs with --dry-run and carries nothing out".to_owned();
        }
        match (view.status(member), self.healing) {
            (None, _) => format!(
                "the cluster does not list {member} any more, so that nobody can see whether it comes back; once that is \
                 impossible, start by hand what was moved and does not run"
            ),
            (Some(status), _) if status.is_alive() => {
                format!("the cluster reports {member} as {}", status.as_str())
            }
            (Some(status), _) if *status != Status::Offline => {
                let word = status.as_str().escape_debug();
                format!("the cluster reports {member} as {word}, which says neither that it is dead nor that it is alive")
            }
            (_, Some(Healing::On)) => {
                "the cluster's own healing is on; switch it off with `incus config set cluster.healing_threshold=0`"
                    .to_owned()
            }
            (_, Some(Healing::Unknown)) => {
                "whether the cluster's own healing is off cannot be read; attest it by APELORA_INCUS_HEALING_OFF=1"
                    .to_owned()
            }
            _ => format!("its proof has to be read once more; `apelora member show {member}` tells how that goes"),
        }
    }

    /// Whether a life is known to be over in the sense that nothing may be restarted for it any more.
    pub(super) fn is_over(&self, member: &MemberName, incarnation: Incarnation) -> bool {
        let stands = self.fenced.get(member).is_some_and(|off| off.incarnation == incarnation);
        self.lives.contains_key(member) && !stands
    }
}

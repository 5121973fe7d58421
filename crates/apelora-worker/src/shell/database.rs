//! The database, as the shell reaches it: the rows of a pass, and the one leadership under which everything is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use apelora_fencing::proof::{PermitRequest, SendPermit};
use apelora_fencing::record::Persisted;
use apelora_fencing::recovery::RecoveryRow;
use apelora_fencing::restart::Instance;
use apelora_fencing::write::{AuditRow, CommitError, Committed, Write};
use apelora_fencing::{BootTime, Clock, Epoch, HolderId, MemberName};
use apelora_store::{Leader, LeaderConfig, NodeColumn, NodeKey, Store};
use tracing::warn;

/// Where rows are read and leadership is won.
pub(crate) enum Database {
    /// The database.
    Store(Box<(Store, LeaderConfig)>),
    #[cfg(test)]
    Scripted(Arc<super::scripted::Base>),
}

/// A leadership: the right to write.
pub(crate) enum Term {
    Leader(Box<Leader>),
    #[cfg(test)]
    Scripted(super::scripted::Term),
}

/// What came of a write, and the audit rows that were written.
pub(crate) type Written<T> = (Result<T, CommitError>, Vec<AuditRow>);

impl Database {
    /// Takes the lease, if nobody holds it. The text of an error is for people.
    pub(super) async fn campaign(&self, me: HolderId, clock: Arc<dyn Clock>) -> Result<Option<Term>, String> {
        match self {
            Self::Store(both) => {
                let (store, config) = &**both;
                let won = store.campaign(config, me, clock).await;
                won.map(|leader| leader.map(|leader| Term::Leader(Box::new(leader))))
                    .map_err(|failure| failure.to_string())
            }
            #[cfg(test)]
            Self::Scripted(base) => base.campaign(me, clock).await.map(|term| term.map(Term::Scripted)),
        }
    }

    /// Everything that a pass reads, as of one moment.
    pub(super) async fn persisted(&self) -> Result<Persisted, String> {
        match self {
            Self::Store(both) => both.0.persisted(&both.1).await.map_err(|failure| failure.to_string()),
            #[cfg(test)]
            Self::Scripted(base) => base.persisted().await,
        }
    }

    /// The restarts of all members, the oldest first.
    pub(crate) async fn recoveries(&self) -> Result<Vec<RecoveryRow>, String> {
        match self {
            Self::Store(both) => {
                let stored = both.0.recoveries(None).await.map_err(|failure| failure.to_string())?;
                Ok(stored.into_iter().map(|stored| stored.row).collect())
            }
            #[cfg(test)]
            Self::Scripted(base) => base.recoveries().await,
        }
    }

    /// The instances of all members, each as it was when its member was last healthy.
    pub(crate) async fn inventory(&self) -> Result<Vec<Instance>, String> {
        match self {
            Self::Store(both) => {
                let stored = both.0.inventory().await.map_err(|failure| failure.to_string())?;
                Ok(stored.into_iter().map(|stored| stored.instance).collect())
            }
            #[cfg(test)]
            Self::Scripted(base) => base.inventory().await,
        }
    }

    /// Those of these members whose nodes are in maintenance, for whatever reason. A member without a node is not.
    pub(crate) async fn in_maintenance(
        &self,
        members: &BTreeSet<MemberName>,
    ) -> Result<BTreeSet<MemberName>, String> {
        match self {
            Self::Store(both) => {
                let mut found = BTreeSet::new();
                for member in members {
                    let key = NodeKey::Name(member.as_str().to_owned());
                    let node = both.0.node(&key, &[NodeColumn::Maintenance]).await;
                    let node = node.map_err(|failure| failure.to_string())?;
                    if node.and_then(|node| node.bool(NodeColumn::Maintenance)) == Some(true) {
                        found.insert(member.clone());
                    }
                }
                Ok(found)
            }
            #[cfg(test)]
            Self::Scripted(base) => base.in_maintenance(members).await,
        }
    }
}

impl Term {
    pub(super) fn epoch(&self) -> Epoch {
        match self {
            Self::Leader(leader) => leader.epoch(),
            #[cfg(test)]
            Self::Scripted(term) => term.epoch(),
        }
    }

    /// The local deadline, on the clock that was given to the campaign.
    pub(super) fn deadline(&self) -> BootTime {
        match self {
            Self::Leader(leader) => leader.deadline(),
            #[cfg(test)]
            Self::Scripted(term) => term.deadline(),
        }
    }

    /// Makes one write.
    pub(crate) async fn commit(&self, write: Write) -> Written<Committed> {
        match self {
            Self::Leader(leader) => {
                let done = leader.commit(write).await;
                for warning in done.warnings {
                    warn!("{warning}");
                }
                (done.result, done.audit)
            }
            #[cfg(test)]
            Self::Scripted(term) => term.commit(write).await,
        }
    }

    /// Makes the permit's write.
    pub(super) async fn permit(&self, request: PermitRequest) -> Written<SendPermit> {
        match self {
            Self::Leader(leader) => leader.permit(request).await,
            #[cfg(test)]
            Self::Scripted(term) => term.permit(request).await,
        }
    }

    /// Renews the lease; the new local deadline.
    pub(super) async fn renew(&self) -> Result<BootTime, CommitError> {
        match self {
            Self::Leader(leader) => leader.renew().await,
            #[cfg(test)]
            Self::Scripted(term) => term.renew().await,
        }
    }

    /// Publishes the status document.
    pub(super) async fn publish(&self, status: &str) -> Result<(), CommitError> {
        match self {
            Self::Leader(leader) => {
                for warning in leader.publish(status).await? {
                    warn!("{warning}");
                }
                Ok(())
            }
            #[cfg(test)]
            Self::Scripted(term) => term.publish(status).await,
        }
    }

    /// Stores what runs on a healthy member, in place of what was stored of it.
    pub(super) async fn note_inventory(
        &self,
        member: &MemberName,
        instances: &[Instance],
    ) -> Result<(), CommitError> {
        match self {
            Self::Leader(leader) => leader.note_inventory(member, instances).await,
            #[cfg(test)]
            Self::Scripted(term) => term.note_inventory(member, instances).await,
        }
    }

    /// Stores how far a restart is.
    pub(crate) async fn note_recovery(&self, row: &RecoveryRow) -> Result<(), CommitError> {
        match self {
            Self::Leader(leader) => leader.note_recovery(row).await,
            #[cfg(test)]
            Self::Scripted(term) => term.note_recovery(row).await,
        }
    }

    /// Gives the lease back, if it is still held.
    pub(super) async fn resign(&self) {
        match self {
            Self::Leader(leader) => leader.resign().await,
            #[cfg(test)]
            Self::Scripted(term) => term.resign().await,
        }
    }
}

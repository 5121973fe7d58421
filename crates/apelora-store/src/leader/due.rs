//! The leader's writes beside the machine's: the status document, what runs where, restarts, giving the lease back, and
//! `fault` entries that had to wait.

use std::collections::BTreeSet;

use apelora_fencing::name::{Epoch, HolderId, MemberName};
use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::restart::Instance;
use apelora_fencing::write::{CommitError, Outcome};
use serde_json::json;
use tokio::time::Instant;

use super::audit::{About, Author};
use super::member::{self, FaultState, Member};
use super::node::{self, Todo};
use super::tx::{Fenced, Stop};
use super::work::{Mint, Work};
use super::{Leader, Warning, lease, recovery, told};
use crate::table::{audit, change};

/// Reaching the end of a restart.
const RECOVERED: &str = "cluster.member.recovered";

/// The status document; the members whose nodes wait.
pub(super) struct Publish<'a> {
    pub(super) document: &'a str,
    pub(super) by: (Epoch, HolderId),
}

impl Work for Publish<'_> {
    type Out = Vec<MemberName>;

    async fn run(&self, tx: &mut Fenced, _mint: &mut Mint) -> Result<Self::Out, Stop> {
        told::publish(tx, self.by, self.document).await?;
        Ok(member::with_fault_due(tx.conn(), node::TRIED_AGAIN).await?)
    }
}

/// What runs on a member.
pub(super) struct Inventory<'a> {
    pub(super) member: &'a MemberName,
    pub(super) instances: &'a [Instance],
}

impl Work for Inventory<'_> {
    type Out = ();

    async fn run(&self, tx: &mut Fenced, _mint: &mut Mint) -> Result<(), Stop> {
        Ok(recovery::note_inventory(tx, self.member, self.instances).await?)
    }
}

/// How far a restart is.
pub(super) struct Recovery<'a> {
    pub(super) row: &'a RecoveryRow,
    pub(super) author: &'a Author,
}

impl Work for Recovery<'_> {
    type Out = ();

    async fn run(&self, tx: &mut Fenced, mint: &mut Mint) -> Result<(), Stop> {
        let Self { row, author } = self;
        let before = recovery::note(tx, row).await?;
        let at = tx.now().second();
        if row.step.is_end() && !before.is_some_and(Step::is_end) {
            let RecoveryRow { member, project, instance, target, .. } = row;
            let to = target.as_ref().map_or("nowhere", |target| target.as_str());
            let (outcome, what) = match row.step {
                Step::Done if row.start => (Outcome::Success, format!("runs again on {to}")),
                Step::Done => (Outcome::Success, format!("is on {to}, stopped as it was")),
                Step::Stays => {
                    (Outcome::Refused, format!("stays where it is: {}", row.detail.trim_end_matches('.')))
                }
                _ => (Outcome::Failed, format!("was not restarted: {}", row.detail)),
            };
            let about = About {
                summary: format!("{instance} of project {project}, which ran on {member}, {what}."),
                evidence: json!({
                    "incarnation": row.incarnation.0,
                    "project": project,
                    "instance": instance,
                    "target": target.as_ref().map(MemberName::as_str),
                    "start": row.start,
                    "step": row.step.as_str(),
                    "attempts": row.attempts,
                    "detail": row.detail,
                }),
                ..About::default()
            };
            let told = author.plain(mint.next(), at, RECOVERED, member, Some(outcome), None, about);
            audit::insert_rows(tx.conn(), vec![told]).await?;
        }
        let member = row.member.as_str();
        Ok(change::insert(tx.conn(), mint.change(), change::MEMBER, member, at).await?)
    }
}

/// The end of the lease.
pub(super) struct Resign;

impl Work for Resign {
    type Out = ();

    async fn run(&self, tx: &mut Fenced, _mint: &mut Mint) -> Result<(), Stop> {
        Ok(lease::end(tx).await?)
    }
}

/// The entry on one member's node that had to wait.
struct Wait<'a> {
    member: &'a MemberName,
    host: &'a str,
}

impl Work for Wait<'_> {
    type Out = Option<Warning>;

    async fn run(&self, tx: &mut Fenced, mint: &mut Mint) -> Result<Self::Out, Stop> {
        let names = BTreeSet::from([self.member.clone()]);
        let members = member::lock(&mut tx.tx(), &names).await?;
        let Some(before) = members.get(self.member) else { return Ok(None) };
        let Some(todo) = due(before) else { return Ok(None) };
        let stamp = mint.stamp(tx.now(), self.host);
        let found = node::look(&mut tx.tx(), self.member, &todo, stamp).await?;
        let (mark, ready, warning) = node::settle(&before.fault, &todo, found);
        if let Some(ready) = ready {
            node::make(&mut tx.tx(), ready).await?;
        }
        if mark != before.fault {
            member::mark_fault(&mut tx.tx(), self.member, &mark).await?;
        }
        Ok(warning)
    }
}

/// What is still to be done on the member's node.
fn due(member: &Member) -> Option<Todo> {
    let names = member.fault.names.clone()?;
    match member.fault.state? {
        FaultState::Due => {
            let incarnation = member.fault.incarnation?;
            let proof = member.proof.as_ref().filter(|proof| proof.incarnation == incarnation)?;
            Some(Todo::Assert { names, incarnation, kind: proof.kind })
        }
        FaultState::ReleaseDue => Some(Todo::Release { names }),
        FaultState::Asserted => None,
    }
}

impl Leader {
    /// Tries again what is due on these members' nodes, for a short while.
    pub(super) async fn settle(&self, due: Vec<MemberName>) -> Result<Vec<Warning>, CommitError> {
        let until = Instant::now() + node::ROUND;
        let mut warnings = Vec::new();
        for member in &due {
            if Instant::now() >= until {
                break;
            }
            let work = Wait { member, host: &self.config.host };
            match self.fenced(self.store.pools(), self.total(), &work, |_| Vec::new()).await {
                Ok(kept) => warnings.extend(kept.out),
                Err(CommitError::Deposed) => return Err(CommitError::Deposed),
                // The status was published; this is tried again the next time.
                Err(_) => break,
            }
        }
        Ok(warnings)
    }
}

//! What a write of the leader is decided on: the rows that it is about, locked and put into a store in memory.
//!
//! The store in memory *is* the meaning of every write ([`apelora_fencing::memory`]), so it is asked, and what it changed
//! is written. There is no second text of the conditions that could come to differ from the first.

use std::collections::{BTreeMap, BTreeSet};

use apelora_fencing::Limits;
use apelora_fencing::memory::{LeaseRow, MemoryStore};
use apelora_fencing::name::{Epoch, HolderId, MemberName};
use apelora_fencing::write::{Found, Intent, Write};

use super::member::{self, Member};
use super::record::{self, Record};
use super::tx::{Fenced, Level};
use super::{node, told};
use crate::engine::{DbTime, Fault};

/// The rows, as they were before the write.
pub(super) struct Scene {
    /// The members that the write may change.
    pub(super) members: BTreeMap<MemberName, Member>,
    /// The record that the write is about.
    pub(super) record: Option<Record>,
    /// For an intent: the last power-off that was or may have been sent to the member or its hardware.
    pub(super) last_sent: Option<Record>,
    /// The same, as the machine's store.
    pub(super) model: MemoryStore,
}

impl Scene {
    /// Locks and reads, in the order of locks.
    pub(super) async fn load(
        tx: &mut Fenced,
        by: (Epoch, HolderId),
        write: &Write,
        limits: &Limits,
        power_locking_types: &[String],
    ) -> Result<Self, Fault> {
        let mut scene =
            Self { members: BTreeMap::new(), record: None, last_sent: None, model: MemoryStore::new(limits) };
        scene.model.lease =
            LeaseRow { holder: Some(by.1), epoch: by.0, expires_at: tx.expires_at().as_duration() };
        match write {
            Write::Refused(_) => {}
            Write::Observed(seen) => scene.lock_members(tx, seen.iter().map(|o| &o.member)).await?,
            Write::Checked(checks) => {
                let contradicted = checks.iter().filter(|c| c.found == Found::Contradiction);
                scene.lock_members(tx, contradicted.map(|c| &c.member)).await?;
            }
            Write::Proof(new) => scene.lock_members(tx, [&new.member]).await?,
            Write::Withdraw(withdrawal) => scene.lock_members(tx, [&withdrawal.member]).await?,
            Write::RecoveryStarted { member, .. } => scene.lock_members(tx, [member]).await?,
            Write::Intent(intent) => {
                scene.lock_members(tx, [&intent.member]).await?;
                scene.of_intent(tx, intent).await?;
                scene.look_whether_held(tx, &intent.member, power_locking_types).await?;
            }
            Write::Adopt(id) | Write::ReadBack(id) => {
                scene.record = record::lock(tx, *id).await?;
            }
            Write::Final(last) => {
                scene.lock_member_of_record(tx, last.record).await?;
            }
            Write::Permit(request) => {
                if let Some(member) = scene.lock_member_of_record(tx, request.record()).await? {
                    scene.look_whether_held(tx, &member, power_locking_types).await?;
                }
            }
        }
        scene.model.records.extend(scene.record.iter().map(Record::model));
        for (name, member) in &scene.members {
            // What was read of the node is there already.
            let held = scene.model.members.get(name).is_some_and(|m| m.held);
            let mut model = member.model.clone();
            model.held = held;
            scene.model.members.insert(name.clone(), model);
        }
        Ok(scene)
    }

    async fn lock_members(
        &mut self,
        tx: &mut Fenced,
        names: impl IntoIterator<Item = &MemberName>,
    ) -> Result<(), Fault> {
        let names: BTreeSet<MemberName> = names.into_iter().cloned().collect();
        self.members = member::lock(&mut tx.tx(), &names).await?;
        Ok(())
    }

    /// Locks the member that a record is about, then the record; the member's name.
    async fn lock_member_of_record(
        &mut self,
        tx: &mut Fenced,
        id: apelora_fencing::RecordId,
    ) -> Result<Option<MemberName>, Fault> {
        // Whom a record is about never changes, so it may be read before the lock.
        let Some(seen) = record::read(tx.conn(), id).await? else { return Ok(None) };
        let member = seen.told.member;
        self.lock_members(tx, [&member]).await?;
        self.record = record::lock(tx, id).await?;
        Ok(Some(member))
    }

    /// What stands against an intent beside its member. No leader writes a record without the lease, which is locked.
    async fn of_intent(&mut self, tx: &mut Fenced, intent: &Intent) -> Result<(), Fault> {
        let open = record::read_open(tx.lock(Level::Record)).await?;
        self.last_sent = record::last_sent(tx.conn(), &intent.member, intent.uuid).await?;
        self.model.history_gap_at = told::gap(tx.conn()).await?.map(DbTime::as_duration);
        let last =
            self.last_sent.iter().filter(|last| open.as_ref().is_none_or(|o| o.told.id != last.told.id));
        self.model.records = last.chain(open.as_ref()).map(Record::model).collect();
        Ok(())
    }

    async fn look_whether_held(
        &mut self,
        tx: &mut Fenced,
        member: &MemberName,
        types: &[String],
    ) -> Result<(), Fault> {
        if self.members.contains_key(member) && node::is_held(&mut tx.tx(), member, types).await? {
            self.model.members.entry(member.clone()).or_default().held = true;
        }
        Ok(())
    }
}

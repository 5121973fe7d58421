//! What a change of a node's entries means: decided here, made true by the store.

use serde_json::{Map, Value};

use crate::record::Recorder;
use crate::registry::{self, FAULT, LEGACY};
use crate::{
    AuditEvent, Authority, Blocker, Denial, EXTRA_MAX_BYTES, Entry, FaultKind, HistoryEvent,
    LEGACY_REASON_MAX_CHARS, LockedNode, MIGRATION, Operation, REASON_MAX_BYTES, Scope, Stamp, TextProblem,
    json, synthesise,
};

/// Everything that a granted change writes. Only [`plan`] makes one; the store applies it and computes nothing.
///
/// Apply the deletions before the insertions: an entry may be replaced by one with the same identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    insert: Vec<Entry>,
    amend: Vec<Amendment>,
    delete: Vec<uuid::Uuid>,
    after: Vec<Entry>,
    reason: Option<String>,
    fault: Option<String>,
    history: Vec<HistoryEvent>,
    audit: Vec<AuditEvent>,
    outcome: Outcome,
}

/// New values of the columns of an entry that can change; nothing else of it ever does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amendment {
    /// Which entry.
    pub uuid: uuid::Uuid,
    /// Its reason from now on.
    pub reason: Option<String>,
    /// Its extra from now on.
    pub extra: Option<String>,
}

/// What the change came to, beside what a reconciliation did on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was to be done.
    Unchanged,
    /// An entry was made.
    Asserted(Entry),
    /// An entry was changed in place.
    Amended(Entry),
    /// These entries ended.
    Released(Vec<Entry>),
}

impl Plan {
    /// Rows to insert, after the deletions.
    pub fn insert(&self) -> &[Entry] {
        &self.insert
    }

    /// Rows to change in place.
    pub fn amend(&self) -> &[Amendment] {
        &self.amend
    }

    /// Rows to delete.
    pub fn delete(&self) -> &[uuid::Uuid] {
        &self.delete
    }

    /// `nodes.maintenance` from now on: true exactly while an entry exists.
    pub fn flag(&self) -> bool {
        !self.after.is_empty()
    }

    /// `nodes.maintenance_reason` from now on.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// `nodes.fault` from now on.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Rows of `node_history` to add.
    pub fn history(&self) -> &[HistoryEvent] {
        &self.history
    }

    /// Rows of `apelora_audit` to add.
    pub fn audit(&self) -> &[AuditEvent] {
        &self.audit
    }

    /// The active entries from now on, in their order.
    pub fn entries(&self) -> &[Entry] {
        &self.after
    }

    /// What was done.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Whether entries, flag, reason or fault differ from what was read.
    pub fn changes(&self, on: &LockedNode) -> bool {
        self.flag() != on.node.maintenance
            || self.reason != on.node.maintenance_reason
            || self.fault != on.node.fault
            || self.after != on.entries
    }
}

/// Decides one change of a locked node for a caller of this authority.
///
/// Flag and entries are first brought together, in case a service that does not know entries changed the flag. Then
/// the operation is judged. `may_release` is policy's word on one entry; it is asked for every typed entry that the
/// operation would end, and for reserved ones only when they are released by id.
///
/// Pure: the same arguments give the same plan, so the caller may run it again in another transaction.
///
/// # Errors
/// A [`Denial`], after which nothing may be written.
pub fn plan(
    operation: &Operation,
    on: &LockedNode,
    by: &Authority,
    may_release: &mut dyn FnMut(&Entry) -> bool,
    stamp: &Stamp,
) -> Result<Plan, Denial> {
    let mut draft = Draft::reconciled(on, stamp);
    let outcome = match operation {
        Operation::Set { reason } => draft.set(by, reason.as_deref().map(cut_legacy_reason))?,
        Operation::SetFlag => draft.set_flag(by),
        Operation::ReleaseAll => draft.release_all(by, may_release)?,
        Operation::Add { entry_type, reason, extra } => {
            draft.add(by, entry_type, reason.as_deref(), extra.as_deref())?
        }
        Operation::Release(uuid) => draft.release(by, *uuid, may_release)?,
        Operation::AssertFault { kind, reason, extra } => {
            draft.assert_fault(by, *kind, reason.as_deref(), extra)?
        }
        Operation::ReleaseFault { fence_record } => draft.release_fault(by, fence_record.as_deref()),
        Operation::Reconcile => Outcome::Unchanged,
        Operation::DeleteNode => draft.delete_node(by, may_release)?,
    };
    Ok(draft.finish(outcome))
}

/// The state of the node while a plan is being made.
struct Draft<'a> {
    on: &'a LockedNode,
    stamp: &'a Stamp,
    entries: Vec<Entry>,
    fault: Option<String>,
    records: Recorder<'a>,
}

impl<'a> Draft<'a> {
    /// Starts from what was read, with flag and entries brought together.
    fn reconciled(on: &'a LockedNode, stamp: &'a Stamp) -> Self {
        let records = Recorder::new(&on.node, stamp);
        let mut draft =
            Self { on, stamp, entries: on.entries.clone(), fault: on.node.fault.clone(), records };
        draft.reconcile();
        draft
    }

    /// Services that do not know entries change `maintenance`, `maintenance_reason` and `fault` only. What they meant:
    /// flag down ends what the boolean could always end, a fault cleared ends the fault entry, flag up without an
    /// entry is a boolean set by somebody, and a new reason beside a lone legacy entry is a boolean set again. Typed
    /// entries are beyond such a service: they stay, and put the flag back.
    fn reconcile(&mut self) {
        let node = &self.on.node;
        let by = Authority::service(MIGRATION);
        let mut what = Vec::new();
        let flag_down = !node.maintenance;
        let fault_cleared = node.fault.is_none();
        let (ended, kept): (Vec<_>, Vec<_>) = self
            .entries
            .drain(..)
            .partition(|e| (flag_down && e.is_reserved()) || (fault_cleared && e.is(FAULT)));
        self.entries = kept;
        for entry in &ended {
            self.records.history(
                &by,
                entry,
                "Maintenance released by another service",
                entry.reason.as_deref(),
            );
            what.push(if entry.is(FAULT) { "fault entry ended" } else { "legacy entry ended" });
        }
        if flag_down && !self.entries.is_empty() {
            what.push("flag raised again for the typed entries");
        }
        if node.maintenance && self.entries.is_empty() {
            let reason = node.maintenance_reason.as_deref().map(cut_legacy_reason);
            let entry = self.entry(LEGACY, reason, Scope::System, &by, None);
            self.records.history(
                &by,
                &entry,
                "Maintenance asserted by another service",
                entry.reason.as_deref(),
            );
            self.insert(entry);
            what.push("legacy entry made for the flag");
        } else if let [only] = self.entries.as_mut_slice()
            && only.is(LEGACY)
            && only.reason != node.maintenance_reason
            // The text may still be what was made of several entries, of which only this one is left.
            && node.maintenance_reason != synthesise(&self.on.entries)
        {
            only.reason = node.maintenance_reason.as_deref().map(cut_legacy_reason);
            let entry = only.clone();
            self.records.history(
                &by,
                &entry,
                "Maintenance reason changed by another service",
                entry.reason.as_deref(),
            );
            what.push("reason of the legacy entry taken over");
        }
        if let Some(kind) = &self.fault
            && let Some(entry) = self.entries.iter_mut().find(|e| e.is(FAULT))
            && entry.extra_text("fault").as_ref() != Some(kind)
        {
            entry.extra = Some(fault_extra(kind, &extra_map(entry)));
            let entry = entry.clone();
            self.records.history(&by, &entry, "Fault changed by another service", Some(kind));
            what.push("kind of the fault taken over");
        }
        if !what.is_empty() {
            self.records.reconciled(&by, &what, &self.on.entries, &self.entries);
        }
    }

    fn set(&mut self, by: &Authority, reason: Option<String>) -> Result<Outcome, Denial> {
        check_text("reason", reason.as_deref(), usize::MAX)?;
        match self.entries.iter_mut().find(|e| e.is(LEGACY)) {
            None => Ok(self.assert(by, LEGACY, reason, by.scope.unwrap_or(Scope::Lessee), None)),
            Some(entry) if entry.reason == reason => Ok(Outcome::Unchanged),
            Some(entry) => {
                let before = entry.clone();
                entry.reason = reason;
                let after = entry.clone();
                self.records.amended(by, &before, &after);
                Ok(Outcome::Amended(after))
            }
        }
    }

    fn set_flag(&mut self, by: &Authority) -> Outcome {
        if self.entries.iter().any(|e| e.is(LEGACY)) {
            return Outcome::Unchanged;
        }
        self.assert(by, LEGACY, None, by.scope.unwrap_or(Scope::Lessee), None)
    }

    fn add(
        &mut self,
        by: &Authority,
        entry_type: &str,
        reason: Option<&str>,
        extra: Option<&str>,
    ) -> Result<Outcome, Denial> {
        match registry::find(entry_type) {
            None => return Err(Denial::UnknownType(entry_type.to_owned())),
            Some(t) if t.reserved => return Err(Denial::ReservedType(entry_type.to_owned())),
            Some(_) => {}
        }
        check_text("reason", reason, REASON_MAX_BYTES)?;
        check_text("extra", extra, EXTRA_MAX_BYTES)?;
        let scope = by.scope.ok_or(Denial::NoStanding)?;
        let duplicate = self
            .entries
            .iter()
            .find(|e| e.is(entry_type) && e.scope == scope && e.asserted_by_project == by.project);
        if let Some(existing) = duplicate {
            return Err(Denial::Duplicate { existing: Box::new(existing.clone()) });
        }
        Ok(self.assert(by, entry_type, reason.map(str::to_owned), scope, extra.map(str::to_owned)))
    }

    fn release(
        &mut self,
        by: &Authority,
        uuid: uuid::Uuid,
        may_release: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Outcome, Denial> {
        let entry = self.entries.iter().find(|e| e.uuid == uuid).cloned().ok_or(Denial::NoSuchEntry(uuid))?;
        if let Some(blocker) = blocker(by, &entry, may_release) {
            return Err(Denial::Blocked(vec![blocker]));
        }
        Ok(self.end(by, |e| e.uuid == uuid))
    }

    fn release_all(
        &mut self,
        by: &Authority,
        may_release: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Outcome, Denial> {
        self.check_typed(by, may_release)?;
        // The reference clears a fault, and a stale one, together with the flag.
        self.fault = None;
        Ok(self.end(by, |_| true))
    }

    fn delete_node(
        &mut self,
        by: &Authority,
        may_release: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<Outcome, Denial> {
        self.check_typed(by, may_release)?;
        let ended = std::mem::take(&mut self.entries);
        // History dies with the node; the audit trail does not.
        self.records.history.clear();
        self.records.node_deleted(by, &ended);
        Ok(Outcome::Released(ended))
    }

    fn assert_fault(
        &mut self,
        by: &Authority,
        kind: FaultKind,
        reason: Option<&str>,
        extra: &Map<String, Value>,
    ) -> Result<Outcome, Denial> {
        let extra = fault_extra(kind.as_str(), extra);
        check_text("reason", reason, REASON_MAX_BYTES)?;
        check_text("extra", Some(&extra), EXTRA_MAX_BYTES)?;
        self.fault = Some(kind.as_str().to_owned());
        let Some(entry) = self.entries.iter_mut().find(|e| e.is(FAULT)) else {
            return Ok(self.assert(by, FAULT, reason.map(str::to_owned), Scope::System, Some(extra)));
        };
        let before = entry.clone();
        entry.reason = reason.map(str::to_owned);
        entry.extra = Some(extra);
        let after = entry.clone();
        if before == after {
            return Ok(Outcome::Unchanged);
        }
        self.records.amended(by, &before, &after);
        Ok(Outcome::Amended(after))
    }

    fn release_fault(&mut self, by: &Authority, fence_record: Option<&str>) -> Outcome {
        self.end(by, |e| {
            e.is(FAULT)
                && fence_record.is_none_or(|wanted| e.extra_text("fence_record").as_deref() == Some(wanted))
        })
    }

    /// Refuses when a typed entry is outside the caller's reach; reserved ones never are.
    fn check_typed(&self, by: &Authority, may_release: &mut dyn FnMut(&Entry) -> bool) -> Result<(), Denial> {
        let blockers: Vec<_> = self
            .entries
            .iter()
            .filter(|e| !e.is_reserved())
            .filter_map(|e| blocker(by, e, may_release))
            .collect();
        if blockers.is_empty() { Ok(()) } else { Err(Denial::Blocked(blockers)) }
    }

    fn assert(
        &mut self,
        by: &Authority,
        entry_type: &str,
        reason: Option<String>,
        scope: Scope,
        extra: Option<String>,
    ) -> Outcome {
        let entry = self.entry(entry_type, reason, scope, by, extra);
        self.records.asserted(by, &entry);
        self.insert(entry.clone());
        Outcome::Asserted(entry)
    }

    fn entry(
        &self,
        entry_type: &str,
        reason: Option<String>,
        scope: Scope,
        by: &Authority,
        extra: Option<String>,
    ) -> Entry {
        // A reconciliation and the operation itself may each make one entry.
        let taken = self.entries.iter().any(|e| e.uuid == self.stamp.entry);
        Entry {
            uuid: if taken { self.stamp.derived(usize::MAX) } else { self.stamp.entry },
            entry_type: entry_type.to_owned(),
            reason,
            scope,
            asserted_by: by.user.clone(),
            asserted_by_project: by.project.clone(),
            asserted_at: self.stamp.at,
            extra,
        }
    }

    /// Puts a new entry where the order by time and row number will have it.
    fn insert(&mut self, entry: Entry) {
        let at = self.entries.partition_point(|e| e.asserted_at <= entry.asserted_at);
        self.entries.insert(at, entry);
    }

    fn end(&mut self, by: &Authority, ends: impl Fn(&Entry) -> bool) -> Outcome {
        let (ended, kept): (Vec<_>, Vec<_>) = self.entries.drain(..).partition(ends);
        self.entries = kept;
        for entry in &ended {
            if entry.is(FAULT) {
                self.fault = None;
            }
            self.records.released(by, entry);
        }
        if ended.is_empty() { Outcome::Unchanged } else { Outcome::Released(ended) }
    }

    fn finish(self, outcome: Outcome) -> Plan {
        let before = &self.on.entries;
        let old = |e: &Entry| before.iter().find(|b| b.uuid == e.uuid);
        Plan {
            insert: self.entries.iter().filter(|e| old(e).is_none()).cloned().collect(),
            amend: self
                .entries
                .iter()
                .filter(|e| old(e).is_some_and(|b| b != *e))
                .map(|e| Amendment { uuid: e.uuid, reason: e.reason.clone(), extra: e.extra.clone() })
                .collect(),
            delete: before
                .iter()
                .filter(|b| self.entries.iter().all(|e| e.uuid != b.uuid))
                .map(|b| b.uuid)
                .collect(),
            reason: synthesise(&self.entries),
            after: self.entries,
            fault: self.fault,
            history: self.records.history,
            audit: self.records.audit,
            outcome,
        }
    }
}

/// Policy first, then the floor.
fn blocker(by: &Authority, entry: &Entry, may_release: &mut dyn FnMut(&Entry) -> bool) -> Option<Blocker> {
    if !may_release(entry) {
        return Some(Blocker::policy(entry));
    }
    by.floor(entry).err().map(|refusal| Blocker::floor(entry, refusal))
}

fn check_text(field: &'static str, text: Option<&str>, max_bytes: usize) -> Result<(), Denial> {
    let Some(text) = text else { return Ok(()) };
    let problem = if text.len() > max_bytes {
        TextProblem::LongerThan(max_bytes)
    } else if text.contains('\0') {
        TextProblem::Nul
    } else {
        return Ok(());
    };
    Err(Denial::BadText { field, problem })
}

fn cut_legacy_reason(reason: &str) -> String {
    reason.chars().take(LEGACY_REASON_MAX_CHARS).collect()
}

fn fault_extra(kind: &str, rest: &Map<String, Value>) -> String {
    let mut extra = Map::new();
    extra.insert("fault".to_owned(), Value::from(kind));
    extra.extend(rest.iter().filter(|(k, _)| *k != "fault").map(|(k, v)| (k.clone(), v.clone())));
    json::to_string(&extra).unwrap_or_else(|_| "{}".to_owned())
}

fn extra_map(entry: &Entry) -> Map<String, Value> {
    entry.extra.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

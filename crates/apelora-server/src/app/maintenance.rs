//! Maintenance: the flag, the entries, who sees and who releases what.

use apelora_maintenance::{Authority, Entry, LockedNode, Operation, Plan, Stamp, plan};
use apelora_store::{Changed, Locked, NodeChange, NodeColumn, NodeKey};
use uuid::Uuid;

use super::{App, Context, check, store_error};
use crate::auth::CallerKind;
use crate::authorise::{self, Rule};
use crate::error::ApiError;
use crate::ident;
use crate::route::Ident;

/// An entry to be asserted, as the client asks for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewEntry {
    pub(crate) entry_type: String,
    pub(crate) reason: Option<String>,
    /// JSON text of an object.
    pub(crate) extra: Option<String>,
}

/// Entries of one node as one reader sees them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReadEntries {
    pub(crate) node_uuid: String,
    pub(crate) entries: Vec<SeenEntry>,
}

/// An entry as one reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenEntry {
    /// Without asserter and project when those are hidden.
    pub(crate) entry: Entry,
    /// Whether the reader may not learn who asserted it.
    pub(crate) asserter_hidden: bool,
}

impl App {
    /// PUT …/maintenance.
    pub(crate) async fn set_maintenance(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        reason: Option<String>,
    ) -> Result<(), ApiError> {
        let operation = Operation::Set { reason };
        self.change_entries(cx, ident, authorise::MAINTENANCE_SET, &operation).await.map(drop)
    }

    /// DELETE …/maintenance.
    pub(crate) async fn clear_maintenance(&self, cx: Context<'_>, ident: &Ident) -> Result<(), ApiError> {
        self.change_entries(cx, ident, authorise::MAINTENANCE_CLEAR, &Operation::ReleaseAll).await.map(drop)
    }

    /// POST …/maintenance.
    pub(crate) async fn add_entry(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        new: NewEntry,
    ) -> Result<ReadEntries, ApiError> {
        let NewEntry { entry_type, reason, extra } = new;
        let operation = Operation::Add { entry_type, reason, extra };
        let changed = self.change_entries(cx, ident, authorise::ENTRY_ADD, &operation).await?;
        let entry = changed.entry.ok_or_else(ApiError::internal)?;
        let facts = changed.row.facts();
        let reader = authorise::authority(cx.caller, &facts);
        Ok(ReadEntries { node_uuid: facts.uuid, entries: vec![as_seen(entry, &reader)] })
    }

    /// DELETE …/maintenance/{entry}.
    pub(crate) async fn release_entry(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        entry: &str,
    ) -> Result<(), ApiError> {
        let Some(uuid) = entry_uuid(entry) else {
            // The node comes first: whoever may not see it learns nothing of its entries.
            self.find(cx, ident, authorise::ENTRY_GET, &[]).await?;
            return Err(no_entry(entry));
        };
        self.change_entries(cx, ident, authorise::ENTRY_GET, &Operation::Release(uuid)).await.map(drop)
    }

    /// GET …/maintenance.
    pub(crate) async fn entries(&self, cx: Context<'_>, ident: &Ident) -> Result<ReadEntries, ApiError> {
        let row = self.find(cx, ident, authorise::ENTRY_GET, &[]).await?;
        let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
        let read = self.store.entries(&NodeKey::Uuid(uuid.to_owned())).await.map_err(store_error)?;
        let Some(LockedNode { node, entries }) = read else { return Err(ApiError::no_node(&ident.text)) };
        check(cx, &ident.text, authorise::ENTRY_GET.into(), &node)?;
        let reader = authorise::authority(cx.caller, &node);
        Ok(ReadEntries {
            node_uuid: node.uuid,
            entries: entries.into_iter().map(|entry| as_seen(entry, &reader)).collect(),
        })
    }

    /// GET …/maintenance/{entry}.
    pub(crate) async fn entry(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        entry: &str,
    ) -> Result<ReadEntries, ApiError> {
        let ReadEntries { node_uuid, entries } = self.entries(cx, ident).await?;
        let wanted = entry_uuid(entry);
        let found: Vec<_> = entries.into_iter().filter(|seen| Some(seen.entry.uuid) == wanted).collect();
        if found.is_empty() { Err(no_entry(entry)) } else { Ok(ReadEntries { node_uuid, entries: found }) }
    }

    async fn change_entries(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        rule: Rule,
        operation: &Operation,
    ) -> Result<Changed, ApiError> {
        let row = self.find(cx, ident, rule, &[]).await?;
        let uuid = row.text(NodeColumn::Uuid).unwrap_or_default();
        let stamp = self.stamp();
        let governed_by = governing(operation, rule);
        if cx.caller.kind == CallerKind::Keystone && may_be_blocked(operation) {
            // Whoever may not release what stands there now never takes the lock.
            let read = self.store.entries(&NodeKey::Uuid(uuid.to_owned())).await.map_err(store_error)?;
            if let Some(on) = read {
                judge(cx, operation, &on, &authorise::authority(cx.caller, &on.node), governed_by, &stamp)?;
            }
        }
        self.change(cx, &ident.text, uuid, rule.into(), &stamp, |locked, authority| {
            planned(cx, operation, locked, authority, governed_by, &stamp)
        })
        .await
    }
}

/// Which rule lets legacy and fault entries go: releasing by id passes with the rule of the flag as well.
fn governing(operation: &Operation, rule: Rule) -> Rule {
    match operation {
        Operation::Release(_) => authorise::MAINTENANCE_CLEAR,
        _ => rule,
    }
}

/// The planner's word on one locked node, as a change of the node.
pub(super) fn planned(
    cx: Context<'_>,
    operation: &Operation,
    locked: &Locked,
    authority: &Authority,
    governed_by: Rule,
    stamp: &Stamp,
) -> Result<NodeChange, ApiError> {
    judge(cx, operation, &locked.node, authority, governed_by, stamp).map(Into::into)
}

/// The planner's word, with the policy of this caller.
fn judge(
    cx: Context<'_>,
    operation: &Operation,
    on: &LockedNode,
    authority: &Authority,
    governed_by: Rule,
    stamp: &Stamp,
) -> Result<Plan, ApiError> {
    let mut may_release = |entry: &Entry| authorise::may_release(cx.caller, &on.node, entry, governed_by);
    Ok(plan(operation, on, authority, &mut may_release, stamp)?)
}

/// Whether entries of others can stand in the way.
fn may_be_blocked(operation: &Operation) -> bool {
    matches!(operation, Operation::Release(_) | Operation::ReleaseAll)
}

/// The one place where asserters are masked in what is read of entries.
pub(super) fn as_seen(mut entry: Entry, reader: &Authority) -> SeenEntry {
    let asserter_hidden = entry.hides_asserter_from(reader.scope);
    if asserter_hidden {
        entry.asserted_by.clear();
        entry.asserted_by_project.clear();
    }
    SeenEntry { entry, asserter_hidden }
}

/// Entries are named by their whole uuid.
fn entry_uuid(text: &str) -> Option<Uuid> {
    ident::canonical_uuid(text)?.parse().ok()
}

fn no_entry(entry: &str) -> ApiError {
    ApiError::not_found(format!("Maintenance entry {entry} could not be found."))
}

#[cfg(test)]
mod tests {
    use apelora_maintenance::Scope;
    use time::macros::datetime;

    use super::*;

    fn seen_by(entry_scope: Scope, reader: Option<Scope>, reader_project: &str) -> Option<(String, String)> {
        let entry = Entry {
            uuid: Uuid::nil(),
            entry_type: "operator_hold".to_owned(),
            reason: None,
            scope: entry_scope,
            asserted_by: "somebody".to_owned(),
            asserted_by_project: "p1".to_owned(),
            asserted_at: datetime!(2026-07-01 00:00:00),
            extra: None,
        };
        let reader =
            Authority { scope: reader, user: "reader".to_owned(), project: reader_project.to_owned() };
        let seen = as_seen(entry, &reader);
        assert_eq!(seen.asserter_hidden, seen.entry.asserted_by.is_empty());
        (!seen.asserter_hidden).then_some((seen.entry.asserted_by, seen.entry.asserted_by_project))
    }

    #[test]
    fn asserters_are_hidden_from_those_whom_the_entry_outranks() {
        for entry in Scope::ALL {
            assert_eq!(seen_by(entry, None, "p1"), None);
            for reader in Scope::ALL {
                // Of equal rank also to another project, which learns from it whom to ask.
                let shown = seen_by(entry, Some(reader), "p2").is_some();
                assert_eq!(shown, reader >= entry, "{entry} entry, {reader} reader");
            }
        }
    }

    #[test]
    fn entries_are_named_by_their_whole_uuid() {
        let uuid = "0000000e-0000-4000-8000-0000000000AE";
        assert_eq!(entry_uuid(uuid).map(|u| u.to_string()), Some(uuid.to_lowercase()));
        for text in
            ["", "x", "0000000e000040008000000000000000", "{0000000e-0000-4000-8000-000000000000}", "\0"]
        {
            assert_eq!(entry_uuid(text), None, "{text}");
        }
    }
}

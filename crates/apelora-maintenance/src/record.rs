//! What is written down about a change: node history for those who see the node, audit for the operators.

use serde_json::{Value, json};
use time::PrimitiveDateTime;
use uuid::Uuid;

use crate::{Authority, Entry, NodeFacts, Scope, Stamp};

/// The widths of the columns of `node_history`: characters for the names, bytes for the text.
const USER_MAX_CHARS: usize = 64;
const PROJECT_MAX_CHARS: usize = 80;
const EVENT_MAX_BYTES: usize = 65_535;
const TRUNCATION_MARK: &str = " ... [truncated] ... ";

/// A row of `node_history` with event type `maintenance` and severity `INFO`, and who may read its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The record's id.
    pub uuid: Uuid,
    /// UTC, whole seconds.
    pub at: PrimitiveDateTime,
    /// One sentence without any identity; at most 65,535 bytes.
    pub event: String,
    /// Who made the change, cut to the column.
    pub user: Option<String>,
    /// That user's project, cut to the column.
    pub project: Option<String>,
    /// This service's name.
    pub conductor: String,
    /// The node's `provision_state`.
    pub state: Option<String>,
    /// The node's `target_provision_state`.
    pub target_provision_state: Option<String>,
    /// Whole seconds since `provision_updated_at`.
    pub duration_seconds: Option<i64>,
    /// Readers below this rank do not learn `user` and `project`: the higher of the entry's and the actor's scope.
    pub author_visible_from: Scope,
}

impl HistoryEvent {
    /// The event type of every record that this crate makes.
    pub const EVENT_TYPE: &'static str = "maintenance";
    /// The severity of every record that this crate makes.
    pub const SEVERITY: &'static str = "INFO";
}

/// What happened, in the words of the audit trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAction {
    /// An entry was made.
    Asserted,
    /// An entry's reason or extra changed.
    Amended,
    /// An entry was released.
    Released,
    /// Flag and entries were brought together.
    Reconciled,
    /// A node was deleted, with its entries.
    NodeDeleted,
}

impl AuditAction {
    /// The word in `apelora_audit.action`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asserted => "maintenance.asserted",
            Self::Amended => "maintenance.amended",
            Self::Released => "maintenance.released",
            Self::Reconciled => "maintenance.reconciled",
            Self::NodeDeleted => "node.deleted",
        }
    }
}

/// A row of `apelora_audit`: whole, unmasked, independent of the node's own life.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// The row's id.
    pub uuid: Uuid,
    /// UTC, whole seconds.
    pub at: PrimitiveDateTime,
    /// What happened.
    pub action: AuditAction,
    /// Who did it.
    pub actor: Authority,
    /// The node's uuid.
    pub node_uuid: String,
    /// The node's name at that time.
    pub node_name: Option<String>,
    /// One sentence.
    pub summary: String,
    /// An object with everything about it: the entry before and after, or the entries.
    pub evidence: Value,
}

/// Collects the records of one change; ids follow from the stamp in the order of the events.
pub(crate) struct Recorder<'a> {
    node: &'a NodeFacts,
    stamp: &'a Stamp,
    made: usize,
    pub(crate) history: Vec<HistoryEvent>,
    pub(crate) audit: Vec<AuditEvent>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(node: &'a NodeFacts, stamp: &'a Stamp) -> Self {
        Self { node, stamp, made: 0, history: Vec::new(), audit: Vec::new() }
    }

    pub(crate) fn asserted(&mut self, by: &Authority, entry: &Entry) {
        self.history(by, entry, "Maintenance asserted", entry.reason.as_deref());
        let summary = format!("{} asserted on node {}", describe(entry), self.node_label());
        self.audit(by, AuditAction::Asserted, summary, json!({"entry": entry_value(entry)}));
    }

    pub(crate) fn amended(&mut self, by: &Authority, before: &Entry, after: &Entry) {
        self.history(by, after, "Maintenance reason changed", after.reason.as_deref());
        let summary = format!("{} amended on node {}", describe(after), self.node_label());
        let evidence = json!({"entry": entry_value(after), "before": entry_value(before)});
        self.audit(by, AuditAction::Amended, summary, evidence);
    }

    pub(crate) fn released(&mut self, by: &Authority, entry: &Entry) {
        self.history(by, entry, "Maintenance released", entry.reason.as_deref());
        let summary = format!("{} released on node {}", describe(entry), self.node_label());
        self.audit(by, AuditAction::Released, summary, json!({"entry": entry_value(entry)}));
    }

    /// One audit row for a whole reconciliation, beside the history events of its single steps.
    pub(crate) fn reconciled(&mut self, by: &Authority, what: &[&str], before: &[Entry], after: &[Entry]) {
        let summary = format!(
            "flag and entries of node {} brought together after another service changed the flag: {}",
            self.node_label(),
            what.join(", "),
        );
        let evidence = json!({
            "maintenance": self.node.maintenance,
            "maintenance_reason": self.node.maintenance_reason,
            "fault": self.node.fault,
            "entries_before": before.iter().map(entry_value).collect::<Vec<_>>(),
            "entries_after": after.iter().map(entry_value).collect::<Vec<_>>(),
        });
        self.audit(by, AuditAction::Reconciled, summary, evidence);
    }

    pub(crate) fn node_deleted(&mut self, by: &Authority, entries: &[Entry]) {
        let summary =
            format!("node {} deleted, {} maintenance entries ended", self.node_label(), entries.len());
        let evidence = json!({
            "owner": self.node.owner,
            "lessee": self.node.lessee,
            "entries": entries.iter().map(entry_value).collect::<Vec<_>>(),
        });
        self.audit(by, AuditAction::NodeDeleted, summary, evidence);
    }

    pub(crate) fn history(&mut self, by: &Authority, entry: &Entry, what: &str, reason: Option<&str>) {
        let Entry { uuid, entry_type, scope, .. } = entry;
        let mut event = format!("{what}: {entry_type} (scope {scope}, entry {uuid})");
        if let Some(reason) = reason {
            event.push_str(": ");
            event.push_str(reason);
        }
        let since = self.node.provision_updated_at;
        let uuid = self.next_id();
        self.history.push(HistoryEvent {
            uuid,
            at: self.stamp.at,
            event: cut_in_the_middle(event, EVENT_MAX_BYTES),
            user: cut(&by.user, USER_MAX_CHARS),
            project: cut(&by.project, PROJECT_MAX_CHARS),
            conductor: self.stamp.host.clone(),
            state: self.node.provision_state.clone(),
            target_provision_state: self.node.target_provision_state.clone(),
            duration_seconds: since.map(|since| (self.stamp.at - since).whole_seconds()),
            author_visible_from: by.scope.map_or(entry.scope, |actor| actor.max(entry.scope)),
        });
    }

    fn audit(&mut self, by: &Authority, action: AuditAction, summary: String, evidence: Value) {
        let uuid = self.next_id();
        self.audit.push(AuditEvent {
            uuid,
            at: self.stamp.at,
            action,
            actor: by.clone(),
            node_uuid: self.node.uuid.clone(),
            node_name: self.node.name.clone(),
            summary,
            evidence,
        });
    }

    fn next_id(&mut self) -> Uuid {
        self.made += 1;
        self.stamp.derived(self.made)
    }

    fn node_label(&self) -> &str {
        self.node.name.as_deref().unwrap_or(&self.node.uuid)
    }
}

fn describe(entry: &Entry) -> String {
    format!("maintenance entry {} (type {}, scope {})", entry.uuid, entry.entry_type, entry.scope)
}

fn entry_value(entry: &Entry) -> Value {
    json!({
        "uuid": entry.uuid.to_string(),
        "type": entry.entry_type,
        "reason": entry.reason,
        "scope": entry.scope.as_str(),
        "asserted_by": entry.asserted_by,
        "asserted_by_project": entry.asserted_by_project,
        "asserted_at": crate::json::iso(entry.asserted_at),
        "extra": entry.extra.as_deref().map(|text| {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
        }),
    })
}

fn cut(text: &str, chars: usize) -> Option<String> {
    (!text.is_empty()).then(|| text.chars().take(chars).collect())
}

/// Shortens as the reference does for its history texts: the middle goes, a mark says so.
fn cut_in_the_middle(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let keep = (max_bytes - TRUNCATION_MARK.len()) / 2;
    let head = &text[..text.floor_char_boundary(keep)];
    let tail = &text[text.ceil_char_boundary(text.len() - keep)..];
    format!("{head}{TRUNCATION_MARK}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_event_keeps_both_ends_within_the_column() {
        let text = format!("head{}tail", "ü".repeat(60_000));
        let short = cut_in_the_middle(text, EVENT_MAX_BYTES);
        assert!(short.len() <= EVENT_MAX_BYTES && short.len() > EVENT_MAX_BYTES - 10);
        assert!(short.starts_with("headü") && short.ends_with("ütail") && short.contains(TRUNCATION_MARK));
        assert_eq!(cut_in_the_middle("short".into(), EVENT_MAX_BYTES), "short");
    }
}

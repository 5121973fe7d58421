//! The history of a node.

use apelora_store::{Direction, HistoryColumn, HistoryQuery, HistoryRecord, StoreError};

use super::{App, Context, store_error};
use crate::authorise;
use crate::error::ApiError;
use crate::route::Ident;

/// Records of one node as one reader sees them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HistoryPage {
    pub(crate) node_uuid: String,
    pub(crate) records: Vec<SeenRecord>,
}

/// A record without what its reader may not learn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenRecord(HistoryRecord);

impl SeenRecord {
    pub(crate) fn record(&self) -> &HistoryRecord {
        &self.0
    }
}

impl App {
    /// GET …/history.
    pub(crate) async fn history(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        sort: (HistoryColumn, Direction),
        marker: Option<String>,
        limit: u32,
    ) -> Result<HistoryPage, ApiError> {
        let row = self.find(cx, ident, authorise::HISTORY_GET, &[]).await?;
        let node = row.facts();
        let query = HistoryQuery { sort, marker, limit };
        let records = self.store.history(&node.uuid, &query).await.map_err(|failure| match failure {
            StoreError::UnknownMarker(marker) => no_record(&marker),
            other => store_error(other),
        })?;
        let reader = authorise::authority(cx.caller, &node).scope;
        let records = records.into_iter().map(|record| as_seen(record, reader)).collect();
        Ok(HistoryPage { node_uuid: node.uuid, records })
    }

    /// GET …/history/{record}.
    pub(crate) async fn history_record(
        &self,
        cx: Context<'_>,
        ident: &Ident,
        uuid: &str,
    ) -> Result<HistoryPage, ApiError> {
        let row = self.find(cx, ident, authorise::HISTORY_GET, &[]).await?;
        let node = row.facts();
        // Nothing else is the id of a record, and not every text can be asked for on every database.
        let known = crate::ident::canonical_uuid(uuid).ok_or_else(|| no_record(uuid))?;
        let found = self.store.history_record(&node.uuid, &known).await.map_err(store_error)?;
        let record = found.ok_or_else(|| no_record(uuid))?;
        let reader = authorise::authority(cx.caller, &node).scope;
        Ok(HistoryPage { records: vec![as_seen(record, reader)], node_uuid: node.uuid })
    }
}

/// The one place where authors are masked in what is read of the history.
fn as_seen(mut record: HistoryRecord, reader: Option<apelora_maintenance::Scope>) -> SeenRecord {
    if record.author_visible_from.is_some_and(|from| reader.is_none_or(|rank| rank < from)) {
        record.user = None;
        record.project = None;
    }
    SeenRecord(record)
}

fn no_record(uuid: &str) -> ApiError {
    ApiError::not_found(format!("Node history record {uuid} could not be found."))
}

#[cfg(test)]
mod tests {
    use apelora_maintenance::Scope;

    use super::*;

    #[test]
    fn authors_are_hidden_from_those_whom_entry_or_actor_outranks() {
        let record = |author_visible_from| HistoryRecord {
            uuid: "u".to_owned(),
            created_at: None,
            updated_at: None,
            conductor: None,
            event_type: None,
            severity: None,
            event: Some("text".to_owned()),
            user: Some("somebody".to_owned()),
            project: Some("p1".to_owned()),
            state: None,
            target_provision_state: None,
            duration_seconds: None,
            author_visible_from,
        };
        let shown = |from, reader| {
            let seen = as_seen(record(from), reader);
            assert_eq!(seen.record().event.as_deref(), Some("text"));
            assert_eq!(seen.record().user.is_some(), seen.record().project.is_some());
            seen.record().user.is_some()
        };
        for reader in Scope::ALL {
            // Records of other services hide nothing.
            assert!(shown(None, Some(reader)));
            for from in Scope::ALL {
                assert_eq!(shown(Some(from), Some(reader)), reader >= from, "{from} {reader}");
            }
        }
        assert!(shown(None, None) && !shown(Some(Scope::Lessee), None));
    }
}

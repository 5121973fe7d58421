//! The entries of all nodes: what is looked at when nodes change hands.

use apelora_maintenance::NodeFacts;
use apelora_store::{EntryNode, EntryQuery, PlacedEntry, StoreError};

use super::maintenance::{SeenEntry, as_seen};
use super::{App, Context, store_error};
use crate::authorise::{self, Needs, Reach};
use crate::error::ApiError;

/// How many entries are looked at in one step where most of them are left out.
const STEP: u32 = 1_000;

/// A page of entries as one reader sees them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacedEntries {
    pub(crate) entries: Vec<SeenPlaced>,
    /// Whether more may follow.
    pub(crate) more: bool,
}

/// An entry with its node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenPlaced {
    pub(crate) node: EntryNode,
    pub(crate) seen: SeenEntry,
    /// Whether its project is neither owner nor lessee any more.
    pub(crate) stale: bool,
}

impl App {
    /// GET /apelora/v1/maintenance: the first `limit` entries behind the marker, of nodes that the caller may see.
    pub(crate) async fn entries_of_all_nodes(
        &self,
        cx: Context<'_>,
        stale_only: bool,
        marker: Option<String>,
        limit: u32,
    ) -> Result<PlacedEntries, ApiError> {
        let reach = authorise::reach(cx.caller, authorise::ENTRIES_LIST_ALL, authorise::ENTRIES_LIST, None)?;
        let project = match reach {
            Reach::Everything => None,
            Reach::Project(project) => Some(project),
        };
        let mut query = EntryQuery { project, below_system: stale_only, marker, limit };
        let mut entries = Vec::new();
        loop {
            let page = self.store.entries_of_all_nodes(&query).await.map_err(|failure| match failure {
                StoreError::UnknownMarker(marker) => ApiError::bad_request(format!(
                    "The marker {marker} is no active maintenance entry, perhaps not any more. Begin again without it"
                )),
                other => store_error(other),
            })?;
            let Some(last) = page.last().map(|placed| placed.entry.uuid.to_string()) else {
                return Ok(PlacedEntries { entries, more: false });
            };
            let whole = page.len() == query.limit as usize;
            for placed in page {
                entries.extend(visible(cx, placed).filter(|seen| seen.stale || !stale_only));
                if entries.len() == limit as usize {
                    return Ok(PlacedEntries { entries, more: true });
                }
            }
            if !whole {
                return Ok(PlacedEntries { entries, more: false });
            }
            query.marker = Some(last);
            query.limit = STEP;
        }
    }
}

/// The entry as the caller sees it, if the caller sees it.
fn visible(cx: Context<'_>, placed: PlacedEntry) -> Option<SeenPlaced> {
    let PlacedEntry { node, entry } = placed;
    let facts = NodeFacts {
        uuid: node.uuid.clone(),
        owner: node.owner.clone(),
        lessee: node.lessee.clone(),
        ..NodeFacts::default()
    };
    Needs::All(&[authorise::NODE_GET, authorise::ENTRY_GET]).check(cx.caller, &facts).ok()?;
    let stale = entry.is_stale(node.owner.as_deref(), node.lessee.as_deref());
    let seen = as_seen(entry, &authorise::authority(cx.caller, &facts));
    Some(SeenPlaced { node, seen, stale })
}

//! The active entries of all nodes: what a transfer runbook reads.
//!
//! The request is `GET /apelora/v1/maintenance`, beside the Bare Metal API and without its version header. Arguments:
//! `stale` (`true`: only stale ones), `limit` (1 to 1000), `marker` (the uuid of the last entry of the page before). The
//! answer is 200 with
//!
//! ```json
//! {"maintenance": [
//!   {"node": {"uuid": "…", "name": null, "owner": "…", "lessee": null},
//!    "entry": {"uuid": "…", "type": "…", "reason": null, "scope": "owner", "asserted_by": "…", "asserted_by_project": "…",
//!              "asserted_at": "2026-06-10T10:30:00+00:00", "extra": {}, "links": []},
//!    "stale": true}],
//!  "next": "…/apelora/v1/maintenance?stale=true&limit=1000&marker=…"}
//! ```
//!
//! in the order in which the entries were asserted. `entry` is as in `GET /v1/nodes/{node}/maintenance`, masked likewise;
//! nodes that the caller may not see are left out. `stale`: asserted at owner or lessee scope, by a project that is no longer
//! the node's owner or lessee. `next` is there when more may follow.

use apelora_http::Method;
use serde::{Deserialize, Serialize};

use crate::client::{Call, Page, Query};
use crate::{Client, ClientError, Entry, Refusal};

/// The node of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct EntryNode {
    /// Its uuid.
    pub uuid: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The project that owns it now.
    pub owner: Option<String>,
    /// The project that leases it now.
    pub lessee: Option<String>,
}

/// An active entry with its node.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct PlacedEntry {
    /// Where.
    pub node: EntryNode,
    /// What.
    pub entry: Entry,
    /// Whether it was asserted at owner or lessee scope by a project that is no longer the node's owner or lessee.
    pub stale: bool,
}

#[derive(Deserialize)]
struct Body {
    maintenance: Vec<PlacedEntry>,
    next: Option<String>,
}

impl Page for Body {
    type Item = PlacedEntry;

    fn into_parts(self) -> (Vec<PlacedEntry>, bool) {
        (self.maintenance, self.next.is_some())
    }

    fn marker(item: &PlacedEntry) -> Option<&str> {
        Some(&item.entry.uuid)
    }
}

impl Client {
    /// The active entries of all nodes that the caller may see; `stale_only` leaves out those whose project still owns or
    /// leases the node.
    ///
    /// # Errors
    /// [`ClientError`]; [`ClientError::Lacks`] when the server has no such list.
    pub async fn entries_of_all_nodes(&self, stale_only: bool) -> Result<Vec<PlacedEntry>, ClientError> {
        let mut query = Query::default();
        if stale_only {
            query.push("stale", "true");
        }
        let call = Call::new(Method::Get, "/apelora/v1/maintenance".to_owned());
        self.pages::<Body>(call, &query).await.map_err(|why| match why {
            ClientError::Refused(Refusal { status: 404, .. }) => {
                ClientError::Lacks { what: "a list of the entries of all nodes" }
            }
            other => other,
        })
    }
}

//! The history of a node. Source: tests/data/ironic/README.md section 5.

use apelora_http::Method;
use serde::{Deserialize, Serialize};

use crate::client::{Call, Page, Query, node_path};
use crate::{Client, ClientError};

/// Something that happened to a node. What the reader may not learn is missing, as is what older servers do not keep.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct HistoryRecord {
    /// Its id.
    pub uuid: String,
    /// When, as the server writes it: ISO 8601 with offset.
    pub created_at: Option<String>,
    /// `INFO` or `ERROR`.
    pub severity: Option<String>,
    /// Its kind, such as `maintenance`.
    pub event_type: Option<String>,
    /// What happened.
    pub event: Option<String>,
    /// The service that wrote it.
    pub conductor: Option<String>,
    /// The user who did it.
    pub user: Option<String>,
    /// That user's project.
    pub project: Option<String>,
}

#[derive(Deserialize)]
struct Body {
    history: Vec<HistoryRecord>,
    next: Option<String>,
}

impl Page for Body {
    type Item = HistoryRecord;

    fn into_parts(self) -> (Vec<HistoryRecord>, bool) {
        (self.history, self.next.is_some())
    }

    fn marker(item: &HistoryRecord) -> Option<&str> {
        Some(&item.uuid)
    }
}

impl Client {
    /// The history of a node, whole, from the oldest record to the newest.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn history(&self, node: &str) -> Result<Vec<HistoryRecord>, ClientError> {
        let mut query = Query::default();
        query.push("detail", "True");
        self.pages::<Body>(Call::new(Method::Get, format!("{}/history", node_path(node)?)), &query).await
    }
}

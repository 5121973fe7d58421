//! Maintenance entries of one node, and the old flag. Source: docs/maintenance.md, *Entries*.

use apelora_http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::client::{Call, decode, node_path, segment};
use crate::{Client, ClientError};

/// What an older server is missing, for the message.
const ENTRIES: &str = "a list of typed maintenance entries";

/// One active reason why a node is out of service.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Entry {
    /// Its id.
    pub uuid: String,
    /// Its type, such as `operator_hold`. Newer servers may know more types than this client.
    #[serde(rename = "type")]
    pub entry_type: String,
    /// Why.
    pub reason: Option<String>,
    /// The authority with which it was asserted: `system`, `owner` or `lessee`.
    pub scope: String,
    /// The user who asserted it; `None` when the caller may not learn that.
    pub asserted_by: Option<String>,
    /// That user's project, empty without one; `None` when the caller may not learn that.
    pub asserted_by_project: Option<String>,
    /// When, as the server writes it: ISO 8601 with offset.
    pub asserted_at: String,
    /// What the asserter keeps with it.
    #[serde(default)]
    pub extra: Map<String, Value>,
    /// Links to itself.
    #[serde(default)]
    pub links: Vec<Value>,
}

/// An entry to be asserted. Scope and asserter are the caller's, found out by the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NewEntry {
    /// A type that the server's registry offers: `hardware_failure`, `operator_hold`.
    #[serde(rename = "type")]
    pub entry_type: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to keep with it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct Entries {
    maintenance: Vec<Entry>,
}

impl Client {
    /// The active entries of a node, in the order in which they were asserted. `node` is its name or uuid.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn entries(&self, node: &str) -> Result<Vec<Entry>, ClientError> {
        let call = Call::new(Method::Get, path(node)?).needs_entries(ENTRIES);
        Ok(decode::<Entries>(&self.call(&call).await?)?.maintenance)
    }

    /// Asserts an entry.
    ///
    /// # Errors
    /// [`ClientError`]; 409 when the caller's project has an entry of this type and scope already, which is not tried again.
    pub async fn add_entry(&self, node: &str, new: &NewEntry) -> Result<Entry, ClientError> {
        let call = Call::new(Method::Post, path(node)?).json(new)?.needs_entries("a typed maintenance entry");
        decode(&self.call(&call).await?)
    }

    /// Releases the entry of this uuid.
    ///
    /// # Errors
    /// [`ClientError`]; 403 when the caller may not release it.
    pub async fn remove_entry(&self, node: &str, entry: &str) -> Result<(), ClientError> {
        let path = format!("{}/{}", path(node)?, segment("the entry", entry)?);
        let call = Call::new(Method::Delete, path).needs_entries("the release of one maintenance entry");
        self.call(&call).await.map(drop)
    }

    /// Releases all entries of a node, or none of them. Works at every version, on every server.
    ///
    /// # Errors
    /// [`ClientError`]; 403 names every entry that the caller may not release.
    pub async fn clear_maintenance(&self, node: &str) -> Result<(), ClientError> {
        self.call(&Call::new(Method::Delete, path(node)?)).await.map(drop)
    }

    /// Raises the node's flag: makes its `legacy` entry, or changes that entry's reason. Works at every version, on every server.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn set_maintenance(&self, node: &str, reason: Option<&str>) -> Result<(), ClientError> {
        let call = Call::new(Method::Put, path(node)?).json(&json!({"reason": reason}))?;
        self.call(&call).await.map(drop)
    }
}

fn path(node: &str) -> Result<String, ClientError> {
    Ok(format!("{}/maintenance", node_path(node)?))
}

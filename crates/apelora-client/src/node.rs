//! Nodes. Source: tests/data/ironic/README.md section 3.

use apelora_http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::{Call, Page, Query, decode, node_path};
use crate::{Client, ClientError};

/// A node as the server shows it: which fields it has depends on version, request and rights.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Node(pub Map<String, Value>);

impl Node {
    /// A field; `None` when it is missing or null.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A field that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    /// Whether it is out of service.
    #[must_use]
    pub fn maintenance(&self) -> bool {
        self.field("maintenance").and_then(Value::as_bool).unwrap_or(false)
    }
}

/// Which nodes to list, and what of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeQuery {
    /// Only those in maintenance, or only those not in maintenance.
    pub maintenance: Option<bool>,
    /// Only those of this owner.
    pub owner: Option<String>,
    /// Only those of this lessee.
    pub lessee: Option<String>,
    /// Only those with this fault.
    pub fault: Option<String>,
    /// These fields; every one when there is none.
    pub fields: Vec<String>,
}

/// One step of a JSON patch (RFC 6902) on a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOp {
    /// Sets a value, over one that is there.
    Add {
        /// Where, as in `/owner` or `/extra/rack`.
        path: String,
        /// What.
        value: Value,
    },
    /// Removes a value.
    Remove {
        /// Where.
        path: String,
    },
}

#[derive(Deserialize)]
struct Body {
    nodes: Vec<Node>,
    next: Option<String>,
}

impl Page for Body {
    type Item = Node;

    fn into_parts(self) -> (Vec<Node>, bool) {
        (self.nodes, self.next.is_some())
    }

    fn marker(item: &Node) -> Option<&str> {
        item.text("uuid")
    }
}

impl Client {
    /// The nodes that the caller may see.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn nodes(&self, wanted: &NodeQuery) -> Result<Vec<Node>, ClientError> {
        let mut query = Query::default();
        if wanted.fields.is_empty() {
            query.push("detail", "True");
        } else {
            let mut fields = wanted.fields.clone();
            // The uuid leads to the next page.
            if !fields.iter().any(|name| name == "uuid") {
                fields.insert(0, "uuid".to_owned());
            }
            query.push("fields", &fields.join(","));
        }
        if let Some(flag) = wanted.maintenance {
            query.push("maintenance", if flag { "True" } else { "False" });
        }
        for (name, value) in [("owner", &wanted.owner), ("lessee", &wanted.lessee), ("fault", &wanted.fault)]
        {
            if let Some(value) = value {
                query.push(name, value);
            }
        }
        self.pages::<Body>(Call::new(Method::Get, "/v1/nodes".to_owned()), &query).await
    }

    /// One node, by name or uuid.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn node(&self, node: &str) -> Result<Node, ClientError> {
        decode(&self.call(&Call::new(Method::Get, node_path(node)?)).await?)
    }

    /// Makes a node with these fields; `driver` is mandatory.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_node(&self, fields: &Map<String, Value>) -> Result<Node, ClientError> {
        decode(&self.call(&Call::new(Method::Post, "/v1/nodes".to_owned()).json(fields)?).await?)
    }

    /// Changes a node: all steps, or none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn update_node(&self, node: &str, patch: &[PatchOp]) -> Result<Node, ClientError> {
        decode(&self.call(&Call::new(Method::Patch, node_path(node)?).json(&patch)?).await?)
    }

    /// Deletes a node, and with it its entries and its history.
    ///
    /// # Errors
    /// [`ClientError`]; 403 names the entries that the caller may not release.
    pub async fn delete_node(&self, node: &str) -> Result<(), ClientError> {
        self.call(&Call::new(Method::Delete, node_path(node)?)).await.map(drop)
    }
}

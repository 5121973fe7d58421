//! A request to the API, taken apart, and who sends it.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::https::Seen;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caller {
    /// Somebody with access to the Unix socket.
    Socket,
    /// Somebody with this client certificate (SHA-256 of its DER form), or with none.
    Tls(Option<String>),
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: String,
    /// The parts of the path after `/1.0`.
    pub(super) path: Vec<String>,
    query: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Call {
    /// `None` when it is not below `/1.0`.
    pub(super) fn read(seen: &Seen) -> Option<Self> {
        let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
        let rest = path.strip_prefix("/1.0")?;
        if !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        let path = rest
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let body = serde_json::from_slice(&seen.body).unwrap_or_default();
        Some(Self { method: seen.method.clone(), path, query, body })
    }

    /// A parameter of the query.
    pub(super) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The project that is meant.
    pub(super) fn project(&self) -> &str {
        self.query("project").filter(|project| !project.is_empty()).unwrap_or("default")
    }

    pub(super) fn recursion(&self) -> u8 {
        self.query("recursion").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub(super) fn all_projects(&self) -> bool {
        matches!(self.query("all-projects"), Some("true" | "1"))
    }
}

//! The envelopes of the Incus API (`tests/data/incus/README.md` section 1).

use serde_json::{Value, json};

/// An answer: HTTP status and body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn sync(metadata: &Value) -> Self {
        let body = json!({
            "type": "sync", "status": "Success", "status_code": 200, "operation": "", "error_code": 0, "error": "",
            "metadata": metadata,
        });
        Self { status: 200, body }
    }

    /// An operation was begun.
    pub(super) fn operation(operation: &Value) -> Self {
        let url = format!("/1.0/operations/{}", operation["id"].as_str().unwrap_or_default());
        let body = json!({
            "type": "async", "status": "Operation created", "status_code": 100, "operation": url, "error_code": 0,
            "error": "", "metadata": operation,
        });
        Self { status: 202, body }
    }

    pub(super) fn error(code: u16, text: &str) -> Self {
        let body = json!({
            "type": "error", "status": "", "status_code": 0, "operation": "", "error_code": code, "error": text,
            "metadata": null,
        });
        Self { status: code, body }
    }
}

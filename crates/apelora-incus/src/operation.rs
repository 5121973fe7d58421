//! Operations: what runs in the background after a move or a start.

use serde::Deserialize;

use crate::error::shown;

/// The path of every operation begins so.
const PREFIX: &str = "/1.0/operations/";

/// From here on an operation has ended (section 1).
const FINAL: u16 = 200;

/// An operation, by its path: `/1.0/operations/UUID`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(String);

impl OperationId {
    /// Reads the path that an answer, or a stored record, names.
    ///
    /// `None` when it is anything but `/1.0/operations/` and a UUID, perhaps followed by a query, which is dropped.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        is_uuid(path.strip_prefix(PREFIX)?).then(|| Self(path.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The UUID.
    #[must_use]
    pub fn uuid(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or_default()
    }
}

impl std::fmt::Display for OperationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// How an operation ended, as far as the server can still tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded.
    Success,
    /// It failed or was cancelled.
    Failed {
        /// The `error_code` of the wait's answer; the operation's own `status_code` when the wait gave none.
        code: u64,
        /// The error, without control characters, cut at 2000 characters.
        text: String,
    },
    /// The server does not know it (any more): it ended more than 5 s ago, or the member that ran it died. It may
    /// have done everything or nothing: read the instance again.
    Unknown,
}

/// An operation as the server shows it.
#[derive(Debug, Deserialize)]
pub(crate) struct Operation {
    pub(crate) id: String,
    status: String,
    status_code: u16,
    err: String,
}

impl Operation {
    /// How it ended; none while it has not.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.status_code {
            FINAL => Some(Ended::Success),
            code if code > FINAL => {
                let text = if self.err.is_empty() { &self.status } else { &self.err };
                Some(Ended::Failed { code: code.into(), text: shown(text) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_named_by_their_path() {
        let path = "/1.0/operations/95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d";
        let operation = OperationId::parse(path).unwrap();
        assert_eq!((operation.as_str(), operation.uuid()), (path, &path[16..]));
        assert_eq!(OperationId::parse(&format!("{path}?project=web")), Some(operation));
        for wrong in [
            "",
            "/1.0/operations/",
            "/1.0/operations/95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3",
            "/1.0/operations/95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d/websocket",
            "/1.0/operations/../instances/s1?aaaaaaaaaaaaaaaaaaaa",
            "/1.0/operations/95b24ff9/ca1e-4972-9cf0-7cd2a2cc0f3d",
            "https://elsewhere/1.0/operations/95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d",
            "1.0/operations/95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d",
        ] {
            assert_eq!(OperationId::parse(wrong), None, "{wrong}");
        }
    }
}

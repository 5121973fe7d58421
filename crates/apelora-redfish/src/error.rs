//! Why a reading is not there, and what the operator does about it.

use apelora_http::{Cause, HttpError, TlsRefusal};
use uuid::Uuid;

use crate::SystemPath;

/// A BMC could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedfishError {
    /// No answer: not reached, TLS refused, too large, too late.
    #[error("{0}")]
    Http(#[from] HttpError),
    /// 401 or 403. Repeating it can lock the account or block this host.
    #[error(
        "the BMC refuses the account (HTTP {status}{}): check user, password and that HTTP basic authentication is \
         enabled; the account needs the Operator role; repeated attempts may lock it, so wait before the next",
        message(.message_id)
    )]
    Auth {
        /// The status.
        status: u16,
        /// The BMC's message id, when it is well formed.
        message_id: Option<String>,
    },
    /// Any other status than 200.
    #[error("the BMC answers HTTP {status}{} for {path}: {}", message(.message_id), status_remedy(*.status))]
    Status {
        /// The status.
        status: u16,
        /// The path that was asked for.
        path: String,
        /// The BMC's message id, when it is well formed.
        message_id: Option<String>,
    },
    /// A redirect that does more than add or drop a slash. It was not followed.
    #[error(
        "the BMC redirects {path} elsewhere (HTTP {status}), which is never followed: configure the system's own path \
         and the BMC's own address"
    )]
    Redirect {
        /// The status.
        status: u16,
        /// The path that was asked for.
        path: String,
    },
    /// The body is not the JSON it must be.
    #[error(
        "the BMC's answer for {path} is not a valid Redfish resource (line {line}, column {column}): check that the \
         address is a BMC and not a portal or proxy in front of it, and update its firmware"
    )]
    BadJson {
        /// The path that was asked for.
        path: String,
        /// Where, from 1; 0 for an empty body.
        line: usize,
        /// Where, from 1.
        column: usize,
    },
    /// The answer calls itself another resource than the one asked for.
    #[error("the answer for {asked} is about another resource: configure the path which the BMC itself uses")]
    SystemPath {
        /// The path that was asked for.
        asked: SystemPath,
    },
    /// The BMC lists no system.
    #[error("the BMC lists no system: it is not the BMC of one server, or it has not finished starting")]
    NoSystem,
    /// More systems than are looked through, or a paged list.
    #[error("the BMC lists {0} systems or more: configure the path of the system")]
    TooManySystems(usize),
    /// A listed system is not below the collection.
    #[error("the BMC lists a system which is not at /redfish/v1/Systems: configure the path of the system")]
    ForeignMember,
    /// No listed system has the UUID.
    #[error("none of the BMC's systems has the UUID {wanted}, it has {}: check address and UUID of the mapping", list(.seen))]
    NoneCarries {
        /// The UUID looked for.
        wanted: Uuid,
        /// Path and UUID of each listed system.
        seen: Vec<(SystemPath, Option<String>)>,
    },
    /// Several systems have the UUID.
    #[error(
        "several of the BMC's systems have the UUID {0}: identity cannot be told; report it to the vendor"
    )]
    Ambiguous(Uuid),
    /// The user's name cannot be used with basic authentication.
    #[error("the user must not be empty nor contain a colon or a control character")]
    User,
    /// The password cannot be used with basic authentication.
    #[error("the password must not be empty nor contain a control character")]
    Password,
}

impl RedfishError {
    /// A stable word for logs and audit.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Http(why) => http_reason(why),
            Self::Auth { .. } => "http_auth",
            Self::Status { .. } => "http_status",
            Self::Redirect { .. } => "redirect",
            Self::BadJson { .. } => "bad_json",
            Self::SystemPath { .. } => "system_path_mismatch",
            Self::NoSystem => "no_system",
            Self::TooManySystems(_) => "too_many_systems",
            Self::ForeignMember => "target_foreign",
            Self::NoneCarries { seen, .. } if seen.iter().all(|(_, uuid)| uuid.is_none()) => "uuid_missing",
            Self::NoneCarries { .. } => "uuid_mismatch",
            Self::Ambiguous(_) => "uuid_ambiguous",
            Self::User | Self::Password => "mapping_invalid",
        }
    }

    /// Whether the same question may have another answer in a moment: no connection, a BMC that is starting (5xx), an
    /// answer that broke off. Everything else needs a person, and a refused account must not be tried again at once.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Http(why) if http_reason(why) == "bmc_protocol" => false,
            Self::Http(HttpError::NotSent(_) | HttpError::MaybeSent { .. } | HttpError::Deadline { .. }) => {
                true
            }
            Self::Status { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }
}

/// The word for an exchange that came to no answer. The certificate's exact defect is in the error's text.
pub(crate) fn http_reason(why: &HttpError) -> &'static str {
    match why {
        HttpError::Tls(refusal) => tls_reason(refusal),
        HttpError::Deadline { .. } => "deadline",
        HttpError::TooLarge { .. } => "body_too_large",
        HttpError::NotSent(Cause::Protocol(_)) | HttpError::MaybeSent { cause: Cause::Protocol(_), .. } => {
            "bmc_protocol"
        }
        HttpError::NotSent(_) | HttpError::MaybeSent { .. } => "bmc_unreachable",
    }
}

fn tls_reason(refusal: &TlsRefusal) -> &'static str {
    match refusal {
        TlsRefusal::Expired(_) => "tls_expired",
        TlsRefusal::NotYetValid(_) => "tls_not_yet_valid",
        TlsRefusal::WrongName { .. }
        | TlsRefusal::NoAlternativeName
        | TlsRefusal::AddressAsDnsName { .. } => "tls_name",
        TlsRefusal::UnknownIssuer | TlsRefusal::AuthorityAsServer => "tls_issuer",
        _ => "tls_failed",
    }
}

fn message(id: &Option<String>) -> String {
    id.as_ref().map_or_else(String::new, |id| format!(", {id}"))
}

fn status_remedy(status: u16) -> &'static str {
    match status {
        404 | 405 => "check the system's path and that Redfish is enabled",
        429 | 503 => "it is busy or still starting",
        500..=599 => "it has an internal error; if it lasts, restart the BMC",
        _ => "check the address and the system's path",
    }
}

fn list(seen: &[(SystemPath, Option<String>)]) -> String {
    let one = |(path, uuid): &(SystemPath, Option<String>)| {
        format!("{} at {path}", uuid.as_deref().unwrap_or("none"))
    };
    seen.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_asked_again() {
        for (status, passing) in
            [(404, false), (405, false), (429, true), (499, false), (500, true), (503, true), (599, true)]
        {
            let why = RedfishError::Status { status, path: String::new(), message_id: None };
            assert_eq!(why.is_passing(), passing, "{status}");
        }
        let closed = || HttpError::NotSent(Cause::Closed);
        let garbled = HttpError::MaybeSent { cause: Cause::Protocol(String::new()), status: None };
        assert!(RedfishError::Http(closed()).is_passing());
        assert!(!RedfishError::Http(garbled).is_passing());
        assert!(!RedfishError::Http(HttpError::Tls(TlsRefusal::NotTls)).is_passing());
        assert!(!RedfishError::Auth { status: 401, message_id: None }.is_passing());
    }
}

//! What can go wrong with a call, and what the operator does about it.

use std::io::ErrorKind;

use apelora_http::{Cause, HttpError, TlsRefusal};

/// At most so many characters of a peer's text are kept.
const TEXT_LIMIT: usize = 2000;

/// A call without a usable answer. It never means that a member is Offline or that an operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{asked} at {endpoint}: {problem}{}", self.what_to_do())]
pub struct IncusError {
    /// Who was asked.
    pub endpoint: String,
    /// The request: method and path.
    pub asked: String,
    /// What went wrong.
    #[source]
    pub problem: Problem,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no whole answer: not reached, not trusted, too late, too large.
    #[error("{0}")]
    Http(#[source] HttpError),
    /// The server answered with an error.
    #[error("the server refused with error {code}: {text}")]
    Refused {
        /// What kind of error it is, as far as anything depends on that.
        kind: Refusal,
        /// Its `error_code`.
        code: u64,
        /// Its `error`, without control characters, cut at 2000 characters.
        text: String,
    },
    /// An answer that is not what the contract says.
    #[error("the answer cannot be used: {field}: {why}")]
    NotUnderstood {
        /// Which part: `status`, `content-type`, `body`, or the path of a field, such as `metadata[2].status`.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// A redirect. None is followed.
    #[error("the server answers with a redirect ({0}), which is not followed")]
    Redirect(u16),
    /// A name that is not sent, because it could mean something else.
    #[error("the name `{name}` of the {what} is not used: {why}")]
    Name {
        /// What was to be named.
        what: &'static str,
        /// The name, cut at 80 characters.
        name: String,
        /// Why not.
        why: NameProblem,
    },
    /// The operation had not ended by the deadline.
    #[error("the operation has not ended yet")]
    StillRunning,
    /// The two halves of a [`View`](crate::View) came over different connections, so perhaps from different members.
    #[error("the connection broke between the server's name and its member list")]
    ConnectionChanged,
}

/// Why a name is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// Empty: it would name the whole collection.
    #[error("it is empty")]
    Empty,
    /// `.` or `..`: it would name another path.
    #[error("it is a step in a path")]
    Dots,
    /// Longer than 255 bytes.
    #[error("it is longer than 255 bytes")]
    Long,
    /// It begins with `@`: as a target that means a group of members.
    #[error("with @ it means a group of members, not one")]
    Group,
}

/// Kinds of errors that a server answers with. All others are told apart by code and text only, and by reading the
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This client is not trusted at all (`not authorized`, or `auth` is not `trusted`).
    Untrusted,
    /// The client is trusted, and this is beyond what it may: another project, or something of the whole cluster. The
    /// code is 403 or 500.
    Restricted,
    /// The server is not part of a cluster.
    NotClustered,
    /// Code 404: what was asked for is not there, as far as the server knows.
    NotFound,
    /// Any other code from 400 to 499: the state of the cluster does not allow it.
    Conflict,
    /// Everything else: the server, its database or a member that it needs does not work at present.
    Failed,
}

impl Refusal {
    pub(crate) fn of(code: u64, text: &str) -> Self {
        // Only these depend on words, because the codes do not tell them apart.
        if text.contains("Certificate is restricted") {
            Self::Restricted
        } else if text.contains("Server is not clustered") {
            Self::NotClustered
        } else {
            match code {
                401 => Self::Untrusted,
                403 if text == "not authorized" => Self::Untrusted,
                403 => Self::Restricted,
                404 => Self::NotFound,
                400..=499 => Self::Conflict,
                _ => Self::Failed,
            }
        }
    }
}

impl IncusError {
    /// What the operator does about it, where there is something to do.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match &self.problem {
            Problem::Http(why) => of_http(why, self.endpoint.starts_with("unix:")),
            Problem::Refused { kind: Refusal::Untrusted, .. } => Some(
                "the server does not trust this client: add its certificate with `incus config trust add-certificate FILE`, \
                 and check APELORA_INCUS_CLIENT_CERT",
            ),
            Problem::Refused { kind: Refusal::Restricted, .. } => Some(
                "the client certificate is restricted: list the projects it needs with `incus config trust edit`, and \
                 attest what it may not see by APELORA_INCUS_SHARED_POOLS and APELORA_INCUS_HEALING_OFF",
            ),
            Problem::Refused { kind: Refusal::NotClustered, .. } => {
                Some("fencing needs a cluster: check that APELORA_INCUS_URL names members of one")
            }
            Problem::Redirect(_) => {
                Some("name the Incus server itself in APELORA_INCUS_URL, not a web server before it")
            }
            Problem::NotUnderstood { .. } => Some(
                "check that APELORA_INCUS_URL names an Incus server, and its version against the supported ones",
            ),
            _ => None,
        }
    }

    /// The server's `error_code`, when it answered with an error.
    #[must_use]
    pub fn code(&self) -> Option<u64> {
        match &self.problem {
            Problem::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The kind of error that the server answered with, if it did.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match &self.problem {
            Problem::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// `false` only when not a byte of the request can have reached the server. After `true` for a move or a start,
    /// the instance is read again before anything is concluded.
    #[must_use]
    pub fn may_have_been_sent(&self) -> bool {
        match &self.problem {
            Problem::Http(why) => why.may_have_been_sent(),
            Problem::Name { .. } => false,
            _ => true,
        }
    }

    fn what_to_do(&self) -> String {
        self.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default()
    }
}

fn of_http(why: &HttpError, unix: bool) -> Option<&'static str> {
    match why {
        HttpError::NotSent(Cause::Connect { why, .. }) if unix => Some(match why.kind() {
            ErrorKind::PermissionDenied => {
                "add the service's user to the group incus-admin and restart the service"
            }
            ErrorKind::NotFound => {
                "check that Incus is installed here and that APELORA_INCUS_URL names its socket; the socket exists on members only"
            }
            _ => "check that incusd runs",
        }),
        HttpError::Tls(TlsRefusal::NotPinned) => Some(
            "put the present cluster certificate (/var/lib/incus/cluster.crt) into the file of APELORA_INCUS_SERVER_CERT; \
             keep the old one beside it while members are renewed; if nobody renewed it, somebody is between",
        ),
        HttpError::Tls(
            TlsRefusal::UnknownIssuer
            | TlsRefusal::WrongName { .. }
            | TlsRefusal::NoAlternativeName
            | TlsRefusal::AddressAsDnsName { .. },
        ) => Some("a cluster's own certificate is pinned: name its file in APELORA_INCUS_SERVER_CERT"),
        HttpError::Tls(TlsRefusal::ClientCertificate(_))
        | HttpError::NotSent(Cause::Tls(_))
        | HttpError::MaybeSent { cause: Cause::Tls(_), .. } => {
            Some("add it with `incus config trust add-certificate FILE`")
        }
        _ => None,
    }
}

/// A peer's text, made safe to print.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(TEXT_LIMIT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

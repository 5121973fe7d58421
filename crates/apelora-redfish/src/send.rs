//! What became of a `ForceOff`.

use apelora_http::HttpError;

use crate::error::http_reason;
use crate::{NoReset, PowerWord};

/// The outcome of one [`force_off`](crate::Conversation::force_off).
#[derive(Debug)]
pub enum SendReport {
    /// Proven: no byte of the request left. Nothing that changes power happened.
    NotSent(NotSent),
    /// The request may have reached the BMC, and the BMC may have carried it out. Only reading again tells.
    MaybeSent(ResetAnswer),
}

impl SendReport {
    /// Whether power may have been changed.
    #[must_use]
    pub fn may_have_been_sent(&self) -> bool {
        matches!(self, Self::MaybeSent(_))
    }
}

/// Why no `ForceOff` was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// The reading is not the last one of this conversation, or was used for a send before.
    #[error("the reading is not the latest one of this conversation: read again")]
    NotFresh,
    /// The reading does not say that the system is running.
    #[error("the system reads {0}, and a power-off is only sent to a running system")]
    NotRunning(PowerWord),
    /// The system has no usable reset.
    #[error("{0}")]
    NoReset(NoReset),
    /// The caller's permission had ended.
    #[error("the permission ended before the request was sent")]
    Withdrawn,
    /// There was no connection for it.
    #[error("{0}")]
    Http(HttpError),
}

impl NotSent {
    /// A stable word for logs and audit.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotRunning(PowerWord::Off) => "already_off",
            Self::NotRunning(_) => "power_state_unknown",
            Self::NoReset(NoReset::Foreign) => "target_foreign",
            Self::NoReset(NoReset::NotOffered | NoReset::NotAllowed) => "reset_not_offered",
            // A reading that is spent permits nothing either.
            Self::Withdrawn | Self::NotFresh => "permit_expired",
            Self::Http(why) => http_reason(why),
        }
    }
}

/// The BMC's answer to a `ForceOff`. It never proves anything about power; some BMCs report success and do nothing, some
/// report an error and switch off.
#[derive(Debug)]
pub enum ResetAnswer {
    /// 2xx.
    Accepted {
        /// The status.
        status: u16,
    },
    /// 401 or 403: the account may not reset. Nothing more may be sent with it.
    Denied {
        /// The status.
        status: u16,
        /// The BMC's message id, when it is well formed.
        message_id: Option<String>,
    },
    /// 3xx: not followed.
    Redirected {
        /// The status.
        status: u16,
    },
    /// Any other status: read again.
    Rejected {
        /// The status.
        status: u16,
        /// The BMC's message id, when it is well formed.
        message_id: Option<String>,
    },
    /// No status came: read again.
    None(HttpError),
}

impl ResetAnswer {
    /// The status, when one came.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Accepted { status }
            | Self::Denied { status, .. }
            | Self::Redirected { status }
            | Self::Rejected { status, .. } => Some(*status),
            Self::None(_) => None,
        }
    }

    /// A stable word for an answer that says no.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Accepted { .. } | Self::None(_) => None,
            Self::Denied { .. } => Some("http_auth"),
            Self::Redirected { .. } => Some("redirect"),
            Self::Rejected { .. } => Some("reset_rejected"),
        }
    }

    /// Whether reading back is pointless: the BMC has not acted and says why.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Denied { .. } | Self::Redirected { .. })
    }
}

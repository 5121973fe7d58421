//! The labels of the figures, and the closed lists of their values.

use prometheus_client::encoding::EncodeLabelSet;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OutcomeLabel {
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabel {
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabel {
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct MemberLabel {
    pub(super) member: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LockspaceLabel {
    pub(super) lockspace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) provider: &'static str,
    pub(super) operation: &'static str,
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OperationLabels {
    pub(super) provider: &'static str,
    pub(super) operation: &'static str,
}

/// What is asked of a BMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Connecting and authenticating.
    Open,
    /// Identity and power, always together.
    Read,
    /// The power-off.
    PowerOff,
}

impl Operation {
    pub(super) const ALL: [Self; 3] = [Self::Open, Self::Read, Self::PowerOff];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::PowerOff => "power_off",
        }
    }
}

/// How a renewal of the lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Renewed,
    Failed,
    Deposed,
    /// Not tried: the deciding loop had not moved for too long.
    Withheld,
}

impl Renewal {
    pub(super) const ALL: [Self; 4] = [Self::Renewed, Self::Failed, Self::Deposed, Self::Withheld];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Failed => "failed",
            Self::Deposed => "deposed",
            Self::Withheld => "withheld",
        }
    }
}

/// What became of an instance of a fenced member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// It runs elsewhere.
    Restarted,
    /// It was moved and not started, as it is configured.
    Moved,
    Stayed,
    GaveUp,
}

impl Recovered {
    pub(super) const ALL: [Self; 4] = [Self::Restarted, Self::Moved, Self::Stayed, Self::GaveUp];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::Moved => "moved",
            Self::Stayed => "stayed",
            Self::GaveUp => "gave_up",
        }
    }
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassResult {
    Complete,
    ClusterUnreadable,
    StoreUnreadable,
}

impl PassResult {
    pub(super) const ALL: [Self; 3] = [Self::Complete, Self::ClusterUnreadable, Self::StoreUnreadable];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClusterUnreadable => "cluster_unreadable",
            Self::StoreUnreadable => "store_unreadable",
        }
    }
}

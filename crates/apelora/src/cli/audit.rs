//! The command line of the audit trail.

use clap::{Args, Subcommand, ValueEnum};

use super::Process;
use crate::config::ClientSettings;

/// Read the audit trail.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List rows of the audit trail, from the oldest to the newest.
    List(Box<ListAudit>),
}

/// `audit list`.
#[derive(Debug, Args)]
pub(crate) struct ListAudit {
    /// Only rows about this cluster member
    #[arg(long, value_name = "MEMBER")]
    pub(crate) member: Option<String>,
    /// Only rows about this node, by uuid or by the name that it had
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Only rows of this action, such as cluster.member.power_off
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,
    /// Only rows of this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = ["success", "failed", "refused"])]
    pub(crate) outcome: Option<String>,
    /// Only what this user did
    #[arg(long, value_name = "USER")]
    pub(crate) actor: Option<String>,
    /// Only rows of this time or later: ISO 8601, in UTC unless it says otherwise
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only rows before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// From the newest row to the oldest
    #[arg(long)]
    pub(crate) newest_first: bool,
    /// At most so many rows [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// How the rows are printed
    #[arg(long, value_enum, default_value_t = AuditFormat::Text)]
    pub(crate) format: AuditFormat,
    #[command(flatten)]
    pub(crate) process: Process<ClientSettings>,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFormat {
    /// A table for people.
    Text,
    /// One JSON array.
    Json,
    /// One JSON object on each line, as they come.
    Jsonl,
    /// CSV with a line of headings, as they come; cells that a spreadsheet would calculate begin with an apostrophe.
    Csv,
}

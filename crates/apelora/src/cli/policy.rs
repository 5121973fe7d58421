//! The command line of the policy.

use clap::{Args, Subcommand};

use super::Asked;
use crate::config::PolicyConfig;

/// Ask who may do what, and why.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Check the policy files; with rules, say whether a caller passes them on a node, and which check decides.
    Check(Box<CheckPolicy>),
    /// Print every built-in rule with what it permits, as a policy file.
    Sample,
    /// Judge rules: JSON lines in, JSON lines out.
    #[command(
        long_about = "Judge rules. Each line of the standard input is an object with `rules` (an object from names to \
                      rules), `rule` (the name to judge), `creds` and `target` (two objects); each line of the output is \
                      {\"result\": \"allow\"|\"deny\"|\"reject\", \"reason\": \"...\"}."
    )]
    Eval,
}

/// `policy check`.
#[derive(Debug, Args)]
pub(crate) struct CheckPolicy {
    /// The rules to judge, such as baremetal:node:maintenance:add; without one, only the files are checked
    #[arg(value_name = "RULE")]
    pub(crate) rules: Vec<String>,
    #[command(flatten)]
    pub(crate) persona: Persona,
    /// Judge for this node, by name or uuid, fetched from the server
    #[arg(long, value_name = "NODE", help_heading = "Node", conflicts_with_all = ["owner", "lessee"])]
    pub(crate) node: Option<String>,
    /// The node's owner
    #[arg(long, value_name = "PROJECT", help_heading = "Node")]
    pub(crate) owner: Option<String>,
    /// The node's lessee
    #[arg(long, value_name = "PROJECT", help_heading = "Node")]
    pub(crate) lessee: Option<String>,
    /// Judge for an entry of this type
    #[arg(long, value_name = "TYPE", help_heading = "Entry")]
    pub(crate) entry_type: Option<String>,
    /// The entry's scope
    #[arg(long, value_name = "SCOPE", help_heading = "Entry", requires = "entry_type", value_parser = ["system", "owner", "lessee"])]
    pub(crate) entry_scope: Option<String>,
    /// The user who asserted the entry
    #[arg(long, value_name = "USER", help_heading = "Entry", requires = "entry_type")]
    pub(crate) entry_asserted_by: Option<String>,
    /// That user's project
    #[arg(long, value_name = "PROJECT", help_heading = "Entry", requires = "entry_type")]
    pub(crate) entry_project: Option<String>,
    #[command(flatten)]
    pub(crate) asked: Asked<PolicyConfig>,
}

/// For whom to judge.
#[derive(Debug, Args)]
#[command(next_help_heading = "Caller")]
pub(crate) struct Persona {
    /// A role that the caller has; can be repeated
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Vec<String>,
    /// The caller's project, by id
    #[arg(long, value_name = "PROJECT", conflicts_with_all = ["system", "domain"])]
    pub(crate) project: Option<String>,
    /// The name of the caller's project
    #[arg(long, value_name = "NAME", requires = "project")]
    pub(crate) project_name: Option<String>,
    /// The caller has a token for the whole deployment
    #[arg(long, conflicts_with = "domain")]
    pub(crate) system: bool,
    /// The caller has a token for this domain, by id
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// The caller, by id
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

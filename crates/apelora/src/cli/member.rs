//! The command line of members, their fencing, and what a person says about them.

use clap::{Args, Subcommand};

use super::{CheckBmc, Remote};

/// Look at the cluster's members and say that one is off.
#[derive(Debug, Subcommand)]
pub(crate) enum Member {
    /// List the members: status, proof, verdict, BMC.
    List(Remote),
    /// Show everything about a member: guards, proofs, records, instances.
    Show(ShowMember),
    /// Give your word that a member is off, upon which its instances start elsewhere; asks for the name again.
    ConfirmOff(ConfirmOff),
}

/// `member show`.
#[derive(Debug, Args)]
pub(crate) struct ShowMember {
    /// The member, by its name in the cluster
    pub(crate) member: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `member confirm-off`.
#[derive(Debug, Args)]
pub(crate) struct ConfirmOff {
    /// The member, by its name in the cluster
    pub(crate) member: String,
    /// How you know that it is off; stands in the audit trail
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// The member's name once more, where nobody can be asked for it
    #[arg(long, value_name = "MEMBER")]
    pub(crate) yes: Option<String>,
    /// The incarnation that you looked at; the word is refused if the member was seen Online since
    #[arg(long, value_name = "NUMBER", requires = "yes")]
    pub(crate) incarnation: Option<u64>,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Look after the management controllers of the servers.
#[derive(Debug, Subcommand)]
pub(crate) enum Bmc {
    /// Reach each mapped BMC, compare its UUID and read its power state; changes nothing.
    ///
    /// To be run on the worker's host, with the worker's environment. Exits with 1 when a BMC could not be used to
    /// switch its server off.
    Check(CheckBmc),
    /// Trust a member's entry of the BMC map again; refused while its BMC still contradicts the cluster.
    Trust(TrustBmc),
}

/// `bmc trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustBmc {
    /// The member, by its name in the cluster
    pub(crate) member: String,
    /// What was wrong and was put right; stands in the audit trail
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// `fence explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainMember {
    /// The member, by its name in the cluster
    pub(crate) member: String,
    /// Print the judged world alone, for `apelora fence replay`
    #[arg(long)]
    pub(crate) world: bool,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// Look at the settings in force.
#[derive(Debug, Subcommand)]
pub(crate) enum Settings {
    /// Show the settings of the leading worker and of the server, and the BMC map; never a secret.
    Show(Remote),
}

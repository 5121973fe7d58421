//! The command line.

mod audit;
mod demo;
mod member;
mod node;
mod policy;
mod worker;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use audit::{Audit, AuditFormat, ListAudit};
pub(crate) use demo::{Demo, DemoVerb, OneMember};
pub(crate) use member::{Bmc, ConfirmOff, ExplainMember, Member, Settings, ShowMember, TrustBmc};
pub(crate) use node::{
    AddEntry, ClearMaintenance, CreateNode, DeleteNode, ListEntries, ListNodes, Maintenance, Node,
    NodeFields, RemoveEntries, SetMaintenance, SetNode, ShowNode,
};
pub(crate) use policy::{CheckPolicy, Persona, Policy};
pub(crate) use worker::{CheckBmc, Lease, Worker};

use crate::config::{ClientSettings, Configuration, DatabaseConfig, Flags, ServerConfig};
use crate::output::Format;

/// Keeps a fleet of servers safe to work on and safe to lose.
#[derive(Debug, Parser)]
#[command(name = "apelora", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve the Bare Metal API.
    Server(Process<ServerConfig>),
    /// Watch the cluster: switch failed servers off, prove it, and restart what they ran elsewhere.
    Worker(Box<Worker>),
    /// Work on the database: its schema, and the flags that older services changed.
    #[command(subcommand)]
    Db(Db),
    /// Try it: everything on loopback, with a fleet and a cluster of its own in a temporary folder.
    Demo(Demo),
    /// Work with nodes and their maintenance.
    #[command(subcommand)]
    Node(Box<Node>),
    /// Look back at what happened to a node.
    #[command(subcommand)]
    History(History),
    /// Ask who may do what, and why.
    #[command(subcommand)]
    Policy(Policy),
    /// Look at the cluster's members and say that one is off.
    #[command(subcommand)]
    Member(Box<Member>),
    /// Look after the management controllers of the servers.
    #[command(subcommand)]
    Bmc(Box<Bmc>),
    /// Look into decisions about switching servers off.
    #[command(subcommand)]
    Fence(Box<Fence>),
    /// Look at storage leases.
    #[command(subcommand)]
    Lease(Box<Lease>),
    /// Read the audit trail.
    #[command(subcommand)]
    Audit(Audit),
    /// Look at the settings in force.
    #[command(subcommand)]
    Settings(Box<Settings>),
    /// Print the version of the program and of the API that it serves.
    Version {
        #[command(flatten)]
        output: Output,
    },
    /// Write what a package holds beside the program: a sample of the settings, manual pages, completions for shells.
    #[command(hide = true)]
    PackageFiles {
        /// The folder to write into; made if it is missing
        folder: PathBuf,
    },
}

/// Work on the database.
#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Bring the schema up to this version, and flags and entries together if that is due.
    Upgrade(DbVerb),
    /// Show the version of the schema and whether a backfill is due.
    Status(DbVerb),
    /// Bring flags and entries together after older services changed flags, and print what was done.
    Backfill(DbVerb),
    /// Say that the database was just restored from a backup: until it is seen or proven again, no member counts as off.
    Restored(DbVerb),
}

/// A process and its settings.
#[derive(Debug, Args)]
pub(crate) struct Process<C: Configuration> {
    /// The TOML file with settings [env: APELORA_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Flags<C>,
}

/// A verb that prints a result, and its settings.
#[derive(Debug, Args)]
pub(crate) struct Asked<C: Configuration> {
    #[command(flatten)]
    pub(crate) process: Process<C>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// A verb on the database.
pub(crate) type DbVerb = Asked<DatabaseConfig>;
/// A verb that asks a server.
pub(crate) type Remote = Asked<ClientSettings>;

/// Look into decisions about switching servers off.
#[derive(Debug, Subcommand)]
pub(crate) enum Fence {
    /// Decide again on worlds as they are stored with each decision: JSON in, one JSON line for each out.
    Replay,
    /// Ask the control plane what was decided last about a member, guard by guard, with the numbers.
    Explain(ExplainMember),
}

/// Look back at what happened to a node.
#[derive(Debug, Subcommand)]
pub(crate) enum History {
    /// List what happened to a node, from the oldest to the newest.
    List(ListHistory),
}

/// `history list`.
#[derive(Debug, Args)]
pub(crate) struct ListHistory {
    /// The node, by name or uuid
    pub(crate) node: String,
    #[command(flatten)]
    pub(crate) remote: Remote,
}

/// How results are printed.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }

    /// The table in `docs/commands.md` is this one.
    #[test]
    fn the_document_lists_every_command() {
        let mut rows = String::from("| command | |\n|---|---|\n");
        let mut open = vec![(String::new(), super::Cli::command())];
        while let Some((before, command)) = open.pop() {
            let name = format!("{before}{}", command.get_name());
            if !command.is_subcommand_required_set() {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                let arguments =
                    command.get_positionals().map(|argument| format!(" {argument}")).collect::<String>();
                rows.push_str(&format!("| `{name}{arguments}` | {about} |\n"));
            }
            let below: Vec<_> = command.get_subcommands().filter(|c| !c.is_hide_set()).cloned().collect();
            open.extend(below.into_iter().rev().map(|command| (format!("{name} "), command)));
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("docs/commands.md: {e}"));
        assert!(text.contains(&rows), "docs/commands.md must hold exactly this table:\n{rows}");
    }
}

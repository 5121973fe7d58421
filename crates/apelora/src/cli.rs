//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Configuration, DatabaseConfig, Flags, ServerConfig};
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
    /// Work on the database: its schema, and the flags that older services changed.
    #[command(subcommand)]
    Db(Db),
    /// Try it: everything on loopback, with a fleet of its own in a temporary folder.
    Demo(Demo),
    /// Print the version of the program and of the API that it serves.
    Version {
        #[command(flatten)]
        output: Output,
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

/// A verb on the database.
#[derive(Debug, Args)]
pub(crate) struct DbVerb {
    #[command(flatten)]
    pub(crate) process: Process<DatabaseConfig>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How results are printed.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Where the demo serves.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The loopback address of the API [default: 127.0.0.1:6385, or a free port when that one is taken]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback)]
    pub(crate) listen: Option<SocketAddr>,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "give ADDRESS:PORT with a numeric address, such as 127.0.0.1:0".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the demo lets everybody in, so it serves on a loopback address only, such as 127.0.0.1:0"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}

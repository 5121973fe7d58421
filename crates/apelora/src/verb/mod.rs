//! The verbs of the command line.

mod db;
mod demo;
mod fence;
mod history;
mod maintenance;
mod node;
mod policy;
mod remote;
mod server;
mod version;

use std::ffi::OsString;

use crate::cli::{Cli, Process, Verb};
use crate::config::{Configuration, OneLine, Provenance, Sources, load};
use crate::failure::Failure;

/// Does what was asked. `environment` is the whole environment of the process.
///
/// # Errors
/// Why it was not done.
pub(crate) fn run(cli: Cli, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    match cli.verb {
        Verb::Server(process) => {
            let (config, provenance) = configure(process, environment)?;
            server::run(config, &provenance)
        }
        Verb::Db(verb) => db::run(verb, environment),
        Verb::Demo(options) => demo::run(&options),
        Verb::Node(verb) => node::run(*verb, environment),
        Verb::History(verb) => history::run(verb, environment),
        Verb::Policy(verb) => policy::run(verb, environment),
        Verb::Fence(verb) => fence::run(&verb),
        Verb::Version { output } => version::print(output.format),
    }
}

fn configure<C: Configuration>(
    process: Process<C>,
    environment: Vec<(OsString, OsString)>,
) -> Result<(C, Provenance), OneLine> {
    load(&Sources { file: process.config, environment, flags: process.settings })
}

//! The verbs of the command line.

mod audit;
mod bmc;
mod confirm;
mod db;
mod demo;
mod fence;
mod history;
mod lease;
mod maintenance;
mod member;
mod node;
mod package_files;
mod policy;
mod remote;
mod server;
mod settings;
mod version;
mod worker;

use std::ffi::OsString;

use crate::cli::{Bmc, Cli, Process, Verb};
use crate::config::{Configuration, OneLine, Provenance, Sources, load};
use crate::failure::Failure;
use crate::systemd::Systemd;

/// Does what was asked. `environment` is the whole environment of the process.
///
/// # Errors
/// Why it was not done.
pub(crate) fn run(cli: Cli, environment: Vec<(OsString, OsString)>) -> Result<(), Failure> {
    match cli.verb {
        Verb::Server(process) => {
            let systemd = Systemd::of(&environment);
            let (config, provenance) = configure(process, environment)?;
            server::run(config, &provenance, &systemd)
        }
        Verb::Worker(options) => worker::run(*options, environment),
        Verb::Db(verb) => db::run(verb, environment),
        Verb::Demo(options) => demo::run(options, &environment),
        Verb::Node(verb) => node::run(*verb, environment),
        Verb::History(verb) => history::run(verb, environment),
        Verb::Policy(verb) => policy::run(verb, environment),
        Verb::Member(verb) => member::run(*verb, environment),
        Verb::Bmc(verb) => match *verb {
            Bmc::Check(options) => bmc::check(options, environment),
            Bmc::Trust(options) => member::trust(options, environment),
        },
        Verb::Fence(verb) => fence::run(*verb, environment),
        Verb::Lease(verb) => lease::run(*verb, environment),
        Verb::Audit(verb) => audit::run(verb, environment),
        Verb::Settings(verb) => settings::run(*verb, environment),
        Verb::Version { output } => version::print(output.format),
        Verb::PackageFiles { folder } => package_files::write(&folder),
    }
}

fn configure<C: Configuration>(
    process: Process<C>,
    environment: Vec<(OsString, OsString)>,
) -> Result<(C, Provenance), OneLine> {
    load(&Sources { file: process.config, environment, flags: process.settings })
}

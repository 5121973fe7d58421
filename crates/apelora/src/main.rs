//! The one binary: command line, configuration and the wiring of the processes.
//!
//! Results go to the standard output, everything else to the standard error. Exit codes: 0 done, 1 refused or failed,
//! 2 wrong usage or a wrong setting.

mod cli;
mod config;
mod demo;
mod failure;
mod filesystem;
mod logging;
mod output;
mod printable;
mod real;
mod signals;
mod systemd;
mod table;
mod upkeep;
mod verb;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match verb::run(cli, real::environment()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            failure.exit_code()
        }
    }
}

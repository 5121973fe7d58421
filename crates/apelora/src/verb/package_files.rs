//! `apelora package-files`: what a package holds beside the program. Everything in it follows from the command line and
//! the table of settings, so that it cannot say anything else than the program does.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::config::sample;
use crate::failure::Failure;

/// Writes `apelora.toml`, `man/` and `completions/` into a folder.
pub(super) fn write(folder: &Path) -> Result<(), Failure> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    fs::write(folder.join("apelora.toml"), sample())?;
    clap_mangen::generate_to(shown(&Cli::command()), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut shown(&Cli::command()), "apelora", &completions)?;
    }
    Ok(())
}

/// The commands that are shown to people.
fn shown(command: &Command) -> Command {
    let (kept, name) = (command.get_subcommands().filter(|c| !c.is_hide_set()).cloned(), "apelora");
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(kept.collect::<Vec<_>>())
}

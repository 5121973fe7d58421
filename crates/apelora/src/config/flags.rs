//! One flag for each setting of a process, made from the table of settings.

use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::Configuration;
use super::table::Setting;

/// The settings of process `C` that were given on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Flags<C> {
    given: Vec<(&'static Setting, String)>,
    process: PhantomData<fn() -> C>,
}

impl<C> Flags<C> {
    pub(crate) fn given(&self) -> &[(&'static Setting, String)] {
        &self.given
    }

    #[cfg(test)]
    pub(crate) fn of(given: Vec<(&'static Setting, String)>) -> Self {
        Self { given, process: PhantomData }
    }
}

/// None.
impl<C> Default for Flags<C> {
    fn default() -> Self {
        Self { given: Vec::new(), process: PhantomData }
    }
}

impl<C: Configuration> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = C::settings()
            .iter()
            .filter_map(|s| Some((*s, matches.get_one::<String>(s.name)?.clone())))
            .collect();
        Ok(Self { given, process: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<C: Configuration> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        command.next_help_heading("Settings").args(C::settings().iter().map(|setting| {
            let default = setting.default.map_or_else(String::new, |d| format!(" [default: {d}]"));
            Arg::new(setting.name)
                .long(setting.flag())
                .value_name(setting.placeholder)
                .allow_hyphen_values(true)
                .help(format!("{}{default} [env: {}]", setting.doc, setting.env()))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

//! Why a command did not do what was asked.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::config::OneLine;

/// A command that ends without having done what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A setting is wrong: exit code 2.
    Setting(OneLine),
    /// It was refused or failed: exit code 1.
    Failed(String),
    /// It was refused, and the results say so already: exit code 1.
    Shown,
    /// The reader of the output went away, as `head` does: nothing to say, exit code 1.
    OutputClosed,
}

impl Failure {
    /// A failure with its causes, for a person at the prompt.
    pub(crate) fn because(error: &(dyn Error + 'static)) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let next = error.to_string();
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        Self::Failed(text)
    }

    /// The process's answer to its caller.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setting(_) => ExitCode::from(2),
            Self::Failed(_) | Self::Shown | Self::OutputClosed => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(line) => line.fmt(f),
            Self::Failed(text) => f.write_str(text),
            Self::Shown => f.write_str("refused"),
            Self::OutputClosed => f.write_str("the output was closed"),
        }
    }
}

impl From<OneLine> for Failure {
    fn from(line: OneLine) -> Self {
        Self::Setting(line)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::because(&error)
        }
    }
}

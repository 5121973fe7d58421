//! What a command prints: results on the standard output, words on the standard error.

use std::io::{self, Write as _};

use crate::failure::Failure;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document.
    Json,
}

/// Prints results: `text` for people, or the JSON document.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn print(format: Format, text: &str, json: &serde_json::Value) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match format {
        Format::Text => writeln!(out, "{text}")?,
        Format::Json => writeln!(out, "{json:#}")?,
    }
    out.flush()?;
    Ok(())
}

/// Words beside the result, for a person who waits.
pub(crate) fn say(words: &str) {
    // Nobody to tell when the standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{words}");
}

/// The last words of a command that failed.
pub(crate) fn complain(failure: &Failure) {
    if !matches!(failure, Failure::OutputClosed) {
        say(&format!("apelora: {failure}"));
    }
}

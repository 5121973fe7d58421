//! What a command prints: results on the standard output, words on the standard error.

use std::io::{self, IsTerminal as _, Write as _};

use crate::failure::Failure;
use crate::printable::printable_json;

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
        Format::Json => writeln!(out, "{}", printable_json(&format!("{json:#}")))?,
    }
    out.flush()?;
    Ok(())
}

/// Prints a text that is the whole result, whatever the format.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn raw(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// How many columns the terminal has, if the results go to one.
pub(crate) fn columns() -> Option<usize> {
    let out = io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

/// Words beside the result, for a person who waits.
pub(crate) fn say(words: &str) {
    // Nobody to tell when the standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{words}");
}

/// The last words of a command that failed.
pub(crate) fn complain(failure: &Failure) {
    if !matches!(failure, Failure::OutputClosed | Failure::Shown) {
        say(&format!("apelora: {failure}"));
    }
}

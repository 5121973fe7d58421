//! How tests run the command, and the command line itself.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// The standard output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }
}

/// The command with nothing in its environment but these variables, in this folder.
pub(crate) fn apelora(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apelora"));
    command.args(arguments).env_clear().envs(environment.iter().copied()).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) fn run(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Done {
    let done = apelora(folder, environment, arguments).output().unwrap();
    Done {
        code: done.status.code().unwrap_or(-1),
        out: String::from_utf8(done.stdout).unwrap(),
        err: String::from_utf8(done.stderr).unwrap(),
    }
}

/// A folder that goes with the test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn version_is_data() {
    let here = folder();
    let text = run(here.path(), &[], &["version"]);
    assert_eq!((text.code, text.err.as_str()), (0, ""), "{text:?}");
    assert_eq!(
        text.out,
        format!("apelora {}\nBare Metal API 1.1 to 1.116\n", env!("CARGO_PKG_VERSION")),
        "{text:?}"
    );
    let json = run(here.path(), &[], &["version", "--format", "json"]).json();
    assert_eq!(
        json,
        serde_json::json!({"version": env!("CARGO_PKG_VERSION"), "api_min_version": "1.1", "api_max_version": "1.116"})
    );
    let short = run(here.path(), &[], &["--version"]);
    assert_eq!((short.code, short.out), (0, format!("apelora {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn help_is_on_the_standard_output_and_names_every_verb() {
    let here = folder();
    let help = run(here.path(), &[], &["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    for verb in ["server", "db", "demo", "version"] {
        assert!(help.out.contains(&format!("\n  {verb} ")), "{verb} in {}", help.out);
    }
    let server = run(here.path(), &[], &["server", "--help"]).out;
    for flag in ["--config", "--database-url", "--listen", "--auth-strategy", "--log-format"] {
        assert!(server.contains(flag), "{flag} in {server}");
    }
    assert!(
        server.contains("[env: APELORA_LISTEN]") && server.contains("[default: 127.0.0.1:6385]"),
        "{server}"
    );
}

#[test]
fn wrong_usage_is_exit_code_2_on_the_standard_error() {
    let here = folder();
    for arguments in [
        &[][..],
        &["serve"],
        &["server", "--listen"],
        &["server", "--frob"],
        &["db"],
        &["db", "downgrade"],
        &["version", "--format", "xml"],
        &["demo", "--listen", "0.0.0.0:0"],
        &["demo", "--listen", "localhost"],
    ] {
        let done = run(here.path(), &[], arguments);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{arguments:?}: {done:?}");
        assert!(!done.err.is_empty(), "{arguments:?}");
    }
}

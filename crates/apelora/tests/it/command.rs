//! How tests run the command, and the command line itself.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    fn of(done: Output) -> Self {
        Self {
            code: done.status.code().unwrap_or(-1),
            out: String::from_utf8(done.stdout).unwrap(),
            err: String::from_utf8(done.stderr).unwrap(),
        }
    }

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
    Done::of(apelora(folder, environment, arguments).output().unwrap())
}

/// Runs it to its end with this on its standard input.
pub(crate) fn run_with_input(folder: &Path, arguments: &[&str], input: &str) -> Done {
    let mut command = apelora(folder, &[], arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // From another thread: the command may answer before it has read everything.
    let written = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let done = child.wait_with_output().unwrap();
    written.join().unwrap();
    Done::of(done)
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
    for verb in [
        "server", "worker", "db", "demo", "node", "history", "policy", "member", "bmc", "fence", "lease",
        "audit", "settings", "version",
    ] {
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
        &["node"],
        &["node", "show"],
        &["node", "create"],
        &["node", "list", "--maintenance", "--no-maintenance"],
        &["node", "maintenance", "add", "n1"],
        &["node", "maintenance", "add", "n1", "--type", "operator_hold", "--extra", "rack"],
        &["node", "maintenance", "list"],
        &["node", "maintenance", "list", "n1", "--all-nodes"],
        &["node", "maintenance", "list", "n1", "--stale"],
        &["node", "maintenance", "remove", "n1"],
        &["node", "maintenance", "remove", "n1", "8d8d9a25", "--all"],
        &["history", "list"],
        &["policy", "check", "--entry-scope", "owner"],
        &["policy", "check", "--system", "--project", "p"],
        &["fence", "replay", "x"],
        &["worker", "--bmc-secret-s1", "x"],
        &["bmc"],
        &["bmc", "check", "s1", "s2"],
        &["lease"],
        &["demo", "break"],
        &["demo", "burn", "s3"],
        &["fence", "explain"],
        &["member"],
        &["member", "show"],
        &["member", "confirm-off", "s1"],
        &["member", "confirm-off", "s1", "--reason", "r", "--incarnation", "1"],
        // Nobody can be asked, and nobody has repeated the name.
        &["member", "confirm-off", "s1", "--reason", "r"],
        &["member", "confirm-off", "s1", "--reason", "r", "--yes"],
        &["member", "confirm-off", "s1", "--reason", "r", "--yes", "s2"],
        &["bmc", "trust", "s1"],
        &["audit", "list", "--format", "xml"],
        &["audit", "list", "--limit", "0"],
        &["audit", "list", "--outcome", "perhaps"],
        &["settings", "show", "x"],
    ] {
        let done = run(here.path(), &[], arguments);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{arguments:?}: {done:?}");
        assert!(!done.err.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_package_gets_its_files_from_the_command() {
    let here = folder();
    let done = run(here.path(), &[], &["package-files", "made/here"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "", ""), "{done:?}");
    let read = |file: &str| std::fs::read_to_string(here.path().join("made/here").join(file)).unwrap();
    assert!(read("apelora.toml").contains("\n#listen = \"127.0.0.1:6385\"\n"));
    assert!(read("man/apelora-bmc-check.1").contains("bmc\\-map"));
    assert!(read("man/apelora.1").contains("apelora\\-worker"));
    for file in ["completions/apelora.bash", "completions/_apelora", "completions/apelora.fish"] {
        let text = read(file);
        assert!(text.contains("confirm-off") && !text.contains("package-files"), "{file}");
    }
    let pages = std::fs::read_dir(here.path().join("made/here/man")).unwrap();
    assert!(pages.map(|page| page.unwrap().file_name()).all(|page| page != "apelora-package-files.1"));
    let help = run(here.path(), &[], &["--help"]);
    assert!(!help.out.contains("package-files"), "{help:?}");
}

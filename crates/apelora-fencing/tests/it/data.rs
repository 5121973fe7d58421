//! Where recorded cases are found.

use std::path::{Path, PathBuf};

/// The folder of the recorded cases: `APELORA_TEST_DATA`, or `tests/data` of the workspace.
pub(crate) fn folder() -> PathBuf {
    if let Some(named) = setting("APELORA_TEST_DATA") {
        return named.into();
    }
    root().join("tests/data")
}

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().find(|a| a.join("Cargo.lock").is_file()).expect("a workspace root above").into()
}

/// A setting of a test run.
#[expect(clippy::disallowed_methods, reason = "the one place where the tests read the environment")]
pub(crate) fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn text(path: &str) -> String {
    let path = folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

//! Where recorded cases are found.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use apelora_fencing::MemberName;
use apelora_fencing::map::{BmcMap, MapState};

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

/// A valid map of lab members; another `edit` is another snapshot of the same entries.
pub(crate) fn lab_map<'a>(names: impl IntoIterator<Item = &'a MemberName>, edit: usize) -> MapState {
    let entry = |n: &MemberName| format!("\"{n}\": {{\"provider\": \"lima\", \"address\": \"apelora-{n}\"}}");
    let entries: Vec<_> = names.into_iter().map(entry).collect();
    let json = format!("{{\"members\": {{{}}}}}{}", entries.join(","), " ".repeat(edit));
    MapState::Valid(Arc::new(BmcMap::parse(json.as_bytes(), &[]).expect("a valid map")))
}

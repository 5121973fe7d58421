//! Recorded data, and callers by name.

use std::path::{Path, PathBuf};

use apelora_policy::{Creds, Identity, PolicyError, Rules, Settings, Source};
use serde_json::Value;

/// The recorded data of a contract: in the folder that `APELORA_TEST_DATA` names, or in `tests/data` of the workspace.
pub fn data(path: &str) -> String {
    // The one place where these tests read the environment.
    #[expect(clippy::disallowed_methods, reason = "tests take the folder of their data from the environment")]
    let folder = std::env::var_os("APELORA_TEST_DATA").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| workspace().join("tests/data"));
    let file = folder.join("policy").join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

pub fn workspace() -> &'static Path {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|dir| dir.join("Cargo.lock").exists());
    root.expect("the crate lies in a workspace")
}

pub fn json(path: &str) -> Value {
    serde_json::from_str(&data(path)).expect("recorded data is JSON")
}

/// The rules with one file.
pub fn with_file(text: &str) -> Result<Rules, PolicyError> {
    Rules::compile(&[Source { name: "policy.yaml", text }], &Settings::default())
}

pub fn built_in() -> Rules {
    Rules::compile(&[], &Settings::default()).expect("the built-in rules can be loaded")
}

/// A caller of a project.
pub fn of_project(project: &str, roles: &[&str]) -> Identity {
    Identity {
        user_id: Some("u1".to_owned()),
        project_id: Some(project.to_owned()),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        ..Identity::default()
    }
}

/// A caller with a system-scoped token.
pub fn of_system(roles: &[&str]) -> Identity {
    Identity { system_scope: Some("all".to_owned()), project_id: None, ..of_project("", roles) }
}

pub fn creds(who: &Identity) -> Creds {
    Creds::of(who, None)
}

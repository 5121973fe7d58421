//! Against a real Keystone, which `scripts/suites/keystone` installs and starts.

use std::path::{Path, PathBuf};
use std::process::Command;

use apelora_client::{Auth, Client, ClientError, Config, from_variables};
use serde_json::Value;

use crate::contract_keystone::variable;
use crate::lab::{ControlPlane, config};

/// A persona's settings, as a shell would take them from the lab's script.
fn variables(folder: &Path, persona: &str) -> Vec<(String, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/labs/keystone.sh");
    let shell = r#"eval "$("$0" env "$1" "$2")"; unset PWD SHLVL _; env -0"#;
    let done =
        Command::new("bash").args(["-c", shell]).arg(script).arg(folder).arg(persona).output().unwrap();
    assert!(done.status.success(), "{persona}: {done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(name, _)| name.starts_with("OS_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn auth(variables: &[(String, String)]) -> Result<Auth, ClientError> {
    let get =
        |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    Ok(from_variables(&get)?.auth)
}

#[tokio::test]
#[ignore = "needs Keystone: scripts/suites/keystone"]
async fn real_every_persona_logs_in_by_its_variables() {
    let folder = PathBuf::from(
        variable("APELORA_TEST_KEYSTONE").expect("APELORA_TEST_KEYSTONE, as the suite sets it"),
    );
    let personas: Value =
        serde_json::from_slice(&std::fs::read(folder.join("personas.json")).unwrap()).unwrap();
    let server = ControlPlane::start().await;
    let mut logged_in = 0;
    let mut left_out = Vec::new();
    for persona in personas["personas"].as_array().unwrap() {
        let name = persona["persona"].as_str().unwrap();
        let mut variables = variables(&folder, name);
        let Ok(login) = auth(&variables) else {
            left_out.push(name);
            continue;
        };
        let client =
            |auth| Client::new(Config { endpoint: Some(server.url.clone()), auth, ..config() }).unwrap();
        client(login).nodes(&Default::default()).await.unwrap_or_else(|why| panic!("{name}: {why}"));
        logged_in += 1;

        for (variable, value) in &mut variables {
            if variable == "OS_PASSWORD" || variable == "OS_APPLICATION_CREDENTIAL_SECRET" {
                *value = "wr0ng".to_owned();
            }
        }
        let refused = client(auth(&variables).unwrap()).nodes(&Default::default()).await;
        assert!(
            matches!(&refused, Err(ClientError::LogIn(why)) if why.contains("(HTTP 401)") && !why.contains("wr0ng")),
            "{name}: {refused:?}"
        );
    }
    println!(
        "{logged_in} personas; left out, because they have no project and no system scope: {left_out:?}"
    );
    assert!(logged_in >= 30 && left_out.len() < 8);
}

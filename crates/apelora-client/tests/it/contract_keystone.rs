//! Recorded log-ins at a real Keystone: the same request, and everything out of the answer that is used.

use std::path::{Path, PathBuf};

use apelora_client::{Auth, Client, ClientError, Config, Interface, LogIn, Named, Proof, Scope};
use apelora_lab::redfish::{Reply, Whole};
use serde_json::{Value, json};

use crate::lab::{Scripted, config};

/// The recorded data: in the folder that `APELORA_TEST_DATA` names, or in the workspace.
fn data() -> PathBuf {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/data"));
    let mut places = variable("APELORA_TEST_DATA").map(PathBuf::from).into_iter().chain(above);
    let found = places.find(|folder| folder.join("policy/keystone").is_dir());
    found.expect("tests/data/policy, or a folder that APELORA_TEST_DATA names").join("policy/keystone")
}

#[expect(clippy::disallowed_methods, reason = "the one place where these tests read the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The log-in that a recorded request is.
fn log_in(auth: &Value, url: String, region: &str) -> Option<LogIn> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let user = &auth["identity"]["password"]["user"];
    let credential = &auth["identity"]["application_credential"];
    let proof = if let Some(id) = text(&credential["id"]) {
        let secret = text(&credential["secret"])?.into();
        Proof::ApplicationCredential { id, secret }
    } else {
        Proof::Password { user: Named::Id(text(&user["id"])?), password: text(&user["password"])?.into() }
    };
    let scope = match (&auth["scope"], text(&auth["scope"]["project"]["id"])) {
        (Value::Null, _) => Scope::OfProof,
        (_, Some(project)) => Scope::Project(Named::Id(project)),
        (scope, None) if scope["system"]["all"] == true => Scope::System,
        _ => return None,
    };
    Some(LogIn { url, proof, scope, interface: Interface::Public, region: Some(region.into()) })
}

#[tokio::test]
async fn contract_keystone_log_ins() {
    let mut cases = 0;
    let mut left_out = Vec::new();
    for file in std::fs::read_dir(data()).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("token-") {
            continue;
        }
        let recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let (request, response) = (&recorded["issue"]["request"], &recorded["issue"]["response"]);
        let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
        let answer = Whole::json(status, &response["body"]).with_header("X-Subject-Token", "recorded-token");
        let keystone = Scripted::start([Reply::Whole(answer)]).await;
        let api = Scripted::start([Reply::Whole(Whole::json(200, &json!({"uuid": "u1"})))]).await;
        let client = |region: &str, endpoint: Option<String>| {
            let login = log_in(&request["body"]["auth"], keystone.url(), region)?;
            Some(Client::new(Config { endpoint, auth: Auth::Keystone(Box::new(login)), ..config() }).unwrap())
        };
        let Some(asking) = client("RegionOne", Some(api.url())) else {
            left_out.push(name);
            continue;
        };
        asking.node("n1").await.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(api.seen()[0].header("x-auth-token"), Some("recorded-token"), "{name}");
        let seen = keystone.seen();
        assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("POST", "/v3/auth/tokens"), "{name}");
        let sent: Value = serde_json::from_slice(&seen[0].body).unwrap();
        assert_eq!(sent, request["body"], "{name}");

        // The catalogue is read: it has no such region.
        let outcome = client("nowhere", None).unwrap().node("n1").await;
        assert!(
            matches!(&outcome, Err(ClientError::LogIn(why)) if why.contains("in region nowhere")),
            "{name}: {outcome:?}"
        );
        cases += 1;
    }
    println!(
        "{cases} recorded log-ins; left out, because they are of kinds that this client has not: {left_out:?}"
    );
    assert!(cases > 0, "no recorded log-in was found");
}

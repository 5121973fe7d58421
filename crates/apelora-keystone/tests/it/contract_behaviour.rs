//! The recorded exchanges with the real Keystone, answered to the validator as they are.

use apelora_keystone::{Invalid, OwnTrouble, Refusal, Trouble};
use apelora_lab::keystone::Call;
use apelora_lab::redfish::{Reply, Whole};
use serde_json::Value;

use crate::support::{Lab, data, json};

/// Exchanges that the validator never begins, so their answers are not fed to it.
const NOT_ASKED: [&str; 18] = [
    "discovery-root",
    "discovery-v3",
    "discovery-v3-slash",
    "head-ok",
    "head-garbage",
    "validate-no-subject",
    "revoke-self",
    "revoke-other-by-member",
    "role-unassign",
    "disable-user",
    "password-change",
    "appcred-token-creates-appcred",
    "appcred-delete",
    "revoke-events",
    "catalog-by-token",
    "auth-system",
    "auth-projects",
    "implied-roles",
];

fn reply(response: &Value) -> Reply {
    let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
    let mut whole = match &response["body"] {
        Value::Null => Whole::empty(status),
        Value::String(text) => Whole { body: text.clone().into_bytes(), ..Whole::empty(status) },
        body => Whole::json(status, body),
    };
    for (name, value) in response["headers"].as_object().unwrap() {
        // The recording stands for a token by its length.
        let value = match value.as_str().unwrap() {
            opaque if opaque.starts_with("<opaque") => "g".repeat(183),
            plain => plain.to_owned(),
        };
        if name != "Content-Type" {
            whole = whole.with_header(name, &value);
        }
    }
    Reply::Whole(whole)
}

#[tokio::test(start_paused = true)]
async fn contract_keystone_behaviour() {
    let cases = json(&data("behaviour.json"));
    let (mut ran, mut left) = (0, 0);
    for case in cases.as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        if NOT_ASKED.contains(&name) {
            left += 1;
            continue;
        }
        let (request, response) = (&case["request"], &case["response"]);
        let call = match request["method"].as_str().unwrap() {
            "GET" => Call::Validate,
            "POST" => Call::LogIn,
            other => panic!("{name}: {other}"),
        };
        let lab = Lab::new();
        lab.keystone().set_instead(call, Some(reply(response)));
        let status = u16::try_from(response["status"].as_u64().unwrap()).unwrap();
        match (call, status) {
            (Call::Validate, 200) => {
                // The life of each recorded token lies around its own time.
                let issued = response["body"]["token"]["issued_at"].as_str().unwrap();
                let now = time::OffsetDateTime::parse(issued, &time::format_description::well_known::Rfc3339);
                let identity = lab.ask_at("subject", now.unwrap()).await;
                if response["body"]["token"]["application_credential"]["access_rules"].is_array() {
                    assert!(identity.is_ok_and(|known| known.access_rules.is_some()), "{name}");
                } else {
                    let id = &response["body"]["token"]["user"]["id"];
                    assert_eq!(identity.unwrap().user_id, *id, "{name}");
                }
            }
            (Call::Validate, 404) if response["body"].is_object() => {
                assert_eq!(lab.ask("subject").await, Err(Refusal::Invalid(Invalid::Unknown)), "{name}");
            }
            // A page that is not Keystone's says nothing about the token.
            (Call::Validate, 404) => {
                let refused = lab.ask("subject").await;
                assert!(
                    matches!(refused, Err(Refusal::Unavailable { why: Trouble::NotKeystone(404), .. })),
                    "{name}: {refused:?}"
                );
            }
            (Call::Validate, 401 | 403) => {
                let wanted = if status == 401 { OwnTrouble::TokenRefused } else { OwnTrouble::Forbidden };
                let refused = lab.ask("subject").await;
                assert!(
                    matches!(refused, Err(Refusal::OwnCredentials { why, .. }) if why == wanted),
                    "{name}: {refused:?}"
                );
                assert_eq!(lab.asked().1, if status == 401 { 2 } else { 1 }, "{name}: log-ins");
            }
            (Call::LogIn, 201) => assert_eq!(lab.validator.log_in().await, Ok(()), "{name}"),
            (Call::LogIn, 400 | 401 | 404) => {
                let refused = lab.ask("subject").await;
                assert!(
                    matches!(refused, Err(Refusal::OwnCredentials { why: OwnTrouble::Login(with), .. })
                        if with == status),
                    "{name}: {refused:?}"
                );
                assert_eq!(lab.asked().0, 0, "{name}: nothing is asked without a token of our own");
            }
            other => panic!("{name}: {other:?} has no expectation"),
        }
        ran += 1;
    }
    println!("{ran} exchanges, {left} that the validator never begins");
    assert_eq!((ran, left), (cases.as_array().unwrap().len() - NOT_ASKED.len(), NOT_ASKED.len()));
    assert!(ran > 40);
}

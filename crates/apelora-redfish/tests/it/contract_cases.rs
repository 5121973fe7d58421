//! Every recorded case, run by the product's own protocol machine over the client: outcome, reason, number of resets.

use std::path::Path;

use apelora_fencing::write::Outcome;
use apelora_fencing::{Limits, ReasonCode};
use apelora_lab::redfish::TlsVersion;
use serde_json::{Value, json};

use crate::machine::{Ended, fence};
use crate::script::Script;
use crate::support::{ADDRESS, PASSWORD, USER, Wire, authority, ca_file, data, json as read_json, server};

/// The fencing core's words for reasons of the file.
const WORDS: [(&str, &str); 1] = [("unreachable_after_reset", "readback_timeout")];

/// Reasons that may stand for each other when a property has a wrong JSON type (the file's own grading rule).
const WRONG_TYPE: [&str; 3] = ["uuid_invalid", "power_state_unknown", "bad_json"];

#[tokio::test(start_paused = true)]
async fn contract_redfish_cases() {
    let file = read_json(&data("cases.json"));
    let ca = ca_file(authority().pem());
    let (mut ran, mut wrong) = (0, Vec::new());
    for case in file["cases"].as_array().unwrap() {
        for version in [TlsVersion::V12, TlsVersion::V13] {
            if let Err(why) = run(case, version, &ca).await {
                wrong.push(format!("{} ({version:?}): {why}", case["name"]));
            }
        }
        ran += 1;
    }
    println!("contract_redfish_cases: {ran} cases ran, each over TLS 1.2 and 1.3");
    assert!(ran > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn run(case: &Value, version: TlsVersion, ca: &Path) -> Result<(), String> {
    let mut entry = json!({"provider": "redfish", "address": ADDRESS.to_string(), "user": USER,
        "secret": "APELORA_BMC_SECRET_S1", "ca_file": ca, "uuid": case["mapping"]["uuid"]});
    if case["mapping"]["system"].is_string() {
        entry["system"] = case["mapping"]["system"].clone();
    }
    let server = server(Script::of(case), version);
    let wire = Wire::to(&server);
    let ended = fence(&entry, wire, PASSWORD, Limits::PRODUCTION).await;
    judge(&ended, case, server.service())?;
    for request in server.service().seen() {
        let sent = |name: &str| request.header(name).unwrap_or("-").to_owned();
        let common = [
            sent("host"),
            sent("accept"),
            sent("accept-encoding"),
            sent("odata-version"),
            sent("cache-control"),
        ];
        if common != ["192.0.2.10", "application/json", "identity", "4.0", "no-cache"] {
            return Err(format!("headers {common:?}"));
        }
        if request.method == "POST"
            && (request.body != br#"{"ResetType":"ForceOff"}"#
                || [sent("content-type"), sent("content-length")] != ["application/json", "24"])
        {
            return Err(format!("reset {request:?}"));
        }
    }
    Ok(())
}

fn judge(ended: &Ended, case: &Value, script: &Script) -> Result<(), String> {
    let expect = &case["expect"];
    let (outcome, reason) = (expect["outcome"].as_str().unwrap(), expect["reason"].as_str().unwrap());
    let posts = usize::try_from(expect["reset_posts"].as_u64().unwrap()).unwrap();
    let reason = WORDS.iter().find(|(word, _)| *word == reason).map_or(reason, |(_, ours)| *ours);
    let (seen_outcome, seen_reason, proven) = match ended {
        Ended::Record(last) => {
            let outcome = match last.outcome {
                Outcome::Success => "off",
                Outcome::Failed => "failed",
                Outcome::Refused => "refused",
            };
            if last.sent != (script.posts() > 0) {
                return Err(format!(
                    "the record says sent: {}, the BMC saw {} resets",
                    last.sent,
                    script.posts()
                ));
            }
            (outcome, last.reason, last.proof.is_some())
        }
        Ended::NoRecord(reasons) if reasons.contains(&ReasonCode::MappingInvalid) => {
            ("refused", ReasonCode::MappingInvalid, false)
        }
        Ended::NoRecord(reasons) => return Err(format!("no record, {reasons:?}")),
    };
    let seen_reason = seen_reason.as_str();
    let same_type = WRONG_TYPE.contains(&reason) && WRONG_TYPE.contains(&seen_reason);
    let right = seen_outcome == outcome
        && (seen_reason == reason || same_type)
        && script.posts() == posts
        && proven == (outcome == "off")
        && script.unforeseen().is_empty();
    if right {
        return Ok(());
    }
    Err(format!(
        "{seen_outcome}/{seen_reason} with {} resets, unforeseen {:?}; expected {outcome}/{reason} with {posts}",
        script.posts(),
        script.unforeseen()
    ))
}

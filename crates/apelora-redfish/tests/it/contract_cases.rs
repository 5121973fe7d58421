//! Every recorded case: outcome, reason and number of resets.

use std::time::Duration;

use apelora_lab::redfish::TlsVersion;
use apelora_redfish::SystemChoice;
use serde_json::Value;

use crate::caller::{Caller, Ended, Pace};
use crate::script::Script;
use crate::support::{PASSWORD, Wire, data, json, path, server, target};

/// Cases that end before a BMC is asked: the map is judged by the fencing core.
const JUDGED_ELSEWHERE: [&str; 1] = ["uuid all zero, mapping too"];

/// Reasons that may stand for each other when a property has a wrong JSON type (the file's own grading rule).
const WRONG_TYPE: [&str; 3] = ["uuid_invalid", "power_state_unknown", "bad_json"];

#[tokio::test(start_paused = true)]
async fn contract_redfish_cases() {
    let file = json(&data("cases.json"));
    let millis = |name: &str| Duration::from_millis(file["mapping_defaults"][name].as_u64().unwrap());
    let pace = Pace { deadline: millis("deadline_s") * 1000, confirm_gap: millis("confirm_gap_ms") };
    let (mut ran, mut wrong) = (0, Vec::new());
    for case in file["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        if JUDGED_ELSEWHERE.contains(&name) {
            continue;
        }
        for version in [TlsVersion::V12, TlsVersion::V13] {
            if let Err(why) = run(case, version, &pace).await {
                wrong.push(format!("{name} ({version:?}): {why}"));
            }
        }
        ran += 1;
    }
    println!("contract_redfish_cases: {ran} cases ran, each over TLS 1.2 and 1.3");
    assert!(ran > 0);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn run(case: &Value, version: TlsVersion, pace: &Pace) -> Result<(), String> {
    let uuid = case["mapping"]["uuid"].as_str().unwrap();
    let system = match case["mapping"]["system"].as_str() {
        Some(text) => path(text),
        None => SystemChoice::Carrying(uuid.parse().unwrap()),
    };
    let server = server(Script::of(case), version);
    let (dial, target) = (Wire::to(&server), target(system));
    let ended = Caller { dial, target: &target, password: PASSWORD.into(), uuid, pace }.switch_off().await;

    let script = server.service();
    check(&ended, &case["expect"], script)?;
    for request in script.seen() {
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

fn check(ended: &Ended, expect: &Value, script: &Script) -> Result<(), String> {
    let same_type =
        |reason: &str| WRONG_TYPE.contains(&reason) && WRONG_TYPE.contains(&ended.reason.as_str());
    let reason = expect["reason"].as_str().unwrap();
    let posts = script.posts() as u64;
    let right = expect["outcome"] == ended.outcome
        && (reason == ended.reason || same_type(reason))
        && expect["reset_posts"] == posts
        && script.unforeseen().is_empty();
    if right {
        Ok(())
    } else {
        Err(format!("{ended:?}, {posts} resets, unforeseen {:?}; expected {expect}", script.unforeseen()))
    }
}

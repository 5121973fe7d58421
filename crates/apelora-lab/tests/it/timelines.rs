//! The recorded sequences of answers: which pictures follow each other, and about when.

use std::fs;

use apelora_lab::incus::Cluster;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{LIST, data, recorded, seconds, timed};

fn events(name: &str) -> Vec<Value> {
    let text = fs::read(data(&format!("recordings/{name}.json"))).unwrap();
    let recording: Value = serde_json::from_slice(&text).unwrap();
    recording["events"].as_array().unwrap().clone()
}

/// What counts in an answer: the error, or for each member its name, status and roles.
fn picture(event: &Value) -> Value {
    if event["error_code"] != 0 {
        return json!([event["error_code"], event["error"]]);
    }
    let members = event["members"].as_array().unwrap();
    members.iter().map(|member| json!([member["name"], member["status"], member["roles"]])).collect()
}

/// Polls as the recorder did, until `end` seconds from now, and notes each new picture with the second in which it came.
async fn watch(cluster: &Cluster, asked: &str, end: f64) -> Vec<(f64, Value)> {
    let begun = Instant::now();
    let mut seen: Vec<(f64, Value)> = Vec::new();
    while begun.elapsed().as_secs_f64() < end {
        let (_, body, _) = timed(cluster, asked, "GET", LIST, None).await;
        let picture = if body["type"] == "error" {
            json!([body["error_code"], body["error"]])
        } else {
            let members = body["metadata"].as_array().unwrap();
            members.iter().map(|m| json!([m["server_name"], m["status"], m["roles"]])).collect()
        };
        if seen.last().is_none_or(|(_, last)| *last != picture) {
            seen.push((begun.elapsed().as_secs_f64(), picture));
        }
        seconds(0.4).await;
    }
    seen
}

fn pictures(seen: &[(f64, Value)]) -> Vec<&Value> {
    seen.iter().map(|(_, picture)| picture).collect()
}

#[tokio::test(start_paused = true)]
async fn contract_incus_timelines() {
    let mut cases = 0;
    for name in ["timeline-kill-member", "timeline-cut-from-majority"] {
        let recorded_ones: Vec<Value> =
            events(name).iter().filter(|event| event.get("fault").is_none()).map(picture).collect();
        let cluster = recorded().await;
        if name.ends_with("member") { cluster.crash("m3") } else { cluster.cut("m3") }.unwrap();
        let seen = watch(&cluster, "m1", 20.0).await;
        assert_eq!(pictures(&seen), recorded_ones.iter().collect::<Vec<_>>(), "{name}");
        // Section 2: between 3 s and the threshold and a few.
        assert!((3.0..15.0).contains(&seen[1].0), "{name}: Offline after {} s", seen[1].0);
        cases += 1;
    }

    let cluster = recorded().await;
    cluster.set_false_pictures(true);
    let recorded_ones: Vec<Value> = events("timeline-kill-leader")
        .iter()
        .filter(|event| event.get("fault").is_none())
        .map(picture)
        .collect();
    // Late in a round of heartbeats, so that the dead leader's row is old enough when its successor answers.
    seconds(5.3).await;
    assert_eq!(pictures(&watch(&cluster, "m2", 0.1).await), [&recorded_ones[0]]);
    cluster.crash("m1").unwrap();
    let seen = watch(&cluster, "m2", 20.0).await;
    assert_eq!(pictures(&seen), recorded_ones[1..].iter().collect::<Vec<_>>(), "timeline-kill-leader");
    assert!((5.0..6.5).contains(&seen[0].0), "the first answer came after {} s", seen[0].0);
    assert!(seen[1].0 - seen[0].0 < 1.0, "the false picture lasted {} s", seen[1].0 - seen[0].0);
    cases += 1;

    // Without the fault, the same gives no false picture.
    let cluster = recorded().await;
    seconds(5.3).await;
    cluster.crash("m1").unwrap();
    for (_, picture) in watch(&cluster, "m2", 20.0).await {
        assert_eq!(picture[2][1], "Online", "{picture}");
    }

    let cluster = recorded().await;
    cluster.cut("m3").unwrap();
    seconds(1.5).await;
    // The recorder gave up after 12 s; the next one was told no.
    let (status, body, took) = timed(&cluster, "m3", "GET", LIST, None).await;
    assert!(took.as_secs_f64() > 12.0, "{took:?}");
    assert_eq!(status, 500);
    let last = events("timeline-cut-from-isolated").pop().unwrap();
    assert_eq!(json!([body["error_code"], body["error"]]), picture(&last));
    let (status, _, took) = timed(&cluster, "m3", "GET", LIST, None).await;
    assert!((4.9..5.1).contains(&took.as_secs_f64()), "{took:?}");
    assert_eq!(status, 500);
    cases += 1;

    two_dead_and_one_back().await;
    cases += 1;
    println!("contract_incus_timelines: {cases} recorded sequences reproduced");
    assert_eq!(cases, 5);
}

async fn two_dead_and_one_back() {
    let recorded_ones: Vec<Value> = events("timeline-two-dead-and-one-back")
        .iter()
        .filter(|event| event.get("fault").is_none())
        .map(picture)
        .collect();
    let cluster = recorded().await;
    cluster.set_false_pictures(true);
    // m2 led.
    cluster.crash("m1").unwrap();
    seconds(12.0).await;
    cluster.heal("m1").unwrap();
    seconds(20.0).await;
    assert_eq!(pictures(&watch(&cluster, "m2", 0.1).await), [&recorded_ones[0]]);
    cluster.crash("m1").unwrap();
    cluster.crash("m3").unwrap();
    let seen = watch(&cluster, "m2", 30.0).await;
    assert_eq!(pictures(&seen), [&recorded_ones[1]]);
    cluster.heal("m3").unwrap();
    let seen = watch(&cluster, "m2", 20.0).await;
    // All three were Offline, the one that answered included; then only the dead one.
    assert_eq!(pictures(&seen), recorded_ones[2..].iter().collect::<Vec<_>>());
    assert!(seen[1].0 - seen[0].0 < 4.0, "the false picture lasted {} s", seen[1].0 - seen[0].0);
}

//! Each recorded answer is given by the simulated cluster too, in the same situation.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use apelora_lab::incus::{Cluster, InstancePlan, Lease};
use serde_json::{Value, json};

use crate::likeness::unlike;
use crate::support::{
    begin, data, get, move_to, offline, recorded, recorded_plan, seconds, start, timed, wait, with_lease,
};

const MIGRATE: &str = "/1.0/instances/s3?target=m1";
const START: &str = "/1.0/instances/s3/state";

/// A cluster in the situation of a recording, and the operation that the recorded request waits for.
struct Situation {
    cluster: Cluster,
    operation: Option<String>,
}

impl From<Cluster> for Situation {
    fn from(cluster: Cluster) -> Self {
        Self { cluster, operation: None }
    }
}

async fn dead_m3(lease: Lease) -> Cluster {
    let cluster = with_lease(lease).await;
    cluster.kill_daemon("m3").unwrap();
    cluster.lose_power("m3").unwrap();
    offline(&cluster, "m1", "m3").await;
    cluster
}

async fn moved(lease: Lease) -> Cluster {
    let cluster = dead_m3(lease).await;
    move_to(&cluster, "m1", "s3", "m1").await.unwrap();
    cluster
}

async fn cut_m3() -> Cluster {
    let cluster = recorded().await;
    cluster.cut("m3").unwrap();
    seconds(20.0).await;
    cluster
}

/// As the second half of the recordings: instances `s1`, `s2`, `s3` and `s3n`.
async fn second_half(lease: Lease) -> Cluster {
    let mut plan = recorded_plan();
    plan.lease = lease;
    plan.instances = vec![
        InstancePlan::new("default", "d3", "m3").on_pool("local"),
        InstancePlan::new("default", "s1", "m1"),
        InstancePlan::new("default", "s2", "m2"),
        InstancePlan::new("default", "s3", "m3").autostart(true),
        InstancePlan::new("default", "s3n", "m3").autostart(false),
    ];
    Cluster::start(plan).await.unwrap()
}

/// `m2` leads, and all are there.
async fn m2_leads() -> Cluster {
    let cluster = recorded().await;
    cluster.crash("m1").unwrap();
    seconds(20.0).await;
    cluster.heal("m1").unwrap();
    seconds(20.0).await;
    assert_eq!(cluster.leader().as_deref(), Some("m2"));
    cluster
}

async fn evacuation(action: &str) -> Situation {
    let cluster = second_half(Lease::Shared).await;
    let path = "/1.0/cluster/members/m2/state";
    let mut operation =
        begin(&cluster, "m1", "POST", path, &json!({"action": "evacuate", "mode": "stop"})).await;
    if action == "restore" {
        wait(&cluster, "m1", &operation).await.unwrap();
        operation = begin(&cluster, "m1", "POST", path, &json!({"action": "restore", "mode": ""})).await;
    }
    Situation { cluster, operation: Some(operation) }
}

async fn situation(name: &str) -> Option<Situation> {
    let now = Lease::Exclusive(Duration::ZERO);
    let later = Lease::Exclusive(Duration::from_secs(8));
    Some(match name {
        "healthy-cluster"
        | "healthy-instances-r1"
        | "healthy-member-m2"
        | "healthy-member-state-m2"
        | "healthy-member-urls"
        | "healthy-members"
        | "healthy-server-info"
        | "healthy-storage-pools"
        | "healthy-warnings"
        | "member-not-found"
        | "operation-not-found" => recorded().await.into(),
        "dead-not-yet-offline-members" | "dead-not-yet-offline-move" => {
            let cluster = recorded().await;
            cluster.lose_power("m3").unwrap();
            seconds(2.0).await;
            cluster.into()
        }
        "one-offline-members"
        | "one-offline-member-state"
        | "one-offline-instances-r1"
        | "one-offline-instance-get"
        | "one-offline-start-in-place"
        | "one-offline-warnings"
        | "evacuate-offline-member"
        | "move-shared-accepted"
        | "move-dir-accepted" => dead_m3(now).await.into(),
        "move-without-target" => {
            let mut plan = recorded_plan();
            plan.instances.push(InstancePlan::new("default", "c3", "m3"));
            let cluster = Cluster::start(plan).await.unwrap();
            cluster.crash("m3").unwrap();
            offline(&cluster, "m1", "m3").await;
            cluster.into()
        }
        "move-shared-wait" | "move-dir-wait" => {
            let cluster = dead_m3(now).await;
            let (asked, path) =
                if name == "move-dir-wait" { ("m2", "/1.0/instances/d3?target=m1") } else { ("m1", MIGRATE) };
            let operation = begin(&cluster, asked, "POST", path, &json!({"migration": true})).await;
            Situation { cluster, operation: Some(operation) }
        }
        "moved-instance" | "start-locked-accepted" => moved(later).await.into(),
        "start-locked-wait" => {
            let cluster = moved(Lease::Exclusive(Duration::from_secs(600))).await;
            let operation =
                begin(&cluster, "m1", "PUT", START, &json!({"action": "start", "timeout": -1})).await;
            Situation { cluster, operation: Some(operation) }
        }
        "start-after-lease-wait" => {
            let cluster = moved(later).await;
            seconds(8.0).await;
            let operation =
                begin(&cluster, "m1", "PUT", START, &json!({"action": "start", "timeout": -1})).await;
            Situation { cluster, operation: Some(operation) }
        }
        "back-online-instances" => {
            let cluster = moved(now).await;
            start(&cluster, "m1", "s3").await.unwrap();
            cluster.heal("m3").unwrap();
            seconds(20.0).await;
            cluster.into()
        }
        "back-online-members" => m2_leads().await.into(),
        "healed-by-incus-members" => {
            let cluster = m2_leads().await;
            cluster.lose_power("m3").unwrap();
            cluster.set_status("m3", Some("Evacuated")).unwrap();
            seconds(30.0).await;
            cluster.into()
        }
        "evacuate-accepted" => second_half(now).await.into(),
        "evacuate-wait" => evacuation("evacuate").await,
        "restore-wait" => evacuation("restore").await,
        "evacuated-members" => {
            let situation = evacuation("evacuate").await;
            wait(&situation.cluster, "m1", situation.operation.as_deref().unwrap()).await.unwrap();
            situation
        }
        "partition-cluster-from-isolated"
        | "partition-members-from-isolated"
        | "partition-members-from-majority"
        | "partition-server-info-from-isolated" => cut_m3().await.into(),
        "split-brain-instances" => {
            let cluster = second_half(Lease::Shared).await;
            cluster.cut("m3").unwrap();
            offline(&cluster, "m1", "m3").await;
            move_to(&cluster, "m1", "s3", "m1").await.unwrap();
            start(&cluster, "m1", "s3").await.unwrap();
            // What no answer shows.
            assert_eq!(cluster.running("default", "s3"), ["m1", "m3"]);
            assert_eq!(cluster.ran_twice().len(), 1);
            cluster.into()
        }
        "two-dead-instances-from-survivor"
        | "two-dead-members-from-survivor"
        | "two-dead-server-info-from-survivor" => {
            let cluster = recorded().await;
            cluster.crash("m1").unwrap();
            cluster.crash("m3").unwrap();
            seconds(20.0).await;
            cluster.into()
        }
        _ => return None,
    })
}

/// Replaces the recorded operation in a path.
fn asking_for(path: &str, operation: Option<&str>) -> String {
    match (path.strip_prefix("/1.0/operations/"), operation) {
        (Some(rest), Some(operation)) => {
            let tail = rest.split_once('/').map(|(_, tail)| format!("/{tail}")).unwrap_or_default();
            format!("{operation}{tail}")
        }
        _ => path.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn contract_incus_recordings() {
    let (mut cases, mut not_known, mut wrong) = (0, Vec::new(), Vec::new());
    let files: BTreeSet<_> =
        fs::read_dir(data("recordings")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        if name.starts_with("timeline-") {
            continue; // see timelines.rs
        }
        let recording: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let Some(Situation { cluster, operation }) = situation(name).await else {
            not_known.push(name.to_owned());
            continue;
        };
        let text = |key: &str| recording[key].as_str().unwrap();
        let path = asking_for(text("path"), operation.as_deref());
        let request = Some(&recording["request"]).filter(|request| !request.is_null());
        let (status, mut body, took) = timed(&cluster, text("asked"), text("method"), &path, request).await;
        cases += 1;
        if Some(u64::from(status)) != recording["http_status"].as_u64() {
            wrong.push(format!("{name}: HTTP status {status}, body {body}"));
        }
        let recorded_seconds = recording["seconds"].as_f64().unwrap();
        if recorded_seconds > 4.0 && (took.as_secs_f64() - recorded_seconds).abs() > 0.5 {
            wrong.push(format!("{name}: answered after {took:?}, not after {recorded_seconds} s"));
        }
        let mut expected = recording["body"].clone();
        if name.ends_with("-warnings") {
            // The recorded machine had warnings of its own kernel.
            for body in [&mut expected, &mut body] {
                body["metadata"].as_array_mut().unwrap().retain(|warning| {
                    ["Offline cluster member", "AppArmor support has been disabled"]
                        .map(Value::from)
                        .contains(&warning["type"])
                });
                body["metadata"].as_array_mut().unwrap().sort_by_key(|warning| warning["type"].to_string());
            }
        }
        if let Err(why) = unlike(&expected, &body) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    println!("contract_incus_recordings: {cases} recorded answers reproduced");
    assert!(cases > 0, "no recording was found");
    assert!(not_known.is_empty(), "no situation for {not_known:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Section 1: an operation is forgotten 5 s after its end, and with the member that had it.
#[tokio::test(start_paused = true)]
async fn contract_incus_operations_are_forgotten() {
    let cluster = dead_m3(Lease::Exclusive(Duration::ZERO)).await;
    let operation = begin(&cluster, "m1", "POST", MIGRATE, &json!({"migration": true})).await;
    let (status, body) = get(&cluster, "m2", &operation).await;
    assert_eq!((status, &body["metadata"]["status"]), (200, &json!("Running")));
    wait(&cluster, "m2", &operation).await.unwrap();
    seconds(4.5).await;
    assert_eq!(get(&cluster, "m2", &operation).await.0, 200);
    seconds(1.0).await;
    assert_eq!(get(&cluster, "m2", &operation).await.0, 404);

    let operation = begin(&cluster, "m2", "PUT", START, &json!({"action": "start", "timeout": -1})).await;
    cluster.crash("m1").unwrap();
    let (status, body) = get(&cluster, "m2", &format!("{operation}/wait?timeout=30")).await;
    assert_eq!((status, &body["error"]), (404, &json!("Operation not found")));
    assert!(cluster.running("default", "s3").is_empty());
}

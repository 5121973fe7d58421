//! What the tests share: recordings, a cluster as the recorded one was, and ways to ask it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use apelora_lab::incus::{Cluster, ClusterPlan, InstancePlan, Lease};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

pub(crate) const LIST: &str = "/1.0/cluster/members?recursion=1";
pub(crate) const INSTANCES: &str = "/1.0/instances?recursion=1&all-projects=true";

/// A file or folder of the recorded data: in the folder that `APELORA_TEST_DATA` names, or in the workspace.
pub(crate) fn data(name: &str) -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the one place where these tests read the environment")]
    let named = std::env::var_os("APELORA_TEST_DATA").map(PathBuf::from);
    let above = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/data"));
    let root = named.or_else(|| above().find(|folder| folder.join("incus").is_dir()));
    root.expect("tests/data/incus, or a folder that APELORA_TEST_DATA names").join("incus").join(name)
}

/// The recorded cluster: three members, offline threshold 11 s, the instances that it had at first.
pub(crate) fn recorded_plan() -> ClusterPlan {
    let mut plan = ClusterPlan::new(&["m1", "m2", "m3"]);
    plan.offline_threshold = Duration::from_secs(11);
    plan.boot_time = Duration::from_secs(2);
    plan.instances = vec![
        InstancePlan::new("default", "d3", "m3").on_pool("local"),
        InstancePlan::new("default", "s1", "m1"),
        InstancePlan::new("default", "s3", "m3").autostart(true),
        InstancePlan::new("default", "s3b", "m3"),
    ];
    plan
}

/// A cluster with a lease that ends at once.
pub(crate) async fn recorded() -> Cluster {
    Cluster::start(recorded_plan()).await.unwrap()
}

/// As [`recorded`], with this rule for leases.
pub(crate) async fn with_lease(lease: Lease) -> Cluster {
    Cluster::start(ClusterPlan { lease, ..recorded_plan() }).await.unwrap()
}

pub(crate) async fn seconds(seconds: f64) {
    sleep(Duration::from_secs_f64(seconds)).await;
}

/// Asks a member that answers, and how long that took.
pub(crate) async fn timed(
    cluster: &Cluster,
    member: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value, Duration) {
    let asked = Instant::now();
    let (status, body) = cluster.ask(member, method, path, body).await.unwrap().expect("an answer");
    (status, body, asked.elapsed())
}

pub(crate) async fn get(cluster: &Cluster, member: &str, path: &str) -> (u16, Value) {
    let (status, body, _) = timed(cluster, member, "GET", path, None).await;
    (status, body)
}

/// Name and status of each member, as a member sees them.
pub(crate) async fn statuses(cluster: &Cluster, asked: &str) -> Vec<(String, String)> {
    let (status, body) = get(cluster, asked, LIST).await;
    assert_eq!(status, 200, "{body}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let members = body["metadata"].as_array().unwrap();
    members.iter().map(|member| (text(&member["server_name"]), text(&member["status"]))).collect()
}

/// The status of one member as another one sees it.
pub(crate) async fn status(cluster: &Cluster, asked: &str, member: &str) -> String {
    let all = statuses(cluster, asked).await;
    all.into_iter().find(|(name, _)| name == member).unwrap().1
}

/// Waits until a member is Offline for another one; at most a minute.
pub(crate) async fn offline(cluster: &Cluster, asked: &str, member: &str) {
    for _ in 0..240 {
        if status(cluster, asked, member).await == "Offline" {
            return;
        }
        seconds(0.25).await;
    }
    panic!("{member} is not Offline for {asked} after a minute");
}

/// Sends a request that begins an operation, and returns the operation's URL.
pub(crate) async fn begin(cluster: &Cluster, asked: &str, method: &str, path: &str, body: &Value) -> String {
    let (status, answer, _) = timed(cluster, asked, method, path, Some(body)).await;
    assert_eq!(status, 202, "{answer}");
    answer["operation"].as_str().unwrap().to_owned()
}

/// Waits for an operation: `Ok`, or the error of the answer.
pub(crate) async fn wait(cluster: &Cluster, asked: &str, operation: &str) -> Result<(), (u64, String)> {
    let (status, body) = get(cluster, asked, &format!("{operation}/wait?timeout=30")).await;
    assert_eq!(status, 200, "{body}");
    if body["type"] == "sync" {
        return Ok(());
    }
    Err((body["error_code"].as_u64().unwrap(), body["error"].as_str().unwrap().to_owned()))
}

pub(crate) async fn move_to(
    cluster: &Cluster,
    asked: &str,
    instance: &str,
    target: &str,
) -> Result<(), (u64, String)> {
    let path = format!("/1.0/instances/{instance}?target={target}");
    let operation = begin(cluster, asked, "POST", &path, &json!({"migration": true})).await;
    wait(cluster, asked, &operation).await
}

pub(crate) async fn start(cluster: &Cluster, asked: &str, instance: &str) -> Result<(), (u64, String)> {
    let path = format!("/1.0/instances/{instance}/state");
    let operation = begin(cluster, asked, "PUT", &path, &json!({"action": "start", "timeout": -1})).await;
    wait(cluster, asked, &operation).await
}

//! Who may speak for the cluster when more than one member has gone.

use std::time::Duration;

use apelora_lab::incus::{Cluster, ClusterPlan, InstancePlan, What};
use serde_json::json;

use crate::support::{LIST, get, offline, seconds, status, statuses};

async fn four() -> Cluster {
    let mut plan = ClusterPlan::new(&["s1", "s2", "s3", "s4"]);
    plan.offline_threshold = Duration::from_secs(11);
    plan.boot_time = Duration::from_secs(2);
    plan.instances = vec![InstancePlan::new("default", "web", "s2")];
    Cluster::start(plan).await.unwrap()
}

async fn roles(cluster: &Cluster, asked: &str) -> Vec<(String, Vec<String>)> {
    let (_, body) = get(cluster, asked, LIST).await;
    let members = body["metadata"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    members
        .iter()
        .map(|m| (text(&m["server_name"]), m["roles"].as_array().unwrap().iter().map(text).collect()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_voter_that_is_offline_is_replaced_so_that_a_second_one_can_go() {
    let cluster = four().await;
    let named = |all: &[(&str, &[&str])]| -> Vec<(String, Vec<String>)> {
        all.iter()
            .map(|(name, roles)| ((*name).to_owned(), roles.iter().map(|r| (*r).to_owned()).collect()))
            .collect()
    };
    let (leads, votes, stands) = (&["database-leader", "database"], &["database"], &["database-standby"]);
    assert_eq!(
        roles(&cluster, "s1").await,
        named(&[("s1", leads), ("s2", votes), ("s3", votes), ("s4", stands)])
    );
    cluster.crash("s3").unwrap();
    offline(&cluster, "s1", "s3").await;
    seconds(6.0).await;
    assert_eq!(
        roles(&cluster, "s1").await,
        named(&[("s1", leads), ("s2", votes), ("s3", &[]), ("s4", votes)])
    );
    cluster.crash("s2").unwrap();
    offline(&cluster, "s1", "s2").await;
    let lost = statuses(&cluster, "s4").await.iter().filter(|(_, status)| status == "Offline").count();
    assert_eq!(lost, 2);
    assert!(!cluster.happenings().iter().any(|happening| happening.what == What::QuorumLost));
}

#[tokio::test(start_paused = true)]
async fn two_voters_at_once_take_the_quorum_with_them_and_nobody_is_listed() {
    let cluster = four().await;
    cluster.cut("s2").unwrap();
    cluster.cut("s3").unwrap();
    for asked in ["s1", "s2", "s3", "s4"] {
        let (code, body) = get(&cluster, asked, LIST).await;
        assert_eq!((code, &body["error"]), (500, &json!("context deadline exceeded")), "{asked}");
        // A daemon that lives says so, and nothing about the cluster.
        let (code, body) = get(&cluster, asked, "/1.0").await;
        assert_eq!((code, &body["metadata"]["environment"]["server_name"]), (200, &json!(asked)));
    }
    assert_eq!(cluster.leader(), None);
    assert_eq!(cluster.running("default", "web"), ["s2"]);
    cluster.heal("s2").unwrap();
    seconds(8.0).await;
    assert_eq!(status(&cluster, "s4", "s2").await, "Online");
    assert_eq!(status(&cluster, "s4", "s3").await, "Offline");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_boots_alone_waits_for_the_database_before_it_starts_anything() {
    let cluster = four().await;
    for member in ["s1", "s2", "s3", "s4"] {
        cluster.lose_power(member).unwrap();
    }
    seconds(60.0).await;
    cluster.heal("s2").unwrap();
    seconds(60.0).await;
    assert!(cluster.is_alive("s2").unwrap());
    assert!(cluster.running("default", "web").is_empty());
    cluster.heal("s1").unwrap();
    seconds(5.0).await;
    assert_eq!(cluster.running("default", "web"), ["s2"]);
}

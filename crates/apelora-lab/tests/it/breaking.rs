//! What happens when machines break, and what the cluster then says and does.

use std::time::Duration;

use apelora_lab::incus::{ApiFault, Cluster, ClusterError, ClusterPlan, InstancePlan, Lease, PoolPlan, What};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{
    INSTANCES, LIST, begin, get, move_to, offline, recorded, recorded_plan, seconds, start, status, statuses,
    timed, wait, with_lease,
};

const AT_ONCE: Lease = Lease::Exclusive(Duration::ZERO);

fn locked(result: Result<(), (u64, String)>) {
    let (code, text) = result.unwrap_err();
    assert_eq!(code, 500);
    assert!(text.contains("LV locked by other host: ilvg/containers_s3"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_member_runs_its_instances_on_and_its_leases_keep_them_from_a_second_start() {
    let cluster = with_lease(AT_ONCE).await;
    cluster.cut("m3").unwrap();
    offline(&cluster, "m1", "m3").await;
    // The move is met by no lock, the start is.
    move_to(&cluster, "m1", "s3", "m1").await.unwrap();
    assert_eq!(cluster.location("default", "s3").as_deref(), Some("m1"));
    locked(start(&cluster, "m1", "s3").await);
    assert_eq!(cluster.running("default", "s3"), ["m3"]);
    // Back on the network it runs on, where nobody sees it.
    cluster.heal("m3").unwrap();
    seconds(20.0).await;
    assert_eq!(cluster.running("default", "s3"), ["m3"]);
    let (_, body) = get(&cluster, "m1", "/1.0/instances/s3").await;
    assert_eq!(body["metadata"]["status"], "Stopped");
    locked(start(&cluster, "m1", "s3").await);
    // Its power ends it, and the lease.
    cluster.lose_power("m3").unwrap();
    assert!(cluster.running("default", "s3").is_empty());
    start(&cluster, "m1", "s3").await.unwrap();
    assert_eq!(cluster.running("default", "s3"), ["m1"]);
    assert!(cluster.ran_twice().is_empty());
    let locks = cluster.happenings().iter().filter(|h| matches!(h.what, What::Locked { .. })).count();
    assert_eq!(locks, 2);
}

#[tokio::test(start_paused = true)]
async fn without_exclusive_leases_a_second_start_is_recorded_as_what_it_is() {
    for cut in [true, false] {
        let cluster = with_lease(Lease::Shared).await;
        if cut { cluster.cut("m3") } else { cluster.hang("m3") }.unwrap();
        offline(&cluster, "m1", "m3").await;
        move_to(&cluster, "m1", "s3", "m1").await.unwrap();
        assert!(cluster.ran_twice().is_empty());
        start(&cluster, "m1", "s3").await.unwrap();
        let twice = cluster.ran_twice();
        let [one] = twice.as_slice() else { panic!("{twice:?}") };
        assert_eq!(one.what.to_string(), "default/s3 RUNS TWICE: on m1 and on m3.");
        cluster.heal("m3").unwrap();
        seconds(30.0).await;
        assert_eq!(cluster.running("default", "s3"), ["m1", "m3"]);
        assert_eq!(cluster.ran_twice().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_the_power_for_as_long_as_it_is_told_and_no_other_failure_ends_it() {
    for hang in [true, false] {
        let cluster = with_lease(Lease::Exclusive(Duration::from_secs(40))).await;
        if hang { cluster.hang("m3") } else { cluster.crash("m3") }.unwrap();
        assert_eq!(cluster.running("default", "s3").is_empty(), !hang);
        offline(&cluster, "m1", "m3").await;
        move_to(&cluster, "m1", "s3", "m1").await.unwrap();
        seconds(600.0).await;
        locked(start(&cluster, "m1", "s3").await);
        cluster.lose_power("m3").unwrap();
        seconds(39.0).await;
        locked(start(&cluster, "m1", "s3").await);
        seconds(1.0).await;
        start(&cluster, "m1", "s3").await.unwrap();
        assert_eq!(cluster.running("default", "s3"), ["m1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_boots_starts_what_incus_starts() {
    let on_m3 = |name: &str| InstancePlan::new("default", name, "m3");
    let mut plan = recorded_plan();
    plan.instances = vec![
        on_m3("ran"),
        on_m3("stopped").stopped(),
        on_m3("always").stopped().autostart(true),
        on_m3("never").autostart(false),
        on_m3("local").on_pool("local"),
        on_m3("moved"),
    ];
    let cluster = Cluster::start(plan).await.unwrap();
    cluster.lose_power("m3").unwrap();
    assert!(!cluster.has_power("m3").unwrap());
    offline(&cluster, "m1", "m3").await;
    move_to(&cluster, "m1", "moved", "m2").await.unwrap();
    start(&cluster, "m1", "moved").await.unwrap();
    cluster.heal("m3").unwrap();
    // Two seconds of booting, and one until its instances are started.
    seconds(1.9).await;
    assert!(cluster.has_power("m3").unwrap() && !cluster.is_alive("m3").unwrap());
    seconds(0.2).await;
    assert!(cluster.is_alive("m3").unwrap());
    assert!(cluster.running("default", "ran").is_empty());
    seconds(1.0).await;
    let where_it_runs = |name: &str| cluster.running("default", name);
    for runs in ["ran", "always", "local"] {
        assert_eq!(where_it_runs(runs), ["m3"], "{runs}");
    }
    for rests in ["stopped", "never"] {
        assert!(where_it_runs(rests).is_empty(), "{rests}");
    }
    assert_eq!(where_it_runs("moved"), ["m2"]);
    seconds(5.5).await;
    assert_eq!(status(&cluster, "m1", "m3").await, "Online");
    assert_eq!(cluster.boots("m3").unwrap(), 2);
    assert!(cluster.ran_twice().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_evacuated_member_looks_evacuated_for_ever_and_starts_nothing() {
    let cluster = recorded().await;
    cluster.set_status("m3", Some("Evacuated")).unwrap();
    cluster.lose_power("m3").unwrap();
    seconds(120.0).await;
    assert_eq!(status(&cluster, "m1", "m3").await, "Evacuated");
    // What is forwarded to it knows better.
    let (code, body) = get(&cluster, "m1", "/1.0/cluster/members/m3/state").await;
    assert_eq!((code, &body["error"]), (500, &json!("Server isn't ready yet")));
    cluster.heal("m3").unwrap();
    seconds(20.0).await;
    assert!(cluster.running("default", "s3").is_empty());
    cluster.set_status("m3", Some("Restoring")).unwrap();
    assert_eq!(status(&cluster, "m1", "m3").await, "Restoring");
    cluster.set_status("m3", Some("Blocked")).unwrap();
    assert_eq!(status(&cluster, "m1", "m3").await, "Blocked");
    cluster.crash("m3").unwrap();
    offline(&cluster, "m1", "m3").await;
}

#[tokio::test(start_paused = true)]
async fn offline_is_what_the_clock_of_the_member_that_is_asked_says() {
    let cluster = recorded().await;
    cluster.set_skew("m2", true, Duration::from_secs(15)).unwrap();
    assert!(statuses(&cluster, "m2").await.iter().all(|(_, status)| status == "Offline"));
    assert!(statuses(&cluster, "m1").await.iter().all(|(_, status)| status == "Online"));
    // A clock that is behind sees a failure late.
    cluster.set_skew("m2", false, Duration::from_secs(60)).unwrap();
    cluster.crash("m3").unwrap();
    offline(&cluster, "m1", "m3").await;
    assert_eq!(status(&cluster, "m2", "m3").await, "Online");
    seconds(60.0).await;
    assert_eq!(status(&cluster, "m2", "m3").await, "Offline");
}

#[tokio::test(start_paused = true)]
async fn calls_that_need_a_member_that_has_gone_hang_until_it_is_offline() {
    for (how, waits) in [("crash", 10.0), ("cut", 10.0), ("hang", 30.0), ("kill", 0.1)] {
        let cluster = recorded().await;
        match how {
            "crash" => cluster.crash("m3"),
            "cut" => cluster.cut("m3"),
            "hang" => cluster.hang("m3"),
            _ => cluster.kill_daemon("m3"),
        }
        .unwrap();
        let (code, body, took) = timed(&cluster, "m1", "GET", INSTANCES, None).await;
        assert_eq!(code, 200);
        assert_eq!(body["metadata"][0]["config"], json!(null), "{how}: {body}");
        assert!((took.as_secs_f64() - waits).abs() < 0.2, "{how}: the list took {took:?}");
        offline(&cluster, "m1", "m3").await;
        let (_, body, took) = timed(&cluster, "m1", "GET", INSTANCES, None).await;
        assert!(took.as_secs_f64() < 0.1, "{how}: {took:?}");
        assert_eq!(body["metadata"][0]["status_code"], 112);
        assert!(body["metadata"][0].get("expanded_config").is_none());
    }
    let cluster = recorded().await;
    cluster.crash("m3").unwrap();
    let (code, body, took) = timed(&cluster, "m2", "GET", "/1.0/cluster/members/m3/state", None).await;
    assert_eq!((code, &body["error"]), (500, &json!("Missing event connection with target cluster member")));
    assert!((took.as_secs_f64() - 10.0).abs() < 0.1, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn moves_are_refused_as_incus_refuses_them() {
    let mut plan = recorded_plan();
    plan.instances.push(InstancePlan::new("default", "saved", "m3").with_backup());
    plan.instances.push(InstancePlan::new("shop", "db-1", "m3"));
    let cluster = Cluster::start(plan).await.unwrap();
    let migrate = json!({"migration": true});
    let refused = async |path: &str, body: &serde_json::Value| {
        let (code, answer, _) = timed(&cluster, "m1", "POST", path, Some(body)).await;
        assert_eq!(code, 400, "{answer}");
        answer["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        refused("/1.0/instances/s3?target=m1", &migrate).await,
        "Instance must be stopped to be moved statelessly"
    );
    let same = "Requested target server is the same as current server";
    assert_eq!(refused("/1.0/instances/s3?target=m3", &migrate).await, same);
    cluster.lose_power("m3").unwrap();
    offline(&cluster, "m1", "m3").await;
    let named = json!({"migration": true, "name": "s3"});
    assert_eq!(refused("/1.0/instances/s3?target=m1", &named).await, "Instance server is currently offline");
    assert_eq!(refused("/1.0/instances/s1?target=m3", &migrate).await, "Target cluster member is offline");
    let backups = "Instances with backups cannot be moved";
    assert_eq!(refused("/1.0/instances/saved?target=m1", &migrate).await, backups);
    let (code, answer, _) =
        timed(&cluster, "m1", "POST", "/1.0/instances/s3?target=m9", Some(&migrate)).await;
    assert_eq!((code, &answer["error"]), (404, &json!("Cluster member not found")));
    assert_eq!(get(&cluster, "m1", "/1.0/instances/db-1").await.0, 404);

    // In another project all is as in the first, and so are the names of volumes.
    let path = "/1.0/instances/db-1?project=shop&target=m2";
    let operation = begin(&cluster, "m1", "POST", path, &migrate).await;
    wait(&cluster, "m1", &operation).await.unwrap();
    assert_eq!(refused(path, &migrate).await, same);
    cluster.set_lease(Lease::Exclusive(Duration::from_secs(3600)));
    let path = "/1.0/instances/db-1/state?project=shop";
    let operation = begin(&cluster, "m1", "PUT", path, &json!({"action": "start", "timeout": -1})).await;
    let (_, text) = wait(&cluster, "m1", &operation).await.unwrap_err();
    assert!(text.contains("/dev/ilvg/containers_shop_db--1"), "{text}");
    cluster.set_lease(AT_ONCE);
    let operation = begin(&cluster, "m1", "PUT", path, &json!({"action": "start", "timeout": -1})).await;
    wait(&cluster, "m1", &operation).await.unwrap();
    assert_eq!(cluster.running("shop", "db-1"), ["m2"]);
    let operation = begin(&cluster, "m1", "PUT", path, &json!({"action": "start", "timeout": -1})).await;
    let (_, text) = wait(&cluster, "m1", &operation).await.unwrap_err();
    assert_eq!(text, "The instance is already running");
    let operation = begin(&cluster, "m1", "PUT", path, &json!({"action": "stop", "timeout": -1})).await;
    wait(&cluster, "m1", &operation).await.unwrap();
    assert!(cluster.running("shop", "db-1").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_api_of_a_member_can_be_broken_by_itself() {
    let cluster = recorded().await;
    cluster.set_api_fault("m1", Some(ApiFault::Slow(Duration::from_secs(7)))).unwrap();
    let (code, _, took) = timed(&cluster, "m1", "GET", "/1.0", None).await;
    assert_eq!((code, took.as_secs()), (200, 7));
    cluster.set_api_fault("m1", Some(ApiFault::Garbage(502))).unwrap();
    assert_eq!(get(&cluster, "m1", "/1.0").await, (502, json!(null)));
    cluster.set_api_fault("m1", Some(ApiFault::Silent)).unwrap();
    let minutes = Duration::from_secs(600);
    assert!(timeout(minutes, cluster.ask("m1", "GET", "/1.0", None)).await.is_err());
    // The others see nothing of it.
    assert_eq!(status(&cluster, "m2", "m1").await, "Online");
    cluster.set_api_fault("m1", None).unwrap();
    assert_eq!(get(&cluster, "m1", "/1.0").await.0, 200);

    cluster.crash("m2").unwrap();
    assert!(timeout(minutes, cluster.ask("m2", "GET", "/1.0", None)).await.is_err());
    cluster.kill_daemon("m3").unwrap();
    assert_eq!(cluster.ask("m3", "GET", "/1.0", None).await.unwrap(), None);
    // Its instances run on.
    assert_eq!(cluster.running("default", "s3"), ["m3"]);
    cluster.heal("m3").unwrap();
    seconds(2.0).await;
    assert_eq!(cluster.running("default", "s3"), ["m3"]);
    assert!(cluster.ran_twice().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_while_a_machine_stands_still_is_answered_when_it_runs_on_and_lost_when_it_boots() {
    let cluster = recorded().await;
    cluster.hang("m3").unwrap();
    let thaw = async {
        seconds(100.0).await;
        cluster.heal("m3").unwrap();
    };
    let (answer, ()) = tokio::join!(cluster.ask("m3", "GET", "/1.0", None), thaw);
    assert_eq!(answer.unwrap().unwrap().0, 200);

    cluster.cut("m3").unwrap();
    let reboot = async {
        seconds(3.0).await;
        cluster.lose_power("m3").unwrap();
        cluster.heal("m3").unwrap();
    };
    let (answer, ()) = tokio::join!(cluster.ask("m3", "GET", LIST, None), reboot);
    assert_eq!(answer.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn settings_and_ephemeral_instances_are_as_planned() {
    let mut plan = recorded_plan();
    plan.healing_threshold = Some(120);
    plan.instances.push(InstancePlan::new("default", "brief", "m1").ephemeral());
    plan.instances
        .push(InstancePlan::new("default", "tied", "m1").with_local_device().virtual_machine().memory(512));
    let cluster = Cluster::start(plan).await.unwrap();
    let healing = async || {
        let (_, body) = get(&cluster, "m2", "/1.0").await;
        body["metadata"]["config"]["cluster.healing_threshold"].clone()
    };
    assert_eq!(healing().await, "120");
    cluster.set_healing_threshold(None);
    assert_eq!(healing().await, json!(null));
    let (_, body) = get(&cluster, "m1", "/1.0/instances/tied").await;
    let tied = &body["metadata"];
    assert_eq!(
        (&tied["type"], &tied["expanded_devices"]["key"]["type"]),
        (&json!("virtual-machine"), &json!("usb"))
    );
    assert_eq!(tied["expanded_config"]["limits.memory"], "512MiB");
    let path = "/1.0/instances/brief/state";
    let operation = begin(&cluster, "m1", "PUT", path, &json!({"action": "stop", "timeout": -1})).await;
    wait(&cluster, "m1", &operation).await.unwrap();
    assert_eq!(get(&cluster, "m1", "/1.0/instances/brief").await.0, 404);
}

#[tokio::test]
async fn a_plan_that_contradicts_itself_is_refused() {
    let plan = recorded_plan;
    let none = ClusterPlan { members: Vec::new(), instances: Vec::new(), ..plan() };
    let twice = ClusterPlan { members: ["a", "a"].map(String::from).into(), instances: Vec::new(), ..plan() };
    let nowhere = ClusterPlan { members: vec!["m1".to_owned()], ..plan() };
    let no_pool = ClusterPlan { pools: vec![PoolPlan::new("shared", "lvmcluster")], ..plan() };
    for (plan, told) in [
        (none, "a cluster has at least one member: name one in `members`"),
        (twice, "`member a` is there twice: give each member, pool and instance a name of its own"),
        (nowhere, "no member is called `m3`"),
        (no_pool, "instance `default/d3` is on pool `local`, which is not in `pools`"),
    ] {
        let Err(why) = Cluster::start(plan).await else { panic!("accepted, though {told}") };
        assert_eq!(why.to_string(), told);
    }
    let cluster = recorded().await;
    assert!(matches!(cluster.crash("m9"), Err(ClusterError::UnknownMember(name)) if name == "m9"));
}

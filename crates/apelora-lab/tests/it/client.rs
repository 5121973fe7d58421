//! The product's own client of Incus at the simulated cluster. The two share no code.

use std::sync::Arc;
use std::time::Duration;

use apelora_http::{ClientIdentity, Dial, Dialed, Dialing, Endpoint, Trust};
use apelora_incus::{
    Client, Ended, HealingSetting, IncusError, OperationId, Pool, Problem, Refusal, endpoint,
};
use apelora_lab::https::Identity;
use apelora_lab::incus::{Cluster, InstancePlan, Lease};
use apelora_lab::site::{Site, SitePlan};
use tokio::io::duplex;
use tokio::time::Instant;

use crate::support::{recorded_plan, seconds};

fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Dials a member in this process: a paused clock moves only when both sides wait.
struct Pipe(Arc<Cluster>, String);

impl Dial for Pipe {
    fn dial<'a>(&'a self, _to: &'a Endpoint, _by: Instant) -> Dialing<'a> {
        Box::pin(async move {
            let (ours, theirs) = duplex(64 << 10);
            let (cluster, member) = (Arc::clone(&self.0), self.1.clone());
            tokio::spawn(async move { drop(cluster.serve(&member, theirs).await) });
            Ok(Dialed { io: Box::new(ours), peer: None })
        })
    }
}

/// A client of one member that shows this certificate.
fn client(cluster: &Arc<Cluster>, member: &str, shown: &Identity) -> Client {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.crt");
    std::fs::write(&file, cluster.certificate_pem()).unwrap();
    let trust = Trust::pinned_leaf_file(&file).unwrap();
    let identity = ClientIdentity::from_pem(shown.pem().as_bytes(), shown.key_pem().as_bytes()).unwrap();
    let dial = Arc::new(Pipe(Arc::clone(cluster), member.to_owned()));
    Client::through(dial, endpoint("https://m1.example:8443").unwrap(), trust, Some(Arc::new(identity)))
}

async fn status(client: &Client, member: &str) -> Result<String, IncusError> {
    let members = client.members(within(60)).await?;
    Ok(members.into_iter().find(|known| known.name == member).unwrap().status)
}

async fn wait_offline(client: &Client, member: &str) {
    while status(client, member).await.unwrap() != "Offline" {
        seconds(0.5).await;
    }
}

async fn ended(client: &Client, operation: Result<OperationId, IncusError>) -> Ended {
    client.wait(&operation.unwrap(), within(60)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_recovery_as_the_product_does_it() {
    let mut plan = recorded_plan();
    plan.lease = Lease::Exclusive(Duration::from_secs(20));
    plan.instances.push(InstancePlan::new("shop", "db-1", "m3").with_local_device().memory(512));
    plan.instances.push(InstancePlan::new("default", "saved", "m3").with_backup());
    let cluster = Arc::new(Cluster::start(plan).await.unwrap());
    let us = Identity::client("us").unwrap();
    cluster.trust(us.der(), None);
    let (first, second) = (client(&cluster, "m1", &us), client(&cluster, "m2", &us));
    let view = second.view(within(5)).await.unwrap();
    assert_eq!((view.server.name.as_str(), view.server.offline_threshold), ("m2", Some(11)));
    assert_eq!(view.server.healing, HealingSetting::Off);
    assert!(view.members.iter().all(|member| member.status == "Online" && member.database));
    assert_eq!(view.members.iter().filter(|member| member.leads()).count(), 1);
    let all = first.instances_in_full(within(5)).await.unwrap();
    let find = |name: &str| all.iter().find(|instance| instance.name == name).unwrap();
    assert_eq!((find("saved").has_backups, find("s3").has_backups), (Some(true), Some(false)));
    assert_eq!(find("db-1").config.as_ref().unwrap().memory.as_deref(), Some("512MiB"));
    let shared: Vec<String> =
        first.pools(within(5)).await.unwrap().into_iter().filter(Pool::is_shared).map(|p| p.name).collect();
    assert_eq!(shared, ["shared"]);
    assert!(first.member_state("m3", within(5)).await.unwrap().free_memory > 0);

    cluster.lose_power("m3").unwrap();
    // A list that needs the dead member hangs, and another connection is not held up by it.
    let (list, seen) = tokio::join!(first.instances(within(35)), second.members(within(5)));
    assert!(list.unwrap().iter().filter(|instance| instance.location == "m3").all(|i| i.config.is_none()));
    seen.unwrap();
    wait_offline(&first, "m3").await;
    assert!(first.member_state("m3", within(5)).await.is_err());
    assert_eq!(
        ended(&first, first.move_instance("default", "s3", "m1", within(15)).await).await,
        Ended::Success
    );
    let moved = first.instance("default", "s3", within(5)).await.unwrap();
    assert_eq!((moved.location.as_str(), moved.status.as_str()), ("m1", "Stopped"));
    let mut refusals = 0;
    loop {
        match ended(&first, first.start_instance("default", "s3", within(15)).await).await {
            Ended::Success => break,
            Ended::Failed { code, text } => {
                assert_eq!(code, 500, "{text}");
                refusals += 1;
                seconds(3.0).await;
            }
            Ended::Unknown => panic!("lost"),
        }
    }
    assert!(refusals > 0, "the lease has not held");
    assert_eq!(cluster.running("default", "s3"), ["m1"]);
    let local = ended(&first, first.move_instance("default", "d3", "m1", within(15)).await).await;
    assert!(matches!(local, Ended::Failed { code: 404, .. }), "{local:?}");
    assert_eq!(
        ended(&first, first.move_instance("shop", "db-1", "m2", within(15)).await).await,
        Ended::Success
    );
    assert_eq!(cluster.location("shop", "db-1").as_deref(), Some("m2"));
    assert!(first.move_instance("default", "saved", "m1", within(15)).await.is_err());
    assert!(cluster.ran_twice().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_without_quorum_and_one_that_is_dead_give_no_view() {
    let cluster = Arc::new(Cluster::start(recorded_plan()).await.unwrap());
    let us = Identity::client("us").unwrap();
    cluster.trust(us.der(), None);
    let clients = ["m1", "m2", "m3"].map(|member| client(&cluster, member, &us));
    cluster.cut("m3").unwrap();
    cluster.hang("m2").unwrap();
    seconds(15.0).await;
    for client in &clients {
        client.members(within(5)).await.unwrap_err();
    }
    // What lives says so.
    assert_eq!(clients[2].server(within(2)).await.unwrap().name, "m3");
    clients[1].server(within(2)).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn what_a_certificate_may_not_see_is_told() {
    let cluster = Arc::new(Cluster::start(recorded_plan()).await.unwrap());
    let us = Identity::client("us").unwrap();
    let client = client(&cluster, "m1", &us);
    let kind = |error: IncusError| match error.problem {
        Problem::Refused { kind, .. } => kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(client.members(within(5)).await.unwrap_err()), Refusal::Untrusted);
    cluster.trust(us.der(), Some(&["shop"]));
    assert_eq!(client.server(within(5)).await.unwrap().healing, HealingSetting::Hidden);
    assert_eq!(kind(client.pools(within(5)).await.unwrap_err()), Refusal::Restricted);
    assert!(client.instances(within(5)).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_files_and_addresses_of_a_site_are_all_that_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(SitePlan::demo(folder.path())).await.unwrap();
    let identity = Arc::new(ClientIdentity::from_files(&site.client_cert(), &site.client_key()).unwrap());
    let trust = Trust::pinned_leaf_file(&site.server_cert()).unwrap();
    for (member, url) in site.members().iter().zip(site.incus_urls()) {
        let client = Client::new(endpoint(&url).unwrap(), trust.clone(), Some(Arc::clone(&identity)));
        let view = client.view(within(20)).await.unwrap();
        assert_eq!(&view.server.name, member);
        // The list leads to the same members.
        let urls: Vec<String> = view.members.into_iter().map(|member| member.url).collect();
        assert_eq!(urls, site.incus_urls());
        assert_eq!(client.instances(within(20)).await.unwrap().len(), 10);
    }
}

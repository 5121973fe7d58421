//! The shell over sockets: the simulated cluster and its BMCs on loopback, the database in memory.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::Clock;
use apelora_fencing::view::{Healing, SecondView};
use apelora_lab::incus::InstancePlan;
use apelora_lab::site::{Site, SitePlan};
use tempfile::TempDir;

use super::rig::{Rig, at_pace};
use crate::bmc_map::MapFile;
use crate::config::IncusConfig;
use crate::provider::Providers;
use crate::secret::EnvironmentSecrets;
use crate::shell::scripted::VirtualClock;
use crate::shell::{Bmcs, Cluster, Endpoints, Maps};

async fn site(change: impl FnOnce(&mut SitePlan)) -> (Site, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = SitePlan::new(&["s1", "s2", "s3", "s4"], folder.path());
    plan.cluster.offline_threshold = Duration::from_secs(11);
    change(&mut plan);
    (Site::start(plan).await.unwrap(), folder)
}

fn incus(site: &Site) -> IncusConfig {
    IncusConfig {
        urls: site.incus_urls(),
        client_cert: Some(site.client_cert()),
        client_key: Some(site.client_key()),
        server_cert: Some(site.server_cert()),
        ..IncusConfig::default()
    }
}

fn cluster(config: &IncusConfig) -> Cluster {
    Cluster::Incus(Endpoints::new(config, config.reach().unwrap(), vec!["worker".into()]))
}

#[tokio::test(start_paused = true)]
async fn two_members_are_heard_and_a_dead_one_delays_nobody() {
    let (site, _folder) = site(|_| {}).await;
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let cluster = cluster(&incus(&site));
    let pace = at_pace(20);
    let sight = cluster.look(&clock).await;
    let first = sight.view.unwrap();
    assert!(matches!(&sight.second, SecondView::Seen(second) if second.responder() != first.responder()));
    assert!(sight.second.witness(&first).is_some());
    assert_eq!((sight.healing, sight.own_host), (Healing::Off, None));
    assert!(first.leader().is_some() && first.responder_is_alive());
    site.hang("s1").unwrap();
    for look in 0..3 {
        let began = clock.boot();
        let sight = cluster.look(&clock).await;
        assert!(clock.boot().since(began) < Duration::from_secs(7), "look {look}");
        assert!(sight.view.is_ok_and(|view| view.responder().as_str() != "s1"), "look {look}");
    }
    drop(pace);
}

#[tokio::test(start_paused = true)]
async fn one_endpoint_learns_the_others() {
    let (site, _folder) = site(|_| {}).await;
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let config = IncusConfig { urls: site.incus_urls()[..1].to_vec(), ..incus(&site) };
    let cluster = cluster(&config);
    let pace = at_pace(20);
    let alone = cluster.look(&clock).await;
    assert!(alone.view.is_ok());
    assert_eq!(alone.second, SecondView::Missing);
    let sight = cluster.look(&clock).await;
    assert!(sight.second.witness(&sight.view.unwrap()).is_some(), "learnt from the member list");
    drop(pace);
}

#[tokio::test(start_paused = true)]
async fn what_a_restricted_certificate_cannot_see_needs_an_attestation() {
    let (site, _folder) = site(|plan| plan.restricted_to = Some(vec!["default".into()])).await;
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let pace = at_pace(20);
    for (healing_off, expected) in [(false, Healing::Unknown), (true, Healing::Off)] {
        let config = IncusConfig { healing_off, ..incus(&site) };
        assert_eq!(cluster(&config).look(&clock).await.healing, expected);
    }
    drop(pace);
}

#[tokio::test(start_paused = true)]
async fn healing_that_is_on_overrules_the_attestation() {
    let (site, _folder) = site(|plan| plan.cluster.healing_threshold = Some(60)).await;
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let pace = at_pace(20);
    let config = IncusConfig { healing_off: true, ..incus(&site) };
    assert_eq!(cluster(&config).look(&clock).await.healing, Healing::On);
    drop(pace);
}

#[tokio::test(start_paused = true)]
async fn what_runs_where_is_kept_while_it_can_be_asked() {
    let instances = [
        InstancePlan::new("default", "web", "s3").memory(512),
        InstancePlan::new("default", "cache", "s3").on_pool("local"),
        InstancePlan::new("default", "db", "s1").autostart(false),
    ];
    let (site, _folder) = site(|plan| plan.cluster.instances = instances.to_vec()).await;
    let rig = Rig::new();
    let pace = at_pace(20);
    let config = incus(&site);
    let worker = rig.start_through(move |outside| outside.cluster = cluster(&config));
    rig.wait(120, "every member's instances", |rig| rig.base.inventory.lock().unwrap().len() == 4).await;
    let of = |member: &str| rig.base.inventory.lock().unwrap()[&member.into()].clone();
    assert!(of("s2").is_empty());
    assert!(
        matches!(&of("s1")[..], [db] if db.name == "db" && db.autostart == Some(false) && db.was_running)
    );
    let s3 = of("s3");
    assert!(matches!(&s3[..], [cache, web] if !cache.shared_storage && web.shared_storage), "{s3:?}");
    assert!(s3.iter().all(|i| i.was_running && !i.has_backups && !i.local_device), "{s3:?}");
    // A dead member's instances have no configuration any more: what was known stays.
    site.crash("s3").unwrap();
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(of("s3"), s3);
    drop((worker, pace));
}

#[tokio::test(start_paused = true)]
async fn a_crashed_member_is_switched_off_through_its_bmc_and_no_other() {
    for victim in ["s3", "s4"] {
        let (site, _folder) = site(|_| {}).await;
        let rig = Rig::new();
        let pace = at_pace(20);
        let (urls, secrets) = (incus(&site), site.secrets().clone());
        let map = site.bmc_map();
        let worker = rig.start_through(move |outside| {
            outside.cluster = cluster(&urls);
            let settings = outside.config.providers.clone();
            outside.bmcs = Bmcs::Real(Providers::new(settings, Arc::new(EnvironmentSecrets::new(secrets))));
            outside.map = Maps::File(MapFile::new(Some(map), Vec::new()));
        });
        rig.wait(120, "the members are known", |rig| rig.known_online() == 4).await;
        site.crash(victim).unwrap();
        rig.wait(120, "an intent", |rig| rig.open_records() == 1).await;
        pace.set(4);
        rig.wait(120, "the proof", |rig| rig.is_fenced(victim)).await;
        assert_eq!((site.has_power(victim).unwrap(), site.power_offs()), (false, 1), "{victim}");
        assert_eq!(site.bmc(victim).unwrap().power_offs(), 1, "{victim}");
        worker.assert_figures_match(&rig);
    }
}

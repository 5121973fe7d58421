//! A whole site: real clients at its BMCs, and machines that live on what they switch.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use apelora_fencing::MemberName;
use apelora_fencing::identity::{ByteOrder, SystemUuid};
use apelora_fencing::map::BmcMap;
use apelora_ipmi::{Completion, Credentials, SendReport, Suites, Timers};
use apelora_lab::incus::InstancePlan;
use apelora_lab::site::{BmcKind, Site, SiteError, SitePlan, Trouble};
use apelora_redfish::{Endpoint, PowerWord, SystemChoice, SystemPath};
use serde_json::Value;
use tokio::time::{Instant, advance, pause};

use crate::support::{offline, seconds};
use crate::wire::over_tcp;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn plan(folder: &Path, kind: BmcKind) -> SitePlan {
    let mut plan = SitePlan::new(&["s1", "s2", "s3"], folder).all_with(kind).with_instances(&[
        InstancePlan::new("default", "web", "s1"),
        InstancePlan::new("default", "db", "s3"),
        InstancePlan::new("default", "disk", "s3").on_pool("local"),
    ]);
    plan.cluster.boot_time = Duration::from_secs(2);
    plan
}

/// What the map says about a member.
fn entry(site: &Site, member: &str) -> Value {
    let map: Value = serde_json::from_slice(&std::fs::read(site.bmc_map()).unwrap()).unwrap();
    map["members"][member].clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A conversation with a Redfish BMC, opened with nothing but what the site has handed out.
async fn redfish(site: &Site, member: &str) -> Result<apelora_redfish::Conversation, String> {
    let entry = entry(site, member);
    let target = apelora_redfish::Target {
        endpoint: Endpoint::https(&text(&entry["address"])).unwrap(),
        ca_file: Some(text(&entry["ca_file"]).into()),
        user: text(&entry["user"]),
        system: SystemChoice::Path(SystemPath::parse(&text(&entry["system"])).unwrap()),
    };
    let password = site.secrets()[&text(&entry["secret"])].clone().into();
    apelora_redfish::Conversation::open(&target, &password, soon()).await.map_err(|why| why.to_string())
}

/// The same for an IPMI BMC.
async fn ipmi(site: &Site, member: &str) -> Result<apelora_ipmi::Conversation, String> {
    ipmi_with(site, member, Timers::DEFAULT).await
}

async fn ipmi_with(site: &Site, member: &str, timers: Timers) -> Result<apelora_ipmi::Conversation, String> {
    let entry = entry(site, member);
    let password = site.secrets()[&text(&entry["secret"])].clone().into();
    let target = apelora_ipmi::Target {
        address: text(&entry["address"]).parse().unwrap(),
        credentials: Credentials::new(&text(&entry["user"]), &password, None).unwrap(),
        suites: Suites::Only17,
    };
    apelora_ipmi::Conversation::open(&target, timers, soon()).await.map_err(|why| why.to_string())
}

fn accepted(report: &SendReport) {
    assert_eq!(*report, SendReport::Answered(Completion::SUCCESS));
}

/// Reads through IPMI; the power of another machine is not asked for.
async fn read(
    site: &Site,
    member: &str,
    conversation: &mut apelora_ipmi::Conversation,
) -> Result<apelora_ipmi::Power, String> {
    let uuid: SystemUuid = site.bmc(member).unwrap().uuid().parse().unwrap();
    let ours = uuid.encoded(ByteOrder::Smbios);
    let read = conversation.read(|guid| guid.0 == ours, soon()).await;
    read.map(|read| read.power).map_err(|why| why.to_string())
}

/// After `s3` was switched off: what was on it is off, what can move moves, and it comes back.
async fn ends_and_comes_back(site: &Site) {
    assert!(!site.has_power("s3").unwrap() && !site.is_alive("s3").unwrap());
    assert!(site.running("default", "db").is_empty() && site.running("default", "disk").is_empty());
    assert_eq!(site.running("default", "web"), ["s1"]);
    let bmc = site.bmc("s3").unwrap();
    assert_eq!((bmc.power_offs(), bmc.power_offs_asked(), site.power_offs()), (1, 1, 1));
    assert!(bmc.requests() > 0);

    // No socket is waited for from here on.
    pause();
    let cluster = site.cluster();
    offline(cluster, "s1", "s3").await;
    crate::support::move_to(cluster, "s1", "db", "s2").await.unwrap();
    crate::support::start(cluster, "s1", "db").await.unwrap();
    assert_eq!(site.running("default", "db"), ["s2"]);
    site.heal("s3").unwrap();
    seconds(3.5).await;
    assert!(site.is_alive("s3").unwrap());
    assert_eq!(site.running("default", "disk"), ["s3"]);
    assert_eq!(site.running("default", "db"), ["s2"]);
    assert!(site.ran_twice().is_empty());
    let told: Vec<String> = site.happenings().iter().map(|happening| happening.what.to_string()).collect();
    assert!(told.contains(&"s3 has lost its power.".to_owned()), "{told:#?}");
    assert!(told.contains(&"default/db no longer runs on s3.".to_owned()), "{told:#?}");
}

#[tokio::test]
async fn a_power_off_through_redfish_ends_what_runs_on_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(plan(folder.path(), BmcKind::Redfish)).await.unwrap();
    site.cut("s3").unwrap();
    assert_eq!(site.running("default", "db"), ["s3"]);
    let mut conversation = redfish(&site, "s3").await.unwrap();
    let read = conversation.read(soon()).await.unwrap();
    assert_eq!(read.power, PowerWord::On);
    assert_eq!(read.uuid.text(), Some(site.bmc("s3").unwrap().uuid()));
    conversation.force_off(&read, &mut || true, soon()).await;
    assert_eq!(conversation.read(soon()).await.unwrap().power, PowerWord::Off);
    conversation.close(soon()).await;
    ends_and_comes_back(&site).await;
}

#[tokio::test]
async fn a_power_off_through_ipmi_ends_what_runs_on_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(plan(folder.path(), BmcKind::Ipmi)).await.unwrap();
    site.hang("s3").unwrap();
    assert_eq!(site.running("default", "db"), ["s3"]);
    let mut conversation = ipmi(&site, "s3").await.unwrap();
    assert_eq!(read(&site, "s3", &mut conversation).await.unwrap(), apelora_ipmi::Power::On);
    accepted(&conversation.force_off(soon(), soon()).await);
    assert_eq!(read(&site, "s3", &mut conversation).await.unwrap(), apelora_ipmi::Power::Off);
    conversation.close(soon()).await;
    ends_and_comes_back(&site).await;
}

#[tokio::test]
async fn a_switch_off_that_takes_time_leaves_the_machine_running_until_then() {
    for kind in [BmcKind::Redfish, BmcKind::Ipmi] {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::start(plan(folder.path(), kind)).await.unwrap();
        site.bmc("s3").unwrap().set_delay(Duration::from_secs(3600));
        match kind {
            BmcKind::Redfish => {
                let mut conversation = redfish(&site, "s3").await.unwrap();
                let read = conversation.read(soon()).await.unwrap();
                conversation.force_off(&read, &mut || true, soon()).await;
            }
            BmcKind::Ipmi => {
                let mut conversation = ipmi(&site, "s3").await.unwrap();
                read(&site, "s3", &mut conversation).await.unwrap();
                accepted(&conversation.force_off(soon(), soon()).await);
            }
        }
        assert_eq!(site.power_offs(), 1);
        pause();
        advance(Duration::from_secs(3500)).await;
        assert_eq!(site.running("default", "db"), ["s3"], "{kind:?}");
        advance(Duration::from_secs(200)).await;
        assert!(site.running("default", "db").is_empty(), "{kind:?}");
        // It happened when it was due, not when somebody looked.
        let off =
            site.happenings().iter().find(|h| h.what.to_string() == "s3 has lost its power.").unwrap().at;
        assert!(Instant::now() - off > Duration::from_secs(95), "{kind:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_bmc_without_mains_reads_off_or_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = SitePlan::new(&["a", "b", "c", "d"], folder.path());
    for member in &mut plan.members[2..] {
        member.bmc_needs_mains = true;
    }
    let site = Site::start(plan).await.unwrap();
    for member in ["a", "b", "c", "d"] {
        site.lose_power(member).unwrap();
    }
    let a = redfish(&site, "a").await.unwrap().read(soon()).await.unwrap();
    assert_eq!(a.power, PowerWord::Off);
    let mut b = ipmi(&site, "b").await.unwrap();
    assert_eq!(read(&site, "b", &mut b).await.unwrap(), apelora_ipmi::Power::Off);
    assert!(redfish(&site, "c").await.is_err());
    // Nothing comes, so nothing is lost by waiting less.
    let hasty = Timers { step: Duration::from_millis(50), ..Timers::DEFAULT };
    let why = ipmi_with(&site, "d", hasty).await.unwrap_err();
    assert!(why.contains("no usable"), "{why}");
    for member in ["c", "d"] {
        site.heal(member).unwrap();
        assert!(site.has_power(member).unwrap());
    }
    assert_eq!(redfish(&site, "c").await.unwrap().read(soon()).await.unwrap().power, PowerWord::On);
    let mut d = ipmi(&site, "d").await.unwrap();
    assert_eq!(read(&site, "d", &mut d).await.unwrap(), apelora_ipmi::Power::On);
}

#[tokio::test]
async fn troubles_are_the_same_for_both_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(SitePlan::new(&["r", "i"], folder.path())).await.unwrap();
    let other = [7; 16];
    for trouble in [Trouble::Reads(false), Trouble::Impostor(other), Trouble::Rejects, Trouble::Ignores] {
        for member in ["r", "i"] {
            site.bmc(member).unwrap().set_trouble(Some(&trouble));
        }
        let (mut r, mut i) = (redfish(&site, "r").await.unwrap(), ipmi(&site, "i").await.unwrap());
        let (seen, power) = (r.read(soon()).await.unwrap(), read(&site, "i", &mut i).await);
        let off = trouble == Trouble::Reads(false);
        assert_eq!(seen.power == PowerWord::Off, off);
        let other_one = trouble == Trouble::Impostor(other);
        assert_eq!(seen.uuid.text() == Some("07070707-0707-0707-0707-070707070707"), other_one);
        assert_eq!(power.is_err(), other_one, "{power:?}");
        if let Ok(power) = power {
            assert_eq!(power == apelora_ipmi::Power::Off, off);
        }
        if matches!(trouble, Trouble::Rejects | Trouble::Ignores) {
            r.force_off(&seen, &mut || true, soon()).await;
            let report = i.force_off(soon(), soon()).await;
            let rejected = trouble == Trouble::Rejects;
            assert_eq!(report == SendReport::Answered(Completion::SUCCESS), !rejected, "{report:?}");
        }
        r.close(soon()).await;
        i.close(soon()).await;
    }
    for member in ["r", "i"] {
        assert!(site.has_power(member).unwrap(), "{member}");
        let bmc = site.bmc(member).unwrap();
        assert_eq!((bmc.power_offs(), bmc.power_offs_asked()), (0, 2), "{member}");
    }
}

#[tokio::test]
async fn a_worker_finds_all_it_needs_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start(SitePlan::demo(&folder.path().join("new"))).await.unwrap();
    let map = std::fs::read(site.bmc_map()).unwrap();
    let map = BmcMap::parse(&map, &[]).unwrap();
    assert_eq!(map.len(), 4);
    for member in site.members() {
        assert!(map.get(&MemberName::from(member.as_str())).is_some(), "{member}");
        assert!(site.secrets().contains_key(&text(&entry(&site, member)["secret"])));
    }
    let passwords: BTreeSet<&String> = site.secrets().values().collect();
    assert_eq!(passwords.len(), 4);
    for file in [site.bmc_map(), site.client_cert(), site.client_key(), site.server_cert()] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
    for (member, url) in site.members().iter().zip(site.incus_urls()) {
        let ours = (site.client_cert(), site.client_key());
        let (status, body) =
            over_tcp(&url, &site.server_cert(), (&ours.0, &ours.1), "/1.0").await.expect("an answer");
        let server = &body["metadata"];
        assert_eq!((status, text(&server["auth"])), (200, "trusted".to_owned()));
        assert_eq!(&text(&server["environment"]["server_name"]), member);
    }
    // Every way in which an instance restarts or stays has one.
    let names: Vec<String> = site.cluster().instances().iter().map(ToString::to_string).collect();
    assert_eq!(names.len(), 10, "{names:?}");

    let mut twins = SitePlan::new(&["a-1", "a.1"], folder.path());
    twins.cluster.instances.clear();
    let Err(SiteError::Secret(name)) = Site::start(twins).await else { panic!("accepted") };
    assert_eq!(name, "APELORA_BMC_SECRET_A_1");
}

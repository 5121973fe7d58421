//! A person's word against a power-off in progress and against a worker that is not there, and a dry run.

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::record::ProofKind;
use apelora_fencing::write::Outcome;
use apelora_lab::incus::InstancePlan;
use apelora_lab::site::{SitePlan, Trouble};
use apelora_worker::Notice;

use crate::whole::{Running, Whole, at_pace};

const POWER_OFF: &str = "cluster.member.power_off";

/// With an instance on each of `s2` and `s3`, which are switched over IPMI and over Redfish.
fn with_instances(plan: &mut SitePlan) {
    plan.cluster.instances =
        vec![InstancePlan::new("default", "web2", "s2"), InstancePlan::new("default", "web3", "s3")];
}

async fn runs_again(worker: &mut Running, whole: &Whole, instance: &str, not_on: &str) {
    worker.hear_word("started").await;
    let on = whole.site.running("default", instance);
    assert!(on.len() == 1 && on[0] != not_on, "{on:?}");
    assert!(whole.site.ran_twice().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_word_supersedes_a_power_off_that_was_not_sent() {
    let pace = at_pace(1);
    let whole = Whole::start(with_instances).await;
    pace.set(20);
    let mut worker = whole.work(whole.config()).await;
    worker.hear_word("cluster_readable").await;
    // What runs where is stored once a minute.
    tokio::time::sleep(Duration::from_secs(90)).await;
    // Its BMC takes its time for each step of a session, so the power-off stands before its permit for seconds.
    whole.site.bmc("s2").unwrap().set_trouble(Some(&Trouble::Slow(Duration::from_millis(500))));
    whole.site.crash("s2").unwrap();
    worker.hear_word("grace").await;
    tokio::time::sleep(Duration::from_secs(24)).await;
    pace.set(1);
    worker.hear_word("intent").await;
    whole.confirm_off("s2").await;
    assert_eq!(whole.proof("s2").await, Some(ProofKind::Person));
    let ended = worker.hear_word("ended").await;
    assert!(
        matches!(ended, Notice::Ended { outcome: Outcome::Refused, reason: ReasonCode::PersonConfirmed, .. }),
        "{ended:?}"
    );
    // As the person said. Until then its storage lease keeps its instance from starting elsewhere.
    whole.site.lose_power("s2").unwrap();
    pace.set(20);
    runs_again(&mut worker, &whole, "web2", "s2").await;
    let words = worker.told.iter().filter(|notice| matches!(notice.word(), "permitted" | "sent"));
    assert_eq!((words.count(), whole.asked()), (0, 0), "{}", worker.story());
    let rows = whole.audited("s2", POWER_OFF).await;
    assert_eq!(rows.last(), Some(&("refused".into(), "person_confirmed".into())), "{rows:?}");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_power_off_that_was_sent_is_read_to_its_end_beside_a_persons_word() {
    let pace = at_pace(1);
    let whole = Whole::start(with_instances).await;
    whole.site.bmc("s3").unwrap().set_delay(Duration::from_secs(15));
    pace.set(20);
    let mut worker = whole.work(whole.config()).await;
    worker.hear_word("cluster_readable").await;
    whole.site.crash("s3").unwrap();
    worker.hear_word("intent").await;
    pace.set(4);
    worker.hear_word("sent").await;
    whole.confirm_off("s3").await;
    assert!(whole.site.has_power("s3").unwrap(), "it goes off later");
    assert_eq!(whole.proof("s3").await, Some(ProofKind::Person), "the word does not wait");
    let ended = worker.hear_word("ended").await;
    assert!(matches!(ended, Notice::Ended { outcome: Outcome::Success, .. }), "{ended:?}");
    assert!(!whole.site.has_power("s3").unwrap());
    assert_eq!(whole.asked(), 1);
    assert_eq!(whole.audited("s3", POWER_OFF).await.pop(), Some(("success".into(), "powered_off".into())));
    assert_eq!(whole.audited("s3", "cluster.member.confirmed_off").await.len(), 1);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_word_that_was_given_while_no_worker_ran_is_honoured_at_the_next_election() {
    let pace = at_pace(1);
    let whole = Whole::start(with_instances).await;
    pace.set(20);
    let mut first = whole.work(whole.config()).await;
    first.hear_word("cluster_readable").await;
    // What runs where is stored once a minute.
    tokio::time::sleep(Duration::from_secs(90)).await;
    whole.site.crash("s3").unwrap();
    first.hear_word("grace").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    first.stop().await;
    whole.site.lose_power("s3").unwrap();
    whole.confirm_off("s3").await;

    let mut second = whole.work(whole.config()).await;
    second.hear_word("elected").await;
    runs_again(&mut second, &whole, "web3", "s3").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    second.hear_word("recovered").await;
    assert!(second.told.iter().all(|notice| notice.word() != "intent"), "{}", second.story());
    assert_eq!((whole.asked(), whole.proof("s3").await), (0, Some(ProofKind::Person)));
    assert_eq!(whole.audited("s3", POWER_OFF).await, []);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stops_before_the_permit_and_recovers_nothing() {
    let pace = at_pace(1);
    let whole = Whole::start(with_instances).await;
    pace.set(20);
    let mut config = whole.config();
    config.dry_run = true;
    let mut worker = whole.work(config).await;
    worker.hear_word("cluster_readable").await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    whole.site.crash("s3").unwrap();
    worker.hear_word("intent").await;
    pace.set(4);
    let ended = worker.hear_word("ended").await;
    assert!(
        matches!(ended, Notice::Ended { outcome: Outcome::Refused, reason: ReasonCode::DryRun, .. }),
        "{ended:?}"
    );
    assert_eq!(whole.audited("s3", POWER_OFF).await.pop(), Some(("refused".into(), "dry_run".into())));
    assert!(whole.published().await.unwrap().dry_run);
    assert!(whole.site.has_power("s3").unwrap());

    // Nor is anything started elsewhere when a person proves it off.
    pace.set(20);
    whole.site.lose_power("s3").unwrap();
    whole.confirm_off("s3").await;
    worker.hear_word("fenced").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let planned = whole.shown("the plan", |status| {
        let s3 = status.members.iter().find(|member| member.member.as_str() == "s3").unwrap();
        s3.instances.iter().any(|instance| instance.name == "web3" && instance.target.is_some())
    });
    planned.await;
    assert_eq!(whole.site.running("default", "web3"), Vec::<String>::new());
    assert!(whole.store.recoveries(None).await.unwrap().is_empty());
    let acts = worker.told.iter().filter(|n| matches!(n.word(), "permitted" | "sent" | "moved" | "started"));
    assert_eq!((acts.count(), whole.asked()), (0, 0), "{}", worker.story());
    worker.stop().await;
}

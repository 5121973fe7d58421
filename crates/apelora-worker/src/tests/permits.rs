//! What stands between a decision and the first byte.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::Target;
use apelora_fencing::map::BmcMap;
use apelora_fencing::proof::{Reading, SendAnswer, SendPermit, SendReport};
use apelora_fencing::{BootTime, Clock, ReasonCode, Ticket};
use apelora_lab::ipmi::{Bmc, Suite};
use serde_json::Value;

use super::bmcs::{Ipmi, Redfish, Site, UUID_BYTES, account, ipmi, ipmi_like, map_of, providers, soon, with};
use super::rig::{VirtualClock, permit};
use crate::provider::Conversation;

/// One BMC of each kind, and how often it was told to switch off.
struct Both {
    redfish: Redfish,
    ipmi: Ipmi,
    _site: Site,
}

impl Both {
    async fn new() -> Self {
        let site = Site::new();
        Self { redfish: site.redfish().await, ipmi: ipmi().await, _site: site }
    }

    fn entries(&self) -> [&Value; 2] {
        [&self.redfish.entry, &self.ipmi.entry]
    }

    fn told(&self) -> u32 {
        self.redfish.bmc().resets() + self.ipmi.bmc.power_offs()
    }
}

/// An open conversation with a fresh reading of a running server, and a permit for it.
struct Ready {
    conversation: Conversation,
    reading: Reading,
    permit: SendPermit,
    clock: Arc<VirtualClock>,
}

fn target(map: &Arc<BmcMap>) -> Target {
    Target { member: "s1".into(), entry: Arc::clone(map.get(&"s1".into()).unwrap()), map: map.sha() }
}

async fn read(conversation: &mut Conversation, id: Ticket, target: &Target, clock: &VirtualClock) -> Reading {
    let now = clock.boot();
    let reported = conversation.read(soon()).await.unwrap();
    Reading::verify(&reported, &target.entry.identity, id, (now, now)).unwrap()
}

async fn ready(entry: &Value) -> Ready {
    let map = map_of([("s1", entry.clone())]);
    let clock = Arc::default();
    let permit = permit(&map, &clock).await;
    let target = target(&map);
    let mut conversation = providers().open(Ticket(5), &target, soon()).await.unwrap();
    let reading = read(&mut conversation, Ticket(5), &target, &clock).await;
    Ready { conversation, reading, permit, clock }
}

impl Ready {
    async fn send(&mut self) -> SendReport {
        self.conversation.force_off(&self.permit, &self.reading, &*self.clock, soon()).await
    }
}

fn not_sent(report: &SendReport, reason: ReasonCode) -> bool {
    !report.may_have_been_sent() && report.answer == SendAnswer::NotSent(reason)
}

#[tokio::test]
async fn a_permit_that_has_ended_sends_nothing() {
    let both = Both::new().await;
    for entry in both.entries() {
        let mut ready = ready(entry).await;
        ready.clock.set(ready.permit.until());
        let report = ready.send().await;
        assert!(not_sent(&report, ReasonCode::PermitExpired), "{report:?}");
        ready.conversation.close().await;
    }
    assert_eq!(both.told(), 0);
}

/// The clock jumps between the first look and the last: a suspend right before the first byte.
struct Jumping {
    to: BootTime,
    looks: std::sync::atomic::AtomicU32,
    before: BootTime,
}

impl Clock for Jumping {
    fn boot(&self) -> BootTime {
        let looked = self.looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if looked == 0 { self.before } else { self.to }
    }
}

#[tokio::test]
async fn the_clock_is_looked_at_directly_before_the_first_byte() {
    let both = Both::new().await;
    for entry in both.entries() {
        let mut ready = ready(entry).await;
        let jumping =
            Jumping { before: ready.clock.boot(), to: ready.permit.until(), looks: Default::default() };
        let report = ready.conversation.force_off(&ready.permit, &ready.reading, &jumping, soon()).await;
        assert!(not_sent(&report, ReasonCode::PermitExpired), "{report:?}");
        assert_eq!((report.began, report.ended), (jumping.to, jumping.to));
    }
    assert_eq!(both.told(), 0);
}

#[tokio::test]
async fn a_reading_of_another_conversation_sends_nothing() {
    let both = Both::new().await;
    for entry in both.entries() {
        let mut ready = ready(entry).await;
        let target = target(&map_of([("s1", entry.clone())]));
        let mut second = providers().open(Ticket(6), &target, soon()).await.unwrap();
        let other = read(&mut second, Ticket(6), &target, &ready.clock).await;
        let report = ready.conversation.force_off(&ready.permit, &other, &*ready.clock, soon()).await;
        assert!(not_sent(&report, ReasonCode::PermitExpired), "{report:?}");
        // That has used the own reading up, too.
        let report = ready.send().await;
        assert!(not_sent(&report, ReasonCode::PermitExpired), "{report:?}");
    }
    assert_eq!(both.told(), 0);
}

#[tokio::test]
async fn a_permit_for_another_map_sends_nothing() {
    let both = Both::new().await;
    for entry in both.entries() {
        let mut ready = ready(entry).await;
        let more = serde_json::json!({"provider": "lima", "address": "apelora-s3"});
        let other = map_of([("s1", entry.clone()), ("s3", more)]);
        ready.permit = permit(&other, &Arc::default()).await;
        let report = ready.send().await;
        assert!(not_sent(&report, ReasonCode::MappingChanged), "{report:?}");
    }
    assert_eq!(both.told(), 0);
}

#[tokio::test]
async fn a_reading_permits_one_request() {
    let both = Both::new().await;
    both.redfish.bmc().set_fault(Some(apelora_lab::redfish::Fault::Ignores));
    both.ipmi.bmc.set_fault(Some(apelora_lab::ipmi::Fault::Rejects(0xc0)));
    for (entry, answer) in both.entries().into_iter().zip([SendAnswer::Accepted, SendAnswer::Declined]) {
        let mut ready = ready(entry).await;
        let before = ready.clock.boot();
        ready.clock.advance(Duration::from_millis(3));
        let report = ready.send().await;
        assert_eq!((report.answer, report.may_have_been_sent()), (answer, true));
        assert_eq!(report.began, before + Duration::from_millis(3));
        let again = ready.send().await;
        assert!(not_sent(&again, ReasonCode::PermitExpired), "{again:?}");
    }
    assert_eq!(both.redfish.bmc().resets(), 1);
}

#[tokio::test]
async fn a_reading_that_is_not_the_latest_sends_nothing() {
    let both = Both::new().await;
    for entry in both.entries() {
        let mut ready = ready(entry).await;
        both.redfish.bmc().set_power(0, apelora_lab::redfish::Power::Off);
        both.ipmi.bmc.set_power(apelora_lab::ipmi::Power::Off);
        // It said On; the one after it says Off.
        ready.conversation.read(soon()).await.unwrap();
        let report = ready.send().await;
        assert!(not_sent(&report, ReasonCode::PermitExpired), "{report:?}");
        both.redfish.bmc().set_power(0, apelora_lab::redfish::Power::On);
        both.ipmi.bmc.set_power(apelora_lab::ipmi::Power::On);
    }
    assert_eq!(both.told(), 0);
}

#[tokio::test]
async fn suite_3_is_not_accepted_from_a_bmc_that_spoke_17() {
    let providers = providers();
    let modern = ipmi().await;
    let target_of = |entry: &Value| target(&map_of([("s1", entry.clone())]));
    let open = async |entry: &Value| {
        let opened = providers.open(Ticket(1), &target_of(entry), soon()).await;
        match opened {
            Ok(conversation) => {
                let suite = conversation.facts().suite;
                conversation.close().await;
                Ok(suite)
            }
            Err(error) => Err(error),
        }
    };
    let old = ipmi_like(Bmc::new(UUID_BYTES, account(), [9; 32]).with_suites(&[Suite::Three])).await;
    assert_eq!(open(&old.entry).await, Ok(Some(3)), "never spoken 17: 3 is what there is");
    assert_eq!(open(&modern.entry).await, Ok(Some(17)));
    let refused = open(&old.entry).await.unwrap_err();
    assert_eq!(refused.reason, ReasonCode::CipherSuite);
    assert!(refused.detail.contains("spoke cipher suite 17 before"), "{refused:?}");
    // A person who pins 3 is believed, and another member is another story.
    assert_eq!(open(&with(&old.entry, "cipher_suites", vec![3])).await, Ok(Some(3)));
    let map = map_of([("s2", old.entry.clone())]);
    let other =
        Target { member: "s2".into(), entry: Arc::clone(map.get(&"s2".into()).unwrap()), map: map.sha() };
    providers.open(Ticket(1), &other, soon()).await.unwrap().close().await;
}

//! Nothing that is kept, told or printed contains a secret, in whatever form; also not when a BMC repeats it.

use std::sync::Arc;

use apelora_fencing::event::BmcError;
use apelora_fencing::{ReasonCode, Ticket};
use apelora_lab::redfish::{CertificatePlan, Fault, Reply, Seen, Service, Whole};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::json;
use time::OffsetDateTime;

use super::bmcs::{
    OTHER_UUID, PASSWORD, Site, USER, ipmi, map_of, providers, providers_with, soon, target, with, without,
};
use super::rig::fence;
use crate::check::check;
use crate::secret::EnvironmentSecrets;
use crate::{ProviderSettings, Providers};

/// The forms in which a secret could stand somewhere.
fn forms(secret: &str) -> Vec<String> {
    let pair = format!("{USER}:{secret}");
    let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
    let mut forms = Vec::new();
    for text in [secret, &pair] {
        forms.extend([text.to_owned(), STANDARD_NO_PAD.encode(text), hex(text), hex(text).to_uppercase()]);
        // As Rust shows it.
        forms.push(text.escape_debug().to_string());
    }
    forms
}

fn clean(said: &str) {
    for form in forms(PASSWORD) {
        assert!(!said.contains(&form), "{form} in {said}");
    }
}

/// A BMC that puts what it was sent wherever the client might quote it.
struct Echo(u16, Place);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Members,
    Uuid,
    Power,
    Target,
    Maker,
    Location,
}

const SYSTEM: &str = "/redfish/v1/Systems/1";

impl Service for Echo {
    fn answer(&self, request: &Seen) -> Reply {
        let sent = request.header("authorization").unwrap();
        let encoded = sent.trim_start_matches("Basic ").trim_end_matches('=');
        let error = json!({"error": {"code": sent, "message": PASSWORD, "@Message.ExtendedInfo": [
            {"MessageId": encoded, "Message": sent, "MessageArgs": [sent, PASSWORD]}]}});
        if self.0 != 200 {
            return Reply::Whole(Whole::json(self.0, &error).with_header("Location", sent));
        }
        let echoing = format!("/redfish/v1/Systems/{encoded}");
        let listed = if self.1 == Place::Members { echoing.as_str() } else { SYSTEM };
        if request.path == "/redfish/v1/Systems" {
            return Reply::Whole(Whole::json(200, &json!({"Members": [{"@odata.id": listed}]})));
        }
        let mut body = json!({"@odata.id": listed, "UUID": super::bmcs::UUID, "PowerState": "On",
            "Actions": {"#ComputerSystem.Reset": {"target": format!("{listed}/Actions/ComputerSystem.Reset")}}});
        match self.1 {
            Place::Uuid => body["UUID"] = encoded.into(),
            Place::Power => body["PowerState"] = sent.into(),
            Place::Target => body["Actions"]["#ComputerSystem.Reset"]["target"] = sent.into(),
            Place::Maker => body["Manufacturer"] = sent.into(),
            Place::Members | Place::Location => {}
        }
        Reply::Whole(Whole::json(200, &body).with_header("Location", sent))
    }
}

#[tokio::test]
async fn a_bmc_that_repeats_the_credential_is_not_repeated() {
    use Place::{Location, Maker, Members, Power, Target, Uuid};
    let site = Site::new();
    let plan = CertificatePlan::for_address([127, 0, 0, 1].into());
    let mut runs = 0;
    let statuses = [301, 400, 401, 403, 404, 500, 503].map(|status| (status, Location));
    let places = [Members, Uuid, Power, Target, Maker, Location].map(|place| (200, place));
    for (status, place) in statuses.into_iter().chain(places) {
        let bmc = site.serve(Echo(status, place), SYSTEM, &plan).await;
        let by_uuid = without(&bmc.entry, "system");
        for entry in [&bmc.entry, &by_uuid, &with(&by_uuid, "uuid", OTHER_UUID)] {
            let target = target(entry);
            let providers = providers();
            let mut said = format!("{providers:?} {target:?}");
            match providers.open(Ticket(1), &target, soon()).await {
                Err(error) => said += &format!("{error:?}"),
                Ok(mut conversation) => {
                    let read = conversation.read(soon()).await;
                    said += &format!("{read:?} {conversation:?} {:?}", conversation.facts());
                }
            }
            let map = map_of([("s1", entry.clone())]);
            let rows =
                check(&providers, &map, &[], std::time::Duration::from_secs(20), OffsetDateTime::UNIX_EPOCH);
            said += &serde_json::to_string(&rows.await.unwrap()).unwrap();
            if entry == &by_uuid {
                said += &format!("{:?}", fence(&providers, &map).await.last);
            }
            clean(&said);
            runs += 1;
        }
    }
    println!("{runs} echoing BMCs");
}

#[tokio::test]
async fn no_error_and_no_type_shows_a_secret() {
    let site = Site::new();
    let over_redfish = site.redfish().await;
    let over_ipmi = ipmi().await;
    let errors: Vec<BmcError> = {
        let mut errors = Vec::new();
        for (secret, entry) in [
            (PASSWORD, with(&over_redfish.entry, "user", "nobody")),
            (PASSWORD, with(&over_ipmi.entry, "user", "nobody")),
            ("123456789012345678901-S3cr3t-\"marker\"", over_ipmi.entry.clone()),
            ("S3cr3t-\"marker\"\n", over_redfish.entry.clone()),
        ] {
            let providers = providers_with(&[(super::bmcs::SECRET, secret)]);
            match providers.open(Ticket(1), &target(&entry), soon()).await {
                Err(error) => errors.push(error),
                Ok(mut conversation) => errors.extend(conversation.read(soon()).await.err()),
            }
        }
        errors
    };
    assert_eq!(errors.len(), 4);
    clean(&format!("{errors:?}"));
    for (entry, fault) in [(&over_redfish.entry, true), (&over_ipmi.entry, false)] {
        let providers = Arc::new(providers());
        let mut conversation = providers.open(Ticket(1), &target(entry), soon()).await.unwrap();
        if fault {
            over_redfish.bmc().set_fault(Some(Fault::Bomb));
        }
        let read = conversation.read(soon()).await;
        let said = format!("{providers:?} {conversation:?} {read:?} {:?}", conversation.facts());
        clean(&said);
    }
}

#[tokio::test]
async fn a_secret_is_asked_for_at_each_opening() {
    let bmc = ipmi().await;
    let there = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let looked = there.clone();
    let secrets = EnvironmentSecrets::looked_up(move |name| {
        let found = name == super::bmcs::SECRET && looked.load(std::sync::atomic::Ordering::SeqCst);
        found.then(|| PASSWORD.into())
    });
    let providers = Providers::new(ProviderSettings::default(), Arc::new(secrets));
    let mut first = providers.open(Ticket(1), &target(&bmc.entry), soon()).await.unwrap();
    there.store(false, std::sync::atomic::Ordering::SeqCst);
    let error = providers.open(Ticket(2), &target(&bmc.entry), soon()).await.unwrap_err();
    assert_eq!(error.reason, ReasonCode::SecretMissing);
    // The conversation that is open goes on.
    first.read(soon()).await.unwrap();
    first.close().await;
}

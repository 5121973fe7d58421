//! Everything that can be wrong with a simulated BMC, through the product's own protocol machine.

use std::time::Duration;

use apelora_fencing::Limits;
use apelora_fencing::write::Outcome;
use apelora_lab::redfish::{Bmc, Fault, Personality, Power, TlsVersion};
use serde_json::json;

use crate::machine::{Ended, fence};
use crate::support::{ADDRESS, PASSWORD, USER, Wire, authority, ca_file, server};

use Outcome::{Failed, Refused, Success};

/// A fault, how the record ends, and how many resets the BMC saw.
type Case = (Option<Fault>, Outcome, &'static str, u32);

fn cases() -> Vec<Case> {
    let seconds = Duration::from_secs;
    let elsewhere = || "https://attacker.example/redfish/v1/Systems/System.Embedded.1".to_owned();
    let neighbour = || "7f9e2a10-88c4-4f5d-b3d6-51a0c2e4f788".to_owned();
    vec![
        (None, Success, "powered_off", 1),
        (Some(Fault::Slow(seconds(3))), Success, "powered_off", 1),
        (Some(Fault::Slow(seconds(11))), Refused, "deadline", 0),
        (Some(Fault::Drip(seconds(1))), Refused, "deadline", 0),
        (Some(Fault::Bomb), Refused, "body_too_large", 0),
        (Some(Fault::HeaderBomb), Refused, "body_too_large", 0),
        (Some(Fault::Redirect(elsewhere())), Refused, "redirect", 0),
        (Some(Fault::Target(elsewhere())), Refused, "target_foreign", 0),
        (Some(Fault::Impostor(neighbour())), Refused, "uuid_mismatch", 0),
        (Some(Fault::Gone), Refused, "bmc_unreachable", 0),
        (Some(Fault::Lying(Power::On)), Failed, "never_off", 1),
        // What cannot be seen over Redfish alone: a BMC that says Off, steadily, while the server runs.
        (Some(Fault::Lying(Power::Off)), Success, "already_off", 0),
        (Some(Fault::Rejects(400)), Failed, "reset_rejected", 1),
        (Some(Fault::Rejects(409)), Failed, "reset_rejected", 1),
        (Some(Fault::Rejects(503)), Failed, "reset_rejected", 1),
        (Some(Fault::Rejects(401)), Failed, "http_auth", 1),
        (Some(Fault::Rejects(307)), Failed, "redirect", 1),
        (Some(Fault::Ignores), Failed, "never_off", 1),
        (Some(Fault::Tasks), Success, "powered_off", 1),
        (Some(Fault::Hangs), Success, "powered_off", 1),
        (Some(Fault::Restarts(seconds(20))), Success, "powered_off", 1),
        (Some(Fault::Restarts(seconds(90))), Failed, "readback_timeout", 1),
    ]
}

#[tokio::test(start_paused = true)]
async fn each_fault_has_its_outcome() {
    let ca = ca_file(authority().pem());
    for (fault, outcome, reason, resets) in cases() {
        let server = server(
            Bmc::new(Personality::named("dell-idrac9-r750").unwrap(), USER, PASSWORD),
            TlsVersion::V13,
        );
        let bmc = server.service();
        bmc.set_fault(fault.clone());
        bmc.set_delay(if fault == Some(Fault::Hangs) { Duration::ZERO } else { Duration::from_secs(3) });
        let entry = json!({"provider": "redfish", "address": ADDRESS.to_string(), "user": USER,
            "secret": "APELORA_BMC_SECRET_S1", "ca_file": ca, "uuid": "4c4c4544-0053-3410-8032-c6c04f363838",
            "system": "/redfish/v1/Systems/System.Embedded.1"});
        let ended = fence(&entry, Wire::to(&server), PASSWORD, Limits::PRODUCTION).await;
        let Ended::Record(last) = ended else { panic!("{fault:?}: no record") };
        let seen = (last.outcome, last.reason.as_str(), bmc.resets());
        assert_eq!(seen, (outcome, reason, resets), "{fault:?}: {:?}", last.evidence);
        assert_eq!((last.proof.is_some(), last.sent), (outcome == Success, resets > 0), "{fault:?}");
    }
    println!("{} faults", cases().len());
}

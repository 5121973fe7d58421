//! A BMC that repeats the request in every place it can: nothing that the client says may contain the credential.

use std::error::Error;
use std::fmt::Write as _;

use apelora_lab::redfish::{Reply, Seen, Service, TlsVersion, Whole};
use apelora_redfish::SendReport;
use serde_json::json;

use crate::support::{PASSWORD, open, path, server, soon, target};

const SYSTEM: &str = "/redfish/v1/Systems/1";

/// Where the echo stands in an otherwise good answer.
#[derive(Clone, Copy, Debug)]
enum Place {
    Nowhere,
    Uuid,
    Power,
    Id,
    Target,
    Location,
    Body,
    Type,
}

struct Echo {
    status: u16,
    place: Place,
    reset: u16,
}

/// User and password as they are sent, without padding.
const ENCODED: &str = "YXBlbG9yYTpTM2NyM3QtIm1hcmtlciI";

impl Service for Echo {
    fn answer(&self, request: &Seen) -> Reply {
        let sent = request.header("authorization").unwrap();
        assert_eq!(sent.trim_end_matches('='), format!("Basic {ENCODED}"));
        let error = json!({"error": {"code": sent, "message": sent, "@Message.ExtendedInfo": [
            {"MessageId": ENCODED, "Message": sent, "MessageArgs": [sent, PASSWORD]}]}});
        if request.method == "POST" {
            return Reply::Whole(Whole::json(self.reset, &error).with_header("Location", sent));
        }
        if self.status != 200 {
            return Reply::Whole(Whole::json(self.status, &error).with_header("Location", sent));
        }
        let target = format!("{SYSTEM}/Actions/ComputerSystem.Reset");
        let mut body = json!({"@odata.id": SYSTEM, "UUID": "5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27", "PowerState": "On",
            "Actions": {"#ComputerSystem.Reset": {"target": target}}});
        match self.place {
            Place::Uuid => body["UUID"] = sent.into(),
            Place::Power => body["PowerState"] = sent.into(),
            Place::Id => body["@odata.id"] = sent.into(),
            Place::Target => body["Actions"]["#ComputerSystem.Reset"]["target"] = sent.into(),
            Place::Type => body["UUID"] = json!([sent]),
            Place::Location | Place::Nowhere => {}
            Place::Body => {
                return Reply::Whole(Whole { body: sent.as_bytes().to_vec(), ..Whole::empty(200) });
            }
        }
        Reply::Whole(Whole::json(200, &body).with_header("Location", ENCODED))
    }
}

fn said(what: &mut String, error: &dyn Error) {
    let mut next = Some(error);
    while let Some(error) = next {
        write!(what, "{error} {error:?} ").unwrap();
        next = error.source();
    }
}

#[tokio::test]
async fn no_error_report_or_debug_output_shows_the_credential() {
    use Place::{Body, Id, Location, Nowhere, Power, Target, Type, Uuid};
    let mut runs = 0;
    let places = [Nowhere, Uuid, Power, Id, Target, Location, Body, Type];
    let reads = [301, 400, 401, 403, 404, 409, 500, 503].map(|status| (status, Nowhere));
    for (status, place) in reads.into_iter().chain(places.map(|place| (200, place))) {
        for reset in [200, 204, 307, 400, 401, 403, 409, 500] {
            let server = server(Echo { status, place, reset }, TlsVersion::V13);
            let target = target(path(SYSTEM));
            let mut everything = format!("{target:?} ");
            let mut conversation = open(&server, &target).await.unwrap();
            match conversation.read(soon()).await {
                Err(why) => said(&mut everything, &why),
                Ok(reported) => {
                    let report = conversation.force_off(&reported, &mut || true, soon()).await;
                    write!(everything, "{reported:?} {report:?} ").unwrap();
                    if let SendReport::NotSent(why) = &report {
                        said(&mut everything, why);
                    }
                }
            }
            write!(everything, "{conversation:?}").unwrap();
            for secret in [PASSWORD, ENCODED] {
                assert!(!everything.contains(secret), "{status} {place:?} {reset}: {everything}");
            }
            runs += 1;
        }
    }
    println!("{runs} echoing BMCs");
}

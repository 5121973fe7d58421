//! Every recorded vendor body: identity, power and reset target, or the refusal that it deserves.

use std::fs;
use std::path::PathBuf;

use apelora_lab::redfish::{Reply, Seen, Service, TlsVersion, Whole};
use apelora_redfish::{
    NoReset, NotSent, PowerWord, RedfishError, ReportedUuid, ResetAnswer, SendReport, SystemChoice,
};
use serde_json::{Value, json};

use crate::support::{data, json as read_json, open, path, server, soon, target};

use NoReset::NotOffered;
use PowerWord::{Off, On, Unknown};

type Expected = (&'static str, &'static str, Option<&'static str>, PowerWord, Result<(), NoReset>);

/// File, system, UUID as printed, power, reset. Written down from the recordings by hand.
const SYSTEMS: [Expected; 23] = [
    ("ami-quanta-s74g", "System_0", Some("A0BB615B-3525-11EE-BA99-74D4DDDC05A7"), On, Err(NotOffered)),
    ("cisco-cimc-c220m4", "ZZS8541C44T", Some("4E8C924B-8ADC-44A2-B6A9-58BC210A8F5B"), Off, Ok(())),
    ("cray-nc-two-nodes", "Node0", None, On, Ok(())),
    ("cray-nc-two-nodes", "Node1", None, On, Ok(())),
    ("dell-idrac8-era", "System.Embedded.1", Some("4c4c4544-0050-3110-8037-c9c04f303537"), On, Ok(())),
    ("dell-idrac9-r6515", "System.Embedded.1", Some("4c4c4544-0058-3510-804e-c6c04f313432"), On, Ok(())),
    ("dell-idrac9-r750", "System.Embedded.1", Some("4c4c4544-0053-3410-8032-c6c04f363838"), On, Ok(())),
    ("dmtf-public-rackmount1", "958EQ7481R5", Some("03640faf-b03e-3862-389c-82334735b3b7"), On, Ok(())),
    ("gigabyte-h262", "Self", Some("f4506a15-9202-11ea-8000-b42e999b0b35"), On, Ok(())),
    ("hpe-ilo5-dl325-gen10plus", "1", Some("3831305A-3134-564E-5135-32383439374A"), On, Ok(())),
    ("hpe-ilo5-dl385-gen10plus", "1", Some("35333649-3135-4243-5436-363531353057"), On, Ok(())),
    ("lenovo-xcc-sr670v2", "1", Some("9befd48a-cf5c-11ee-8258-0a8fc3c203dc"), On, Ok(())),
    ("nvidia-dgx-h100", "DGX", Some("F7E33284-AA36-1000-0EFD-5CFF35040204"), On, Ok(())),
    ("nvidia-dgx-h100", "HGX_Baseboard_0", Some("524a9c98-6711-0410-9ba7-3d4652c2d8cc"), On, Err(NotOffered)),
    ("nvidia-gb200", "System_0", Some("f24c0e0a-6005-8815-cdfa-dc2dbd1c14f7"), On, Ok(())),
    ("nvidia-gb200", "HGX_Baseboard_0", None, On, Err(NotOffered)),
    ("nvidia-nd5200-switch", "System_0", None, On, Ok(())),
    ("openbmc-multihost", "system1", None, Unknown, Ok(())),
    ("openbmc-power9-early", "motherboard", None, Unknown, Ok(())),
    ("supermicro-gb300", "System_0", Some("8a0bd54e-f633-143b-8000-7cc255a5cd5f"), On, Ok(())),
    ("supermicro-x10-a", "1", Some("00000000-0000-0000-0000-AC1F6B3EB808"), On, Ok(())),
    ("supermicro-x12-510t", "1", Some("ADA19BE8-BA0B-11EC-8000-3CECEF72D6F4"), On, Ok(())),
    ("supermicro-x13-821ge", "1", Some("00000000-0000-0000-0000-7CC255D333DE"), On, Ok(())),
];

/// A BMC made of one recording: its collection, its systems, and one answer to a reset.
struct Recording {
    body: Value,
    reset: Whole,
}

impl Service for Recording {
    fn answer(&self, request: &Seen) -> Reply {
        let systems = self.body["system"].as_array().unwrap();
        let asked = |system: &&Value| system["@odata.id"] == request.path.as_str();
        Reply::Whole(match (request.method.as_str(), request.path.as_str()) {
            ("POST", _) => self.reset.clone(),
            (_, "/redfish/v1/Systems") if self.body["systems"].is_object() => {
                Whole::json(200, &self.body["systems"])
            }
            (_, "/redfish/v1/Systems") => {
                let members: Vec<Value> =
                    systems.iter().map(|system| json!({"@odata.id": system["@odata.id"]})).collect();
                Whole::json(200, &json!({"Members": members}))
            }
            _ => match systems.iter().find(asked) {
                Some(system) => Whole::json(200, system),
                None => Whole::json(404, &self.body["not_found"]["body"]),
            },
        })
    }
}

fn recordings() -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(data("vendors")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| (file.file_stem().unwrap().to_str().unwrap().to_owned(), read_json(file)))
        .collect()
}

#[tokio::test]
async fn contract_redfish_vendors() {
    let (mut files, mut systems, mut resets) = (0, 0, 0);
    for (name, body) in recordings() {
        let expected: Vec<&Expected> = SYSTEMS.iter().filter(|(file, ..)| *file == name).collect();
        assert_eq!(
            expected.len(),
            body["system"].as_array().unwrap().len(),
            "{name}: a system without expectation"
        );
        for (_, id, uuid, power, reset) in expected {
            let recording = Recording { body: body.clone(), reset: Whole::empty(204) };
            let server = server(recording, TlsVersion::V12);
            let at = path(&format!("/redfish/v1/Systems/{id}"));
            let mut conversation = open(&server, &target(at)).await.unwrap();
            let reported = conversation.read(soon()).await.unwrap();
            let seen_uuid = uuid.map_or(ReportedUuid::Missing, |text| ReportedUuid::Text(text.to_owned()));
            assert_eq!((&reported.uuid, reported.power), (&seen_uuid, *power), "{name} {id}");
            assert_eq!(reported.reset_offered(), *reset, "{name} {id}");

            let report = conversation.force_off(&reported, &mut || true, soon()).await;
            let sent = power.is_running() && reset.is_ok();
            assert_eq!(report.may_have_been_sent(), sent, "{name} {id}: {report:?}");
            assert_eq!(server.stats().requests(), if sent { 2 } else { 1 }, "{name} {id}");
            match (power, report) {
                (Off | Unknown, SendReport::NotSent(NotSent::NotRunning(seen))) => assert_eq!(seen, *power),
                (_, SendReport::NotSent(NotSent::NoReset(why))) => assert_eq!(Err(why), *reset),
                (_, SendReport::MaybeSent(ResetAnswer::Accepted { status: 204 })) => assert!(sent),
                (_, other) => panic!("{name} {id}: {other:?}"),
            }
            discovered(&name, &body, id, *uuid).await;
            systems += 1;
        }
        resets += recorded_resets(&name, &body).await;
        files += 1;
    }
    println!("contract_redfish_vendors: {files} recordings, {systems} systems, {resets} answers to a reset");
    assert!(files > 0 && systems == SYSTEMS.len() && resets > 0);
}

/// The same system is found by its UUID; one without a UUID never is, and none when a listed system cannot be read.
async fn discovered(name: &str, body: &Value, id: &str, uuid: Option<&str>) {
    let server = server(Recording { body: body.clone(), reset: Whole::empty(204) }, TlsVersion::V12);
    let wanted = uuid.unwrap_or("5d1c0f6e-3b7a-4c02-9a41-0c4de99a1b27").parse().unwrap();
    let listed = body["systems"]["Members"].as_array().map_or(0, Vec::len);
    let unreadable = listed > body["system"].as_array().unwrap().len();
    match (open(&server, &target(SystemChoice::Carrying(wanted))).await, uuid) {
        (Err(RedfishError::Status { status: 404, .. }), _) => assert!(unreadable, "{name}"),
        (Ok(conversation), Some(_)) if !unreadable => {
            assert_eq!(conversation.system().as_str(), format!("/redfish/v1/Systems/{id}"), "{name}");
        }
        (Err(RedfishError::NoneCarries { seen, .. }), None) => {
            assert!(seen.iter().any(|(path, uuid)| path.as_str().ends_with(id) && uuid.is_none()), "{name}");
        }
        (other, _) => panic!("{name} {id}: {other:?}"),
    }
}

/// Each recorded answer to a reset, given to a power-off: only its class is told, and it never is a final word on power.
async fn recorded_resets(name: &str, body: &Value) -> usize {
    const SYSTEM: &str = "/redfish/v1/Systems/1";
    let running = json!({
        "@odata.id": SYSTEM, "PowerState": "On",
        "Actions": {"#ComputerSystem.Reset": {"target": format!("{SYSTEM}/Actions/ComputerSystem.Reset")}},
    });
    let mut answers = body["reset_responses"].as_array().unwrap().clone();
    answers.extend(body.get("session_exhausted").cloned());
    for answer in &answers {
        let status = u16::try_from(answer["status"].as_u64().unwrap()).unwrap();
        let reset = if answer["body"].is_object() {
            Whole::json(status, &answer["body"])
        } else {
            Whole::empty(status)
        };
        let server = server(Recording { body: json!({"system": [running]}), reset }, TlsVersion::V12);
        let mut conversation = open(&server, &target(path(SYSTEM))).await.unwrap();
        let reported = conversation.read(soon()).await.unwrap();
        let report = conversation.force_off(&reported, &mut || true, soon()).await;
        let info = &answer["body"]["error"]["@Message.ExtendedInfo"][0];
        let id = info["MessageId"].as_str().or(info["MessageID"].as_str());
        match report {
            SendReport::MaybeSent(ResetAnswer::Accepted { status: seen }) => {
                assert!(seen == status && status < 300, "{name}");
            }
            SendReport::MaybeSent(ResetAnswer::Rejected { status: seen, message_id }) => {
                assert!(seen == status && status >= 400, "{name}");
                assert_eq!(message_id.as_deref(), id, "{name}");
            }
            other => panic!("{name} {status}: {other:?}"),
        }
    }
    answers.len()
}

#[tokio::test]
async fn a_missing_resource_is_told_with_its_message_id() {
    let (_, body) = recordings().into_iter().find(|(name, _)| name == "openbmc-multihost").unwrap();
    let server = server(Recording { body, reset: Whole::empty(204) }, TlsVersion::V12);
    let mut conversation = open(&server, &target(path("/redfish/v1/Systems/sysem0"))).await.unwrap();
    let why = conversation.read(soon()).await.unwrap_err();
    assert_eq!(why.reason(), "http_status");
    assert!(why.to_string().contains("HTTP 404, Base.1.16.0.ResourceNotFound"), "{why}");
    assert!(!why.to_string().contains("was not found"), "no text of the BMC is repeated: {why}");
}

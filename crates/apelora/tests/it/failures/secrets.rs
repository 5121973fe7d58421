//! A night in which everything about BMCs goes wrong, and then whatever is kept, told or printed is searched for the
//! passwords.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apelora_fencing::record::RecordStatus;
use apelora_lab::https::{
    Authority, CertificatePlan, Life, Listening, Reply, Seen, Server, Service, TlsVersion, Whole,
};
use apelora_lab::site::{BmcKind, MemberPlan, Site, SitePlan, Trouble};
use apelora_maintenance::Stamp;
use apelora_store::{Engine, NodeColumn, NodePatch, RecordQuery, Store};
use serde_json::{Value, json};
use time::macros::datetime;
use uuid::Uuid;

use super::database::Database;
use super::forms::leaks;
use super::process::{Process, until};
use crate::command::{Done, apelora, run};
use crate::running::request;

const SYSTEM: &str = "/redfish/v1/Systems/1";

/// Makes an answer of the number of the request, what was sent, and the answer of a good BMC; its status.
type Says = fn(usize, &str, &mut Value) -> u16;

/// A BMC that puts the credential that it was sent wherever a client might quote it, each time elsewhere.
struct Echo {
    uuid: String,
    says: Says,
    asked: AtomicUsize,
}

impl Service for Echo {
    fn answer(&self, request: &Seen) -> Reply {
        let sent = request.header("authorization").unwrap_or_default().to_owned();
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        if request.path.trim_end_matches('/') == "/redfish/v1/Systems" {
            return Reply::Whole(Whole::json(200, &json!({ "Members": [{ "@odata.id": SYSTEM }] })));
        }
        let mut body = json!({"@odata.id": SYSTEM, "UUID": self.uuid, "PowerState": "On",
            "Actions": {"#ComputerSystem.Reset": {"target": format!("{SYSTEM}/Actions/ComputerSystem.Reset")}}});
        let status = (self.says)(number, &sent, &mut body);
        Reply::Whole(Whole::json(status, &body).with_header("Location", &sent).with_header("Server", &sent))
    }
}

/// Errors that quote the credential and what it was made of.
fn in_errors(number: usize, sent: &str, body: &mut Value) -> u16 {
    let encoded = sent.trim_start_matches("Basic ");
    *body = json!({"error": {"code": sent, "message": encoded, "@Message.ExtendedInfo": [
        {"MessageId": encoded, "Message": sent, "MessageArgs": [sent, encoded]}]}});
    [500, 503, 403, 404, 400, 401][number % 6]
}

/// Words in places where other words belong.
fn in_words(number: usize, sent: &str, body: &mut Value) -> u16 {
    let encoded = sent.trim_start_matches("Basic ");
    match number % 3 {
        0 => body["PowerState"] = encoded.into(),
        1 => body["PowerState"] = sent.into(),
        _ => {
            body["PowerState"] = encoded.trim_end_matches('=').into();
            body["Manufacturer"] = sent.into();
        }
    }
    200
}

/// Another identity and other targets.
fn in_names(number: usize, sent: &str, body: &mut Value) -> u16 {
    let encoded = sent.trim_start_matches("Basic ");
    match number % 4 {
        0 => body["UUID"] = encoded.into(),
        1 => body["@odata.id"] = format!("/redfish/v1/Systems/{encoded}").into(),
        2 => body["Actions"]["#ComputerSystem.Reset"]["target"] = sent.into(),
        _ => return 302,
    }
    200
}

/// The members: what is wrong with the BMC of each. The first ones hold the cluster's database.
const MEMBERS: [(&str, BmcKind); 12] = [
    ("m11", BmcKind::Ipmi),    // nothing
    ("m12", BmcKind::Redfish), // the password is not given
    ("m09", BmcKind::Redfish), // repeats the credential in names
    ("m03", BmcKind::Redfish), // the certificate is of another authority
    ("m04", BmcKind::Redfish), // the certificate has expired
    ("m05", BmcKind::Redfish), // nothing is there
    ("m06", BmcKind::Ipmi),    // nothing is there
    ("m01", BmcKind::Redfish), // the password is wrong
    ("m02", BmcKind::Ipmi),    // the password is wrong
    ("m07", BmcKind::Redfish), // repeats the credential in errors
    ("m08", BmcKind::Redfish), // repeats it in words
    ("m10", BmcKind::Redfish), // nothing
];
/// Those that fail, fewer than half of all.
const VICTIMS: [&str; 5] = ["m01", "m02", "m07", "m08", "m10"];

struct Night {
    site: Site,
    /// By the names of their variables.
    secrets: BTreeMap<String, String>,
    _echoes: Vec<(Arc<Server<Echo>>, Listening)>,
}

impl Night {
    async fn start(folder: &Path) -> Self {
        let names: Vec<&str> = MEMBERS.iter().map(|(name, _)| *name).collect();
        let mut plan = SitePlan::new(&names, &folder.join("site"));
        plan.members = MEMBERS.iter().map(|(name, bmc)| MemberPlan::new(name, *bmc)).collect();
        plan.cluster.offline_threshold = std::time::Duration::from_secs(11);
        let site = Site::start(plan).await.unwrap();
        site.bmc("m05").unwrap().set_trouble(Some(&Trouble::Unreachable));
        site.bmc("m06").unwrap().set_trouble(Some(&Trouble::Unreachable));

        let mut map: Value = serde_json::from_str(&fs::read_to_string(site.bmc_map()).unwrap()).unwrap();
        let (ours, another) = (Authority::new("Echoes").unwrap(), Authority::new("Another").unwrap());
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            path.canonicalize().unwrap().to_str().unwrap().to_owned()
        };
        map["members"]["m03"]["ca_file"] = write("another.pem", another.pem()).into();
        let ca_file = write("echoes.pem", ours.pem());
        let mut echoes = Vec::new();
        let each: [(&str, Life, Says); 4] = [
            ("m04", Life::Expired, in_errors),
            ("m07", Life::Valid, in_errors),
            ("m08", Life::Valid, in_words),
            ("m09", Life::Valid, in_names),
        ];
        for (name, life, says) in each {
            let plan = CertificatePlan { life, ..CertificatePlan::for_address([127, 0, 0, 1].into()) };
            let entry = &mut map["members"][name];
            let uuid = entry["uuid"].as_str().unwrap().to_owned();
            let identity = ours.issue(&plan).unwrap();
            let echo = Echo { uuid, says, asked: AtomicUsize::new(0) };
            let server = Server::new(echo, identity.server(TlsVersion::V12).unwrap());
            let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
            entry["address"] = listening.address().to_string().into();
            entry["system"] = SYSTEM.into();
            entry["ca_file"] = ca_file.clone().into();
            echoes.push((server, listening));
        }
        fs::write(site.bmc_map(), map.to_string()).unwrap();

        // Characters that look different in each form, and few enough for IPMI.
        let mut secrets = site.secrets().clone();
        for (name, _) in MEMBERS.iter().filter(|(name, _)| !["m10", "m11"].contains(name)) {
            secrets.insert(
                format!("APELORA_BMC_SECRET_{}", name.to_uppercase()),
                format!("Zq%7/+&=\"Kd-{name}"),
            );
        }
        Self { site, secrets, _echoes: echoes }
    }

    /// What a worker has in its environment.
    fn environment(&self, database: &str) -> Vec<(String, String)> {
        let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let site = &self.site;
        let environment = vec![
            ("APELORA_HOST", "w1".to_owned()),
            ("APELORA_DATABASE_URL", database.to_owned()),
            ("APELORA_WORKER_LISTEN", "127.0.0.1:0".to_owned()),
            ("APELORA_BMC_FENCE_AFTER_SECS", "20".to_owned()),
            ("APELORA_INCUS_URL", site.incus_urls()[..3].join(",")),
            ("APELORA_INCUS_CLIENT_CERT", path(site.client_cert())),
            ("APELORA_INCUS_CLIENT_KEY", path(site.client_key())),
            ("APELORA_INCUS_SERVER_CERT", path(site.server_cert())),
            ("APELORA_BMC_MAP", path(site.bmc_map())),
            ("APELORA_LOG", "trace".to_owned()),
        ];
        let secrets = self.secrets.iter().filter(|(name, _)| !name.ends_with("M12"));
        environment
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(secrets.map(|(name, value)| (name.clone(), value.clone())))
            .collect()
    }
}

fn borrowed(environment: &[(String, String)]) -> Vec<(&str, &str)> {
    environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Everything that was kept, told or printed, by where.
struct Told {
    texts: Vec<(String, String)>,
}

impl Told {
    fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.texts.push((place.into(), text.into()));
    }

    fn command(&mut self, arguments: &[&str], done: &Done) {
        self.add(format!("apelora {}", arguments.join(" ")), format!("{}\n{}", done.out, done.err));
    }
}

pub(super) async fn nothing_holds_a_secret(engine: Engine) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::new(engine, folder.path()).await;
    let store = database.store().await;
    let node = NodePatch::new()
        .with(NodeColumn::Uuid, Uuid::nil().to_string())
        .with(NodeColumn::Name, "m10")
        .with(NodeColumn::Driver, "fake-hardware");
    let at = datetime!(2026-11-30 04:00:00);
    let stamp = Stamp { change: Uuid::nil(), entry: Uuid::max(), at, host: "night".to_owned() };
    store.create_node(&stamp, node, None).await.unwrap();
    let night = Night::start(folder.path()).await;
    let environment = night.environment(database.url());
    let environment = borrowed(&environment);
    let worker = Process::start("worker", &mut apelora(folder.path(), &environment, &["worker"]));
    let for_server = [("APELORA_DATABASE_URL", database.url()), ("APELORA_LOG", "trace")];
    let serve = ["server", "--listen", "127.0.0.1:0"];
    let server = Process::start("server", &mut apelora(folder.path(), &for_server, &serve));
    let api = server.address().await;

    let mut told = Told { texts: Vec::new() };
    until("all members to be stored as Online", async || {
        let members = store.stored_members().await.unwrap();
        (members.len() == MEMBERS.len() && members.iter().all(|m| m.row.online)).then_some(())
    })
    .await;
    for victim in VICTIMS {
        night.site.crash(victim).unwrap();
    }
    went_wrong(&store, &worker).await;

    let check = run(folder.path(), &environment, &["bmc", "check", "--format", "json"]);
    assert_eq!(check.json().as_array().unwrap().len(), MEMBERS.len(), "{check:?}");
    told.command(&["bmc", "check", "--format", "json"], &check);
    let check = run(folder.path(), &environment, &["bmc", "check"]);
    told.command(&["bmc", "check"], &check);
    commands(&mut told, folder.path(), &api);
    answers(&mut told, &store, &api).await;
    let own = worker.address().await;
    for path in ["/metrics", "/readyz", "/healthz", "/nothing"] {
        told.add(format!("worker {path}"), request(&own, "GET", path, "").1);
    }
    for process in [&worker, &server] {
        let line = fs::read(format!("/proc/{}/cmdline", process.id())).unwrap();
        told.add(format!("arguments of the {}", process.name), String::from_utf8_lossy(&line));
        assert_eq!(process.end().await, Some(0), "{}", process.name);
        told.add(format!("log of the {}", process.name), process.lines().join("\n"));
    }
    told.add("the database", database.dump().await);

    search(&told, &night);
    store.close().await;
    database.drop().await;
}

/// Waits until each of the failures was met.
async fn went_wrong(store: &Store, worker: &Process) {
    until("the records of the victims", async || {
        let records =
            store.fence_records(&RecordQuery { limit: 100, ..RecordQuery::default() }).await.unwrap();
        let ended = |victim: &str, status: RecordStatus| {
            records.iter().any(|record| record.member.as_str() == victim && record.status == status)
        };
        let refused = VICTIMS[..4].iter().all(|victim| ended(victim, RecordStatus::Refused));
        (refused && ended("m10", RecordStatus::Fenced)).then_some(())
    })
    .await;
    // Those that live are met by the drill.
    for member in ["m03", "m04", "m05", "m06", "m09", "m12"] {
        worker.says(&format!("{member}'s BMC (")).await;
    }
}

/// What commands print, also when they are refused.
fn commands(told: &mut Told, folder: &Path, api: &str) {
    let endpoint = format!("http://{api}");
    let environment = [("APELORA_ENDPOINT", endpoint.as_str())];
    let all: &[&[&str]] = &[
        &["member", "list"],
        &["member", "show", "m01"],
        &["member", "show", "m08", "--format", "json"],
        &["fence", "explain", "m02"],
        &["fence", "explain", "m07"],
        &["member", "confirm-off", "m01", "--reason", "looked at it", "--yes", "m01"],
        &["bmc", "trust", "m09", "--reason", "checked"],
        &["audit", "list"],
        &["audit", "list", "--format", "csv"],
        &["audit", "list", "--format", "json"],
        &["settings", "show"],
        &["settings", "show", "--format", "json"],
        &["history", "list", "m10"],
        &["node", "show", "m10"],
        &["member", "show", "nobody"],
        &["worker", "--help"],
        &["bmc", "check", "--help"],
        &["server", "--help"],
        &["worker", "--bmc-map", "/nonexistent"],
    ];
    for arguments in all {
        told.command(arguments, &run(folder, &environment, arguments));
    }
}

/// Every answer of the API that can be read, and refusals.
async fn answers(told: &mut Told, store: &Store, api: &str) {
    let (status, document) = request(api, "GET", "/openapi.json", "");
    assert_eq!(status, 200, "{document}");
    told.add("/openapi.json", document.clone());
    let document: Value = serde_json::from_str(&document).unwrap();
    let records = store.fence_records(&RecordQuery { limit: 100, ..RecordQuery::default() }).await.unwrap();
    let mut good = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() {
            continue;
        }
        let last = |name: &str| name.split('/').next_back().unwrap_or_default().to_owned();
        let mut targets = vec![path.clone()];
        while let Some(at) = targets.iter().position(|path| path.contains('{')) {
            let path = targets.swap_remove(at);
            let (before, rest) = path.split_once('{').unwrap();
            let (_, after) = rest.split_once('}').unwrap();
            let values: Vec<String> = match last(before.trim_end_matches('/')).as_str() {
                "members" => MEMBERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
                "records" => records.iter().map(|record| record.id.0.to_string()).collect(),
                _ => vec!["m10".to_owned()],
            };
            targets.extend(values.iter().map(|value| format!("{before}{value}{after}")));
        }
        for target in targets {
            let (status, body) = request(api, "GET", &target, "");
            good += u32::from(status == 200);
            told.add(target, body);
        }
    }
    assert!(good > 30, "{good} answers");
    for query in ["?limit=1000", "?format=csv", "?format=jsonl"] {
        let target = format!("/apelora/v1/audit{query}");
        told.add(target.clone(), request(api, "GET", &target, "").1);
    }
    for target in ["/apelora/v1/members/m01/confirm-off", "/apelora/v1/members/m01/trust", "/v1/nodes"] {
        told.add(format!("POST {target}"), request(api, "POST", target, r#"{"no": "such"}"#).1);
    }
    told.add("/metrics", request(api, "GET", "/metrics", "").1);
}

fn search(told: &Told, night: &Night) {
    let secrets: Vec<(String, String)> = night.secrets.clone().into_iter().collect();
    let mut found = Vec::new();
    let mut bytes = 0;
    for (place, text) in &told.texts {
        bytes += text.len();
        found.extend(leaks(text, &secrets).into_iter().map(|leak| format!("{place}: {leak}")));
    }
    println!("{} texts with {bytes} bytes were searched for {} secrets", told.texts.len(), secrets.len());
    // They are what they are taken for.
    for (place, words) in [
        ("log of the worker", "m07's BMC (redfish)"),
        ("log of the worker", "setting=log value=trace"),
        ("log of the server", "setting=log value=trace"),
        ("the database", "cluster.member.power_off"),
        ("the database", "ipmi_auth"),
        ("/metrics", "apelora_"),
        ("worker /metrics", "apelora_bmc_requests_total"),
        ("/apelora/v1/settings", "APELORA_BMC_SECRET_M01"),
        ("apelora audit list --format csv", "m02"),
        ("apelora bmc check", "m12"),
    ] {
        let text = told.texts.iter().find(|(name, _)| name == place).map(|(_, text)| text.as_str());
        assert!(text.is_some_and(|text| text.contains(words)), "no {words} in {place}: {text:?}");
    }
    assert!(found.is_empty(), "{} leaks:\n{}", found.len(), found.join("\n"));
}

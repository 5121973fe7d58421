//! Every recorded body of a real cluster, and what it must be read as.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apelora_http::Trust;
use apelora_incus::{Client, Ended, OperationId};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::peer::{Peer, Reply, answer, error, piped, sync};
use crate::{later, listed};

/// The call that a recorded body is given to.
#[derive(Debug, Clone, Copy)]
enum Call {
    Server,
    Members,
    State,
    Instances,
    Instance,
    Pools,
    Move,
    Start,
    Wait,
}

/// Whether the recorded request is one that the client makes. The answers to others are given to the nearest call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Own,
    Foreign,
}
use Asked::{Foreign, Own};

const HEALTHY: &str = "m1 Online leads, m2 Online, m3 Online";
const NOT_READY: &str = "Failed 500: Server isn't ready yet";
const NO_QUORUM: &str = "Failed 503: Failed to begin transaction: failed to create cowsql connection: no available cowsql \
                         leader server found";
const TIMED_OUT: &str = "Failed 500: context deadline exceeded";
const NO_LIST: &str = "not understood: metadata: invalid type: map, expected a sequence";

/// File, call, whose request, and what the answer is read as.
const EXPECTED: [(&str, Call, Asked, &str); 44] = [
    (
        "back-online-instances",
        Call::Instances,
        Own,
        "default/d3 container on m3 Running: x86_64 root=local autostart=None last=RUNNING Free, \
         default/s1 container on m1 Running: x86_64 root=shared autostart=None last=RUNNING Free, \
         default/s3 container on m1 Running: x86_64 root=shared autostart=Some(true) last=RUNNING Free, \
         default/s3b container on m3 Running: x86_64 root=shared autostart=None last=RUNNING Free",
    ),
    ("back-online-members", Call::Members, Own, "m1 Online, m2 Online leads, m3 Online"),
    ("dead-not-yet-offline-members", Call::Members, Own, HEALTHY),
    (
        "dead-not-yet-offline-move",
        Call::Move,
        Own,
        "Failed 500: Missing event connection with target cluster member",
    ),
    ("evacuate-accepted", Call::Move, Foreign, "accepted 6163d15a-8b9b-4f72-a0de-c701071197fe"),
    ("evacuate-offline-member", Call::Move, Foreign, NOT_READY),
    ("evacuate-wait", Call::Wait, Own, "Success"),
    ("evacuated-members", Call::Members, Own, "m1 Online leads, m2 Evacuated, m3 Online"),
    ("healed-by-incus-members", Call::Members, Own, "m1 Online, m2 Online leads, m3 Evacuated"),
    ("healthy-cluster", Call::Server, Foreign, "not understood: metadata: missing field `auth`"),
    (
        "healthy-instances-r1",
        Call::Instances,
        Own,
        "default/d3 container on m3 Running: x86_64 root=local autostart=None last=RUNNING Free, \
         default/s1 container on m1 Running: x86_64 root=shared autostart=None last=RUNNING Free, \
         default/s3 container on m3 Running: x86_64 root=shared autostart=Some(true) last=RUNNING Free, \
         default/s3b container on m3 Running: x86_64 root=shared autostart=None last=RUNNING Free",
    ),
    ("healthy-member-m2", Call::Members, Foreign, NO_LIST),
    (
        "healthy-member-state-m2",
        Call::State,
        Own,
        "MemberResources { total_memory: 25276502016, free_memory: 17646551040, buffered_memory: \
         82710528, uptime: 1334 }",
    ),
    (
        "healthy-member-urls",
        Call::Members,
        Foreign,
        "not understood: metadata[0]: invalid type: string \"/1.0/cluster/members/m1\", expected an object",
    ),
    ("healthy-members", Call::Members, Own, HEALTHY),
    (
        "healthy-server-info",
        Call::Server,
        Own,
        "m1 6.0.4 clustered=true x86_64+i686 healing=off offline_threshold=Some(11)",
    ),
    (
        "healthy-storage-pools",
        Call::Pools,
        Own,
        "local dir Created shared=false, shared lvmcluster Created shared=true",
    ),
    ("healthy-warnings", Call::Members, Foreign, "not understood: metadata[0]: missing field `server_name`"),
    ("member-not-found", Call::Members, Foreign, "NotFound 404: Cluster member not found"),
    ("move-dir-accepted", Call::Move, Own, "accepted 92f2a9a7-7fc9-4f39-be95-cb32f56ff350"),
    (
        "move-dir-wait",
        Call::Wait,
        Own,
        "failed 404: Failed loading instance storage pool: Failed getting instance storage pool \
         name: Failed getting instance pool: Instance storage pool not found",
    ),
    ("move-shared-accepted", Call::Move, Own, "accepted 95b24ff9-ca1e-4972-9cf0-7cd2a2cc0f3d"),
    ("move-shared-wait", Call::Wait, Own, "Success"),
    (
        "move-without-target",
        Call::Move,
        Foreign,
        "Conflict 400: Can't perform action as server is currently offline",
    ),
    (
        "moved-instance",
        Call::Instance,
        Own,
        "default/s3 container on m1 Stopped: x86_64 root=shared autostart=Some(true) last=RUNNING Free",
    ),
    ("one-offline-instance-get", Call::Instance, Own, NOT_READY),
    (
        "one-offline-instances-r1",
        Call::Instances,
        Own,
        "default/d3 container on m3 Error: unknown, \
         default/s1 container on m1 Running: x86_64 root=shared autostart=None last=RUNNING Free, \
         default/s3 container on m3 Error: unknown, \
         default/s3b container on m3 Error: unknown",
    ),
    ("one-offline-member-state", Call::State, Own, NOT_READY),
    ("one-offline-members", Call::Members, Own, "m1 Online leads, m2 Online, m3 Offline"),
    ("one-offline-start-in-place", Call::Start, Own, NOT_READY),
    (
        "one-offline-warnings",
        Call::Members,
        Foreign,
        "not understood: metadata[0]: missing field `server_name`",
    ),
    ("operation-not-found", Call::Wait, Own, "Unknown"),
    ("partition-cluster-from-isolated", Call::Server, Foreign, NO_QUORUM),
    ("partition-members-from-isolated", Call::Members, Own, TIMED_OUT),
    ("partition-members-from-majority", Call::Members, Own, "m1 Online leads, m2 Online, m3 Offline"),
    (
        "partition-server-info-from-isolated",
        Call::Server,
        Own,
        "m3 6.0.4 clustered=true x86_64+i686 healing=off offline_threshold=Some(11)",
    ),
    ("restore-wait", Call::Wait, Own, "Success"),
    (
        "split-brain-instances",
        Call::Instances,
        Own,
        "default/d3 container on m3 Error: unknown, \
         default/s1 container on m1 Running: x86_64 root=shared autostart=None last=RUNNING Free, \
         default/s2 container on m2 Running: x86_64 root=shared autostart=None last=RUNNING Free, \
         default/s3 container on m1 Running: x86_64 root=shared autostart=Some(true) last=RUNNING Free, \
         default/s3n container on m3 Error: unknown",
    ),
    ("start-after-lease-wait", Call::Wait, Own, "Success"),
    ("start-locked-accepted", Call::Start, Own, "accepted e921ec9b-7a8d-4990-821e-b469ecc3b5a5"),
    (
        "start-locked-wait",
        Call::Wait,
        Own,
        "failed 500: Failed to activate LVM logical volume \"/dev/ilvg/containers_s3\": Failed to \
         run: lvchange --activate sy --ignoreactivationskip /dev/ilvg/containers_s3: exit status \
         5 (LV locked by other host: ilvg/containers_s3   Failed to lock logical volume \
         ilvg/containers_s3.)",
    ),
    ("two-dead-instances-from-survivor", Call::Instances, Own, NO_QUORUM),
    ("two-dead-members-from-survivor", Call::Members, Own, TIMED_OUT),
    (
        "two-dead-server-info-from-survivor",
        Call::Server,
        Own,
        "m2 6.0.4 clustered=true x86_64+i686 healing=off offline_threshold=Some(11)",
    ),
];

fn folder() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting")]
    let named = std::env::var_os("APELORA_TEST_DATA").map(PathBuf::from);
    let data = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data"));
    data.join("incus/recordings")
}

fn recordings() -> BTreeMap<String, Value> {
    std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap())
        })
        .collect()
}

/// What the answers to one call are read as, with the client at its own deadline of 5 s.
async fn read(client: &Client, call: Call, operation: &str) -> String {
    let by = Instant::now() + Duration::from_secs(5);
    let accepted = |operation: OperationId| format!("accepted {}", operation.uuid());
    let read = match call {
        Call::Server => client.server(by).await.map(|server| listed::server(&server)),
        Call::Members => client.members(by).await.map(|members| listed::members(&members)),
        Call::State => client.member_state("m2", by).await.map(|state| format!("{state:?}")),
        Call::Instances => client.instances(by).await.map(|instances| listed::instances(&instances)),
        Call::Instance => {
            client.instance("default", "s3", by).await.map(|instance| listed::instance(&instance))
        }
        Call::Pools => client.pools(by).await.map(|pools| listed::pools(&pools)),
        Call::Move => client.move_instance("default", "s3", "m1", by).await.map(accepted),
        Call::Start => client.start_instance("default", "s3", by).await.map(accepted),
        Call::Wait => {
            let operation = OperationId::parse(operation).unwrap();
            client.wait(&operation, later()).await.map(|ended| match ended {
                Ended::Success => "Success".to_owned(),
                Ended::Failed { code, text } => format!("failed {code}: {text}"),
                Ended::Unknown => "Unknown".to_owned(),
            })
        }
    };
    read.unwrap_or_else(|why| listed::error(&why))
}

/// The operation itself, for a recorded wait that failed: the recording has only what the wait answered.
fn operation_behind(path: &str, wait: &Value) -> Value {
    let uuid = path.trim_start_matches("/1.0/operations/");
    json!({
        "id": uuid, "class": "task", "status": "Failure", "status_code": 400, "err": wait["error"], "location": "m1",
    })
}

#[tokio::test(start_paused = true)]
async fn contract_incus_recordings() {
    let recordings = recordings();
    let (mut judged, mut wrong) = (BTreeSet::new(), Vec::new());
    for (file, call, asked, expected) in EXPECTED {
        let recorded = recordings.get(file).unwrap_or_else(|| panic!("{file} is not there")).clone();
        judged.insert(file.to_owned());
        let path = recorded["path"].as_str().unwrap().to_owned();
        let operation = path.split("/wait").next().unwrap().to_owned();
        let (waited, body) = (path.contains("/wait"), recorded["body"].clone());
        let status = u16::try_from(recorded["http_status"].as_u64().unwrap()).unwrap();
        let peer = Peer::new(move |seen| {
            // A recorded wait that failed says so by itself; then the client asks for the operation.
            let operation_itself = waited && !seen.path.contains("/wait");
            if operation_itself { sync(&operation_behind(&seen.path, &body)) } else { answer(status, &body) }
        });
        let read = read(&piped(&peer), call, &operation).await;
        if read != expected {
            wrong.push(format!("{file}: {read}"));
        }
        if asked == Own {
            wrong.extend(other_request(file, &recorded, &peer));
        }
    }
    for (file, expected) in TIMELINES {
        let recorded = recordings.get(file).unwrap_or_else(|| panic!("{file} is not there"));
        judged.insert(file.to_owned());
        let read = timeline(recorded).await;
        if read != expected {
            wrong.push(format!("{file}: {read:#?}"));
        }
    }
    let all: BTreeSet<String> = recordings.into_keys().collect();
    assert_eq!(judged, all, "every recording is judged");
    assert!(!all.is_empty());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} recordings judged", judged.len());
}

/// Tells when the client did not make the recorded request. The recorded ones leave out the project `default`.
fn other_request(file: &str, recorded: &Value, peer: &Arc<Peer>) -> Option<String> {
    let seen = &peer.seen()[0];
    let path = seen.path.replace("?project=default&", "?").replace("?project=default", "");
    let recorded_path = recorded["path"].as_str().unwrap();
    let same_path = match (path.split_once("/wait?timeout="), recorded_path.split_once("/wait?timeout=")) {
        (Some((ours, _)), theirs) => ours == theirs.map_or(recorded_path, |(path, _)| path),
        // Which instance and which member is the test's own choice.
        _ => strip_names(&path) == strip_names(recorded_path),
    };
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let same = same_path && recorded["method"] == seen.method.as_str() && recorded["request"] == body;
    (!same).then(|| format!("{file}: {} {} {} was asked instead", seen.method, seen.path, seen.body))
}

fn strip_names(path: &str) -> String {
    ["m1", "m2", "m3", "s1", "s3", "d3", "c3"].iter().fold(path.to_owned(), |path, name| {
        path.replace(&format!("/{name}"), "/NAME").replace(&format!("target={name}"), "target=NAME")
    })
}

/// What each polled answer of a timeline was, in its order; faults between them are left out.
const TIMELINES: [(&str, &[&str]); 5] = [
    (
        "timeline-cut-from-isolated",
        &[HEALTHY, "the deadline passed while waiting for the head of the answer", TIMED_OUT],
    ),
    ("timeline-cut-from-majority", &[HEALTHY, "m1 Online leads, m2 Online, m3 Offline"]),
    (
        "timeline-kill-leader",
        &[HEALTHY, "m1 Offline leads, m2 Online, m3 Offline", "m1 Offline, m2 Online leads, m3 Online"],
    ),
    ("timeline-kill-member", &[HEALTHY, "m1 Online leads, m2 Online, m3 Offline"]),
    (
        "timeline-two-dead-and-one-back",
        &[
            "m1 Online, m2 Online leads, m3 Online",
            TIMED_OUT,
            "m1 Offline, m2 Offline leads, m3 Offline",
            "m1 Offline, m2 Online leads, m3 Online",
        ],
    ),
];

async fn timeline(recorded: &Value) -> Vec<String> {
    let mut read_as = Vec::new();
    for event in recorded["events"].as_array().unwrap() {
        if event.get("fault").is_some() {
            continue;
        }
        let event = event.clone();
        let peer = Peer::new(move |_| {
            if event.get("no_answer").is_some() {
                return Reply::Never;
            }
            match event["error_code"].as_u64().unwrap() {
                0 => sync(&Value::Array(event["members"].as_array().unwrap().iter().map(member).collect())),
                code => error(u16::try_from(code).unwrap(), event["error"].as_str().unwrap()),
            }
        });
        read_as.push(read(&piped(&peer), Call::Members, "").await);
    }
    read_as
}

/// A member of a timeline, with the fields that timelines leave out.
fn member(short: &Value) -> Value {
    json!({
        "server_name": short["name"], "status": short["status"], "message": short["message_start"],
        "roles": short["roles"], "url": "https://10.118.1.11:8443", "database": true, "failure_domain": "default",
        "architecture": "x86_64", "groups": ["default"], "config": {}, "description": "",
    })
}

/// The certificate in the recorded answer, written to a file, is pinned by the digest that the server names.
#[test]
fn contract_incus_pin() {
    let mut compared = 0;
    for (file, recorded) in recordings() {
        let environment = &recorded["body"]["metadata"]["environment"];
        let Some(pem) = environment["certificate"].as_str() else { continue };
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("cluster.crt");
        std::fs::write(&path, pem).unwrap();
        let Ok(Trust::PinnedLeaf(pins)) = Trust::pinned_leaf_file(&path) else { panic!("{file}") };
        let hex: Vec<String> = pins[0].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex.concat(), environment["certificate_fingerprint"].as_str().unwrap(), "{file}");
        compared += 1;
    }
    assert!(compared > 0);
    println!("{compared} certificates compared");
}

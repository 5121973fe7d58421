use std::time::Duration;

use apelora_fencing::BootTime;
use serde_json::{Value, json};

use super::*;
use peer::{Act, Peer};

// The scripted daemon and the way from printed text back to its bytes are those of the reader's own tests.
#[allow(dead_code, reason = "the hostile half is used by the reader's own tests only")]
#[path = "../../../apelora-sanlock/tests/it/peer.rs"]
mod peer;
#[path = "../../../apelora-sanlock/tests/it/recorded.rs"]
mod recorded;

/// A clock that stands still.
pub(super) struct Still(pub(super) u64);

impl Clock for Still {
    fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_secs(self.0))
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Every recorded reading, through socket, decoder and conversion, allows what is written beside it.
#[tokio::test]
async fn contract_sanlock_recordings() {
    let expected: Value = recorded::file("sanlock-expected.json");
    let (mut cases, mut dead) = (0, 0);
    for recording in recorded::RECORDINGS {
        let commands = recorded::file(&format!("{recording}.commands.json"));
        let judged = expected["readings"][recording].as_object().unwrap();
        for (case, expect) in judged {
            cases += 1;
            let at = format!("{recording} {case}");
            let (run, host) = case.split_once("/host ").unwrap();
            let host: u64 = host.parse().unwrap();
            let answers = recorded::Answers::of(&commands, run);
            let peer = Peer::start(move |command, _| Act::Say(answers.get(command)));
            let look = LeaseSource::Sanlock(peer.socket()).look(&Still(7), soon()).await;
            let [reading] = &look.readings[..] else {
                assert_eq!(expect["why"], json!(["unreadable"]), "{at}: {:?}", look.problems);
                continue;
            };
            assert_eq!(reading.read_at, BootTime::new(Duration::from_secs(7)));
            let doubts = reading.doubts(host);
            let words: Vec<_> = doubts.iter().map(|d| d.as_str()).collect();
            let why = expect["why"].as_array().unwrap().iter();
            let why: Vec<_> = why.map(|w| w.as_str().unwrap().split('=').next().unwrap()).collect();
            assert_eq!(words, why, "{at}");
            assert_eq!(doubts.is_empty(), expect["fresh"].as_bool().unwrap(), "{at}");
            let row = reading.host(host);
            assert_eq!(json!(row.and_then(|r| r.state)), expect["state"], "{at}");
            let unchanged = row.is_some_and(|r| r.state.is_some() && r.unchanged_over_dead_time());
            assert_eq!(unchanged, expect["unchanged_over_dead_time"].as_bool().unwrap(), "{at}");
            let says_dead = doubts.is_empty() && row.is_some_and(HostRow::says_dead);
            assert_eq!(says_dead, expect["dead_in_this_reading"].as_bool().unwrap(), "{at}");
            dead += usize::from(says_dead);
        }
    }
    assert!(cases > 0 && dead > 0, "no cases");
    println!("{cases} recorded lease readings over a socket, {dead} of them one half of a proof");
}

#[tokio::test]
async fn without_a_source_or_a_daemon_there_is_no_reading() {
    assert_eq!(LeaseSource::None.look(&Still(0), soon()).await, LeaseLook::default());
    let folder = tempfile::tempdir().unwrap();
    let source = LeaseSource::Sanlock(folder.path().join("sanlock.sock"));
    assert!(source.read(&Still(0), soon()).await.is_empty());
    let look = source.look(&Still(0), soon()).await;
    let config = LeaseConfig { lockspaces: vec!["vg".into()], members: BTreeMap::new() };
    let problems = look.problems_of(&config);
    assert!(problems["vg"].contains("systemctl start sanlock"), "{problems:?}");
}

#[tokio::test]
async fn another_start_of_a_daemon_is_another_daemon() {
    let commands = recorded::file("sanlock-io1.commands.json");
    let answers = recorded::Answers::of(&commands, "dead");
    let peer = Peer::start(move |command, _| Act::Say(answers.get(command)));
    let [reading] = &LeaseSource::Sanlock(peer.socket()).read(&Still(0), soon()).await[..] else { panic!() };
    let name = format!("member-01, process {}, host 1 generation 1", std::process::id());
    assert_eq!(reading.daemon, name);
}

#[test]
fn a_hosts_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.json");
    let error = load_hosts(&path).unwrap_err().to_string();
    assert!(error.starts_with("APELORA_SANLOCK_HOSTS: ") && error.contains("hosts.json"), "{error}");
    std::fs::write(&path, r#"{"lockspaces": ["vg"], "members": {"s1": {"host_ids": {"vg": 0}}}}"#).unwrap();
    let error = load_hosts(&path).unwrap_err().to_string();
    assert!(error.contains("hosts.json") && error.contains("member `s1`: `host_ids`"), "{error}");
    std::fs::write(&path, r#"{"lockspaces": ["vg"], "members": {"s1": {"host_ids": {"vg": 1}}}}"#).unwrap();
    assert_eq!(load_hosts(&path).unwrap().members.len(), 1);
    File::create(&path).unwrap().set_len(5 << 30).unwrap();
    assert!(load_hosts(&path).unwrap_err().to_string().contains("larger than 4 MiB"));
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Both would be read for ever.
    for path in [&pipe, Path::new("/dev/zero")] {
        assert!(load_hosts(path).unwrap_err().to_string().contains("not a regular file"));
    }
}

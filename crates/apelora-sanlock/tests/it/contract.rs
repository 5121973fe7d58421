//! Every recorded answer of real daemons, read over a socket, is what their own command printed.

use std::time::Duration;

use apelora_sanlock::{Daemon, HostState, Membership};
use serde_json::Value;
use tokio::time::Instant;

use crate::peer::{Act, Peer};
use crate::recorded::{Answers, RECORDINGS, file};

fn word(state: HostState) -> &'static str {
    match state {
        HostState::Unknown => "UNKNOWN",
        HostState::Free => "FREE",
        HostState::Live => "LIVE",
        HostState::Fail => "FAIL",
        HostState::Dead => "DEAD",
    }
}

fn line<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().find_map(|l| l.trim().strip_prefix(key)?.strip_prefix('=')).unwrap()
}

/// The runs of one recording that have all three outputs.
fn runs(commands: &Value) -> Vec<String> {
    let commands = commands.as_object().unwrap();
    let runs = commands.keys().filter_map(|k| k.strip_suffix("-host_status-D"));
    let whole =
        |run: &&str| ["gets", "status-D"].iter().all(|w| commands.contains_key(&format!("{run}-{w}")));
    runs.filter(whole).map(str::to_owned).collect()
}

#[tokio::test]
async fn contract_sanlock_recordings() {
    let (mut readings, mut rows, mut unreadable) = (0, 0, 0);
    for recording in RECORDINGS {
        let commands: Value = file(&format!("{recording}.commands.json"));
        for run in runs(&commands) {
            let answers = Answers::of(&commands, &run);
            let peer = Peer::start(move |command, _| Act::Say(answers.get(command)));
            let reading = Daemon::new(peer.socket()).read(Instant::now() + Duration::from_secs(10)).await;
            let reading = reading.unwrap_or_else(|e| panic!("{recording} {run}: {e}"));
            let output = |what: &str| commands[format!("{run}-{what}")]["stdout"].as_str().unwrap();
            readings += 1;

            let status = output("status-D");
            assert_eq!(reading.daemon.name, line(status, "our_host_name"), "{run}");
            assert_eq!(reading.daemon.monotime.to_string(), line(status, "monotime"), "{run}");
            assert_eq!(reading.daemon.version, line(status, "version_str"), "{run}");
            assert!(!reading.daemon.use_watchdog, "{run}");
            let [space] = &reading.lockspaces[..] else {
                // The daemon that had left the lockspace before it was asked.
                assert!(!output("gets").contains("h "), "{recording} {run}: {:?}", reading.unreadable);
                unreadable += 1;
                continue;
            };
            assert_eq!(space.membership, Membership::Joined);
            for (key, value) in [
                ("io_timeout", space.io_timeout.to_string()),
                ("host_generation", space.host_generation.to_string()),
                ("space_dead", u8::from(space.space_dead).to_string()),
                ("killing_pids", u8::from(space.killing_pids).to_string()),
                ("renew_fail", u8::from(space.renew_fail).to_string()),
                ("corrupt_result", space.corrupt_result.to_string()),
                ("renewal_last_result", space.renewal_last_result.to_string()),
                ("renewal_last_success", space.renewal_last_success.to_string()),
            ] {
                assert_eq!(value, line(status, key), "{recording} {run} {key}");
            }
            let (mut states, mut printed) = (String::new(), String::new());
            for host in &space.hosts {
                rows += 1;
                if let Some(state) = host.state {
                    states.push_str(&format!(
                        "h {} gen {} timestamp {} {}\n",
                        host.host_id,
                        host.generation,
                        host.timestamp,
                        word(state)
                    ));
                }
                printed.push_str(&format!(
                    "{} timestamp {}\n    last_check={}\n    last_live={}\n    last_req=0\n    owner_id={}\n    \
                     owner_generation={}\n    timestamp={}\n    io_timeout={}\n    owner_name={}\n",
                    host.host_id,
                    host.timestamp,
                    host.last_check,
                    host.last_live,
                    host.owner_id,
                    host.generation,
                    host.timestamp,
                    host.io_timeout,
                    host.owner_name,
                ));
            }
            let gets = output("gets");
            assert_eq!(states, &gets[gets.find('\n').unwrap() + 1..], "{recording} {run}");
            assert_eq!(printed, output("host_status-D"), "{recording} {run}");
        }
    }
    assert!(readings > 0 && rows > 0 && unreadable > 0, "no cases");
    println!(
        "{readings} recorded readings with {rows} hosts, {unreadable} of them of a daemon that had left"
    );
}

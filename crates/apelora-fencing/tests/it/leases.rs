//! The recorded readings of real lease daemons: what each allows for each host.

use std::collections::BTreeMap;
use std::time::Duration;

use apelora_fencing::BootTime;
use apelora_fencing::lease::{HostRow, HostState, LeaseReading, Observer};
use serde_json::Value;

type Keys = BTreeMap<String, String>;

fn keys<'a>(lines: impl Iterator<Item = &'a str>) -> Keys {
    lines
        .take_while(|l| l.starts_with(' '))
        .filter_map(|l| l.trim().split_once('='))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

fn number(keys: &Keys, key: &str) -> Option<u64> {
    keys.get(key)?.parse().ok()
}

fn signed(keys: &Keys, key: &str) -> Option<i64> {
    keys.get(key)?.parse().ok()
}

/// Reads the three recorded commands of one run, as far as this test needs it. `None`: unreadable.
fn reading(commands: &Value, run: &str) -> Option<LeaseReading> {
    let output = |what: &str| {
        let command = &commands[format!("{run}-{what}")];
        (command["rc"] == 0).then(|| command["stdout"].as_str().unwrap().to_owned()).filter(|s| !s.is_empty())
    };
    let (gets, status, hosts) = (output("gets")?, output("status-D")?, output("host_status-D")?);

    let space = gets.lines().next()?.strip_prefix("s ")?;
    let (name, rest) = space.split_once(':')?;
    let own_id: u64 = rest.split(':').next()?.parse().ok()?;
    let mut states = BTreeMap::new();
    for line in gets.lines().skip(1) {
        let words: Vec<_> = line.split_whitespace().collect();
        let ["h", id, "gen", _, "timestamp", _, state] = words[..] else { return None };
        let state = match state {
            "LIVE" => HostState::Live,
            "FAIL" => HostState::Fail,
            "DEAD" => HostState::Dead,
            "UNKNOWN" => HostState::Unknown,
            _ => return None,
        };
        states.insert(id.parse::<u64>().ok()?, state);
    }
    let daemon = keys(status.lines().skip(1));
    let own = status.lines().skip_while(|l| !l.starts_with("s ")).skip(1);
    let own = keys(own);
    let lines: Vec<_> = hosts.lines().collect();
    let rows = (0..lines.len()).filter(|i| !lines[*i].starts_with(' ')).map(|i| {
        let host_id = lines[i].split_whitespace().next()?.parse().ok()?;
        let row = keys(lines[i + 1..].iter().copied());
        Some(HostRow {
            host_id,
            state: states.get(&host_id).copied(),
            owner_id: number(&row, "owner_id")?,
            generation: number(&row, "owner_generation")?,
            timestamp: number(&row, "timestamp")?,
            last_check: number(&row, "last_check")?,
            last_live: number(&row, "last_live")?,
            io_timeout: number(&row, "io_timeout")?,
            owner_name: row.get("owner_name")?.clone(),
        })
    });
    Some(LeaseReading {
        lockspace: name.into(),
        read_at: BootTime::new(Duration::from_secs(number(&daemon, "monotime")?)),
        daemon: daemon.get("our_host_name")?.clone(),
        observer: Observer {
            host_id: own_id,
            monotime: number(&daemon, "monotime")?,
            io_timeout: number(&own, "io_timeout")?,
            joined: own.get("list")? == "spaces",
            space_dead: number(&own, "space_dead")? != 0,
            killing_pids: number(&own, "killing_pids")? != 0,
            renew_fail: number(&own, "renew_fail")? != 0,
            corrupt_result: signed(&own, "corrupt_result")?,
            renewal_last_result: signed(&own, "renewal_last_result")?,
            renewal_last_success: number(&own, "renewal_last_success")?,
        },
        hosts: rows.collect::<Option<Vec<_>>>()?,
    })
}

fn word(state: HostState) -> &'static str {
    match state {
        HostState::Live => "LIVE",
        HostState::Fail => "FAIL",
        HostState::Dead => "DEAD",
        HostState::Unknown => "UNKNOWN",
        HostState::Free => "FREE",
    }
}

#[test]
fn contract_sanlock_expected() {
    let expected: Value =
        serde_json::from_str(&crate::data::text("fencing/recordings/sanlock-expected.json")).unwrap();
    let mut cases = 0;
    let mut dead = 0;
    for (recording, readings) in expected["readings"].as_object().unwrap() {
        let commands = crate::data::text(&format!("fencing/recordings/{recording}.commands.json"));
        let commands: Value = serde_json::from_str(&commands).unwrap();
        for (case, expect) in readings.as_object().unwrap() {
            cases += 1;
            let at = format!("{recording} {case}");
            let (run, host) = case.split_once("/host ").unwrap();
            let host: u64 = host.parse().unwrap();
            let Some(reading) = reading(&commands, run) else {
                assert_eq!(expect["why"], serde_json::json!(["unreadable"]), "{at}");
                continue;
            };
            let doubts = reading.doubts(host);
            let words: Vec<_> = doubts.iter().map(|d| d.as_str()).collect();
            let why: Vec<_> = expect["why"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| w.as_str().unwrap().split('=').next().unwrap())
                .collect();
            assert_eq!(words, why, "{at}");
            assert_eq!(doubts.is_empty(), expect["fresh"].as_bool().unwrap(), "{at}");
            let row = reading.host(host);
            assert_eq!(row.and_then(|r| r.state).map(word), expect["state"].as_str(), "{at}");
            // The dead time counts for a host that still has a lease.
            let unchanged = row.is_some_and(|r| r.state.is_some() && r.unchanged_over_dead_time());
            assert_eq!(unchanged, expect["unchanged_over_dead_time"].as_bool().unwrap(), "{at}");
            let says_dead = doubts.is_empty() && row.is_some_and(HostRow::says_dead);
            assert_eq!(says_dead, expect["dead_in_this_reading"].as_bool().unwrap(), "{at}");
            dead += usize::from(says_dead);
        }
    }
    assert!(cases > 0 && dead > 0, "no cases");
    println!("{cases} recorded lease readings, {dead} of them one half of a proof");
}

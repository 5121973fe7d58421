//! What `sanlock client` printed, put back into the bytes that it had read. Also used by the worker's tests.
//!
//! The recordings are tests/data/fencing/recordings (README.md beside them); the printed text is the daemon's own, so
//! nothing is lost on the way back but padding.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::peer;

/// The recordings' file names without their endings.
pub(crate) const RECORDINGS: [&str; 2] = ["sanlock-io1", "sanlock-io10"];

pub(crate) fn file(name: &str) -> Value {
    let folder = named_folder().unwrap_or_else(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors()
            .find(|a| a.join("Cargo.lock").is_file())
            .expect("a workspace root")
            .join("tests/data")
    });
    let path = folder.join("fencing/recordings").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the one place where these tests read the environment")]
fn named_folder() -> Option<PathBuf> {
    std::env::var("APELORA_TEST_DATA").ok().map(PathBuf::from)
}

/// What a daemon answered in one run, by command.
#[derive(Clone, Debug)]
pub(crate) struct Answers(BTreeMap<u32, Vec<u8>>);

impl Answers {
    pub(crate) fn of(commands: &Value, run: &str) -> Self {
        let output = |what: &str| commands[format!("{run}-{what}")]["stdout"].as_str().unwrap().to_owned();
        let (spaces, hosts) = gets(&output("gets"));
        let mut answers = BTreeMap::from([
            (peer::LOCKSPACES, peer::counted(peer::LOCKSPACES, &spaces)),
            (peer::STATUS, peer::streamed(peer::STATUS, &status(&output("status-D")))),
        ]);
        answers.insert(
            peer::HOSTS,
            hosts.map_or_else(
                || peer::header(peer::HOSTS, 32, -2, 0),
                |hosts| {
                    let timeouts = io_timeouts(&output("host_status-D"));
                    let hosts: Vec<_> =
                        hosts.iter().map(|h| peer::host(h.0, h.1, h.2, timeouts[&h.0], h.3)).collect();
                    peer::counted(peer::HOSTS, &hosts)
                },
            ),
        );
        let rows = host_status(&output("host_status-D"));
        let rows = if rows.is_empty() {
            peer::header(peer::HOST_STATUS, 32, -28, 0)
        } else {
            peer::streamed(peer::HOST_STATUS, &rows)
        };
        answers.insert(peer::HOST_STATUS, rows);
        Self(answers)
    }

    pub(crate) fn get(&self, command: u32) -> Vec<u8> {
        self.0[&command].clone()
    }
}

/// A printed block: its first line, and its `key=value` lines as the text that they were.
fn blocks(output: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in output.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(pair), Some((_, pairs))) => pairs.push(pair),
            _ => blocks.push((line, Vec::new())),
        }
    }
    blocks.into_iter().map(|(head, pairs)| (head, pairs.join(" "))).collect()
}

type Row = (u64, u64, u64, u32);

/// Lockspaces and, unless they could not be had, hosts: id, generation, timestamp, state.
fn gets(output: &str) -> (Vec<Vec<u8>>, Option<Vec<Row>>) {
    let mut spaces = Vec::new();
    let mut hosts = Some(Vec::new());
    for line in output.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["s", space, ref rest @ ..] => {
                let mut parts = space.split(':');
                let name = parts.next().unwrap();
                let id = parts.next().unwrap().parse().unwrap();
                let flags = match rest {
                    [] => 0,
                    ["ADD"] => 1,
                    ["REM"] => 2,
                    other => panic!("flags {other:?}"),
                };
                spaces.push(peer::lockspace(name, id, flags));
            }
            ["h", id, "gen", generation, "timestamp", timestamp, state] => {
                let state = match state {
                    "UNKNOWN" => 1,
                    "LIVE" => 3,
                    "FAIL" => 4,
                    "DEAD" => 5,
                    other => panic!("state {other}"),
                };
                let number = |text: &str| text.parse().unwrap();
                hosts.as_mut().unwrap().push((number(id), number(generation), number(timestamp), state));
            }
            _ => hosts = None,
        }
    }
    (spaces, hosts)
}

fn value<'a>(text: &'a str, key: &str) -> &'a str {
    text.split(' ').find_map(|p| p.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

fn host_status(output: &str) -> Vec<Vec<u8>> {
    let rows = blocks(output).into_iter().map(|(head, text)| {
        let (id, timestamp) = head.split_once(" timestamp ").unwrap();
        peer::state(5, id.parse().unwrap(), timestamp.parse().unwrap(), "", &text)
    });
    rows.collect()
}

fn io_timeouts(output: &str) -> BTreeMap<u64, u32> {
    let rows = blocks(output).into_iter().map(|(head, text)| {
        let id = head.split(' ').next().unwrap().parse().unwrap();
        (id, value(&text, "io_timeout").parse().unwrap())
    });
    rows.collect()
}

fn status(output: &str) -> Vec<Vec<u8>> {
    let records = blocks(output).into_iter().map(|(head, text)| {
        let (kind, rest) = head.split_once(' ').unwrap();
        match kind {
            "daemon" => peer::state(1, 0, 0, rest, &text),
            "p" => peer::state(2, 0, 0, "", &text),
            "s" => {
                let mut parts = rest.split(':');
                let name = parts.next().unwrap();
                let id = parts.next().unwrap().parse().unwrap();
                let mut record = peer::state(3, 0, id, name, &text);
                record.extend(peer::lockspace(name, id, 0));
                record
            }
            other => panic!("record {other}"),
        }
    });
    records.collect()
}

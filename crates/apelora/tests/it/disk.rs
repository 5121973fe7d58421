//! `apelora server` and the file of its database: a disk that takes no more, a file that goes away, a file to copy.

use std::process::{Command, Stdio};

use crate::command::{apelora, folder, run};
use crate::running::{Running, address, request};

/// The command under a limit on the size of its files, in blocks of 512 bytes.
fn with_small_files(command: &Command, blocks: u32) -> Command {
    let mut limited = Command::new("/bin/sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\""]).arg(blocks.to_string());
    limited.arg(command.get_program()).args(command.get_args());
    limited.env_clear().current_dir(command.get_current_dir().unwrap());
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    limited
}

#[test]
fn a_disk_that_takes_no_more_is_told_at_once_and_nothing_that_was_acknowledged_is_lost() {
    let here = folder();
    let arguments = ["server", "--listen", "127.0.0.1:0"];
    let server = Running::start(&mut with_small_files(&apelora(here.path(), &[], &arguments), 1024));
    let at = address(&server.err("http://"));
    assert_eq!(request(&at, "POST", "/v1/nodes", r#"{"driver": "fake-hardware", "name": "n"}"#).0, 201);
    let mut kept = String::new();
    let mut set = |i: u32| {
        let reason = format!("{i} {}", "x".repeat(4_000));
        let (status, body) =
            request(&at, "PUT", "/v1/nodes/n/maintenance", &format!(r#"{{"reason": "{reason}"}}"#));
        if status == 202 {
            kept = reason;
        }
        (status, body)
    };
    let (status, body) = (0..1_000).map(&mut set).find(|(status, _)| *status != 202).unwrap();
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("not available at the moment"), "{body}");
    // Each of them ends: nothing waits for room on the disk.
    for i in 1_000..1_003 {
        assert_eq!(set(i).0, 503);
    }
    let shown = |at: &str| {
        let (status, body) = request(at, "GET", "/v1/nodes/n?fields=maintenance_reason", "");
        assert_eq!(status, 200, "{body}");
        let node: serde_json::Value = serde_json::from_str(&body).unwrap();
        node["maintenance_reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(shown(&at), kept);
    server.stop("-KILL");
    let again = Running::start(&mut apelora(here.path(), &[], &arguments));
    let at = address(&again.err("http://"));
    assert_eq!(shown(&at), kept);
    assert_eq!(request(&at, "DELETE", "/v1/nodes/n/maintenance", "").0, 204);
}

#[test]
fn a_database_file_that_is_taken_away_is_told_instead_of_written_to() {
    for replaced in [false, true] {
        let here = folder();
        let server = Running::start(&mut apelora(here.path(), &[], &["server", "--listen", "127.0.0.1:0"]));
        let at = address(&server.err("http://"));
        assert_eq!(request(&at, "POST", "/v1/nodes", r#"{"driver": "fake-hardware", "name": "n"}"#).0, 201);
        let file = here.path().join("apelora.db");
        if replaced {
            std::fs::copy(&file, here.path().join("backup")).unwrap();
            std::fs::rename(here.path().join("backup"), &file).unwrap();
        } else {
            std::fs::remove_file(&file).unwrap();
        }
        let (status, body) = request(&at, "PUT", "/v1/nodes/n/maintenance", "{}");
        assert_eq!(status, 503, "{body}");
        assert!(!body.contains("apelora.db"), "{body}");
        let said = server.err("restart this process");
        assert!(said.contains("apelora.db was removed, replaced or made unreachable"), "{said}");
        assert_eq!(request(&at, "GET", "/readyz", "").0, 503);
        assert_eq!(request(&at, "GET", "/healthz", "").0, 200);
        assert_eq!(server.stop("-TERM").0, Some(0));
    }
}

#[test]
fn after_a_stop_the_database_is_one_file() {
    let here = folder();
    let arguments = ["server", "--listen", "127.0.0.1:0"];
    let server = Running::start(&mut apelora(here.path(), &[], &arguments));
    let at = address(&server.err("http://"));
    assert_eq!(request(&at, "POST", "/v1/nodes", r#"{"driver": "fake-hardware", "name": "n"}"#).0, 201);
    assert_eq!(server.stop("-TERM").0, Some(0));
    assert_eq!(run(here.path(), &[], &["db", "backfill"]).code, 0);
    let there = folder();
    std::fs::copy(here.path().join("apelora.db"), there.path().join("apelora.db")).unwrap();
    let copy = Running::start(&mut apelora(there.path(), &[], &arguments));
    let at = address(&copy.err("http://"));
    assert_eq!(request(&at, "GET", "/v1/nodes/n", "").0, 200);
}

//! The recorded conversations, replayed against this server by the judge that compares every byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use apelora_server::AuthStrategy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::lab::{self, Lab};

/// A line of a file of users, with a cheap hash.
pub(crate) fn user_line(user: &str, password: &str) -> String {
    let hash = bcrypt::hash_with_result(password, 4).unwrap().format_for_version(bcrypt::Version::TwoY);
    format!("{user}:{hash}\n")
}

fn data() -> PathBuf {
    lab::variable_of("APELORA_TEST_DATA")
        .map_or_else(|| lab::root().join("tests/data"), PathBuf::from)
        .join("ironic/golden")
}

/// Answers the judge's request for a fresh server: an empty database, and the auth strategy of the scenario.
struct Fresh {
    address: SocketAddr,
    folder: tempfile::TempDir,
    running: Option<Lab>,
}

impl Fresh {
    fn database(&self) -> PathBuf {
        self.folder.path().join("a.db")
    }

    async fn start(&mut self, basic: bool) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", self.database().display()));
        }
        let store = lab::sqlite_store(&self.database()).await;
        let user_file = self.folder.path().join("users");
        std::fs::write(&user_file, user_line("admin", "secret")).unwrap();
        self.running = Some(
            Lab::start(self.address, store, |config| {
                if basic {
                    config.auth = AuthStrategy::HttpBasic { user_file };
                }
            })
            .await,
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs python3: scripts/suites/goldens"]
async fn contract_ironic_goldens() {
    // A free port, kept by taking it again at once.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let control = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut fresh = Fresh { address, folder: tempfile::tempdir().unwrap(), running: None };
    let reset = format!(
        "python3 -c \"import os, socket; s = socket.create_connection(('127.0.0.1', {})); \
         s.sendall(os.environ['GOLDEN_AUTH'].encode()); s.shutdown(1); assert s.recv(9) == b'ready'\"",
        control.local_addr().unwrap().port()
    );
    let mut judge = Command::new("python3");
    judge
        .arg(lab::root().join("tests/contract/golden-replay.py"))
        .args(["--max-minor", "116", "--url", &format!("http://{address}"), "--reset", &reset])
        .arg("--sqlite")
        .arg(fresh.database());
    for only in lab::variable_of("APELORA_TEST_GOLDENS").unwrap_or_default().split_whitespace() {
        judge.args(["--only", only]);
    }
    if let Some(report) = lab::variable_of("APELORA_TEST_GOLDEN_REPORT") {
        judge.args(["--report", &report]);
    }
    let judge = judge.arg(data()).stdout(Stdio::piped()).spawn().expect("python3 runs the judge");
    let output = judge.wait_with_output();
    tokio::pin!(output);
    let output = loop {
        tokio::select! {
            output = &mut output => break output.unwrap(),
            asked = control.accept() => {
                let (mut stream, _) = asked.unwrap();
                let mut auth = String::new();
                stream.read_to_string(&mut auth).await.unwrap();
                fresh.start(auth == "http_basic").await;
                stream.write_all(b"ready").await.unwrap();
            }
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let total = text.lines().rev().find_map(|line| line.strip_prefix("total: ")).expect("the judge counts");
    let passed: u32 = total.split(' ').next().unwrap().parse().unwrap();
    assert!(passed > 0 && output.status.success(), "{total}");
}

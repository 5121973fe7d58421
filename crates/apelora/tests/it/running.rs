//! A command that keeps running: its lines as they come, requests to it, its end by a signal.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Ends a test that would hang; no test passes because of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that is killed when the test ends.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// The next line of the standard output that holds this.
    pub(crate) fn out(&self, wanted: &str) -> String {
        next(&self.out, wanted)
    }

    /// The lines of the standard output up to the one with which each of these was there, in whatever order.
    pub(crate) fn out_all(&self, wanted: &[&str]) {
        let mut missing = wanted.to_vec();
        while !missing.is_empty() {
            let line = next_of(&self.out, &missing);
            missing.retain(|wanted| !line.contains(wanted));
        }
    }

    /// The next line of the standard error that holds this.
    pub(crate) fn err(&self, wanted: &str) -> String {
        next(&self.err, wanted)
    }

    /// Asks it to stop by this signal and gives its exit code and the rest of its lines.
    pub(crate) fn stop(mut self, signal: &str) -> (Option<i32>, String, String) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let code = self.child.wait().unwrap().code();
        (code, self.out.iter().collect(), self.err.iter().collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already gone in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, received) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line + "\n").is_err() {
                break;
            }
        }
    });
    received
}

fn next(from: &Receiver<String>, wanted: &str) -> String {
    next_of(from, &[wanted])
}

/// The next line that holds one of these.
fn next_of(from: &Receiver<String>, wanted: &[&str]) -> String {
    let mut seen = String::new();
    loop {
        match from.recv_timeout(PATIENCE) {
            Ok(line) if wanted.iter().any(|wanted| line.contains(wanted)) => {
                return line.trim_end().to_owned();
            }
            Ok(line) => seen.push_str(&line),
            Err(why) => panic!("no line with {wanted:?} ({why}); there were:\n{seen}"),
        }
    }
}

/// Waits until something is so that another process does in its own time.
pub(crate) fn until(is: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "it never became so");
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// The first `http://ADDRESS:PORT` in a line.
pub(crate) fn address(line: &str) -> String {
    let (_, rest) = line.split_once("http://").unwrap_or_else(|| panic!("no address in {line}"));
    rest.chars().take_while(|c| c.is_ascii_digit() || ".:[]".contains(*c)).collect()
}

/// One request at the newest microversion; status and body.
pub(crate) fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-OpenStack-Ironic-API-Version: 1.116\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

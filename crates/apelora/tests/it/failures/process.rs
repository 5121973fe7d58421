//! A process of a course: its log as it comes, and the signals that it gets.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep, timeout};

use crate::running::address;

/// Ends a course that would hang; none passes because of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until this gives something.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// A process that is killed when it is dropped.
pub(crate) struct Process {
    pub(crate) name: &'static str,
    child: Mutex<Child>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Self {
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let (to, from) = (Arc::clone(&log), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                to.lock().unwrap().push(line);
            }
        });
        Self { name, child: Mutex::new(child), log }
    }

    /// The number of lines so far.
    pub(crate) fn now(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// The lines with these words.
    pub(crate) fn with(&self, words: &str) -> Vec<String> {
        self.log.lock().unwrap().iter().filter(|line| line.contains(words)).cloned().collect()
    }

    /// Waits for a line with these words, after the first `from` lines.
    pub(crate) async fn says_after(&self, from: usize, words: &str) -> String {
        let mut next = from;
        let found = timeout(PATIENCE, async {
            loop {
                {
                    let log = self.log.lock().unwrap();
                    if let Some(line) = log.iter().skip(next).find(|line| line.contains(words)) {
                        return line.clone();
                    }
                    next = log.len();
                }
                sleep(Duration::from_millis(5)).await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("{} never said {words:?}", self.name))
    }

    pub(crate) async fn says(&self, words: &str) -> String {
        self.says_after(0, words).await
    }

    /// Where it serves its health.
    pub(crate) async fn address(&self) -> String {
        address(&self.says("http://127.0.0.1").await)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    /// Asks it to stop and gives its exit code.
    pub(crate) async fn end(&self) -> Option<i32> {
        self.signal(Signal::TERM);
        let ended = async || self.child.lock().unwrap().try_wait().unwrap();
        until(&format!("the end of {}", self.name), ended).await.code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        // Also one that was stopped; it may be gone already.
        drop((child.kill(), child.wait()));
        if std::thread::panicking() {
            let log = self.log.lock().unwrap();
            let from = log.len().saturating_sub(120);
            eprintln!("--- {} (the last of {} lines)\n{}", self.name, log.len(), log[from..].join("\n"));
        }
    }
}

//! Real sanlock daemons, several pretended hosts of one lockspace (tests/labs/sanlock.sh, with an I/O timeout of 1 s: a
//! host is dead after 68 s). They need root and loop devices; the suite `sanlock` of `scripts/test` runs them, each with
//! daemons of its own.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use apelora_fencing::lease::{LeaseHost, LeaseSeen, LeaseWatch, Proves};
use apelora_fencing::{BootTime, MemberName};

use super::*;

const SPACE: &str = "lvm_lab";
/// 8 I/O timeouts and the time of a watchdog, in seconds.
const DEAD_AFTER: u64 = 68;
/// When a test gives up: well before the runner does.
const PATIENCE: Duration = Duration::from_secs(150);

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn start(names: &[&str]) -> Self {
        let lab = Self { folder: tempfile::tempdir().unwrap() };
        lab.tell("start", names);
        lab
    }

    fn tell(&self, verb: &str, names: &[&str]) {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/labs/sanlock.sh");
        let output = Command::new(script)
            .arg(verb)
            .arg(self.folder.path())
            .args(names)
            .output()
            .expect("the lab's script");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "sanlock.sh {verb} {names:?}: {said}");
    }

    /// Somebody who looks through this host's daemon.
    fn eye(&self, host: &str) -> Eye {
        Eye {
            source: LeaseSource::Sanlock(self.folder.path().join(host).join("sanlock.sock")),
            watch: LeaseWatch::default(),
            since: Since(Instant::now()),
            stored: BTreeMap::new(),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A test that failed must not fail twice, and leaves nothing either.
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/labs/sanlock.sh");
        let _ = Command::new(script).arg("stop").arg(self.folder.path()).status();
    }
}

/// The time since the test began.
struct Since(Instant);

impl Clock for Since {
    fn boot(&self) -> BootTime {
        BootTime::new(self.0.elapsed())
    }
}

/// What a leader would know who reads leases through one daemon.
struct Eye {
    source: LeaseSource,
    watch: LeaseWatch,
    since: Since,
    stored: BTreeMap<MemberName, Vec<LeaseSeen>>,
}

/// Three hosts, with or without a word about their watchdogs.
fn config(watchdog: bool) -> LeaseConfig {
    let member = |(name, id): (&str, u64)| {
        let host = LeaseHost { host_ids: [(SPACE.to_owned(), id)].into(), watchdog };
        (MemberName::from(name), host)
    };
    LeaseConfig {
        lockspaces: vec![SPACE.into()],
        members: [("s1", 1), ("s2", 2), ("s3", 3)].map(member).into_iter().collect(),
    }
}

impl Eye {
    async fn look(&mut self) -> LeaseLook {
        let look = self.source.look(&self.since, Instant::now() + Duration::from_secs(3)).await;
        self.watch.see(look.readings.clone());
        look
    }

    /// Looks until everybody is alive, and notes their leases as a worker does while the members are Online.
    async fn sees_everybody(&mut self) {
        let config = config(false);
        let begun = Instant::now();
        while self.stored.len() < 3 {
            assert!(begun.elapsed() < PATIENCE, "not everybody is alive: {:?}", self.watch);
            self.look().await;
            for name in config.members.keys() {
                let alive = self.watch.alive(&config, name);
                if !alive.is_empty() {
                    self.stored.insert(name.clone(), alive);
                }
            }
            pause().await;
        }
    }

    /// Whom the leases prove dead, if every watchdog is attested or none is.
    fn dead(&self, watchdog: bool) -> Vec<String> {
        let config = config(watchdog);
        let dead = |name: &&MemberName| self.watch.dead(&config, name, &self.stored[*name]).is_some();
        config.members.keys().filter(dead).map(ToString::to_string).collect()
    }

    fn state(look: &LeaseLook, host_id: u64) -> Option<(HostState, u64)> {
        let row = look.readings.first()?.host(host_id)?;
        Some((row.state?, row.generation))
    }
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test]
#[ignore = "needs root, sanlock and loop devices; run by scripts/test sanlock"]
async fn a_killed_host_proves_with_an_attested_watchdog_and_no_more_once_it_returned() {
    let lab = Lab::start(&["s1", "s2", "s3"]);
    let mut eye = lab.eye("s1");
    eye.sees_everybody().await;
    assert!(eye.dead(true).is_empty());

    lab.tell("kill", &["s2"]);
    let begun = Instant::now();
    let mut said = Vec::new();
    while eye.dead(true).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "never proven; states {said:?}");
        let look = eye.look().await;
        if let Some((state, _)) = Eye::state(&look, 2)
            && said.last() != Some(&state)
        {
            said.push(state);
        }
        assert!(eye.dead(false).is_empty(), "nothing is proven without watchdogs");
        pause().await;
    }
    let took = begun.elapsed().as_secs();
    assert_eq!(said, [HostState::Live, HostState::Fail, HostState::Dead]);
    assert_eq!(eye.dead(true), ["s2"]);
    let proof = eye.watch.dead(&config(true), &"s2".into(), &eye.stored[&"s2".into()]).unwrap();
    let [evidence] = proof.evidence() else { panic!("{proof:?}") };
    assert!(evidence.unchanged_s > DEAD_AFTER, "{evidence:?}");
    assert_eq!(vec![evidence.lease.clone()], eye.stored[&"s2".into()]);
    println!("proven {took} s after the kill: {evidence:?}");

    let verdict = |watchdog| {
        let rows = eye.watch.rows(&config(watchdog), Some(&eye.stored), &BTreeMap::new());
        let row = rows.into_iter().find(|r| r.host_id == Some(2)).unwrap();
        (row.proves, row.reasons.iter().map(|r| r.code).collect::<Vec<_>>())
    };
    assert_eq!(verdict(true), (Proves::Dead, vec![]));
    assert_eq!(verdict(false), (Proves::Nothing, vec!["no_watchdog"]));

    lab.tell("join", &["s2"]);
    let begun = Instant::now();
    let mut returned = 0;
    while returned < 10 {
        assert!(begun.elapsed() < PATIENCE, "it never returned");
        let look = eye.look().await;
        if Eye::state(&look, 2) == Some((HostState::Live, 2)) {
            returned += 1;
            assert!(eye.dead(true).is_empty(), "a host that returned is not dead");
        }
        pause().await;
    }
}

#[tokio::test]
#[ignore = "needs root, sanlock and loop devices; run by scripts/test sanlock"]
async fn a_host_that_lost_its_storage_proves_nothing_as_observer_and_is_not_dead_once_it_is_back() {
    let lab = Lab::start(&["s1", "s2", "s3"]);
    let (mut well, mut lost) = (lab.eye("s1"), lab.eye("s2"));
    well.sees_everybody().await;
    lost.sees_everybody().await;

    lab.tell("cut", &["s2"]);
    let begun = Instant::now();
    let mut others_called_dead = 0;
    // Its processes run on, so the attestation that is assumed here is a lie, and this is what a lie leads to.
    while well.dead(true).is_empty() || others_called_dead < 5 {
        assert!(begun.elapsed() < PATIENCE, "dead for s1: {:?}; s2: {:?}", well.dead(true), lost.watch);
        well.look().await;
        let look = lost.look().await;
        let dead = |id| Eye::state(&look, id).is_some_and(|(state, _)| state == HostState::Dead);
        others_called_dead += usize::from(dead(1) && dead(3));
        assert!(lost.dead(true).is_empty(), "an observer without storage proves nothing");
        pause().await;
    }
    assert_eq!(well.dead(true), ["s2"]);

    lab.tell("mend", &["s2"]);
    let begun = Instant::now();
    let mut back = 0;
    while back < 10 {
        assert!(begun.elapsed() < PATIENCE, "it never came back");
        let look = well.look().await;
        if Eye::state(&look, 2) == Some((HostState::Live, 1)) {
            back += 1;
            assert!(well.dead(true).is_empty(), "it was never dead: the generation is the same");
        }
        lost.look().await;
        assert!(lost.dead(true).is_empty(), "storage that is back makes no old look fresh");
        pause().await;
    }
}

#[tokio::test]
#[ignore = "needs root, sanlock and loop devices; run by scripts/test sanlock"]
async fn an_observer_that_was_stopped_proves_nothing_when_it_goes_on() {
    let lab = Lab::start(&["s1", "s2", "s3"]);
    let (mut well, mut stopped) = (lab.eye("s1"), lab.eye("s3"));
    well.sees_everybody().await;
    stopped.sees_everybody().await;

    lab.tell("pause", &["s3"]);
    let look = stopped.look().await;
    assert!(look.readings.is_empty());
    assert!(matches!(look.problems[0].error, SanlockError::Deadline { .. }), "{:?}", look.problems);

    let begun = Instant::now();
    while well.dead(true).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "s3 is never dead for s1");
        well.look().await;
        pause().await;
    }
    assert_eq!(well.dead(true), ["s3"]);

    let begun = Instant::now();
    let mut others_called_dead = 0;
    // It is asked before it goes on, so that it answers before it has read anybody's lease again.
    let resume = async {
        pause().await;
        lab.tell("resume", &["s3"]);
    };
    let mut first = Some(tokio::join!(stopped.look(), resume).0);
    while begun.elapsed() < Duration::from_secs(12) {
        let look = match first.take() {
            Some(look) => look,
            None => stopped.look().await,
        };
        let dead = |id| Eye::state(&look, id).is_some_and(|(state, _)| state == HostState::Dead);
        others_called_dead += usize::from(dead(1) && dead(2));
        assert!(stopped.dead(true).is_empty(), "an observer that was stopped proves nothing");
        pause().await;
    }
    assert!(others_called_dead > 0, "it called the living dead, as it is known to do");
}

//! The lab provider against a stand-in for `limactl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::{BmcError, Target};
use apelora_fencing::identity::MappedIdentity;
use apelora_fencing::map::{Access, MapEntry, MapSha};
use apelora_fencing::proof::{PowerWord, Reading, SendAnswer};
use apelora_fencing::write::Outcome;
use apelora_fencing::{Clock as _, ReasonCode, Ticket};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use super::bmcs::{map_of, soon};
use super::rig::{VirtualClock, fence, permit};
use crate::secret::EnvironmentSecrets;
use crate::{ProviderSettings, Providers};

struct Lab {
    home: TempDir,
}

impl Lab {
    fn with(vms: &str) -> Self {
        let lab = Self { home: tempfile::tempdir().unwrap() };
        fs::write(lab.file("vms"), vms).unwrap();
        lab
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn mood(&self, mood: &str) {
        fs::write(self.file("mood"), format!("{mood}\n")).unwrap();
    }

    /// How the command was called.
    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn stops(&self) -> usize {
        self.asked().iter().filter(|asked| asked.starts_with("stop")).count()
    }

    fn settings(&self) -> ProviderSettings {
        ProviderSettings {
            allow_lab: true,
            limactl: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/limactl"),
            path: Some("/usr/bin:/bin".into()),
            home: Some(self.home.path().into()),
            ..ProviderSettings::default()
        }
    }

    fn providers(&self) -> Providers {
        of(self.settings())
    }

    /// What a reading says, by opening and reading.
    async fn read(&self, vm: &str) -> Result<PowerWord, BmcError> {
        let target = target(vm);
        let mut conversation = self.providers().open(Ticket(1), &target, soon()).await?;
        let reported = conversation.read(soon()).await?;
        target.entry.identity.check(&reported.identity).unwrap();
        Ok(reported.power)
    }
}

fn of(settings: ProviderSettings) -> Providers {
    Providers::new(settings, Arc::new(EnvironmentSecrets::new::<&str, &str>([])))
}

/// Made by hand, so that names come this far which the map would refuse.
fn target(vm: &str) -> Target {
    let entry =
        MapEntry { access: Access::Lima { vm: vm.into() }, identity: MappedIdentity::LabName(vm.into()) };
    Target { member: "s1".into(), entry: Arc::new(entry), map: MapSha::from_bytes([0; 32]) }
}

#[tokio::test]
async fn a_vm_is_stopped_and_read_back() {
    let lab = Lab::with("apelora-s1 Running\napelora-s11 Running\napelora-san Running\n");
    let map = map_of([("s1", json!({"provider": "lima", "address": "apelora-s1"}))]);
    let ended = fence(&lab.providers(), &map).await;
    let last = &ended.last;
    assert_eq!((last.outcome, last.reason, last.sent), (Outcome::Success, ReasonCode::PoweredOff, true));
    let vms = fs::read_to_string(lab.file("vms")).unwrap();
    assert_eq!(vms, "apelora-s1 Stopped\napelora-s11 Running\napelora-san Running\n");
    assert_eq!(lab.stops(), 1);
    assert!(lab.asked().contains(&"stop --force -- apelora-s1".to_owned()));
    // Two variables and no others; those that a shell makes itself do not count.
    let environment = fs::read_to_string(lab.file("environment")).unwrap();
    let names: Vec<_> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let own = |name: &&str| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name);
    assert_eq!(names.into_iter().filter(own).collect::<Vec<_>>(), ["HOME", "PATH"]);
}

#[tokio::test]
async fn states_are_read_by_exact_words() {
    let lab = Lab::with("apelora-s1 Running\napelora-s2 Stopped\napelora-s3 Broken\napelora-s4 stopped\n");
    assert_eq!(lab.read("apelora-s1").await, Ok(PowerWord::On));
    assert_eq!(lab.read("apelora-s2").await, Ok(PowerWord::Off));
    assert_eq!(lab.read("apelora-s3").await, Ok(PowerWord::Unknown));
    assert_eq!(lab.read("apelora-s4").await, Ok(PowerWord::Unknown));
}

#[tokio::test]
async fn what_is_not_a_clear_answer_is_none() {
    for (mood, vms, said) in [
        ("good", "apelora-s2 Stopped", "there is no VM apelora-s1"),
        ("good", "", "there is no VM apelora-s1"),
        ("good", "apelora-s1 Stopped\napelora-s1 Running\n", "two VMs"),
        ("garbage", "", "not understood"),
        ("huge", "", "more than 1048576 bytes"),
        ("fails", "", "exit status: 1: level=fatal  [31mmsg=\"it broke\""),
    ] {
        let lab = Lab::with(vms);
        lab.mood(mood);
        let error = lab.read("apelora-s1").await.unwrap_err();
        assert_eq!((error.reason, error.transient), (ReasonCode::LabCommand, false), "{mood}");
        assert!(error.detail.contains(said) && error.detail.len() < 1000, "{error:?}");
    }
    let lab = Lab::with("apelora-s1 Stopped\n");
    lab.mood("noisy");
    assert_eq!(lab.read("apelora-s1").await, Ok(PowerWord::Off), "noise beside the answer is no trouble");
    let nowhere = of(ProviderSettings { limactl: "/nowhere/limactl".into(), ..lab.settings() });
    let error = nowhere.open(Ticket(1), &target("apelora-s1"), soon()).await.unwrap_err();
    assert!(error.detail.contains("/nowhere/limactl cannot be started"), "{error:?}");
}

/// A process that is neither running nor waiting to be collected.
fn is_gone(pid: &str) -> bool {
    !Path::new("/proc").join(pid.trim()).exists()
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_at_the_deadline_and_collected() {
    let lab = Lab::with("apelora-s1 Running\n");
    lab.mood("hang");
    let providers = lab.providers();
    let mut by = Instant::now() + Duration::from_millis(300);
    let pid = loop {
        let error = providers.open(Ticket(1), &target("apelora-s1"), by).await.unwrap_err();
        assert_eq!((error.reason, error.transient), (ReasonCode::Deadline, true));
        // On a busy machine the deadline may come before the command's first line.
        if let Ok(pid) = fs::read_to_string(lab.file("pid")) {
            break pid;
        }
        by = Instant::now() + Duration::from_secs(3);
    };
    assert!(is_gone(&pid), "{pid}");
}

#[tokio::test]
async fn a_stop_is_reported_as_what_became_of_it() {
    for (mood, answer) in [
        ("good", SendAnswer::Accepted),
        ("fails-stop", SendAnswer::Declined),
        ("hang-stop", SendAnswer::Unanswered),
    ] {
        let lab = Lab::with("apelora-s1 Running\n");
        lab.mood(mood);
        let map = map_of([("s1", json!({"provider": "lima", "address": "apelora-s1"}))]);
        let target = Target { map: map.sha(), ..target("apelora-s1") };
        let clock = Arc::<VirtualClock>::default();
        let permit = permit(&map, &clock).await;
        let mut conversation = lab.providers().open(Ticket(1), &target, soon()).await.unwrap();
        let reported = conversation.read(soon()).await.unwrap();
        let now = clock.boot();
        let reading = Reading::verify(&reported, &target.entry.identity, Ticket(1), (now, now)).unwrap();
        let by = if mood == "hang-stop" { Instant::now() + Duration::from_millis(300) } else { soon() };
        let report = conversation.force_off(&permit, &reading, &*clock, by).await;
        assert_eq!((report.answer, report.may_have_been_sent()), (answer, true), "{mood}");
    }
    let lab = Lab::with("apelora-s1 Running\n");
    let map = map_of([("s1", json!({"provider": "lima", "address": "apelora-s1"}))]);
    let target = Target { map: map.sha(), ..target("apelora-s1") };
    let clock = Arc::<VirtualClock>::default();
    let permit = permit(&map, &clock).await;
    let mut conversation = lab.providers().open(Ticket(1), &target, soon()).await.unwrap();
    let reported = conversation.read(soon()).await.unwrap();
    let now = clock.boot();
    let reading = Reading::verify(&reported, &target.entry.identity, Ticket(1), (now, now)).unwrap();
    clock.set(permit.until());
    let report = conversation.force_off(&permit, &reading, &*clock, soon()).await;
    assert_eq!(report.answer, SendAnswer::NotSent(ReasonCode::PermitExpired));
    assert_eq!(lab.stops(), 0);
}

#[tokio::test]
async fn nothing_but_a_lab_vm_can_be_named() {
    let lab = Lab::with("apelora-s1 Running\napelora-san Running\nproduction Running\n");
    let long = format!("apelora-{}", "x".repeat(60));
    for vm in [
        "production",
        "apelora-",
        "apelora",
        "Apelora-s1",
        "apelora-san",
        "apelora-SAN",
        "--all",
        "-f",
        "apelora-s1 apelora-san",
        "apelora-s1\napelora-san",
        "apelora-$(touch x)",
        "apelora-../san",
        "apelora-x/../apelora-san",
        "apelora-..",
        "apelora-s1\0",
        "apelora-ſ1",
        &long,
    ] {
        let error = lab.read(vm).await.unwrap_err();
        assert_eq!(error.reason, ReasonCode::LabNotAllowed, "{vm:?}");
        assert!(!error.detail.contains('\n'), "{error:?}");
    }
    let forbidden = of(ProviderSettings { allow_lab: false, ..lab.settings() });
    let error = forbidden.open(Ticket(1), &target("apelora-s1"), soon()).await.unwrap_err();
    assert_eq!(error.reason, ReasonCode::LabNotAllowed);
    assert!(error.detail.contains("APELORA_BMC_ALLOW_LAB"), "{error:?}");
    assert_eq!(lab.asked(), [""; 0], "the command was not even started");
}

//! `apelora demo break|hang|cut|heal` and what a running demo makes of them.

use std::path::Path;

use serde_json::Value;

use crate::command::{Done, apelora, folder, run};
use crate::running::{Running, address, request, until};

/// A running demo with its own temporary folder.
struct Demo {
    temporary: tempfile::TempDir,
    running: Running,
    at: String,
}

impl Demo {
    fn start() -> Self {
        let temporary = folder();
        let mut command = command(temporary.path(), &["demo", "--listen", "127.0.0.1:0"]);
        let running = Running::start(&mut command);
        let at = address(&running.out("http://"));
        running.out("Ctrl-C");
        running.out("This worker leads");
        Self { temporary, running, at }
    }

    /// `apelora demo ...` in another terminal.
    fn order(&self, arguments: &[&str]) -> Done {
        ordered(self.temporary.path(), arguments)
    }

    fn ok(&self, arguments: &[&str]) {
        let done = self.order(arguments);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{arguments:?}: {done:?}");
        assert_eq!(done.out.lines().count(), 1, "{done:?}");
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let done = self.order(arguments);
        assert_eq!((done.code, done.out.as_str()), (1, ""), "{arguments:?}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
        done.err
    }

    /// The line of the story that holds this.
    fn told(&self, words: &str) -> String {
        self.running.out(words)
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = request(&self.at, "GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// What a command that asks the demo's API prints as JSON.
    fn ask(&self, arguments: &[&str]) -> Value {
        let endpoint = format!("http://{}", self.at);
        let environment = [("APELORA_ENDPOINT", endpoint.as_str())];
        let done = run(self.temporary.path(), &environment, &[arguments, &["--format", "json"]].concat());
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        done.json()
    }

    /// What a command that asks the demo's API prints for people, and what it says beside that.
    fn say(&self, arguments: &[&str]) -> Done {
        let endpoint = format!("http://{}", self.at);
        let done = run(self.temporary.path(), &[("APELORA_ENDPOINT", endpoint.as_str())], arguments);
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        done
    }

    fn stop(self) {
        let (code, _, err) = self.running.stop("-INT");
        assert_eq!((code, err.as_str()), (Some(0), ""));
        let left = std::fs::read_dir(self.temporary.path()).unwrap().count();
        assert_eq!(left, 0, "the demo left something behind");
    }
}

fn command(temporary: &Path, arguments: &[&str]) -> std::process::Command {
    apelora(temporary, &[("TMPDIR", temporary.to_str().unwrap())], arguments)
}

fn ordered(temporary: &Path, arguments: &[&str]) -> Done {
    run(temporary, &[("TMPDIR", temporary.to_str().unwrap())], &[&["demo"], arguments].concat())
}

#[test]
fn a_broken_server_is_fenced_and_its_node_has_a_fault() {
    let demo = Demo::start();
    demo.ok(&["break", "s3"]);
    demo.told("You did it: s3 has crashed");
    demo.told("The cluster reports s3 as Offline; if it stays so for 30 s");
    demo.told("the intent to switch s3 off is recorded");
    demo.told("The power-off of s3 is permitted.");
    demo.told("s3's BMC reads On.");
    demo.told("accepted the power-off");
    demo.told("s3's BMC reads Off.");
    demo.told("s3 is proven off by its power");
    demo.running.out_all(&[
        "audit: cluster.member.power_off of s3, success/powered_off",
        "audit: cluster.member.fenced of s3, success",
        "audit: maintenance.asserted of s3, success",
    ]);

    let entries = demo.get("/v1/nodes/s3/maintenance");
    let [fault] = entries["maintenance"].as_array().unwrap().as_slice() else { panic!("{entries}") };
    assert_eq!(
        (&fault["type"], &fault["extra"]["fault"]),
        (&"fault".into(), &"power failure".into()),
        "{fault}"
    );
    assert!(fault["extra"]["fence_record"].is_string(), "{fault}");
    let audit = demo.ask(&["audit", "list", "--action", "cluster.member.power_off"]);
    let sent = audit.as_array().unwrap().iter().filter(|row| row["outcome"] == "success").count();
    assert_eq!(sent, 1, "{audit}");

    demo.ok(&["heal", "s3"]);
    demo.running.out_all(&[
        "The cluster reports s3 as Online.",
        "s3 is back",
        "audit: maintenance.released of s3, success",
    ]);
    assert_eq!(demo.get("/v1/nodes/s3/maintenance")["maintenance"], Value::Array(Vec::new()));

    // As the introduction goes on. The cluster gave the vote of s3 to s4 meanwhile, and can do without both.
    demo.ok(&["break", "s3"]);
    demo.ok(&["break", "s4"]);
    demo.running.out_all(&["s3 is not switched off", "s4 is not switched off"]);
    demo.stop();
}

#[test]
fn half_of_the_cluster_is_never_switched_off_and_is_proven_off_when_its_power_is_gone() {
    let demo = Demo::start();
    demo.ok(&["break", "s2"]);
    // Whatever became of a server, its power can go on top of that.
    demo.ok(&["break", "s2", "--lose-power"]);
    demo.ok(&["break", "s4", "--lose-power"]);
    let refused = demo.told("is not switched off");
    assert!(refused.contains("Half or more of the members are Offline"), "{refused}");
    let mut proven = [demo.told("is proven off by its power"), demo.told("is proven off by its power")];
    proven.sort();
    assert!(proven[0] != proven[1], "{proven:?}");
    let audit = demo.ask(&["audit", "list", "--action", "cluster.member.power_off"]);
    assert!(audit.as_array().unwrap().iter().all(|row| row["outcome"] == "refused"), "{audit}");
    let fenced = demo.ask(&["audit", "list", "--action", "cluster.member.fenced"]);
    assert_eq!(fenced.as_array().unwrap().len(), 2, "{fenced}");
    demo.stop();
}

/// The session of the night: two of four are lost, nothing is switched off, a person confirms one, and the audit has it all.
#[test]
fn a_person_confirms_one_of_two_lost_servers_and_reads_what_became_of_it() {
    let demo = Demo::start();
    // What a server runs is read while it is well.
    let endpoint = [("APELORA_ENDPOINT", format!("http://{}", demo.at))];
    let endpoint = endpoint.each_ref().map(|(name, at)| (*name, at.as_str()));
    until(|| run(demo.temporary.path(), &endpoint, &["member", "show", "s2"]).out.contains("web2"));
    demo.ok(&["break", "s2"]);
    demo.ok(&["break", "s4"]);
    demo.running.out_all(&["s2 is not switched off", "s4 is not switched off"]);

    // The control plane is told a moment later.
    until(|| demo.say(&["fence", "explain", "s2"]).out.contains("\naction   watch\n"));
    let explained = demo.say(&["fence", "explain", "s2"]).out;
    let why = apelora_fencing::ReasonCode::NotMinority;
    assert!(explained.contains(why.as_str()) && explained.contains(why.remedy()), "{explained}");
    assert!(explained.contains("2 of 4"), "the numbers: {explained}");
    let list = demo.say(&["member", "list"]).out;
    assert_eq!(list.lines().filter(|line| line.contains("watch: not_minority")).count(), 2, "{list}");

    // Whoever says that it is off has made sure of it.
    demo.ok(&["break", "s2", "--lose-power"]);
    let confirm = [
        "member",
        "confirm-off",
        "s2",
        "--reason",
        "both cables pulled",
        "--yes",
        "s2",
        "--incarnation",
        "1",
    ];
    let confirmed = demo.say(&confirm);
    assert!(confirmed.err.contains("You are about to say that s2 is off"), "{confirmed:?}");
    demo.running.out_all(&[
        "s2 is proven off by a person's word",
        "audit: cluster.member.confirmed_off of s2, success",
        "Instance web2 (project default) runs again on s",
        "Everything that s2 ran is taken care of: 1 restarted elsewhere",
        "audit: cluster.member.recovered of s2, success",
    ]);
    let shown = demo.say(&["member", "show", "s2"]).out;
    assert!(shown.contains("person") && shown.contains("web2"), "{shown}");
    assert_eq!(demo.ask(&["member", "show", "s4"])["member"]["fenced"], false);

    let audit = demo.ask(&["audit", "list"]);
    let rows = audit.as_array().unwrap();
    let of = |member: &str, action: &str| {
        rows.iter().filter(|row| row["member"] == member && row["action"] == action).collect::<Vec<_>>()
    };
    let word = of("s2", "cluster.member.confirmed_off");
    assert_eq!(word.len(), 1, "{audit}");
    assert!(word[0].to_string().contains("both cables pulled") && word[0]["user"] == "noauth", "{audit}");
    assert_eq!(of("s2", "cluster.member.fenced").len(), 1, "{audit}");
    assert_eq!(of("s2", "cluster.member.recovered").len(), 1, "{audit}");
    for member in ["s2", "s4"] {
        let acts = of(member, "cluster.member.power_off");
        assert!(!acts.is_empty() && acts.iter().all(|row| row["outcome"] == "refused"), "{audit}");
    }
    let csv = demo.say(&["audit", "list", "--member", "s2", "--format", "csv"]).out;
    assert!(csv.starts_with("seq,uuid,at") && csv.contains("cluster.member.recovered"), "{csv}");
    demo.stop();
}

#[test]
fn what_was_done_is_told_and_what_cannot_be_done_is_refused() {
    let demo = Demo::start();
    assert!(demo.refused(&["break", "s9"]).contains("its servers are s1, s2, s3, s4"));
    assert!(demo.refused(&["heal", "s1"]).contains("s1 is not broken"));
    demo.ok(&["hang", "s1"]);
    demo.told("You did it: s1 is frozen");
    assert!(
        demo.refused(&["cut", "s1"]).contains("s1 is frozen already; `apelora demo heal s1` brings it back")
    );
    // One that comes back within the grace is left alone.
    demo.told("The cluster reports s1 as Offline");
    demo.ok(&["heal", "s1"]);
    demo.told("The cluster reports s1 as Online.");

    let port = demo.at.rsplit(':').next().unwrap();
    demo.ok(&["cut", "s2", "--demo", port]);
    demo.told("You did it: s2 is cut off");
    assert!(demo.refused(&["heal", "s2", "--demo", "1"]).contains("no demo serves its API at port 1"));
    demo.ok(&["heal", "s2"]);
    let audit = demo.ask(&["audit", "list"]);
    let acts = audit.as_array().unwrap().iter().filter(|row| row["action"] == "cluster.member.power_off");
    assert_eq!(acts.count(), 0, "{audit}");
    demo.stop();
}

#[test]
fn the_worker_of_a_demo_shows_its_settings_and_no_password() {
    let demo = Demo::start();
    // The leader tells of itself after its first pass.
    let settings = loop {
        let settings = demo.ask(&["settings", "show"]);
        if settings["worker"].as_array().is_some_and(|told| !told.is_empty()) {
            break settings.to_string();
        }
    };
    for words in ["APELORA_BMC_SECRET_S3", "APELORA_BMC_MAP", "demo.db", "APELORA_LISTEN"] {
        assert!(settings.contains(words), "{words} in {settings}");
    }
    let map = std::fs::read_dir(demo.temporary.path())
        .unwrap()
        .map(|entry| entry.unwrap().path().join("cluster/bmc-map.json"))
        .find(|path| path.exists())
        .unwrap();
    let map = std::fs::read_to_string(map).unwrap();
    assert!(map.contains("\"redfish\"") && map.contains("\"ipmi\""), "{map}");
    demo.stop();
}

#[test]
fn without_a_demo_nothing_can_be_broken() {
    let here = folder();
    for verb in ["break", "hang", "cut", "heal"] {
        let done = ordered(here.path(), &[verb, "s3"]);
        assert_eq!((done.code, done.out.as_str()), (1, ""), "{done:?}");
        assert!(done.err.contains("no demo is running; start one"), "{done:?}");
    }
    assert_eq!(ordered(here.path(), &["break", "s3", "--demo", "x"]).code, 2);
    assert_eq!(ordered(here.path(), &["hang", "s3", "--lose-power"]).code, 2);
    assert_eq!(ordered(here.path(), &["break"]).code, 2);
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
}

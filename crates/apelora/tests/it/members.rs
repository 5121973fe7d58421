//! Commands about members, the audit trail and settings, against a real `apelora server` on a database that a worker has
//! written to.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::name::HolderId;
use apelora_fencing::status::{
    CheckStatus, InstanceStatus, MapCondition, MapStatus, MappedStatus, MemberStatus, PassStatus, Status,
};
use apelora_fencing::view::{Healing, Status as Word};
use apelora_fencing::world::{LeaseFacts, MemberFacts, ViewFacts};
use apelora_fencing::write::{Check, Found, Observation, Seen};
use apelora_fencing::{BootTime, Clock, Limits, MemberName, World, Write, decide};
use apelora_store::{DatabaseUrl, Leader, LeaderConfig, Store, StoreConfig};
use serde_json::{Value, json};

use crate::command::{apelora, run_with_input};
use crate::nodes::Served;
use crate::terminal::{shown, terminal, widest};

/// A server, and the worker that leads on its database.
struct Night {
    served: Served,
    leader: Leader,
    runtime: tokio::runtime::Runtime,
}

struct Frozen;

impl Clock for Frozen {
    fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_secs(1_000))
    }
}

/// Two of five members are lost, and reported so `age` ago.
fn report(age: Duration) -> Status {
    let facts = |name: &str, word: &str| MemberFacts {
        offline_for: (word == "Offline").then_some(Duration::from_secs(65)),
        second_view_agrees: true,
        mapped: name != "s3",
        ever_online: true,
        ..MemberFacts::new(MemberName::from(name), Some(Word::from_word(word)))
    };
    let world = World {
        fence_after: Duration::from_secs(30),
        view: ViewFacts {
            readable: true,
            responder_online: true,
            leader_online: true,
            healing: Healing::Off,
        },
        lease: LeaseFacts { held: true, remaining: Duration::from_secs(25) },
        mapping_valid: true,
        open: None,
        history_gap: None,
        failure_domain_rule: false,
        single_view: false,
        members: vec![
            facts("s1", "Online"),
            facts("s2", "Offline"),
            facts("s3", "Offline"),
            facts("s4", "Online"),
            facts("s5", "Online"),
        ],
    };
    let mut members = MemberStatus::of(&decide(&world, &Limits::PRODUCTION));
    members[1].check = Some(CheckStatus {
        age_ms: 90_000,
        reason: Some("bmc_unreachable".to_owned()),
        detail: "no route".to_owned(),
    });
    members[1].instances = vec![InstanceStatus {
        project: "default".to_owned(),
        name: "mail".to_owned(),
        plan: "restart".to_owned(),
        target: Some("s4".into()),
        sentence: "It restarts on s4.".to_owned(),
    }];
    let mapped = ["s1", "s2", "s4", "s5"].map(|member| MappedStatus {
        member: member.into(),
        provider: "redfish".to_owned(),
        target: format!("https://{member}.bmc"),
        uuid: None,
        secrets: vec![format!("APELORA_BMC_SECRET_{}", member.to_uppercase())],
    });
    Status {
        worker: "w1".to_owned(),
        dry_run: false,
        pass: Some(PassStatus {
            age_ms: u64::try_from(age.as_millis()).unwrap(),
            responder: Some("s1".into()),
            second: Some("s4".into()),
            problem: None,
            world,
        }),
        in_progress: None,
        map: MapStatus {
            condition: MapCondition::Valid,
            sha256: None,
            problem: None,
            warnings: vec!["s9: the cluster lists no such member\u{1b}[2J".to_owned()],
            members: mapped.to_vec(),
        },
        members,
        settings: Vec::new(),
    }
}

impl Night {
    fn begin() -> Self {
        let served = Served::start(&[]);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap();
        let url = format!("sqlite://{}", served.here.path().join("apelora.db").display());
        let leader = runtime.block_on(async {
            let store = Store::connect(&StoreConfig::new(DatabaseUrl::parse(&url).unwrap())).await.unwrap();
            let config = LeaderConfig::new(Limits::PRODUCTION, "w1");
            #[expect(clippy::disallowed_methods, reason = "an id for a test")]
            let me = HolderId(uuid::Uuid::new_v4());
            store.campaign(&config, me, Arc::new(Frozen)).await.unwrap().unwrap()
        });
        let night = Self { served, leader, runtime };
        night.see(&["s1", "s2", "s3", "s4", "s5"], &Seen::Online(Vec::new()));
        night.see(&["s2", "s3"], &Seen::Away);
        night.report(Duration::from_secs(1));
        night
    }

    fn write(&self, write: Write) {
        self.runtime.block_on(self.leader.commit(write)).result.unwrap();
    }

    fn see(&self, members: &[&str], seen: &Seen) {
        let seen = members
            .iter()
            .map(|m| Observation { member: MemberName::from(*m), seen: seen.clone() })
            .collect();
        self.write(Write::Observed(seen));
    }

    fn report(&self, age: Duration) {
        let text = serde_json::to_string(&report(age)).unwrap();
        self.runtime.block_on(self.leader.publish(&text)).unwrap();
    }

    fn member(&self, name: &str) -> Value {
        self.served.ok(&["member", "show", name, "--format", "json"]).json()["member"].clone()
    }
}

/// The line of a table that begins with this.
fn line<'a>(text: &'a str, begin: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("no {begin:?} in {text}"))
}

#[test]
fn members_are_listed_shown_and_explained() {
    let night = Night::begin();
    let served = &night.served;
    let list = served.ok(&["member", "list"]).out;
    assert!(list.starts_with("Worker w1 leads (epoch 1); its last pass was "), "{list}");
    let s2 = line(&list, "s2 ");
    for part in ["Offline", " no ", "intent", "redfish", "bmc_unreachable, ", "1 restart"] {
        assert!(s2.contains(part), "{part} in {s2}");
    }
    let s3 = line(&list, "s3 ");
    assert!(s3.contains("refuse: not_mapped"), "{s3}");
    assert!(line(&list, "BMC map: ").contains(r"s9: the cluster lists no such member\u{1b}[2J"), "{list}");
    let json = served.ok(&["member", "list", "--format", "json"]).json();
    assert_eq!((&json["members"][1]["name"], &json["leader"]["current"]), (&json!("s2"), &json!(true)));

    let shown = served.ok(&["member", "show", "s2"]).out;
    for part in [
        "\nincarnation  1\n",
        "\nBMC          redfish at https://s2.bmc (no UUID; APELORA_BMC_SECRET_S2)\n",
        "\nGuards\n",
        "\nInstances\n",
        "no route",
    ] {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    assert_eq!(shown.lines().filter(|line| line.starts_with("yes  ")).count(), 20, "{shown}");

    let explained = served.ok(&["fence", "explain", "s3"]).out;
    let remedy = apelora_fencing::ReasonCode::NotMapped.remedy();
    assert!(explained.contains("\naction   refuse\n") && explained.contains(remedy), "{explained}");
    let mapping = line(&explained, "NO   mapping ");
    assert!(mapping.ends_with(apelora_fencing::ReasonCode::NotMapped.sentence()), "{mapping}");
    // What was judged goes back in.
    let world = served.ok(&["fence", "explain", "s3", "--world"]).out;
    let again = run_with_input(served.here.path(), &["fence", "replay"], &world);
    assert_eq!((again.code, again.err.as_str()), (0, ""), "{again:?}");
    assert!(again.out.contains("not_mapped"), "{again:?}");

    assert!(served.refused(&["member", "show", "s9"]).contains("Member s9 could not be found. (HTTP 404)"));
    assert!(served.refused(&["fence", "explain", "s9"]).contains("(HTTP 404)"));
}

#[test]
fn on_a_terminal_what_was_found_goes_on_below_itself_and_is_not_cut() {
    let night = Night::begin();
    let environment = [("APELORA_ENDPOINT", night.served.url.as_str())];
    let remedy = apelora_fencing::ReasonCode::NotMapped.remedy();
    for command in [["member", "show", "s3"], ["fence", "explain", "s3"]] {
        let text = shown(90, apelora(night.served.here.path(), &environment, &command));
        assert!(widest(&text) <= 90, "{text}");
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(remedy), "{text}");
    }
}

#[test]
fn an_old_report_is_shown_as_what_it_is() {
    let night = Night::begin();
    night.report(Duration::from_secs(240));
    let list = night.served.ok(&["member", "list"]).out;
    assert!(list.starts_with("A worker leads (epoch 1), and its last pass was 4 min ago"), "{list}");
    let s2 = line(&list, "s2 ");
    assert!(
        s2.contains("? (was Offline 4 min ago)") && s2.contains("not known (was intent 4 min ago)"),
        "{s2}"
    );
    let json = night.served.ok(&["member", "list", "--format", "json"]).json();
    assert_eq!((&json["leader"]["current"], &json["members"][1]["status"]), (&json!(false), &Value::Null));
}

#[test]
fn without_a_worker_there_is_nothing_to_show() {
    let served = Served::start(&[]);
    let list = served.ok(&["member", "list"]).out;
    assert!(list.contains("No worker has ever led"), "{list}");
    assert_eq!(served.ok(&["audit", "list", "--format", "json"]).json(), json!([]));
    assert_eq!(served.ok(&["audit", "list", "--format", "jsonl"]).out, "");
}

#[test]
fn a_persons_word_repeats_the_name() {
    let night = Night::begin();
    let served = &night.served;
    let confirm = |arguments: &[&str]| {
        served.run(&[&["member", "confirm-off", "s2", "--reason", "both cables pulled"], arguments].concat())
    };
    // Without a terminal the name must be repeated, and be the same.
    for (arguments, words) in
        [(&[][..], "--yes s2"), (&["--yes", "s3"], "--yes s3"), (&["--yes", "S2"], "--yes S2")]
    {
        let done = confirm(arguments);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{done:?}");
        assert!(done.err.contains(words), "{done:?}");
    }
    let online = served.run(&["member", "confirm-off", "s1", "--reason", "r", "--yes", "s1"]);
    assert_eq!(online.code, 1, "{online:?}");
    assert!(online.err.contains("seen_online") && online.err.contains("(HTTP 409)"), "{online:?}");
    let other = confirm(&["--yes", "s2", "--incarnation", "5"]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.err.contains("back_online"), "{other:?}");
    let empty = served.run(&["member", "confirm-off", "s2", "--reason", " ", "--yes", "s2"]);
    assert_eq!(empty.code, 1, "{empty:?}");
    assert_eq!(night.member("s2")["fenced"], false);

    let done = confirm(&["--yes", "s2", "--format", "json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["proof"], "person");
    // What was asserted stands on the standard error.
    for part in [
        "You are about to say that s2 is off",
        "incarnation     1",
        "bmc_unreachable",
        "1 restart",
        "no node is named s2",
    ] {
        assert!(done.err.contains(part), "{part} in {}", done.err);
    }
    assert_eq!(night.member("s2")["proof"]["kind"], "person");
    assert!(line(&served.ok(&["member", "list"]).out, "s2 ").contains("person, "));
}

#[test]
fn a_person_at_a_terminal_types_the_name() {
    let night = Night::begin();
    let served = &night.served;
    for (typed, code) in [("\n", 1), ("y\n", 1), ("yes\n", 1), ("s22\n", 1), ("\u{4}", 1), ("s2\n", 0)] {
        let (mut person, command) = terminal(100);
        let arguments = ["member", "confirm-off", "s2", "--reason", "seen dark"];
        let environment = [("APELORA_ENDPOINT", served.url.as_str())];
        let mut child = apelora(served.here.path(), &environment, &arguments).stdin(command).spawn().unwrap();
        let mut asked = String::new();
        let mut err = child.stderr.take().unwrap();
        while !asked.ends_with("confirm: ") {
            let mut byte = [0];
            err.read_exact(&mut byte).unwrap_or_else(|_| panic!("nobody was asked: {asked}"));
            asked.push(char::from(byte[0]));
        }
        assert!(asked.contains("last Online"), "{asked}");
        person.write_all(typed.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{typed:?}");
        assert_eq!(night.member("s2")["fenced"], code == 0, "{typed:?}");
    }
}

#[test]
fn a_distrusted_bmc_is_trusted_again() {
    let night = Night::begin();
    let served = &night.served;
    let found = |found| night.write(Write::Checked(vec![Check { member: "s1".into(), found }]));
    let trust = ["bmc", "trust", "s1", "--reason", "cables were swapped"];
    found(Found::Contradiction);
    assert!(line(&served.ok(&["member", "list"]).out, "s1 ").contains("distrusted"));
    assert!(served.refused(&trust).contains("stays distrusted"));
    found(Found::Good);
    assert_eq!(served.ok(&trust).out, "The BMC of s1 is trusted again.\n");
    assert!(!line(&served.ok(&["member", "list"]).out, "s1 ").contains("distrusted"));
    let again = served.ok(&[&trust[..], &["--format", "json"]].concat()).json();
    assert_eq!(again, json!({"member": "s1", "was_distrusted": false}));
}

#[test]
fn the_trail_is_read_whole_in_every_form() {
    let served = Served::start(&[]);
    // More than one page.
    let rows: Vec<String> = (0..2_500)
        .map(|row| {
            format!(
                "('u{row}', '2026-01-01 00:00:00.000000', 'somebody', '', 'system', 'cluster.member.fenced', 'success', 's{}', \
                 'row {row}{}', '{{}}')",
                row % 2,
                if row % 100 == 0 { "\r\nand, \"more\" \u{1b}[2J" } else { "" }
            )
        })
        .collect();
    let columns = "uuid, at, \"user\", project, scope, action, outcome, member, summary, evidence";
    sql(&served, &format!("INSERT INTO apelora_audit ({columns}) VALUES {}", rows.join(", ")));

    let json = served.ok(&["audit", "list", "--format", "json"]).json();
    let json = json.as_array().unwrap();
    assert_eq!(json.len(), 2_500);
    let lines = served.ok(&["audit", "list", "--format", "jsonl"]).out;
    let read: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, *json);
    let csv = served.ok(&["audit", "list", "--format", "csv"]).out;
    assert_eq!(csv.matches("seq,uuid,at").count(), 1, "one line of headings");
    assert_eq!(csv.matches(",somebody,").count(), 2_500);
    let table = served.ok(&["audit", "list"]).out;
    assert_eq!(table.lines().count(), 2_501);
    assert!(!table.contains('\u{1b}'));

    for (arguments, wanted) in [
        (&["--limit", "1200"][..], 1_200),
        (&["--limit", "7"], 7),
        (&["--member", "s1"], 1_250),
        (&["--member", "s1", "--limit", "1001"], 1_001),
        (&["--actor", "nobody"], 0),
        (&["--outcome", "failed"], 0),
        (&["--until", "2026-01-01"], 0),
    ] {
        let of = |format: &str| served.ok(&[&["audit", "list", "--format", format], arguments].concat()).out;
        let json: Value = serde_json::from_str(&of("json")).unwrap();
        assert_eq!(json.as_array().unwrap().len(), wanted, "{arguments:?}");
        assert_eq!(of("jsonl").lines().count(), wanted, "{arguments:?}");
        assert_eq!(of("csv").matches(",somebody,").count(), wanted, "{arguments:?}");
    }
    let newest = served.ok(&["audit", "list", "--newest-first", "--limit", "1", "--format", "json"]).json();
    assert_eq!(newest[0]["summary"], "row 2499");
    assert!(served.refused(&["audit", "list", "--from", "yesterday"]).contains("from"));
}

fn sql(served: &Served, statement: &str) {
    use sqlx::Connection as _;
    let url = format!("sqlite://{}", served.here.path().join("apelora.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    });
}

#[test]
fn settings_are_shown_with_their_source() {
    let night = Night::begin();
    let shown = night.served.ok(&["settings", "show"]).out;
    let listen = line(&shown, "APELORA_LISTEN ");
    assert!(listen.contains("127.0.0.1:0") && listen.ends_with("flag"), "{listen}");
    assert!(line(&shown, "APELORA_DATABASE_URL ").ends_with("default"), "{shown}");
    assert!(line(&shown, "s2 ").contains("APELORA_BMC_SECRET_S2"), "{shown}");
    let json = night.served.ok(&["settings", "show", "--format", "json"]).json();
    assert_eq!(json["map"]["condition"], "valid");
}

#[test]
fn names_of_every_kind_are_asked_for_as_they_are() {
    let night = Night::begin();
    for name in ["a/b", "s 1", "é", "%2F", "\u{1b}[2J", "-s1"] {
        let refused = night.served.run(&["member", "show", "--", name]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(!refused.err.trim_end().chars().any(char::is_control), "{refused:?}");
    }
    for name in ["", ".", ".."] {
        assert_eq!(night.served.run(&["member", "show", name]).code, 2, "{name:?}");
    }
}

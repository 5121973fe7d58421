//! Members of the cluster over HTTP: what is shown of them, and a person's words about them.

use std::time::Duration;

use apelora_fencing::status::{GuardStatus, MapCondition, Status};
use apelora_fencing::write::{Found, Seen};
use apelora_fencing::{Limits, ReasonCode, World, decide};
use serde_json::{Value, json};

use crate::client;
use crate::lab::{Lab, engines};
use crate::night::{Night, WORKER, report};

const MEMBERS: &str = "/apelora/v1/members";

/// Three members, of which s2 is Offline.
const ONE_OF_THREE: [(&str, &str); 3] = [("s1", "Online"), ("s2", "Offline"), ("s3", "Online")];

async fn night(lab: &Lab) -> Night {
    let night = Night::begin(&lab.store).await;
    night.see(&["s1", "s2", "s3"], &Seen::Online(Vec::new())).await;
    night.see(&["s2"], &Seen::Away).await;
    night.publish(&report(&ONE_OF_THREE)).await;
    night
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list["members"].as_array().unwrap().iter().find(|member| member["name"] == name).unwrap()
}

fn confirm(incarnation: u64) -> Value {
    json!({"member": "s2", "incarnation": incarnation, "reason": "both power cables pulled"})
}

#[tokio::test]
async fn a_list_says_what_is_known_of_each_member() {
    for (engine, lab) in engines().await {
        let _night = night(&lab).await;
        let list = lab.get(MEMBERS).await;
        let leader = &list["leader"];
        assert_eq!(
            (&leader["state"], &leader["current"]),
            (&json!("leading"), &json!(true)),
            "{engine} {leader}"
        );
        assert_eq!((&leader["worker"], &leader["epoch"]), (&json!(WORKER), &json!(1)), "{leader}");
        assert!(leader["sentence"].as_str().unwrap().starts_with("Worker w1 leads (epoch 1)"), "{leader}");
        assert_eq!(list["map"]["condition"], "valid");
        assert_eq!(list["members"].as_array().unwrap().len(), 3);
        let s2 = named(&list, "s2");
        assert_eq!((&s2["status"], &s2["action"]), (&json!("Offline"), &json!("intent")), "{s2}");
        assert_eq!((&s2["incarnation"], &s2["online"]), (&json!(1), &json!(false)), "{s2}");
        assert_eq!((&s2["fenced"], &s2["proof"]), (&json!(false), &Value::Null), "{s2}");
        assert_eq!(s2["provider"], "redfish");
        assert_eq!((&s2["check"]["good"], &s2["check"]["detail"]), (&json!(true), &json!("On")), "{s2}");
        assert_eq!(s2["instances"], json!({"restart": 1, "move": 0, "stay": 0}));
        let s1 = named(&list, "s1");
        assert_eq!(s1["last_judged"]["reasons"], json!(["not_offline"]), "{s1}");
        assert_eq!(s1["online"], true);
    }
}

#[tokio::test]
async fn what_is_old_is_never_shown_as_current() {
    for (engine, lab) in engines().await {
        let list = lab.get(MEMBERS).await;
        assert_eq!((&list["leader"]["state"], &list["members"]), (&json!("none"), &json!([])), "{engine}");
        assert!(list["leader"]["sentence"].as_str().unwrap().contains("No worker has ever led"), "{list}");

        let night = Night::begin(&lab.store).await;
        let sentence = lab.get(MEMBERS).await["leader"]["sentence"].clone();
        assert!(sentence.as_str().unwrap().contains("has not reported yet"), "{sentence}");

        night.lose(&["s2"]).await;
        night.publish(&report(&ONE_OF_THREE)).await;
        for (shift, current) in [(10, true), (20, false)] {
            lab.store.shift_clock(Duration::from_secs(shift));
            let list = lab.get(MEMBERS).await;
            assert_eq!(list["leader"]["current"], current, "{engine} {shift} {list}");
            let s2 = named(&list, "s2");
            let word = if current { json!("Offline") } else { Value::Null };
            assert_eq!(s2["status"], word, "{engine} {s2}");
            assert_eq!(s2["action"].is_null(), !current, "{engine} {s2}");
            // What was known last, with its age.
            assert_eq!(s2["last_judged"]["status"], "Offline", "{engine} {s2}");
            assert!(
                s2["last_judged"]["age_secs"].as_f64().unwrap() >= if current { 11.0 } else { 31.0 },
                "{engine} {s2}"
            );
            assert_eq!(s2["incarnation"], 1, "{engine}: what is stored stays known");
        }
        lab.store.shift_clock(Duration::from_secs(600));
        let leader = lab.get(MEMBERS).await["leader"].clone();
        assert_eq!((&leader["state"], &leader["epoch"]), (&json!("none"), &Value::Null), "{engine} {leader}");
        assert!(leader["sentence"].as_str().unwrap().contains("what is shown is old"), "{leader}");
        // A person is shown it, too, and so is whoever scrapes.
        let detail = lab.get(&format!("{MEMBERS}/s2")).await;
        assert_eq!(
            (&detail["leader"]["sentence"], &detail["member"]["status"]),
            (&leader["sentence"], &Value::Null),
            "{engine}"
        );
        let figures = client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
        for line in ["apelora_cluster_leader 0", "apelora_cluster_members_unproven 0"] {
            assert!(figures.contains(&format!("{line}\n")), "{line} in {figures}");
        }
    }
}

#[tokio::test]
async fn a_leader_that_gives_up_is_told_apart_from_one_that_is_gone() {
    let lab = Lab::sqlite().await;
    let night = night(&lab).await;
    night.resign().await;
    let leader = lab.get(MEMBERS).await["leader"].clone();
    assert_eq!((&leader["state"], &leader["current"]), (&json!("none"), &json!(true)), "{leader}");
    assert!(leader["sentence"].as_str().unwrap().starts_with("No worker leads at the moment"), "{leader}");
    let next = Night::begin(&lab.store).await;
    let leader = lab.get(MEMBERS).await["leader"].clone();
    assert_eq!((&leader["epoch"], &leader["status_epoch"]), (&json!(2), &json!(1)), "{leader}");
    assert!(leader["sentence"].as_str().unwrap().contains("has not reported yet"), "{leader}");
    next.publish(&Status { dry_run: true, ..report(&ONE_OF_THREE) }).await;
    let leader = lab.get(MEMBERS).await["leader"].clone();
    assert_eq!(leader["dry_run"], true);
    assert!(leader["sentence"].as_str().unwrap().contains("--dry-run"), "{leader}");
}

#[tokio::test]
async fn a_member_is_shown_whole() {
    for (engine, lab) in engines().await {
        let uuid = lab.node("s2").await;
        let night = night(&lab).await;
        let record = night.refuse("s2", ReasonCode::BmcUnreachable).await;
        let detail = lab.get(&format!("{MEMBERS}/s2")).await;
        // As in the list, but for the ages.
        let listed = named(&lab.get(MEMBERS).await, "s2").clone();
        let fields = |member: &Value| member.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&detail["member"]), fields(&listed), "{engine}");
        for field in ["name", "status", "action", "incarnation", "fenced", "provider", "instances"] {
            assert_eq!(detail["member"][field], listed[field], "{engine} {field}");
        }
        assert_eq!(detail["node_uuid"], uuid, "{engine}");
        assert_eq!(detail["mapped"]["secrets"], json!(["APELORA_BMC_SECRET_X"]));
        assert_eq!(detail["guards"].as_array().unwrap().len(), 20, "{engine}: {detail}");
        assert!(detail["guards"].as_array().unwrap().iter().all(|guard| guard["holds"] == true), "{detail}");
        assert_eq!(detail["instances"][0]["name"], "vm-of-s2");
        let shown = &detail["records"][0];
        assert_eq!((&shown["id"], &shown["status"]), (&json!(record), &json!("refused")), "{engine} {shown}");
        assert_eq!(shown["reason"]["code"], "bmc_unreachable");
        assert_eq!(shown["reason"]["remedy"], ReasonCode::BmcUnreachable.remedy());
        let evidence = shown["evidence"].as_array().unwrap();
        let on = |seen: &Value| seen["kind"] == "power" && seen["outcome"] == "On";
        assert!(evidence.iter().any(on), "{engine} {shown}");
        assert_eq!(
            evidence.last().unwrap()["reason"]["sentence"],
            ReasonCode::BmcUnreachable.sentence(),
            "{shown}"
        );
        // The same by its id, and without evidence in the list.
        assert_eq!(lab.get(&format!("/apelora/v1/fence/records/{record}")).await, *shown, "{engine}");
        let listed = lab.get("/apelora/v1/fence/records?member=s2").await;
        assert_eq!(
            (&listed["records"][0]["id"], &listed["records"][0]["evidence"]),
            (&json!(record), &Value::Null)
        );
        assert_eq!(lab.get("/apelora/v1/fence/records?member=s1").await["records"], json!([]));
        // One that is in progress.
        let open = night.intend("s2").await.0.to_string();
        let s2 = lab.get(&format!("{MEMBERS}/s2")).await["member"].clone();
        assert_eq!(s2["in_progress"], json!({"id": open, "status": "intent"}), "{engine}");
        let listed = lab.get("/apelora/v1/fence/records?open=true").await;
        assert_eq!(listed["records"].as_array().unwrap().len(), 1);
        let first = lab.get("/apelora/v1/fence/records?limit=1").await;
        assert_eq!(first["records"][0]["id"], open, "{engine}: the newest first");
        let next = first["next"]
            .as_str()
            .unwrap()
            .strip_prefix(&format!("http://{}", lab.address))
            .unwrap()
            .to_owned();
        assert_eq!(lab.get(&next).await["records"][0]["id"], record, "{engine}");
    }
}

#[tokio::test]
async fn what_was_judged_can_be_judged_again() {
    let lab = Lab::sqlite().await;
    let _night = night(&lab).await;
    let explained = lab.get(&format!("{MEMBERS}/s2/explain")).await;
    let world: World = serde_json::from_value(explained["world"].clone()).unwrap();
    let verdict = decide(&world, &Limits::PRODUCTION);
    let verdict = verdict.verdict(&"s2".into()).unwrap();
    assert_eq!(explained["judged"]["sentence"], verdict.sentence());
    assert_eq!(explained["judged"]["action"], verdict.action.as_str());
    let guards = explained["guards"].as_array().unwrap();
    for (guard, finding) in guards.iter().zip(&verdict.findings) {
        assert_eq!(
            (&guard["guard"], &guard["sentence"]),
            (&json!(finding.guard.as_str()), &json!(finding.to_string()))
        );
    }
}

#[tokio::test]
async fn every_reason_has_its_sentence_and_its_remedy() {
    let lab = Lab::sqlite().await;
    let night = Night::begin(&lab.store).await;
    let names: Vec<String> = ReasonCode::ALL.iter().map(|reason| format!("m-{}", reason.as_str())).collect();
    let members: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "Offline")).collect();
    let mut told = report(&members);
    for (reason, member) in ReasonCode::ALL.iter().zip(&mut told.members) {
        member.guards = vec![GuardStatus {
            guard: "any".to_owned(),
            reason: Some(reason.as_str().to_owned()),
            sentence: reason.sentence().to_owned(),
            remedy: Some(reason.remedy().to_owned()),
        }];
        member.check.as_mut().unwrap().reason = Some(reason.as_str().to_owned());
    }
    // One of a newer worker.
    told.members[0].check.as_mut().unwrap().reason = Some("of_tomorrow".to_owned());
    night.publish(&told).await;
    for (reason, name) in ReasonCode::ALL.iter().zip(&names) {
        let explained = lab.get(&format!("{MEMBERS}/{name}/explain")).await;
        let guard = &explained["guards"][0];
        assert_eq!(guard["reason"], reason.as_str());
        assert_eq!(
            (&guard["sentence"], &guard["remedy"]),
            (&json!(reason.sentence()), &json!(reason.remedy()))
        );
        assert_eq!(explained["judged"]["reasons"], json!([reason.as_str()]));
    }
    for member in lab.get(MEMBERS).await["members"].as_array().unwrap() {
        let reason = &member["check"]["reason"];
        match reason["code"].as_str().unwrap().parse::<ReasonCode>() {
            Ok(known) => assert_eq!(
                (&reason["sentence"], &reason["remedy"]),
                (&json!(known.sentence()), &json!(known.remedy()))
            ),
            Err(_) => assert_eq!(*reason, json!({"code": "of_tomorrow", "sentence": null, "remedy": null})),
        }
    }
}

#[tokio::test]
async fn a_report_of_another_version_is_read_as_far_as_it_goes() {
    let lab = Lab::sqlite().await;
    let night = Night::begin(&lab.store).await;
    let mut text = serde_json::to_value(report(&ONE_OF_THREE)).unwrap();
    text["of_tomorrow"] = json!({"a": 1});
    text["pass"]["world"]["of_tomorrow"] = json!(true);
    night.publish_text(&text.to_string()).await;
    let list = lab.get(MEMBERS).await;
    assert_eq!(named(&list, "s2")["status"], "Offline", "{list}");
    assert_eq!(lab.get(&format!("{MEMBERS}/s2/explain")).await["world"]["of_tomorrow"], true);
    // What cannot be read at all is said, and nothing is made up.
    for broken in ["{}", "not JSON", "[]"] {
        night.publish_text(broken).await;
        let list = lab.get(MEMBERS).await;
        assert_eq!((&list["leader"]["current"], &list["map"]), (&json!(false), &Value::Null), "{list}");
        assert!(list["leader"]["sentence"].as_str().unwrap().contains("cannot be read"), "{list}");
        lab.get("/apelora/v1/settings").await;
        client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200);
    }
}

#[tokio::test]
async fn a_persons_word_is_taken_once_it_is_whole() {
    for (engine, lab) in engines().await {
        let night = night(&lab).await;
        let path = format!("{MEMBERS}/s2/confirm-off");
        for (body, words) in [
            (json!(null), "must be a JSON object"),
            (json!([]), "must be a JSON object"),
            (json!({}), "Missing mandatory parameter: member"),
            (json!({"member": 7}), "Expected a string for member"),
            (json!({"member": "s3", "incarnation": 1, "reason": "r"}), "names member s3"),
            (json!({"member": "S2", "incarnation": 1, "reason": "r"}), "names member S2"),
            (json!({"member": "s2", "reason": "r"}), "Missing mandatory parameter: incarnation"),
            (json!({"member": "s2", "incarnation": "1", "reason": "r"}), "a whole number"),
            (json!({"member": "s2", "incarnation": -1, "reason": "r"}), "a whole number"),
            (json!({"member": "s2", "incarnation": 1.5, "reason": "r"}), "a whole number"),
            (json!({"member": "s2", "incarnation": u64::MAX, "reason": "r"}), "a whole number"),
            (json!({"member": "s2", "incarnation": 1}), "Missing mandatory parameter: reason"),
            (json!({"member": "s2", "incarnation": 1, "reason": null}), "Expected a string for reason"),
            (json!({"member": "s2", "incarnation": 1, "reason": " \n"}), "say how you know"),
            (json!({"member": "s2", "incarnation": 1, "reason": "\u{200b}\u{202e}."}), "say how you know"),
            (json!({"member": "s".repeat(256), "incarnation": 1, "reason": "r"}), "has 1 to 255 characters"),
            (json!({"member": "s2", "incarnation": 1, "reason": "r".repeat(4_097)}), "at most 4096"),
            (json!({"member": "s2", "incarnation": 1, "reason": "a\0b"}), "U+0000"),
            (
                json!({"member": "s2", "incarnation": 1, "reason": "r", "force": true}),
                "Unexpected field in the body: force",
            ),
        ] {
            let fault = lab.call("POST", &path, Some(body.clone())).await.expect(400).fault();
            assert!(fault.contains(words), "{engine} {body}: {fault}");
        }
        lab.call("POST", &format!("{path}?force=1"), Some(confirm(1))).await.expect(400);
        lab.call("POST", &path, None).await.expect(400);

        // Another life than the one that was shown, and one that was just seen.
        let fault = lab.call("POST", &path, Some(confirm(7))).await.expect(409).fault();
        assert!(fault.starts_with("back_online: ") && fault.contains("incarnation 7"), "{engine} {fault}");
        let online = json!({"member": "s1", "incarnation": 1, "reason": "r"});
        let fault =
            lab.call("POST", &format!("{MEMBERS}/s1/confirm-off"), Some(online)).await.expect(409).fault();
        assert!(fault.starts_with("seen_online: "), "{engine} {fault}");
        assert!(fault.contains(ReasonCode::SeenOnline.remedy()), "{fault}");
        let unknown = json!({"member": "s9", "incarnation": 0, "reason": "r"});
        lab.call("POST", &format!("{MEMBERS}/s9/confirm-off"), Some(unknown)).await.expect(404);
        assert_eq!(
            lab.get("/apelora/v1/audit?member=s2&action=cluster.member.confirmed_off").await["audit"],
            json!([])
        );

        let taken = lab.call("POST", &path, Some(confirm(1))).await.expect(200).json();
        assert_eq!((&taken["proof"], &taken["incarnation"]), (&json!("person"), &json!(1)), "{engine}");
        assert!(taken["warnings"][0].as_str().unwrap().contains("no node is named s2"), "{engine} {taken}");
        let detail = lab.get(&format!("{MEMBERS}/s2")).await;
        assert_eq!(
            (&detail["member"]["fenced"], &detail["member"]["proof"]["kind"]),
            (&json!(true), &json!("person"))
        );
        assert_eq!(detail["proofs"][0]["kind"], "person", "{engine} {detail}");
        let rows = lab.get("/apelora/v1/audit?member=s2&action=cluster.member.confirmed_off").await;
        let row = &rows["audit"][0];
        assert_eq!((&row["user"], &row["scope"]), (&json!("noauth"), &json!("system")), "{engine} {row}");
        assert!(row.to_string().contains("both power cables pulled"), "{engine} {row}");
        let figures = client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
        for line in [
            "apelora_cluster_members_fenced 1",
            "apelora_cluster_members_unproven 0",
            "apelora_cluster_leader 1",
        ] {
            assert!(figures.contains(&format!("{line}\n")), "{engine} {line} in {figures}");
        }
        // It comes back: the proof is over, and the word of that life does not apply any more.
        night.see(&["s2"], &Seen::Online(Vec::new())).await;
        night.see(&["s2"], &Seen::Away).await;
        assert_eq!(named(&lab.get(MEMBERS).await, "s2")["fenced"], false, "{engine}");
        let fault = lab.call("POST", &path, Some(confirm(1))).await.expect(409).fault();
        assert!(fault.starts_with("back_online: "), "{engine} {fault}");
        lab.call("POST", &path, Some(confirm(2))).await.expect(200);
    }
}

#[tokio::test]
async fn a_word_comes_from_a_program_and_means_one_thing() {
    const JSON: (&str, &str) = ("Content-Type", "application/json");
    let lab = Lab::sqlite().await;
    let lab_address = lab.address;
    let night = night(&lab).await;
    night.checked("s1", Found::Contradiction).await;
    night.checked("s1", Found::Good).await;
    for (path, word) in [
        (format!("{MEMBERS}/s2/confirm-off"), confirm(1).to_string()),
        (format!("{MEMBERS}/s1/trust"), json!({"reason": "r"}).to_string()),
    ] {
        let send = |headers: Vec<(&'static str, &'static str)>, body: String| {
            let path = path.clone();
            async move { client::send(lab_address, "POST", &path, &headers, Some(body.as_bytes())).await }
        };
        // What a form or a script of any page makes a browser send without a question.
        for kind in [
            "text/plain",
            "text/plain;application/json",
            "multipart/form-data",
            "application/x-www-form-urlencoded",
        ] {
            let fault = send(vec![("Content-Type", kind)], word.clone()).await.expect(415).fault();
            assert!(fault.contains("application/json"), "{kind}: {fault}");
        }
        send(vec![], word.clone()).await.expect(415);
        // And what it sends for a page whose name was made to lead to this address.
        send(vec![JSON, ("Origin", "http://elsewhere.example:6385")], word.clone()).await.expect(403);
        let twice = word.replacen('{', r#"{"reason": "another", "#, 1);
        let fault = send(vec![JSON], twice).await.expect(400).fault();
        assert!(fault.contains("reason stands there twice"), "{fault}");
    }
    assert_eq!(lab.get("/apelora/v1/audit?action=cluster.member.confirmed_off").await["audit"], json!([]));
    assert_eq!(named(&lab.get(MEMBERS).await, "s1")["distrusted"], true);
    let path = format!("{MEMBERS}/s2/confirm-off");
    let kind = [("Content-Type", "Application/JSON; charset=utf-8")];
    client::send(lab.address, "POST", &path, &kind, Some(confirm(1).to_string().as_bytes()))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_word_counts_while_no_worker_leads() {
    let lab = Lab::sqlite().await;
    let first = night(&lab).await;
    first.resign().await;
    lab.store.shift_clock(Duration::from_secs(3_600));
    lab.call("POST", &format!("{MEMBERS}/s2/confirm-off"), Some(confirm(1))).await.expect(200);
    let _next = Night::begin(&lab.store).await;
    assert_eq!(named(&lab.get(MEMBERS).await, "s2")["fenced"], true);
}

#[tokio::test]
async fn a_distrusted_bmc_is_trusted_again_by_a_person_when_it_stopped_contradicting() {
    for (engine, lab) in engines().await {
        let night = night(&lab).await;
        let path = format!("{MEMBERS}/s1/trust");
        for (body, words) in [
            (json!({}), "Missing mandatory parameter: reason"),
            (json!({"reason": ""}), "say how you know"),
            (json!({"reason": "r", "member": "s1"}), "Unexpected field"),
        ] {
            let fault = lab.call("POST", &path, Some(body)).await.expect(400).fault();
            assert!(fault.contains(words), "{engine} {fault}");
        }
        let body = || Some(json!({"reason": "cables were swapped"}));
        lab.call("POST", &format!("{MEMBERS}/s9/trust"), body()).await.expect(404);
        night.checked("s1", Found::Contradiction).await;
        assert_eq!(named(&lab.get(MEMBERS).await, "s1")["distrusted"], true, "{engine}");
        let figures = client::send(lab.address, "GET", "/metrics", &[], None).await.expect(200).body;
        assert!(figures.contains("apelora_cluster_members_distrusted 1\n"), "{engine}");
        let fault = lab.call("POST", &path, body()).await.expect(409).fault();
        assert!(fault.contains("stays distrusted"), "{engine} {fault}");
        assert_eq!(named(&lab.get(MEMBERS).await, "s1")["distrusted"], true, "{engine}");
        night.checked("s1", Found::Good).await;
        let done = lab.call("POST", &path, body()).await.expect(200).json();
        assert_eq!(done, json!({"member": "s1", "was_distrusted": true}), "{engine}");
        assert_eq!(named(&lab.get(MEMBERS).await, "s1")["distrusted"], false, "{engine}");
        let rows = lab.get("/apelora/v1/audit?action=cluster.bmc.trusted").await;
        assert_eq!(rows["audit"][0]["user"], "noauth", "{engine} {rows}");
        assert!(rows["audit"][0].to_string().contains("cables were swapped"), "{engine} {rows}");
    }
}

#[tokio::test]
async fn names_of_every_kind_reach_their_member_or_none() {
    let lab = Lab::sqlite().await;
    let night = Night::begin(&lab.store).await;
    let long = "n".repeat(255);
    let odd = ["a/b", "..", "s 1", "s%1", "é", "s1.json", "\u{202e}x", "explain", "a\"b", long.as_str()];
    night.lose(&odd).await;
    for name in odd {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let detail = lab.get(&format!("{MEMBERS}/{encoded}")).await;
        assert_eq!(detail["member"]["name"], name);
        let body = json!({"member": name, "incarnation": 1, "reason": "r"});
        lab.call("POST", &format!("{MEMBERS}/{encoded}/confirm-off"), Some(body)).await.expect(200);
        let body = json!({"reason": "r"});
        lab.call("POST", &format!("{MEMBERS}/{encoded}/trust"), Some(body)).await.expect(200);
    }
    assert_eq!(lab.get(MEMBERS).await["members"].as_array().unwrap().len(), odd.len());
    let too_long = format!("{MEMBERS}/{}", "n".repeat(256));
    for (path, status) in [
        ("/apelora/v1/members/%00", 400),
        ("/apelora/v1/members/a%0D%0Ab", 400),
        ("/apelora/v1/members/%1B%5B2J/explain", 400),
        (too_long.as_str(), 400),
        ("/apelora/v1/members/nope", 404),
        ("/apelora/v1/members/A%2FB", 404),
        ("/apelora/v1/members/%FF", 404),
        ("/apelora/v1/members//", 404),
        ("/apelora/v1/members/s1/nope", 404),
        ("/apelora/v1/members?x=1", 400),
        ("/apelora/v1/fence/records/nope", 404),
        ("/apelora/v1/fence/records/00000000-0000-4000-8000-000000000001", 404),
        ("/apelora/v1/fence/records?member=%07", 400),
        ("/apelora/v1/fence/records?marker=x", 400),
        ("/apelora/v1/fence/records?limit=0", 400),
        ("/apelora/v1/settings?x=1", 400),
    ] {
        let answer = lab.call("GET", path, None).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(!answer.body.contains('\u{1b}'), "{path}");
    }
    for (method, path) in
        [("POST", MEMBERS), ("DELETE", "/apelora/v1/audit"), ("PUT", "/apelora/v1/settings")]
    {
        let answer = lab.call(method, path, None).await.expect(405);
        assert_eq!(answer.header("allow"), Some("GET"), "{method} {path}");
    }
    let answer = lab.call("GET", "/apelora/v1/members/s1/confirm-off", None).await.expect(405);
    assert_eq!(answer.header("allow"), Some("POST"));
}

#[tokio::test]
async fn settings_are_shown_with_their_source_and_without_secrets() {
    let mut set = |config: &mut apelora_server::ServerConfig| {
        config.settings = vec![apelora_fencing::status::SettingStatus {
            name: "APELORA_LISTEN".to_owned(),
            value: "127.0.0.1:0".to_owned(),
            source: "flag".to_owned(),
        }];
    };
    let lab = Lab::configured(&mut set).await;
    let shown = lab.get("/apelora/v1/settings").await;
    assert_eq!((&shown["worker"], &shown["map"]), (&json!([]), &Value::Null), "{shown}");
    let night = night(&lab).await;
    let shown = lab.get("/apelora/v1/settings").await;
    assert_eq!(
        shown["server"],
        json!([{"name": "APELORA_LISTEN", "value": "127.0.0.1:0", "source": "flag"}])
    );
    assert_eq!(shown["worker"][0]["name"], "APELORA_BMC_FENCE_AFTER_SECS");
    assert_eq!(shown["map_entries"][1]["secrets"], json!(["APELORA_BMC_SECRET_X"]));
    let mut told = report(&ONE_OF_THREE);
    told.map.condition = MapCondition::Invalid;
    told.map.problem = Some("s2: address: is also that of s1".to_owned());
    told.map.members.clear();
    night.publish(&told).await;
    let shown = lab.get("/apelora/v1/settings").await;
    assert_eq!(shown["map"]["condition"], "invalid");
    assert_eq!(
        (&shown["map"]["problem"], &shown["map_entries"]),
        (&json!("s2: address: is also that of s1"), &json!([]))
    );
}

//! The course of one record.

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::proof::{PowerWord, Reported, SendAnswer};
use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::supervisor::Settings;
use apelora_fencing::write::CommitError;

use super::rig::{Rig, power, trouble};
use crate::data::lab_map;

/// A rig of three in which `m000` has just failed, with a BMC that answers by the number of readings since the send.
pub(super) fn failed(mut by_send: impl FnMut(usize, Option<usize>) -> PowerWord + 'static) -> Rig {
    let mut rig = Rig::new(3);
    rig.set(0, "Offline");
    let mut before = 0;
    rig.answers = Some(Box::new(move |rig, member, n| {
        let sends = rig.times("send").len();
        if sends == 0 {
            before = n + 1;
        }
        (0, power(member, by_send(n, (sends > 0).then(|| n - before))))
    }));
    rig
}

pub(super) fn on_until_sent(n: usize) -> impl FnMut(usize, Option<usize>) -> PowerWord {
    move |_, since| if since.is_some_and(|s| s >= n) { PowerWord::Off } else { PowerWord::On }
}

#[test]
fn the_order_of_a_switch_off() {
    let mut rig = failed(on_until_sent(0));
    rig.run(45_000);
    let kinds: Vec<_> = rig.calls.iter().map(|c| c.what).collect();
    let from = kinds.iter().position(|k| *k == "intent").unwrap();
    let read_backs = ["read"; 5];
    let mut expected = vec!["intent", "open", "look", "permit", "read", "send"];
    expected.extend(read_backs);
    expected.push("final");
    let seen: Vec<_> =
        kinds[from..].iter().copied().filter(|k| !["renew"].contains(k)).take(expected.len()).collect();
    assert_eq!(seen, expected);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
    assert!(rig.is_fenced(0));
    let sent = rig.times("send")[0];
    let proven = rig.times("final")[0];
    assert_eq!(proven - sent, 1_000, "two Off readings a second apart");
}

#[test]
fn the_pace_and_the_end_of_a_read_back() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.run(120_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::NeverOff, true)]);
    let sent = rig.times("send")[0];
    let reads: Vec<_> = rig.times("read").into_iter().filter(|t| *t >= sent).map(|t| t - sent).collect();
    // The first of them is the reading before the send.
    let reads = &reads[1..];
    assert_eq!(reads[..9], [0, 250, 500, 750, 1_000, 1_250, 1_500, 1_750, 2_000]);
    assert!(reads[9..].windows(2).all(|w| w[1] - w[0] == 1_000), "{reads:?}");
    assert_eq!((reads[9], *reads.last().unwrap()), (3_000, 59_000));
    assert_eq!(rig.times("send").len(), 1);
    assert!(!rig.is_fenced(0));
}

#[test]
fn already_off_sends_nothing_and_takes_ten_seconds() {
    let mut rig = failed(|_, _| PowerWord::Off);
    rig.run(60_000);
    assert_eq!(rig.ends(), [("success", ReasonCode::AlreadyOff, false)]);
    assert!(rig.times("send").is_empty());
    let reads = rig.times("read");
    assert_eq!(rig.times("final")[0] - reads[0], 10_000);
    assert_eq!(rig.store.records[0].send_at, None, "an already-off proof does not count for the loop guard");
}

#[test]
fn an_on_between_two_offs_counts_from_the_start() {
    // Off at 0, On at 250 ms, Off from 500 ms on.
    let mut rig = failed(|_, since| match since {
        None | Some(1) => PowerWord::On,
        Some(_) => PowerWord::Off,
    });
    rig.run(60_000);
    assert_eq!(rig.times("final")[0] - rig.times("send")[0], 1_500);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
}

#[test]
fn off_and_on_again_is_came_back_on() {
    let mut rig = failed(|_, since| if since == Some(0) { PowerWord::Off } else { PowerWord::On });
    rig.run(120_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::CameBackOn, true)]);
}

#[test]
fn every_word_but_off_is_not_off() {
    for word in [PowerWord::PoweringOff, PowerWord::PoweringOn, PowerWord::Paused, PowerWord::Unknown] {
        let mut rig = failed(move |_, since| if since.is_some() { word } else { PowerWord::On });
        rig.run(120_000);
        assert_eq!(rig.ends()[0].0, "failed", "{word:?}");
    }
    for word in [PowerWord::PoweringOff, PowerWord::PoweringOn, PowerWord::Paused] {
        let mut rig = failed(move |_, since| if since.is_some() { PowerWord::Off } else { word });
        rig.run(60_000);
        assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)], "{word:?} still runs");
    }
    let mut rig = failed(|_, _| PowerWord::Unknown);
    rig.run(60_000);
    assert_eq!(rig.ends(), [("refused", ReasonCode::PowerStateUnknown, false)]);
}

#[test]
fn a_second_request_only_after_silence_and_on_under_the_same_permit() {
    let posts = |send: SendAnswer, slow: u64| {
        let mut rig = failed(|_, _| PowerWord::On);
        rig.send = send;
        rig.answers = Some(Box::new(move |rig, member, _| {
            let after_send = !rig.times("send").is_empty();
            (if after_send { slow } else { 0 }, power(member, PowerWord::On))
        }));
        rig.run(60_000);
        rig.times("send").len()
    };
    assert_eq!(posts(SendAnswer::Accepted, 0), 1);
    assert_eq!(posts(SendAnswer::Declined, 0), 1);
    assert_eq!(posts(SendAnswer::Unanswered, 0), 2);
    assert_eq!(posts(SendAnswer::Unanswered, 4_999), 2);
    assert_eq!(posts(SendAnswer::Unanswered, 5_000), 1, "the permit has ended");
}

#[test]
fn what_the_bmc_says_to_the_request() {
    let end = |send: SendAnswer, off: bool| {
        let mut rig =
            failed(move |_, since| if off && since.is_some() { PowerWord::Off } else { PowerWord::On });
        rig.send = send;
        rig.run(120_000);
        rig.ends()[0]
    };
    assert_eq!(end(SendAnswer::Declined, true), ("success", ReasonCode::PoweredOff, true));
    assert_eq!(end(SendAnswer::Declined, false), ("failed", ReasonCode::ResetRejected, true));
    assert_eq!(end(SendAnswer::Accepted, false), ("failed", ReasonCode::NeverOff, true));
    let rejected = SendAnswer::Rejected(ReasonCode::Credential);
    assert_eq!(end(rejected, true), ("failed", ReasonCode::Credential, true));
    let not_sent = SendAnswer::NotSent(ReasonCode::PermitExpired);
    assert_eq!(end(not_sent, true), ("refused", ReasonCode::PermitExpired, false));
}

#[test]
fn a_permit_that_ends_before_the_reading_does_sends_nothing() {
    for (slow, sends) in [(4_999, 1), (5_000, 0)] {
        let mut rig = failed(|_, _| PowerWord::On);
        rig.answers = Some(Box::new(move |rig, member, _| {
            (if rig.times("send").is_empty() { slow } else { 0 }, power(member, PowerWord::On))
        }));
        rig.run(45_000);
        assert_eq!(rig.times("send").len(), sends, "{slow}");
        if sends == 0 {
            assert_eq!(rig.ends(), [("refused", ReasonCode::PermitExpired, false)]);
        }
    }
}

/// A pass between the permit and the send sees the permit in the database: it is not an earlier power-off.
#[test]
fn the_own_permit_does_not_speak_against_the_own_send() {
    for (interval, slow) in [(1, 1_500), (1, 4_000), (2, 2_500), (5, 4_500)] {
        let mut rig = failed(on_until_sent(0)).limited(|l| l.pass_interval = Duration::from_secs(interval));
        rig.answers = Some(Box::new(move |rig, member, _| {
            let sent = !rig.times("send").is_empty();
            let word = if sent { PowerWord::Off } else { PowerWord::On };
            (if sent { 0 } else { slow }, power(member, word))
        }));
        rig.run(90_000);
        assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)], "{interval} {slow}");
    }
}

#[test]
fn another_server_is_refused_and_left_alone() {
    for (reason, pause) in [
        (ReasonCode::UuidMismatch, 30_000),
        (ReasonCode::BmcUnreachable, 30_000),
        (ReasonCode::Credential, 60_000),
        (ReasonCode::IpmiAuth, 60_000),
    ] {
        let mut rig = failed(|_, _| PowerWord::On);
        rig.answers = Some(Box::new(move |_, _, _| {
            let stranger = RawIdentity::LabName("apelora-other".into());
            let result = if reason == ReasonCode::UuidMismatch {
                Ok(Reported { identity: stranger, power: PowerWord::Off, detail: String::new() })
            } else {
                trouble(reason, false)
            };
            (0, result)
        }));
        rig.run(200_000);
        assert_eq!(rig.ends()[0], ("refused", reason, false));
        assert!(rig.times("send").is_empty() && !rig.is_fenced(0));
        let ends = rig.times("final");
        let again = rig.times("intent")[1] - ends[0];
        assert!((pause..pause + 5_000).contains(&again), "{reason}: again after {again}");
    }
}

#[test]
fn another_server_after_the_send_is_an_alarm() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.answers = Some(Box::new(|rig, member, _| {
        let changed = !rig.times("send").is_empty();
        let name = if changed { "apelora-other".into() } else { format!("apelora-{member}") };
        let power = if changed { PowerWord::Off } else { PowerWord::On };
        (0, Ok(Reported { identity: RawIdentity::LabName(name), power, detail: String::new() }))
    }));
    rig.run(60_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::UuidChanged, true)]);
}

#[test]
fn a_bmc_that_dies_after_the_send_proves_nothing() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.answers = Some(Box::new(|rig, member, _| {
        let result = if rig.times("send").is_empty() {
            power(member, PowerWord::On)
        } else {
            trouble(ReasonCode::BmcUnreachable, true)
        };
        (0, result)
    }));
    rig.run(120_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::ReadbackTimeout, true)]);
}

#[test]
fn a_starting_bmc_is_tried_again_within_the_permit() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.answers = Some(Box::new(|rig, member, n| {
        let off = !rig.times("send").is_empty();
        (
            0,
            if n < 2 {
                trouble(ReasonCode::HttpStatus, true)
            } else {
                power(member, if off { PowerWord::Off } else { PowerWord::On })
            },
        )
    }));
    rig.run(60_000);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
}

#[test]
fn seen_online_before_the_send_refuses_and_after_it_proves_nothing() {
    // The reading takes four seconds, and a pass every two sees the return before the permit would have been used.
    let mut rig = failed(|_, _| PowerWord::On).limited(|l| l.pass_interval = Duration::from_secs(2));
    rig.answers = Some(Box::new(|_, member, _| (4_000, power(member, PowerWord::On))));
    rig.run(30_500);
    assert_eq!(rig.times("intent").len(), 1);
    rig.set(0, "Online");
    rig.run(60_000);
    assert!(rig.times("send").is_empty());
    assert_eq!(rig.ends(), [("refused", ReasonCode::BackOnline, false)]);

    let mut rig =
        failed(|_, since| if since.is_some_and(|s| s > 15) { PowerWord::Off } else { PowerWord::On });
    rig.run(31_000);
    assert_eq!(rig.times("send").len(), 1);
    rig.set(0, "Online");
    rig.run(36_000);
    rig.set(0, "Offline");
    rig.run(60_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::BackOnline, true)]);
    assert!(!rig.is_fenced(0));
    assert_eq!(rig.store.members[&rig.names[0]].incarnation.0, 2);
}

#[test]
fn seen_online_while_the_request_is_on_its_way_is_recorded_as_sent() {
    let mut rig = failed(on_until_sent(0)).limited(|l| l.pass_interval = Duration::from_secs(2));
    rig.send_takes = 8_000;
    rig.run(32_500);
    assert_eq!(rig.times("send").len(), 1);
    rig.set(0, "Online");
    rig.run(60_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::BackOnline, true)]);
    assert!(!rig.is_fenced(0));
}

#[test]
fn a_proof_that_the_store_learns_too_late_proves_nothing() {
    // The answer to the final commit is lost and it was not made; before it is made again, the member was Online and away.
    let mut rig = failed(on_until_sent(0));
    rig.fates.push_back(("final", CommitError::Unavailable, false));
    let name = rig.names[0].clone();
    let mut finals = 0;
    rig.before = Some(Box::new(move |store, kind| {
        finals += usize::from(kind == "final");
        if finals == 2 {
            store.members.get_mut(&name).unwrap().incarnation.0 = 2;
        }
    }));
    rig.run(45_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::BackOnline, true)]);
    assert!(!rig.is_fenced(0));
}

#[test]
fn what_was_seen_counts_even_if_it_could_not_be_stored() {
    // Seen Online after the send, and the database does not take that before the record ends.
    let mut rig =
        failed(|_, since| if since.is_some_and(|s| s > 15) { PowerWord::Off } else { PowerWord::On });
    rig.run(31_000);
    rig.set(0, "Online");
    (0..9).for_each(|_| rig.fates.push_back(("observed", CommitError::Unavailable, false)));
    rig.run(36_000);
    rig.set(0, "Offline");
    rig.run(60_000);
    assert_eq!(rig.ends(), [("failed", ReasonCode::BackOnline, true)]);
    assert!(!rig.is_fenced(0));
}

#[test]
fn a_failed_reading_between_two_offs_starts_the_count_again() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.answers = Some(Box::new(|rig, member, _| {
        let since = rig.times("send").first().map(|sent| rig.now - sent);
        let result = match since {
            None => power(member, PowerWord::On),
            Some(750) => trouble(ReasonCode::BmcUnreachable, true),
            Some(_) => power(member, PowerWord::Off),
        };
        (0, result)
    }));
    rig.run(60_000);
    assert_eq!(rig.times("final")[0] - rig.times("send")[0], 2_000, "Off again from 1 s on");
}

#[test]
fn the_permit_waits_for_a_look_after_the_opening() {
    let mut rig = failed(on_until_sent(0));
    rig.open_takes = 6_000;
    rig.run(60_000);
    // A pass at 35 s sees everything hold, but the conversation is open at 36 s only.
    assert_eq!((rig.times("intent")[0], rig.times("permit")[0]), (30_000, 36_000));
    assert!(rig.times("look").contains(&36_000));
}

#[test]
fn rows_that_were_read_before_the_own_write_ended_decide_nothing() {
    let mut rig = failed(on_until_sent(0));
    rig.look_takes = 4_000;
    rig.run(120_000);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
    assert!(rig.times("adopt").is_empty(), "the own record is not another leader's");
    assert_eq!(rig.times("intent").len(), 1);
}

#[test]
fn what_the_intent_excludes() {
    type Change = fn(&mut apelora_fencing::memory::MemoryStore, &apelora_fencing::MemberName);
    let changes: [Change; 4] = [
        |s, m| drop(s.confirm_off(Duration::ZERO, m, apelora_fencing::Incarnation(1))),
        |s, m| s.set_held(m, true),
        |s, m| s.members.get_mut(m).unwrap().online = true,
        |s, m| s.members.get_mut(m).unwrap().distrusted = true,
    ];
    for change in changes {
        let mut rig = failed(|_, _| PowerWord::On);
        let name = rig.names[0].clone();
        rig.before = Some(Box::new(move |store, kind| {
            if kind == "intent" {
                change(store, &name);
            }
        }));
        rig.run(31_000);
        assert_eq!(rig.times("intent").len(), 1);
        assert!(rig.store.records.is_empty() && rig.times("open").is_empty());
    }
}

#[test]
fn what_the_permit_excludes_for_the_last_time() {
    type Change = fn(&mut apelora_fencing::memory::MemoryStore, &apelora_fencing::MemberName);
    let changes: [(Change, ReasonCode); 4] = [
        (
            |s, m| drop(s.confirm_off(Duration::ZERO, m, apelora_fencing::Incarnation(1))),
            ReasonCode::PersonConfirmed,
        ),
        (|s, m| s.set_held(m, true), ReasonCode::Held),
        (|s, m| s.members.get_mut(m).unwrap().online = true, ReasonCode::BackOnline),
        (|s, m| s.members.get_mut(m).unwrap().distrusted = true, ReasonCode::Distrusted),
    ];
    for (change, reason) in changes {
        let mut rig = failed(|_, _| PowerWord::On);
        let name = rig.names[0].clone();
        rig.before = Some(Box::new(move |store, kind| {
            if kind == "permit" {
                change(store, &name);
            }
        }));
        rig.run(32_000);
        assert_eq!(rig.ends(), [("refused", reason, false)]);
        assert!(rig.times("send").is_empty());
        if reason == ReasonCode::PersonConfirmed {
            assert_eq!(rig.store.records[0].status, RecordStatus::Superseded);
        }
    }
}

#[test]
fn a_person_while_a_sent_power_off_is_read_changes_nothing_of_the_record() {
    let mut rig = failed(on_until_sent(20));
    rig.run(33_000);
    let name = rig.names[0].clone();
    let now = rig.db();
    rig.store.confirm_off(now, &name, apelora_fencing::Incarnation(1)).unwrap();
    assert!(rig.is_fenced(0));
    rig.run(90_000);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
    assert_eq!(rig.store.members[&name].proof.unwrap().kind, ProofKind::Person, "a person's word stays");
}

#[test]
fn an_edited_map_between_intent_and_permit_refuses() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.map_after_intent = Some(lab_map(&rig.names, 1));
    rig.run(32_000);
    assert_eq!(rig.ends(), [("refused", ReasonCode::MappingChanged, false)]);
    assert!(rig.times("permit").is_empty());
    rig.run(60_000);
    assert_eq!(rig.times("send").len(), 1, "decided again with the new map");
}

#[test]
fn a_lost_answer_is_read_back_before_anything_else() {
    for (kind, made, reason) in [
        ("intent", true, Some(ReasonCode::CommitUnknown)),
        ("intent", false, None),
        ("permit", true, Some(ReasonCode::CommitUnknown)),
        ("permit", false, Some(ReasonCode::CommitUnknown)),
        ("final", true, Some(ReasonCode::PoweredOff)),
        ("final", false, Some(ReasonCode::PoweredOff)),
    ] {
        let mut rig = failed(on_until_sent(0));
        rig.fates.push_back((kind, CommitError::Unknown, made));
        rig.run(34_000);
        let kinds: Vec<_> = rig.calls.iter().map(|c| c.what).collect();
        let at = kinds.iter().position(|k| *k == kind).unwrap();
        let next = kinds[at + 1..].iter().find(|k| !["look", "renew"].contains(*k)).unwrap();
        assert_eq!(*next, "read back", "{kind} made: {made}");
        assert_eq!(rig.ends().first().map(|e| e.1), reason, "{kind} made: {made}");
        if reason == Some(ReasonCode::CommitUnknown) {
            assert!(rig.times("send").is_empty(), "{kind}: nothing is sent under a lost permit");
        }
    }
}

#[test]
fn a_result_is_kept_while_the_database_is_away() {
    let mut rig = failed(on_until_sent(0));
    rig.run(30_500);
    assert_eq!(rig.times("send").len(), 1);
    rig.database = false;
    rig.run(40_000);
    assert!(!rig.is_fenced(0), "nobody is fenced meanwhile");
    rig.database = true;
    rig.run(50_000);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
    assert!(rig.is_fenced(0));
}

#[test]
fn a_dry_run_stops_before_the_permit() {
    let mut rig = Rig::with(3, Settings { allow_lab: true, dry_run: true, ..Settings::default() });
    rig.set(0, "Offline");
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.run(300_000);
    assert_eq!(rig.ends(), [("refused", ReasonCode::DryRun, false)]);
    assert!(rig.times("permit").is_empty() && rig.times("send").is_empty());
}

#[test]
fn the_loop_guard_holds_for_ten_minutes() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.run(1_400_000);
    let sends = rig.times("send");
    assert!(sends.len() >= 2, "{sends:?}");
    assert!(sends.windows(2).all(|w| w[1] - w[0] >= 600_000 && w[1] - w[0] < 610_000), "{sends:?}");
}

#[test]
fn one_member_at_a_time() {
    let mut rig = Rig::new(5);
    rig.set(0, "Offline");
    rig.set(1, "Offline");
    rig.answers = Some(Box::new(|rig, member, _| {
        let sent = rig.calls.iter().any(|c| c.what == "send" && c.member == member);
        (0, power(member, if sent { PowerWord::Off } else { PowerWord::On }))
    }));
    rig.run(60_000);
    let of = |what: &str| rig.calls.iter().filter(|c| c.what == what).map(|c| c.at).collect::<Vec<_>>();
    assert_eq!(of("send").len(), 2);
    assert!(of("intent")[1] >= of("final")[0], "the second waits for the first's final outcome");
}

//! The recorded guard decisions, complete sets of reasons.

use std::time::Duration;

use apelora_fencing::decide::{Action, decide};
use apelora_fencing::reason::ReasonCode;
use apelora_fencing::replay::Case;
use apelora_fencing::view::{Healing, Status};
use apelora_fencing::world::{BmcPause, MemberFacts, World};
use apelora_fencing::{Limits, MemberName};

#[derive(serde::Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

pub(crate) fn cases() -> Vec<Case> {
    let vectors: Vectors = serde_json::from_str(&crate::data::text("fencing/guard-vectors.json")).unwrap();
    vectors.cases
}

#[test]
fn contract_guard_vectors() {
    let cases = cases();
    for case in &cases {
        let name = case.name.as_deref().unwrap();
        let expect = case.expect.clone().unwrap();
        let (world, limits) = case.input.world().unwrap();
        let decision = decide(&world, &limits);
        let verdict = decision.verdict(&case.input.candidate).unwrap();
        let mut reasons: Vec<_> = verdict.reasons().into_iter().collect();
        reasons.sort_by_key(|r| r.as_str());
        assert_eq!(reasons, expect.reasons, "{name}");
        let action = if verdict.action == Action::Intent { "intent" } else { "refuse" };
        assert_eq!(action, expect.action, "{name}");
    }
    assert!(!cases.is_empty(), "no cases");
    println!("{} guard vectors", cases.len());
}

/// A world in which `s1` of three members may be switched off.
pub(crate) fn ripe() -> World {
    let case = cases().into_iter().find(|c| c.expect.as_ref().is_some_and(|e| e.action == "intent")).unwrap();
    case.input.world().unwrap().0
}

fn s1(world: &mut World) -> &mut MemberFacts {
    world.members.iter_mut().find(|m| m.name == MemberName::from("s1")).unwrap()
}

type Change = fn(&mut World);

/// The guards that the recorded cases do not know, one change each.
#[test]
fn guards_beyond_the_vectors() {
    let cases: [(&str, Change, &[ReasonCode]); 14] = [
        ("nothing", |_| {}, &[]),
        ("not mapped", |w| s1(w).mapped = false, &[ReasonCode::NotMapped]),
        ("lab", |w| s1(w).lab_refused = true, &[ReasonCode::LabNotAllowed]),
        ("distrusted", |w| s1(w).distrusted = true, &[ReasonCode::Distrusted]),
        ("healing on", |w| w.view.healing = Healing::On, &[ReasonCode::IncusHealingOn]),
        ("healing unknown", |w| w.view.healing = Healing::Unknown, &[ReasonCode::IncusHealingOn]),
        (
            "restored",
            |w| {
                w.history_gap = Some(Duration::from_millis(599_999));
            },
            &[ReasonCode::HistoryLost],
        ),
        ("restored long ago", |w| w.history_gap = Some(Duration::from_secs(600)), &[]),
        (
            "one endpoint attested",
            |w| {
                s1(w).second_view_agrees = false;
                w.single_view = true;
            },
            &[],
        ),
        (
            "one endpoint attested, database leader not Online",
            |w| {
                s1(w).second_view_agrees = false;
                w.single_view = true;
                w.view.leader_online = false;
            },
            &[ReasonCode::ViewDisagrees],
        ),
        (
            "BMC left alone",
            |w| {
                let left = Duration::from_millis(1);
                s1(w).bmc_pause = Some(BmcPause { reason: ReasonCode::BmcUnreachable, left });
            },
            &[ReasonCode::BmcUnreachable],
        ),
        (
            "no answer",
            |w| {
                w.view.readable = false;
                w.members.iter_mut().for_each(|m| m.status = None);
            },
            &[ReasonCode::ViewUnreadable],
        ),
        ("no series", |w| s1(w).offline_for = None, &[ReasonCode::OfflineTooShort]),
        (
            "failure domain, rule off",
            |w| {
                five_in_domains(w);
                w.failure_domain_rule = false;
            },
            &[],
        ),
    ];
    for (name, change, expected) in cases {
        let mut world = ripe();
        change(&mut world);
        let decision = decide(&world, &Limits::PRODUCTION);
        let verdict = decision.verdict(&"s1".into()).unwrap();
        assert_eq!(verdict.reasons().into_iter().collect::<Vec<_>>(), expected, "{name}");
        assert_eq!(decision.chosen.is_some(), expected.is_empty(), "{name}");
    }
}

/// Two of five in one domain, both Offline.
fn five_in_domains(world: &mut World) {
    world.failure_domain_rule = true;
    for (name, status) in [("s4", Status::Offline), ("s5", Status::Online)] {
        world.members.push(MemberFacts::new(name.into(), Some(status)));
    }
    for member in &mut world.members {
        let dead = ["s1", "s4"].contains(&member.name.as_str());
        member.failure_domain = Some(if dead { "rack-1" } else { "rack-2" }.into());
    }
}

#[test]
fn a_status_that_this_code_does_not_know_counts_as_offline() {
    let mut world = ripe();
    world.members[1].status = Some(Status::from_word("Fenced"));
    let decision = decide(&world, &Limits::PRODUCTION);
    assert_eq!(decision.verdict(&"s1".into()).unwrap().reasons(), [ReasonCode::NotMinority].into());
}

#[test]
fn a_domain_that_is_dead_as_a_whole_is_left_alone() {
    let mut world = ripe();
    five_in_domains(&mut world);
    let reasons = |w: &World| decide(w, &Limits::PRODUCTION).verdict(&"s1".into()).unwrap().reasons();
    assert_eq!(reasons(&world), [ReasonCode::FailureDomain].into());
    world.members[1].failure_domain = Some("rack-1".into());
    assert!(reasons(&world).is_empty(), "one of the domain lives");
}

#[test]
fn reading_is_allowed_where_only_the_danger_of_switching_off_refuses() {
    let action = |change: Change| {
        let mut world = ripe();
        change(&mut world);
        decide(&world, &Limits::PRODUCTION).verdict(&"s1".into()).unwrap().action
    };
    let watched: [Change; 5] = [
        |w| w.members[1].status = Some(Status::Offline),
        |w| w.open = Some("s2".into()),
        |w| s1(w).last_send = Some(Duration::from_secs(5)),
        |w| s1(w).held = true,
        five_in_domains,
    ];
    for (i, change) in watched.into_iter().enumerate() {
        assert_eq!(action(change), Action::Watch, "{i}");
    }
    let left_alone: [Change; 7] = [
        |w| s1(w).mapped = false,
        |w| s1(w).ever_online = false,
        |w| s1(w).own_host = true,
        |w| s1(w).distrusted = true,
        |w| w.lease.held = false,
        |w| w.open = Some("s1".into()),
        |w| {
            s1(w).held = true;
            s1(w).offline_for = Some(Duration::from_secs(29));
        },
    ];
    for (i, change) in left_alone.into_iter().enumerate() {
        assert_eq!(action(change), Action::Refuse, "{i}");
    }
}

#[test]
fn the_oldest_goes_first_then_by_name() {
    let mut world = ripe();
    five_in_domains(&mut world);
    world.failure_domain_rule = false;
    let ready = s1(&mut world).clone();
    for (name, offline_for) in [("s4", 40), ("s0", 40)] {
        world.members.retain(|m| m.name != MemberName::from(name));
        let name = name.into();
        world.members.push(MemberFacts {
            name,
            offline_for: Some(Duration::from_secs(offline_for)),
            ..ready.clone()
        });
    }
    world.members.push(MemberFacts::new("s6".into(), Some(Status::Online)));
    world.members.push(MemberFacts::new("s7".into(), Some(Status::Online)));
    let chosen = |w: &World| decide(w, &Limits::PRODUCTION).chosen().map(|v| v.member.to_string());
    assert_eq!(chosen(&world).as_deref(), Some("s0"));
    s1(&mut world).offline_for = Some(Duration::from_secs(41));
    assert_eq!(chosen(&world).as_deref(), Some("s1"));
}

#[test]
fn every_finding_says_its_numbers() {
    let mut world = ripe();
    s1(&mut world).offline_for = Some(Duration::from_millis(12_300));
    let decision = decide(&world, &Limits::PRODUCTION);
    let verdict = decision.verdict(&"s1".into()).unwrap();
    let all: Vec<_> = verdict.findings.iter().map(ToString::to_string).collect();
    assert!(all.iter().any(|s| s.contains("12.3 s") && s.contains("30.0 s")), "{all:#?}");
    assert!(all.iter().any(|s| s.contains("1 of 3 members")), "{all:#?}");
    assert!(all.iter().all(|s| s.ends_with('.')), "{all:#?}");
    assert!(verdict.sentence().contains("12.3 s"));
}

/// What a person reads at night: the numbers that a guard was judged on, and of a pause how long it still lasts.
#[test]
fn a_finding_tells_its_numbers() {
    let said = |change: Change| {
        let mut world = ripe();
        change(&mut world);
        let decision = decide(&world, &Limits::PRODUCTION);
        let verdict = decision.verdict(&MemberName::from("s1")).unwrap();
        verdict.findings.iter().find(|f| !f.holds()).unwrap().to_string()
    };
    let pause: Change = |w| {
        let left = Duration::from_millis(26_100);
        s1(w).bmc_pause = Some(BmcPause { reason: ReasonCode::BmcUnreachable, left });
    };
    let without_dot = |reason: ReasonCode| reason.sentence().trim_end_matches('.').to_owned();
    assert_eq!(said(pause), format!("{} (for 26.1 s more).", without_dot(ReasonCode::BmcUnreachable)));
    let young: Change = |w| s1(w).offline_for = Some(Duration::from_millis(12_300));
    let limit = ripe().fence_after.as_secs_f64();
    assert_eq!(
        said(young),
        format!("{} (12.3 s, the limit is {limit:.1} s).", without_dot(ReasonCode::OfflineTooShort))
    );
    let unseen: Change = |w| s1(w).offline_for = None;
    assert_eq!(
        said(unseen),
        format!("{} (never, the limit is {limit:.1} s).", without_dot(ReasonCode::OfflineTooShort))
    );
}

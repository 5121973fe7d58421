//! Readings without a record: watching, reading a proof once more, the idle drill.

use apelora_fencing::BootTime;
use apelora_fencing::lease::{HostRow, HostState, LeaseConfig, LeaseHost, LeaseReading, Observer};
use apelora_fencing::proof::PowerWord;
use apelora_fencing::record::ProofKind;
use apelora_fencing::supervisor::Settings;
use apelora_fencing::write::AuditAction;
use apelora_fencing::{MemberName, ReasonCode};

use super::rig::{Rig, power, trouble};

/// Half of the members are Offline, which forbids every send.
fn half_dead(members: usize, word: PowerWord) -> Rig {
    let mut rig = Rig::new(members);
    (0..members / 2).for_each(|m| rig.set(m, "Offline"));
    rig.answers = Some(Box::new(move |rig, member, _| {
        let offline =
            rig.names.iter().position(|n| n.as_str() == member).is_some_and(|m| m < rig.names.len() / 2);
        (0, power(member, if offline { word } else { PowerWord::On }))
    }));
    rig
}

fn reads_of(rig: &Rig, member: usize) -> Vec<u64> {
    let name = rig.names[member].as_str();
    rig.calls.iter().filter(|c| c.what == "read" && c.member == name).map(|c| c.at).collect()
}

#[test]
fn half_a_rack_without_power_is_proven_by_reading() {
    let mut rig = half_dead(6, PowerWord::Off);
    rig.run(120_000);
    for m in 0..3 {
        assert!(rig.is_fenced(m), "{m}");
        let watched: Vec<_> = reads_of(&rig, m).into_iter().filter(|t| *t >= 30_000).collect();
        assert_eq!(watched[1] - watched[0], 60_000, "two readings a minute apart");
    }
    assert!(rig.times("send").is_empty() && rig.times("intent").is_empty());
    let proofs = rig.times("proof");
    assert!(proofs.iter().all(|t| *t >= 90_000), "{proofs:?}");
}

#[test]
fn a_watched_member_that_runs_is_proven_nothing() {
    for word in [PowerWord::On, PowerWord::PoweringOff, PowerWord::Unknown] {
        let mut rig = half_dead(4, word);
        rig.run(400_000);
        assert!(!rig.is_fenced(0) && rig.times("send").is_empty(), "{word:?}");
    }
    // One failed reading in between starts the minute again.
    let mut rig = half_dead(2, PowerWord::Off);
    rig.answers = Some(Box::new(|rig, member, _| {
        let watched =
            rig.calls.iter().filter(|c| c.what == "read" && c.member == "m000" && c.at >= 30_000).count();
        (
            0,
            if watched == 2 {
                trouble(ReasonCode::BmcUnreachable, true)
            } else {
                power(member, PowerWord::Off)
            },
        )
    }));
    rig.run(200_000);
    assert!(!rig.is_fenced(0));
    rig.run(260_000);
    assert!(rig.is_fenced(0));
}

#[test]
fn at_most_eight_are_watched_at_once() {
    let mut rig = half_dead(40, PowerWord::Off);
    rig.answers = Some(Box::new(|_, member, _| (3_000, power(member, PowerWord::Off))));
    rig.run(200_000);
    let from = rig.times("observed")[0];
    let mut most = 0;
    for read in rig.calls.iter().filter(|c| c.what == "read" && c.at > from + 30_000) {
        let name: Vec<_> = rig.names[..20].iter().map(MemberName::as_str).collect();
        let together = rig.calls.iter().filter(|c| c.what == "read" && name.contains(&c.member.as_str()));
        most = most.max(together.filter(|c| c.at <= read.at && c.at + 3_000 > read.at).count());
    }
    assert_eq!(most, 8);
    assert!((0..20).all(|m| rig.is_fenced(m)));
}

#[test]
fn watching_delays_no_send() {
    // Two of five: the first is switched off, the second is watched meanwhile and then sent at once.
    let mut rig = Rig::new(5);
    rig.set(0, "Offline");
    rig.set(1, "Offline");
    rig.answers = Some(Box::new(|rig, member, _| {
        let sent = rig.calls.iter().any(|c| c.what == "send" && c.member == member);
        (0, power(member, if sent { PowerWord::Off } else { PowerWord::On }))
    }));
    rig.run(50_000);
    assert!(!reads_of(&rig, 1).is_empty());
    let first_end = rig.times("final")[0];
    assert!(rig.times("intent")[1] - first_end <= 5_000);
}

#[test]
fn a_locked_member_is_watched_and_never_sent() {
    let mut rig = Rig::new(3);
    rig.set(0, "Offline");
    let name = rig.names[0].clone();
    rig.store.set_held(&name, true);
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::Off))));
    rig.run(110_000);
    assert!(rig.is_fenced(0) && rig.times("intent").is_empty());
}

fn fenced_by_power() -> Rig {
    let mut rig = Rig::new(3);
    rig.set(0, "Offline");
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::Off))));
    rig.run(70_000);
    assert!(rig.is_fenced(0));
    rig.calls.clear();
    rig
}

#[test]
fn a_proof_of_an_earlier_leader_is_read_once_more() {
    let mut rig = fenced_by_power();
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    let name = rig.names[0].clone();
    rig.run(74_000);
    assert!(!rig.supervisor.may_recover(rig.boot(), &name), "not before the margin");
    rig.run(81_000);
    assert!(rig.supervisor.may_recover(rig.boot(), &name));
    assert!(!reads_of(&rig, 0).is_empty());

    let mut rig = fenced_by_power();
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.run(81_000);
    assert!(rig.audit.iter().any(|(_, r)| r.action == AuditAction::ProofWithdrawn));
    assert!(!rig.is_fenced(0) && !rig.supervisor.may_recover(rig.boot(), &rig.names[0].clone()));

    // A BMC that is gone by now says nothing against the proof.
    let mut rig = fenced_by_power();
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    rig.answers = Some(Box::new(|_, _, _| (0, trouble(ReasonCode::BmcUnreachable, true))));
    rig.run(81_000);
    assert!(rig.is_fenced(0) && rig.supervisor.may_recover(rig.boot(), &rig.names[0].clone()));
}

#[test]
fn a_contradicted_proof_stops_recovery_before_the_next_pass() {
    let mut rig = fenced_by_power();
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    let name = rig.names[0].clone();
    while rig.now < 90_000 {
        rig.run(rig.now + 10);
        assert!(!rig.supervisor.may_recover(rig.boot(), &name), "at {} ms", rig.now);
    }
    assert!(rig.audit.iter().any(|(_, r)| r.action == AuditAction::ProofWithdrawn));
}

#[test]
fn a_restart_may_begin_at_once_and_not_after_a_return() {
    let mut rig = Rig::new(3);
    rig.set(0, "Offline");
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::Off))));
    let name = rig.names[0].clone();
    while !rig.is_fenced(0) {
        assert!(rig.now < 120_000, "never fenced");
        assert!(!rig.supervisor.may_recover(rig.boot(), &name));
        rig.run(rig.now + 500);
    }
    rig.run(rig.now + 6_000);
    assert!(rig.supervisor.may_recover(rig.boot(), &name));
    rig.set(0, "Online");
    rig.run(rig.now + 6_000);
    assert!(!rig.supervisor.may_recover(rig.boot(), &name));
    rig.set(0, "Offline");
    rig.run(rig.now + 12_000);
    assert!(!rig.supervisor.may_recover(rig.boot(), &name), "the proof was about an earlier life");
    assert!(!rig.supervisor.may_recover(rig.boot(), &rig.names[1].clone()), "nobody proved anything");
}

#[test]
fn recovery_stops_when_the_cluster_is_not_seen() {
    let mut rig = fenced_by_power();
    rig.run(80_000);
    let name = rig.names[0].clone();
    assert!(rig.supervisor.may_recover(rig.boot(), &name));
    rig.view = Err(apelora_fencing::view::ViewError::Empty);
    rig.run(90_500);
    assert!(!rig.supervisor.may_recover(rig.boot(), &name));
}

#[test]
fn recovery_needs_a_pass_that_is_fresh_and_lists_the_member() {
    let mut rig = fenced_by_power();
    rig.run(81_000);
    let name = rig.names[0].clone();
    assert!(rig.supervisor.may_recover(rig.boot(), &name));
    rig.now += 10_000;
    assert!(!rig.supervisor.may_recover(rig.boot(), &name), "no pass for eleven seconds");

    let mut rig = fenced_by_power();
    rig.names.remove(0);
    rig.status.remove(0);
    rig.run(81_000);
    assert!(!rig.supervisor.may_recover(rig.boot(), &name), "removed from the cluster");
}

#[test]
fn recovery_needs_the_word_offline() {
    for (status, may) in [("Offline", true), ("Evacuated", false), ("Restoring", false), ("offline", false)] {
        let mut rig = fenced_by_power();
        rig.run(81_000);
        let name = rig.names[0].clone();
        rig.set(0, status);
        rig.run(86_000);
        assert_eq!(rig.supervisor.may_recover(rig.boot(), &name), may, "{status}");
    }
}

#[test]
fn a_return_that_could_not_be_stored_stops_recovery_all_the_same() {
    let mut rig = fenced_by_power();
    rig.run(81_000);
    let name = rig.names[0].clone();
    assert!(rig.supervisor.may_recover(rig.boot(), &name));
    rig.database = false;
    rig.set(0, "Online");
    rig.run(86_000);
    assert!(!rig.supervisor.may_recover(rig.boot(), &name), "seen alive, not stored");
    rig.set(0, "Offline");
    rig.run(88_000);
    rig.database = true;
    rig.run(91_000);
    assert!(rig.store.members[&name].online, "stored with the first pass that could");
    assert!(!rig.supervisor.may_recover(rig.boot(), &name), "stored, and the pass before it is overtaken");
}

#[test]
fn the_drill_reads_one_bmc_every_ten_seconds_and_all_within_a_quarter_of_an_hour() {
    let mut rig = Rig::drilling(3);
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.run(100_000);
    let reads = rig.times("read");
    assert!(reads.windows(2).all(|w| (10_000..15_000).contains(&(w[1] - w[0]))), "{reads:?}");
    assert!((0..3).all(|m| !reads_of(&rig, m).is_empty()));

    let mut rig = Rig::drilling(150);
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.run(930_000);
    let unread = (0..150).filter(|m| reads_of(&rig, *m).is_empty()).count();
    assert_eq!(unread, 0);
    assert!(rig.times("send").is_empty());
}

#[test]
fn only_news_of_the_drill_is_written() {
    let mut rig = Rig::drilling(3);
    rig.answers = Some(Box::new(|rig, member, _| {
        (
            0,
            if rig.now < 200_000 {
                power(member, PowerWord::On)
            } else {
                trouble(ReasonCode::Credential, false)
            },
        )
    }));
    rig.run(400_000);
    let checks = rig.audit.iter().filter(|(_, r)| r.action == AuditAction::BmcChecked).count();
    assert_eq!(checks, 6, "good and bad, once each for three members");
}

#[test]
fn a_bmc_that_says_off_of_an_online_member_is_distrusted_after_two_minutes() {
    let distrusted = |off_until: u64, away_at: Option<u64>| {
        let mut rig = Rig::drilling(3);
        rig.answers = Some(Box::new(move |rig, member, _| {
            let word = if member == "m000" && rig.now < off_until { PowerWord::Off } else { PowerWord::On };
            (0, power(member, word))
        }));
        if let Some(at) = away_at {
            rig.run(at);
            rig.set(0, "Evacuated");
            rig.run(at + 6_000);
            rig.set(0, "Online");
        }
        rig.run(200_000);
        let row = rig.audit.iter().find(|(_, r)| r.action == AuditAction::BmcDistrusted).map(|(at, _)| *at);
        assert_eq!(rig.store.members[&rig.names[0]].distrusted, row.is_some());
        row
    };
    let at = distrusted(u64::MAX, None).expect("distrust");
    assert!((130_000..160_000).contains(&at), "{at}");
    assert_eq!(distrusted(60_000, None), None, "a blip");
    // Between two readings of the drill, so that only the series tells.
    assert_eq!(distrusted(u64::MAX, Some(112_000)), None, "not Online all along");
}

/// What the drill of `m000` has written since this time, in order: whether it was a contradiction.
fn contradictions(rig: &Rig, from: u64) -> Vec<u64> {
    let rows = rig.audit.iter().filter(|(at, r)| *at >= from && r.action == AuditAction::BmcDistrusted);
    rows.map(|(at, _)| *at).collect()
}

/// What was written about `m000` since then that is not a contradiction.
fn other_findings(rig: &Rig, from: u64) -> usize {
    let of_it = |action| {
        let rows = rig.audit.iter();
        rows.filter(|(at, r)| *at >= from && r.action == action && r.member.as_str() == "m000").count()
    };
    of_it(AuditAction::BmcChecked) - of_it(AuditAction::BmcDistrusted)
}

#[test]
fn a_new_leader_does_not_call_a_contradiction_good() {
    let mut rig = Rig::drilling(3);
    rig.answers = Some(Box::new(|_, member, _| {
        (0, power(member, if member == "m000" { PowerWord::Off } else { PowerWord::On }))
    }));
    rig.run(200_000);
    assert_eq!((contradictions(&rig, 0).len(), other_findings(&rig, 0)), (1, 0));
    // Whatever the new leader reads first, a person could trust the mapping once it called that good.
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    rig.run(310_000);
    assert!(reads_of(&rig, 0).iter().filter(|at| **at > 200_000).count() > 2);
    assert_eq!((contradictions(&rig, 200_001).len(), other_findings(&rig, 0)), (0, 0));
    rig.run(400_000);
    assert_eq!((contradictions(&rig, 200_001).len(), other_findings(&rig, 0)), (1, 0));
}

#[test]
fn off_is_no_finding_while_the_cluster_cannot_be_read_and_good_once_the_member_is_away() {
    let mut rig = Rig::drilling(3);
    rig.answers = Some(Box::new(|_, member, _| {
        (0, power(member, if member == "m000" { PowerWord::Off } else { PowerWord::On }))
    }));
    rig.run(4_000);
    rig.view = Err(apelora_fencing::view::ViewError::Empty);
    rig.run(200_000);
    assert!(reads_of(&rig, 0).len() > 2);
    assert_eq!((contradictions(&rig, 0).len(), other_findings(&rig, 0)), (0, 0));
    rig.view = Ok(());
    rig.set(0, "Evacuated");
    rig.run(260_000);
    assert_eq!((contradictions(&rig, 0).len(), other_findings(&rig, 0)), (0, 1));
}

#[test]
fn a_contradiction_that_outlives_a_persons_trust_is_found_again() {
    // One that is read every ten seconds, and one that takes turns.
    for members in [1, 3] {
        let mut rig = Rig::drilling(members);
        rig.answers = Some(Box::new(|_, member, _| {
            (0, power(member, if member == "m000" { PowerWord::Off } else { PowerWord::On }))
        }));
        // Between two readings.
        rig.run(303_000);
        assert_eq!(contradictions(&rig, 0).len(), 1, "once, as long as it stands");
        let name = rig.names[0].clone();
        rig.store.members.get_mut(&name).unwrap().distrusted = false;
        rig.run(350_000);
        assert_eq!(contradictions(&rig, 303_001).len(), 1, "{:?}", reads_of(&rig, 0));
        assert!(rig.store.members[&name].distrusted);
        let reads = |m| reads_of(&rig, m).into_iter().filter(|at| *at > 200_000).count();
        assert!((0..members).all(|m| reads(m) >= 4), "it keeps nobody waiting");
    }
}

#[test]
fn the_latest_finding_is_written_when_the_database_answers_again() {
    let mut rig = Rig::drilling(3);
    rig.answers = Some(Box::new(|rig, member, _| {
        let well = rig.now < 60_000 || rig.now > 100_000;
        (0, if well { power(member, PowerWord::On) } else { trouble(ReasonCode::Credential, false) })
    }));
    rig.run(59_000);
    rig.database = false;
    rig.run(150_000);
    rig.database = true;
    rig.run(200_000);
    let last =
        rig.audit.iter().rfind(|(_, r)| r.action == AuditAction::BmcChecked && r.member == rig.names[0]);
    assert_eq!(last.unwrap().1.reason, None, "bad, and then good again");
}

#[test]
fn a_proof_by_watching_is_a_power_off_proof() {
    let mut rig = half_dead(2, PowerWord::Off);
    rig.run(120_000);
    assert_eq!(rig.store.members[&rig.names[0]].proof.unwrap().kind, ProofKind::PowerOff);
}

/// Three hosts in one lockspace; `m000` (host 1) renews until 20 s and is dead for its observer 141 s later.
fn leases(now: u64) -> Vec<LeaseReading> {
    let seconds = 10_000 + now / 1_000;
    let host = |id: u64| {
        let last_live = if id == 1 { seconds.min(10_020) } else { seconds };
        let unchanged = seconds - last_live;
        let state = match unchanged {
            0..=80 => HostState::Live,
            81..=140 => HostState::Fail,
            _ => HostState::Dead,
        };
        HostRow {
            host_id: id,
            state: Some(state),
            owner_id: id,
            generation: 1,
            timestamp: last_live,
            last_check: seconds,
            last_live,
            io_timeout: 10,
            owner_name: format!("host-{id}"),
        }
    };
    let observer = Observer {
        host_id: 2,
        monotime: seconds,
        io_timeout: 10,
        joined: true,
        space_dead: false,
        killing_pids: false,
        renew_fail: false,
        corrupt_result: 0,
        renewal_last_result: 1,
        renewal_last_success: seconds,
    };
    let hosts = vec![host(1), host(2), host(3)];
    vec![LeaseReading {
        lockspace: "vg".into(),
        read_at: BootTime::default(),
        daemon: "d".into(),
        observer,
        hosts,
    }]
}

#[test]
fn a_dead_lease_proves_with_an_attested_watchdog_and_not_without() {
    for watchdog in [true, false] {
        let host = LeaseHost { host_ids: [("vg".into(), 1)].into(), watchdog };
        let config = LeaseConfig { lockspaces: vec!["vg".into()], members: [("m000".into(), host)].into() };
        let mut rig = Rig::with(2, Settings { leases: config, ..Settings::default() });
        rig.leases = leases;
        rig.run(30_000);
        assert_eq!(
            rig.store.members[&rig.names[0]].leases.len(),
            1,
            "the lease is stored while the member is Online"
        );
        rig.set(0, "Offline");
        rig.run(180_000);
        assert!(!rig.is_fenced(0), "dead since 161 s, and twice a renewal apart");
        rig.run(200_000);
        assert_eq!(rig.is_fenced(0), watchdog);
        let kind = rig.store.members[&rig.names[0]].proof.map(|p| p.kind);
        assert_eq!(kind, watchdog.then_some(ProofKind::LeaseDead));
        // A lease that went on is a member that lives.
        assert!(rig.times("send").is_empty() && rig.times("read").is_empty());
    }
}

#[test]
fn a_lease_that_was_never_seen_alive_proves_nothing() {
    let host = LeaseHost { host_ids: [("vg".into(), 1)].into(), watchdog: true };
    let config = LeaseConfig { lockspaces: vec!["vg".into()], members: [("m000".into(), host)].into() };
    let mut rig = Rig::with(2, Settings { leases: config, ..Settings::default() });
    rig.set(0, "Offline");
    rig.run(200_000);
    rig.leases = leases;
    rig.run(300_000);
    assert!(!rig.is_fenced(0));
}

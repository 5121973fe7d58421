use super::*;

pub(super) fn row(id: u64, state: HostState, last_live: u64) -> HostRow {
    HostRow {
        host_id: id,
        state: Some(state),
        owner_id: id,
        generation: 3,
        timestamp: 500,
        last_check: 1_000,
        last_live,
        io_timeout: 10,
        owner_name: format!("host-{id}"),
    }
}

pub(super) fn reading(at: u64, dead: HostRow) -> LeaseReading {
    let shift = at;
    let mut hosts = vec![row(1, HostState::Live, 1_000), dead, row(3, HostState::Live, 1_000)];
    for host in &mut hosts {
        host.last_check += shift;
    }
    LeaseReading {
        lockspace: "vg".into(),
        read_at: BootTime::new(Duration::from_secs(at)),
        daemon: "d1".into(),
        observer: Observer {
            host_id: 1,
            monotime: 1_000 + shift,
            io_timeout: 10,
            joined: true,
            space_dead: false,
            killing_pids: false,
            renew_fail: false,
            corrupt_result: 0,
            renewal_last_result: 1,
            renewal_last_success: 1_000 + shift,
        },
        hosts,
    }
}

pub(super) fn config(watchdog: bool) -> LeaseConfig {
    let host = LeaseHost { host_ids: BTreeMap::from([("vg".into(), 2)]), watchdog };
    LeaseConfig { lockspaces: vec!["vg".into()], members: BTreeMap::from([("b".into(), host)]) }
}

pub(super) fn seen() -> Vec<LeaseSeen> {
    vec![LeaseSeen { lockspace: "vg".into(), host_id: 2, generation: 3, owner_name: "host-2".into() }]
}

fn judge(readings: Vec<LeaseReading>, config: &LeaseConfig, seen: &[LeaseSeen]) -> bool {
    let mut watch = LeaseWatch::default();
    readings.into_iter().for_each(|r| watch.see(vec![r]));
    watch.dead(config, &"b".into(), seen).is_some()
}

#[test]
fn two_fresh_readings_a_renewal_apart_with_a_watchdog() {
    let dead = || row(2, HostState::Dead, 859);
    assert!(judge(vec![reading(0, dead()), reading(20, dead())], &config(true), &seen()));
    assert!(!judge(vec![reading(0, dead()), reading(19, dead())], &config(true), &seen()), "too close");
    assert!(!judge(vec![reading(20, dead())], &config(true), &seen()), "one reading");
    assert!(!judge(vec![reading(0, dead()), reading(20, dead())], &config(false), &seen()), "no watchdog");
    assert!(!judge(vec![reading(0, dead()), reading(20, dead())], &config(true), &[]), "never seen alive");
}

#[test]
fn the_second_reading_needs_a_look_of_its_own() {
    let dead = || row(2, HostState::Dead, 859);
    let mut not_looked = reading(20, dead());
    not_looked.hosts[1].last_check = 1_000;
    assert!(not_looked.doubts(2).is_empty(), "fresh enough to be believed");
    assert!(!judge(vec![reading(0, dead()), not_looked], &config(true), &seen()));
}

#[test]
fn anything_that_changed_is_no_proof() {
    let dead = || row(2, HostState::Dead, 859);
    let changed: [fn(&mut HostRow); 6] = [
        |r| r.generation += 1,
        |r| r.timestamp += 20,
        |r| r.owner_name.push('x'),
        |r| r.owner_id = 4,
        |r| r.state = Some(HostState::Fail),
        |r| r.last_live = 900,
    ];
    for (i, change) in changed.iter().enumerate() {
        let mut second = dead();
        change(&mut second);
        assert!(!judge(vec![reading(0, dead()), reading(20, second)], &config(true), &seen()), "change {i}");
    }
    let mut other_daemon = reading(20, dead());
    other_daemon.daemon = "d2".into();
    assert!(!judge(vec![reading(0, dead()), other_daemon], &config(true), &seen()));
    let live = reading(10, row(2, HostState::Live, 1_000));
    assert!(
        !judge(vec![reading(0, dead()), live, reading(20, dead())], &config(true), &seen()),
        "alive between"
    );
}

#[test]
fn an_observer_in_doubt_and_another_generation_prove_nothing() {
    let dead = || row(2, HostState::Dead, 859);
    let mut doubtful = reading(20, dead());
    doubtful.observer.space_dead = true;
    assert!(!judge(vec![reading(0, dead()), doubtful], &config(true), &seen()));
    let later = HostRow { generation: 4, ..dead() };
    assert!(!judge(vec![reading(0, later.clone()), reading(20, later)], &config(true), &seen()));
}

#[test]
fn the_boundary_of_the_dead_time_is_strict() {
    // 8 × 10 + 60 = 140
    assert!(!row(2, HostState::Dead, 860).says_dead());
    assert!(row(2, HostState::Dead, 859).says_dead());
}

#[test]
fn every_lockspace_must_agree() {
    let mut config = config(true);
    config.lockspaces.push("vg2".into());
    let dead = || row(2, HostState::Dead, 859);
    assert!(!judge(vec![reading(0, dead()), reading(20, dead())], &config, &seen()));
}

#[test]
fn a_lease_without_timeout_says_nothing() {
    assert!(!HostRow { io_timeout: 0, ..row(2, HostState::Dead, 0) }.says_dead());
    let endless = HostRow { io_timeout: u64::MAX, ..row(2, HostState::Dead, 0) };
    assert!(!endless.says_dead());
}

#[test]
fn a_lease_of_somebody_else_by_its_name_is_neither_alive_nor_dead() {
    let named = |host: &str| format!("0b3c6a52-7f0e-4b0e-9e0a-3f8f7d1c2a11.{host}");
    for (owner, fits) in [(named("b"), true), (named("c"), false), ("c".into(), false)] {
        let mut config = config(true);
        let other = LeaseHost { host_ids: BTreeMap::from([("vg".into(), 3)]), watchdog: true };
        config.members.insert("c".into(), other);
        let with = |state, last_live| HostRow { owner_name: owner.clone(), ..row(2, state, last_live) };
        let mut watch = LeaseWatch::default();
        watch.see(vec![reading(0, with(HostState::Live, 1_000))]);
        assert_eq!(watch.alive(&config, &"b".into()).len(), usize::from(fits), "{owner}");
        let seen: Vec<_> = seen().into_iter().map(|s| LeaseSeen { owner_name: owner.clone(), ..s }).collect();
        let dead = || with(HostState::Dead, 859);
        assert_eq!(judge(vec![reading(0, dead()), reading(20, dead())], &config, &seen), fits, "{owner}");
    }
}

use super::*;
use crate::lease::LeaseHost;
use crate::lease::tests::{config, reading, row, seen};

type Stored = BTreeMap<MemberName, Vec<LeaseSeen>>;

fn stored() -> Stored {
    [("b".into(), seen())].into()
}

/// The rows after these readings, and the one of host 2.
fn rows(
    readings: Vec<LeaseReading>,
    config: &LeaseConfig,
    stored: Option<&Stored>,
) -> (Vec<LeaseRow>, LeaseRow) {
    let mut watch = LeaseWatch::default();
    readings.into_iter().for_each(|r| watch.see(vec![r]));
    let rows = watch.rows(config, stored, &BTreeMap::new());
    let second = rows.iter().find(|r| r.host_id == Some(2)).expect("host 2").clone();
    (rows, second)
}

/// The page that explains the rows.
fn page() -> String {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/storage-leases.md");
    std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

/// The words of the reasons, all of which are explained.
fn codes(row: &LeaseRow) -> Vec<&str> {
    let page = page();
    let codes: Vec<_> = row.reasons.iter().map(|r| r.code).collect();
    for code in &codes {
        assert!(page.contains(&format!("`{code}`")), "docs/storage-leases.md lacks `{code}`");
    }
    codes
}

fn dead() -> HostRow {
    row(2, HostState::Dead, 859)
}

#[test]
fn a_dead_lease_proves_with_an_attested_watchdog_and_a_second_reading() {
    let (_, first) = rows(vec![reading(0, dead())], &config(true), Some(&stored()));
    assert_eq!((first.proves, codes(&first)), (Proves::OneOfTwo, vec!["first_reading"]));
    assert!(first.prepared && first.reasons[0].sentence.contains("20 s"), "{first:?}");

    let both = || vec![reading(0, dead()), reading(20, dead())];
    let (_, second) = rows(both(), &config(true), Some(&stored()));
    assert_eq!((second.proves, codes(&second)), (Proves::Dead, vec![]));
    assert_eq!((second.checked_s, second.unchanged_s, second.dead_after_s), (Some(0), Some(161), Some(140)));

    let (_, unattested) = rows(both(), &config(false), Some(&stored()));
    assert_eq!((unattested.proves, codes(&unattested)), (Proves::Nothing, vec!["no_watchdog"]));
    assert!(!unattested.prepared);
    assert!(unattested.reasons[0].remedy.is_some_and(|r| r.contains("`watchdog` to true")));

    let (_, uncompared) = rows(both(), &config(true), None);
    assert_eq!((uncompared.proves, codes(&uncompared)), (Proves::Nothing, vec!["not_compared"]));
    let (_, unseen) = rows(both(), &config(true), Some(&Stored::new()));
    assert_eq!((unseen.proves, codes(&unseen)), (Proves::Nothing, vec!["never_seen_alive"]));
}

#[test]
fn a_living_host_is_prepared_or_not() {
    let live = || vec![reading(0, row(2, HostState::Live, 1_000))];
    let (all, second) = rows(live(), &config(true), Some(&stored()));
    assert_eq!((second.proves, codes(&second), second.prepared), (Proves::Nothing, vec!["alive"], true));
    assert_eq!(all.len(), 3);
    assert_eq!(codes(&all[0]), ["not_mapped", "alive"]);
    assert!(!rows(live(), &config(false), Some(&stored())).1.prepared);
}

#[test]
fn every_other_state_has_its_reason() {
    type Change = fn(&mut HostRow);
    let cases: [(&str, Change); 8] = [
        ("failing", |h| h.state = Some(HostState::Fail)),
        ("unknown", |h| h.state = Some(HostState::Unknown)),
        ("released", |h| h.state = None),
        ("released", |h| h.state = Some(HostState::Free)),
        ("unchanged_too_short", |h| h.last_live = 860),
        ("no_timeout", |h| h.io_timeout = 0),
        ("other_lease", |h| h.generation = 4),
        ("other_owner_id", |h| h.owner_id = 3),
    ];
    for (code, change) in cases {
        let mut lease = dead();
        change(&mut lease);
        let again = lease.clone();
        let (_, row) = rows(
            vec![reading(0, lease), reading(20, HostRow { last_live: again.last_live + 20, ..again })],
            &config(true),
            Some(&stored()),
        );
        assert!(codes(&row).contains(&code), "{code}: {row:?}");
        assert_eq!(row.proves, Proves::Nothing, "{code}");
    }
}

#[test]
fn doubts_about_the_observer_stand_in_every_row() {
    let mut lost = reading(20, dead());
    lost.observer.space_dead = true;
    lost.observer.renewal_last_result = -90;
    let (all, row) = rows(vec![reading(0, dead()), lost], &config(true), Some(&stored()));
    assert_eq!(row.proves, Proves::Nothing);
    for row in all {
        assert!(
            codes(&row).contains(&"space_dead") && codes(&row).contains(&"renewal_last_result"),
            "{row:?}"
        );
    }
}

#[test]
fn what_is_not_there_has_a_row_too() {
    let mut config = config(true);
    config.lockspaces.push("vg2".into());
    let other = LeaseHost { host_ids: [("vg".into(), 9), ("vg2".into(), 9)].into(), watchdog: true };
    config.members.insert("z".into(), other);
    let mut watch = LeaseWatch::default();
    let mut unnamed = reading(0, dead());
    unnamed.lockspace = "elsewhere".into();
    watch.see(vec![reading(0, dead()), unnamed]);
    let problems = BTreeMap::from([("vg2".to_owned(), "not joined".to_owned())]);
    let rows = watch.rows(&config, Some(&stored()), &problems);
    let of = |lockspace: &str, host_id: Option<u64>| {
        let mut rows = rows.iter().filter(|r| r.lockspace == lockspace && r.host_id == host_id);
        rows.next().unwrap_or_else(|| panic!("{lockspace} {host_id:?}"))
    };
    assert_eq!(codes(of("vg", Some(9))), ["no_lease"]);
    assert_eq!(codes(of("vg2", Some(9))), ["unreadable"]);
    assert!(of("vg2", Some(9)).reasons[0].sentence.contains("not joined"));
    assert_eq!(codes(of("vg2", None)), ["no_host_id"]);
    assert_eq!(of("vg2", None).member, Some("b".into()));
    assert_eq!(codes(of("elsewhere", Some(2))), ["lockspace_not_configured", "first_reading"]);
    assert_eq!(of("elsewhere", Some(2)).proves, Proves::Nothing);
}

#[test]
fn one_lockspace_is_not_the_member() {
    let mut config = config(true);
    config.lockspaces.push("vg2".into());
    config.members.get_mut(&"b".into()).unwrap().host_ids.insert("vg2".into(), 2);
    let (_, row) = rows(vec![reading(0, dead()), reading(20, dead())], &config, Some(&stored()));
    assert_eq!((row.proves, codes(&row)), (Proves::ThisLockspace, vec!["other_lockspace"]));
}

#[test]
fn the_table_proves_exactly_what_a_leader_proves() {
    let mut proven = 0;
    for change in 0..512_u32 {
        let is = |bit: u32| change & (1 << bit) != 0;
        let config = config(!is(0));
        let lease = || {
            let mut lease = dead();
            if is(1) {
                lease.state = Some(HostState::Fail);
            }
            if is(2) {
                lease.last_live = 880;
            }
            if is(3) {
                lease.generation = 4;
            }
            if is(4) {
                lease.owner_id = 1;
            }
            lease
        };
        let mut second = reading(if is(5) { 19 } else { 20 }, lease());
        second.observer.renew_fail = is(6);
        if is(7) {
            second.daemon = "d2".into();
        }
        let stored = if is(8) { Stored::new() } else { stored() };
        let mut watch = LeaseWatch::default();
        watch.see(vec![reading(0, lease())]);
        watch.see(vec![second]);
        let leader =
            watch.dead(&config, &"b".into(), stored.get(&"b".into()).map_or(&[], Vec::as_slice)).is_some();
        let rows = watch.rows(&config, Some(&stored), &BTreeMap::new());
        let row = rows.iter().find(|r| r.host_id == Some(2)).unwrap();
        assert_eq!(row.proves == Proves::Dead, leader, "{change:b}: {row:?}");
        assert_eq!(row.reasons.is_empty(), leader, "{change:b}: {row:?}");
        proven += usize::from(leader);
    }
    assert_eq!(proven, 1);
}

#[test]
fn rows_are_json_for_programs() {
    let (_, row) = rows(vec![reading(0, dead())], &config(true), Some(&stored()));
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!((&json["state"], &json["proves"]), (&"DEAD".into(), &"one_of_two".into()));
    assert_eq!((&json["member"], &json["reasons"][0]["code"]), (&"b".into(), &"first_reading".into()));
}

#[test]
fn the_file_of_the_page_is_valid() {
    let page = page();
    let (_, json) = page.split_once("```json\n").unwrap();
    let (json, _) = json.split_once("```").unwrap();
    let config = LeaseConfig::parse(json.as_bytes()).unwrap();
    assert_eq!((config.members.len(), config.members[&"s3".into()].watchdog), (3, false));
}

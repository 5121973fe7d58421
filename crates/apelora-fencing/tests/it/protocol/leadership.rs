//! What ends a leadership, and what becomes of a record whose leader is gone.

use apelora_fencing::ReasonCode;
use apelora_fencing::event::Why;
use apelora_fencing::proof::PowerWord;
use apelora_fencing::supervisor::Settings;
use apelora_fencing::write::{AuditAction, CommitError};

use super::course::{failed, on_until_sent};
use super::rig::{Rig, power};
use crate::data::lab_map;

#[test]
fn a_record_of_a_dead_leader_is_read_to_its_end() {
    let dead_leader = |sent: bool| {
        let mut rig = failed(|_, _| PowerWord::On);
        if !sent {
            rig.answers = Some(Box::new(|_, member, _| (1_000_000, power(member, PowerWord::On))));
            rig.fates.push_back(("permit", CommitError::Unavailable, false));
            rig.fates.push_back(("final", CommitError::Unavailable, false));
        }
        rig.run(31_000);
        assert!(rig.store.records[0].status.is_open());
        rig.calls.clear();
        rig.fates.clear();
        rig
    };
    for (word, end) in [
        (PowerWord::Off, ("success", ReasonCode::PoweredOff, true)),
        (PowerWord::On, ("failed", ReasonCode::LeaderChanged, true)),
    ] {
        let mut rig = dead_leader(true);
        rig.answers = Some(Box::new(move |_, member, _| (0, power(member, word))));
        rig.elect(Settings { allow_lab: true, ..Settings::default() });
        let elected = rig.now;
        rig.run(elected + 4_999);
        assert!(rig.times("adopt").is_empty(), "one margin first");
        rig.run(elected + 130_000);
        assert_eq!(rig.ends()[0], end);
        assert!(rig.times("send").is_empty(), "an adopted record is only read");
        let took = rig.times("final")[0] - rig.times("adopt")[0];
        assert_eq!(took, if word == PowerWord::Off { 10_000 } else { 59_000 });
    }
    let mut rig = dead_leader(false);
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    rig.run(45_000);
    assert_eq!(rig.ends()[0], ("refused", ReasonCode::LeaderChanged, false));
    assert_eq!(rig.store.records[0].send_at, None);
}

#[test]
fn an_adopted_record_from_another_map_is_closed() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.run(31_000);
    rig.map = lab_map(&rig.names, 1);
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    rig.run(40_000);
    assert_eq!(rig.ends()[0], ("failed", ReasonCode::MappingChanged, true));
}

#[test]
fn the_lease_ends_the_role() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.renews = false;
    rig.run(24_999);
    assert_eq!(rig.stepped_down, None);
    rig.run(25_001);
    assert_eq!(rig.stepped_down, Some(Why::LeaseExpired));
    let calls = rig.calls.len();
    rig.run(100_000);
    assert_eq!(rig.calls.len(), calls, "nothing after the role is over");
}

#[test]
fn a_short_lease_is_renewed_before_the_permit() {
    // Renewed at 10 s and never again but on demand: at 30 s five seconds are left of it.
    let mut rig = failed(on_until_sent(0));
    rig.run(10_001);
    rig.renews = false;
    rig.run(14_999);
    rig.set(0, "Online");
    rig.run(15_001);
    assert!(rig.times("renew").is_empty());
    // A lease of which less than a permit and a send is left is renewed with the intent.
    let mut rig = failed(on_until_sent(0));
    rig.renewal_every = 12_000;
    rig.run(45_000);
    assert_eq!(rig.times("renew"), [30_000]);
    assert_eq!(rig.ends(), [("success", ReasonCode::PoweredOff, true)]);
}

#[test]
fn a_write_of_a_deposed_leader_ends_the_role() {
    let mut rig = failed(|_, _| PowerWord::On);
    rig.run(21_000);
    rig.store.lease.epoch.0 += 1;
    rig.run(31_000);
    assert_eq!(rig.stepped_down, Some(Why::Deposed));
    assert!(rig.times("send").is_empty());
    assert!(rig.audit.iter().all(|(_, r)| r.action != AuditAction::PowerOff));
}

#[test]
fn the_own_host_offline_ends_the_role() {
    let mut rig =
        Rig::with(3, Settings { own_host: Some("m000".into()), allow_lab: true, ..Settings::default() });
    rig.run(10_000);
    rig.set(0, "Offline");
    rig.run(20_000);
    assert_eq!(rig.stepped_down, Some(Why::OwnHostOffline));
}

//! How long a member is Offline, and what breaks the count.

use apelora_fencing::ReasonCode;
use apelora_fencing::proof::PowerWord;
use apelora_fencing::supervisor::Settings;
use apelora_fencing::view::ViewError;
use apelora_fencing::write::{AuditAction, Outcome};

use super::rig::{Rig, power};

fn rig() -> Rig {
    let mut rig = Rig::new(3);
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.set(0, "Offline");
    rig
}

fn first_intent(rig: &mut Rig) -> u64 {
    rig.run(120_000);
    rig.times("intent")[0]
}

#[test]
fn the_grace_runs_from_the_first_look() {
    assert_eq!(first_intent(&mut rig()), 30_000);
    let mut slow = rig();
    slow.limits.fence_after = std::time::Duration::from_secs(41);
    slow.elect(Settings { allow_lab: true, ..Settings::default() });
    assert_eq!(first_intent(&mut slow), 45_000, "in the first pass after the grace");
}

#[test]
fn whatever_is_not_an_unbroken_series_starts_again() {
    type Break = (fn(&mut Rig), fn(&mut Rig));
    let breaks: [(&str, Break); 5] = [
        ("Online", (|r| r.set(0, "Online"), |r| r.set(0, "Offline"))),
        ("another word", (|r| r.set(0, "Evacuating"), |r| r.set(0, "Offline"))),
        ("unreadable", (|r| r.view = Err(ViewError::Empty), |r| r.view = Ok(()))),
        ("database leader moved", (|r| r.database_leader = Some("m001".into()), |_| {})),
        (
            "no longer listed",
            (
                |r| {
                    r.names.rotate_left(1);
                    r.status.rotate_left(1);
                    r.names.pop();
                    r.status.pop();
                },
                |r| {
                    r.names.push("m000".into());
                    r.status.push(apelora_fencing::view::Status::Offline);
                },
            ),
        ),
    ];
    for (what, (begin, end)) in breaks {
        let mut rig = rig();
        rig.run(24_000);
        begin(&mut rig);
        rig.run(26_000);
        end(&mut rig);
        let at = first_intent(&mut rig);
        assert!(at >= 55_000, "{what}: {at}");
    }
}

#[test]
fn a_gap_of_more_than_two_intervals_breaks_it() {
    // The view takes so long that the next look comes late: the rig jumps, as after a suspend.
    for (jump, expected) in [(4_000, 30_000), (9_999, 30_000), (12_000, 60_000)] {
        let mut rig = rig();
        rig.run(20_001);
        rig.now += jump;
        let at = first_intent(&mut rig);
        assert!(at >= expected && at < expected + 12_000, "jump {jump}: {at}");
    }
}

#[test]
fn an_answer_from_before_the_question_is_no_answer() {
    let mut rig = rig();
    rig.asked_before = 1;
    rig.run(100_000);
    assert!(rig.times("intent").is_empty());
}

#[test]
fn a_new_leader_counts_from_zero() {
    let mut rig = rig();
    rig.run(28_000);
    rig.elect(Settings { allow_lab: true, ..Settings::default() });
    assert_eq!(first_intent(&mut rig), 58_000);
}

#[test]
fn without_a_second_view_nothing_is_sent_unless_attested() {
    let mut rig = rig();
    rig.second = false;
    rig.run(100_000);
    assert!(rig.times("intent").is_empty());
    let mut rig = Rig::with(3, Settings { allow_lab: true, single_view: true, ..Settings::default() });
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.set(0, "Offline");
    rig.second = false;
    assert_eq!(first_intent(&mut rig), 30_000);
}

#[test]
fn the_lab_needs_its_switch() {
    let mut rig = Rig::with(3, Settings::default());
    rig.set(0, "Offline");
    rig.answers = Some(Box::new(|_, member, _| (0, power(member, PowerWord::On))));
    rig.run(100_000);
    assert!(rig.times("intent").is_empty() && rig.times("read").is_empty());
}

#[test]
fn a_refusal_is_audited_when_it_changes_and_every_ten_minutes() {
    let mut rig = rig();
    let name = rig.names[0].clone();
    rig.store.set_held(&name, true);
    rig.run(1_300_000);
    let refused = |rig: &Rig| {
        let rows = rig.audit.iter().filter(|(_, r)| r.action == AuditAction::PowerOff && r.record.is_none());
        rows.map(|(at, r)| (*at, r.reason, r.outcome)).collect::<Vec<_>>()
    };
    let rows = refused(&rig);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows.iter().all(|r| r.1 == Some(ReasonCode::Held) && r.2 == Some(Outcome::Refused)));
    assert!(rows.windows(2).all(|w| (600_000..606_000).contains(&(w[1].0 - w[0].0))), "{rows:?}");
    rig.set(1, "Offline");
    rig.run(1_310_000);
    assert_eq!(refused(&rig).len(), 4, "the reasons changed");
}

#[test]
fn a_renamed_member_does_not_escape_the_loop_guard() {
    // A send is remembered by hardware too; the lab has no UUID, so the store is asked directly.
    use apelora_fencing::identity::SystemUuid;
    use apelora_fencing::map::{MapSha, Provider};
    use apelora_fencing::write::{CommitError, Intent, Numbers, Write};
    use apelora_fencing::{Incarnation, RecordId};
    let mut rig = rig();
    rig.run(24_000);
    let uuid: SystemUuid = "4c4c4544-0042-4a10-8038-b4c04f5a3332".parse().unwrap();
    let (epoch, holder) = (rig.store.lease.epoch, rig.store.lease.holder.unwrap());
    let intent = |member: &str, id: u128, uuid: Option<SystemUuid>| {
        Write::Intent(Intent {
            record: RecordId(uuid::Uuid::from_u128(id)),
            member: member.into(),
            incarnation: Incarnation(1),
            uuid,
            provider: Provider::Redfish,
            target: String::new(),
            map: MapSha::from_bytes([0; 32]),
            numbers: Numbers::default(),
            witnesses: ("m001".into(), None),
        })
    };
    let now = rig.db();
    assert!(rig.store.commit(now, (epoch, holder), &intent("m000", 1, Some(uuid))).0.is_ok());
    let second = rig.store.commit(now, (epoch, holder), &intent("m001", 2, None)).0;
    assert_eq!(second, Err(CommitError::Refused(ReasonCode::AnotherInProgress)));
    let record = &mut rig.store.records[0];
    record.status = apelora_fencing::record::RecordStatus::Failed;
    record.send_at = Some(now);
    // The same hardware under another name.
    let mut twin = rig.store.members[&rig.names[0]].clone();
    twin.last_online_at = Some(std::time::Duration::ZERO);
    rig.store.members.insert("renamed".into(), twin);
    let renamed = rig.store.commit(now, (epoch, holder), &intent("renamed", 3, Some(uuid))).0;
    assert_eq!(renamed, Err(CommitError::Refused(ReasonCode::PoweredOffRecently)));
    let other = rig.store.commit(now, (epoch, holder), &intent("renamed", 4, None)).0;
    assert!(other.is_ok());
}

//! Requests for permits. Only the machine makes one, so the machine is run up to it: a cluster of three, of which one is
//! Offline for long enough.

use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::event::{Outcome, Pass, ReadDone};
use apelora_fencing::identity::RawIdentity;
use apelora_fencing::lease::LeaseConfig;
use apelora_fencing::map::{BmcMap, MapSha, MapState};
use apelora_fencing::name::{Epoch, HolderId};
use apelora_fencing::proof::{PermitRequest, PowerWord, Reported};
use apelora_fencing::record::{MemberRow, Persisted};
use apelora_fencing::supervisor::{Leadership, Settings};
use apelora_fencing::view::{ClusterView, Healing, Listed, SecondView, Status};
use apelora_fencing::write::Committed;
use apelora_fencing::{BootTime, Effect, Event, Incarnation, Limits, RecordId, Supervisor, Ticket};
use uuid::Uuid;

const MEMBERS: [(&str, &str); 3] = [("s1", "Offline"), ("s2", "Online"), ("s3", "Online")];

/// A map, one of two that differ in a blank.
fn map(other: bool) -> BmcMap {
    let text = r#"{"members":{"s1":{"provider":"lima","address":"apelora-s1"}}}"#;
    let text = if other { format!("{text} ") } else { text.to_owned() };
    BmcMap::parse(text.as_bytes(), &[]).unwrap()
}

/// The digest of that map.
pub fn map_sha(other: bool) -> MapSha {
    map(other).sha()
}

/// A request to send for this record, made under one of the two maps.
pub fn request(record: RecordId, other_map: bool) -> PermitRequest {
    let limits = Limits::PRODUCTION;
    let far = BootTime::new(Duration::from_secs(1_000_000));
    let me = Leadership { epoch: Epoch(1), holder: HolderId(Uuid::from_u128(1)), deadline: far };
    let settings = Settings {
        own_host: None,
        single_view: false,
        failure_domain_rule: false,
        allow_lab: true,
        dry_run: false,
        leases: LeaseConfig::default(),
    };
    let map = MapState::Valid(Arc::new(map(other_map)));
    let mut now = BootTime::default();
    let mut machine = Supervisor::elected(now, me, limits, settings);
    let mut effects = machine.on(now, Event::Woke);
    let mut wake = now;
    for _ in 0..1_000 {
        let mut answers = Vec::new();
        for effect in effects {
            match effect {
                Effect::Permit(_, request) => {
                    assert_eq!(request.record(), record);
                    return request;
                }
                Effect::Look(ticket) => answers.push(Event::Pass(Box::new(pass(ticket, now, &map, record)))),
                Effect::Commit(ticket, _) => {
                    answers.push(Event::Done(ticket, Outcome::Committed(Ok(Committed::Done))));
                }
                Effect::Open(ticket, ..) => answers.push(Event::Done(ticket, Outcome::Opened(Ok(())))),
                Effect::Read(ticket, _) => {
                    let reported = Reported {
                        identity: RawIdentity::LabName("apelora-s1".into()),
                        power: PowerWord::On,
                        detail: String::new(),
                    };
                    let read = ReadDone { began: now, ended: now, result: Ok(reported) };
                    answers.push(Event::Done(ticket, Outcome::Read(read)));
                }
                Effect::Wake(at) => wake = at,
                Effect::Close(_) | Effect::Renew => {}
                other => panic!("{other:?}"),
            }
        }
        effects = Vec::new();
        for answer in answers {
            effects.extend(machine.on(now, answer));
        }
        if effects.is_empty() {
            now = wake;
            effects = machine.on(now, Event::Woke);
        }
    }
    panic!("the machine never asks for a permit: {:?}", machine.decision());
}

fn pass(ticket: Ticket, now: BootTime, map: &MapState, record: RecordId) -> Pass {
    let view = |responder: &str| {
        let listed = MEMBERS.map(|(name, word)| Listed {
            name: name.into(),
            status: Status::from_word(word),
            failure_domain: None,
        });
        ClusterView::new(now, responder.into(), Some("s2".into()), listed.into()).unwrap()
    };
    let row = |online| MemberRow {
        incarnation: Incarnation(1),
        online,
        last_online: Some(Duration::from_secs(5_000)),
        ..MemberRow::default()
    };
    let members = MEMBERS.map(|(name, word)| (name.into(), row(word == "Online")));
    Pass {
        ticket,
        view: Ok(view("s2")),
        second: SecondView::Seen(view("s3")),
        healing: Healing::Off,
        leases: Vec::new(),
        stored: Some(Persisted { members: members.into(), ..Persisted::default() }),
        map: map.clone(),
        fresh_id: record,
    }
}

#[test]
fn the_machine_asks_under_the_map_it_was_given() {
    let record = RecordId(Uuid::from_u128(7));
    for other in [false, true] {
        let request = request(record, other);
        assert_eq!((request.record(), request.map()), (record, map_sha(other)));
    }
    assert_ne!(map_sha(false), map_sha(true));
}

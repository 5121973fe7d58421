use super::*;
use crate::map::Provider;
use crate::proof::PermitRequest;
use crate::time::BootTime;
use crate::write::Numbers;

const NOW: DbTime = Duration::from_secs(1_000);

fn store() -> (MemoryStore, (Epoch, HolderId)) {
    let mut store = MemoryStore::new(&Limits::PRODUCTION);
    let holder = HolderId(uuid::Uuid::from_u128(1));
    let epoch = store.campaign(NOW, holder).unwrap();
    let member = StoredMember { incarnation: Incarnation(1), ..StoredMember::default() };
    store.members.insert("a".into(), member);
    (store, (epoch, holder))
}

fn intent() -> Write {
    Write::Intent(Intent {
        record: RecordId(uuid::Uuid::from_u128(7)),
        member: "a".into(),
        incarnation: Incarnation(1),
        uuid: None,
        provider: Provider::Lima,
        target: "apelora-a".into(),
        map: MapSha::from_bytes([1; 32]),
        numbers: Numbers::default(),
        witnesses: ("b".into(), None),
    })
}

#[test]
fn an_expired_lease_writes_nothing_although_nobody_took_it() {
    let (mut store, me) = store();
    let end = NOW + Limits::PRODUCTION.lease_ttl;
    assert_eq!(store.commit(end, me, &intent()).0, Err(CommitError::Deposed));
    assert_eq!(store.renew(end, me.0, me.1), Err(CommitError::Deposed), "and is not revived");
    assert!(store.commit(end - Duration::from_nanos(1), me, &intent()).0.is_ok());
}

#[test]
fn a_permit_under_another_map_is_refused() {
    for (map, answer) in [(2, refused(ReasonCode::MappingChanged)), (1, Ok(Committed::Done))] {
        let (mut store, me) = store();
        assert!(store.commit(NOW, me, &intent()).0.is_ok());
        let record = RecordId(uuid::Uuid::from_u128(7));
        let request = PermitRequest::new(record, MapSha::from_bytes([map; 32]), BootTime::default());
        assert_eq!(store.commit(NOW, me, &Write::Permit(request)).0, answer);
    }
}

#[test]
fn the_lease_row_is_taken_over_only_after_its_end_and_with_a_new_epoch() {
    let (mut store, me) = store();
    let other = HolderId(uuid::Uuid::from_u128(2));
    let end = NOW + Limits::PRODUCTION.lease_ttl;
    assert_eq!(store.campaign(end, other), None);
    assert_eq!(store.campaign(end + Duration::from_nanos(1), other), Some(Epoch(me.0.0 + 1)));
}

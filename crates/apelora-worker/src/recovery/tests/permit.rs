//! When a restart may go on.

use std::time::Duration;

use apelora_fencing::Incarnation;
use apelora_fencing::record::{MemberRow, Persisted, ProofKind, ProofRow};
use apelora_fencing::recovery::Permission;

use crate::recovery::permission;

fn stored(incarnation: u64, proof: Option<u64>, online: bool) -> Persisted {
    let proof = proof.map(|of| ProofRow {
        kind: ProofKind::PowerOff,
        incarnation: Incarnation(of),
        age: Duration::ZERO,
        recovery_started: false,
    });
    let row = MemberRow { incarnation: Incarnation(incarnation), proof, online, ..MemberRow::default() };
    Persisted { members: [("s1".into(), row)].into(), ..Persisted::default() }
}

#[test]
fn permission_ends_with_the_life_or_the_proof() {
    let ask = |may, stored: Persisted| permission(may, &stored, &"s1".into(), Incarnation(2));
    assert_eq!(ask(true, stored(2, Some(2), false)), Permission::Granted);
    assert_eq!(ask(false, stored(2, Some(2), false)), Permission::NotNow);
    assert_eq!(ask(true, stored(2, Some(2), true)), Permission::Over, "it is Online");
    assert_eq!(ask(true, stored(3, Some(3), false)), Permission::Over, "another life");
    assert_eq!(ask(false, stored(2, None, false)), Permission::Over, "withdrawn");
    assert_eq!(ask(true, Persisted::default()), Permission::NotNow, "nothing was read yet");
}

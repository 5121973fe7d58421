//! What the tests of the leader share: a clock, proofs, writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_fencing::identity::{MappedIdentity, RawIdentity, SystemUuid};
use apelora_fencing::lease::{
    HostRow, HostState, LeaseConfig, LeaseDeadProof, LeaseHost, LeaseReading, LeaseSeen, LeaseWatch, Observer,
};
use apelora_fencing::map::Provider;
use apelora_fencing::name::{HolderId, Incarnation, MemberName, RecordId};
use apelora_fencing::proof::{Ground, OffStreak, PowerOffProof, PowerWord, Reading, Reported, SendAnswer};
use apelora_fencing::time::{BootTime, Clock};
use apelora_fencing::write::{
    Evidence, Final, Intent, NewProof, Numbers, Observation, Outcome, ProofGround, Saw, Seen,
};
use apelora_fencing::{Limits, ReasonCode, Ticket, Write};
use apelora_store::{Done, Leader, LeaderConfig, NodeChange, NodeColumn, NodePatch, Store};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::permits::map_sha;
use crate::lab::{by_uuid, id, stamp};

/// A boot-time clock that is moved by hand.
#[derive(Debug, Default)]
pub struct HandClock(AtomicU64);

impl HandClock {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn boot(&self) -> BootTime {
        BootTime::new(Duration::from_millis(self.0.load(Ordering::SeqCst)))
    }
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub fn config() -> LeaderConfig {
    LeaderConfig::new(Limits::PRODUCTION, "w1")
}

pub fn holder() -> HolderId {
    HolderId(id())
}

pub fn record_id() -> RecordId {
    RecordId(id())
}

/// Takes the lease, with the figures of production.
pub async fn lead(store: &Store) -> Leader {
    lead_as(store, &config()).await
}

pub async fn lead_as(store: &Store, config: &LeaderConfig) -> Leader {
    store.campaign(config, holder(), Arc::<HandClock>::default()).await.unwrap().expect("nobody leads")
}

/// A write that must succeed.
pub async fn commit(leader: &Leader, write: Write) -> Done {
    let done = leader.commit(write).await;
    assert!(done.result.is_ok(), "{done:?}");
    done
}

pub fn uuid(n: u8) -> SystemUuid {
    SystemUuid::from_bytes(std::array::from_fn(|i| n.wrapping_add(u8::try_from(i * 11).unwrap())))
}

pub fn online(member: &str) -> Write {
    seen(member, Seen::Online(Vec::new()))
}

pub fn away(member: &str) -> Write {
    seen(member, Seen::Away)
}

fn seen(member: &str, seen: Seen) -> Write {
    Write::Observed(vec![Observation { member: member.into(), seen }])
}

/// A member that was Online and failed: life 1.
pub async fn failed(leader: &Leader, member: &str) {
    commit(leader, online(member)).await;
    commit(leader, away(member)).await;
}

pub fn intent(member: &str, incarnation: u64, record: RecordId) -> Intent {
    Intent {
        record,
        member: member.into(),
        incarnation: Incarnation(incarnation),
        uuid: Some(uuid(7)),
        provider: Provider::Redfish,
        target: "10.0.0.11:443/redfish/v1/Systems/1".into(),
        map: map_sha(false),
        numbers: Numbers {
            offline_for: secs(35),
            members_total: 4,
            members_offline: 1,
            lease_remaining: Duration::from_millis(21_500),
        },
        witnesses: ("s2".into(), Some("s3".into())),
    }
}

/// Two Off readings on this ground, the first one complete at 10 s.
pub fn off(ground: Ground) -> PowerOffProof {
    let limits = Limits::PRODUCTION;
    let mut streak = OffStreak::new(ground);
    let at = |ms| BootTime::new(Duration::from_millis(ms));
    let reading = |began: u64| {
        let reported = Reported {
            identity: RawIdentity::Text(uuid(7).to_string()),
            power: PowerWord::Off,
            detail: String::new(),
        };
        let times = (at(began), at(began + 500));
        Reading::verify(&reported, &MappedIdentity::Exact(uuid(7)), Ticket(1), times).unwrap()
    };
    assert_eq!(streak.see(&reading(9_500), &limits), None);
    let gap = u64::try_from(ground.gap(&limits).as_millis()).unwrap();
    streak.see(&reading(10_000 + gap), &limits).unwrap()
}

/// The final of a power-off that worked.
pub fn success(record: RecordId) -> Final {
    let sent_at = BootTime::new(secs(9));
    let saw = |ms, what| Evidence { offset: Duration::from_millis(ms), what, detail: "200".into() };
    Final {
        record,
        outcome: Outcome::Success,
        reason: ReasonCode::PoweredOff,
        sent: true,
        proof: Some(off(Ground::Sent(sent_at))),
        evidence: vec![
            saw(300, Saw::Opened),
            saw(700, Saw::Power(PowerWord::On)),
            saw(1_000, Saw::Sent(SendAnswer::Accepted)),
            saw(2_500, Saw::Power(PowerWord::Off)),
            saw(4_000, Saw::Power(PowerWord::Off)),
        ],
    }
}

/// The final of a power-off that came to nothing.
pub fn ended(record: RecordId, reason: ReasonCode, sent: bool) -> Final {
    let outcome = if sent { Outcome::Failed } else { Outcome::Refused };
    Final { record, outcome, reason, sent, proof: None, evidence: Vec::new() }
}

pub fn watched(member: &str, incarnation: u64) -> Write {
    Write::Proof(NewProof {
        member: member.into(),
        incarnation: Incarnation(incarnation),
        ground: ProofGround::Watched(off(Ground::Watched)),
    })
}

/// A lease as it was seen while its member was Online.
pub fn lease_seen() -> LeaseSeen {
    LeaseSeen { lockspace: "vg0".into(), host_id: 1, generation: 4, owner_name: "host-1".into() }
}

/// Dead leases of the member `a`, read twice.
pub fn dead() -> LeaseDeadProof {
    let config = LeaseConfig {
        lockspaces: vec!["vg0".into()],
        members: BTreeMap::from([(
            MemberName::from("a"),
            LeaseHost { host_ids: BTreeMap::from([("vg0".into(), 1)]), watchdog: true },
        )]),
    };
    let reading = |at: u64| {
        let row = |host_id, state, last_live, owner_name: &str| HostRow {
            host_id,
            state: Some(state),
            owner_id: host_id,
            generation: 4,
            timestamp: 77,
            last_check: at,
            last_live,
            io_timeout: 10,
            owner_name: owner_name.into(),
        };
        LeaseReading {
            lockspace: "vg0".into(),
            read_at: BootTime::new(secs(at)),
            daemon: "d".into(),
            observer: Observer {
                host_id: 2,
                monotime: at,
                io_timeout: 10,
                joined: true,
                space_dead: false,
                killing_pids: false,
                renew_fail: false,
                corrupt_result: 0,
                renewal_last_result: 1,
                renewal_last_success: at,
            },
            hosts: vec![row(1, HostState::Dead, 10, "host-1"), row(2, HostState::Live, at, "host-2")],
        }
    };
    let mut watch = LeaseWatch::default();
    watch.see(vec![reading(400)]);
    watch.see(vec![reading(430)]);
    watch.dead(&config, &"a".into(), &[lease_seen()]).unwrap()
}

pub fn lease_dead(member: &str, incarnation: u64) -> Write {
    Write::Proof(NewProof {
        member: member.into(),
        incarnation: Incarnation(incarnation),
        ground: ProofGround::LeaseDead(dead()),
    })
}

/// A node that somebody else has locked, until they let it go.
pub struct HeldNode {
    free: oneshot::Sender<()>,
    holding: JoinHandle<()>,
}

impl HeldNode {
    /// Locks the node with this uuid through a change that does not end.
    pub async fn lock(store: &Store, uuid: &str) -> Self {
        let (locked, is_locked) = oneshot::channel();
        let (free, is_free) = oneshot::channel::<()>();
        let (store, node) = (store.clone(), by_uuid(uuid));
        let holding = tokio::spawn(async move {
            let mut turn = Some((locked, is_free));
            let stamp = stamp();
            let change = store.change_node(&node, &stamp, |_| {
                if let Some((locked, is_free)) = turn.take() {
                    locked.send(()).unwrap();
                    tokio::task::block_in_place(|| is_free.blocking_recv()).unwrap();
                }
                Ok::<_, ()>(NodeChange {
                    fields: NodePatch::new().with(NodeColumn::Description, "x"),
                    ..NodeChange::default()
                })
            });
            change.await.unwrap();
        });
        is_locked.await.unwrap();
        Self { free, holding }
    }

    /// Ends the change.
    pub async fn let_go(self) {
        self.free.send(()).unwrap();
        self.holding.await.unwrap();
    }
}

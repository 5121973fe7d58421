//! Random writes of random leaders, persons' words, locks, takeovers and leaps of the clock: the same answers, audit rows
//! and state as the machine's own store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apelora_fencing::memory::MemoryStore;
use apelora_fencing::name::{Epoch, HolderId, MemberName, RecordId};
use apelora_fencing::record::{MemberRow, Persisted};
use apelora_fencing::time::BootTime;
use apelora_fencing::write::{CommitError, Found, Outcome};
use apelora_fencing::{Limits, ReasonCode, Write};
use apelora_maintenance::{Operation, Scope};
use apelora_store::{AuditQuery, ConfirmError, Leader, LeaderConfig, PersonsWord, Store};
use uuid::Uuid;

use super::choice::Dice;
use super::rig::{HandClock, secs};
use crate::lab::{add, assert_whole, by_uuid, make_node, on_every_engine, operate, stamp, system, who};

pub const MEMBERS: [&str; 4] = ["a", "b", "c", "d"];
/// Members with a node of their name.
const NODES: [&str; 2] = ["a", "b"];
/// Figures so large that the time which the test itself takes moves nothing over a limit: leaps are whole multiples of
/// this, limits lie between two of them.
const LEAP: Duration = secs(300);
const TOLERANCE: Duration = secs(100);

fn limits() -> Limits {
    Limits { lease_ttl: secs(1_000), loop_guard: secs(20_050), ..Limits::PRODUCTION }
}

/// The last lines tell what led to a difference.
impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail = self.told.len().saturating_sub(15);
            println!("{:#?}", &self.told[tail..]);
        }
    }
}

/// Both stores, side by side.
pub struct Pair {
    store: Store,
    config: LeaderConfig,
    pub memory: MemoryStore,
    now: Duration,
    pub dice: Dice,
    holders: Vec<HolderId>,
    leaders: Vec<Leader>,
    pub records: Vec<RecordId>,
    nodes: BTreeMap<&'static str, String>,
    held: BTreeMap<&'static str, Uuid>,
    /// The latest finding of each drill, which the store in memory does not keep.
    found: BTreeMap<MemberName, Found>,
    audited: usize,
    told: Vec<String>,
    seen: BTreeMap<&'static str, usize>,
}

impl Pair {
    /// One step of time, so that nothing happens twice at one moment.
    fn tick(&mut self, by: Duration) {
        let by = by + Duration::from_millis(1);
        self.now += by;
        self.store.shift_clock(by);
    }

    fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    async fn step(&mut self) {
        self.tick(Duration::ZERO);
        let expired = self.memory.lease.expires_at < self.now;
        match if expired && self.dice.once_in(3) { 3 } else { self.dice.below(40) } {
            0..=2 => {
                let leaps = self.dice.of(&[1, 1, 2, 5, 70]);
                self.told.push(format!("leap {leaps}"));
                self.tick(LEAP * leaps);
            }
            3..=5 => self.campaign().await,
            6..=8 => self.renew().await,
            9 => self.resign().await,
            10 | 11 => self.confirm().await,
            12 => self.trust().await,
            13 | 14 => self.hold().await,
            15 if self.dice.once_in(4) => {
                self.told.push("history lost".into());
                self.store.note_history_gap().await.unwrap();
                self.memory.history_gap_at = Some(self.now);
            }
            _ => self.commit().await,
        }
        // What stands on nodes is not written by the store in memory.
        for (name, member) in &mut self.memory.members {
            member.held = self.held.contains_key(name.as_str());
        }
        if self.dice.once_in(3) {
            self.compare().await;
        }
    }

    async fn campaign(&mut self) {
        let me = self.dice.of(&self.holders.clone());
        let epoch = self.memory.campaign(self.now, me);
        self.told.push(format!("campaign {me:?}: {epoch:?}"));
        let leader = self.store.campaign(&self.config, me, Arc::<HandClock>::default()).await.unwrap();
        assert_eq!(leader.as_ref().map(Leader::epoch), epoch);
        self.leaders.extend(leader);
        // Each has a connection of its own.
        if self.leaders.len() > 4 {
            self.leaders.remove(0);
        }
        if epoch.is_some() {
            self.count("acquired");
        }
    }

    /// Mostly the latest leader, sometimes one that is not any more.
    fn leader(&mut self) -> Option<usize> {
        let last = self.leaders.len().checked_sub(1)?;
        Some(if self.dice.once_in(8) { self.dice.below(last + 1) } else { last })
    }

    async fn renew(&mut self) {
        let Some(at) = self.leader() else { return };
        let leader = &self.leaders[at];
        let wanted = self.memory.renew(self.now, leader.epoch(), leader.holder());
        self.told.push(format!("renew {:?}: {wanted:?}", leader.epoch()));
        assert_eq!(leader.renew().await.map(drop), wanted);
        let over = wanted.is_err();
        assert_eq!(leader.deadline() == BootTime::default(), over, "the role is over at once");
        self.count(if over { "renewal refused" } else { "renewed" });
    }

    async fn resign(&mut self) {
        let Some(at) = self.leader() else { return };
        let leader = &self.leaders[at];
        self.told.push(format!("resign {:?}", leader.epoch()));
        let is_mine = self.memory.lease.epoch == leader.epoch() && self.memory.lease.expires_at > self.now;
        leader.resign().await;
        if is_mine {
            self.memory.lease.expires_at = self.now;
            self.count("resigned");
        }
    }

    async fn confirm(&mut self) {
        let member = self.member();
        let shown = self.life(member);
        let wanted = self.memory.confirm_off(self.now, &member.into(), shown);
        self.told.push(format!("confirm {member} {shown:?}: {wanted:?}"));
        let word = PersonsWord {
            member: member.into(),
            shown,
            reason: "I pulled its plug".into(),
            by: who(Scope::System, "anna", "ops"),
        };
        let got = self.store.confirm_off(&word, &stamp()).await;
        match (&wanted, got) {
            (Ok(rows), Ok(confirmed)) => {
                assert_eq!(&confirmed.audit, rows);
                self.audited += rows.len();
                self.count("confirmed");
            }
            (Err(reason), Err(ConfirmError::Refused(got))) => assert_eq!(got, *reason),
            (wanted, got) => panic!("{wanted:?} {got:?}"),
        }
    }

    async fn trust(&mut self) {
        let member = self.member();
        self.told.push(format!("trust {member}"));
        let name = MemberName::from(member);
        let was = self.memory.members.get(&name).is_some_and(|m| m.distrusted);
        let by = who(Scope::System, "anna", "ops");
        let trusted = self.store.trust(&name, &by, "recabled", &stamp()).await;
        if was && self.found.get(&name) == Some(&Found::Contradiction) {
            assert!(matches!(trusted, Err(ConfirmError::Refused(ReasonCode::Distrusted))), "{trusted:?}");
            return self.count("trust refused");
        }
        self.memory.trust(&name);
        assert_eq!(trusted.unwrap(), was);
        self.audited += usize::from(was);
        if was {
            self.count("trusted");
        }
    }

    async fn hold(&mut self) {
        let member = self.dice.of(&NODES);
        let node = self.nodes[member].clone();
        self.told.push(format!("hold {member}: {}", !self.held.contains_key(member)));
        let operation = match self.held.remove(member) {
            Some(entry) => Operation::Release(entry),
            None => add("operator_hold", None),
        };
        let stamp = stamp();
        let changed = operate(&self.store, &node, &operation, &system(), &stamp).await.unwrap();
        if let Some(entry) = changed.entry {
            self.held.insert(member, entry.uuid);
        }
    }

    async fn commit(&mut self) {
        let Some(at) = self.leader() else { return };
        let write = self.write();
        let leader = &self.leaders[at];
        let by: (Epoch, HolderId) = (leader.epoch(), leader.holder());
        let (wanted, rows) = self.memory.commit(self.now, by, &write);
        self.told.push(format!("{:?} {write:?}: {wanted:?} {rows:?}", by.0));
        let done = match write.clone() {
            Write::Permit(request) if self.dice.once_in(2) => {
                let (permit, audit) = leader.permit(request.clone()).await;
                assert_eq!(permit.as_ref().map(drop), wanted.as_ref().map(drop));
                if let Ok(permit) = permit {
                    assert_eq!((permit.record(), permit.map()), (request.record(), request.map()));
                }
                assert_eq!(audit, rows);
                wanted.clone()
            }
            write => {
                let done = self.leaders[at].commit(write).await;
                assert_eq!((&done.result, &done.audit), (&wanted, &rows));
                done.result
            }
        };
        self.audited += rows.len();
        if let (Write::Checked(checks), Ok(_)) = (&write, &done) {
            self.found.extend(checks.iter().map(|check| (check.member.clone(), check.found)));
        }
        let what = match (&write, &done) {
            (_, Err(CommitError::Deposed)) => "deposed",
            (Write::Intent(_), Ok(_)) => "intent",
            (Write::Intent(_), Err(_)) => "intent refused",
            (Write::Permit(_), Ok(_)) => "permit",
            (Write::Permit(_), Err(_)) => "permit refused",
            (Write::Final(_), Ok(_)) if rows.iter().any(|row| row.outcome == Some(Outcome::Success)) => {
                "fenced"
            }
            (Write::Final(_), Ok(_)) => "not fenced",
            (Write::Final(_), Err(_)) => "final refused",
            (Write::RecoveryStarted { .. }, Ok(_)) => "recovery",
            (Write::Observed(_), Ok(_)) if !rows.is_empty() => "returned",
            (Write::Withdraw(_), Ok(_)) if !rows.is_empty() => "withdrawn",
            (Write::Proof(_), Ok(_)) if !rows.is_empty() => "proof",
            _ => "other",
        };
        self.count(what);
    }

    async fn compare(&self) {
        let wanted = self.memory.read(self.now);
        let got = self.store.persisted(&self.config).await.unwrap();
        assert!(is_same(&wanted, &got), "wanted {wanted:#?}\n got {got:#?}");
    }

    async fn compare_the_trail(&self) {
        let trail = self.store.audit(&AuditQuery { limit: 100_000, ..AuditQuery::default() }).await.unwrap();
        let ours = trail.iter().filter(|row| row.action.starts_with("cluster."));
        assert_eq!(ours.count(), self.audited);
        for node in self.nodes.values() {
            assert_whole(&self.store.entries(&by_uuid(node)).await.unwrap().unwrap());
        }
    }
}

fn is_near(a: Duration, b: Duration) -> bool {
    a.abs_diff(b) < TOLERANCE
}

fn are_near(a: Option<Duration>, b: Option<Duration>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => is_near(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn is_same_member(a: &MemberRow, b: &MemberRow) -> bool {
    let proof = match (&a.proof, &b.proof) {
        (Some(a), Some(b)) => {
            (a.kind, a.incarnation, a.recovery_started) == (b.kind, b.incarnation, b.recovery_started)
                && is_near(a.age, b.age)
        }
        (a, b) => a.is_none() && b.is_none(),
    };
    let rest = |row: &MemberRow| MemberRow { last_online: None, proof: None, ..row.clone() };
    proof && are_near(a.last_online, b.last_online) && rest(a) == rest(b)
}

/// Equal, but for the time that the test itself took.
fn is_same(a: &Persisted, b: &Persisted) -> bool {
    a.members.keys().eq(b.members.keys())
        && a.members.values().zip(b.members.values()).all(|(a, b)| is_same_member(a, b))
        && a.open == b.open
        && a.sends.len() == b.sends.len()
        && a.sends
            .iter()
            .zip(&b.sends)
            .all(|(a, b)| (&a.member, a.uuid, a.open) == (&b.member, b.uuid, b.open) && is_near(a.age, b.age))
        && are_near(a.history_gap, b.history_gap)
}

/// One sequence; another seed gives another one.
const SEED: u64 = 2;
const STEPS: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_writes_come_to_the_same_as_in_memory() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let mut nodes = BTreeMap::new();
        for name in NODES {
            nodes.insert(name, make_node(&store, name).await);
        }
        let config = LeaderConfig {
            power_locking_types: vec!["operator_hold".into()],
            ..LeaderConfig::new(limits(), "w1")
        };
        let mut pair = Pair {
            store,
            memory: MemoryStore::new(&config.limits),
            config,
            now: secs(1_000_000),
            dice: Dice(SEED),
            holders: (0..3).map(|_| super::rig::holder()).collect(),
            leaders: Vec::new(),
            records: Vec::new(),
            nodes,
            held: BTreeMap::new(),
            found: BTreeMap::new(),
            audited: 0,
            told: Vec::new(),
            seen: BTreeMap::new(),
        };
        pair.campaign().await;
        for _ in 0..STEPS {
            pair.step().await;
        }
        pair.compare().await;
        pair.compare_the_trail().await;
        println!("{:?}", pair.seen);
        for what in [
            "acquired",
            "trusted",
            "trust refused",
            "renewed",
            "renewal refused",
            "resigned",
            "confirmed",
            "deposed",
            "intent",
            "intent refused",
            "permit",
            "permit refused",
            "fenced",
            "not fenced",
            "final refused",
            "returned",
            "recovery",
            "withdrawn",
            "proof",
        ] {
            assert!(pair.seen.contains_key(what), "never {what}: {:?}", pair.seen);
        }
    })
    .await;
}

//! Who may write when two would: takeovers, expiry, campaigns, a person's word at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apelora_fencing::name::{Epoch, Incarnation};
use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::time::BootTime;
use apelora_fencing::write::{CommitError, Committed, Numbers, Refusal};
use apelora_fencing::{Limits, ReasonCode, Write};
use apelora_maintenance::Scope;
use apelora_store::{AuditQuery, Engine, Leader, LeaderConfig, PersonsWord, ProofQuery, Store, Voided};
use tokio::task::JoinSet;

use super::permits::request;
use super::rig::{
    HandClock, HeldNode, commit, config, failed, holder, intent, lead, lead_as, online, record_id, secs,
    success,
};
use crate::lab::{Lab, make_node, on_every_engine, stamp, who};

/// A write that leaves an audit row.
fn trace() -> Write {
    let refusal = Refusal {
        member: "a".into(),
        reasons: [ReasonCode::NotMinority].into(),
        numbers: Numbers::default(),
    };
    Write::Refused(vec![refusal])
}

fn word(life: u64) -> PersonsWord {
    PersonsWord {
        member: "a".into(),
        shown: Incarnation(life),
        reason: "it is off".into(),
        by: who(Scope::System, "anna", ""),
    }
}

/// Everything that a write which was not made must leave as it was.
async fn fingerprint(lab: &Lab) -> Vec<i64> {
    let mut numbers = Vec::new();
    for table in ["apelora_leader_lease", "apelora_member", "apelora_fence_record"] {
        numbers.push(lab.number(&format!("SELECT COALESCE(SUM(touched), 0) FROM {table}")).await);
    }
    for table in [
        "apelora_member",
        "apelora_fence_record",
        "apelora_fence_evidence",
        "apelora_proof",
        "apelora_bmc_check",
        "apelora_recovery",
        "apelora_inventory",
        "apelora_audit",
        "apelora_change",
        "node_maintenance",
        "node_history",
    ] {
        numbers.push(lab.number(&format!("SELECT COUNT(*) FROM {table}")).await);
    }
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_takeover_waits_for_a_write_that_began_before_it() {
    on_every_engine(|lab| async move {
        if lab.engine == Engine::Sqlite {
            // Two writers never overlap there; `no_write_of_an_older_leader_follows_one_of_a_newer` has it, too.
            return;
        }
        let store = lab.store().await;
        let node = make_node(&store, "a").await;
        // The intent looks at the node, where this test can hold it up.
        let config = LeaderConfig { power_locking_types: vec!["operator_hold".into()], ..config() };
        let old = Arc::new(lead_as(&store, &config).await);
        failed(&old, "a").await;
        let held = HeldNode::lock(&store, &node).await;
        let record = record_id();
        let touched = lab.number("SELECT touched FROM apelora_leader_lease").await;
        let writing = tokio::spawn({
            let old = old.clone();
            async move { old.commit(Write::Intent(intent("a", 1, record))).await.result }
        });
        // For the other one the lease has expired meanwhile.
        let other = Store::connect(&lab.config).await.unwrap();
        other.shift_clock(secs(31));
        let taking = tokio::spawn({
            let (other, config) = (other.clone(), config.clone());
            async move {
                // Give the write the time to touch the lease; without it the test only shows less.
                tokio::time::sleep(Duration::from_millis(300)).await;
                let clock = Arc::<HandClock>::default();
                other.campaign(&config, holder(), clock).await.unwrap().unwrap()
            }
        });
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert!(
            !taking.is_finished() && !writing.is_finished(),
            "one waits for the node, the other for the lease"
        );
        assert_eq!(
            lab.number("SELECT touched FROM apelora_leader_lease").await,
            touched,
            "nothing is committed"
        );
        held.let_go().await;
        assert_eq!(writing.await.unwrap(), Ok(Committed::Done));
        let new = taking.await.unwrap();
        assert_eq!((new.epoch(), old.epoch()), (Epoch(2), Epoch(1)));
        // The new leader sees it; the old one writes no more.
        let read = new.commit(Write::ReadBack(record)).await.result;
        assert_eq!(read, Ok(Committed::Record(Some(RecordStatus::Intent))));
        let before = fingerprint(&lab).await;
        for write in [trace(), online("a"), Write::Final(success(record)), Write::Adopt(record)] {
            assert_eq!(old.commit(write).await.result, Err(CommitError::Deposed));
        }
        assert_eq!(old.permit(request(record, false)).await.0.map(drop), Err(CommitError::Deposed));
        assert_eq!(old.renew().await, Err(CommitError::Deposed));
        assert_eq!(fingerprint(&lab).await, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_write_of_an_older_leader_follows_one_of_a_newer() {
    on_every_engine(|lab| async move {
        lab.store().await;
        let clock = Arc::new(AtomicU64::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..3 {
            // Each with connections of its own, as a process has.
            let store = Store::connect(&lab.config).await.unwrap();
            let clock = clock.clone();
            workers.spawn(async move {
                let (mut mine, mut written, me) = (0, 0, holder());
                for _ in 0..12 {
                    // For this one, whoever leads has just expired.
                    let now = clock.fetch_add(31, Ordering::SeqCst) + 31;
                    store.shift_clock(secs(now - mine));
                    mine = now;
                    let campaign = store.campaign(&config(), me, Arc::<HandClock>::default()).await;
                    let Ok(Some(leader)) = campaign else { continue };
                    for _ in 0..4 {
                        let done = leader.commit(trace()).await;
                        written += u32::from(done.result.is_ok());
                        assert!(
                            matches!(
                                done.result,
                                Ok(_) | Err(CommitError::Deposed | CommitError::Unavailable)
                            ),
                            "{done:?}"
                        );
                    }
                }
                written
            });
        }
        let written: u32 = workers.join_all().await.into_iter().sum();
        let store = Store::connect(&lab.config).await.unwrap();
        let rows = store.audit(&AuditQuery { limit: 10_000, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(rows.len(), usize::try_from(written).unwrap());
        let epochs: Vec<i64> = rows.iter().map(|row| row.epoch.unwrap()).collect();
        assert!(epochs.is_sorted(), "{epochs:?}");
        println!(
            "{written} writes of {} leaders",
            epochs.iter().collect::<std::collections::BTreeSet<_>>().len()
        );
        assert!(epochs.last() > epochs.first(), "there was no takeover");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_expired_lease_is_neither_renewed_nor_written_under() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let (me, clock) = (holder(), Arc::<HandClock>::default());
        clock.advance(secs(100));
        let leader = store.campaign(&config(), me, clock.clone()).await.unwrap().unwrap();
        // ttl less margin, from the reading before the request.
        assert_eq!(leader.deadline(), BootTime::new(secs(125)));
        clock.advance(secs(10));
        store.shift_clock(secs(10));
        assert_eq!(leader.renew().await, Ok(BootTime::new(secs(135))));
        let lease = store.lease().await.unwrap();
        assert_eq!((lease.holder, lease.epoch, lease.host.as_str()), (Some(me), Epoch(1), "w1"));
        assert!(lease.expires_in.unwrap() > secs(20));
        assert!(
            store.campaign(&config(), me, clock.clone()).await.unwrap().is_none(),
            "not even by the same one"
        );

        store.shift_clock(secs(31));
        assert_eq!(store.lease().await.unwrap().expires_in, None);
        let before = fingerprint(&lab).await;
        assert_eq!(leader.commit(online("a")).await.result, Err(CommitError::Deposed));
        assert_eq!(leader.deadline(), BootTime::default());
        assert_eq!(leader.renew().await, Err(CommitError::Deposed));
        assert_eq!(leader.publish("{}").await, Err(CommitError::Deposed));
        leader.resign().await;
        assert_eq!(fingerprint(&lab).await, before);
        let again = store.campaign(&config(), me, clock).await.unwrap().unwrap();
        assert_eq!(again.epoch(), Epoch(2), "a fresh acquisition, not a renewal");
        // An old value of the same process is of an old epoch.
        assert_eq!(leader.commit(online("a")).await.result, Err(CommitError::Deposed));
        again.resign().await;
        let lease = store.lease().await.unwrap();
        assert_eq!((lease.holder, lease.epoch, lease.expires_in), (Some(me), Epoch(2), None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_campaigners_one_leads_and_the_epoch_only_grows() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let stores = [store.clone(), Store::connect(&lab.config).await.unwrap()];
        for round in 1..=4 {
            let mut campaigns = JoinSet::new();
            for i in 0..20 {
                let store = stores[i % 2].clone();
                campaigns.spawn(async move {
                    store.campaign(&config(), holder(), Arc::<HandClock>::default()).await
                });
            }
            let mut leaders: Vec<Leader> =
                campaigns.join_all().await.into_iter().filter_map(Result::unwrap).collect();
            assert_eq!(leaders.len(), 1, "round {round}");
            assert_eq!(leaders.pop().unwrap().epoch(), Epoch(round));
            for store in &stores {
                store.shift_clock(secs(31));
            }
        }
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_leader_lease").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_persons_word_at_the_same_moment_comes_before_or_after_and_never_between() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        make_node(&store, "a").await;
        // Another process.
        let server = Store::connect(&lab.config).await.unwrap();
        let mut orders = [[0, 0], [0, 0], [0, 0]];
        let mut life = 0;
        let limits = Limits { loop_guard: Duration::ZERO, lease_ttl: secs(3_600), ..Limits::PRODUCTION };
        let leader = lead_as(&store, &LeaderConfig::new(limits, "w1")).await;
        for round in 0..8 {
            for (what, orders) in orders.iter_mut().enumerate() {
                failed(&leader, "a").await;
                life += 1;
                let record = record_id();
                let open = Write::Intent(intent("a", life, record));
                let confirmed = Err(CommitError::Refused(ReasonCode::PersonConfirmed));
                let (word, at) = (word(life), stamp());
                // Now the one, now the other has a start.
                let late = async |first: bool| {
                    if (round % 2 == 0) == first {
                        tokio::time::sleep(Duration::from_micros(300 * round)).await;
                    }
                };
                let confirm = async {
                    late(true).await;
                    server.confirm_off(&word, &at).await.unwrap()
                };
                let first = match what {
                    0 => {
                        let (_, done) = tokio::join!(confirm, async {
                            late(false).await;
                            leader.commit(open).await.result
                        });
                        assert!(done == Ok(Committed::Done) || done == confirmed, "{done:?}");
                        let made = store.fence_record(record).await.unwrap().is_some();
                        assert_eq!(made, done.is_ok());
                        if made {
                            let permit = leader.permit(request(record, false)).await.0.map(drop);
                            assert_eq!(permit, Err(CommitError::Refused(ReasonCode::PersonConfirmed)));
                            let last = super::rig::ended(record, ReasonCode::PersonConfirmed, false);
                            commit(&leader, Write::Final(last)).await;
                        }
                        made
                    }
                    1 => {
                        commit(&leader, open).await;
                        let (_, permit) = tokio::join!(confirm, async {
                            late(false).await;
                            leader.permit(request(record, false)).await.0.map(drop)
                        });
                        let refused = Err(CommitError::Refused(ReasonCode::PersonConfirmed));
                        assert!(permit == Ok(()) || permit == refused, "{permit:?}");
                        let (row, _) = store.fence_record(record).await.unwrap().unwrap();
                        assert_eq!(row.permit_at.is_some(), permit.is_ok());
                        let reason =
                            if permit.is_ok() { ReasonCode::NeverOff } else { ReasonCode::PersonConfirmed };
                        let last = super::rig::ended(record, reason, permit.is_ok());
                        commit(&leader, Write::Final(last)).await;
                        permit.is_ok()
                    }
                    _ => {
                        commit(&leader, open).await;
                        assert!(leader.permit(request(record, false)).await.0.is_ok());
                        let (_, done) = tokio::join!(confirm, async {
                            late(false).await;
                            leader.commit(Write::Final(success(record))).await
                        });
                        assert_eq!(done.result, Ok(Committed::Proof(true)));
                        let query =
                            ProofQuery { member: Some("a".into()), limit: 2, ..ProofQuery::default() };
                        let proofs = store.proofs(&query).await.unwrap();
                        let replaced = proofs[1].kind == ProofKind::PowerOff
                            && proofs[1].incarnation == Incarnation(life);
                        if replaced {
                            assert_eq!(proofs[1].voided, Some(Voided::Replaced));
                        }
                        replaced
                    }
                };
                orders[usize::from(first)] += 1;
                let members = store.stored_members().await.unwrap();
                let proof = members[0].row.standing_proof().unwrap();
                assert_eq!(proof.kind, ProofKind::Person, "a person's word always wins");
                let fault = "SELECT COUNT(*) FROM node_maintenance WHERE type = 'fault'";
                assert_eq!(lab.number(fault).await, 1);
            }
        }
        println!("word first, write first: {orders:?}");
        let finals = "SELECT COUNT(*) FROM apelora_audit WHERE action = 'cluster.member.power_off'";
        let records = "SELECT COUNT(*) FROM apelora_fence_record";
        assert_eq!(lab.number(finals).await, lab.number(records).await);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_that_is_first_seen_and_first_confirmed_at_the_same_moment_is_both() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let server = Store::connect(&lab.config).await.unwrap();
        let leader = lead(&store).await;
        for i in 0..12 {
            let name = format!("n{i}");
            let word = PersonsWord { member: name.as_str().into(), ..word(0) };
            let at = stamp();
            let (confirmed, seen) =
                tokio::join!(server.confirm_off(&word, &at), leader.commit(super::rig::away(&name)),);
            assert!(confirmed.is_ok() && seen.result.is_ok(), "{confirmed:?} {seen:?}");
        }
        let members = store.stored_members().await.unwrap();
        assert_eq!(members.len(), 12);
        assert!(members.iter().all(|m| m.row.is_fenced()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refused_write_leaves_nothing() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        make_node(&store, "a").await;
        let leader = lead(&store).await;
        failed(&leader, "a").await;
        let record = record_id();
        commit(&leader, Write::Intent(intent("a", 1, record))).await;
        let before = fingerprint(&lab).await;
        for write in [
            Write::Intent(intent("a", 1, record_id())),
            Write::Permit(request(record, true)),
            Write::Permit(request(record_id(), false)),
            Write::Final(success(record_id())),
            Write::RecoveryStarted { member: "a".into(), incarnation: Incarnation(1) },
        ] {
            let done = leader.commit(write).await;
            assert!(matches!(done.result, Err(CommitError::Refused(_))), "{done:?}");
            assert_eq!(done.audit, []);
        }
        assert!(store.confirm_off(&word(9), &stamp()).await.is_err());
        assert_eq!(fingerprint(&lab).await, before);
        // Two open records are impossible whatever the code does.
        let second = "INSERT INTO apelora_fence_record (id, member, incarnation, status, provider, target, mapping_sha256, \
             offline_ms, members_total, members_offline, lease_remaining_ms, incus_responder, epoch, holder, intent_at, \
             off_readings, other_readings, open_slot, touched) SELECT 'x', member, incarnation, status, provider, target, \
             mapping_sha256, offline_ms, members_total, members_offline, lease_remaining_ms, incus_responder, epoch, holder, \
             intent_at, off_readings, other_readings, open_slot, touched FROM apelora_fence_record";
        let lab = lab.clone();
        assert!(tokio::spawn(async move { lab.sql(second).await }).await.is_err());
    })
    .await;
}

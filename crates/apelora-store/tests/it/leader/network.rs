//! A leader whose database answers late, not at all, or not to a COMMIT.

use std::sync::Arc;

use apelora_fencing::record::RecordStatus;
use apelora_fencing::time::BootTime;
use apelora_fencing::write::{AuditAction, CommitError, Committed};
use apelora_fencing::{Limits, Write};
use apelora_store::{Engine, LeaderConfig, Store};

use super::permits::request;
use super::rig::{
    HandClock, HeldNode, commit, failed, holder, intent, lead, online, record_id, secs, success,
};
use crate::lab::{Lab, make_node, on_every_engine};
use crate::proxy::{Break, Proxy};

fn has_no_network(lab: &Lab) -> bool {
    lab.engine == Engine::Sqlite
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_without_an_answer_is_unknown_and_reading_back_tells() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        let direct = lab.store().await;
        make_node(&direct, "a").await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        let leader = lead(&store).await;
        let mut life = 0;
        // What happens to the COMMIT, and whether it was made all the same.
        for (way, made) in [(Break::Before, false), (Break::After, true), (Break::Later, true)] {
            failed(&leader, "a").await;
            life += 1;
            let record = record_id();
            let mut open = intent("a", life, record);
            open.uuid = None;
            proxy.plan(&[way]);
            assert_eq!(
                leader.commit(Write::Intent(open.clone())).await.result,
                Err(CommitError::Unknown),
                "{way:?}"
            );
            assert!(proxy.is_done());
            let read = commit(&leader, Write::ReadBack(record)).await.result;
            assert_eq!(read, Ok(Committed::Record(made.then_some(RecordStatus::Intent))), "{way:?}");
            if !made {
                commit(&leader, Write::Intent(open)).await;
            }
            // No permit comes of an unanswered commit, although the record may say that something was sent.
            proxy.plan(&[way]);
            assert_eq!(leader.permit(request(record, false)).await.0.map(drop), Err(CommitError::Unknown));
            let read = commit(&leader, Write::ReadBack(record)).await.result;
            let status = if made { RecordStatus::Sent } else { RecordStatus::Intent };
            assert_eq!(read, Ok(Committed::Record(Some(status))), "{way:?}");

            proxy.plan(&[way]);
            let done = leader.commit(Write::Final(success(record))).await;
            assert_eq!((done.result, done.audit), (Err(CommitError::Unknown), vec![]));
            let done = commit(&leader, Write::ReadBack(record)).await;
            let status = if made { RecordStatus::Fenced } else { status };
            assert_eq!(done.result, Ok(Committed::Record(Some(status))), "{way:?}");
            // What was audited is counted, though late and once.
            let told: Vec<_> = done.audit.iter().map(|row| row.action).collect();
            let wanted: &[_] = if made { &[AuditAction::PowerOff, AuditAction::Fenced] } else { &[] };
            assert_eq!(told, wanted, "{way:?}");
            assert_eq!(commit(&leader, Write::ReadBack(record)).await.audit, []);
            if !made {
                commit(&leader, Write::Final(success(record))).await;
            }
        }
        let audited = "SELECT COUNT(*) FROM apelora_audit WHERE action = 'cluster.member.power_off'";
        assert_eq!(lab.number(audited).await, 3);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_proof").await, 3);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_that_the_database_gave_up_is_run_again() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        lab.store().await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        let leader = lead(&store).await;
        proxy.plan(&[Break::GiveUp, Break::GiveUp]);
        commit(&leader, online("a")).await;
        assert!(proxy.is_done());
        let row = store.stored_members().await.unwrap()[0].row.clone();
        assert!(row.online && row.incarnation.0 == 1, "once: {row:?}");
        // For ever is too long for a lease.
        proxy.plan(&[Break::GiveUp; 50]);
        assert_eq!(leader.commit(online("b")).await.result, Err(CommitError::Unavailable));
        assert!(!proxy.is_done());
        proxy.plan(&[]);
        assert_eq!(store.stored_members().await.unwrap().len(), 1);
        assert_eq!(store.health().retries.deadlock + store.health().retries.serialization, 6);
    })
    .await;
}

/// A second for a statement. An answer never comes while the proxy is stalled: whatever ends meanwhile has a limit.
fn impatient() -> LeaderConfig {
    let limits = Limits { lease_statement: secs(1), ..Limits::PRODUCTION };
    LeaderConfig::new(limits, "w1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_does_not_answer_stops_neither_renewal_nor_writes_for_long() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        lab.store().await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        let clock = Arc::<HandClock>::default();
        let leader = store.campaign(&impatient(), holder(), clock.clone()).await.unwrap().unwrap();
        let deadline = leader.deadline();
        leader.renew().await.unwrap();
        clock.advance(secs(10));
        proxy.stall(true);
        for _ in 0..2 {
            let late = leader.renew().await;
            assert!(matches!(late, Err(CommitError::Unavailable | CommitError::Unknown)), "{late:?}");
        }
        assert_eq!(leader.deadline(), deadline, "never later without an answer");
        assert_eq!(leader.commit(online("a")).await.result, Err(CommitError::Unavailable));
        proxy.stall(false);
        assert_eq!(leader.renew().await, Ok(deadline + secs(10)));
        commit(&leader, online("a")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_renewal_waits_for_nobody_elses_statements() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        let mut config = lab.config.clone();
        config.connections = 1;
        Store::upgrade(&config).await.unwrap();
        let store = Store::connect(&config).await.unwrap();
        let node = make_node(&store, "a").await;
        let leader =
            store.campaign(&impatient(), holder(), Arc::<HandClock>::default()).await.unwrap().unwrap();
        let held = HeldNode::lock(&store, &node).await;
        // The only connection that is shared is in use.
        assert_eq!(leader.commit(online("a")).await.result, Err(CommitError::Unavailable));
        for _ in 0..2 {
            assert_eq!(leader.renew().await, Ok(BootTime::new(secs(25))));
        }
        held.let_go().await;
        commit(&leader, online("a")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_renewal_on_a_connection_that_broke_is_unknown_once_and_the_next_has_another_one() {
    on_every_engine(|lab| async move {
        if has_no_network(&lab) {
            return;
        }
        lab.store().await;
        let proxy = Proxy::before(&lab).await;
        let store = Store::connect(&proxy.config).await.unwrap();
        let leader =
            store.campaign(&impatient(), holder(), Arc::<HandClock>::default()).await.unwrap().unwrap();
        leader.renew().await.unwrap();
        // Every COMMIT of it breaks the connection; the next renewal has another one.
        for way in [Break::Before, Break::After] {
            proxy.plan(&[way]);
            assert_eq!(leader.renew().await, Err(CommitError::Unknown));
            assert!(leader.renew().await.is_ok(), "{way:?}");
        }
    })
    .await;
}

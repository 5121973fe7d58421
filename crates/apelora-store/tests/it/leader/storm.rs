//! Everybody at one member's node at once: persons' words, people who set and clear its flag, its deletion and return, and
//! the leader's proofs. Nobody waits in a circle, and nothing is half made.

use std::time::Duration;

use apelora_fencing::name::Incarnation;
use apelora_fencing::write::{CommitError, Committed};
use apelora_fencing::{Limits, ReasonCode, Write};
use apelora_maintenance::{Denial, Operation, Scope, plan};
use apelora_store::{Leader, LeaderConfig, NodeChange, NodeKey, PersonsWord, Store};
use tokio::task::JoinSet;

use super::permits::request;
use super::rig::{ended, failed, intent, lead_as, online, record_id, secs, success};
use crate::lab::{make_node, on_every_engine, operate, set, stamp, system, who};

const MEMBERS: [&str; 3] = ["a", "b", "c"];
const ROUNDS: u64 = 5;

/// A node that is gone, or another one of its name by now, is no failure here; a database that gives up is.
fn must_be_decided<T: std::fmt::Debug, E: std::fmt::Display>(done: Result<T, E>) {
    if let Err(why) = done {
        let why = why.to_string();
        assert!(!why.contains("not available") && !why.contains("could not make"), "{why}");
    }
}

async fn delete(store: &Store, name: &str) {
    let stamp = stamp();
    let done = store
        .change_node(&NodeKey::Name(name.to_owned()), &stamp, |on| {
            let plan = plan(&Operation::DeleteNode, &on.node, &system(), &mut |_| true, &stamp)?;
            Ok::<_, Denial>(NodeChange { plan: Some(plan), remove_node: true, ..NodeChange::default() })
        })
        .await;
    must_be_decided(done);
}

/// Sets and clears the flag on whatever node has the name now, as the API does.
async fn people(store: Store, name: &'static str) {
    for _ in 0..6 {
        let Some(row) = store.node(&NodeKey::Name(name.to_owned()), &[]).await.unwrap() else { continue };
        let uuid = row.facts().uuid;
        must_be_decided(operate(&store, &uuid, &set("looked at"), &system(), &stamp()).await);
        must_be_decided(operate(&store, &uuid, &Operation::ReleaseAll, &system(), &stamp()).await);
    }
}

async fn coming_and_going(store: Store, name: &'static str) {
    for _ in 0..3 {
        delete(&store, name).await;
        make_node(&store, name).await;
    }
}

async fn word(store: Store, name: &'static str, life: u64) {
    for _ in 0..3 {
        let word = PersonsWord {
            member: name.into(),
            shown: Incarnation(life),
            reason: "it is off".into(),
            by: who(Scope::System, "anna", ""),
        };
        store.confirm_off(&word, &stamp()).await.unwrap();
    }
}

/// A power-off of the member, as far as no person's word stands before it.
async fn power_off(leader: &Leader, name: &'static str, life: u64) {
    let record = record_id();
    let mut intent = intent(name, life, record);
    intent.uuid = None;
    match leader.commit(Write::Intent(intent)).await.result {
        Ok(Committed::Done) => {}
        Err(CommitError::Refused(_)) => return,
        other => panic!("{other:?}"),
    }
    let permit = leader.permit(request(record, false)).await.0.map(drop);
    assert!(matches!(permit, Ok(()) | Err(CommitError::Refused(_))), "{permit:?}");
    let last = match permit {
        Ok(()) => success(record),
        Err(_) => ended(record, ReasonCode::PersonConfirmed, false),
    };
    let done = leader.commit(Write::Final(last)).await;
    assert!(done.result.is_ok(), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_at_one_node_at_once_comes_to_an_end() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let server = Store::connect(&lab.config).await.unwrap();
        for name in MEMBERS {
            make_node(&store, name).await;
        }
        let limits = Limits { loop_guard: Duration::ZERO, lease_ttl: secs(3_600), ..Limits::PRODUCTION };
        let leader = lead_as(&store, &LeaderConfig::new(limits, "w1")).await;
        for life in 1..=ROUNDS {
            for name in MEMBERS {
                failed(&leader, name).await;
            }
            let mut others = JoinSet::new();
            for name in MEMBERS {
                others.spawn(people(server.clone(), name));
                others.spawn(coming_and_going(server.clone(), name));
                others.spawn(word(server.clone(), name, life));
            }
            for name in MEMBERS {
                power_off(&leader, name, life).await;
                leader.publish("{}").await.unwrap();
            }
            others.join_all().await;
            for name in MEMBERS {
                let on = store.entries(&NodeKey::Name(name.to_owned())).await.unwrap().unwrap();
                crate::lab::assert_whole(&on);
            }
            let members = store.stored_members().await.unwrap();
            assert!(members.iter().all(|member| member.row.is_fenced()), "{members:?}");
            for name in MEMBERS {
                let done = leader.commit(online(name)).await;
                assert!(done.result.is_ok(), "{done:?}");
            }
            // What had to wait is released now.
            leader.publish("{}").await.unwrap();
            leader.publish("{}").await.unwrap();
            let faults = "SELECT COUNT(*) FROM node_maintenance WHERE type = 'fault'";
            assert_eq!(lab.number(faults).await, 0);
            let due = "SELECT COUNT(*) FROM apelora_member WHERE fault_state IS NOT NULL";
            assert_eq!(lab.number(due).await, 0);
        }
        println!("run again: {:?}", server.health().retries);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_fence_record WHERE open_slot = 1").await, 0);
    })
    .await;
}

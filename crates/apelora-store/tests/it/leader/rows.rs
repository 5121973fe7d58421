//! What is written with a write, and read again: records, evidence, proofs, the audit trail.

use std::time::Duration;

use apelora_fencing::name::Incarnation;
use apelora_fencing::proof::PowerWord;
use apelora_fencing::record::{ProofKind, RecordStatus};
use apelora_fencing::restart::{Evacuate, Instance};
use apelora_fencing::write::{
    AuditAction, Check, CommitError, Committed, Found, Numbers, Refusal, Withdrawal,
};
use apelora_fencing::{ReasonCode, Write};
use apelora_maintenance::Scope;
use apelora_store::{
    AuditQuery, AuditRecord, ConfirmError, Direction, PersonsWord, ProofQuery, RecordQuery, Store, Voided,
};
use serde_json::Value;

use super::permits::request;
use super::rig::{
    away, commit, ended, failed, intent, lead, lease_dead, lease_seen, online, record_id, secs, success,
    uuid, watched,
};
use crate::lab::{make_node, on_every_engine, stamp, who};

/// The newest rows of the trail about a member.
pub async fn trail(store: &Store, member: &str) -> Vec<AuditRecord> {
    let query = AuditQuery {
        member: Some(member.into()),
        direction: Direction::Descending,
        limit: 100,
        ..AuditQuery::default()
    };
    store.audit(&query).await.unwrap()
}

fn evidence(row: &AuditRecord) -> Value {
    serde_json::from_str(&row.evidence).unwrap()
}

pub fn instance(name: &str, member: &str) -> Instance {
    Instance {
        project: "default".into(),
        name: name.into(),
        member: member.into(),
        architecture: "x86_64".into(),
        autostart: Some(true),
        priority: -3,
        was_running: true,
        evacuate: Evacuate::Migrate,
        ephemeral: false,
        shared_storage: true,
        local_device: false,
        has_backups: true,
        memory: Some(4 << 30),
    }
}

fn word(member: &str, shown: u64) -> PersonsWord {
    PersonsWord {
        member: member.into(),
        shown: Incarnation(shown),
        reason: "I pulled its plug".into(),
        by: who(Scope::System, "anna", "ops"),
    }
}

/// The machine counts from its decision. When the database was slow to take the intent, its own clock has moved less.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_seen_after_the_end_of_its_record() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let leader = lead(&store).await;
        failed(&leader, "s1").await;
        let record = record_id();
        commit(&leader, Write::Intent(intent("s1", 1, record))).await;
        leader.permit(request(record, false)).await.0.unwrap();
        // Its last reading came 4 s after the decision; not a second has passed since the intent.
        commit(&leader, Write::Final(success(record))).await;
        let (row, seen) = store.fence_record(record).await.unwrap().unwrap();
        let end = row.final_at.unwrap();
        assert!(end < row.intent_at + secs(4));
        assert_eq!(seen.iter().map(|e| e.at).max(), Some(end), "{seen:?}");
        assert_eq!(row.first_off_at, Some(end - Duration::from_millis(1_500)));
        let told = evidence(&trail(&store, "s1").await[1]);
        assert_eq!(told["times"]["second_off_at"], told["times"]["final_at"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_power_off_leaves_everything_that_is_to_be_known() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let node = make_node(&store, "s1").await;
        let leader = lead(&store).await;
        failed(&leader, "s1").await;
        leader.note_inventory(&"s1".into(), &[instance("web", "s1"), instance("db", "s1")]).await.unwrap();
        let record = record_id();
        commit(&leader, Write::Intent(intent("s1", 1, record))).await;
        let (permit, audit) = leader.permit(request(record, false)).await;
        assert_eq!((permit.unwrap().record(), audit.len()), (record, 0));
        store.shift_clock(secs(5));
        let done = commit(&leader, Write::Final(success(record))).await;
        assert_eq!(done.result, Ok(Committed::Proof(true)));
        let actions: Vec<AuditAction> = done.audit.iter().map(|row| row.action).collect();
        assert_eq!((actions, done.warnings), (vec![AuditAction::PowerOff, AuditAction::Fenced], vec![]));

        let rows = trail(&store, "s1").await;
        let [fenced, power_off] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(power_off.action, "cluster.member.power_off");
        assert_eq!(
            (power_off.outcome.as_str(), power_off.reason_code.as_deref()),
            ("success", Some("powered_off"))
        );
        assert_eq!(
            (power_off.user.as_str(), power_off.scope.as_str(), power_off.epoch),
            ("system:worker", "system", Some(1))
        );
        assert_eq!(power_off.hardware_uuid, Some(uuid(7).to_string()));
        assert_eq!((power_off.node_uuid.as_ref(), power_off.node_name.as_deref()), (Some(&node), Some("s1")));
        assert_eq!(
            power_off.summary,
            "s1 is proven off by its BMC. The member was switched off and reads Off."
        );
        let told = evidence(power_off);
        // Everything that tests/data/fencing/README.md section 7 names.
        for path in [
            "/record",
            "/member",
            "/incarnation",
            "/hardware_uuid",
            "/provider",
            "/target",
            "/mapping_sha256",
            "/epoch",
            "/holder",
            "/host",
            "/made_by/epoch",
            "/sent",
            "/already_off",
            "/guards/offline_s",
            "/guards/members_total",
            "/guards/members_offline",
            "/guards/last_online_at",
            "/guards/lease_remaining_s",
            "/guards/responder",
            "/guards/second",
            "/times/intent_at",
            "/times/permit_at",
            "/times/send_at",
            "/times/first_off_at",
            "/times/second_off_at",
            "/times/final_at",
        ] {
            assert!(told.pointer(path).is_some_and(|value| !value.is_null()), "{path}: {told:#}");
        }
        assert_eq!(told["guards"]["last_power_off_at"], Value::Null, "there was none before");
        assert_eq!((&told["sent"], &told["already_off"]), (&Value::from(true), &Value::from(false)));
        assert_eq!(told["instances"], serde_json::json!(["default/db", "default/web"]));
        assert_eq!(told["seen"].as_array().unwrap().len(), 5);
        assert_eq!(
            (fenced.action.as_str(), &evidence(fenced)["kind"]),
            ("cluster.member.fenced", &"power-off".into())
        );

        let (row, seen) = store.fence_record(record).await.unwrap().unwrap();
        assert_eq!((row.status, row.sent, row.readings), (RecordStatus::Fenced, Some(true), (2, 1)));
        assert_eq!((row.reason.as_deref(), row.provider.as_str()), (Some("powered_off"), "redfish"));
        assert_eq!((row.offline_for, row.members_total, row.members_offline), (secs(35), 4, 1));
        assert_eq!(row.lease_remaining, Duration::from_millis(21_500));
        assert!(row.permit_at.unwrap() >= row.intent_at && row.final_at.unwrap() >= row.permit_at.unwrap());
        // The second Off came 4 s after the intent, the first one 1.5 s before it.
        assert_eq!(row.first_off_at, Some(row.intent_at + Duration::from_millis(2_500)));
        let seen: Vec<_> = seen.iter().map(|e| (e.kind.as_str(), e.outcome.as_str())).collect();
        let wanted = [
            ("incus", "offline"),
            ("identity", "opened"),
            ("power", "On"),
            ("send", "accepted"),
            ("power", "Off"),
            ("power", "Off"),
        ];
        assert_eq!(seen, wanted);

        let members = store.stored_members().await.unwrap();
        assert!(members[0].row.is_fenced());
        let proof = members[0].proof.as_ref().unwrap();
        assert_eq!((proof.kind, proof.record, proof.voided), (ProofKind::PowerOff, Some(record), None));
        let changes = "SELECT COUNT(*) FROM apelora_change WHERE kind = 'member' AND subject = 's1'";
        // Online, away, intent, permit, final.
        assert_eq!(lab.number(changes).await, 5);

        // Ten minutes later it is not Online yet: the loop guard counts this send for the next record.
        store.shift_clock(secs(20));
        leader.renew().await.unwrap();
        assert_eq!(store.persisted(&super::rig::config()).await.unwrap().sends.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_loop_guard_counts_by_name_and_hardware_until_the_member_is_back() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let leader = lead(&store).await;
        failed(&leader, "s1").await;
        failed(&leader, "s2").await;
        failed(&leader, "s1-new").await;
        let sent = async |member: &str, life: u64| {
            let record = record_id();
            let mut intent = intent(member, life, record);
            intent.uuid = Some(uuid(if member == "s2" { 9 } else { 7 }));
            let done = leader.commit(Write::Intent(intent)).await;
            if done.result.is_ok() {
                assert!(leader.permit(request(record, false)).await.0.is_ok());
                commit(&leader, Write::Final(ended(record, ReasonCode::NeverOff, true))).await;
            }
            done.result
        };
        let recently = Err(CommitError::Refused(ReasonCode::PoweredOffRecently));
        assert_eq!(sent("s1", 1).await, Ok(Committed::Done));
        assert_eq!(sent("s1", 1).await, recently);
        assert_eq!(sent("s2", 1).await, Ok(Committed::Done), "another member, other hardware");
        // Renamed: the same hardware under another name.
        assert_eq!(sent("s1-new", 1).await, recently);
        for _ in 0..30 {
            store.shift_clock(secs(20));
            leader.renew().await.unwrap();
        }
        assert_eq!(sent("s1", 1).await, Ok(Committed::Done), "600 s have passed");
        assert_eq!(sent("s1", 1).await, recently);
        store.shift_clock(Duration::from_millis(5));
        failed(&leader, "s1").await;
        assert_eq!(sent("s1", 2).await, Ok(Committed::Done), "it was Online since");
        let before = store.fence_records(&RecordQuery { limit: 1, ..RecordQuery::default() }).await.unwrap();
        assert!(before[0].last_power_off_at.is_some() && before[0].last_online_at.is_some());

        // SQLite's clock counts milliseconds, and what happens in the same one counts as not seen since.
        let a_moment = || store.shift_clock(Duration::from_millis(5));
        store.note_history_gap().await.unwrap();
        a_moment();
        let lost = Err(CommitError::Refused(ReasonCode::HistoryLost));
        failed(&leader, "s3").await;
        assert_eq!(sent("s3", 1).await, Ok(Committed::Done), "it was Online after the gap");
        failed(&leader, "s4").await;
        a_moment();
        store.note_history_gap().await.unwrap();
        let mut other = intent("s4", 1, record_id());
        other.uuid = Some(uuid(4));
        assert_eq!(leader.commit(Write::Intent(other)).await.result, lost);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn refusals_checks_and_proofs_without_a_record_are_audited() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let leader = lead(&store).await;
        let refusal = Refusal {
            member: "a".into(),
            reasons: [ReasonCode::NotMinority, ReasonCode::OfflineTooShort].into(),
            numbers: Numbers { members_total: 4, members_offline: 2, ..Numbers::default() },
        };
        let done = commit(&leader, Write::Refused(vec![refusal])).await;
        let row = &trail(&store, "a").await[0];
        assert_eq!(row.outcome, "refused");
        assert_eq!(row.reason_code.as_deref(), done.audit[0].reason.map(ReasonCode::as_str));
        assert_eq!(evidence(row)["reasons"].as_array().unwrap().len(), 2);
        assert_eq!(evidence(row)["guards"]["members_offline"], 2);

        let check = |found| Write::Checked(vec![Check { member: "a".into(), found }]);
        commit(&leader, check(Found::Good)).await;
        commit(&leader, check(Found::Bad(ReasonCode::TlsExpired))).await;
        let row = &trail(&store, "a").await[0];
        assert_eq!((row.outcome.as_str(), row.reason_code.as_deref()), ("failed", Some("tls_expired")));
        commit(&leader, online("a")).await;
        let stored = store.stored_members().await.unwrap();
        let found = stored[0].check.clone().unwrap();
        assert_eq!((found.found.as_str(), found.reason.as_deref()), ("bad", Some("tls_expired")));
        commit(&leader, check(Found::Contradiction)).await;
        assert!(store.stored_members().await.unwrap()[0].row.distrusted);
        assert_eq!(trail(&store, "a").await[0].action, "cluster.bmc.distrusted");
        let by = who(Scope::System, "anna", "ops");
        let refused = store.trust(&"a".into(), &by, "recabled", &stamp()).await;
        assert!(
            matches!(refused, Err(ConfirmError::Refused(ReasonCode::Distrusted))),
            "it contradicts still"
        );
        commit(&leader, check(Found::Good)).await;
        assert!(store.trust(&"a".into(), &by, "recabled", &stamp()).await.unwrap());
        assert!(!store.trust(&"a".into(), &by, "again", &stamp()).await.unwrap(), "it is trusted already");
        assert!(!store.trust(&"nobody".into(), &by, "", &stamp()).await.unwrap());
        let row = &trail(&store, "a").await[0];
        assert_eq!(
            (row.action.as_str(), row.user.as_str(), row.epoch),
            ("cluster.bmc.trusted", "anna", None)
        );

        let leases = apelora_fencing::write::Observation {
            member: "a".into(),
            seen: apelora_fencing::write::Seen::Online(vec![lease_seen()]),
        };
        commit(&leader, Write::Observed(vec![leases])).await;
        assert_eq!(store.stored_members().await.unwrap()[0].row.leases, [lease_seen()]);
        commit(&leader, away("a")).await;
        assert_eq!(commit(&leader, lease_dead("a", 1)).await.result, Ok(Committed::Proof(true)));
        let row = &trail(&store, "a").await[0];
        assert_eq!(
            (row.action.as_str(), &evidence(row)["kind"]),
            ("cluster.member.fenced", &"lease-dead".into())
        );
        assert_eq!(evidence(row)["lockspaces"][0]["owner_name"], "host-1");

        failed(&leader, "b").await;
        commit(&leader, watched("b", 1)).await;
        let row = &trail(&store, "b").await[0];
        assert_eq!(
            (&evidence(row)["ground"], row.hardware_uuid.clone()),
            (&"watched".into(), Some(uuid(7).to_string()))
        );
        let withdrawal = Withdrawal { member: "b".into(), incarnation: Incarnation(1), power: PowerWord::On };
        commit(&leader, Write::Withdraw(withdrawal)).await;
        let row = &trail(&store, "b").await[0];
        assert_eq!(
            (row.action.as_str(), &evidence(row)["read"]),
            ("cluster.member.proof_withdrawn", &"On".into())
        );
        let proofs = store.proofs(&ProofQuery { limit: 10, ..ProofQuery::default() }).await.unwrap();
        let voided: Vec<_> = proofs.iter().map(|p| (p.member.as_str(), p.voided)).collect();
        assert_eq!(voided, [("b", Some(Voided::Withdrawn)), ("a", None)]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_persons_word_is_kept_whatever_comes_after() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let leader = lead(&store).await;
        failed(&leader, "a").await;
        for (shown, online_first, reason) in
            [(0, false, ReasonCode::BackOnline), (1, true, ReasonCode::SeenOnline)]
        {
            if online_first {
                commit(&leader, online("a")).await;
            }
            let refused = store.confirm_off(&word("a", shown), &stamp()).await;
            assert!(matches!(&refused, Err(ConfirmError::Refused(r)) if *r == reason), "{refused:?}");
        }
        commit(&leader, away("a")).await;
        // A word about a member that nobody ever saw is taken; one that is refused leaves no row of it.
        assert!(store.confirm_off(&word("new", 3), &stamp()).await.is_err());
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_member").await, 1);
        store.confirm_off(&word("new", 0), &stamp()).await.unwrap();

        let record = record_id();
        commit(&leader, Write::Intent(intent("a", 2, record))).await;
        let confirmed = store.confirm_off(&word("a", 2), &stamp()).await.unwrap();
        assert_eq!(confirmed.audit.len(), 2);
        let (permit, _) = leader.permit(request(record, false)).await;
        assert_eq!(permit.map(drop), Err(CommitError::Refused(ReasonCode::PersonConfirmed)));
        commit(&leader, Write::Final(ended(record, ReasonCode::PersonConfirmed, false))).await;
        let (row, _) = store.fence_record(record).await.unwrap().unwrap();
        assert_eq!((row.status, row.sent), (RecordStatus::Superseded, Some(false)));
        let rows = trail(&store, "a").await;
        let actions: Vec<_> = rows.iter().take(3).map(|row| row.action.as_str()).collect();
        assert_eq!(
            actions,
            ["cluster.member.power_off", "cluster.member.fenced", "cluster.member.confirmed_off"]
        );
        let who: Vec<_> = rows.iter().take(3).map(|row| row.user.as_str()).collect();
        assert_eq!(who, ["system:worker", "anna", "anna"]);
        assert_eq!(evidence(&rows[2])["reason"], "I pulled its plug");

        // Said again, it takes the place of itself; what a restart builds on stays marked.
        let started = Write::RecoveryStarted { member: "a".into(), incarnation: Incarnation(2) };
        commit(&leader, started).await;
        store.confirm_off(&word("a", 2), &stamp()).await.unwrap();
        let query = ProofQuery { member: Some("a".into()), limit: 10, ..ProofQuery::default() };
        let proofs = store.proofs(&query).await.unwrap();
        let told: Vec<_> = proofs.iter().map(|p| (p.recovery_started, p.voided)).collect();
        assert_eq!(told, [(true, None), (true, Some(Voided::Replaced))]);
        let later = ProofQuery { before: Some(proofs[0].seq), ..query };
        let ids: Vec<_> = store.proofs(&later).await.unwrap().iter().map(|p| p.id).collect();
        assert_eq!(ids, [proofs[1].id]);
    })
    .await;
}

/// What a backup says about failures is what was true when it was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_restore_no_older_proof_counts_and_no_older_worker_leads() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let leader = lead(&store).await;
        for member in ["dead", "sent"] {
            failed(&leader, member).await;
        }
        commit(&leader, watched("dead", 1)).await;
        let is_fenced = async || store.stored_members().await.unwrap()[0].row.is_fenced();
        assert!(is_fenced().await);
        let epoch = store.lease().await.unwrap().epoch;

        assert_eq!(store.note_restored().await.unwrap(), 2);
        assert!(!is_fenced().await, "it may have come back since the backup");
        let deposed = leader.commit(watched("sent", 2)).await.result;
        assert_eq!(deposed, Err(CommitError::Deposed), "the worker was not stopped");
        let lease = store.lease().await.unwrap();
        assert!(lease.holder.is_none() && lease.expires_in.is_none() && lease.epoch > epoch, "{lease:?}");

        let next = lead(&store).await;
        let mut other = intent("sent", 2, record_id());
        other.uuid = Some(uuid(4));
        let refused = next.commit(Write::Intent(other)).await.result;
        assert_eq!(refused, Err(CommitError::Refused(ReasonCode::HistoryLost)));
        // Its power may be read, and a person may say so; the fault entry of the life before does not stand in the way.
        commit(&next, watched("dead", 2)).await;
        assert!(is_fenced().await);
        assert!(store.confirm_off(&word("sent", 1), &stamp()).await.is_err(), "of the life before");
        store.confirm_off(&word("sent", 2), &stamp()).await.unwrap();
        assert_eq!(store.note_restored().await.unwrap(), 2);
    })
    .await;
}

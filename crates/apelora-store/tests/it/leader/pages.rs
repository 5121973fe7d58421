//! Pages of what is stored, and what the leader tells: status, restarts, inventory.

use apelora_fencing::name::{Incarnation, MemberName};
use apelora_fencing::recovery::{RecoveryRow, Step};
use apelora_fencing::{ReasonCode, Write};
use apelora_store::{AuditQuery, Direction, RecordQuery};

use super::rig::{away, commit, ended, failed, intent, lead, online, record_id, secs, watched};
use super::rows::{instance, trail};
use crate::lab::on_every_engine;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pages_of_records_and_of_the_trail() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let leader = lead(&store).await;
        for member in ["a", "b", "a", "b", "a"] {
            failed(&leader, member).await;
            let life = store.stored_members().await.unwrap();
            let life = life.iter().find(|m| m.member == MemberName::from(member)).unwrap().row.incarnation;
            let record = record_id();
            let mut intent = intent(member, life.0, record);
            intent.uuid = None;
            commit(&leader, Write::Intent(intent)).await;
            let open = RecordQuery { open: true, limit: 9, ..RecordQuery::default() };
            assert_eq!(store.fence_records(&open).await.unwrap().len(), 1);
            commit(&leader, Write::Final(ended(record, ReasonCode::BmcUnreachable, false))).await;
        }
        let all = store.fence_records(&RecordQuery { limit: 9, ..RecordQuery::default() }).await.unwrap();
        assert_eq!(all.len(), 5);
        assert!(all.windows(2).all(|w| w[0].seq > w[1].seq), "newest first");
        let page = RecordQuery { before: Some(all[1].seq), limit: 2, ..RecordQuery::default() };
        assert_eq!(store.fence_records(&page).await.unwrap(), all[2..4].to_vec());
        let of_a = RecordQuery { member: Some("a".into()), limit: 9, ..RecordQuery::default() };
        assert_eq!(store.fence_records(&of_a).await.unwrap().len(), 3);
        assert!(store.fence_record(record_id()).await.unwrap().is_none());

        let refused = AuditQuery {
            outcome: Some("refused".into()),
            direction: Direction::Descending,
            limit: 3,
            ..AuditQuery::default()
        };
        let first = store.audit(&refused).await.unwrap();
        let next = AuditQuery { after: Some(first[2].seq), ..refused };
        let rest = store.audit(&next).await.unwrap();
        assert_eq!((first.len(), rest.len()), (3, 2));
        let seqs: Vec<i64> = first.iter().chain(&rest).map(|row| row.seq).collect();
        assert!(seqs.windows(2).all(|w| w[0] > w[1]), "{seqs:?}");
        assert_eq!(
            store
                .audit(&AuditQuery { member: Some("b".into()), limit: 9, ..AuditQuery::default() })
                .await
                .unwrap()
                .len(),
            2
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn status_inventory_and_restarts_are_told_with_their_age() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        assert_eq!(store.leader_status().await.unwrap(), None);
        let leader = lead(&store).await;
        let document = "{\"worker\":\"w1\",\"text\":\"é😀\"}".repeat(10_000);
        leader.publish("{}").await.unwrap();
        assert_eq!(leader.publish(&document).await, Ok(Vec::new()));
        store.shift_clock(secs(7));
        let status = store.leader_status().await.unwrap().unwrap();
        assert!(status.text == document && status.age >= secs(7) && status.age < secs(60));
        assert_eq!((status.holder, status.epoch), (leader.holder(), leader.epoch()));
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_leader_status").await, 1);

        leader.note_inventory(&"s1".into(), &[instance("web", "s1"), instance("db", "s1")]).await.unwrap();
        leader.note_inventory(&"s2".into(), &[]).await.unwrap();
        // The instance moved: it is told where it was seen last.
        leader.note_inventory(&"s2".into(), &[instance("web", "s2")]).await.unwrap();
        let told: Vec<_> = store.inventory().await.unwrap().into_iter().map(|i| i.instance).collect();
        assert_eq!(told, [instance("db", "s1"), instance("web", "s2")]);

        let mut row = RecoveryRow {
            member: "s1".into(),
            incarnation: Incarnation(1),
            project: "default".into(),
            instance: "db".into(),
            target: Some("s2".into()),
            start: true,
            step: Step::Planned,
            attempts: 0,
            detail: String::new(),
        };
        for step in [Step::Planned, Step::Moving, Step::Starting, Step::Done, Step::Done] {
            row.step = step;
            row.attempts += 1;
            leader.note_recovery(&row).await.unwrap();
            assert_eq!(store.recoveries(None).await.unwrap()[0].row, row);
        }
        assert_eq!(store.recoveries(Some(&"s2".into())).await.unwrap(), []);
        let other =
            RecoveryRow { incarnation: Incarnation(2), step: Step::GaveUp, detail: "no room".into(), ..row };
        leader.note_recovery(&other).await.unwrap();
        let recoveries = store.recoveries(Some(&"s1".into())).await.unwrap();
        assert_eq!(recoveries.len(), 2);
        let rows = trail(&store, "s1").await;
        let told: Vec<_> = rows.iter().map(|row| (row.action.as_str(), row.outcome.as_str())).collect();
        // Once for each end.
        let recovered = "cluster.member.recovered";
        assert_eq!(told, [(recovered, "failed"), (recovered, "success")]);
        assert_eq!(rows[0].summary, "db of project default, which ran on s1, was not restarted: no room.");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn restarts_of_before_go_when_a_later_life_was_proven_off_and_not_earlier() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let day = 86_400;
        let restart = |member: &str, life, step: Step| RecoveryRow {
            member: member.into(),
            incarnation: Incarnation(life),
            project: "default".into(),
            instance: step.as_str().into(),
            target: Some("s3".into()),
            start: true,
            step,
            attempts: 1,
            detail: String::new(),
        };
        let leader = lead(&store).await;
        for member in ["s1", "s2"] {
            failed(&leader, member).await;
            commit(&leader, watched(member, 1)).await;
            for step in Step::ALL {
                leader.note_recovery(&restart(member, 1, step)).await.unwrap();
            }
        }
        store.shift_clock(secs(40 * day));
        let prune = async |days: u64| store.prune_recoveries(secs(days * day)).await.unwrap();
        assert_eq!(prune(30).await, 0, "they are proven off in that life");
        // The lease of before is over.
        let leader = lead(&store).await;
        commit(&leader, online("s1")).await;
        assert_eq!(prune(30).await, 0, "whether it runs on is still asked");
        commit(&leader, away("s1")).await;
        assert_eq!(prune(30).await, 0);
        commit(&leader, watched("s1", 2)).await;
        leader.note_recovery(&restart("s1", 2, Step::Done)).await.unwrap();
        assert_eq!(prune(41).await, 0, "they are not old enough");
        assert_eq!(prune(30).await, 3);
        let left = async |member: &str| {
            let rows = store.recoveries(Some(&member.into())).await.unwrap();
            rows.into_iter().map(|stored| (stored.row.incarnation.0, stored.row.step)).collect::<Vec<_>>()
        };
        let mut open: Vec<_> =
            Step::ALL.into_iter().filter(|step| !step.is_end()).map(|step| (1, step)).collect();
        open.push((2, Step::Done));
        assert_eq!(left("s1").await, open, "what has not ended stays, however old");
        assert_eq!(left("s2").await.len(), Step::ALL.len());
        assert_eq!(prune(30).await, 0);
        assert_eq!(lab.number("SELECT COUNT(*) FROM apelora_proof").await, 3);
    })
    .await;
}

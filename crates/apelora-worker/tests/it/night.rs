//! From Online to fenced, on a database in a file, with BMCs and cluster over sockets.

use apelora_fencing::status::Status;
use apelora_store::{AuditQuery, RecordQuery};
use apelora_worker::Notice;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::whole::{Log, Whole, at_pace};

#[tokio::test(start_paused = true)]
async fn from_online_to_fenced() {
    let log = Log::default();
    let _logged = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .set_default();
    let pace = at_pace(1);
    let whole = Whole::start(|_| {}).await;
    pace.set(20);
    let mut worker = whole.work(whole.config()).await;
    worker.hear_word("elected").await;
    worker.hear_word("cluster_readable").await;
    assert_eq!(worker.get("/healthz").await, (200, "ok\n".into()));
    assert_eq!(worker.get("/readyz").await, (200, "leading, epoch 1\n".into()));
    assert_eq!(worker.get("/elsewhere").await.0, 404);
    // Four members, and the drill has read each of them.
    let published = || async {
        let row = whole.store.leader_status().await.unwrap()?;
        Some(serde_json::from_str::<Status>(&row.text).unwrap())
    };
    let all_read = async {
        loop {
            if published()
                .await
                .is_some_and(|s| s.members.len() == 4 && s.members.iter().all(|m| m.check.is_some()))
            {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(300), all_read).await.expect("every BMC is read");

    whole.site.crash("s3").unwrap();
    worker.hear_word("grace").await;
    worker.hear_word("intent").await;
    pace.set(4);
    let fenced = worker.hear_word("fenced").await;
    assert!(matches!(&fenced, Notice::Fenced { member, .. } if member.as_str() == "s3"), "{fenced:?}");

    // The truth: one server is off, and no other was touched.
    assert!(!whole.site.has_power("s3").unwrap());
    assert_eq!((whole.site.power_offs(), whole.site.bmc("s3").unwrap().power_offs()), (1, 1));
    assert!(["s1", "s2", "s4"].iter().all(|m| whole.site.is_alive(m).unwrap()));

    // The record and the audit tell it, and the figures say the same.
    let records =
        whole.store.fence_records(&RecordQuery { limit: 100, ..RecordQuery::default() }).await.unwrap();
    assert_eq!(records.len(), 1);
    let query =
        AuditQuery { limit: 1_000, action: Some("cluster.member.power_off".into()), ..AuditQuery::default() };
    let audit = whole.store.audit(&query).await.unwrap();
    let successes = audit.iter().filter(|row| row.outcome == "success").count();
    assert_eq!(successes, 1);
    let figures = worker.get("/metrics").await.1;
    for outcome in ["success", "failed", "refused"] {
        let rows = audit.iter().filter(|row| row.outcome == outcome).count();
        let line = format!("apelora_bmc_power_offs_total{{outcome=\"{outcome}\"}} {rows}\n");
        assert!(figures.contains(&line), "{line} in\n{figures}");
    }
    assert!(figures.contains("apelora_fence_proofs_total{kind=\"power-off\"} 1\n"), "{figures}");

    // It is switched on and returns: what proved it off counts no more, and nothing is sent to it again.
    pace.set(20);
    whole.site.heal("s3").unwrap();
    let online = |notice: &Notice| matches!(notice, Notice::Seen { member, status: Some(seen) } if member.as_str() == "s3" && seen.is_alive());
    worker.hear("s3 is back", online).await;
    assert_eq!(whole.site.power_offs(), 1);
    let status = whole.store.leader_status().await.unwrap().unwrap().text;
    let story = worker.story();
    worker.stop().await;
    let lease = whole.store.lease().await.unwrap();
    assert!(lease.expires_in.is_none_or(|left| left.is_zero()), "the lease was let go: {lease:?}");

    // No secret anywhere.
    let everything = [&log.text(), &status, &story, &figures, &format!("{audit:?}{records:?}")]
        .map(String::as_str)
        .concat();
    assert!(everything.contains("s3"));
    for secret in whole.site.secrets().values() {
        let hex: String = secret.bytes().map(|b| format!("{b:02x}")).collect();
        assert!(!everything.contains(secret.as_str()) && !everything.contains(&hex), "a secret was told");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_worker_takes_over_and_says_whose_turn_it_is() {
    let pace = at_pace(1);
    let whole = Whole::start(|_| {}).await;
    pace.set(20);
    let mut first = whole.work(whole.config()).await;
    first.hear_word("elected").await;
    let mut config = whole.config();
    config.host = "worker-2".into();
    let mut second = whole.work(config).await;
    let mut ready = second.get("/readyz").await;
    while ready.0 != 200 {
        assert_eq!(ready, (503, "the database has not answered yet\n".into()));
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        ready = second.get("/readyz").await;
    }
    assert_eq!(ready.1, "following\n");
    first.stop().await;
    let elected = second.hear_word("elected").await;
    assert!(matches!(elected, Notice::Elected { epoch, .. } if epoch.0 == 2));
    second.stop().await;
    drop(pace);
}

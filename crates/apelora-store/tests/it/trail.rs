//! The audit trail's filters, and the indexes behind them.

use std::time::Instant;

use apelora_store::{AuditQuery, AuditRecord, Direction, Engine, Store};

use crate::lab::{Lab, on, on_every_engine};

/// Rows of a year: three of ten are the worker's, about 12 members, the others those of 500 people, about 10,000 nodes.
/// One in a thousand failed. `early` and `late` acted only in the first and in the last hundredth.
async fn seed(lab: &Lab, rows: i64) {
    let series = match lab.engine {
        Engine::Sqlite => format!(
            "(WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {rows}) SELECT i FROM s) AS t"
        ),
        Engine::Postgres => format!("generate_series(1, {rows}) AS t(i)"),
        Engine::MariaDb => format!("(SELECT seq AS i FROM seq_1_to_{rows}) AS t"),
    };
    let hex = |number: &str| match lab.engine {
        Engine::Sqlite => format!("printf('%08x', {number})"),
        Engine::Postgres => format!("lpad(to_hex({number}), 8, '0')"),
        Engine::MariaDb => format!("lpad(lower(hex({number})), 8, '0')"),
    };
    let joined = |parts: &[&str]| match lab.engine {
        Engine::MariaDb => format!("concat({})", parts.join(", ")),
        _ => parts.join(" || "),
    };
    let uuid = |number: &str| joined(&[&hex(number), "'-0000-4000-8000-000000000000'"]);
    let at = match lab.engine {
        Engine::Sqlite => {
            "strftime('%Y-%m-%d %H:%M:%S.000000', '2026-01-01', '+' || (i * 30) || ' seconds')".to_owned()
        }
        Engine::Postgres => "TIMESTAMP '2026-01-01' + i * INTERVAL '30 seconds'".to_owned(),
        Engine::MariaDb => "'2026-01-01 00:00:00' + INTERVAL (i * 30) SECOND".to_owned(),
    };
    let is_worker = "i % 10 < 3";
    let actor = format!(
        "CASE WHEN i <= {few} THEN 'early' WHEN i > {rows} - {few} THEN 'late' WHEN {is_worker} THEN 'system:worker' \
         ELSE {person} END",
        few = rows / 100,
        person = joined(&["'u'", "(i * 7 % 500)"]),
    );
    let action = format!(
        "CASE WHEN {is_worker} THEN 'cluster.bmc.checked' WHEN i % 2 = 0 THEN 'maintenance.asserted' \
         ELSE 'maintenance.released' END"
    );
    let outcome = "CASE WHEN i % 1000 = 0 THEN 'failed' WHEN i % 50 = 1 THEN 'refused' ELSE 'success' END";
    let user = if lab.engine == Engine::MariaDb { "`user`" } else { "\"user\"" };
    let evidence = format!("'{{\"detail\": \"{}\"}}'", "evidence ".repeat(30));
    let quickly = match lab.engine {
        Engine::Sqlite => "PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; ",
        _ => "",
    };
    lab.sql(&format!(
        "{quickly}INSERT INTO apelora_audit (uuid, at, {user}, project, scope, action, outcome, node_uuid, node_name, member, \
         summary, evidence) SELECT {uuid}, {at}, {actor}, '', 'system', {action}, {outcome}, \
         CASE WHEN {is_worker} THEN NULL ELSE {node_uuid} END, CASE WHEN {is_worker} THEN NULL ELSE {node_name} END, \
         CASE WHEN {is_worker} THEN {member} ELSE NULL END, 'What was done, in one sentence.', {evidence} FROM {series}",
        uuid = uuid("i"),
        node_uuid = uuid("(i * 13 % 10000)"),
        node_name = joined(&["'node-'", "(i * 13 % 10000)"]),
        member = joined(&["'s'", "(i % 12)"]),
    ))
    .await;
    // As the servers do by themselves. Nobody does so on SQLite.
    match lab.engine {
        Engine::Sqlite => 0,
        Engine::Postgres => lab.sql("VACUUM ANALYZE apelora_audit").await,
        Engine::MariaDb => lab.sql("ANALYZE TABLE apelora_audit").await,
    };
}

const PAGE: u32 = 100;

/// A filter that is given.
type Filter = (&'static str, &'static str);

fn query(filters: &[Filter], direction: Direction, after: Option<i64>) -> AuditQuery {
    let mut query = AuditQuery { direction, after, limit: PAGE, ..AuditQuery::default() };
    for (column, wanted) in filters {
        let filter = match *column {
            "node_uuid" => &mut query.node_uuid,
            "node_name" => &mut query.node_name,
            "member" => &mut query.member,
            "user" => &mut query.user,
            "action" => &mut query.action,
            "outcome" => &mut query.outcome,
            other => panic!("{other}"),
        };
        *filter = Some((*wanted).to_owned());
    }
    query
}

fn fits(row: &AuditRecord, filters: &[Filter]) -> bool {
    filters.iter().all(|(column, wanted)| {
        let cell = match *column {
            "node_uuid" => row.node_uuid.as_deref(),
            "node_name" => row.node_name.as_deref(),
            "member" => row.member.as_deref(),
            "user" => Some(row.user.as_str()),
            "action" => Some(row.action.as_str()),
            _ => Some(row.outcome.as_str()),
        };
        cell == Some(*wanted)
    })
}

/// Each filter alone, finding much, little and nothing, and where it finds something only at one end.
const ALONE: [Filter; 16] = [
    ("outcome", "success"),
    ("outcome", "refused"),
    ("outcome", "failed"),
    ("outcome", "unknown"),
    ("user", "system:worker"),
    ("user", "u21"),
    ("user", "early"),
    ("user", "late"),
    ("user", "nobody"),
    ("node_name", "node-77"),
    ("node_name", "nowhere"),
    ("node_uuid", "0000004d-0000-4000-8000-000000000000"),
    ("member", "s2"),
    ("member", "s99"),
    ("action", "maintenance.asserted"),
    ("action", "cluster.member.fenced"),
];

/// Several at once; the first one is what SQLite goes along.
const TOGETHER: [&[Filter]; 5] = [
    &[("member", "s2"), ("outcome", "success")],
    &[("user", "system:worker"), ("outcome", "failed")],
    &[("user", "late"), ("outcome", "refused")],
    &[("node_name", "node-77"), ("action", "maintenance.asserted")],
    &[
        ("member", "s99"),
        ("user", "system:worker"),
        ("action", "cluster.bmc.checked"),
        ("outcome", "success"),
    ],
];

/// That the page is found along the filter's index, from where it begins, and is not sorted.
fn assert_seeks(engine: Engine, plan: &str, (column, wanted): Filter, after: Option<i64>) {
    let end = if engine == Engine::Postgres { "seq_idx" } else { "idx" };
    let index = format!("apelora_audit_{column}_{end}");
    let told = || format!("{engine}: {column}={wanted} after {after:?}:\n{plan}");
    assert!(plan.contains(&index), "{}", told());
    let walks = ["SCAN", "Seq Scan", "apelora_audit_pkey", "\"key\": \"PRIMARY\"", "\"ALL\""];
    assert!(!walks.iter().any(|word| plan.contains(word)), "{}", told());
    let sorts = ["Sort", "TEMP B-TREE", "filesort"].iter().any(|word| plan.contains(word));
    // PostgreSQL rather sorts what it takes to be a few pages at most: the first number is the page's, the next the sort's.
    let expected = plan.split("rows=").nth(2).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    let few = engine == Engine::Postgres && expected.is_some_and(|rows| rows < 5 * PAGE);
    assert!(!sorts || few, "{}", told());
    let seeks = match engine {
        Engine::Sqlite => plan.contains("=? AND rowid"),
        Engine::Postgres => plan.lines().any(|line| line.contains("Index Cond") && line.contains("seq")),
        Engine::MariaDb => plan.contains(&format!("\"used_key_parts\": [\"{column}\", \"seq\"]")),
    };
    assert!(seeks || after.is_none(), "{}", told());
}

async fn assert_every_filter_seeks(lab: &Lab, store: &Store, rows: i64) {
    let together: &[&[Filter]] = if lab.engine == Engine::Sqlite { &TOGETHER } else { &[] };
    for filters in ALONE.iter().map(std::slice::from_ref).chain(together.iter().copied()) {
        for direction in [Direction::Ascending, Direction::Descending] {
            for after in [None, Some(rows / 2)] {
                let plan = store.explain_audit(&query(filters, direction, after)).await.unwrap();
                assert_seeks(lab.engine, &plan, filters[0], after);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_filter_of_the_trail_is_found_along_its_index() {
    on_every_engine(|lab| async move {
        let store = lab.store().await;
        let rows = 20_000;
        seed(&lab, rows).await;
        assert_every_filter_seeks(&lab, &store, rows).await;

        let all = store.audit(&AuditQuery { limit: 1_000_000, ..AuditQuery::default() }).await.unwrap();
        assert_eq!(all.len(), 20_000);
        let alone = ALONE.iter().map(std::slice::from_ref);
        for filters in alone.chain(TOGETHER) {
            for direction in [Direction::Ascending, Direction::Descending] {
                let mut wanted: Vec<_> = all.iter().filter(|row| fits(row, filters)).cloned().collect();
                let mut found = Vec::new();
                let mut after = None;
                loop {
                    let page = AuditQuery { limit: 3_000, ..query(filters, direction, after) };
                    let page = store.audit(&page).await.unwrap();
                    let Some(last) = page.last() else { break };
                    after = Some(last.seq);
                    found.extend(page);
                }
                if direction == Direction::Descending {
                    wanted.reverse();
                }
                let (found_rows, wanted_rows) = (found.len(), wanted.len());
                assert!(found == wanted, "{filters:?} {direction:?}: {found_rows} of {wanted_rows}");
            }
        }
    })
    .await;
}

async fn million(engine: Engine) {
    on(engine, |lab| async move {
        let store = lab.store().await;
        let rows = 1_000_000;
        let began = Instant::now();
        seed(&lab, rows).await;
        println!("{engine} {rows} rows made in {:.1?}", began.elapsed());
        assert_every_filter_seeks(&lab, &store, rows).await;
        let alone = ALONE.iter().map(std::slice::from_ref);
        for filters in alone.chain(TOGETHER) {
            let mut took = Vec::new();
            for direction in [Direction::Ascending, Direction::Descending] {
                for after in [None, Some(rows / 2)] {
                    let query = query(filters, direction, after);
                    let began = Instant::now();
                    let page = store.audit(&query).await.unwrap();
                    took.push(format!("{:>8.1?}", began.elapsed()));
                    assert!(page.iter().all(|row| fits(row, filters)), "{filters:?}");
                }
            }
            let filters: Vec<_> =
                filters.iter().map(|(column, wanted)| format!("{column}={wanted}")).collect();
            println!("{engine} {:75} {}", filters.join(" "), took.join(" "));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million rows: scripts/suites/large"]
async fn a_large_trail_on_sqlite() {
    million(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million rows: scripts/suites/large"]
async fn a_large_trail_on_postgresql() {
    million(Engine::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million rows: scripts/suites/large"]
async fn a_large_trail_on_mariadb() {
    million(Engine::MariaDb).await;
}

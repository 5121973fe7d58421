//! `apelora_fence_evidence`: what was seen in the course of a record, in order. Rows are never changed.

use std::time::Duration;

use apelora_fencing::ReasonCode;
use apelora_fencing::name::RecordId;
use apelora_fencing::proof::{PowerOffProof, PowerWord, SendAnswer};
use apelora_fencing::write::{Evidence, Intent, Saw};
use sea_query::{Expr, ExprTrait, Order, Query};

use super::EvidenceRow;
use super::tx::Fenced;
use crate::Kind;
use crate::engine::clock::micros;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::table::{CHUNK, Reader};

const TABLE: &str = "apelora_fence_evidence";

const COLUMNS: [(&str, Kind); 5] = [
    ("at", Kind::Int),
    ("offset_ms", Kind::Int),
    ("kind", Kind::Text),
    ("outcome", Kind::Text),
    ("detail", Kind::Text),
];

/// Adapters bound what they say; this bounds it again, in bytes.
const DETAIL_MAX: usize = 2_000;

/// A row to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) offset: Duration,
    pub(super) kind: &'static str,
    pub(super) outcome: String,
    pub(super) detail: String,
}

impl Item {
    /// What an intent stands on.
    pub(super) fn of_intent(intent: &Intent) -> Self {
        let numbers = &intent.numbers;
        let second = intent.witnesses.1.as_ref().map_or("nobody", |second| second.as_str());
        Self {
            offset: Duration::ZERO,
            kind: "incus",
            outcome: "offline".to_owned(),
            detail: format!(
                "Offline for {} s; {} of {} members Offline; {} answered, {second} confirmed",
                numbers.offline_for.as_secs(),
                numbers.members_offline,
                numbers.members_total,
                intent.witnesses.0,
            ),
        }
    }

    /// What was seen.
    pub(super) fn of(seen: &Evidence) -> Self {
        let (kind, outcome) = match seen.what {
            Saw::Opened => ("identity", "opened".to_owned()),
            Saw::Power(power) => ("power", power.as_str().to_owned()),
            Saw::Trouble(reason) => (trouble_kind(reason), reason.as_str().to_owned()),
            Saw::Sent(answer) => ("send", answer_word(answer)),
        };
        Self { offset: seen.offset, kind, outcome, detail: cut(&seen.detail).to_owned() }
    }
}

/// Another server's answer is about identity, anything else about power.
fn trouble_kind(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::UuidMissing
        | ReasonCode::UuidInvalid
        | ReasonCode::UuidMismatch
        | ReasonCode::UuidAmbiguous
        | ReasonCode::UuidChanged => "identity",
        _ => "power",
    }
}

fn answer_word(answer: SendAnswer) -> String {
    match answer {
        SendAnswer::Accepted => "accepted".to_owned(),
        SendAnswer::Declined => "declined".to_owned(),
        SendAnswer::Rejected(reason) => format!("rejected: {reason}"),
        SendAnswer::Unanswered => "unanswered".to_owned(),
        SendAnswer::NotSent(reason) => format!("not sent: {reason}"),
    }
}

fn cut(detail: &str) -> &str {
    detail.get(..detail.floor_char_boundary(DETAIL_MAX)).unwrap_or(detail)
}

/// When the two Off readings of a proof were made, as offsets from where the evidence counts. The second is the last
/// Off of the evidence; the first lies before it by the distance of the two.
pub(super) fn off_readings(proof: &PowerOffProof, evidence: &[Evidence]) -> Option<(Duration, Duration)> {
    let second = evidence.iter().rev().find(|seen| seen.what == Saw::Power(PowerWord::Off))?.offset;
    let (first_off, second_off) = proof.readings();
    Some((second.saturating_sub(second_off.since(first_off)), second))
}

/// How many readings said Off, and how many something else or nothing.
pub(super) fn count(evidence: &[Evidence]) -> (u32, u32) {
    let of = |wanted: fn(&Saw) -> bool| evidence.iter().filter(|seen| wanted(&seen.what)).count();
    let off = of(|what| *what == Saw::Power(PowerWord::Off));
    let read = of(|what| matches!(what, Saw::Power(_) | Saw::Trouble(_)));
    let small = |n| u32::try_from(n).unwrap_or(u32::MAX);
    (small(off), small(read - off))
}

/// Adds rows to a record from its `first` place on; their offsets count from `base`.
pub(super) async fn insert(
    tx: &mut Fenced,
    record: RecordId,
    provider: &str,
    base: DbTime,
    first: usize,
    items: &[Item],
) -> Result<(), Fault> {
    for (chunk, items) in items.chunks(CHUNK).enumerate() {
        let mut insert = Query::insert();
        insert
            .into_table(TABLE)
            .columns(["record_id", "number", "provider"].into_iter().chain(COLUMNS.map(|(name, _)| name)));
        for (i, item) in items.iter().enumerate() {
            let number = i64::try_from(first + chunk * CHUNK + i).unwrap_or(i64::MAX);
            insert
                .values([
                    record.0.to_string().into(),
                    number.into(),
                    provider.into(),
                    base.after(item.offset).0.into(),
                    (micros(item.offset) / 1_000).into(),
                    item.kind.into(),
                    item.outcome.clone().into(),
                    item.detail.clone().into(),
                ])
                .map_err(|e| Fault::new(Class::Other, e))?;
        }
        let conn = tx.conn();
        conn.execute(conn.engine().build(&insert)).await?;
    }
    Ok(())
}

/// How many rows a record has.
pub(super) async fn length(tx: &mut Fenced, record: RecordId) -> Result<usize, Fault> {
    let select = Query::select()
        .expr(Expr::col("seq").count())
        .from(TABLE)
        .and_where(Expr::col("record_id").eq(record.0.to_string()))
        .take();
    let conn = tx.conn();
    let rows = conn.fetch(conn.engine().build(&select), &[Kind::Int]).await?;
    let count = rows.into_iter().next().map_or(Ok(0), |row| Reader::new(TABLE, row).count())?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The rows of a record, in order.
pub(super) async fn of_record(conn: &mut Conn, record: RecordId) -> Result<Vec<EvidenceRow>, Fault> {
    let select = Query::select()
        .columns(COLUMNS.map(|(name, _)| name))
        .from(TABLE)
        .and_where(Expr::col("record_id").eq(record.0.to_string()))
        .order_by("number", Order::Asc)
        .take();
    let rows = conn.fetch(conn.engine().build(&select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok(EvidenceRow {
                at: DbTime(row.int()?).utc(),
                offset: Duration::from_millis(row.count()?),
                kind: row.text()?,
                outcome: row.text()?,
                detail: row.text()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(what: Saw) -> Evidence {
        Evidence { offset: Duration::ZERO, what, detail: String::new() }
    }

    #[test]
    fn readings_are_counted_and_details_are_bounded() {
        let seen = [
            saw(Saw::Opened),
            saw(Saw::Power(PowerWord::On)),
            saw(Saw::Sent(SendAnswer::Accepted)),
            saw(Saw::Power(PowerWord::Off)),
            saw(Saw::Trouble(ReasonCode::Deadline)),
            saw(Saw::Power(PowerWord::Off)),
        ];
        assert_eq!(count(&seen), (2, 2));
        let long =
            Evidence { detail: "é".repeat(DETAIL_MAX), ..saw(Saw::Trouble(ReasonCode::UuidMismatch)) };
        let item = Item::of(&long);
        assert_eq!(
            (item.kind, item.outcome.as_str(), item.detail.len()),
            ("identity", "uuid_mismatch", DETAIL_MAX)
        );
        assert!(answer_word(SendAnswer::Rejected(ReasonCode::SystemPathMismatch)).len() <= 64);
        for reason in ReasonCode::ALL {
            assert!(answer_word(SendAnswer::NotSent(*reason)).len() <= 64, "{reason}");
        }
    }
}

//! `apelora_proof`: what ended which life of which member. Rows are never removed.

use apelora_fencing::name::{Incarnation, MemberName, RecordId};
use apelora_fencing::record::ProofKind;
use sea_query::{Expr, ExprTrait, Order, Query, SelectStatement};
use serde_json::Value;
use uuid::Uuid;

use super::tx::{Fenced, Tx, number};
use super::{ProofQuery, StoredProof, Voided};
use crate::Kind;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::table::Reader;

pub(super) const TABLE: &str = "apelora_proof";

const COLUMNS: [(&str, Kind); 10] = [
    ("seq", Kind::Int),
    ("id", Kind::Text),
    ("member", Kind::Text),
    ("incarnation", Kind::Int),
    ("kind", Kind::Text),
    ("record_id", Kind::Text),
    ("evidence", Kind::Json),
    ("at", Kind::Int),
    ("recovery_started", Kind::Bool),
    ("voided", Kind::Text),
];

/// The latest proof of a member that was not withdrawn.
#[derive(Debug, Clone)]
pub(super) struct LatestProof {
    pub(super) seq: i64,
    pub(super) id: Uuid,
    pub(super) member: MemberName,
    pub(super) incarnation: Incarnation,
    pub(super) kind: ProofKind,
    pub(super) record: Option<RecordId>,
    pub(super) evidence: String,
    pub(super) at: DbTime,
    pub(super) recovery_started: bool,
    voided: Option<Voided>,
}

impl LatestProof {
    /// As it is told to others.
    pub(super) fn told(self, now: DbTime) -> StoredProof {
        StoredProof {
            seq: self.seq,
            id: self.id,
            member: self.member,
            incarnation: self.incarnation,
            kind: self.kind,
            record: self.record,
            evidence: self.evidence,
            at: self.at.utc(),
            age: now.since(self.at),
            recovery_started: self.recovery_started,
            voided: self.voided,
        }
    }
}

/// A proof to be stored.
#[derive(Debug, Clone)]
pub(super) struct NewRow<'a> {
    pub(super) id: Uuid,
    pub(super) member: &'a MemberName,
    pub(super) incarnation: Incarnation,
    pub(super) kind: ProofKind,
    pub(super) record: Option<RecordId>,
    pub(super) evidence: &'a Value,
    pub(super) recovery_started: bool,
}

/// What a kind means, as part of a sentence.
pub(super) const fn kind_sentence(kind: ProofKind) -> &'static str {
    match kind {
        ProofKind::LeaseDead => "its storage lease is dead",
        ProofKind::Person => "a person confirmed that it is off",
        ProofKind::PowerOff => "its BMC reads Off",
    }
}

fn kind_of(word: &str) -> Result<ProofKind, Fault> {
    ProofKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == word)
        .ok_or_else(|| Fault::corrupt(format!("{TABLE}: '{word}' is no kind of proof")))
}

fn voided_of(word: &str) -> Result<Voided, Fault> {
    match word {
        "withdrawn" => Ok(Voided::Withdrawn),
        "replaced" => Ok(Voided::Replaced),
        other => Err(Fault::corrupt(format!("{TABLE}: voided '{other}' is not known"))),
    }
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    select
}

async fn fetch(conn: &mut Conn, select: &SelectStatement) -> Result<Vec<LatestProof>, Fault> {
    let rows = conn.fetch(conn.engine().build(select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            Ok(LatestProof {
                seq: row.int()?,
                id: row.uuid()?,
                member: row.text()?.as_str().into(),
                incarnation: Incarnation(row.count()?),
                kind: kind_of(&row.text()?)?,
                record: row.opt_uuid()?.map(RecordId),
                evidence: row.text()?,
                at: DbTime(row.int()?),
                recovery_started: row.bool(),
                voided: row.opt_text().map(|word| voided_of(&word)).transpose()?,
            })
        })
        .collect()
}

/// The latest proofs of these members, or of all.
pub(super) async fn latest(
    conn: &mut Conn,
    names: Option<&[&MemberName]>,
) -> Result<Vec<LatestProof>, Fault> {
    let mut select = select();
    select.and_where(Expr::col("latest").eq(1));
    if let Some(names) = names {
        select.and_where(Expr::col("member").is_in(names.iter().map(|name| name.as_str())));
    }
    fetch(conn, &select).await
}

/// A page of all proofs, newest first.
pub(super) async fn list(conn: &mut Conn, query: &ProofQuery) -> Result<Vec<LatestProof>, Fault> {
    let mut select = select();
    select.and_where_option(query.member.as_ref().map(|m| Expr::col("member").eq(m.as_str())));
    select.and_where_option(query.before.map(|seq| Expr::col("seq").lt(seq)));
    select.order_by("seq", Order::Desc).limit(u64::from(query.limit));
    fetch(conn, &select).await
}

/// Stores a proof of a member that is locked, in place of its latest one. That one is void if it is of the same life,
/// and over if not.
pub(super) async fn store(
    tx: &mut Tx<'_>,
    new: &NewRow<'_>,
    before: Option<&LatestProof>,
) -> Result<(), Fault> {
    if let Some(before) = before {
        let replaced = before.incarnation == new.incarnation;
        retire(tx, before, replaced.then_some("replaced")).await?;
    }
    let mut insert = Query::insert();
    insert.into_table(TABLE).columns([
        "id",
        "member",
        "incarnation",
        "kind",
        "record_id",
        "evidence",
        "at",
        "recovery_started",
        "latest",
    ]);
    insert
        .values([
            new.id.to_string().into(),
            new.member.as_str().into(),
            number(new.incarnation.0).into(),
            new.kind.as_str().into(),
            new.record.map(|r| r.0.to_string()).into(),
            new.evidence.to_string().into(),
            tx.now().0.into(),
            new.recovery_started.into(),
            1_i64.into(),
        ])
        .map_err(|e| Fault::new(Class::Other, e))?;
    let conn = tx.conn();
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

/// Withdraws the latest proof of a member that is locked.
pub(super) async fn withdraw(tx: &mut Fenced, proof: &LatestProof) -> Result<(), Fault> {
    retire(&mut tx.tx(), proof, Some("withdrawn")).await
}

async fn retire(tx: &mut Tx<'_>, proof: &LatestProof, why: Option<&'static str>) -> Result<(), Fault> {
    let mut update = Query::update();
    update.table(TABLE).value("latest", None::<i64>).and_where(Expr::col("seq").eq(proof.seq));
    if let Some(why) = why {
        update.value("voided", why).value("voided_at", tx.now().0);
    }
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// Notes that a restart builds on the proof of a member that is locked.
pub(super) async fn start_recovery(tx: &mut Fenced, proof: &LatestProof) -> Result<(), Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("recovery_started", true)
        .and_where(Expr::col("seq").eq(proof.seq))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

//! `apelora_member`: what the leader saw of each member, and what is to be done on its node.

use std::collections::{BTreeMap, BTreeSet};

use apelora_fencing::lease::LeaseSeen;
use apelora_fencing::memory::{self, StoredMember};
use apelora_fencing::name::{Incarnation, MemberName};
use sea_query::{Expr, ExprTrait, Query, SelectStatement};
use serde_json::{Value, json};

use super::proof::{self, LatestProof};
use super::tx::{Fenced, Level, Tx, number};
use crate::Kind;
use crate::engine::{Class, Conn, DbTime, Fault};
use crate::table::{CHUNK, Reader};

const TABLE: &str = "apelora_member";

const COLUMNS: [(&str, Kind); 9] = [
    ("member", Kind::Text),
    ("incarnation", Kind::Int),
    ("online", Kind::Bool),
    ("last_online_at", Kind::Int),
    ("leases", Kind::Json),
    ("distrusted", Kind::Bool),
    ("fault_incarnation", Kind::Int),
    ("fault_ref", Kind::Text),
    ("fault_state", Kind::Text),
];

/// A member as it is stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    /// What decisions are made on. Its `held` is false: that is read from the node.
    pub(super) model: StoredMember,
    /// The proof in it.
    pub(super) proof: Option<LatestProof>,
    /// The entry on its node.
    pub(super) fault: FaultMark,
}

/// How the `fault` entry on the member's node stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FaultMark {
    /// For which life one was asserted, or was to be. Once for each life: a person who releases it is not fought.
    pub(super) incarnation: Option<Incarnation>,
    /// What it carries as `extra.fence_record`: the record's id, or the proof's where there was no record.
    pub(super) names: Option<String>,
    /// How far it is.
    pub(super) state: Option<FaultState>,
}

/// How far the `fault` entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultState {
    /// To be asserted: the node was busy.
    Due,
    /// Asserted.
    Asserted,
    /// To be released: the node was busy.
    ReleaseDue,
}

impl FaultState {
    const ALL: [Self; 3] = [Self::Due, Self::Asserted, Self::ReleaseDue];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Asserted => "asserted",
            Self::ReleaseDue => "release_due",
        }
    }
}

fn select() -> SelectStatement {
    let mut select = Query::select();
    select.columns(COLUMNS.map(|(name, _)| name)).from(TABLE);
    select
}

async fn fetch(conn: &mut Conn, select: &SelectStatement) -> Result<BTreeMap<MemberName, Member>, Fault> {
    let rows = conn.fetch(conn.engine().build(select), &COLUMNS.map(|(_, kind)| kind)).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = Reader::new(TABLE, row);
            let name = MemberName::from(row.text()?.as_str());
            let model = StoredMember {
                incarnation: Incarnation(row.count()?),
                online: row.bool(),
                last_online_at: row.opt_int().map(|at| DbTime(at).as_duration()),
                leases: row.opt_text().map_or(Ok(Vec::new()), |text| leases(&text))?,
                distrusted: row.bool(),
                ..StoredMember::default()
            };
            let fault = FaultMark {
                incarnation: row.opt_count().map(Incarnation),
                names: row.opt_text(),
                state: row
                    .opt_text()
                    .and_then(|word| FaultState::ALL.into_iter().find(|state| state.as_str() == word)),
            };
            Ok((name, Member { model, proof: None, fault }))
        })
        .collect()
}

fn with_proofs(members: &mut BTreeMap<MemberName, Member>, proofs: Vec<LatestProof>) {
    for proof in proofs {
        if let Some(member) = members.get_mut(&proof.member) {
            member.model.proof = Some(memory::StoredProof {
                kind: proof.kind,
                incarnation: proof.incarnation,
                at: proof.at.as_duration(),
                recovery_started: proof.recovery_started,
            });
            member.proof = Some(proof);
        }
    }
}

/// Every member.
pub(super) async fn read_all(conn: &mut Conn) -> Result<BTreeMap<MemberName, Member>, Fault> {
    let mut members = fetch(conn, &select()).await?;
    with_proofs(&mut members, proof::latest(conn, None).await?);
    Ok(members)
}

/// Locks these members by writing to them, and reads those that there are.
pub(super) async fn lock(
    tx: &mut Tx<'_>,
    names: &BTreeSet<MemberName>,
) -> Result<BTreeMap<MemberName, Member>, Fault> {
    let names: Vec<&MemberName> = names.iter().collect();
    let mut members = BTreeMap::new();
    for names in names.chunks(CHUNK) {
        let conn = tx.lock(Level::Member);
        let engine = conn.engine();
        let are_these = || Expr::col("member").is_in(names.iter().map(|name| name.as_str()));
        let update = Query::update()
            .table(TABLE)
            .value("touched", Expr::col("touched").add(1))
            .and_where(are_these())
            .take();
        conn.execute(engine.build(&update)).await?;
        members.append(&mut fetch(conn, &select().and_where(are_these()).take()).await?);
        with_proofs(&mut members, proof::latest(conn, Some(names)).await?);
    }
    Ok(members)
}

/// The members with something to be done on their node, a few of them.
pub(super) async fn with_fault_due(conn: &mut Conn, limit: u64) -> Result<Vec<MemberName>, Fault> {
    let due = [FaultState::Due, FaultState::ReleaseDue].map(FaultState::as_str);
    let select = select()
        .and_where(Expr::col("fault_state").is_in(due))
        .order_by("member", sea_query::Order::Asc)
        .limit(limit)
        .take();
    Ok(fetch(conn, &select).await?.into_keys().collect())
}

/// Makes the member's row.
pub(super) async fn insert(tx: &mut Tx<'_>, name: &MemberName, to: &StoredMember) -> Result<(), Fault> {
    let mut insert = Query::insert();
    insert.into_table(TABLE).columns([
        "member",
        "incarnation",
        "online",
        "last_online_at",
        "leases",
        "distrusted",
        "touched",
    ]);
    insert
        .values([
            name.as_str().into(),
            number(to.incarnation.0).into(),
            to.online.into(),
            last_online(to).into(),
            leases_text(&to.leases).into(),
            to.distrusted.into(),
            1_i64.into(),
        ])
        .map_err(|e| Fault::new(Class::Other, e))?;
    let conn = tx.lock(Level::Member);
    conn.execute(conn.engine().build(&insert)).await.map(drop)
}

/// Ends the life of every member, as if each had been seen Online since; the number of members.
pub(super) async fn end_lives(conn: &mut Conn) -> Result<u64, Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("incarnation", Expr::col("incarnation").add(1))
        .value("touched", Expr::col("touched").add(1))
        .take();
    conn.execute(conn.engine().build(&update)).await
}

/// What the leader saw of a member that is locked.
pub(super) async fn observe(tx: &mut Fenced, name: &MemberName, to: &StoredMember) -> Result<(), Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("incarnation", number(to.incarnation.0))
        .value("online", to.online)
        .value("last_online_at", last_online(to))
        .value("leases", leases_text(&to.leases))
        .value("distrusted", to.distrusted)
        .and_where(Expr::col("member").eq(name.as_str()))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// Trusts the mapping of a member that is locked.
pub(super) async fn trust(tx: &mut Tx<'_>, name: &MemberName) -> Result<(), Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("distrusted", false)
        .and_where(Expr::col("member").eq(name.as_str()))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

/// Writes how the entry on the node of a member that is locked stands.
pub(super) async fn mark_fault(tx: &mut Tx<'_>, name: &MemberName, mark: &FaultMark) -> Result<(), Fault> {
    let update = Query::update()
        .table(TABLE)
        .value("fault_incarnation", mark.incarnation.map(|i| number(i.0)))
        .value("fault_ref", mark.names.clone())
        .value("fault_state", mark.state.map(FaultState::as_str))
        .and_where(Expr::col("member").eq(name.as_str()))
        .take();
    let conn = tx.conn();
    conn.execute(conn.engine().build(&update)).await.map(drop)
}

fn last_online(member: &StoredMember) -> Option<i64> {
    member.last_online_at.map(|at| DbTime::from_duration(at).0)
}

fn leases_text(leases: &[LeaseSeen]) -> Option<String> {
    let leases: Vec<Value> = leases.iter().map(lease_json).collect();
    (!leases.is_empty()).then(|| Value::from(leases).to_string())
}

/// A lease as it stands in rows and evidence.
pub(super) fn lease_json(lease: &LeaseSeen) -> Value {
    let LeaseSeen { lockspace, host_id, generation, owner_name } = lease;
    json!({ "lockspace": lockspace, "host_id": host_id, "generation": generation, "owner_name": owner_name })
}

fn leases(text: &str) -> Result<Vec<LeaseSeen>, Fault> {
    let corrupt = |what: &str| Fault::corrupt(format!("{TABLE}: leases: {what}"));
    let leases: Vec<Value> = serde_json::from_str(text).map_err(|e| corrupt(&e.to_string()))?;
    let lease = |value: &Value| {
        Some(LeaseSeen {
            lockspace: value["lockspace"].as_str()?.to_owned(),
            host_id: value["host_id"].as_u64()?,
            generation: value["generation"].as_u64()?,
            owner_name: value["owner_name"].as_str()?.to_owned(),
        })
    };
    leases.iter().map(|value| lease(value).ok_or_else(|| corrupt("a part is missing"))).collect()
}
